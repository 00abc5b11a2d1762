//! `bgp`, with an agent that answers on a socket.

use calico_cmd::control::{
    BgpExplanation, PathFate, PathReport, PeerDetails, PeerHears, PeerReport, Request, RouteAttributes, RouteReport,
    RouteSource, Success, ToldReport, Verb,
};

use crate::common::{Cluster, golden};
use crate::node::{NOW, agent, peer, serve};

/// Types a line while an agent gives these answers; what was printed, and what was asked.
fn asked(line: &str, answers: Vec<Success>) -> (String, Vec<Request>) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("agent.sock");
    let serving = serve(&socket, answers);
    let told = Cluster::new().done(&format!("bgp {line} --control-socket {}", socket.display()), "");
    (told, serving.join().unwrap())
}

fn attributes(next_hop: &str) -> RouteAttributes {
    RouteAttributes {
        next_hop: next_hop.into(),
        origin: "IGP".into(),
        as_path: vec![64513, 64514],
        local_pref: Some(100),
        med: None,
        communities: vec!["64512:1".into(), "64512:1:2".into()],
        originator: None,
        clusters: Vec::new(),
    }
}

fn path(prefix: &str, peer: &str, fate: PathFate, reason: Option<&str>) -> PathReport {
    PathReport {
        prefix: prefix.parse().unwrap(),
        peer: peer.into(),
        path_id: 0,
        route: attributes(peer),
        stale: fate == PathFate::Shares,
        fate,
        reason: reason.map(str::to_owned),
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

fn sessions() -> Vec<PeerReport> {
    let details = PeerDetails {
        as_number: Some(64513),
        sent: 4,
        bfd: Some(true),
        established: 2,
        transitions: 9,
        messages_sent: [2, 5, 1, 30, 0],
        messages_received: [2, 6, 0, 31, 1],
        last_sent: Some("Cease/Administrative Reset".into()),
        identifier: Some("192.0.2.9".parse().unwrap()),
        hold_time: Some(90),
        agreed: vec!["IPv4".into(), "graceful restart (IPv4)".into()],
        ..PeerDetails::default()
    };
    let tor = PeerReport { details, ..peer("192.0.2.9", "global", "Established", Some(NOW - 5), None) };
    vec![tor, peer("fe80::1%eth0", "node specific", "Active", None, Some("Connection refused"))]
}

fn status() -> Vec<Success> {
    vec![Success::Status(Box::new(agent(Some("native"), sessions())))]
}

#[test]
fn peers_are_a_table_and_one_is_told_whole() {
    golden("bgp-peers.txt", &asked("peers", status()).0);
    golden("bgp-peer.txt", &asked("peers 192.0.2.9", status()).0);
    let told: Vec<PeerReport> = serde_json::from_str(&asked("peers -o json", status()).0).unwrap();
    assert_eq!(told, sessions());
    let none = vec![Success::Status(Box::new(agent(None, Vec::new())))];
    assert_eq!(asked("peers", none).0, "No BGP peers.\n");
}

#[test]
fn routes_are_asked_for_until_there_are_no_more() {
    let pages = vec![
        Success::Routes {
            routes: vec![
                route("10.1.0.0/26", &[], RouteSource::Block),
                route("10.1.0.1/32", &[], RouteSource::Workload),
            ],
            more: true,
        },
        Success::Routes {
            routes: vec![
                route("10.2.0.0/26", &["192.0.2.2", "192.0.2.3"], RouteSource::Mesh),
                route("10.96.0.0/12", &["192.0.2.9"], RouteSource::Peer),
            ],
            more: false,
        },
    ];
    let (told, requests) = asked("routes", pages);
    golden("bgp-routes.txt", &told);
    let after = |request: &Request| match &request.verb {
        Verb::Routes { after, .. } => after.map(|after| after.to_string()),
        other => panic!("{other:?}"),
    };
    assert_eq!(requests.iter().map(after).collect::<Vec<_>>(), [None, Some("10.1.0.1/32".to_owned())]);
    // One that promises more and gives nothing is not asked for ever.
    let empty = vec![Success::Routes { routes: Vec::new(), more: true }];
    assert_eq!(asked("routes -o json", empty).0, "[]\n");
}

#[test]
fn what_a_peer_announced_and_is_told() {
    let paths = vec![
        path("10.2.0.0/26", "192.0.2.9", PathFate::Best, None),
        path("10.3.0.0/26", "192.0.2.9", PathFate::Shares, Some("the best's router has a lower identifier")),
        path("10.4.0.0/26", "192.0.2.9", PathFate::Refused, Some("rule 0 of filter no-four rejects it")),
    ];
    let answer = |paths: &[PathReport]| vec![Success::BgpReceived { paths: paths.to_vec(), more: false }];
    golden("bgp-received.txt", &asked("routes --peer tor", answer(&paths)).0);
    let told: Vec<PathReport> = serde_json::from_str(&asked("routes --peer tor -o json", answer(&paths)).0).unwrap();
    assert_eq!(told, paths);
    let told = ToldReport { prefix: "10.1.0.0/26".parse().unwrap(), path_id: 0, route: attributes("192.0.2.1") };
    let answer = vec![Success::BgpAdvertised { routes: vec![told], more: false }];
    golden("bgp-advertised.txt", &asked("routes --peer tor --advertised", answer).0);
}

#[test]
fn a_prefix_is_explained() {
    let hears = |peer: &str, told: Option<RouteAttributes>, withheld: Option<&str>| PeerHears {
        peer: peer.into(),
        told,
        withheld: withheld.map(str::to_owned),
    };
    let explanation = BgpExplanation {
        prefix: "10.2.0.0/26".parse().unwrap(),
        originated: None,
        paths: vec![
            path("10.2.0.0/26", "192.0.2.2", PathFate::Best, None),
            path("10.2.0.0/26", "192.0.2.3", PathFate::Lost, Some("the best has a higher LOCAL_PREF")),
        ],
        kernel: Some("routed via 192.0.2.2".into()),
        told: vec![
            hears("192.0.2.9", Some(attributes("192.0.2.1")), None),
            hears("192.0.2.2", None, Some("the peer announced it\u{1b}[2J")),
        ],
    };
    let answer = vec![Success::BgpExplanation(Box::new(explanation))];
    golden("bgp-explain.txt", &asked("explain 10.2.0.0/26", answer).0);
}
