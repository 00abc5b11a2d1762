//! The forms of output that are programmed: columns, paths and templates.

use calico_core::resource::{Kind, ResourceKey};

use crate::common::{Cluster, golden};

fn cluster() -> Cluster {
    let cluster = Cluster::new();
    cluster.done("apply -f -", include_str!("../cluster.yaml"));
    cluster
}

fn shown(line: &str, format: &str) -> String {
    let run = cluster().type_with(&format!("get {line} -o"), &[format], "");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{line} {format}: {run:?}");
    run.stdout
}

#[test]
fn chosen_columns() {
    for (line, columns, expected) in [
        ("ippools", "CIDR,NAME", "CIDR           NAME\n10.65.0.0/16   pool-1\n\n"),
        ("wep -A", "namespace, orchestrator", "NAMESPACE   ORCHESTRATOR\nshop        cni\n\n"),
        ("np -n shop", "NAME,ORDER", "NAME           ORDER\nsecurity.web   12.5\n\n"),
        ("gnp allow-dns", "SELECTOR", "SELECTOR\nall()\n\n"),
    ] {
        assert_eq!(shown(line, &format!("custom-columns={columns}")), expected, "{line} {columns}");
    }
    golden("columns-unknown.txt", &cluster().type_in("get np -n shop -o custom-columns=NAME,CIDR", "").transcript());
    assert_eq!(cluster().type_in("get np -o custom-columns=", "").code, 2);
}

/// A node without a number of its own has the cluster's, whatever that is; one without BGP has none.
#[test]
fn an_as_number_that_a_node_inherits() {
    let cluster = cluster();
    cluster.done("apply -f -", "{apiVersion: projectcalico.org/v3, kind: Node, metadata: {name: host-3}}");
    let numbers = |cluster: &Cluster| cluster.type_with("get nodes -o", &["custom-columns=NAME,ASN"], "").stdout;
    assert_eq!(numbers(&cluster), "NAME     ASN\nhost-1   64512\nhost-2   (64512)\nhost-3\n\n");
    let configuration = "{apiVersion: projectcalico.org/v3, kind: BGPConfiguration, metadata: {name: default}, \
                         spec: {asNumber: 64999}}";
    cluster.done("apply -f -", configuration);
    assert_eq!(numbers(&cluster), "NAME     ASN\nhost-1   64512\nhost-2   (64999)\nhost-3\n\n");
    assert!(cluster.done("get node host-2 -o wide", "").contains("(64999)"));
    let key = ResourceKey::cluster(Kind::BgpConfiguration, "default");
    cluster.store.inject(key, b"{\"spec\": 5}");
    assert!(cluster.done("get node host-2 -o wide", "").contains("(unknown)"));
}

#[test]
fn paths() {
    for (line, path, expected) in [
        ("nodes", "{.items[*].metadata.name}", "host-1 host-2"),
        ("node host-1", "{.metadata.name} {.spec.bgp.asNumber}", "host-1 64512"),
        ("node host-1 host-2", "{range .items[*]}{.metadata.name}{\"\\n\"}{end}", "host-1\nhost-2\n"),
        ("ippools,tiers", "{.items[?(@.metadata.name==\"security\")].kind} {.items[*].spec.cidr}", "Tier 10.65.0.0/16"),
        ("gnp", "{.items[?(@.spec.order<11)].spec.egress[-1].destination.notPorts}", "[80,\"443:445\",\"http\"]"),
        ("hep", "{.items[*].metadata.name}", ""),
    ] {
        assert_eq!(shown(line, &format!("jsonpath={path}")), expected, "{line} {path}");
    }
    golden("path-syntax.txt", &cluster().type_in("get nodes -o jsonpath={.items[x]}", "").transcript());
    golden("path-index.txt", &cluster().type_in("get nodes -o jsonpath={.items[7]}", "").transcript());
}

#[test]
fn templates() {
    let names = "{{range .}}{{range .Items}}{{.ObjectMeta.Name}} {{join .Spec.Nets \",\"}};{{end}}{{end}}";
    for (line, template, expected) in [
        ("netsets -A", names, "partners 192.0.2.0/24,198.51.100.7;"),
        (
            "node host-2",
            "{{range .}}{{.Name}} {{if .Spec.BGP.ASNumber}}own{{else}}({{config \"asnumber\"}}){{end}}{{end}}",
            "host-2 (64512)",
        ),
        ("nodes,ippools", "{{range .}}{{.Kind}} {{len .Items}}\n{{end}}", "NodeList 2\nIPPoolList 1\n"),
    ] {
        assert_eq!(shown(line, &format!("go-template={template}")), expected, "{line} {template}");
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("names.tmpl");
    std::fs::write(&file, names).unwrap();
    let from_file = format!("go-template-file={}", file.display());
    assert_eq!(shown("netsets -A", &from_file), "partners 192.0.2.0/24,198.51.100.7;");
    let run = cluster().type_with("get nodes -o", &["go-template={{range .}}\n{{wibble .}}{{end}}"], "");
    golden("template-syntax.txt", &run.transcript());
    let run = cluster().type_with("get nodes -o", &["go-template={{.Kind}}"], "");
    golden("template-field.txt", &run.transcript());
    assert_eq!(cluster().type_in("get nodes -o go-template-file=/nonexistent", "").code, 2);
}

#[test]
fn the_clusters_number_is_told_to_templates() {
    let cluster = cluster();
    cluster.done(
        "apply -f -",
        "apiVersion: projectcalico.org/v3\nkind: BGPConfiguration\nmetadata: {name: default}\nspec: {asNumber: 64999}\n",
    );
    assert_eq!(cluster.type_with("get nodes -o", &["go-template={{config \"asnumber\"}}"], "").stdout, "64999");
}

#[test]
fn nothing_that_is_stored_moves_the_cursor() {
    let cluster = cluster();
    let document = "apiVersion: projectcalico.org/v3\nkind: GlobalNetworkSet\nmetadata: {name: odd, annotations: {a: \"\\e[2J\\nb\"}}\n";
    cluster.done("apply -f -", document);
    for format in ["jsonpath={.metadata.annotations.a}{\"\\t\"}", "go-template={{range .}}{{.Annotations.a}}\t{{end}}"]
    {
        assert_eq!(cluster.type_with("get gnetsets odd -o", &[format], "").stdout, "\u{fffd}[2J\nb\t", "{format}");
    }
}
