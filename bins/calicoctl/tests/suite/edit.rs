//! `patch` and `label`: what they change, what they refuse, and what they print.

use crate::common::{Cluster, Run, golden};
use calico_core::resource::{Kind, ResourceKey};
use calico_datastore::Datastore;
use serde_json::{Value, json};

fn cluster() -> Cluster {
    let cluster = Cluster::new();
    cluster.done("apply -f -", include_str!("../cluster.yaml"));
    cluster
}

#[tokio::main(flavor = "current_thread")]
async fn raw(cluster: &Cluster, key: ResourceKey) -> Value {
    Value::clone(&cluster.store.get(&key).await.unwrap().raw)
}

fn set() -> ResourceKey {
    ResourceKey::namespaced(Kind::NetworkSet, "shop", "partners")
}

fn policy() -> ResourceKey {
    ResourceKey::cluster(Kind::GlobalNetworkPolicy, "allow-dns")
}

fn patch(cluster: &Cluster, line: &str, patch: &str) -> Run {
    cluster.type_with(&format!("patch {line} -p"), &[patch], "")
}

fn patched(cluster: &Cluster, line: &str, text: &str) {
    let run = patch(cluster, line, text);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{text}: {run:?}");
    assert!(run.stdout.starts_with("Successfully patched 1 '"), "{run:?}");
}

#[test]
fn a_label_is_set_updated_and_removed() {
    let cluster = cluster();
    let label = || raw(&cluster, set())["metadata"]["labels"].clone();
    assert_eq!(
        cluster.done("label netsets partners zone=a.b -n shop", ""),
        "Successfully set label zone on netsets partners\n"
    );
    assert_eq!(label(), json!({"trust": "low", "zone": "a.b"}));
    for (line, code, told) in [
        ("trust=low", 0, "Successfully updated label trust on netsets partners\n"),
        (
            "trust=high",
            1,
            "failed to update label of netsets partners, key trust is already present. please use '--overwrite' to set a new value\n",
        ),
        ("trust=high --overwrite", 0, "Successfully updated label trust on netsets partners\n"),
        ("trust --remove", 0, "Successfully removed label trust from netsets partners\n"),
        ("trust --remove", 1, "cannot remove label of netsets partners, key trust does not exist\n"),
        ("trust", 1, "invalid label trust\n"),
    ] {
        let run = cluster.type_in(&format!("label netsets partners -n shop {line}"), "");
        assert_eq!((run.code, run.stdout + &run.stderr), (code, told.to_owned()), "{line}");
    }
    assert_eq!(label(), json!({"zone": "a.b"}));
}

#[test]
fn labels_that_cannot_be_set() {
    let cluster = cluster();
    let run = |line: &str| cluster.type_in(line, "");
    assert_eq!(run("label nodes nobody a=b").stderr, "nodes nobody not found\n");
    assert_eq!(run("label nodes host-1 a=b -n shop").stderr, "Node is not namespaced\n");
    assert_eq!(run("label nodes host-1 a b").code, 2, "one label at a time");
    assert!(run("label nodes host-1 a=b=c").stderr.contains("metadata.labels.a = 'b=c'"), "only the first = divides");
    golden("label-bad-key.txt", &run("label nodes host-1 not/a/label=x").transcript());
    golden("label-built-in.txt", &run("label profile projectcalico-default-allow a=b").transcript());
}

#[test]
fn the_three_languages_differ() {
    for (language, text, expected) in [
        ("merge", r#"{"spec":{"nets":["10.0.0.0/8"]}}"#, Some(json!(["10.0.0.0/8"]))),
        ("strategic", r#"{"spec":{"nets":["10.0.0.0/8"]}}"#, Some(json!(["10.0.0.0/8"]))),
        ("strategic", r#"{"spec":{"$deleteFromPrimitiveList/nets":["198.51.100.7"]}}"#, Some(json!(["192.0.2.0/24"]))),
        ("merge", r#"{"spec":{"$deleteFromPrimitiveList/nets":["198.51.100.7"]}}"#, None),
        (
            "json",
            r#"[{"op":"add","path":"/spec/nets/0","value":"10.0.0.0/8"},{"op":"remove","path":"/spec/nets/2"}]"#,
            Some(json!(["10.0.0.0/8", "192.0.2.0/24"])),
        ),
        ("json", "- {op: test, path: /spec/nets/0, value: 10.1.0.0/16}\n- {op: remove, path: /spec/nets}", None),
        ("JSON", "[{op: remove, path: /spec/nets/0}]", Some(json!(["198.51.100.7"]))),
        ("merge", "spec:\n  nets: [10.0.0.0/8]", Some(json!(["10.0.0.0/8"]))),
        ("merge", "spec: {nets: null}", Some(Value::Null)),
    ] {
        let cluster = cluster();
        let before = raw(&cluster, set());
        let run = patch(&cluster, &format!("networkset partners -n shop -t {language}"), text);
        let after = raw(&cluster, set());
        match expected {
            Some(expected) => {
                assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{language} {text}: {run:?}");
                assert_eq!(run.stdout, "Successfully patched 1 'NetworkSet' resource\n");
                assert_eq!(after["spec"]["nets"], expected, "{language} {text}");
                assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
            }
            None => {
                assert!(run.code == 1 && run.stderr.starts_with("hit error: "), "{language} {text}: {run:?}");
                assert_eq!(after, before);
            }
        }
    }
}

#[test]
fn a_patch_is_checked_as_a_manifest_is() {
    let cluster = cluster();
    let before = raw(&cluster, policy());
    for (name, line, text) in [
        ("field", "gnp allow-dns", "spec:\n  selectr: all()"),
        ("value", "gnp allow-dns", "{spec: {selector: \"a == \"}}"),
        ("name", "gnp allow-dns", "{metadata: {name: other}}"),
        ("namespace", "netsets partners -n shop", "{metadata: {namespace: other}}"),
        ("kind", "gnp allow-dns", "{kind: Tier}"),
        ("json-path", "gnp allow-dns -t json", "[{op: replace, path: /spec/x/y, value: 1}]"),
        ("json-value", "gnp allow-dns -t json", "[{op: replace, path: /spec/order, value: x}]"),
        ("operation", "gnp allow-dns -t json", "[{op: destroy, path: /spec}]"),
        ("language", "gnp allow-dns", "[{op: remove, path: /spec}]"),
        ("object", "gnp allow-dns -t json", "{spec: {order: 1}}"),
        ("syntax", "gnp allow-dns", "{spec: [}"),
        ("empty", "gnp allow-dns", ""),
        ("directive", "gnp allow-dns", "{spec: {$patch: explode}}"),
        ("absent", "gnp nobody", "{spec: {order: 1}}"),
        ("version", "gnp allow-dns", "{metadata: {resourceVersion: '1'}, spec: {order: 1}}"),
    ] {
        let run = patch(&cluster, line, text);
        assert_eq!(run.code, 1, "{name}: {run:?}");
        golden(&format!("patch-{name}.txt"), &run.transcript());
        assert_eq!(raw(&cluster, policy()), before, "{name}");
    }
    let run = patch(&cluster, "gnp allow-dns -t xml", "{}");
    assert_eq!(run.code, 2);
}

#[test]
fn what_newer_versions_stored_stays() {
    let cluster = cluster();
    let newer = r#"{"kind":"GlobalNetworkPolicy","apiVersion":"projectcalico.org/v3","metadata":{"name":"newer","uid":"u",
        "creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"selector":"all()","future":{"a":[1]},"types":["Ingress"],
        "ingress":[{"action":"Deny"},{"action":"Pass","later":1}]}}"#;
    let key = ResourceKey::cluster(Kind::GlobalNetworkPolicy, "newer");
    cluster.store.inject(key.clone(), newer.as_bytes());
    patched(&cluster, "gnp newer", "{spec: {order: 3, future: {b: 2}}}");
    cluster.done("label gnp newer a=b", "");
    let stored = raw(&cluster, key.clone());
    assert_eq!((&stored["spec"]["future"], &stored["spec"]["order"]), (&json!({"a": [1], "b": 2}), &json!(3)));
    assert_eq!((&stored["metadata"]["uid"], &stored["metadata"]["labels"]["a"]), (&json!("u"), &json!("b")));
    let run = patch(&cluster, "gnp newer", "{spec: {future: null}}");
    assert!(run.code == 0 && run.stderr.starts_with("warning: GlobalNetworkPolicy(newer): fields "), "{run:?}");
    assert_eq!(raw(&cluster, key.clone())["spec"]["future"], stored["spec"]["future"]);
    let run = patch(&cluster, "gnp newer", "{spec: {ingress: [{action: Allow}]}}");
    assert!(run.code == 0 && run.stderr.contains("the field spec.ingress[1].later of the stored resource"), "{run:?}");
}

#[test]
fn a_write_in_between_is_no_conflict() {
    let cluster = cluster();
    cluster.store.faults().conflict_next(3);
    patched(&cluster, "gnp allow-dns", "{spec: {order: 3}}");
    cluster.store.faults().conflict_next(1);
    cluster.done("label gnp allow-dns a=b", "");
    assert_eq!(raw(&cluster, policy())["spec"]["order"], 3);
}

#[test]
fn what_the_datastore_says_is_not_changed_by_a_patch() {
    let cluster = cluster();
    let before = raw(&cluster, policy());
    for (path, text) in [
        ("metadata.uid", "{metadata: {uid: other}}"),
        ("metadata.uid", "{metadata: {uid: null}}"),
        ("metadata.creationTimestamp", "{metadata: {creationTimestamp: '2000-01-01T00:00:00Z'}}"),
        ("metadata.labels.projectcalico.org/tier", "{metadata: {labels: {projectcalico.org/tier: other}}}"),
        ("metadata.labels.projectcalico.org/tier", "{metadata: {labels: {projectcalico.org/tier: null}}}"),
        (
            "metadata.annotations.projectcalico.org/metadata",
            "{metadata: {annotations: {projectcalico.org/metadata: '{}'}}}",
        ),
        ("metadata.generation", "{metadata: {generation: 5}}"),
        ("metadata.selfLink", "{metadata: {selfLink: x}}"),
    ] {
        let run = patch(&cluster, "gnp allow-dns", text);
        assert!(run.code == 1 && run.stderr.contains(&format!("error with field {path}")), "{text}: {run:?}");
        assert!(run.stderr.contains("  at the patch, document 1, line 1, column"), "{text}: {run:?}");
        assert_eq!(raw(&cluster, policy()), before, "{text}");
    }
    patched(&cluster, "gnp allow-dns", "{metadata: {labels: {a: b}}, spec: {order: 4}}");
    let endpoint = cluster.done("get wep -n shop -o jsonpath={.items[0].metadata.name}", "");
    for line in [
        "gnp allow-dns projectcalico.org/tier=x --overwrite",
        "np security.web -n shop projectcalico.org/tier --remove",
        &format!("wep {endpoint} -n shop projectcalico.org/namespace=x --overwrite"),
    ] {
        let run = cluster.type_in(&format!("label {line}"), "");
        assert!(run.code == 1 && run.stderr.contains("follows from the rest of the resource"), "{line}: {run:?}");
    }
    patched(&cluster, "gnp allow-dns", "{metadata: {labels: null}}");
    // A policy that moves to another tier takes the label along.
    patched(&cluster, "np security.web -n shop", "{spec: {tier: default}}");
    // Of other kinds it is a label like any other.
    cluster.done("label netsets partners -n shop projectcalico.org/tier=x", "");
}

#[test]
fn a_fault_of_a_list_of_operations_is_shown_at_its_operation() {
    let cluster = cluster();
    let operations =
        "- {op: add, path: /metadata/labels/a, value: b}\n- op: replace\n  path: /spec\n  value:\n    order: x\n";
    let run = patch(&cluster, "gnp allow-dns -t json", operations);
    assert!(run.stderr.contains("line 5, column 12"), "{run:?}");
    let operations = "- {op: add, path: /metadata/labels/a, value: b}\n- {op: remove, path: /spec/nothing}\n";
    let run = patch(&cluster, "gnp allow-dns -t json", operations);
    assert!(run.stderr.contains("line 2, column"), "{run:?}");
}

/// Words that a manifest may not have: others wrote them, and nothing that is stored is lost or changed by a look at it.
#[test]
fn what_others_stored_with_host_bits_is_edited() {
    let cluster = cluster();
    let policy = ResourceKey::cluster(Kind::GlobalNetworkPolicy, "bits");
    let pool = ResourceKey::cluster(Kind::IpPool, "bits");
    let head = |kind: &str| {
        format!(
            r#""kind":"{kind}","apiVersion":"projectcalico.org/v3","metadata":{{"name":"bits","uid":"u","creationTimestamp":"2026-01-01T00:00:00Z"}}"#
        )
    };
    let rules =
        r#"[{"action":"Deny","source":{"nets":["10.1.2.3/24"],"notNets":["10.1.2.77/32"]}},{"action":"Allow"}]"#;
    let stored = format!(r#"{{{},"spec":{{"ingress":{rules},"types":["Ingress"]}}}}"#, head("GlobalNetworkPolicy"));
    cluster.store.inject(policy.clone(), stored.as_bytes());
    let stored = format!(r#"{{{},"spec":{{"cidr":"10.9.1.1/16","blockSize":26}}}}"#, head("IPPool"));
    cluster.store.inject(pool.clone(), stored.as_bytes());

    cluster.done("label gnp bits a=b", "");
    cluster.done("label ippool bits a=b", "");
    patched(&cluster, "gnp bits", "{spec: {order: 3}}");
    patched(&cluster, "ippool bits", "{spec: {natOutgoing: true}}");
    for kind in ["gnp", "ippool"] {
        let shown = cluster.done(&format!("get {kind} bits -o yaml"), "");
        cluster.done("apply -f -", &shown);
        cluster.done("apply -f -", &shown.replace("a: b", "a: c"));
    }
    let read = raw(&cluster, policy.clone());
    assert_eq!(read["spec"]["ingress"].to_string(), rules);
    assert_eq!((&read["spec"]["order"], &read["metadata"]["labels"]["a"]), (&json!(3), &json!("c")));
    let read = raw(&cluster, pool.clone());
    assert_eq!((&read["spec"]["cidr"], &read["metadata"]["labels"]["a"]), (&json!("10.9.1.1/16"), &json!("c")));

    // Others an operator may not write, and the right ones are stored.
    let shown = cluster.done("get gnp bits -o yaml", "");
    let run = cluster.type_in("apply -f -", &shown.replace("10.1.2.3/24", "10.1.2.4/24"));
    assert!(run.code == 1 && run.stderr.contains("host bits"), "{run:?}");
    patched(&cluster, "gnp bits -t json", "[{op: replace, path: /spec/ingress/0/source/nets/0, value: 10.1.2.0/24}]");
    assert_eq!(raw(&cluster, policy)["spec"]["ingress"][0]["source"]["nets"], json!(["10.1.2.0/24"]));
    let shown = cluster.done("get ippool bits -o yaml", "").replace("10.9.1.1/16", "10.9.0.0/16");
    assert_eq!(cluster.type_in("diff -f -", &shown).code, 1);
    cluster.done("apply -f -", &shown);
    assert_eq!(raw(&cluster, pool)["spec"]["cidr"], "10.9.0.0/16");
}

/// The same value in other words is a change like any other, and says nothing of newer versions.
#[test]
fn a_patch_may_respell_a_value() {
    let cluster = cluster();
    patched(&cluster, "netsets partners -n shop", "{spec: {nets: [192.0.2.0/24, 198.51.100.7/32]}}");
    assert_eq!(raw(&cluster, set())["spec"]["nets"], json!(["192.0.2.0/24", "198.51.100.7/32"]));
}
