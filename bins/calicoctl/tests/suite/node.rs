//! `node status`, with an agent that answers on a socket, and without one.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread::JoinHandle;

use calico_cmd::control::{Answer, DatastoreState, NodeStatus, PeerDetails, PeerReport, Reply, Request, Success};

use crate::common::Cluster;

/// The clock of [`Cluster`] stands at 2026-01-02T03:04:05Z.
pub(crate) const NOW: u64 = 1_767_323_045;

pub(crate) fn peer(
    address: &str,
    peer_type: &str,
    state: &str,
    since: Option<u64>,
    last_error: Option<&str>,
) -> PeerReport {
    PeerReport {
        address: address.into(),
        name: "b".into(),
        peer_type: peer_type.into(),
        state: state.into(),
        since,
        received: 1,
        last_error: last_error.map(str::to_owned),
        details: PeerDetails::default(),
    }
}

pub(crate) fn agent(bgp_backend: Option<&str>, bgp: Vec<PeerReport>) -> NodeStatus {
    NodeStatus {
        node: "a".into(),
        version: "0.1.0".into(),
        uptime_ms: 1,
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
        bgp_backend: bgp_backend.map(str::to_owned),
        bgp_identifier: None,
        bgp_configured: None,
        bgp,
        bgp_routes: 0,
    }
}

/// An agent that gives these answers, in order, on one connection.
pub(crate) fn serve(path: &Path, answers: Vec<Success>) -> JoinHandle<Vec<Request>> {
    let listener = UnixListener::bind(path).unwrap();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(&stream);
        let mut asked = Vec::new();
        for answer in answers {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let request: Request = serde_json::from_str(&line).unwrap();
            let reply = Reply { v: request.v, id: request.id, answer: Answer::Ok(answer) };
            writeln!(&stream, "{}", serde_json::to_string(&reply).unwrap()).unwrap();
            asked.push(request);
        }
        asked
    })
}

fn asked(status: NodeStatus, options: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("agent.sock");
    let agent = serve(&socket, vec![Success::Status(Box::new(status))]);
    let told = Cluster::new().done(&format!("node status --control-socket {} {options}", socket.display()), "");
    agent.join().unwrap();
    told
}

#[test]
fn sessions_are_shown_in_upstreams_tables() {
    let peers = vec![
        peer("192.168.100.102", "node-to-node mesh", "Established", Some(NOW - 60), Some("hold timer expired")),
        peer("192.168.100.103", "global", "Active", Some(NOW - 100_000), Some("Connection refused")),
        peer("fe80::1%eth0", "node specific", "OpenSent", None, None),
    ];
    let expected = "\
Calico process is running.
BGP is spoken by the agent itself (native backend).

IPv4 BGP status
+-----------------+-------------------+-------+------------+---------------------------+
| PEER ADDRESS    | PEER TYPE         | STATE | SINCE      | INFO                      |
+-----------------+-------------------+-------+------------+---------------------------+
| 192.168.100.102 | node-to-node mesh | up    | 03:03:05   | Established               |
| 192.168.100.103 | global            | start | 2025-12-31 | Active Connection refused |
+-----------------+-------------------+-------+------------+---------------------------+

IPv6 BGP status
+--------------+---------------+-------+-------+----------+
| PEER ADDRESS | PEER TYPE     | STATE | SINCE | INFO     |
+--------------+---------------+-------+-------+----------+
| fe80::1%eth0 | node specific | start | -     | OpenSent |
+--------------+---------------+-------+-------+----------+

";
    assert_eq!(asked(agent(Some("native"), peers), ""), expected);
}

#[test]
fn a_node_without_peers_or_bgp_says_so() {
    let told = asked(agent(Some("bird"), Vec::new()), "");
    assert!(told.contains("\nIPv4 BGP status\nNo IPv4 peers found.\n"), "{told}");
    assert!(told.contains("\nIPv6 BGP status\nNo IPv6 peers found.\n"), "{told}");
    let told = asked(agent(None, Vec::new()), "");
    assert_eq!(told, "Calico process is running.\n\nThe BGP backend process (BIRD) is not running.\n\n");
}

#[test]
fn programs_get_all_that_the_agent_says() {
    let status = agent(Some("native"), vec![peer("192.0.2.1", "global", "Established", Some(NOW), None)]);
    let told: NodeStatus = serde_json::from_str(&asked(status.clone(), "-o json")).unwrap();
    assert_eq!(told, status);
    assert!(asked(status, "-o yaml").contains("bgp_backend: native\n"));
}

#[test]
fn without_an_agent_it_fails_in_upstreams_words() {
    let run = Cluster::new().type_in("node status --control-socket /nonexistent/agent.sock", "");
    assert_eq!(run.code, 1);
    assert!(run.stderr.starts_with("Calico process is not running.\n  cannot reach calico-node at "), "{run:?}");
}
