//! `policy explain`, `policy matrix` and `policy diff`: of a datastore, and of files.

use std::fmt::Write as _;
use std::path::Path;

use crate::common::{Cluster, Run, TERMINAL, golden, type_in_environment};
use calico_core::resource::{Kind, ResourceKey};
use serde_json::Value;

const CLUSTER: &str = include_str!("../policy/cluster.yaml");
const CHANGE: &str = include_str!("../policy/change.yaml");

/// A file beside this one.
fn file(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/policy").join(name).display().to_string()
}

/// Asks files alone: there is no datastore.
fn offline(line: &str) -> Run {
    type_in_environment(line, &[("CALICO_DATASTORE_PATH", "/nonexistent/calico.db")])
}

/// With the sample cluster as files.
fn of_files(line: &str) -> Run {
    offline(&format!("{line} -f {}", file("cluster.yaml")))
}

fn cluster() -> Cluster {
    let cluster = Cluster::new();
    let run = cluster.type_in("apply -f -", CLUSTER);
    assert_eq!(run.code, 0, "{run:?}");
    cluster
}

fn json(run: &Run) -> Value {
    assert_eq!(run.code, 0, "{run:?}");
    serde_json::from_str(&run.stdout).unwrap()
}

#[test]
fn one_flow_and_why() {
    for (name, line) in [
        ("allowed", "--from shop/web --to shop/db:5432"),
        ("denied", "--from shop/worker-0 --to shop/db-0:5432"),
        ("network-set", "--from 192.0.2.9 --to shop/db-0 --protocol udp --port 53"),
        ("http", "--from shop/worker-0 --to shop/db-0 --port 8080"),
        ("outsider", "--from 198.51.100.1 --to 10.0.2.3:22"),
        ("host", "--from 10.0.1.1 --to hep/host-2-eth0:80"),
        ("own-host", "--from shop/web-7d9-c --to hep/host-2-eth0:443"),
        ("failsafe", "--from 192.0.2.9 --to hep/host-2-eth0:22"),
        ("icmp", "--from shop/worker-0 --to shop/db-0 --icmp-type 8 --ip-version 6"),
        ("nobody", "--from 192.0.2.9 --to 198.51.100.1:443"),
    ] {
        golden(&format!("policy-explain-{name}.txt"), &of_files(&format!("policy explain {line}")).transcript());
    }
}

/// Which of a host's interfaces a flow passes is told by its address, or by whoever asks.
#[test]
fn host_endpoints_of_one_host() {
    let endpoint = |name: &str, rest: &str| {
        format!(
            "---\napiVersion: projectcalico.org/v3\nkind: HostEndpoint\nmetadata: {{name: {name}, labels: {{role: {name}}}}}\nspec: {{node: host-1, {rest}}}\n"
        )
    };
    let closed = |name: &str| {
        format!(
            "---\napiVersion: projectcalico.org/v3\nkind: GlobalNetworkPolicy\nmetadata: {{name: {name}}}\nspec: {{selector: role == '{name}', \
             applyOnForward: true, types: [Ingress], ingress: [{{action: Deny}}]}}\n"
        )
    };
    let documents = [
        CLUSTER.to_owned(),
        endpoint("eth1", "interfaceName: eth1"),
        endpoint("eth2", "interfaceName: eth2"),
        closed("eth2"),
        endpoint("all", "interfaceName: '*'"),
        closed("all"),
    ];
    let ask = |documents: &str| {
        Cluster::new().type_in("policy explain --from shop/db-0 --to shop/web-7d9-a:80 -f -", documents)
    };
    golden("policy-hosts.txt", &ask(&documents.concat()).transcript());
    let with_address =
        documents.concat().replace("interfaceName: eth2", "interfaceName: eth2, expectedIPs: [172.16.0.1]");
    golden("policy-hosts-address.txt", &ask(&with_address).transcript());
}

#[test]
fn one_flow_for_programs() {
    let line = "policy explain --from shop/worker-0 --to shop/db-0:5432 -o";
    golden("policy-explain.json", &of_files(&format!("{line} json")).stdout);
    golden("policy-explain.yaml", &of_files(&format!("{line} yaml")).stdout);
    let answer = json(&of_files("policy explain --from shop/web --to shop/db:5432 -o json"));
    assert_eq!(answer["verdict"], "allow");
    let ends = answer["ends"].as_array().unwrap();
    let end = |index: usize| (ends[index]["endpoint"].as_str().unwrap(), ends[index]["direction"].as_str().unwrap());
    assert_eq!((end(0), end(1)), (("shop/web-7d9-a", "egress"), ("shop/db-0", "ingress")));
    let steps = ends[1]["steps"].as_array().unwrap();
    // The rule's place in the document, though the graph leaves out the one before it.
    assert_eq!(steps.last().unwrap()["rule"], "spec.ingress[2]");
    let left_out = steps.iter().find(|step| step["rules"][0]["rule"] == "spec.ingress[0]").unwrap();
    assert!(left_out["rules"][0]["because"].as_str().unwrap().contains("http"), "{left_out}");
}

#[test]
fn policies_of_kubernetes() {
    let files = file("kubernetes.yaml");
    let mut told = String::new();
    for line in [
        "policy explain --from front/web --to back/api:8080",
        "policy explain --from front/web --to back/api:81",
        "policy explain --from 192.0.2.7 --to back/api:81",
        "policy matrix --ports tcp/8080,tcp/81",
    ] {
        writeln!(told, "$ {line}\n{}", offline(&format!("{line} -f {files}")).transcript()).unwrap();
    }
    golden("policy-kubernetes.txt", &told);
    // The rule's place in Kubernetes' document, of which one rule makes several of ours.
    let answer = json(&offline(&format!("policy explain --from front/web --to back/api:8080 -o json -f {files}")));
    let step = answer.pointer("/ends/1/steps").and_then(Value::as_array).unwrap().last().unwrap();
    assert_eq!((&step["kind"], &step["rule"]), (&"KubernetesNetworkPolicy".into(), &"spec.ingress[1]".into()));
}

#[test]
fn services_and_staged_policies_of_kubernetes() {
    let line = "policy explain --from front/web --to back/api:8080";
    let files = format!("-f {} -f {}", file("kubernetes.yaml"), file("services.yaml"));
    golden("policy-services.txt", &offline(&format!("{line} {files}")).transcript());
}

#[test]
fn who_reaches_whom() {
    golden("policy-matrix.txt", &of_files("policy matrix --ports tcp/5432,tcp/22,udp/53").transcript());
    golden("policy-matrix-usual.txt", &of_files("policy matrix").transcript());
    let line = "policy matrix --from shop/web,192.0.2.9,hep/host-2-eth0 --to shop/ --ports tcp/5432,icmp";
    golden("policy-matrix-chosen.txt", &of_files(line).transcript());
    golden(
        "policy-matrix.json",
        &of_files("policy matrix --from shop/web --to shop/db-0 --ports tcp/5432,icmp -o json").stdout,
    );
    golden(
        "policy-matrix.yaml",
        &of_files("policy matrix --from shop/web --to shop/db-0 --ports tcp/5432 -o yaml").stdout,
    );
    let all = json(&of_files("policy matrix --ports tcp/80,udp/53 -o json"));
    let all = all.as_array().unwrap();
    assert_eq!(all.len(), 5 * 4 * 2, "every pair, and none with itself");
    assert!(all.iter().all(|flow| flow["from"] != flow["to"]));
    let none = of_files("policy matrix --from shop/db-0 --to shop/db-0 --ports icmp -o json");
    assert_eq!((none.code, none.stdout.as_str()), (0, "[]\n"));
}

/// The matrix asks of ends that it takes for alike only one, and another evaluator where hosts have no policy: it must say of each what
/// `explain` says.
#[test]
fn the_matrix_says_what_explain_says() {
    agree("shop/,192.0.2.9,198.51.100.1,hep/host-2-eth0,172.16.0.1", CLUSTER);
    let documents = CLUSTER.split("---\n").filter(|document| !document.contains("kind: HostEndpoint"));
    agree("shop/,192.0.2.9,198.51.100.1,172.16.0.1", &documents.collect::<Vec<_>>().join("---\n"));
}

fn agree(ends: &str, documents: &str) {
    let line = format!("policy matrix --from {ends} --to {ends} --ports tcp/5432,tcp/22,udp/53,udp/4789 -o json");
    let cluster = Cluster::new();
    assert_eq!(cluster.type_in("apply -f -", documents).code, 0);
    let flows = json(&cluster.type_in(&line, ""));
    for flow in flows.as_array().unwrap() {
        let text = |name: &str| flow[name].as_str().unwrap().replace("host host-1", "172.16.0.1");
        let (from, to) = (text("from"), text("to"));
        let line = format!(
            "policy explain --from {from} --to {to} --protocol {} --port {} -o json",
            text("protocol"),
            flow["port"]
        );
        let explained = json(&cluster.type_in(&line, ""));
        assert_eq!(explained.get("verdict").unwrap(), &flow["verdict"], "{line}");
    }
}

/// Each is reached by nobody: that each would reach itself does not tell them apart.
#[test]
fn what_an_end_says_of_itself_sets_nobody_apart() {
    let mut text = String::new();
    for index in 0..4 {
        write!(
            text,
            "apiVersion: projectcalico.org/v3\nkind: WorkloadEndpoint\nmetadata: {{namespace: n{index}}}\nspec: {{node: h, orchestrator: k8s, \
             pod: p, endpoint: eth0, interfaceName: cali{index}, ipNetworks: [10.9.0.{index}/32], profiles: [projectcalico-default-allow]}}\n---\n\
             apiVersion: projectcalico.org/v3\nkind: NetworkPolicy\nmetadata: {{namespace: n{index}, name: p}}\n\
             spec: {{types: [Ingress], ingress: [{{action: Allow, source: {{selector: all()}}}}]}}\n---\n"
        )
        .unwrap();
    }
    let run = Cluster::new().type_in("policy matrix --ports tcp/80 -f -", &text);
    assert!(run.stdout.contains("n0/p and 3 more   ·\n"), "{run:?}");
}

/// A cluster wider than a terminal is told in lists.
#[test]
fn a_wide_matrix_is_a_list() {
    let mut text = String::new();
    for index in 0..30 {
        let (one, other) = ((index + 1) % 30, (index * 7) % 30);
        write!(
            text,
            "apiVersion: projectcalico.org/v3\nkind: WorkloadEndpoint\nmetadata: {{namespace: n{index}, labels: {{role: 'n{index}'}}}}\n\
             spec: {{node: h, orchestrator: k8s, pod: p, endpoint: eth0, interfaceName: cali{index}, ipNetworks: [10.9.0.{index}/32], \
             profiles: [projectcalico-default-allow]}}\n---\n\
             apiVersion: projectcalico.org/v3\nkind: GlobalNetworkPolicy\nmetadata: {{name: p{index}}}\nspec: {{selector: role == 'n{index}', \
             types: [Ingress], ingress: [{{action: Allow, source: {{selector: \"role in {{'n{one}', 'n{other}'}}\"}}}}]}}\n---\n"
        )
        .unwrap();
    }
    let run = Cluster::new().type_in("policy matrix --ports tcp/80 -f -", &text);
    golden("policy-matrix-wide.txt", &run.transcript());
}

#[test]
fn what_a_change_would_do() {
    let cluster = cluster();
    let live = cluster.type_in("policy diff -f -", CHANGE);
    golden("policy-diff.txt", &live.transcript());
    assert_eq!(live.code, 1);
    golden("policy-diff.json", &cluster.type_in("policy diff -f - -o json --ports tcp/5432", CHANGE).stdout);
    golden("policy-diff.yaml", &cluster.type_in("policy diff -f - -o yaml --ports tcp/5432", CHANGE).stdout);
    // Files say the same as a datastore.
    let base = format!("policy diff --base {} -f {}", file("cluster.yaml"), file("change.yaml"));
    let offline = offline(&base);
    assert_eq!((offline.code, offline.stdout), (1, live.stdout));
    // Nothing was written, and what it foretold comes true.
    assert_eq!(
        json(&cluster.type_in("policy explain --from shop/web --to shop/db:5432 -o json", ""))["verdict"],
        "allow"
    );
    cluster.done("apply -f -", CHANGE);
    assert_eq!(
        json(&cluster.type_in("policy explain --from shop/web --to shop/db:5432 -o json", ""))["verdict"],
        "deny"
    );
    let again = cluster.type_in("policy diff -f -", CHANGE);
    assert_eq!((again.code, again.stdout.as_str()), (0, "Nothing would change.\n"));
    let again = cluster.type_in("policy diff -f - -o json", CHANGE);
    assert_eq!((again.code, json(&again)["flows"].as_array().map(Vec::len)), (0, Some(0)));
}

#[test]
fn changes_of_other_things_than_rules() {
    let cluster = cluster();
    let mut told = String::new();
    for change in [
        // A label, an address, members of a set, a staged policy, an endpoint, a policy of Kubernetes.
        CLUSTER.split("---\n").find(|one| one.contains("pod: worker-0")).unwrap().replace("app: worker", "app: web"),
        CLUSTER.split("---\n").find(|one| one.contains("name: partners")).unwrap().replace("192.0.2.0/24", "198.51.100.0/24"),
        CLUSTER.split("---\n").find(|one| one.contains("name: quarantine")).unwrap().replace("action: Deny", "action: Allow"),
        CLUSTER.split("---\n").find(|one| one.contains("pod: db-0")).unwrap().replace("db-0", "db-1").replace("calidb", "calidb1").replace("2.3/32", "2.9/32").replace("::3/", "::9/"),
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: closed, namespace: shop}\nspec: {podSelector: {matchLabels: {app: worker}}}\n".to_owned(),
    ] {
        let run = cluster.type_in("policy diff -f - --ports tcp/5432,udp/53", &change);
        assert_eq!(run.code, 1, "{run:?}");
        told += &run.transcript();
        told += "\n";
    }
    golden("policy-diff-others.txt", &told);
}

#[test]
fn failures_of_a_diff_end_with_two() {
    let cluster = cluster();
    let bad = CHANGE.replace("selector: app", "selectr: app");
    let lost = CHANGE.replace("tier: security", "tier: lost");
    for (line, input, told) in [
        ("policy diff -f -", "kind: [", "failed to execute command"),
        ("policy diff -f -", &bad, "did you mean selector?"),
        ("policy diff -f -", &lost, "resource does not exist: Tier(lost)"),
        ("policy diff -f /nonexistent", "", "No such file"),
        ("policy diff -f - --base /nonexistent", CHANGE, "No such file"),
        ("policy diff", "", "--filename"),
        ("policy diff -f - --ports 80", CHANGE, "write tcp/80"),
    ] {
        let run = cluster.type_in(line, input);
        assert!(run.code == 2 && run.stdout.is_empty() && run.stderr.contains(told), "{line}: {run:?}");
    }
    let run = type_in_environment(
        &format!("policy diff -f {}", file("change.yaml")),
        &[("CALICO_DATASTORE_PATH", "/nonexistent/calico.db")],
    );
    assert_eq!(run.code, 2, "{run:?}");
}

#[test]
fn names_that_mean_nobody_or_several() {
    let mut told = String::new();
    for line in [
        "--from shop/wed-7d9-a --to shop/db:5432",
        "--from shp/db-0 --to shop/db:5432",
        "--from shop/nothing-at-all --to shop/db:5432",
        "--from nowhere/nothing-at-all --to shop/db:5432",
        "--from db-0 --to shop/web:5432",
        "--from hep/host-2-eth1 --to shop/db:5432",
        "--from hep/wibble --to shop/db:5432",
        "--from 10.0.0.0/8 --to shop/db:5432",
        "--from shop/web:80 --to shop/db:5432",
        "--from shop/web --to shop/db:x",
        "--from shop/w --to shop/db:1",
    ] {
        writeln!(told, "$ {line}\n{}", of_files(&format!("policy explain {line}")).transcript()).unwrap();
    }
    golden("policy-names.txt", &told);
    // Two pods that begin alike and are not.
    let two = CLUSTER.replace("pod: worker-0", "pod: web-9-x");
    let run = Cluster::new().type_in("policy explain --from shop/web --to shop/db:5432 -f -", &two);
    golden("policy-ambiguous.txt", &run.transcript());
}

#[test]
fn traffic_that_cannot_be() {
    let mut told = String::new();
    for line in [
        "--to shop/db",
        "--to shop/db:80 --port 81",
        "--to shop/db --icmp-code 1",
        "--to shop/db:80 --icmp-type 8",
        "--to shop/db:80 --protocol icmp",
        "--to shop/db --protocol udp",
        "--to shop/db --protocol tpc --port 80",
        "--to shop/db --port 0",
        "--to shop/db:80 --ip-version 5",
        "--to shop/db:80 --ip-version 6",
        "--to shop/db --protocol icmpv6",
    ] {
        let run = of_files(&format!("policy explain --from shop/web {line}"));
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{line}: {run:?}");
        writeln!(told, "$ {line}\n{}", run.stderr).unwrap();
    }
    golden("policy-traffic.txt", &told);
}

#[test]
fn what_cannot_be_read_is_told() {
    let cluster = cluster();
    let broken = ResourceKey::namespaced(Kind::NetworkPolicy, "shop", "broken");
    cluster.store.inject(broken, br#"{"metadata":{"name":"broken","namespace":"shop"},"spec":{"selector":7}}"#);
    let run = cluster.type_in("policy explain --from shop/web --to shop/db:5432", "");
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.stderr.starts_with("warning: NetworkPolicy shop/broken cannot be read"), "{run:?}");
    assert!(run.stdout.starts_with("shop/web-7d9-a → shop/db-0, TCP port 5432: allowed\n"), "{run:?}");
}

#[test]
fn a_datastore_in_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("calico.db");
    let environment = [("CALICO_DATASTORE_PATH", path.to_str().unwrap())];
    let absent = type_in_environment("policy matrix", &environment);
    assert_eq!(absent.code, 1, "{absent:?}");
    let applied = type_in_environment(&format!("apply -f {}", file("cluster.yaml")), &environment);
    assert_eq!(applied.code, 0, "{applied:?}");
    let ask = |line: &str| type_in_environment(line, &environment);
    let explained = ask("policy explain --from shop/worker-0 --to shop/db-0:5432");
    let of_files = of_files("policy explain --from shop/worker-0 --to shop/db-0:5432");
    assert_eq!((explained.code, explained.stdout), (0, of_files.stdout));
    assert_eq!(ask(&format!("policy diff -f {}", file("change.yaml"))).code, 1);
    assert_eq!(ask(&format!("policy diff -f {}", file("cluster.yaml"))).code, 0);
}

#[test]
fn colours_are_for_terminals() {
    let cluster = cluster();
    let denied = "\u{1b}[31mdenied\u{1b}[0m";
    for (environment, expected) in
        [(&[(TERMINAL, "")][..], true), (&[], false), (&[(TERMINAL, ""), ("NO_COLOR", "1")], false)]
    {
        let line = "policy explain --from shop/worker-0 --to shop/db-0:5432";
        assert_eq!(cluster.type_in_with(environment, line, "").stdout.contains(denied), expected, "{environment:?}");
    }
}

#[test]
fn help_has_examples() {
    for verb in ["explain", "matrix", "diff"] {
        let text = Cluster::new().done(&format!("policy {verb} --help"), "");
        assert!(text.contains("Examples:") && text.contains("Exit codes:"), "{text}");
        golden(&format!("help-policy-{verb}.txt"), &text);
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = Cluster::new().done(&format!("completion {shell}"), "");
        assert!(script.contains("explain") && script.contains("matrix"), "{shell}");
    }
}
