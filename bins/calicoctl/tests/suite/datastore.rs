//! `datastore`: lock, unlock, export, import, names of policies.

use crate::common::{Cluster, golden};
use calico_core::resource::{AffinityOwner, Kind, ResourceKey};
use calico_datastore::{Datastore, Entry, Revision, Scope};

const CLUSTER: &str = include_str!("../cluster.yaml");

pub(crate) const NODES: &str = "\
apiVersion: projectcalico.org/v3
kind: NodeList
items:
- metadata: {name: host-1}
  spec: {orchRefs: [{orchestrator: k8s, nodeName: kube-1}]}
- metadata: {name: host-2}
  spec: {orchRefs: [{orchestrator: k8s, nodeName: host-2}]}
";

const FURTHER: &str = "\
- apiVersion: projectcalico.org/v3
  kind: HostEndpoint
  metadata: {name: host-1-eth0}
  spec: {node: host-1, interfaceName: eth0}
- apiVersion: projectcalico.org/v3
  kind: BGPPeer
  metadata: {name: peer}
  spec: {node: host-1, peerIP: 10.0.0.9, asNumber: 64512}
- apiVersion: projectcalico.org/v3
  kind: StagedNetworkPolicy
  metadata: {name: tried, namespace: shop}
- apiVersion: projectcalico.org/v3
  kind: FelixConfiguration
  metadata: {name: node.host-1}
  spec: {defaultEndpointToHostAction: ACCEPT}
- apiVersion: projectcalico.org/v3
  kind: BGPConfiguration
  metadata: {name: node.host-1}
  spec: {logSeverityScreen: Info}
";

fn cluster() -> Cluster {
    let cluster = Cluster::new();
    cluster.done("apply -f -", CLUSTER);
    cluster
}

#[tokio::main(flavor = "current_thread")]
async fn raw(cluster: &Cluster, key: ResourceKey) -> Option<serde_json::Value> {
    cluster.store.get(&key).await.ok().map(|stored| serde_json::Value::clone(&stored.raw))
}

#[tokio::main(flavor = "current_thread")]
async fn count(cluster: &Cluster) -> usize {
    cluster.store.list(&Scope::All).await.unwrap().entries.len()
}

fn information() -> ResourceKey {
    ResourceKey::cluster(Kind::ClusterInformation, "default")
}

#[test]
fn a_lock_is_told_in_the_clusters_information() {
    let cluster = cluster();
    let ready = |cluster: &Cluster| raw(cluster, information()).unwrap()["spec"]["datastoreReady"].clone();
    assert_eq!(cluster.done("datastore migrate lock", ""), "Datastore locked.\n");
    assert_eq!(ready(&cluster), false);
    assert_eq!(cluster.done("datastore migrate unlock", ""), "Datastore unlocked.\n");
    assert_eq!(ready(&cluster), true);
    // What others keep there stays.
    let others = r#"{"metadata":{"name":"default","uid":"u"},"spec":{"clusterGUID":"ab","calicoVersion":"v3.31.0","later":1,
        "datastoreReady":true}}"#;
    cluster.store.inject(information(), others.as_bytes());
    cluster.done("datastore migrate lock", "");
    let spec = raw(&cluster, information()).unwrap()["spec"].clone();
    assert_eq!(
        (&spec["clusterGUID"], &spec["later"], &spec["datastoreReady"]),
        (&"ab".into(), &1.into(), &false.into())
    );
}

#[test]
fn an_export_is_what_upstream_imports() {
    let run = Cluster::new().type_in("datastore migrate export", "");
    assert!(run.code == 1 && run.stderr.starts_with("error while checking if datastore was locked: "), "{run:?}");
    let cluster = cluster();
    golden("export-unlocked.txt", &cluster.type_in("datastore migrate export", "").transcript());
    cluster.done("datastore migrate lock", "");
    golden("export-no-reference.txt", &cluster.type_in("datastore migrate export", "").transcript());
    cluster.done("apply -f -", NODES);
    cluster.done("apply -f -", FURTHER);
    let mirrored = r#"{"metadata":{"name":"knp.default.web","namespace":"shop"},"spec":{"types":["Ingress"]}}"#;
    cluster.store.inject(ResourceKey::namespaced(Kind::NetworkPolicy, "shop", "knp.default.web"), mirrored.as_bytes());
    let block = r#"{"cidr":"10.65.0.0/30","affinity":"host:host-1","allocations":[0,1,null,null],"unallocated":[2,3],"attributes":[
        {"handle_id":"vxlan-v6-tunnel-addr-host-1","secondary":{"node":"host-1","type":"vxlanTunnelAddress"}},
        {"handle_id":"n.c1","secondary":{"node":"host-2"},"alternateOwnerAttrs":{"node":"host-1"}}]}"#;
    let cidr = || "10.65.0.0/30".parse().unwrap();
    cluster.store.inject(ResourceKey::Block(cidr()), block.as_bytes());
    let affinity = ResourceKey::Affinity { owner: AffinityOwner::Host("host-1".into()), block: cidr() };
    cluster.store.inject(affinity, br#"{"state":"confirmed"}"#);
    for handle in ["vxlan-v6-tunnel-addr-host-1", "n.c1"] {
        cluster.store.inject(ResourceKey::Handle(handle.into()), br#"{"block":{"10.65.0.0/30":1}}"#);
    }
    cluster.store.inject(ResourceKey::IpamConfig, br#"{"strict_affinity":true}"#);
    let exported = cluster.done("datastore migrate export", "");
    // Identities and revisions depend on what else a cluster is made with.
    let is_stable = |line: &&str| !["resourceVersion", "uid", "clusterGUID"].iter().any(|word| line.contains(word));
    let stable: Vec<&str> = exported.lines().filter(is_stable).collect();
    golden("export.txt", &(stable.join("\n") + "\n"));
    // Upstream cuts the text at the lines between.
    let parts: Vec<&str> = exported.split("===\n").collect();
    let [resources, information, addresses] = parts.as_slice() else { panic!("{exported}") };
    Cluster::new().done("apply -f -", resources);
    let information: serde_json::Value = serde_json::from_str(information).unwrap();
    assert_eq!(information["kind"], "ClusterInformation");
    let addresses: serde_json::Value = serde_json::from_str(addresses).unwrap();
    assert_eq!(addresses["blocks"][0]["Value"]["affinity"], "host:kube-1");
}

#[test]
fn an_import_needs_a_datastore_that_is_not_there_yet() {
    golden("import.txt", &Cluster::new().type_in("datastore migrate import -f export.yaml", "").transcript());
    assert_eq!(Cluster::new().type_in("datastore migrate import", "").code, 2);
}

#[test]
fn policies_of_the_default_tier_move_to_their_own_names() {
    let cluster = Cluster::new();
    let old = |name: &str| ResourceKey::cluster(Kind::GlobalNetworkPolicy, name);
    let stored = |name: &str, spec: &str| {
        format!(
            r#"{{"metadata":{{"name":"{name}","uid":"u","annotations":{{"projectcalico.org/metadata":"{{\"name\":\"{name}\"}}"}}}},"spec":{spec}}}"#
        )
    };
    let inject = |key: &str, name: &str, spec: &str| cluster.store.inject(old(key), stored(name, spec).as_bytes());
    inject("default.web", "web", r#"{"types":["Ingress"],"later":1}"#);
    inject("default.dns", "dns", r#"{"tier":"default","types":["Ingress"],"order":1}"#);
    // Written by one who was stopped then.
    inject("dns", "dns", r#"{"tier":"default","types":["Ingress"],"order":1}"#);
    inject("new", "new", r#"{"types":["Ingress"]}"#);
    inject("security.a", "security.a", r#"{"tier":"security","types":["Ingress"]}"#);
    let run = cluster.type_in("datastore migrate-policy-names", "");
    assert_eq!((run.code, run.stdout.as_str()), (0, "Policy name migration complete, migrated 2 policies.\n"));
    assert_eq!(run.stderr, "");
    assert!(raw(&cluster, old("default.web")).is_none() && raw(&cluster, old("default.dns")).is_none());
    let web = raw(&cluster, old("web")).unwrap();
    assert_eq!((&web["metadata"]["uid"], &web["spec"]["later"]), (&"u".into(), &1.into()));
    assert_eq!(raw(&cluster, old("dns")).unwrap()["spec"]["order"], 1);
    assert_eq!(count(&cluster), 4);
    let again = cluster.type_in("datastore migrate-policy-names", "");
    assert_eq!(again.stdout, "Policy name migration complete, migrated 0 policies.\n");
}

/// Which of two policies is meant nobody can say, and one of them may deny.
#[test]
fn a_policy_is_not_moved_onto_another() {
    let cluster = Cluster::new();
    let key = |name: &str| ResourceKey::cluster(Kind::GlobalNetworkPolicy, name);
    let stored = |name: &str, spec: &str| format!(r#"{{"metadata":{{"name":"{name}"}},"spec":{spec}}}"#);
    let deny = r#"{"types":["Ingress"],"ingress":[{"action":"Deny"}]}"#;
    for (name, new) in [
        ("unreadable", "{".to_owned()),
        ("no-policy", r#"{"spec":{"selector":7}}"#.to_owned()),
        ("different", stored("different", r#"{"types":["Ingress"],"ingress":[{"action":"Allow"}]}"#)),
        ("newer", stored("newer", r#"{"types":["Ingress"],"ingress":[{"action":"Deny"}],"later":1}"#)),
        ("labelled", format!(r#"{{"metadata":{{"name":"labelled","labels":{{"a":"b"}}}},"spec":{deny}}}"#)),
    ] {
        cluster.store.inject(key(&format!("default.{name}")), stored(&format!("default.{name}"), deny).as_bytes());
        cluster.store.inject(key(name), new.as_bytes());
    }
    cluster.store.inject(key("default.fine"), stored("default.fine", deny).as_bytes());
    cluster.store.inject(key("default.broken"), b"{\"spec\": 5}");
    cluster.store.inject(key("default.rounded"), br#"{"metadata":{"name":"default.rounded"},"spec":{"newer":1e999}}"#);
    let before = revisions(&cluster);
    let run = cluster.type_in("datastore migrate-policy-names", "");
    golden("migrate-kept.txt", &run.transcript());
    let after = revisions(&cluster);
    let (fine, other): (Vec<_>, Vec<_>) = after.into_iter().partition(|(key, _)| key.contains("fine"));
    assert_eq!(fine.len(), 1);
    assert!(fine[0].0.contains("(fine)"), "{fine:?}");
    assert_eq!(other, before.into_iter().filter(|(key, _)| !key.contains("fine")).collect::<Vec<_>>());
    // What it says can be done.
    cluster.done("delete globalnetworkpolicy unreadable", "");
    cluster.done("delete globalnetworkpolicy default.different", "");
    let run = cluster.type_in("datastore migrate-policy-names", "");
    assert!(run.code == 1 && run.stderr.contains("migrated 1 policies"), "{run:?}");
    assert_eq!(raw(&cluster, key("unreadable")).unwrap()["spec"]["ingress"][0]["action"], "Deny");
    assert_eq!(raw(&cluster, key("different")).unwrap()["spec"]["ingress"][0]["action"], "Allow");
}

/// Everything that is stored, by key, with its revision.
#[tokio::main(flavor = "current_thread")]
async fn revisions(cluster: &Cluster) -> Vec<(String, Revision)> {
    let listing = cluster.store.list(&Scope::Kind(Kind::GlobalNetworkPolicy)).await.unwrap();
    let of = |entry: &Entry| match entry {
        Ok(stored) => (stored.key.to_string(), stored.revision),
        Err(bad) => (bad.key.to_string(), bad.revision),
    };
    listing.entries.iter().map(of).collect()
}
