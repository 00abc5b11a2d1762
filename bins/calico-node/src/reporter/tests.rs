use calico_cmd::control::{DatastoreState, PeerDetails, PeerReport, RouteSource};
use calico_core::resource::Metadata;
use calico_core::time::Timestamp;
use calico_datastore::SystemIds;
use calico_datastore::memory::MemoryStore;
use tokio::task::JoinHandle;

use super::*;

/// 2026-01-02T03:04:05Z.
const NOW: u64 = 1_767_323_045;

struct Frozen;

impl Clock for Frozen {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(NOW)
    }
}

fn peer(address: &str, peer_type: &str, state: &str) -> PeerReport {
    PeerReport {
        address: address.into(),
        name: "b".into(),
        peer_type: peer_type.into(),
        state: state.into(),
        since: Some(NOW - 60),
        received: 1,
        last_error: None,
        details: PeerDetails::default(),
    }
}

fn picture(bgp: Vec<PeerReport>) -> NodeStatus {
    NodeStatus {
        node: "a".into(),
        version: "0.1.0".into(),
        uptime_ms: 5000,
        datastore: DatastoreState::InSync,
        datastore_error: None,
        endpoints: 0,
        host_endpoints: 0,
        policies: 0,
        ip_sets: 0,
        dataplane_in_sync: true,
        dataplane_error: None,
        diagnostics: Vec::new(),
        endpoint_problems: Vec::new(),
        endpoints_with_problems: 0,
        notices: Vec::new(),
        bgp_backend: Some("native".into()),
        bgp_identifier: Some("10.0.0.1".parse().unwrap()),
        bgp_configured: Some(NOW - 1),
        bgp,
        bgp_routes: 0,
    }
}

fn route(destination: &str, gateways: &[&str], source: RouteSource) -> RouteReport {
    RouteReport {
        destination: destination.parse().unwrap(),
        gateways: gateways.iter().map(|gateway| gateway.parse().unwrap()).collect(),
        interface: (source == RouteSource::Workload).then(|| "cali1".parse().unwrap()),
        source,
        peer: gateways.first().map(|gateway| (*gateway).to_owned()),
        programmed: source != RouteSource::Peer,
    }
}

/// An agent that says the same each time, two routes at a time, until it is told otherwise.
fn agent(peers: tokio::sync::watch::Receiver<Vec<PeerReport>>) -> (mpsc::Sender<Call>, JoinHandle<()>) {
    let (sender, mut calls) = mpsc::channel::<Call>(4);
    let all = [
        route("10.1.0.0/26", &[], RouteSource::Block),
        route("10.1.0.1/32", &[], RouteSource::Workload),
        route("10.2.0.0/26", &["10.0.0.2", "10.0.0.3"], RouteSource::Mesh),
        route("fd00:1::/64", &["fd00::9"], RouteSource::Peer),
    ];
    let serve = async move {
        while let Some(Call { verb, answer }) = calls.recv().await {
            let success = match verb {
                Verb::Status => Success::Status(Box::new(picture(peers.borrow().clone()))),
                Verb::Routes { after, .. } => {
                    let rest: Vec<_> =
                        all.iter().filter(|route| after.is_none_or(|after| route.destination > after)).collect();
                    Success::Routes {
                        routes: rest.iter().take(2).map(|route| (*route).clone()).collect(),
                        more: rest.len() > 2,
                    }
                }
                other => panic!("{other:?}"),
            };
            answer.send(Answer::Ok(success)).unwrap();
        }
    };
    (sender, tokio::spawn(serve))
}

struct World {
    client: Client,
    peers: tokio::sync::watch::Sender<Vec<PeerReport>>,
    reporter: JoinHandle<()>,
}

impl World {
    fn start() -> Self {
        let client = Client::new(Arc::new(MemoryStore::new()), Arc::new(Frozen), Arc::new(SystemIds::open().unwrap()));
        let (peers, seen) = tokio::sync::watch::channel(vec![
            peer("10.0.0.2", "node-to-node mesh", "Established"),
            peer("10.0.0.9", "global", "Active"),
            peer("fd00::9", "node specific", "Established"),
        ]);
        let reporter = Reporter::new("a", client.clone(), Arc::new(Frozen), agent(seen).0);
        Self { client, peers, reporter: tokio::spawn(reporter.run()) }
    }

    async fn ask(&self, name: &str, node: &str, classes: &[NodeStatusClass], period: u32) {
        let spec =
            CalicoNodeStatusSpec { node: node.into(), classes: classes.to_vec(), update_period_seconds: Some(period) };
        let metadata = Metadata { name: name.into(), ..Metadata::default() };
        self.client.apply(Resource::CalicoNodeStatus(ReportedObject::new(metadata, spec).into())).await.unwrap();
    }

    async fn stored(&self, name: &str) -> (CalicoNodeStatusStatus, String) {
        let stored = self.client.get(&ResourceKey::cluster(Kind::CalicoNodeStatus, name)).await.unwrap();
        let Resource::CalicoNodeStatus(object) = &*stored.resource else { panic!("{stored:?}") };
        (object.status.clone(), stored.revision.to_string())
    }

    async fn until(&self, name: &str, wanted: impl Fn(&CalicoNodeStatusStatus) -> bool) -> CalicoNodeStatusStatus {
        for _ in 0..1000 {
            let (status, _) = self.stored(name).await;
            if wanted(&status) {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("never: {:?}", self.stored(name).await)
    }
}

fn is_answered(status: &CalicoNodeStatusStatus) -> bool {
    status.last_updated.is_some()
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_is_answered_and_nothing_else() {
    let world = World::start();
    world.ask("all", "a", &[NodeStatusClass::Agent, NodeStatusClass::BGP, NodeStatusClass::Routes], 0).await;
    world.ask("bgp", "a", &[NodeStatusClass::BGP], 0).await;
    world.ask("other", "b", &[NodeStatusClass::BGP], 0).await;
    let all = world.until("all", is_answered).await;
    assert_eq!(all.last_updated.as_deref(), Some("2026-01-02T03:04:05Z"));
    let daemon = &all.agent.bird_v4;
    let words =
        [&daemon.state, &daemon.version, &daemon.router_id, &daemon.last_boot_time, &daemon.last_reconfiguration_time];
    assert_eq!(words, ["Ready", "calico-node 0.1.0", "10.0.0.1", "2026-01-02T03:04:00Z", "2026-01-02T03:04:04Z"]);
    let bgp = world.until("bgp", is_answered).await;
    assert_eq!(bgp.bgp, all.bgp);
    assert_eq!((bgp.agent, bgp.routes), Default::default());
    let counts = (bgp.bgp.number_established_v4, bgp.bgp.number_not_established_v4, bgp.bgp.number_established_v6);
    assert_eq!(counts, (1, 1, 1));
    let peers: Vec<_> =
        bgp.bgp.peers_v4.iter().map(|peer| (&*peer.peer_ip, &*peer.peer_type, &*peer.state, &*peer.since)).collect();
    let since = "2026-01-02T03:03:05Z";
    assert_eq!(peers, [("10.0.0.2", "NodeMesh", "Established", since), ("10.0.0.9", "GlobalPeer", "Active", since)]);
    let routes: Vec<_> = all
        .routes
        .routes_v4
        .iter()
        .map(|route| {
            let from = &route.learned_from;
            [
                &*route.route_type,
                &*route.destination,
                &*route.gateway,
                &*route.interface,
                &*from.source_type,
                &*from.peer_ip,
            ]
            .join(" ")
        })
        .collect();
    assert_eq!(
        routes,
        [
            "FIB 10.1.0.0/26 N/A blackhole Static ",
            "FIB 10.1.0.1/32 N/A cali1 Kernel ",
            "FIB 10.2.0.0/26 10.0.0.2  NodeMesh 10.0.0.2",
            "FIB 10.2.0.0/26 10.0.0.3  NodeMesh 10.0.0.2",
        ]
    );
    assert_eq!((all.routes.routes_v6.len(), &*all.routes.routes_v6[0].route_type), (1, "RIB"));
    assert!(!is_answered(&world.stored("other").await.0), "another node's");
}

#[tokio::test(start_paused = true)]
async fn it_is_written_again_when_it_differs_and_only_as_often_as_asked() {
    let world = World::start();
    world.ask("once", "a", &[NodeStatusClass::BGP], 0).await;
    world.ask("often", "a", &[NodeStatusClass::BGP], 10).await;
    for name in ["once", "often"] {
        world.until(name, is_answered).await;
    }
    let before = (world.stored("once").await, world.stored("often").await);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((world.stored("once").await, world.stored("often").await), before, "nothing is new");
    world.peers.send_replace(Vec::new());
    world.until("often", |status| status.bgp.peers_v4.is_empty()).await;
    assert_eq!(world.stored("once").await, before.0, "it was asked once");
    world.ask("once", "a", &[NodeStatusClass::Agent], 0).await;
    world.until("once", |status| status.agent.bird_v4.state == "Ready" && status.bgp.peers_v4.is_empty()).await;
    world.reporter.abort();
}
