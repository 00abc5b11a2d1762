//! What becomes of the host when its own Node cannot be read, or is deleted, while the agent runs.

use calico_core::resource::{IpPool, IpPoolSpec};
use calico_datastore::client::Client;
use calico_datastore::{
    Committed, Datastore, DatastoreError, Listing, Revision, Scope, Stored, SystemClock, SystemIds, Watch,
};

use futures_util::FutureExt;

use super::*;
use crate::cli::PoolCidr;
use crate::startup::register::{IpChoice, RegisterError, Registration};
use crate::startup::registrar::Registrar;

fn own_key() -> ResourceKey {
    ResourceKey::cluster(Kind::Node, "a")
}

/// Keeps the world's host registered, at an address that was given.
fn register(world: &World) -> JoinHandle<RegisterError> {
    register_with(Arc::new(world.store.clone()), world, PoolCidr::None)
}

fn register_with(store: Arc<dyn Datastore>, world: &World, pool: PoolCidr) -> JoinHandle<RegisterError> {
    let registration = Registration {
        node: "a".into(),
        ip: IpChoice::Address("10.0.0.1/24".parse().unwrap()),
        ip6: IpChoice::None,
        as_number: None,
        needs_address: true,
        pool,
        pool_block_size: 26,
        cluster_type: String::new(),
        addresses: Vec::new(),
    };
    let ids = Arc::new(SystemIds::open().unwrap());
    let client = Client::new(store, Arc::new(SystemClock), ids);
    tokio::spawn(Registrar::new(registration, client, world.own_node.clone(), world.registration.clone()).run())
}

/// A store that takes no pool, whoever tries how often.
struct Poolless(MemoryStore);

#[async_trait::async_trait]
impl Datastore for Poolless {
    async fn get(&self, key: &ResourceKey) -> Result<Stored, DatastoreError> {
        self.0.get(key).await
    }

    async fn list(&self, scope: &Scope) -> Result<Listing, DatastoreError> {
        self.0.list(scope).await
    }

    async fn commit(&self, batch: Batch) -> Result<Vec<Committed>, DatastoreError> {
        match batch.writes.iter().find(|write| write.key.kind() == Kind::IpPool) {
            Some(write) => Err(DatastoreError::Unreadable { key: write.key.clone(), reason: "injected".into() }),
            None => self.0.commit(batch).await,
        }
    }

    async fn watch(&self, scope: &Scope, from: Revision) -> Result<Box<dyn Watch>, DatastoreError> {
        self.0.watch(scope, from).await
    }
}

fn told<'a>(what: &'a str) -> impl Fn(&NodeStatus) -> bool + 'a {
    move |status| status.notices.iter().any(|text| text.contains(what))
}

fn has_address(world: &World) -> bool {
    world.bgp.applied().last().is_some_and(|desired| desired.local.is_some())
}

#[tokio::test(start_paused = true)]
async fn a_record_that_cannot_be_read_stops_nothing_but_itself() {
    let store = MemoryStore::new();
    store.inject(own_key(), b"{\"spec\": 5}");
    let world = World::start(store);
    let registrar = register(&world);
    let profile = Resource::Profile(Object { spec: ProfileSpec::default(), ..Object::default() });
    world.put(ResourceKey::cluster(Kind::Profile, "open"), profile).await;
    world.link("cali1", 7);
    world.put(endpoint_key("pod"), endpoint("a", "cali1", "10.1.0.5/32")).await;
    assert_eq!(world.wait("pod", 60_000).await, Answer::Ok(Success::Enforced), "policy needs no Node");
    let status = world.until("told", told("this host is not registered: cannot register this node")).await;
    assert!(told("Node(a), this host's own, cannot be read")(&status), "{status:?}");
    assert!(status.diagnostics.iter().any(|text| text.starts_with("Node(a): ")), "{status:?}");
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(!registrar.is_finished(), "the agent does not end");
    assert!(!has_address(&world));
    assert_eq!(
        world.store.get(&own_key()).await.unwrap_err().to_string().split(" cannot").next(),
        Some("stored value of Node(a)")
    );

    // Mended without the agent's address, and registered with it at once.
    world.put(own_key(), Resource::Node(Box::default())).await;
    world.until("registered", |status| has_address(&world) && status.notices.is_empty()).await;

    // Unreadable under the running agent: the workload stays as it is, and the status says what is lost.
    world.store.inject(own_key(), b"[]");
    world.until("told again", told("Node(a), this host's own, cannot be read")).await;
    assert_eq!(world.wait("pod", 60_000).await, Answer::Ok(Success::Enforced));

    // Mended without the address once more.
    world.until("no address", |_| !has_address(&world)).await;
    world.put(own_key(), Resource::Node(Box::default())).await;
    world.until("completed", |status| has_address(&world) && status.notices.is_empty()).await;

    world.store.inject(own_key(), b"[]");
    world.until("told again", told("Node(a), this host's own, cannot be read")).await;
    world.write(own_key(), Change::Delete).await;
    tokio::time::sleep(Duration::from_secs(15)).await;
    world.until("made anew", |status| has_address(&world) && status.notices.is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_deleted_is_made_again_and_later_each_time() {
    let world = World::start(MemoryStore::new());
    let _registrar = register(&world);
    world.until("registered", |status| has_address(&world) && status.notices.is_empty()).await;
    let mut pauses = Vec::new();
    for _ in 0..3 {
        world.write(own_key(), Change::Delete).await;
        let deleted = Instant::now();
        let status = world.until("told", told("somebody deleted Node(a)")).await;
        assert!(told("Node(a), this host's own, is not stored")(&status), "{status:?}");
        let back = |_: &NodeStatus| world.store.get(&own_key()).now_or_never().is_some_and(|read| read.is_ok());
        for _ in 0..30 {
            if back(&status) {
                break;
            }
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        pauses.push(deleted.elapsed());
        world.until("registered again", |status| back(status) && status.notices.is_empty()).await;
    }
    assert!(pauses.is_sorted() && pauses[0] * 2 < pauses[2], "virtual time: {pauses:?}");

    // Whoever makes it himself is not contradicted, and no deletion is told.
    world.write(own_key(), Change::Delete).await;
    world.until("told", told("somebody deleted Node(a)")).await;
    let mut bgp = NodeBgpSpec { ipv4_address: Some("10.0.0.7/24".parse().unwrap()), ..NodeBgpSpec::default() };
    bgp.as_number = Some("64999".parse().unwrap());
    let spec = NodeSpec { bgp: Some(bgp), ..NodeSpec::default() };
    world.put(own_key(), Resource::Node(ReportedObject { spec, ..Default::default() }.into())).await;
    world.until("known", |status| status.notices.is_empty()).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let stored = world.store.get(&own_key()).await.unwrap();
    let Resource::Node(node) = &*stored.resource else { panic!("{stored:?}") };
    assert_eq!(node.spec.bgp.as_ref().and_then(|bgp| bgp.as_number), Some("64999".parse().unwrap()));
}

/// A host that is known, in a cluster that cannot be prepared, is told as that; and its Node is not made again by the way.
#[tokio::test(start_paused = true)]
async fn what_the_cluster_lacks_besides_is_neither_told_of_the_host_nor_a_reason_to_fight() {
    let world = World::start(MemoryStore::new());
    let store = Arc::new(Poolless(world.store.clone()));
    let _registrar = register_with(store, &world, PoolCidr::Range("10.9.0.0/16".parse().unwrap()));
    let lacking = |status: &NodeStatus| told("this host is registered, but: cannot make the default pool")(status);
    let status = world.until("told", |status| has_address(&world) && lacking(status)).await;
    assert!(!told("this host is not registered")(&status), "{status:?}");
    let mut pauses = Vec::new();
    for _ in 0..3 {
        world.write(own_key(), Change::Delete).await;
        let deleted = Instant::now();
        while world.store.get(&own_key()).await.is_err() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        pauses.push(deleted.elapsed().as_secs());
        world.until("as before", |status| has_address(&world) && lacking(status)).await;
    }
    assert!(pauses[0] >= 10 && pauses[1] >= 20 && pauses[2] >= 40, "virtual time: {pauses:?}");

    let spec = IpPoolSpec { cidr: "10.8.0.0/16".parse().unwrap(), ..IpPoolSpec::default() };
    world.put(ResourceKey::cluster(Kind::IpPool, "four"), Resource::IpPool(IpPool::named("four", spec))).await;
    tokio::time::sleep(Duration::from_secs(70)).await;
    world.until("mended", |status| has_address(&world) && status.notices.is_empty()).await;
}

/// A change of the datastore's lock is no deletion, and what is locked is not written to.
#[tokio::test(start_paused = true)]
async fn a_locked_datastore_is_not_contradicted() {
    let world = World::start(MemoryStore::new());
    let _registrar = register(&world);
    world.until("registered", |status| has_address(&world) && status.notices.is_empty()).await;
    set_ready(&world, false).await;
    world.until("locked", says_locked).await;
    world.write(own_key(), Change::Delete).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(world.store.get(&own_key()).await.is_err());
    set_ready(&world, true).await;
    tokio::time::sleep(Duration::from_secs(15)).await;
    world.until("registered again", |status| has_address(&world) && status.notices.is_empty()).await;
    assert!(world.store.get(&own_key()).await.is_ok());

    // Nor if the lock comes after the deletion was seen.
    world.write(own_key(), Change::Delete).await;
    world.until("told", told("somebody deleted Node(a)")).await;
    set_ready(&world, false).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(world.store.get(&own_key()).await.is_err());
    assert!(says_locked(&world.status().await) && !told("somebody deleted")(&world.status().await));
}
