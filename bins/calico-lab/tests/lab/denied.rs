//! Connections that go on across changes of policy, through real kernels: until one denies them.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use calico_dataplane::netns::{Netns, named};
use serde_json::Value;

use crate::fixture::Lab;

const KEPT: u16 = 7000;
const DENIED: u16 = 7001;
/// What was sent and not answered within this time is lost.
const PATIENCE: Duration = Duration::from_millis(500);
const DEADLINE: Duration = Duration::from_secs(20);

/// Ingress to these ports only, for everybody.
fn policy(name: &str, selector: &str, ports: &[u16]) -> String {
    let rules = ["TCP", "UDP"]
        .map(|protocol| format!("    - {{action: Allow, protocol: {protocol}, destination: {{ports: {ports:?}}}}}\n"));
    format!(
        "apiVersion: projectcalico.org/v3\nkind: GlobalNetworkPolicy\nmetadata: {{name: {name}}}\n\
         spec:\n  selector: {selector}\n  types: [Ingress]\n  ingress:\n{}",
        rules.concat()
    )
}

/// A connection of which every message is echoed.
enum Talk {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

impl Talk {
    fn tcp(netns: &Netns, to: SocketAddr) -> Self {
        let stream = netns.run(|| TcpStream::connect_timeout(&to, DEADLINE)).unwrap().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self::Tcp(stream)
    }

    fn udp(netns: &Netns, to: SocketAddr) -> Self {
        let socket = netns.run(|| UdpSocket::bind(("0.0.0.0", 0))).unwrap().unwrap();
        socket.connect(to).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self::Udp(socket)
    }

    /// Whether a message comes back.
    fn goes_on(&mut self, message: u64) -> bool {
        let message = message.to_be_bytes();
        let mut answer = [0; 8];
        let answered = match self {
            Self::Tcp(stream) => stream.write_all(&message).and_then(|()| stream.read_exact(&mut answer)),
            Self::Udp(socket) => socket.send(&message).and_then(|_| socket.recv(&mut answer).map(drop)),
        };
        answered.is_ok() && answer == message
    }
}

/// Echoes what comes to a port, in threads that end with the test.
fn echo(netns: &Netns, address: SocketAddr) {
    let (listener, socket) = netns.run(|| (TcpListener::bind(address), UdpSocket::bind(address))).unwrap();
    let (listener, socket) = (listener.unwrap(), socket.unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut message = [0; 8];
                while stream.read_exact(&mut message).and_then(|()| stream.write_all(&message)).is_ok() {}
            });
        }
    });
    thread::spawn(move || {
        let mut message = [0; 8];
        while let Ok((length, from)) = socket.recv_from(&mut message) {
            let _ = socket.send_to(message.get(..length).unwrap_or_default(), from);
        }
    });
}

fn apply(lab: &Lab, text: &str) {
    let file = lab.state().join("policy.yaml");
    std::fs::write(&file, text).unwrap();
    lab.succeed(&format!("exec net -- calicoctl apply -f {}", file.display()));
}

/// Both ends on one host, and on two.
#[test]
fn a_connection_ends_when_policy_denies_it_and_no_earlier() {
    let lab = Lab::new();
    let network: Value = serde_json::from_str(&lab.succeed("up --hosts 2 --pods 2 --json")).unwrap();
    let address = |pod: usize| network["pods"][pod]["address"].as_str().unwrap().parse::<IpAddr>().unwrap();
    let netns = |pod: usize| named::open(network["pods"][pod]["netns"].as_str().unwrap()).unwrap();
    apply(&lab, &policy("ports", "all()", &[KEPT, DENIED]));
    lab.succeed("check");

    let server = 0;
    for port in [KEPT, DENIED] {
        echo(&netns(server), (address(server), port).into());
    }
    let (mut kept, mut denied) = (Vec::new(), Vec::new());
    for client in 1..4 {
        for (talks, port) in [(&mut kept, KEPT), (&mut denied, DENIED)] {
            let to = (address(server), port).into();
            talks.extend([Talk::tcp(&netns(client), to), Talk::udp(&netns(client), to)]);
        }
    }
    let all_go_on = |talks: &mut [Talk], rounds: u64| {
        (0..rounds).for_each(|round| {
            let lost = talks.iter_mut().position(|talk| !talk.goes_on(round));
            assert_eq!(lost, None, "round {round}");
        });
    };
    all_go_on(&mut kept, 20);
    all_go_on(&mut denied, 20);

    // It concerns nobody, and then it allows what is allowed already.
    apply(&lab, &policy("elsewhere", "role == 'none'", &[1]));
    apply(&lab, &policy("elsewhere", "all()", &[KEPT]));
    all_go_on(&mut kept, 100);
    all_go_on(&mut denied, 100);

    apply(&lab, &policy("ports", "all()", &[KEPT]));
    let deadline = Instant::now() + DEADLINE;
    let mut round = 1000;
    // A socket that is told that it was cut off is as good as one that hears nothing.
    while denied.iter_mut().any(|talk| talk.goes_on(round)) {
        assert!(Instant::now() < deadline, "a denied connection goes on");
        all_go_on(&mut kept, 1);
        round += 1;
    }
    for silent in 0..2 {
        assert!(!denied.iter_mut().any(|talk| talk.goes_on(2000 + silent)), "a denied connection came back");
        all_go_on(&mut kept, 20);
    }
}
