//! Resources that cannot be read, or not be written back: they are shown, left out where that is asked for, mended and deleted.

use crate::common::{Cluster, Run, golden};
use calico_core::resource::{Kind, ResourceKey};
use calico_datastore::{Datastore, Scope};
use serde_json::{Value, json};

fn cluster() -> Cluster {
    let cluster = Cluster::new();
    cluster.done("apply -f -", include_str!("../cluster.yaml"));
    cluster
}

fn policy(name: &str) -> ResourceKey {
    ResourceKey::cluster(Kind::GlobalNetworkPolicy, name)
}

fn information() -> ResourceKey {
    ResourceKey::cluster(Kind::ClusterInformation, "default")
}

/// The document under a key; none if it cannot be read.
#[tokio::main(flavor = "current_thread")]
async fn raw(cluster: &Cluster, key: ResourceKey) -> Option<Value> {
    cluster.store.get(&key).await.ok().map(|stored| Value::clone(&stored.raw))
}

/// The bytes under a key that cannot be read.
#[tokio::main(flavor = "current_thread")]
async fn text(cluster: &Cluster, key: ResourceKey) -> Vec<u8> {
    let listing = cluster.store.list(&Scope::Key(key)).await.unwrap();
    listing.entries.into_iter().next().unwrap().unwrap_err().text.to_vec()
}

fn mended(run: &Run) {
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.stderr.contains("is replaced whole"), "{run:?}");
}

/// What cannot be read for its selector, and has a field of a newer version.
const BROKEN: &str = r#"{"kind":"GlobalNetworkPolicy","apiVersion":"projectcalico.org/v3","metadata":{"name":"broken","uid":"u-1"},
        "spec":{"selector":7,"newer":{"a":1}}}"#;

const WEB: &str =
    "apiVersion: projectcalico.org/v3\nkind: GlobalNetworkPolicy\nmetadata: {name: broken}\nspec: {order: 7}\n";

#[test]
fn what_is_stored_is_shown() {
    let cluster = cluster();
    cluster.store.inject(policy("broken"), BROKEN.as_bytes());
    golden("spoilt-yaml.txt", &cluster.type_in("get gnp broken -o yaml", "").transcript());
    golden("spoilt-json.txt", &cluster.type_in("get gnp broken -o json", "").transcript());
    golden("spoilt-table.txt", &cluster.type_in("get gnp broken", "").transcript());
    golden("spoilt-two.txt", &cluster.type_in("get gnp broken allow-dns -o json --export", "").transcript());
    // Not even a document: what is there, as text.
    for (stored, shown) in [
        (&b"{\"spec\": \xff\x1b[2J"[..], "{\"spec\": \u{fffd}\u{fffd}[2J\n"),
        (b"", "\n"),
        (
            br#"{"spec":{"selector":1},"spec":{"selector":2}}"#,
            "{\"spec\":{\"selector\":1},\"spec\":{\"selector\":2}}\n",
        ),
        (br#"{"spec":{"selector":1,"x":1e999}}"#, "{\"spec\":{\"selector\":1,\"x\":1e999}}\n"),
    ] {
        cluster.store.inject(policy("broken"), stored);
        for format in ["yaml", "json"] {
            let run = cluster.type_in(&format!("get gnp broken -o {format}"), "");
            assert_eq!((run.code, run.stdout.as_str()), (1, shown), "{run:?}");
            assert!(run.stderr.contains("stored value of GlobalNetworkPolicy(broken) cannot be read: "), "{run:?}");
        }
    }
}

#[test]
fn what_is_in_force_and_not_all_read_is_shown_as_it_is_stored() {
    let cluster = cluster();
    let rounded = r#"{"metadata":{"name":"broken"},"spec":{"order":1,"newer":1e999}}"#;
    cluster.store.inject(policy("broken"), rounded.as_bytes());
    let run = cluster.type_in("get gnp broken -o yaml", "");
    assert_eq!((run.code, run.stdout.as_str()), (1, format!("{rounded}\n").as_str()), "{run:?}");
    let partial = r#"{"metadata":{"name":"broken","labels":["x"]},"spec":{"order":1}}"#;
    cluster.store.inject(policy("broken"), partial.as_bytes());
    golden("partial-yaml.txt", &cluster.type_in("get gnp broken -o yaml", "").transcript());
    let list = cluster.type_in("get gnp -o json", "");
    assert!(list.code == 1 && list.stderr.contains("not all of it can be read: metadata.labels"), "{list:?}");
    let document: Value = serde_json::from_str(&list.stdout).unwrap();
    assert_eq!(document["items"][1]["metadata"]["labels"], json!(["x"]));
    let table = cluster.type_in("get gnp", "");
    assert!(
        table.code == 0 && table.stderr.starts_with("warning: GlobalNetworkPolicy(broken) is in force"),
        "{table:?}"
    );
}

#[test]
fn only_replace_mends() {
    let cluster = cluster();
    let stored = br#"{"metadata":{"name":"broken","uid":"u-1","creationTimestamp":"2001-01-01T00:00:00Z"},"spec":{"selector":7}}"#;
    cluster.store.inject(policy("broken"), stored);
    for line in ["apply -f -", "create -f -", "create --skip-exists -f -", "diff -f -"] {
        let run = cluster.type_in(line, WEB);
        assert!(run.code != 0 && run.stderr.contains("calicoctl replace -f FILE"), "{line}: {run:?}");
        assert_eq!(text(&cluster, policy("broken")), stored, "{line}");
    }
    golden("spoilt-apply.txt", &cluster.type_in("apply -f -", WEB).transcript());
    golden("spoilt-create.txt", &cluster.type_in("create --skip-exists -f -", WEB).transcript());
    for line in ["label gnp broken a=b", "patch gnp broken -p {}"] {
        let run = cluster.type_in(line, "");
        assert!(run.code == 1 && run.stderr.contains("calicoctl replace -f FILE"), "{line}: {run:?}");
    }
    let dry = cluster.type_in("replace --dry-run -f -", WEB);
    mended(&dry);
    assert_eq!(text(&cluster, policy("broken")), stored);
    let stale = WEB.replace("name: broken", "name: broken, resourceVersion: '1'");
    let run = cluster.type_in("replace -f -", &stale);
    assert!(run.code == 1 && run.stderr.contains("update conflict: "), "{run:?}");
    golden("spoilt-replace.txt", &cluster.type_in("replace -f -", WEB).transcript());
    let now = raw(&cluster, policy("broken")).unwrap();
    assert_eq!((&now["metadata"]["uid"], &now["spec"]["order"]), (&json!("u-1"), &json!(7)));
    assert_eq!(now["metadata"]["creationTimestamp"], "2001-01-01T00:00:00Z");
    cluster.done("apply -f -", WEB);
}

#[test]
fn what_is_shown_can_be_edited_and_put_back() {
    let cluster = cluster();
    // What only newer versions know is part of it, and is given back by who edits it.
    cluster.store.inject(policy("broken"), BROKEN.as_bytes());
    let shown = cluster.type_in("get gnp broken -o yaml", "").stdout;
    mended(&cluster.type_in("replace -f -", &shown.replace("selector: 7", "selector: all()")));
    let now = raw(&cluster, policy("broken")).unwrap();
    assert_eq!((&now["spec"]["selector"], &now["spec"]["newer"]), (&json!("all()"), &json!({"a": 1})));
    // What it showed is outdated now.
    assert_eq!(cluster.type_in("replace -f -", &shown.replace("selector: 7", "selector: has(x)")).code, 1);
}

#[test]
fn what_cannot_be_written_back_is_mended_too() {
    for stored in [
        r#"{"metadata":{"name":"broken","uid":"u-1"},"spec":{"order":1,"newer":1e999}}"#,
        r#"{"metadata":{"name":"broken","uid":"u-1","labels":["x"]},"spec":{"order":1}}"#,
    ] {
        let cluster = cluster();
        cluster.store.inject(policy("broken"), stored.as_bytes());
        let run = cluster.type_in("apply -f -", WEB);
        assert!(run.code == 1 && run.stderr.contains("calicoctl replace -f FILE"), "{run:?}");
        mended(&cluster.type_in("replace -f -", WEB));
        let now = raw(&cluster, policy("broken")).unwrap();
        assert_eq!((&now["metadata"]["uid"], &now["spec"]["order"]), (&json!("u-1"), &json!(7)));
    }
}

#[test]
fn what_is_built_in_has_a_way_out() {
    let cluster = cluster();
    let tier = ResourceKey::cluster(Kind::Tier, "default");
    cluster.store.inject(tier.clone(), b"{");
    golden("spoilt-tier.txt", &cluster.type_in("delete tier default", "").transcript());
    let document = "apiVersion: projectcalico.org/v3\nkind: Tier\nmetadata: {name: default}\nspec: {order: 1000000, defaultAction: Deny}\n";
    let refused = cluster.type_in("apply -f -", document);
    assert!(refused.code == 1 && !refused.stderr.contains("calicoctl delete"), "{refused:?}");
    mended(&cluster.type_in("replace -f -", document));
    assert!(raw(&cluster, tier).is_some());
    // A policy that is mirrored from Kubernetes is nobody's once it cannot be read.
    let mirrored = ResourceKey::namespaced(Kind::NetworkPolicy, "shop", "knp.default.web");
    cluster.store.inject(mirrored, b"{");
    assert_eq!(
        cluster.done("delete np knp.default.web -n shop", ""),
        "Successfully deleted 1 'NetworkPolicy' resource(s)\n"
    );
}

#[test]
fn nobody_guesses_whether_the_datastore_is_locked() {
    let cluster = cluster();
    let document = |spec: &str| {
        format!(
            "apiVersion: projectcalico.org/v3\nkind: ClusterInformation\nmetadata: {{name: default}}\nspec: {{{spec}}}\n"
        )
    };
    assert_eq!(cluster.type_in("replace -f -", &document("datastoreReady: true")).code, 1, "it is the nodes' to write");
    for stored in [
        r#"{"metadata":{"name":"default","uid":"u-1"},"spec":{"clusterGUID":"ab","datastoreReady":"yes"}}"#,
        r#"{"metadata":{"name":"default","uid":"u-1"},"spec":{"clusterGUID":"ab","clusterType":5}}"#,
    ] {
        cluster.store.inject(information(), stored.as_bytes());
        for line in ["datastore migrate lock", "datastore migrate unlock", "datastore migrate export", "version"] {
            let run = cluster.type_in(line, "");
            assert!(run.code == 1 && run.stderr.contains("calicoctl replace -f FILE"), "{line}: {run:?}");
        }
        assert_eq!(text(&cluster, information()), stored.as_bytes());
        assert_eq!(cluster.type_in("delete clusterinfo default", "").code, 1, "the next command would unlock it");
        assert_eq!(cluster.type_in("apply -f -", &document("datastoreReady: false")).code, 1);
        let silent = cluster.type_in("replace -f -", &document("clusterType: k8s"));
        assert!(silent.code == 1 && silent.stderr.contains("whether the datastore is locked"), "{silent:?}");
        mended(&cluster.type_in("replace -f -", &document("datastoreReady: false")));
        let now = raw(&cluster, information()).unwrap();
        assert_eq!((&now["spec"]["clusterGUID"], &now["spec"]["datastoreReady"]), (&json!("ab"), &json!(false)));
        assert_eq!(now["metadata"]["uid"], "u-1");
        assert_eq!(cluster.done("datastore migrate unlock", ""), "Datastore unlocked.\n");
        assert_eq!(cluster.done("datastore migrate lock", ""), "Datastore locked.\n");
    }
    cluster.store.inject(information(), b"{");
    golden("spoilt-lock.txt", &cluster.type_in("datastore migrate lock", "").transcript());
}

#[test]
fn a_pool_keeps_its_range_and_overlaps_no_other() {
    let cluster = Cluster::new();
    let pool = |name: &str, cidr: &str| {
        format!("apiVersion: projectcalico.org/v3\nkind: IPPool\nmetadata: {{name: {name}}}\nspec: {{cidr: {cidr}}}\n")
    };
    let key = ResourceKey::cluster(Kind::IpPool, "one");
    cluster.done("apply -f -", &pool("two", "10.2.0.0/16"));
    cluster.store.inject(key.clone(), br#"{"spec":{"cidr":"10.1.0.0/16","blockSize":"x"}}"#);
    let moved = cluster.type_in("replace -f -", &pool("one", "10.9.0.0/16"));
    assert!(moved.code == 1 && moved.stderr.contains("IPPool CIDR cannot be modified"), "{moved:?}");
    mended(&cluster.type_in("replace -f -", &pool("one", "10.1.0.0/16")));
    cluster.store.inject(key.clone(), b"{");
    let overlapping = cluster.type_in("replace -f -", &pool("one", "10.2.0.0/24"));
    assert!(overlapping.code == 1 && overlapping.stderr.contains("overlaps with IPPool(two)"), "{overlapping:?}");
    mended(&cluster.type_in("replace -f -", &pool("one", "10.9.0.0/16")));
    assert_eq!(raw(&cluster, key).unwrap()["spec"]["cidr"], "10.9.0.0/16");
    for name in ["three", "four"] {
        cluster.store.inject(ResourceKey::cluster(Kind::IpPool, name), b"{");
    }
    let both = pool("three", "10.3.0.0/16") + "---\n" + &pool("four", "10.3.0.0/24");
    let run = cluster.type_in("replace -f -", &both);
    assert!(run.code == 1 && run.stderr.ends_with("Nothing was changed.\n"), "{run:?}");
    mended(&cluster.type_in("replace -f -", &both.replace("10.3.0.0/24", "10.4.0.0/16")));
}

#[test]
fn a_listing_says_what_it_lacks() {
    let cluster = cluster();
    cluster.store.inject(policy("broken-1"), b"{");
    cluster.store.inject(policy("broken-2"), b"{\"spec\": 5}");
    golden("spoilt-list.txt", &cluster.type_in("get gnp", "").transcript());
}

#[test]
fn an_export_names_all_that_it_cannot_read() {
    let cluster = cluster();
    cluster.done("apply -f -", crate::datastore::NODES);
    cluster.done("datastore migrate lock", "");
    cluster.store.inject(policy("broken"), b"{");
    cluster.store.inject(ResourceKey::cluster(Kind::Node, "broken"), b"{\"spec\": 5}");
    cluster.store.inject(ResourceKey::Handle("h".into()), b"[]");
    let refused = cluster.type_in("datastore migrate export", "");
    golden("spoilt-export.txt", &refused.transcript());
    let run = cluster.type_in("datastore migrate export --skip-unreadable", "");
    assert_eq!(run.code, 0, "{run:?}");
    for name in ["GlobalNetworkPolicy(broken)", "Node(broken)", "IPAMHandle(h)"] {
        assert_eq!(run.stderr.matches(&format!("warning: left out: {name} cannot be read: ")).count(), 1, "{run:?}");
        assert_eq!(run.stdout.matches(&format!("# left out: {name} cannot be read: ")).count(), 1, "{run:?}");
    }
    let parts: Vec<&str> = run.stdout.split("===\n").collect();
    let [resources, information, addresses] = parts.as_slice() else { panic!("{run:?}") };
    Cluster::new().type_in("apply -f -", resources);
    let _: Value = serde_json::from_str(information).unwrap();
    let _: Value = serde_json::from_str(addresses).unwrap();
}

#[test]
fn an_order_that_cannot_be_read_is_told_so() {
    let cluster = Cluster::new();
    cluster.store.inject(
        policy("first"),
        br#"{"metadata":{"name":"first"},"spec":{"order":"x","ingress":[{"action":"Deny"}]}}"#,
    );
    golden("spoilt-order.txt", &cluster.type_in("get gnp first -o wide", "").transcript());
}
