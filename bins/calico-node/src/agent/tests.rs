//! The whole agent over a store, a kernel and a speaker in memory.

use std::collections::BTreeSet;

use calico_bgp::{BgpEvent, LearnedRoute, RecordingBackend};
use calico_cmd::control::{Answer, Attachment, DatastoreState, ErrorCode, Failure, NodeStatus, Success, Verb};
use calico_core::bgp::RouterIdSource;
use calico_core::net::{Cidr, InterfaceList};
use calico_core::render::{RenderConfig, Renderer};
use calico_core::resource::{
    ClusterInformationSpec, HostEndpointSpec, Metadata, NodeBgpSpec, NodeSpec, Object, ProfileSpec, ReportedObject,
    Resource, ResourceKey, Rule, WorkloadEndpointSpec,
};
use calico_core::table::{Route, RouteClass, RouteKey, RouteTableId, RouteTarget};
use calico_dataplane::reconcile::ReconcileConfig;
use calico_dataplane::recording::Recording;
use calico_dataplane::{Dataplane, DataplaneError, HostChange, LinkState};
use calico_datastore::memory::MemoryStore;
use calico_datastore::{Batch, Change, Precondition, Write};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::host::FIRST_DEAF;
use super::*;

mod ailing;
mod bgp;
mod denied;
mod registered;
mod told;

struct World {
    store: MemoryStore,
    kernel: Recording,
    bgp: RecordingBackend,
    calls: mpsc::Sender<Call>,
    health: watch::Receiver<Health>,
    own_node: watch::Receiver<OwnNode>,
    registration: watch::Sender<Option<String>>,
    facts: mpsc::Sender<Fact>,
    wanted_secrets: watch::Receiver<BTreeSet<Arc<str>>>,
    agent: JoinHandle<()>,
}

impl World {
    fn start(store: MemoryStore) -> Self {
        Self::start_on(store, Recording::new())
    }

    fn start_on(store: MemoryStore, kernel: Recording) -> Self {
        Self::start_with(store, Box::new(kernel.clone()), kernel)
    }

    fn start_with(store: MemoryStore, dataplane: Box<dyn Dataplane>, kernel: Recording) -> Self {
        let bgp = RecordingBackend::new();
        let agent = Agent::new(Parts {
            node: "a".into(),
            store: Arc::new(store.clone()),
            dataplane,
            bgp: Some(Box::new(bgp.clone())),
            bgp_port: 179,
            router_id: RouterIdSource::default(),
            renderer: Box::new(Renderer::new(RenderConfig::default())),
            excluded_interfaces: InterfaceList::default(),
            reconcile: ReconcileConfig::default(),
            end_denied_connections: Some(RenderConfig::default().settings()),
            sync: SyncOptions::default(),
            metrics: Arc::new(Metrics::default()),
        });
        let (calls, health) = (agent.calls(), agent.health());
        let (own_node, registration) = (agent.own_node(), agent.registration());
        let (facts, wanted_secrets) = (agent.facts(), agent.wanted_secrets());
        let agent = tokio::spawn(agent.run(std::future::pending()));
        Self { store, kernel, bgp, calls, health, own_node, registration, facts, wanted_secrets, agent }
    }

    async fn put(&self, key: ResourceKey, resource: Resource) {
        let change = Change::Put { resource: Arc::new(resource), base: None, ttl: None };
        self.write(key, change).await;
    }

    async fn write(&self, key: ResourceKey, change: Change) {
        let write = Write { key, precondition: Precondition::None, change };
        self.store.commit(Batch { writes: vec![write] }).await.unwrap();
    }

    async fn call(&self, verb: Verb) -> Answer {
        let (answer, receiver) = oneshot::channel();
        self.calls.send(Call { verb, answer }).await.unwrap();
        receiver.await.unwrap()
    }

    async fn status(&self) -> NodeStatus {
        match self.call(Verb::Status).await {
            Answer::Ok(Success::Status(status)) => *status,
            other => panic!("{other:?}"),
        }
    }

    async fn wait(&self, name: &str, timeout_ms: u64) -> Answer {
        let (namespace, name) = ("default".into(), name.into());
        self.call(Verb::WaitEndpoint { namespace, name, attachment: None, timeout_ms }).await
    }

    /// Until the agent says so; the runner's own time limit is the deadline.
    async fn until(&self, what: &str, done: impl Fn(&NodeStatus) -> bool) -> NodeStatus {
        for _ in 0..1000 {
            let status = self.status().await;
            if done(&status) {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("never: {what}; {:?}", self.status().await)
    }

    fn link(&self, name: &str, index: u32) {
        self.kernel.set_link(name.parse().unwrap(), Some(LinkState { index, up: true, mtu: 1500 }));
    }

    fn route(&self, dest: &str) -> Option<Route> {
        let dest: Cidr = dest.parse().unwrap();
        self.kernel.routes().into_iter().find(|route| route.key.dest == dest)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.agent.abort();
    }
}

fn endpoint_key(name: &str) -> ResourceKey {
    ResourceKey::namespaced(Kind::WorkloadEndpoint, "default", name)
}

fn endpoint(node: &str, interface: &str, address: &str) -> Resource {
    let spec = WorkloadEndpointSpec {
        node: node.into(),
        interface_name: Some(interface.parse().unwrap()),
        ip_networks: vec![address.parse().unwrap()],
        profiles: vec!["open".into()],
        ..WorkloadEndpointSpec::default()
    };
    Resource::WorkloadEndpoint(Object { spec, ..Object::default() })
}

async fn populate(world: &World) {
    let rules = ProfileSpec { ingress: vec![Rule::default()], egress: vec![Rule::default()], ..ProfileSpec::default() };
    let profile = Resource::Profile(Object { spec: rules, ..Object::default() });
    world.put(ResourceKey::cluster(Kind::Profile, "open"), profile).await;
    let bgp = NodeBgpSpec { ipv4_address: Some("10.0.0.1/24".parse().unwrap()), ..NodeBgpSpec::default() };
    let node = ReportedObject { spec: NodeSpec { bgp: Some(bgp), ..NodeSpec::default() }, ..Default::default() };
    let node = Resource::Node(node.into());
    world.put(ResourceKey::cluster(Kind::Node, "a"), node).await;
}

#[tokio::test(start_paused = true)]
async fn before_contact_only_the_skeleton_is_written_and_nothing_is_announced() {
    let store = MemoryStore::new();
    store.disconnect();
    let world = World::start(store);
    world.until("skeleton", |_| world.kernel.ruleset().chains().count() > 0).await;
    let applied = world.kernel.take_applied();
    assert_eq!(applied.len(), 1, "one write: the skeleton");
    assert!(world.bgp.applied().is_empty());
    assert!(!world.health.borrow().ready);
    let Answer::Error(Failure { code: ErrorCode::Timeout, message }) = world.wait("pod", 10).await else { panic!() };
    assert!(message.contains("not in sync with the datastore"), "{message}");

    world.store.reconnect();
    populate(&world).await;
    world.link("cali1", 7);
    world.put(endpoint_key("pod"), endpoint("a", "cali1", "10.1.0.5/32")).await;
    assert_eq!(world.wait("pod", 60_000).await, Answer::Ok(Success::Enforced));
    let status = world.until("in sync", |status| status.datastore == DatastoreState::InSync).await;
    assert_eq!(status.endpoints, 1);
    assert!(world.bgp.applied().last().unwrap().local.is_some());
    assert!(world.health.borrow().ready);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_waits_for_its_interface_and_says_so() {
    let world = World::start(MemoryStore::new());
    populate(&world).await;
    world.put(endpoint_key("pod"), endpoint("a", "cali1", "10.1.0.5/32")).await;
    world.until("endpoint", |status| status.endpoints == 1).await;
    let Answer::Error(failure) = world.wait("pod", 50).await else { panic!() };
    assert!(failure.message.contains("cali1"), "{}", failure.message);
    assert!(world.route("10.1.0.5/32").is_none());
    assert!(world.health.borrow().ready, "one endpoint without its interface is no fault of the host");
    let gone = Verb::WaitEndpointGone { namespace: "default".into(), name: "other".into(), timeout_ms: 50 };
    assert_eq!(world.call(gone).await, Answer::Ok(Success::Gone), "nor is it this one's");

    world.link("cali1", 7);
    assert_eq!(world.wait("pod", 60_000).await, Answer::Ok(Success::Enforced));
    let target = RouteTarget::Interface("cali1".parse().unwrap());
    assert_eq!(world.route("10.1.0.5/32").unwrap().target, target);

    world.write(endpoint_key("pod"), Change::Delete).await;
    let gone = Verb::WaitEndpointGone { namespace: "default".into(), name: "pod".into(), timeout_ms: 60_000 };
    assert_eq!(world.call(gone).await, Answer::Ok(Success::Gone));
    assert!(world.route("10.1.0.5/32").is_none());
}

#[tokio::test(start_paused = true)]
async fn an_interface_is_removed_from_the_dataplane_that_the_agent_was_given() {
    let world = World::start(MemoryStore::new());
    populate(&world).await;
    world.link("cali1", 7);
    world.put(endpoint_key("pod"), endpoint("a", "cali1", "10.1.0.5/32")).await;
    assert_eq!(world.wait("pod", 60_000).await, Answer::Ok(Success::Enforced));
    let removed = world.call(Verb::RemoveInterface { name: "cali1".into() }).await;
    assert_eq!(removed, Answer::Ok(Success::Gone));
    assert_eq!(world.kernel.clone().observe().await.unwrap().links.len(), 0);
    let Answer::Error(failure) = world.wait("pod", 50).await else { panic!("its interface is gone") };
    assert!(failure.message.contains("cali1"), "{}", failure.message);
}

#[tokio::test]
async fn removing_what_is_no_interface_says_so() {
    let world = World::start(MemoryStore::new());
    let remove = |name: &str| world.call(Verb::RemoveInterface { name: name.into() });
    assert_eq!(remove("cali0123456789a").await, Answer::Ok(Success::Gone), "nothing is fine");
    for other in ["../etc", "eth0"] {
        let Answer::Error(failure) = remove(other).await else { panic!("{other} is no workload's interface") };
        assert_eq!(failure.code, ErrorCode::BadRequest);
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_the_next_attachment_is_not_answered_with_the_last_one() {
    let world = World::start(MemoryStore::new());
    populate(&world).await;
    world.link("cali1", 7);
    world.put(endpoint_key("pod"), endpoint("a", "cali1", "10.1.0.5/32")).await;
    assert_eq!(world.wait("pod", 60_000).await, Answer::Ok(Success::Enforced));
    let next = |timeout_ms| {
        let addresses = vec!["10.1.0.6/32".parse().unwrap()];
        let attachment = Some(Attachment { interface: "cali1".parse().unwrap(), addresses, mac: None });
        world.call(Verb::WaitEndpoint { namespace: "default".into(), name: "pod".into(), attachment, timeout_ms })
    };
    let Answer::Error(failure) = next(50).await else { panic!("the old attachment was taken for the new one") };
    assert!(failure.message.contains("earlier attachment"), "{}", failure.message);
    world.put(endpoint_key("pod"), endpoint("a", "cali1", "10.1.0.6/32")).await;
    assert_eq!(next(60_000).await, Answer::Ok(Success::Enforced));
}

#[tokio::test(start_paused = true)]
async fn one_bad_object_is_absent_and_named_and_the_others_go_on() {
    let world = World::start(MemoryStore::new());
    populate(&world).await;
    world.link("cali1", 7);
    world.put(endpoint_key("pod"), endpoint("a", "cali1", "10.1.0.5/32")).await;
    world.store.inject(ResourceKey::cluster(Kind::GlobalNetworkPolicy, "bad"), b"{\"spec\": {\"selector\": 7}}");
    assert_eq!(world.wait("pod", 60_000).await, Answer::Ok(Success::Enforced));
    let named = |status: &NodeStatus| status.diagnostics.iter().any(|text| text.contains("GlobalNetworkPolicy(bad)"));
    world.until("diagnostic", named).await;
    world.write(ResourceKey::cluster(Kind::GlobalNetworkPolicy, "bad"), Change::Delete).await;
    world.until("forgotten", |status| !named(status)).await;
}

#[tokio::test(start_paused = true)]
async fn a_datastore_that_goes_away_changes_nothing_and_is_found_again() {
    let world = World::start(MemoryStore::new());
    populate(&world).await;
    world.link("cali1", 7);
    world.link("cali2", 8);
    world.put(endpoint_key("one"), endpoint("a", "cali1", "10.1.0.5/32")).await;
    assert_eq!(world.wait("one", 60_000).await, Answer::Ok(Success::Enforced));
    world.until("settled", |status| status.dataplane_in_sync).await;
    world.kernel.take_applied();

    world.store.disconnect();
    world.until("noticed", |status| status.datastore != DatastoreState::InSync).await;
    assert_eq!(world.kernel.take_applied(), Vec::new());
    assert!(world.route("10.1.0.5/32").is_some());

    world.store.reconnect();
    world.put(endpoint_key("two"), endpoint("a", "cali2", "10.1.0.6/32")).await;
    assert_eq!(world.wait("two", 60_000).await, Answer::Ok(Success::Enforced));
}

async fn set_ready(world: &World, ready: bool) {
    let spec = ClusterInformationSpec { datastore_ready: Some(ready), ..ClusterInformationSpec::default() };
    let information = Resource::ClusterInformation(Box::new(Object { spec, ..Object::default() }));
    world.put(ResourceKey::cluster(Kind::ClusterInformation, "default"), information).await;
}

fn says_locked(status: &NodeStatus) -> bool {
    status.notices.iter().any(|text| text.contains("datastore locked (calicoctl datastore migrate lock)"))
}

#[tokio::test(start_paused = true)]
async fn a_locked_datastore_changes_nothing_until_it_is_unlocked() {
    let world = World::start(MemoryStore::new());
    populate(&world).await;
    world.link("cali1", 7);
    world.link("cali2", 8);
    world.put(endpoint_key("one"), endpoint("a", "cali1", "10.1.0.5/32")).await;
    assert_eq!(world.wait("one", 60_000).await, Answer::Ok(Success::Enforced));
    world.until("settled", |status| status.dataplane_in_sync).await;
    set_ready(&world, false).await;
    world.until("locked", says_locked).await;
    world.kernel.take_applied();

    world.write(endpoint_key("one"), Change::Delete).await;
    world.put(endpoint_key("two"), endpoint("a", "cali2", "10.1.0.6/32")).await;
    let held = |status: &NodeStatus| status.notices.iter().any(|text| text.contains("3 changed objects wait"));
    world.until("held", held).await;
    assert_eq!(world.kernel.take_applied(), Vec::new());
    assert!(world.route("10.1.0.5/32").is_some());
    assert_ne!(world.wait("two", 50).await, Answer::Ok(Success::Enforced));
    assert!(world.health.borrow().ready, "what is enforced stays enforced");

    set_ready(&world, true).await;
    assert_eq!(world.wait("two", 60_000).await, Answer::Ok(Success::Enforced));
    world.until("gone", |status| !says_locked(status) && world.route("10.1.0.5/32").is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_starts_on_a_locked_datastore_leaves_the_host_as_it_is() {
    let store = MemoryStore::new();
    let kernel = Recording::new();
    let first = World::start_on(store.clone(), kernel.clone());
    populate(&first).await;
    first.link("cali1", 7);
    first.put(endpoint_key("pod"), endpoint("a", "cali1", "10.1.0.5/32")).await;
    assert_eq!(first.wait("pod", 60_000).await, Answer::Ok(Success::Enforced));
    set_ready(&first, false).await;
    first.until("locked", says_locked).await;
    first.write(endpoint_key("pod"), Change::Delete).await;
    drop(first);
    kernel.take_applied();

    let second = World::start_on(store, kernel);
    second.until("locked", |status| says_locked(status) && status.datastore == DatastoreState::InSync).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(second.kernel.take_applied(), Vec::new());
    assert!(second.route("10.1.0.5/32").is_some());
    let health = second.health.borrow().clone();
    assert!(!health.ready && health.detail.contains("datastore locked"), "{}", health.detail);
    assert!(second.bgp.applied().is_empty(), "nothing is announced");

    set_ready(&second, true).await;
    second.until("gone", |_| second.route("10.1.0.5/32").is_none()).await;
    assert!(second.bgp.applied().last().unwrap().local.is_some());
}

#[tokio::test(start_paused = true)]
async fn two_endpoints_with_one_address_are_named() {
    let world = World::start(MemoryStore::new());
    populate(&world).await;
    world.put(endpoint_key("one"), endpoint("a", "cali1", "10.1.0.5/32")).await;
    world.put(endpoint_key("two"), endpoint("a", "cali2", "10.1.0.5/32")).await;
    let named = |status: &NodeStatus| {
        let both = |text: &String| ["default/one", "default/two", "10.1.0.5"].iter().all(|part| text.contains(part));
        status.diagnostics.iter().any(both)
    };
    world.until("named", named).await;
    for (name, index) in [("cali1", 7), ("cali2", 8)] {
        world.link(name, index);
    }
    world.until("routed", |_| world.route("10.1.0.5/32").is_some()).await;
    let target = |name: &str| Some(RouteTarget::Interface(name.parse().unwrap()));
    assert_eq!(world.route("10.1.0.5/32").map(|route| route.target), target("cali1"));
    world.write(endpoint_key("one"), Change::Delete).await;
    world.until("forgotten", |status| !named(status)).await;
    world.until("moved", |_| world.route("10.1.0.5/32").map(|route| route.target) == target("cali2")).await;
}

/// An endpoint that claims the host's own interface: nobody is told that it is policed, and the operator is told why.
#[tokio::test(start_paused = true)]
async fn an_endpoint_on_the_hosts_own_interface_is_left_alone_and_named() {
    let world = World::start(MemoryStore::new());
    populate(&world).await;
    world.link("eth0", 2);
    world.put(endpoint_key("odd"), endpoint("a", "eth0", "10.1.0.5/32")).await;
    let named = |status: &NodeStatus| status.diagnostics.iter().any(|text| text.contains("its interface eth0"));
    let status = world.until("named", named).await;
    assert_eq!(status.endpoints, 0);
    assert_ne!(world.wait("odd", 1_000).await, Answer::Ok(Success::Enforced));
    assert!(world.route("10.1.0.5/32").is_none());
    world.put(endpoint_key("odd"), endpoint("a", "cali1", "10.1.0.5/32")).await;
    world.link("cali1", 7);
    assert_eq!(world.wait("odd", 60_000).await, Answer::Ok(Success::Enforced));
    world.until("forgotten", |status| !named(status)).await;
}

#[tokio::test(start_paused = true)]
async fn learned_routes_are_programmed_and_stale_ones_wait_for_the_speaker_to_settle() {
    let kernel = Recording::new();
    kernel.set_link("eth0".parse().unwrap(), Some(LinkState { index: 2, up: true, mtu: 1500 }));
    let stale = Route {
        key: RouteKey { table: RouteTableId::MAIN, dest: "10.9.0.0/26".parse().unwrap(), metric: 0 },
        target: RouteTarget::Via("10.0.0.9".parse().unwrap()),
        class: RouteClass::Bgp,
    };
    kernel.set_route(stale.key, Some(stale));
    let world = World::start_on(MemoryStore::new(), kernel);
    world.link("cali1", 7);
    world.put(endpoint_key("pod"), endpoint("a", "cali1", "10.1.0.5/32")).await;
    assert_eq!(world.wait("pod", 60_000).await, Answer::Ok(Success::Enforced));
    assert!(world.route("10.9.0.0/26").is_some(), "a route of the last life stays until the speaker has settled");

    // The recording speaker has settled as soon as it is configured.
    populate(&world).await;
    world.until("swept", |_| world.route("10.9.0.0/26").is_none()).await;
    let hop: core::net::IpAddr = "10.0.0.2".parse().unwrap();
    let learned = LearnedRoute::new("10.2.0.0/26".parse().unwrap(), hop, hop.into());
    world.bgp.script(BgpEvent::RouteSet(learned.clone()));
    world.until("learned", |status| status.bgp_routes == 1 && status.dataplane_in_sync).await;
    assert_eq!(world.route("10.2.0.0/26").unwrap().class, RouteClass::Bgp);

    // A host that still announces a workload that is here now does not get its packets.
    let moved = LearnedRoute { prefix: "10.1.0.5/32".parse().unwrap(), ..learned.clone() };
    world.bgp.script(BgpEvent::RouteSet(moved.clone()));
    world.until("learned too", |status| status.bgp_routes == 2 && status.dataplane_in_sync).await;
    let mut ways: Vec<Route> = world.kernel.routes();
    ways.retain(|route| route.key.dest == moved.prefix);
    let best = ways.iter().min_by_key(|route| route.key.metric).unwrap();
    assert_eq!((ways.len(), best.class), (2, RouteClass::LocalWorkload));
    world.bgp.script(BgpEvent::RouteRemoved(moved.prefix));
    world.bgp.script(BgpEvent::RouteRemoved(learned.prefix));
    world.until("withdrawn", |_| world.route("10.2.0.0/26").is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn routes_outlive_a_speaker_until_its_successor_has_settled() {
    let world = World::start(MemoryStore::new());
    populate(&world).await;
    world.until("in sync", |status| status.datastore == DatastoreState::InSync).await;
    let learned = |prefix: &str| {
        let hop = "10.0.0.2".parse().unwrap();
        BgpEvent::RouteSet(LearnedRoute::new(prefix.parse().unwrap(), hop, hop.into()))
    };
    for prefix in ["10.2.0.0/26", "10.2.0.64/26"] {
        world.bgp.script(learned(prefix));
    }
    world.until("learned", |status| status.bgp_routes == 2 && status.dataplane_in_sync).await;
    world.kernel.take_applied();

    world.bgp.restart();
    let status = world.until("forgotten", |status| status.bgp_routes == 0).await;
    assert!(status.dataplane_in_sync, "stale routes are where they should be");
    assert!(status.notices.iter().any(|text| text.contains("2 learned routes of an earlier life")), "{status:?}");
    world.bgp.script(learned("10.2.0.0/26"));
    world.until("learned again", |status| status.bgp_routes == 1).await;
    assert!(world.route("10.2.0.64/26").is_some(), "its peer may only be slow");
    assert_eq!(world.kernel.take_applied(), Vec::new(), "not a packet is lost");

    world.bgp.script(BgpEvent::Settled);
    // The route may go between the status and the look at the kernel.
    world.until("swept", |status| status.notices.is_empty() && world.route("10.2.0.64/26").is_none()).await;
    assert!(world.route("10.2.0.0/26").is_some());
}

#[tokio::test(start_paused = true)]
async fn an_object_that_somebody_keeps_changing_is_named_until_it_is_left_alone() {
    let world = World::start(MemoryStore::new());
    populate(&world).await;
    world.link("cali1", 7);
    world.put(endpoint_key("pod"), endpoint("a", "cali1", "10.1.0.5/32")).await;
    assert_eq!(world.wait("pod", 60_000).await, Answer::Ok(Success::Enforced));
    for _ in 0..5 {
        world.until("route", |_| world.route("10.1.0.5/32").is_some()).await;
        world.kernel.set_route(world.route("10.1.0.5/32").unwrap().key, None);
    }
    let named = |status: &NodeStatus| status.notices.iter().any(|text| text.starts_with("route 10.1.0.5/32"));
    world.until("named", named).await;
    world.until("right", |status| status.dataplane_in_sync && world.route("10.1.0.5/32").is_some()).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!named(&world.status().await));
}

#[tokio::test(start_paused = true)]
async fn a_restart_over_the_same_state_writes_nothing() {
    let store = MemoryStore::new();
    let kernel = Recording::new();
    let first = World::start_on(store.clone(), kernel.clone());
    populate(&first).await;
    first.link("cali1", 7);
    first.put(endpoint_key("pod"), endpoint("a", "cali1", "10.1.0.5/32")).await;
    assert_eq!(first.wait("pod", 60_000).await, Answer::Ok(Success::Enforced));
    first.until("settled", |status| status.dataplane_in_sync).await;
    drop(first);
    kernel.take_applied();

    let second = World::start_on(store, kernel);
    second.until("settled", |status| status.dataplane_in_sync && status.endpoints == 1).await;
    for delta in second.kernel.take_applied() {
        // Interface settings are handed out once in a process life: nobody can tell ours from the host's.
        let rest = calico_core::table::Delta { settings: Vec::new(), ..delta };
        assert!(rest.is_empty(), "{rest:?}");
    }
}

/// A host whose changes cannot be heard of, and how often it was looked at.
struct Unheard(Recording, Arc<std::sync::atomic::AtomicUsize>);

#[async_trait::async_trait]
impl Dataplane for Unheard {
    async fn observe(&mut self) -> Result<calico_dataplane::Observed, DataplaneError> {
        self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.0.observe().await
    }

    async fn apply(&mut self, delta: &calico_core::table::Delta) -> calico_dataplane::ApplyReport {
        self.0.apply(delta).await
    }

    async fn next_change(&mut self) -> Result<HostChange, DataplaneError> {
        Err(DataplaneError::Reply { operation: "listening", detail: "planted".into() })
    }

    fn connections(&mut self, pick: calico_dataplane::Pick) -> calico_dataplane::Listing {
        self.0.connections(pick)
    }

    fn end_connections(&mut self, names: Vec<calico_dataplane::TrackedName>) -> calico_dataplane::Removal {
        self.0.end_connections(names)
    }

    fn remove_workload(&mut self, interface: InterfaceName) -> calico_dataplane::Removal {
        self.0.remove_workload(interface)
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_cannot_be_heard_is_looked_at_ever_more_rarely_and_delays_nobody() {
    let (kernel, looks) = (Recording::new(), Arc::default());
    kernel.set_link("cali1".parse().unwrap(), Some(LinkState { index: 7, up: true, mtu: 1500 }));
    let host = Unheard(kernel.clone(), Arc::clone(&looks));
    let world = World::start_with(MemoryStore::new(), Box::new(host), kernel);
    populate(&world).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    let before = looks.load(std::sync::atomic::Ordering::Relaxed);
    assert!((10..30).contains(&before), "{before}");
    world.put(endpoint_key("pod"), endpoint("a", "cali1", "10.1.0.5/32")).await;
    let asked = Instant::now();
    assert_eq!(world.wait("pod", 60_000).await, Answer::Ok(Success::Enforced));
    assert!(asked.elapsed() < FIRST_DEAF, "virtual time: nobody slept");
}

/// A host endpoint that no interface has is told of, until one has its address.
#[tokio::test(start_paused = true)]
async fn a_host_endpoint_has_the_interface_with_its_address() {
    let world = World::start(MemoryStore::new());
    populate(&world).await;
    let spec = HostEndpointSpec {
        node: "a".into(),
        expected_ips: vec!["192.0.2.1".parse().unwrap()],
        profiles: vec!["open".into(), "not-there".into()],
        ..HostEndpointSpec::default()
    };
    let endpoint = Resource::HostEndpoint(Object { metadata: Metadata::default(), spec });
    world.put(ResourceKey::cluster(Kind::HostEndpoint, "uplink"), endpoint).await;
    let tells = |status: &NodeStatus| status.diagnostics.iter().any(|told| told.contains("no interface of this host"));
    world.until("it has no interface", tells).await;
    let (eth0, address) = ("eth0".parse().unwrap(), "192.0.2.1".parse().unwrap());
    world.link("eth0", 2);
    world.kernel.set_address(eth0, address, true);
    let status = world.until("it has its interface", |status| !tells(status)).await;
    assert_eq!((status.endpoints, status.host_endpoints), (0, 1));
    assert_eq!(status.policies, 1, "a profile that is not there is none: {:?}", status.diagnostics);
    world.kernel.set_address(eth0, address, false);
    let status = world.until("it has lost its interface", tells).await;
    assert_eq!((status.host_endpoints, status.policies), (0, 0));
}

/// Every kind that `Graph` or `Topology` looks at, and none that wakes the agent for nothing.
#[test]
fn what_is_followed_is_what_is_used() {
    // What later parts of the agent will follow is here until they do.
    let unused = [
        Kind::IpamBlock,
        Kind::IpamHandle,
        Kind::BlockAffinity,
        Kind::IpamConfig,
        Kind::IpReservation,
        Kind::IpamConfiguration,
        Kind::FelixConfiguration,
        Kind::KubeControllersConfiguration,
        Kind::CalicoNodeStatus,
        Kind::LiveMigration,
        Kind::ApiBlockAffinity,
    ];
    let kinds = Kind::ALL.iter().copied().filter(|kind| !unused.contains(kind)).map(Scope::Kind);
    let own_blocks = Scope::AffinitiesOf(AffinityOwner::Host("a".into()));
    let expected: Vec<Scope> = kinds.chain([own_blocks]).collect();
    let followed = scopes("a");
    assert_eq!(followed.len(), expected.len(), "{followed:?}");
    assert!(expected.iter().all(|scope| followed.contains(scope)), "{followed:?}");
}
