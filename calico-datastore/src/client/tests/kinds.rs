//! The rules of single kinds, and what every cluster has.

use calico_core::resource::{
    AffinityState, BgpConfigurationSpec, BgpFilterSpec, BgpPeerSpec, BlockAffinitySpec, ClusterInformationSpec,
    FelixConfigurationSpec, HostEndpointSpec, IpamConfigurationSpec, NodeBgpSpec, NodeSpec, NodeWireguardSpec,
    ReportedObject, StagedGlobalNetworkPolicySpec, Tombstone,
};

use super::*;
use crate::ipam::{Ipam, StoreIpam};
use calico_core::ipam::{Assign, FamilyWant, HeldBy, Holder, Want};

fn object<S>(name: &str, spec: S) -> Box<Object<S>> {
    Box::new(Object { metadata: metadata(name), spec })
}

fn peer(name: &str, node: &str, filters: &[&str]) -> Resource {
    let filters = filters.iter().map(|&filter| filter.to_owned()).collect();
    Resource::BgpPeer(object(name, BgpPeerSpec { node: node.to_owned(), filters, ..BgpPeerSpec::default() }))
}

fn filter(name: &str) -> Resource {
    Resource::BgpFilter(object(name, BgpFilterSpec::default()))
}

fn felix(name: &str) -> Resource {
    Resource::FelixConfiguration(object(name, FelixConfigurationSpec::default()))
}

fn staged(name: &str, tier: &str) -> Resource {
    let policy = GlobalNetworkPolicySpec { tier: tier.to_owned(), ..GlobalNetworkPolicySpec::default() };
    let spec = StagedGlobalNetworkPolicySpec { staged_action: None, policy };
    Resource::StagedGlobalNetworkPolicy(object(name, spec))
}

fn node(name: &str, spec: NodeSpec) -> Resource {
    Resource::Node(ReportedObject { metadata: metadata(name), spec, ..ReportedObject::default() }.into())
}

fn host_endpoint(name: &str, node: &str) -> Resource {
    let spec = HostEndpointSpec { node: node.to_owned(), ..HostEndpointSpec::default() };
    Resource::HostEndpoint(*object(name, spec))
}

async fn information(client: &Client) -> ClusterInformationSpec {
    let stored = client.get(&ResourceKey::cluster(Kind::ClusterInformation, "default")).await.unwrap();
    let Resource::ClusterInformation(information) = &*stored.resource else { panic!("{stored:?}") };
    information.spec.clone()
}

#[tokio::test]
async fn a_new_cluster_gets_an_identity_and_is_ready() {
    let (_store, client) = client();
    client.initialise().await.unwrap();
    let spec = information(&client).await;
    let fresh = ClusterInformationSpec {
        cluster_guid: "ffffffffffff4fffbffffffffffffffe".to_owned(),
        datastore_ready: Some(true),
        ..ClusterInformationSpec::default()
    };
    assert_eq!(spec, fresh);
    client.initialise_as("kubeadm,bgp").await.unwrap();
    let after = information(&client).await;
    let cluster_type = "kubeadm,bgp".to_owned();
    assert_eq!(after, ClusterInformationSpec { cluster_type, ..spec });
}

#[tokio::test]
async fn initialising_adds_what_lacks_and_keeps_the_rest() {
    let (store, client) = client();
    let key = ResourceKey::cluster(Kind::ClusterInformation, "default");
    let locked = json!({
        "kind": "ClusterInformation", "apiVersion": "projectcalico.org/v3", "metadata": {"name": "default"},
        "spec": {"clusterType": "k8s,bgp", "calicoVersion": "v3.30.0", "datastoreReady": false, "later": 7},
    });
    store.inject(key.clone(), locked.to_string().as_bytes());
    store.faults().conflict_next(3);
    client.initialise_as("bgp,kdd,").await.unwrap();
    let raw = store.get(&key).await.unwrap().raw;
    let spec = &raw["spec"];
    assert_eq!((&spec["datastoreReady"], &spec["later"]), (&json!(false), &json!(7)), "a lock is an operator's");
    assert_eq!((&spec["clusterType"], &spec["calicoVersion"]), (&json!("k8s,bgp,kdd"), &json!("v3.30.0")));
    assert_eq!(spec["clusterGUID"].as_str().unwrap().len(), 32);

    let revision = store.list(&Scope::All).await.unwrap().revision;
    client.initialise_as("k8s").await.unwrap();
    client.initialise().await.unwrap();
    assert_eq!(store.list(&Scope::All).await.unwrap().revision, revision, "nothing differs");

    store.inject(key.clone(), br#"{"spec": {"datastoreReady": "maybe"}}"#);
    client.initialise_as("new").await.unwrap();
    assert!(matches!(store.get(&key).await, Err(DatastoreError::Unreadable { .. })), "it is left as it is");
}

/// The step that fails does not keep the others from being carried out.
#[tokio::test]
async fn initialising_goes_on_after_a_step_that_failed() {
    let (store, client) = client();
    store.faults().fail_next(1);
    assert!(client.initialise().await.unwrap_err().is_retryable());
    assert_eq!(store.list(&Scope::Kind(Kind::Tier)).await.unwrap().entries.len(), 3);
    assert!(store.list(&Scope::Kind(Kind::ClusterInformation)).await.unwrap().entries.is_empty());
    // Two in a row: it is not the step.
    let (store, client) = self::client();
    store.faults().fail_next(2);
    assert!(client.initialise().await.unwrap_err().is_retryable());
    assert!(store.list(&Scope::All).await.unwrap().entries.is_empty());
}

#[cfg(feature = "sqlite")]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_who_initialise_agree_on_one_identity() {
    let folder = tempfile::tempdir().unwrap();
    let ids: Arc<Counter> = Arc::default();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..8 {
        let store = crate::sqlite::SqliteStore::open(&folder.path().join("calico.db")).unwrap();
        let client = Client::new(Arc::new(store), Arc::new(Fixed), ids.clone());
        tasks.spawn(async move {
            client.initialise_as(&format!("t{task}")).await.unwrap();
            information(&client).await
        });
    }
    let seen = tasks.join_all().await;
    assert!(seen.iter().all(|spec| spec.cluster_guid == seen[0].cluster_guid), "{seen:?}");
    let store = crate::sqlite::SqliteStore::open(&folder.path().join("calico.db")).unwrap();
    let last = information(&Client::new(Arc::new(store), Arc::new(Fixed), ids)).await;
    let mut words: Vec<_> = last.cluster_type.split(',').collect();
    words.sort_unstable();
    assert_eq!(words, ["t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"]);
}

#[tokio::test]
async fn a_rehearsal_knows_what_initialising_will_make() {
    let (_store, client) = client();
    let mut information = object("default", ClusterInformationSpec::default());
    information.metadata.resource_version = Some("77".to_owned());
    let mut rehearsal = Rehearsal::after_initialising(&client);
    let done = rehearsal.write(Intent::Update, Resource::ClusterInformation(information)).await.unwrap();
    assert!(done.without_revision);
    assert!(rehearsal.write(Intent::Create, peer("p", "", &["f"])).await.is_err());
    rehearsal.write(Intent::Create, filter("f")).await.unwrap();
    rehearsal.write(Intent::Create, peer("p", "", &["f"])).await.unwrap();
}

#[tokio::test]
async fn a_staged_policy_needs_its_tier_and_keeps_it() {
    let (_store, client) = client();
    let missing = client.create(staged("p", "ops")).await.unwrap_err();
    assert_eq!(missing.to_string(), "resource does not exist: Tier(ops)");
    client.create(user_tier("ops", 1.0)).await.unwrap();
    client.create(staged("p", "ops")).await.unwrap();
    let used = client.delete(&tier("ops", 1.0).0, None).await.unwrap_err();
    assert_eq!(
        used.to_string(),
        "operation Delete is not supported on Tier(ops): StagedGlobalNetworkPolicy(p) is in it: delete its policies first"
    );
    client.delete(&ResourceKey::cluster(Kind::StagedGlobalNetworkPolicy, "p"), None).await.unwrap();
    client.delete(&tier("ops", 1.0).0, None).await.unwrap();
}

#[tokio::test]
async fn a_peer_needs_its_filters_whenever_it_is_written() {
    let (_store, client) = client();
    client.create(filter("there")).await.unwrap();
    let missing = client.create(peer("p", "", &["a", "there", "b"])).await.unwrap_err();
    assert_eq!(
        missing.to_string(),
        "error with the following fields:\
         \n-  error with field spec.filters[0] = 'a' (BGPFilter not found: create it first)\
         \n-  error with field spec.filters[2] = 'b' (BGPFilter not found: create it first)"
    );
    client.create(peer("p", "", &["there"])).await.unwrap();
    for refused in [
        client.update(peer("p", "", &["a"])).await.map(drop),
        client.apply(peer("p", "", &["a"])).await.map(drop),
        Rehearsal::new(&client).write(Intent::Update, peer("p", "", &["a"])).await.map(drop),
    ] {
        assert!(matches!(refused, Err(ClientError::Invalid { .. })), "{refused:?}");
    }
    client.update(peer("p", "", &[])).await.unwrap();
}

#[tokio::test]
async fn of_some_kinds_there_is_one_object() {
    let (_store, client) = client();
    let controllers = || Box::new(ReportedObject { metadata: metadata("other"), ..ReportedObject::default() });
    for resource in [
        Resource::ClusterInformation(object("other", ClusterInformationSpec::default())),
        Resource::IpamConfiguration(object("other", IpamConfigurationSpec::default())),
        Resource::KubeControllersConfiguration(controllers()),
    ] {
        let kind = resource.kind();
        let refused = client.create(resource).await.unwrap_err().to_string();
        assert_eq!(refused, format!("error with field metadata.name = 'other' (the only {kind} is called default)"));
    }
    client.create(Resource::IpamConfiguration(object("default", IpamConfigurationSpec::default()))).await.unwrap();
}

#[tokio::test]
async fn settings_are_filled_in_when_they_are_made_and_when_they_change() {
    let (_store, client) = client();
    for stored in [client.create(felix("default")).await.unwrap(), client.update(felix("default")).await.unwrap()] {
        assert_eq!(stored.raw["spec"]["floatingIPs"], "Disabled");
        assert_eq!(stored.raw["spec"]["bpfConnectTimeLoadBalancing"], "TCP");
    }
    let made = client.create(Resource::IpamConfiguration(object("default", IpamConfigurationSpec::default())));
    assert_eq!(
        made.await.unwrap().raw["spec"],
        json!({"strictAffinity": false, "autoAllocateBlocks": true, "maxBlocksPerHost": 0})
    );
    let config = client.get(&ResourceKey::IpamConfig).await.unwrap_err();
    assert!(config.is_not_found(), "IPAM's own settings are another object");
}

#[tokio::test]
async fn the_first_node_makes_what_every_cluster_has() {
    let (store, client) = client();
    client.create(node("n1", NodeSpec::default())).await.unwrap();
    assert_eq!(information(&client).await.datastore_ready, Some(true));
    assert_eq!(store.list(&Scope::Kind(Kind::Tier)).await.unwrap().entries.len(), 3);
}

/// One address for a tunnel of a node.
async fn tunnel_address(ipam: &StoreIpam, node: &str, tunnel: &str, is_v6: bool) -> String {
    let want = |count| FamilyWant { count, pools: Vec::new() };
    let request = Assign {
        node: node.into(),
        namespace_labels: None,
        holder: Holder { handle: format!("{tunnel}-{node}").into(), attributes: std::collections::BTreeMap::new() },
        want: Want::Any { v4: want(u32::from(!is_v6)), v6: want(u32::from(is_v6)) },
        intended_use: AllowedUse::Tunnel,
        max_blocks: 0,
        seed: 0,
        now: Fixed.now(),
    };
    ipam.assign(request).await.unwrap()[0].address.to_string()
}

/// A node with all that a node can have.
async fn full_node(client: &Client, ipam: &StoreIpam, name: &str) {
    let spec = NodeSpec {
        bgp: Some(NodeBgpSpec {
            ipv4_ipip_tunnel_addr: tunnel_address(ipam, name, "ipip", false).await,
            ..NodeBgpSpec::default()
        }),
        ipv4_vxlan_tunnel_addr: tunnel_address(ipam, name, "vxlan", false).await,
        ipv6_vxlan_tunnel_addr: tunnel_address(ipam, name, "vxlan6", true).await,
        wireguard: Some(NodeWireguardSpec {
            interface_ipv4_address: tunnel_address(ipam, name, "wg", false).await,
            interface_ipv6_address: tunnel_address(ipam, name, "wg6", true).await,
        }),
        ..NodeSpec::default()
    };
    client.create(node(name, spec)).await.unwrap();
    client.create(peer(&format!("peer-{name}"), name, &[])).await.unwrap();
    client.create(felix(&format!("node.{name}"))).await.unwrap();
    let bgp = object(&format!("node.{name}"), BgpConfigurationSpec::default());
    client.create(Resource::BgpConfiguration(bgp)).await.unwrap();
    client.create(host_endpoint(&format!("hep-{name}"), name)).await.unwrap();
}

async fn a_node_takes_along(store: Arc<dyn Datastore>) {
    let client = Client::new(store.clone(), Arc::new(Fixed), Arc::new(Counter::default()));
    client.create(pool("four", "10.0.0.0/16")).await.unwrap();
    client.create(pool("six", "fd00::/64")).await.unwrap();
    client.create(peer("global", "", &[])).await.unwrap();
    let ipam = StoreIpam::new(store.clone(), 1);
    for name in ["n1", "n1-b"] {
        full_node(&client, &ipam, name).await;
    }
    client.delete(&ResourceKey::cluster(Kind::Node, "n1"), None).await.unwrap();

    let mut left = Vec::new();
    for kind in [Kind::Node, Kind::BgpPeer, Kind::FelixConfiguration, Kind::BgpConfiguration, Kind::HostEndpoint] {
        let listing = store.list(&Scope::Kind(kind)).await.unwrap();
        left.extend(listing.entries.into_iter().flatten().map(|stored| stored.key.to_string()));
    }
    assert_eq!(
        left,
        [
            "Node(n1-b)",
            "BGPPeer(global)",
            "BGPPeer(peer-n1-b)",
            "FelixConfiguration(node.n1-b)",
            "BGPConfiguration(node.n1-b)",
            "HostEndpoint(hep-n1-b)"
        ]
    );
    for (name, expected) in [("n1", 0), ("n1-b", 1)] {
        for tunnel in ["ipip", "vxlan", "vxlan6", "wg", "wg6"] {
            let held = ipam.held_by(HeldBy { handle: format!("{tunnel}-{name}").into() }).await.unwrap();
            assert_eq!(held.len(), expected, "{tunnel}-{name}");
        }
        let owner = calico_core::resource::AffinityOwner::Host(name.into());
        assert_eq!(store.list(&Scope::AffinitiesOf(owner)).await.unwrap().entries.len(), 2 * expected, "{name}");
    }
}

#[tokio::test]
async fn a_deleted_node_takes_all_that_is_its_own_along() {
    a_node_takes_along(Arc::new(MemoryStore::new())).await;
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn a_deleted_node_takes_all_that_is_its_own_along_in_the_embedded_store() {
    let folder = tempfile::tempdir().unwrap();
    a_node_takes_along(Arc::new(crate::sqlite::SqliteStore::open(&folder.path().join("calico.db")).unwrap())).await;
}

#[tokio::test]
async fn a_node_that_changed_keeps_what_is_its_own() {
    let (store, client) = client();
    let one = client.create(node("n1", NodeSpec::default())).await.unwrap();
    client.create(host_endpoint("hep", "n1")).await.unwrap();
    client
        .update(node("n1", NodeSpec { ipv4_vxlan_tunnel_addr: "192.0.2.9".to_owned(), ..NodeSpec::default() }))
        .await
        .unwrap();
    let stale = client.delete(&one.key, Some(one.revision)).await.unwrap_err();
    assert!(stale.is_conflict(), "{stale}");
    let unreadable = ResourceKey::cluster(Kind::Node, "n2");
    let revision = store.inject(unreadable.clone(), br#"{"spec": 7}"#);
    client.create(host_endpoint("hep2", "n2")).await.unwrap();
    let stale = client.delete(&unreadable, Some(Revision::from_raw(revision.raw() - 1))).await.unwrap_err();
    assert!(stale.is_conflict(), "{stale}");
    let absent = client.delete(&ResourceKey::cluster(Kind::Node, "n3"), Some(revision)).await.unwrap_err();
    assert!(absent.is_not_found(), "{absent}");
    assert_eq!(store.list(&Scope::Kind(Kind::HostEndpoint)).await.unwrap().entries.len(), 2);

    client.delete(&unreadable, Some(revision)).await.unwrap();
    client.delete(&one.key, None).await.unwrap();
    assert_eq!(store.list(&Scope::Kind(Kind::HostEndpoint)).await.unwrap().entries.len(), 0);
}

/// Others write in between: what they changed is looked at anew, as often as it takes.
#[tokio::test]
async fn a_deletion_that_was_overtaken_is_repeated() {
    for overtaken in 0..6 {
        let (store, client) = client();
        client.create(node("n1", NodeSpec::default())).await.unwrap();
        client.create(host_endpoint("hep", "n1")).await.unwrap();
        client.create(pool("p", "10.0.0.0/16")).await.unwrap();
        for key in [ResourceKey::cluster(Kind::Node, "n1"), ResourceKey::cluster(Kind::IpPool, "p")] {
            store.faults().conflict_next(overtaken);
            client.delete(&key, None).await.unwrap();
            assert!(store.get(&key).await.unwrap_err().is_not_found());
        }
        assert_eq!(store.list(&Scope::Kind(Kind::HostEndpoint)).await.unwrap().entries.len(), 0);
    }
}

/// Ranges, blocks and policies count also where the rest of them cannot be read.
#[tokio::test]
async fn what_cannot_be_read_stands_in_the_way() {
    let (store, client) = client();
    store.inject(ResourceKey::cluster(Kind::IpPool, "odd"), br#"{"spec": {"cidr": "10.0.0.0/16", "blockSize": "x"}}"#);
    let overlap = client.create(pool("p", "10.0.0.0/24")).await.unwrap_err();
    assert_eq!(
        overlap.to_string(),
        "error with field spec.cidr = '10.0.0.0/24' (IPPool(p) CIDR overlaps with IPPool(odd) CIDR 10.0.0.0/16)"
    );
    store.inject(ResourceKey::Block("10.1.0.0/28".parse().unwrap()), b"{");
    let block = client.create(pool("p", "10.1.0.0/16")).await.unwrap_err();
    assert!(block.to_string().contains("existing allocation block 10.1.0.0/28"), "{block}");

    client.create(user_tier("t", 1.0)).await.unwrap();
    let policy = ResourceKey::cluster(Kind::GlobalNetworkPolicy, "t.odd");
    store.inject(policy.clone(), b"{");
    let refused = client.delete(&tier("t", 1.0).0, None).await.unwrap_err();
    assert!(refused.to_string().contains("GlobalNetworkPolicy(t.odd) cannot be read"), "{refused}");
    client.delete(&policy, None).await.unwrap();
    client.delete(&tier("t", 1.0).0, None).await.unwrap();
}

/// The node is gone already, or cannot be read; a tunnel's address lies in no pool.
#[tokio::test]
async fn what_is_left_of_a_node_is_deleted_without_it() {
    let (store, client) = client();
    client.create(host_endpoint("hep", "n1")).await.unwrap();
    client.create(felix("node.n1")).await.unwrap();
    let gone = client.delete(&ResourceKey::cluster(Kind::Node, "n1"), None).await.unwrap_err();
    assert!(gone.is_not_found(), "{gone}");
    for kind in [Kind::HostEndpoint, Kind::FelixConfiguration] {
        assert!(store.list(&Scope::Kind(kind)).await.unwrap().entries.is_empty(), "{kind}");
    }
    let spec = NodeSpec { ipv4_vxlan_tunnel_addr: "192.0.2.9".to_owned(), ..NodeSpec::default() };
    client.create(node("n2", spec)).await.unwrap();
    client.delete(&ResourceKey::cluster(Kind::Node, "n2"), None).await.unwrap();
    let key = ResourceKey::cluster(Kind::Node, "n3");
    store.inject(key.clone(), br#"{"spec": 7}"#);
    client.delete(&key, None).await.unwrap();
    assert!(store.get(&key).await.unwrap_err().is_not_found());
}

async fn a_pool_keeps(store: Arc<dyn Datastore>) {
    let client = Client::new(store, Arc::new(Fixed), Arc::new(Counter::default()));
    let changed = |cidr: &str, block_size: Option<u8>, uses: &[AllowedUse]| {
        let spec = IpPoolSpec {
            cidr: cidr.parse().unwrap(),
            block_size,
            allowed_uses: uses.to_vec(),
            ..IpPoolSpec::default()
        };
        Resource::IpPool(IpPool::named("a", spec))
    };
    let workload = [AllowedUse::Workload];
    client.create(changed("fd00::/64", None, &workload)).await.unwrap();
    client.update(changed("fd00:0:0::/64", Some(122), &workload)).await.unwrap();
    for (refused, path) in [
        (changed("fd00::/65", None, &workload), "spec.cidr"),
        (changed("fd00::/64", Some(123), &workload), "spec.blockSize"),
        (changed("fd00::/64", None, &[AllowedUse::LoadBalancer]), "spec.allowedUses"),
    ] {
        let error = client.apply(refused).await.unwrap_err();
        assert!(matches!(&error, ClientError::Invalid { faults } if faults[0].path == path), "{error}");
    }
}

#[tokio::test]
async fn a_pool_keeps_range_and_block_size_in_memory() {
    a_pool_keeps(Arc::new(MemoryStore::new())).await;
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn a_pool_keeps_range_and_block_size_in_the_embedded_store() {
    let folder = tempfile::tempdir().unwrap();
    a_pool_keeps(Arc::new(crate::sqlite::SqliteStore::open(&folder.path().join("calico.db")).unwrap())).await;
}

/// As upstream stored policies of the default tier before 3.32, with and without the name that users see.
#[tokio::test]
async fn a_policy_under_its_former_key_stays_there() {
    let (store, client) = client();
    client.initialise().await.unwrap();
    let [former, own] = ["default.x", "x"].map(|name| ResourceKey::cluster(Kind::GlobalNetworkPolicy, name));
    let inject = |annotations: Value| {
        let metadata = json!({"name": "default.x", "annotations": annotations});
        let document = json!({"metadata": metadata, "spec": {"selector": "all()", "order": 1}});
        store.inject(former.clone(), document.to_string().as_bytes())
    };
    for annotations in [json!({}), json!({"projectcalico.org/metadata": "{\"name\":\"x\"}"})] {
        inject(annotations);
        assert_eq!(client.get(&own).await.unwrap().resource.key(), Some(own.clone()));
        assert!(client.create(policy("x", "default")).await.unwrap_err().is_conflict());
        let rehearsed = Rehearsal::new(&client).write(Intent::Create, policy("x", "default")).await;
        assert!(rehearsed.unwrap_err().is_conflict());
        let Applied::Updated(written) = client.apply(policy("x", "default")).await.unwrap() else { panic!() };
        assert_eq!((&written.key, written.resource.key()), (&former, Some(own.clone())));
        assert!(store.get(&own).await.unwrap_err().is_not_found());
        assert_eq!(store.get(&former).await.unwrap().raw["spec"].get("order"), None);
        Rehearsal::new(&client).delete(&own, None).await.unwrap();
        assert_eq!(client.delete(&own, None).await.unwrap().unwrap().key, former);
        assert!(store.get(&former).await.unwrap_err().is_not_found());
    }
    // One that is called so is another policy.
    inject(json!({"projectcalico.org/metadata": "{\"name\":\"default.x\"}"}));
    assert!(client.get(&own).await.unwrap_err().is_not_found());
    assert!(matches!(client.apply(policy("x", "default")).await.unwrap(), Applied::Created(_)));
    assert!(store.get(&former).await.is_ok());
}

/// The API's claims: stored as upstream stores them, shown as truth values, and never marked deleted by hand.
#[tokio::test]
async fn a_claim_that_is_marked_deleted_is_not_found_and_cannot_be_made() {
    let (store, client) = client();
    let spec = |deleted: bool| BlockAffinitySpec {
        state: AffinityState::Confirmed,
        node: "host-1".to_owned(),
        owner_type: "host".to_owned(),
        cidr: "10.65.0.0/26".to_owned(),
        deleted: Tombstone(deleted),
    };
    let claim = |deleted| Resource::ApiBlockAffinity(object("host-1-10-65-0-0-26", spec(deleted)));
    let made = client.create(claim(false)).await.unwrap();
    assert_eq!(made.raw["spec"]["deleted"], "false", "what upstream stores");
    assert_eq!(made.resource.document()["spec"]["deleted"], false, "what upstream shows");
    let (key, kept) = spec(false).claim().unwrap();
    assert_eq!(key, affinity("host-1", "10.65.0.0/26").0);
    assert!(kept.is_confirmed());
    for refused in [client.create(claim(true)).await, client.update(claim(true)).await] {
        let told = refused.unwrap_err().to_string();
        assert!(told.contains("spec.deleted") && told.contains("cannot be set to \"true\""), "{told}");
    }
    let mut marked = (**made.raw).clone();
    marked["spec"]["deleted"] = "true".into();
    store.inject(made.key.clone(), marked.to_string().as_bytes());
    assert!(client.get(&made.key).await.unwrap_err().is_not_found());
    let listed = client.list(&Scope::Kind(Kind::ApiBlockAffinity)).await.unwrap();
    assert_eq!(listed.entries.len(), 1, "as upstream's");
    marked["spec"]["deleted"] = "perhaps".into();
    store.inject(made.key.clone(), marked.to_string().as_bytes());
    assert!(matches!(client.get(&made.key).await, Err(ClientError::Store(DatastoreError::Unreadable { .. }))));
}
