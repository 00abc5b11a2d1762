//! The client over the memory store.

mod kinds;
mod mend;

use std::sync::Mutex;

use calico_core::resource::{
    AllowedUse, DEFAULT_ALLOW_PROFILE, GlobalNetworkPolicySpec, IpPool, IpPoolSpec, IpamBlock, Metadata, Object,
    WorkloadEndpointSpec,
};
use calico_core::time::Timestamp;
use serde_json::json;

use super::*;
use crate::memory::MemoryStore;
use crate::testing::{self, affinity, tier};

struct Fixed;

impl Clock for Fixed {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(1_787_380_400)
    }
}

#[derive(Default)]
struct Counter(Mutex<u128>);

impl IdSource for Counter {
    fn draw(&self) -> u128 {
        let mut next = self.0.lock().unwrap();
        *next += 1;
        u128::MAX - *next
    }
}

fn client() -> (MemoryStore, Client) {
    let store = MemoryStore::new();
    let client = Client::new(Arc::new(store.clone()), Arc::new(Fixed), Arc::new(Counter::default()));
    (store, client)
}

fn metadata(name: &str) -> Metadata {
    Metadata { name: name.to_owned(), ..Metadata::default() }
}

fn policy(name: &str, tier: &str) -> Resource {
    let spec = GlobalNetworkPolicySpec { tier: tier.to_owned(), ..GlobalNetworkPolicySpec::default() };
    Resource::GlobalNetworkPolicy(Object { metadata: metadata(name), spec })
}

fn pool(name: &str, cidr: &str) -> Resource {
    let spec = IpPoolSpec { cidr: cidr.parse().unwrap(), ..IpPoolSpec::default() };
    Resource::IpPool(IpPool::named(name, spec))
}

fn user_tier(name: &str, order: f64) -> Resource {
    (*tier(name, order).1).clone()
}

#[test]
fn futures_may_move_between_threads() {
    fn check(_: impl Send) {}
    let (_store, client) = client();
    check(client.create(user_tier("t", 1.0)));
    check(client.update(user_tier("t", 1.0)));
    check(client.apply(user_tier("t", 1.0)));
    check(client.delete(&tier("t", 1.0).0, None));
    check(client.initialise());
}

#[test]
fn uuids_are_of_version_4() {
    assert_eq!(uuid(u128::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    assert_eq!(uuid(0), "00000000-0000-4000-8000-000000000000");
}

#[tokio::test]
async fn a_new_object_gets_identity_time_and_revision() {
    let (store, client) = client();
    let created = client.create(user_tier("t", 1.0)).await.unwrap();
    let metadata = created.resource.metadata().unwrap();
    assert_eq!(metadata.uid.as_deref(), Some("ffffffff-ffff-4fff-bfff-fffffffffffe"));
    assert_eq!(metadata.creation_timestamp.as_deref(), Some("2026-08-22T06:33:20Z"));
    assert_eq!(metadata.resource_version, Some(created.revision.to_string()));
    assert_eq!(client.get(&created.key).await.unwrap(), created);
    assert_eq!(store.get(&created.key).await.unwrap().raw["metadata"].get("resourceVersion"), None);

    let again = client.create(user_tier("t", 1.0)).await.unwrap_err();
    assert!(again.is_conflict());
    let versioned = client.create((*created.resource).clone()).await.unwrap_err();
    assert_eq!(
        versioned.to_string(),
        "error with field metadata.resourceVersion = '1' (field must not be set for a Create request)"
    );
    let nameless = client.create(user_tier("", 1.0)).await.unwrap_err();
    assert_eq!(nameless.to_string(), "error with field metadata.name (the field is required)");
}

#[tokio::test]
async fn an_update_keeps_identity_and_honours_a_named_revision() {
    let (_store, client) = client();
    let one = client.create(user_tier("t", 1.0)).await.unwrap();
    let two = client.update(user_tier("t", 2.0)).await.unwrap();
    let (old, new) = (one.resource.metadata().unwrap(), two.resource.metadata().unwrap());
    assert_eq!((&old.uid, &old.creation_timestamp), (&new.uid, &new.creation_timestamp));
    let stale = client.update((*one.resource).clone()).await.unwrap_err();
    assert!(stale.is_conflict());
    let three = client.update((*two.resource).clone()).await.unwrap();
    assert_eq!(three.revision, two.revision, "writing what is there changes nothing");
    assert!(client.update(user_tier("absent", 1.0)).await.unwrap_err().is_not_found());
    let Resource::Tier(mut odd) = user_tier("t", 1.0) else { panic!() };
    odd.metadata.resource_version = Some("abc".to_owned());
    assert!(matches!(client.update(Resource::Tier(odd)).await, Err(ClientError::Invalid { .. })));
}

#[tokio::test]
async fn apply_creates_changes_or_leaves() {
    let (store, client) = client();
    assert!(matches!(client.apply(user_tier("t", 1.0)).await.unwrap(), Applied::Created(_)));
    assert!(matches!(client.apply(user_tier("t", 1.0)).await.unwrap(), Applied::Unchanged(_)));
    assert!(matches!(client.apply(user_tier("t", 2.0)).await.unwrap(), Applied::Updated(_)));
    store.faults().conflict_next(3);
    assert!(matches!(client.apply(user_tier("t", 3.0)).await.unwrap(), Applied::Updated(_)));
    store.faults().conflict_next(1000);
    assert!(client.apply(user_tier("t", 4.0)).await.unwrap_err().is_conflict(), "trying again has an end");
}

#[tokio::test]
async fn a_users_document_brings_what_the_model_does_not_know() {
    let (store, client) = client();
    let newer = json!({
        "kind": "Tier", "apiVersion": "projectcalico.org/v3", "metadata": {"name": "t"},
        "spec": {"order": 1, "later": "stored"},
    });
    store.inject(tier("t", 1.0).0, newer.to_string().as_bytes());
    client.apply(user_tier("t", 2.0)).await.unwrap();
    let raw = store.get(&tier("t", 1.0).0).await.unwrap().raw;
    assert_eq!(raw["spec"]["later"], json!("stored"));

    let given = json!({"metadata": {"name": "t", "finalizers": ["a/b"]}, "spec": {"order": 3, "later": "given"}});
    let draft = Draft { resource: user_tier("t", 3.0), document: Some(given) };
    client.apply(draft).await.unwrap();
    let raw = store.get(&tier("t", 1.0).0).await.unwrap().raw;
    assert_eq!((&raw["spec"]["later"], &raw["spec"]["order"]), (&json!("given"), &json!(3)));
    assert_eq!(raw["metadata"]["finalizers"], json!(["a/b"]));
}

/// Who says what is wanted, by hand, does not take away what is reported; a document that has a status means it.
#[tokio::test]
async fn a_users_document_without_a_status_leaves_it() {
    let (store, client) = client();
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z", "reason": "OK",
                       "message": "", "later": 1});
    let cases = [
        (Kind::Tier, json!({"order": 1}), json!({"conditions": [ready], "later": 2})),
        (Kind::IpPool, json!({"cidr": "10.0.0.0/16"}), json!({"conditions": [ready]})),
        (Kind::Node, json!({}), json!({"podCIDRs": ["10.0.0.0/24"]})),
    ];
    for (kind, spec, status) in cases {
        let key = ResourceKey::cluster(kind, "x");
        let document = |labels: Value| {
            json!({"kind": kind.name(), "apiVersion": "projectcalico.org/v3", "spec": spec,
                   "metadata": {"name": "x", "labels": labels}})
        };
        let mut stored = document(json!({}));
        stored["status"] = status.clone();
        store.inject(key.clone(), stored.to_string().as_bytes());
        let apply = async |document: Value| {
            let resource = Resource::decode_strict(kind, &document, Some(&stored)).unwrap();
            client.apply(Draft { resource, document: Some(document) }).await.unwrap();
            store.get(&key).await.unwrap().raw["status"].clone()
        };
        assert_eq!(apply(document(json!({"a": "b"}))).await, status, "{kind}");
        let mut with_status = document(json!({"a": "c"}));
        with_status["status"] = json!({});
        assert_ne!(apply(with_status).await, status, "{kind}");
    }
}

/// As upstream's client: who lists by the label finds those that somebody else stored without it.
#[tokio::test]
async fn a_policy_is_shown_with_its_tier_whoever_stored_it() {
    let (store, client) = client();
    let label = calico_core::resource::TIER_LABEL;
    for key in [
        ResourceKey::namespaced(Kind::NetworkPolicy, "shop", "p"),
        ResourceKey::namespaced(Kind::StagedNetworkPolicy, "shop", "p"),
        ResourceKey::cluster(Kind::GlobalNetworkPolicy, "p"),
        ResourceKey::cluster(Kind::StagedGlobalNetworkPolicy, "p"),
    ] {
        let kind = key.kind();
        for (labels, spec, tier) in [
            (json!({}), json!({}), "default"),
            (json!({"a": "b"}), json!({"tier": "ops"}), "ops"),
            (json!({label: "mine"}), json!({}), "mine"),
        ] {
            let document = json!({"metadata": {"name": "p", "labels": labels}, "spec": spec});
            store.inject(key.clone(), document.to_string().as_bytes());
            let before = store.get(&key).await.unwrap();
            let listing = client.list(&Scope::Kind(kind)).await.unwrap();
            let listed = listing.entries.into_iter().map(Result::unwrap);
            for shown in listed.chain([client.get(&key).await.unwrap()]) {
                assert_eq!(shown.resource.metadata().unwrap().labels.get(label).unwrap(), tier, "{kind}");
                assert_eq!(**shown.raw, document, "{kind}: what is stored is told as it is");
            }
            assert_eq!(store.get(&key).await.unwrap().revision, before.revision, "{kind}: nothing is written");
            let deleted = client.delete(&key, None).await.unwrap().unwrap();
            assert_eq!(deleted.resource.metadata().unwrap().labels.get(label).unwrap(), tier, "{kind}");
        }
    }
    client.create(user_tier("t", 1.0)).await.unwrap();
    let tier = client.get(&tier("t", 1.0).0).await.unwrap();
    assert!(tier.resource.metadata().unwrap().labels.is_empty());
}

#[tokio::test]
async fn initialising_makes_three_tiers_once() {
    let (store, client) = client();
    client.initialise().await.unwrap();
    let listing = client.list(&Scope::Kind(Kind::Tier)).await.unwrap();
    let names: Vec<_> = listing.entries.iter().flatten().map(|stored| stored.key.to_string()).collect();
    assert_eq!(names, ["Tier(default)", "Tier(kube-admin)", "Tier(kube-baseline)"]);
    let revision = listing.revision;
    client.initialise().await.unwrap();
    assert_eq!(store.list(&Scope::All).await.unwrap().revision, revision);
}

#[tokio::test]
async fn a_policy_needs_its_tier_and_keeps_it() {
    let (_store, client) = client();
    let missing = client.create(policy("p", "ops")).await.unwrap_err();
    assert_eq!(missing.to_string(), "resource does not exist: Tier(ops)");
    client.create(user_tier("ops", 1.0)).await.unwrap();
    client.create(policy("p", "ops")).await.unwrap();
    let used = client.delete(&tier("ops", 1.0).0, None).await.unwrap_err();
    assert_eq!(
        used.to_string(),
        "operation Delete is not supported on Tier(ops): GlobalNetworkPolicy(p) is in it: delete its policies first"
    );
    client.delete(&ResourceKey::cluster(Kind::GlobalNetworkPolicy, "p"), None).await.unwrap();
    let deleted = client.delete(&tier("ops", 1.0).0, None).await.unwrap().unwrap();
    assert_eq!(deleted.key, tier("ops", 1.0).0);
    client.initialise().await.unwrap();
    for name in ["default", "kube-admin", "kube-baseline"] {
        assert!(matches!(client.delete(&tier(name, 0.0).0, None).await, Err(ClientError::NotSupported { .. })));
    }
}

#[tokio::test]
async fn the_built_in_profile_is_always_there_and_never_stored() {
    let (store, client) = client();
    let key = ResourceKey::cluster(Kind::Profile, DEFAULT_ALLOW_PROFILE);
    let profile = client.get(&key).await.unwrap();
    assert_eq!(profile.resource.metadata().unwrap().resource_version.as_deref(), Some("1"));
    let Resource::Profile(mut other) = (*profile.resource).clone() else { panic!("a profile") };
    other.metadata.name = "zzz".to_owned();
    other.metadata.resource_version = None;
    let built_in = Resource::default_allow_profile();
    client.create(Resource::Profile(other)).await.unwrap();
    for scope in [Scope::All, Scope::Kind(Kind::Profile), Scope::Key(key.clone())] {
        let listing = client.list(&scope).await.unwrap();
        assert_eq!(listing.entries[0].as_ref().unwrap().key, key, "{scope:?}");
    }
    assert!(client.list(&Scope::Kind(Kind::Tier)).await.unwrap().entries.is_empty());
    assert!(client.create(built_in.clone()).await.unwrap_err().is_conflict());
    assert!(matches!(client.apply(built_in.clone()).await, Ok(Applied::Unchanged(_))));
    assert!(matches!(client.apply((*profile.resource).clone()).await, Ok(Applied::Unchanged(_))), "as it is printed");
    assert_eq!(client.update(built_in.clone()).await.unwrap().key, key);
    let mut changed = built_in.clone();
    changed.metadata_mut().unwrap().labels.insert("a".into(), "b".into());
    for (refused, past) in [
        (client.update(changed.clone()).await.map(drop), "updated"),
        (client.apply(changed).await.map(drop), "updated"),
        (client.delete(&key, None).await.map(drop), "deleted"),
    ] {
        let operation = if past == "updated" { "Update" } else { "Delete" };
        assert_eq!(
            refused.unwrap_err().to_string(),
            format!(
                "operation {operation} is not supported on projectcalico-default-allow: The profile \
                 \"projectcalico-default-allow\" is a default provided by Calico and cannot be {past}"
            )
        );
    }
    assert!(store.get(&key).await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn pools_do_not_overlap_and_keep_their_range() {
    let (store, client) = client();
    let created = client.create(pool("a", "10.0.0.0/16")).await.unwrap();
    assert!(matches!(&*created.resource, Resource::IpPool(pool) if pool.spec.block_size == Some(26)));
    let overlap = client.create(pool("b", "10.0.128.0/17")).await.unwrap_err();
    assert_eq!(
        overlap.to_string(),
        "error with field spec.cidr = '10.0.128.0/17' (IPPool(b) CIDR overlaps with IPPool(a) CIDR 10.0.0.0/16)"
    );
    client.create(pool("b", "10.1.0.0/16")).await.unwrap();
    let (key, block) = testing::block("10.2.0.0/28");
    store.commit(Write::create(key, block).into()).await.unwrap();
    assert!(matches!(client.create(pool("c", "10.2.0.0/16")).await, Err(ClientError::Invalid { .. })));

    let moved = client.update(pool("a", "10.9.0.0/16")).await.unwrap_err();
    assert!(matches!(&moved, ClientError::Invalid { faults } if faults[0].path == "spec.cidr"), "{moved}");
    let Resource::IpPool(mut changed) = pool("a", "10.0.0.0/16") else { panic!("a pool") };
    changed.spec.block_size = Some(28);
    changed.spec.allowed_uses = vec![AllowedUse::LoadBalancer];
    let changed = client.update(Resource::IpPool(changed)).await.unwrap_err();
    assert_eq!(
        changed.to_string(),
        "error with the following fields:\n-  error with field spec.blockSize = '28' (IPPool BlockSize cannot be modified)\
         \n-  error with field spec.allowedUses (a pool for load balancers serves nothing else, from its creation on)"
    );
}

/// A store that lets others go first after each listing, so that whoever checks and then writes is overtaken.
struct Yielding(MemoryStore);

#[async_trait::async_trait]
impl Datastore for Yielding {
    async fn get(&self, key: &ResourceKey) -> Result<Stored, DatastoreError> {
        self.0.get(key).await
    }

    async fn list(&self, scope: &Scope) -> Result<Listing, DatastoreError> {
        let listing = self.0.list(scope).await;
        tokio::task::yield_now().await;
        listing
    }

    async fn commit(&self, batch: crate::Batch) -> Result<Vec<crate::Committed>, DatastoreError> {
        self.0.commit(batch).await
    }

    async fn watch(&self, scope: &Scope, from: Revision) -> Result<Box<dyn crate::Watch>, DatastoreError> {
        self.0.watch(scope, from).await
    }
}

#[tokio::test]
async fn concurrent_creators_make_no_overlapping_pools() {
    const RANGES: usize = 4;
    let (store, _) = client();
    let client = Client::new(Arc::new(Yielding(store)), Arc::new(Fixed), Arc::new(Counter::default()));
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..40_usize {
        let client = client.clone();
        let cidr = match task % (2 * RANGES) {
            whole if whole < RANGES => format!("10.{whole}.0.0/16"),
            part => format!("10.{}.{task}.0/24", part - RANGES),
        };
        tasks.spawn(async move { client.create(pool(&format!("p{task}"), &cidr)).await });
    }
    let results = tasks.join_all().await;
    let pools = client.list(&Scope::Kind(Kind::IpPool)).await.unwrap();
    let cidrs: Vec<_> = pools
        .entries
        .iter()
        .flatten()
        .map(|stored| match &*stored.resource {
            Resource::IpPool(pool) => pool.spec.cidr,
            other => panic!("{other:?}"),
        })
        .collect();
    for (index, cidr) in cidrs.iter().enumerate() {
        assert!(!cidrs[index + 1..].iter().any(|other| other.overlaps(cidr)), "{cidrs:?}");
    }
    assert!(cidrs.len() >= RANGES, "{cidrs:?}");
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), cidrs.len());
    let again = client.create(pool("p0", "10.200.0.0/16")).await;
    let stored = results.iter().flatten().any(|stored| stored.key.name() == Some("p0"));
    assert_eq!(
        again.is_err_and(|error| matches!(error, ClientError::Store(DatastoreError::AlreadyExists { .. }))),
        stored
    );
}

#[tokio::test]
async fn a_deleted_pool_lets_go_of_its_blocks() {
    let (store, client) = client();
    client.create(pool("a", "10.0.0.0/16")).await.unwrap();
    let used = |cidr: &str, host: &str, used: bool| {
        let (key, block) = testing::block(cidr);
        let Resource::IpamBlock(block) = (*block).clone() else { panic!("a block") };
        let mut block = IpamBlock { affinity: Some(format!("host:{host}")), ..block };
        if used {
            block.allocations[0] = Some(0);
            block.unallocated.remove(0);
            block.attributes = vec![calico_core::resource::AllocationAttribute::default()];
        }
        Write::create(key, Arc::new(Resource::IpamBlock(block)))
    };
    let claim = |host: &str, cidr: &str| Write::create(affinity(host, cidr).0, affinity(host, cidr).1);
    let writes = vec![
        used("10.0.0.0/26", "h1", false),
        claim("h1", "10.0.0.0/26"),
        used("10.0.0.64/26", "h1", true),
        claim("h1", "10.0.0.64/26"),
        used("10.0.0.128/26", "other", true),
        claim("stale", "10.0.0.128/26"),
        used("10.1.0.0/26", "h1", false),
        claim("h1", "10.1.0.0/26"),
    ];
    store.commit(writes.into()).await.unwrap();
    client.delete(&ResourceKey::cluster(Kind::IpPool, "a"), None).await.unwrap();

    let claims = store.list(&Scope::Kind(Kind::BlockAffinity)).await.unwrap();
    let claims: Vec<_> = claims.entries.iter().flatten().map(|stored| stored.key.to_string()).collect();
    assert_eq!(claims, ["BlockAffinity(host:h1, 10.1.0.0/26)"]);
    let blocks = store.list(&Scope::Kind(Kind::IpamBlock)).await.unwrap();
    let blocks: Vec<_> = blocks.entries.iter().flatten().map(|stored| stored.resource.clone()).collect();
    let owners: Vec<_> = blocks
        .iter()
        .map(|block| match &**block {
            Resource::IpamBlock(block) => (block.cidr.to_string(), block.affinity.clone()),
            other => panic!("{other:?}"),
        })
        .collect();
    let owner = |text: &str| Some(text.to_owned());
    assert_eq!(
        owners,
        [
            ("10.0.0.64/26".to_owned(), None),
            ("10.0.0.128/26".to_owned(), owner("host:other")),
            ("10.1.0.0/26".to_owned(), owner("host:h1"))
        ]
    );
}

#[tokio::test]
async fn an_endpoint_gets_its_computed_name_and_labels() {
    let (_store, client) = client();
    let spec = WorkloadEndpointSpec {
        orchestrator: "k8s".into(),
        node: "n-1".into(),
        pod: "web".into(),
        endpoint: "eth0".into(),
        interface_name: Some("cali123".parse().unwrap()),
        ..WorkloadEndpointSpec::default()
    };
    let metadata = Metadata { namespace: Some("ns".to_owned()), ..Metadata::default() };
    let created = client.create(Resource::WorkloadEndpoint(Object { metadata, spec })).await.unwrap();
    assert_eq!(created.key.to_string(), "WorkloadEndpoint(ns/n--1-k8s-web-eth0)");
    assert_eq!(created.resource.metadata().unwrap().labels.get("projectcalico.org/namespace").unwrap(), "ns");
}

fn endpoint(node: &str, pod: &str, address: &str) -> Resource {
    let spec = WorkloadEndpointSpec {
        orchestrator: "k8s".into(),
        node: node.into(),
        pod: pod.into(),
        endpoint: "eth0".into(),
        ip_networks: vec![address.parse().unwrap()],
        interface_name: Some("cali123".parse().unwrap()),
        ..WorkloadEndpointSpec::default()
    };
    let metadata = Metadata { namespace: Some("ns".to_owned()), ..Metadata::default() };
    Resource::WorkloadEndpoint(Object { metadata, spec })
}

#[tokio::test]
async fn a_deleted_node_takes_its_endpoints_addresses_and_claims_along() {
    use crate::ipam::{Ipam, StoreIpam};
    use calico_core::ipam::{Assign, FamilyWant, HeldBy, Holder, Want};

    let (store, client) = client();
    let node = |name: &str| {
        let metadata = Metadata { labels: [("name".into(), name.into())].into(), ..metadata(name) };
        Resource::Node(calico_core::resource::ReportedObject { metadata, ..Default::default() }.into())
    };
    client.create(pool("a", "10.0.0.0/16")).await.unwrap();
    let ipam = StoreIpam::new(Arc::new(store.clone()), 1);
    for name in ["n1", "n2"] {
        client.create(node(name)).await.unwrap();
        let none = || FamilyWant { count: 0, pools: Vec::new() };
        let request = Assign {
            node: name.into(),
            namespace_labels: None,
            holder: Holder { handle: format!("net.{name}").into(), attributes: std::collections::BTreeMap::new() },
            want: Want::Any { v4: FamilyWant { count: 1, ..none() }, v6: none() },
            intended_use: AllowedUse::Workload,
            max_blocks: 0,
            seed: 0,
            now: Fixed.now(),
        };
        let assigned = ipam.assign(request).await.unwrap();
        let address = assigned[0].address.to_string();
        client.create(endpoint(name, "web", &address)).await.unwrap();
    }
    client.delete(&ResourceKey::cluster(Kind::Node, "n1"), None).await.unwrap();

    for (name, expected) in [("n1", 0), ("n2", 1)] {
        let held = ipam.held_by(HeldBy { handle: format!("net.{name}").into() }).await.unwrap();
        assert_eq!(held.len(), expected, "{name}");
        let owner = calico_core::resource::AffinityOwner::Host(name.into());
        assert_eq!(store.list(&Scope::AffinitiesOf(owner)).await.unwrap().entries.len(), expected, "{name}");
    }
    let endpoints = store.list(&Scope::Kind(Kind::WorkloadEndpoint)).await.unwrap();
    assert_eq!(endpoints.entries.len(), 1);
    assert_eq!(store.list(&Scope::Kind(Kind::IpamBlock)).await.unwrap().entries.len(), 1, "an empty block goes");
    let again = client.delete(&ResourceKey::cluster(Kind::Node, "n1"), None).await.unwrap_err();
    assert!(again.is_not_found());
}

/// More endpoints, each with a handle of its own, than one batch may write.
#[tokio::test]
async fn a_node_with_many_endpoints_is_deleted_in_several_batches() {
    use crate::MAX_BATCH;
    use crate::ipam::{Ipam, StoreIpam};
    use calico_core::ipam::{Assign, FamilyWant, Holder, Want};

    let (store, client) = client();
    let node =
        Resource::Node(calico_core::resource::ReportedObject { metadata: metadata("n1"), ..Default::default() }.into());
    client.create(node).await.unwrap();
    client.create(pool("a", "10.0.0.0/16")).await.unwrap();
    let ipam = StoreIpam::new(Arc::new(store.clone()), 1);
    for pod in 0..MAX_BATCH + 10 {
        let none = || FamilyWant { count: 0, pools: Vec::new() };
        let request = Assign {
            node: "n1".into(),
            holder: Holder { handle: format!("net.{pod}").into(), attributes: std::collections::BTreeMap::new() },
            want: Want::Any { v4: FamilyWant { count: 1, ..none() }, v6: none() },
            intended_use: AllowedUse::Workload,
            namespace_labels: None,
            max_blocks: 0,
            seed: 0,
            now: Fixed.now(),
        };
        let address = ipam.assign(request).await.unwrap()[0].address.to_string();
        client.create(endpoint("n1", &format!("pod{pod}"), &address)).await.unwrap();
    }
    client.delete(&ResourceKey::cluster(Kind::Node, "n1"), None).await.unwrap();
    for kind in [Kind::WorkloadEndpoint, Kind::IpamHandle, Kind::IpamBlock, Kind::BlockAffinity] {
        assert!(store.list(&Scope::Kind(kind)).await.unwrap().entries.is_empty(), "{kind}");
    }
}

#[tokio::test]
async fn a_rehearsal_answers_as_the_writes_would_and_writes_nothing() {
    let (store, client) = client();
    client.initialise().await.unwrap();
    let stored = client.create(user_tier("there", 1.0)).await.unwrap();
    client.create(pool("ten", "10.0.0.0/16")).await.unwrap();
    let mut stale = (*stored.resource).clone();
    stale.metadata_mut().unwrap().resource_version = Some("7777".to_owned());
    let series = [
        (Intent::Apply, policy("lost.a", "lost")),
        (Intent::Create, user_tier("there", 1.0)),
        (Intent::Update, user_tier("new", 1.0)),
        (Intent::Create, user_tier("new", 1.0)),
        (Intent::Create, policy("new.a", "new")),
        (Intent::Apply, policy("there.a", "there")),
        (Intent::Apply, policy("default.a", "default")),
        (Intent::Apply, stale),
        (Intent::Create, pool("overlapping", "10.0.1.0/24")),
        (Intent::Create, pool("twenty", "10.20.0.0/16")),
        (Intent::Apply, pool("overlapping-new", "10.20.1.0/24")),
        (Intent::Apply, pool("ten", "10.9.0.0/16")),
        (Intent::Apply, Resource::default_allow_profile()),
        (Intent::Create, Resource::default_allow_profile()),
        (Intent::Apply, user_tier("broken", 1.0)),
        (Intent::Mend, user_tier("broken", 1.0)),
        (Intent::Mend, user_tier("nobody", 1.0)),
        (Intent::Mend, user_tier("there", 2.0)),
    ];
    store.inject(ResourceKey::cluster(Kind::Tier, "broken"), b"{");
    let before = store.list(&Scope::All).await.unwrap();
    let mut rehearsal = Rehearsal::new(&client);
    let mut rehearsed = Vec::new();
    for (intent, resource) in &series {
        rehearsed.push(rehearsal.write(*intent, resource.clone()).await.map(drop).map_err(|error| error.to_string()));
    }
    assert_eq!(store.list(&Scope::All).await.unwrap(), before);
    for ((intent, resource), expected) in series.into_iter().zip(&rehearsed) {
        let done = match intent {
            Intent::Create => client.create(resource).await.map(drop),
            Intent::Update => client.update(resource).await.map(drop),
            Intent::Apply => client.apply(resource).await.map(drop),
            Intent::Mend => client.mend(resource).await.map(drop),
        };
        assert_eq!(done.map_err(|error| error.to_string()), *expected);
    }
    let passed: Vec<_> = rehearsed.iter().map(Result::is_ok).collect();
    let (y, n) = (true, false);
    assert_eq!(passed, [n, n, n, y, y, y, y, n, n, y, n, n, y, n, n, y, n, n]);
}
