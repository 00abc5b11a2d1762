//! Host endpoints, translation and limits in a real kernel: it takes all that is rendered, and packets meet each policy once and in the
//! place that is its own.

use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use calico_core::calc::event::{
    ActiveEndpoint, ActiveEntity, ActiveHostEndpoint, ActiveRule, ActiveRules, Directions, EndpointId, Event,
    HostInterfaces, Network, PolicyId, Stack, StackTier,
};
use calico_core::net::PortRange;
use calico_core::render::{DenyAction, NatConfig, PolicyRenderer, RenderConfig, Renderer, ServiceLoops};
use calico_core::resource::{Action, DefaultAction, Kind, QosControls, ResourceKey};
use calico_core::table::Delta;
use calico_dataplane::netns::{Netns, Request, RouteSocket, VethEnd};
use calico_dataplane::testing::netns::scratch;
use calico_dataplane::{Dataplane, LinuxDataplane};

use super::fixture::{in_namespace, nft, open, run};

const UPLINK: &str = "uplink0";
const HERE: &str = "10.78.0.1";
const PEER: &str = "10.78.0.2";
/// Routed to another interface, which no policy is about.
const ELSEWHERE: &str = "10.99.0.9";

/// A renderer whose changes go to the kernel at once; each must be taken.
pub(crate) struct Host {
    renderer: Renderer,
    dataplane: LinuxDataplane,
}

impl Host {
    pub(crate) async fn start(config: RenderConfig, dataplane: LinuxDataplane) -> Self {
        let renderer = Renderer::new(config);
        let mut host = Self { dataplane, renderer };
        let skeleton = host.renderer.skeleton();
        host.apply(skeleton).await;
        host
    }

    async fn apply(&mut self, mut delta: Delta) {
        (delta.routes_set, delta.routes_removed) = Default::default();
        (delta.neighbors_set, delta.neighbors_removed, delta.settings) = Default::default();
        let report = self.dataplane.apply(&delta).await;
        assert!(report.is_complete(), "{report:?} for\n{delta}");
    }

    pub(crate) async fn tell(&mut self, events: &[Event]) {
        for event in events {
            let mut delta = Delta::default();
            self.renderer.handle(event, &mut delta);
            self.apply(delta).await;
        }
    }
}

/// Settings of which each renders something else than the default.
pub(super) fn otherwise() -> RenderConfig {
    RenderConfig {
        deny_action: DenyAction::Reject,
        flow_logs: true,
        log_rate: Some("10/minute".parse().unwrap()),
        nat: NatConfig {
            ports: PortRange::new(32768, 60999),
            address: Some("203.0.113.7".parse().unwrap()),
            interfaces: Some("eth+".parse().unwrap()),
            spare_hosts: true,
            random: false,
        },
        service_loops: ServiceLoops::Reject,
        floating_addresses: true,
        ..RenderConfig::default()
    }
}

#[test]
fn the_kernel_takes_everything_and_nothing_remains() {
    for config in [RenderConfig::default(), otherwise()] {
        in_namespace(async |dataplane| {
            let mut host = Host::start(config.clone(), dataplane).await;
            let before = open().observe().await.unwrap();
            let [policies, endpoints] = everything();
            host.tell(&policies).await;
            host.tell(&endpoints).await;
            run("nft", "list ruleset");
            let gone: Vec<Event> = endpoints.iter().chain(&policies).filter_map(removal).collect();
            host.tell(&gone).await;
            let after = open().observe().await.unwrap();
            assert_eq!((after.chains, after.sets), (before.chains, before.sets));
        });
    }
}

/// Everything at once, policies first.
pub(super) fn everything() -> [Vec<Event>; 2] {
    let all = [Action::Log, Action::Pass, Action::Deny, Action::Allow].map(rule);
    let policies = ["a", "b"].map(|name| policy_event(name, all.to_vec(), all.to_vec()));
    let trial = Event::PolicySet { id: staged("tried"), rules: rules(all.to_vec(), all.to_vec()) };
    let mut stack = stack(&["a", "b"], DefaultAction::Deny);
    Arc::make_mut(&mut stack).tiers.iter_mut().for_each(|tier| tier.policies.push(staged("tried")));
    let both = || Directions { ingress: stack.clone(), egress: stack.clone() };
    let host = |interfaces| ActiveHostEndpoint {
        dscp: vec![("192.0.2.1".parse().unwrap(), 46), ("2001:db8::1".parse().unwrap(), 10)],
        interfaces,
        untracked: both(),
        pre_dnat: stack.clone(),
        normal: both(),
        forward: both(),
    };
    let qos = QosControls {
        ingress_packet_rate: Some(100),
        egress_max_connections: Some(3),
        dscp: Some("EF".parse().unwrap()),
        ..QosControls::default()
    };
    let workload = ActiveEndpoint {
        interface: "cali00001".parse().unwrap(),
        mac: None,
        addresses: vec!["10.65.0.2/32".parse().unwrap(), "fd00::2/128".parse().unwrap()],
        allowed_sources: Vec::new(),
        floating: vec![("192.0.2.7".parse().unwrap(), "10.65.0.2".parse().unwrap())],
        qos: Some(Arc::new(qos)),
        ingress: stack.clone(),
        egress: stack.clone(),
    };
    let network = Network {
        pools: ["10.65.0.0/16", "fd00::/64"].map(|net| net.parse().unwrap()).into(),
        masqueraded: ["10.65.0.0/16", "fd00::/64"].map(|net| net.parse().unwrap()).into(),
        hosts: ["192.0.2.1/32", "2001:db8::1/128"].map(|net| net.parse().unwrap()).into(),
        services: ["10.96.0.0/12", "fd01::/112", "198.51.100.0/24"].map(|net| net.parse().unwrap()).into(),
    };
    let workload_id = EndpointId(ResourceKey::namespaced(Kind::WorkloadEndpoint, "default", "pod"));
    let endpoints = vec![
        Event::EndpointSet { id: workload_id, endpoint: Arc::new(workload) },
        host_event("named", host(HostInterfaces::Named(vec![UPLINK.parse().unwrap(), "eth7".parse().unwrap()]))),
        host_event("others", host(HostInterfaces::Others)),
        Event::NetworkSet(Arc::new(network)),
    ];
    [policies.into_iter().chain([trial]).collect(), endpoints]
}

fn removal(event: &Event) -> Option<Event> {
    Some(match event {
        Event::EndpointSet { id, .. } => Event::EndpointRemoved(id.clone()),
        Event::HostEndpointSet { id, .. } => Event::HostEndpointRemoved(id.clone()),
        Event::PolicySet { id, .. } => Event::PolicyRemoved(id.clone()),
        Event::NetworkSet(_) => Event::NetworkSet(Arc::default()),
        _ => return None,
    })
}

/// The host, and a peer behind its uplink. What was dropped is known by what comes next: the link keeps the order, and the last number
/// goes to a fail-safe port.
struct Traffic {
    peer: UdpSocket,
    here: Vec<(u16, UdpSocket)>,
}

impl Traffic {
    fn open(peer: &Netns, ports: &[u16]) -> Self {
        let bind = |address: &str, port| {
            let socket = UdpSocket::bind((address, port)).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            socket
        };
        let here = ports.iter().map(|port| (*port, bind(HERE, *port))).collect();
        Self { peer: peer.run(|| bind(PEER, 5000)).unwrap(), here }
    }

    fn here(&self, port: u16) -> &UdpSocket {
        &self.here.iter().find(|(bound, _)| *bound == port).unwrap().1
    }

    /// Whether what the peer sends to a port arrives at another one, which is the same unless somebody translates.
    fn arrives(&self, port: u16, at: u16) -> bool {
        let (socket, open) = (self.here(at), self.here(FAILSAFE));
        self.peer.send_to(b"?", (HERE, port)).unwrap();
        self.peer.send_to(b"!", (HERE, FAILSAFE)).unwrap();
        open.recv(&mut [0; 1]).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket.recv(&mut [0; 1]).is_ok()
    }

    /// Whether what the host sends to a port of the peer arrives there, or wherever it is translated to.
    fn leaves(&self, port: u16) -> bool {
        self.leaves_to(PEER, port)
    }

    fn leaves_to(&self, address: &str, port: u16) -> bool {
        let socket = UdpSocket::bind((HERE, 0)).unwrap();
        match socket.send_to(b"?", (address, port)) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied),
        }
        self.here(FAILSAFE).send_to(b"!", (PEER, OUTBOUND)).ok();
        let mut heard = [0; 1];
        self.peer.recv(&mut heard).unwrap();
        if heard == *b"?" {
            self.peer.recv(&mut heard).unwrap();
            assert_eq!(heard, *b"!");
            return true;
        }
        false
    }
}

/// Inbound fail-safe port; what the peer hears on comes from a foreign table that sends everything for these two ports to 5000.
const FAILSAFE: u16 = 68;
const OUTBOUND: u16 = 67;

#[test]
fn each_policy_is_asked_once_and_in_its_place() {
    let (host, peer) = (scratch(), scratch());
    host.run(|| {
        attach(&peer);
        // Services of a stranger: to this host 1001 is 2001, and of the peer all ports are 5000 but where policy is to see it first.
        nft(&format!(
            "table ip stranger {{
                chain in {{ type nat hook prerouting priority -100; udp dport 1001 redirect to :2001; }}
                chain out {{ type nat hook output priority -100; udp dport {{ 3001, 3002 }} dnat to {PEER}:5000; }}
                chain aside {{ type nat hook output priority -101; ip daddr {ELSEWHERE} udp dport 3003 dnat to {PEER}:5000; }}
                chain late {{ type filter hook postrouting priority 0; ip daddr {PEER} udp dport {OUTBOUND} udp dport set 5000; }}
            }}"
        ));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(policies(&peer));
    })
    .unwrap();
}

/// What leaves the cluster from an expected address; what stays in it, or comes from another address, keeps its mark.
#[test]
fn a_host_endpoint_marks_what_leaves_the_cluster() {
    let (host, peer) = (scratch(), scratch());
    host.run(|| {
        attach(&peer);
        run("ip", &format!("address add {BESIDE}/24 dev {UPLINK}"));
        run("ip", &format!("route add {INSIDE}/32 via {PEER}"));
        let chain = "type filter hook input priority 0; ip dscp 46 counter; ip dscp 0 counter;";
        peer.run(|| {
            run("ip", &format!("address add {INSIDE}/32 dev eth0"));
            nft(&format!("table ip seen {{\n chain input {{ {chain} }}\n}}"));
        })
        .unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(marks(&peer));
    })
    .unwrap();
}

/// Another address of the host.
const BESIDE: &str = "10.78.0.3";
/// An address of a pool, behind the peer.
const INSIDE: &str = "10.65.0.9";

async fn marks(peer: &Netns) {
    let heard = peer.run(|| UdpSocket::bind(("0.0.0.0", 5000)).unwrap()).unwrap();
    heard.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let send = |from: &str, to: &str| {
        UdpSocket::bind((from, 0)).unwrap().send_to(b"?", (to, 5000)).unwrap();
        heard.recv(&mut [0; 1]).unwrap();
    };
    let seen = || {
        let table = peer.run(|| run("nft", "list table ip seen")).unwrap();
        let counts = table.lines().filter_map(|line| line.split("packets ").nth(1)?.split(' ').next()?.parse().ok());
        counts.collect::<Vec<usize>>()
    };
    let mut host = Host::start(RenderConfig::default(), open()).await;
    let open = || Directions { ingress: Arc::default(), egress: stack(&["open"], DefaultAction::Deny) };
    let endpoint = ActiveHostEndpoint {
        dscp: vec![(HERE.parse().unwrap(), 46)],
        interfaces: HostInterfaces::Named(vec![UPLINK.parse().unwrap()]),
        untracked: Directions::default(),
        pre_dnat: Arc::default(),
        normal: open(),
        forward: Directions::default(),
    };
    let network = Network { pools: vec!["10.65.0.0/16".parse().unwrap()], ..Network::default() };
    host.tell(&[
        policy_event("open", vec![], vec![rule(Action::Allow)]),
        host_event("uplink", endpoint),
        Event::NetworkSet(Arc::new(network)),
    ])
    .await;
    send(HERE, PEER);
    assert_eq!(seen(), [1, 0]);
    send(HERE, INSIDE);
    send(BESIDE, PEER);
    assert_eq!(seen(), [1, 2]);
    host.tell(&[Event::HostEndpointRemoved(host_id("uplink"))]).await;
    send(HERE, PEER);
    assert_eq!(seen(), [1, 3]);
}

async fn policies(peer: &Netns) {
    let traffic = Traffic::open(peer, &[FAILSAFE, 2001, 2002, 2003, 2004]);
    let mut host = Host::start(RenderConfig::default(), open()).await;
    assert!(traffic.arrives(2001, 2001) && traffic.leaves(3001), "no endpoint, no policy");
    host.tell(&[
        policy_event("raw", vec![to_port(2002, Action::Allow)], vec![]),
        policy_event("early", vec![to_port(1001, Action::Allow), to_port(2004, Action::Deny)], vec![]),
        policy_event("normal", vec![to_port(2003, Action::Allow)], vec![to_port(5000, Action::Allow)]),
        policy_event("open", vec![rule(Action::Allow)], vec![to_port(3001, Action::Allow)]),
    ])
    .await;
    let mut endpoint = ActiveHostEndpoint {
        dscp: Vec::new(),
        interfaces: HostInterfaces::Named(vec![UPLINK.parse().unwrap()]),
        untracked: Directions::default(),
        pre_dnat: Arc::default(),
        normal: Directions {
            ingress: stack(&["normal"], DefaultAction::Deny),
            egress: stack(&["normal"], DefaultAction::Deny),
        },
        forward: Directions::default(),
    };
    host.tell(&[host_event("uplink", endpoint.clone())]).await;
    assert!(traffic.arrives(2003, 2003) && !traffic.arrives(2002, 2002));
    assert!(!traffic.arrives(1001, 2001), "normal policy sees the translated port");
    assert!(traffic.leaves(3002), "policy of what is sent sees the translated port, 5000");
    assert!(!traffic.leaves(4000));
    assert!(traffic.leaves_to(ELSEWHERE, 3003), "translated away from where it was routed to");

    endpoint.untracked.ingress = stack(&["raw"], DefaultAction::Pass);
    host.tell(&[host_event("uplink", endpoint.clone())]).await;
    assert!(traffic.arrives(2002, 2002), "raw policy allows, and nobody asks again");
    assert!(!run("conntrack", "-L").contains("dport=2002"), "and it is not tracked");
    assert!(traffic.arrives(2003, 2003) && !traffic.arrives(1001, 2001) && traffic.leaves(3002));

    endpoint.pre_dnat = stack(&["early"], DefaultAction::Pass);
    host.tell(&[host_event("uplink", endpoint.clone())]).await;
    run("conntrack", "-F");
    assert!(traffic.arrives(1001, 2001), "preDNAT policy sees the port as it comes, and nobody asks again");
    assert!(traffic.arrives(2002, 2002) && traffic.arrives(2003, 2003) && !traffic.arrives(2001, 2001));

    // Judged by the untranslated port, it would be allowed; judged twice, one of the two would forbid it.
    endpoint.normal =
        Directions { ingress: stack(&["open"], DefaultAction::Deny), egress: stack(&["open"], DefaultAction::Deny) };
    endpoint.untracked = Directions::default();
    host.tell(&[host_event("others", endpoint.clone()), host_event("uplink", endpoint)]).await;
    run("conntrack", "-F");
    assert!(!traffic.leaves(3001), "3001 becomes 5000, which is not allowed");
    assert!(!traffic.leaves_to(ELSEWHERE, 3003), "policy of the interface that it really leaves by has a say");
    assert!(!traffic.arrives(2004, 2004), "preDNAT policy denies what normal policy would allow");
    host.tell(&["uplink", "others"].map(|name| Event::HostEndpointRemoved(host_id(name)))).await;
    run("conntrack", "-F");
    assert!(traffic.leaves(3001) && traffic.arrives(2004, 2004));
}

fn attach(peer: &Netns) {
    let mut here = RouteSocket::open().unwrap();
    let end = |name: &str, netns| VethEnd { name: name.parse().unwrap(), netns, mac: None };
    here.carry_out(&[Request::veth(end(UPLINK, None), end("eth0", Some(peer.as_fd())), 0)]).unwrap();
    configure(&mut here, UPLINK, HERE);
    here.carry_out(&[Request::veth(end("other0", None), end("other1", None), 0)]).unwrap();
    configure(&mut here, "other0", "10.99.0.1");
    configure(&mut here, "other1", "10.99.1.1");
    configure(&mut RouteSocket::open_in(peer).unwrap(), "eth0", PEER);
}

fn configure(socket: &mut RouteSocket, name: &str, address: &str) {
    let link = socket.link(name.parse().unwrap()).unwrap().unwrap();
    socket.carry_out(&[Request::up(link.index), Request::address(link.index, address.parse().unwrap(), 24)]).unwrap();
}

pub(crate) fn rule(action: Action) -> ActiveRule {
    ActiveRule::all(action)
}

fn to_port(port: u16, action: Action) -> ActiveRule {
    let destination = ActiveEntity { ports: vec![PortRange::single(port)], ..ActiveEntity::default() };
    ActiveRule { protocol: Some(17), destination, ..rule(action) }
}

fn rules(ingress: Vec<ActiveRule>, egress: Vec<ActiveRule>) -> Arc<ActiveRules> {
    Arc::new(ActiveRules { tier: Some("default".into()), ingress, egress })
}

pub(crate) fn policy_event(name: &str, ingress: Vec<ActiveRule>, egress: Vec<ActiveRule>) -> Event {
    Event::PolicySet { id: policy(name), rules: rules(ingress, egress) }
}

fn policy(name: &str) -> PolicyId {
    PolicyId(ResourceKey::cluster(Kind::GlobalNetworkPolicy, name))
}

fn staged(name: &str) -> PolicyId {
    PolicyId(ResourceKey::cluster(Kind::StagedGlobalNetworkPolicy, name))
}

pub(crate) fn stack(policies: &[&str], default_action: DefaultAction) -> Arc<Stack> {
    let policies = policies.iter().map(|name| policy(name)).collect();
    let tiers = vec![StackTier { name: "default".into(), policies, default_action }];
    Arc::new(Stack { tiers, profiles: Vec::new() })
}

pub(crate) fn host_event(name: &str, endpoint: ActiveHostEndpoint) -> Event {
    Event::HostEndpointSet { id: host_id(name), endpoint: Arc::new(endpoint) }
}

pub(crate) fn host_id(name: &str) -> EndpointId {
    EndpointId(ResourceKey::cluster(Kind::HostEndpoint, name))
}
