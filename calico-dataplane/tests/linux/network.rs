//! A pod, its host and a server behind the host, each a namespace, for tests that send real packets through rules.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use calico_core::table::{
    BaseChain, Chain, ChainType, Delta, Element, ElementDelta, Field, Hook, Match, Rule, SetDecl, Statement, Value,
    Verdict,
};
use calico_dataplane::netns::Netns;
use calico_dataplane::testing::netns::scratch;
use calico_dataplane::testing::sample::chain_name;
use calico_dataplane::{Dataplane, LinuxDataplane};

use super::fixture::{bind, open, run};

/// Longest wait for a packet that must come.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) const UDP: u8 = 17;
pub(crate) const TCP: u8 = 6;

/// Interfaces of the host.
pub(crate) const NEAR: &str = "cali00001";
pub(crate) const FAR: &str = "uplink0";
/// Addresses: of the pod (two), of the host towards either side, of the server.
pub(crate) const POD: &str = "10.77.0.2";
pub(crate) const OTHER_POD: &str = "10.77.0.3";
pub(crate) const GATEWAY: &str = "10.77.0.1";
pub(crate) const UPLINK: &str = "10.88.0.1";
pub(crate) const SERVER: &str = "10.88.0.2";

/// The namespaces besides the host's, in which the test runs.
pub(crate) struct Network {
    pub(crate) pod: Netns,
    pub(crate) server: Netns,
    pub(crate) dataplane: LinuxDataplane,
}

/// Runs a test in a host between a pod and a server.
pub(crate) fn in_network(test: impl AsyncFnOnce(Network) + Send) {
    let (host, pod, server) = (scratch(), scratch(), scratch());
    let work = move || {
        for (near, far, netns, own, other) in
            [(NEAR, "eth0", &pod, GATEWAY, POD), (FAR, "eth0", &server, UPLINK, SERVER)]
        {
            let end =
                |name: &str, netns| calico_dataplane::netns::VethEnd { name: name.parse().unwrap(), netns, mac: None };
            let mut socket = calico_dataplane::netns::RouteSocket::open().unwrap();
            let far_end = end(far, Some(std::os::fd::AsFd::as_fd(netns)));
            socket.carry_out(&[calico_dataplane::netns::Request::veth(end(near, None), far_end, 0)]).unwrap();
            run("ip", &format!("address add {own}/24 dev {near}"));
            run("ip", &format!("link set {near} up"));
            netns
                .run(|| {
                    run("ip", "link set lo up");
                    run("ip", &format!("address add {other}/24 dev {far}"));
                    run("ip", &format!("link set {far} up"));
                    run("ip", &format!("route add default via {own}"));
                })
                .unwrap();
        }
        run("ip", "link set lo up");
        pod.run(|| run("ip", &format!("address add {OTHER_POD}/24 dev eth0"))).unwrap();
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
        for name in ["all", NEAR, FAR] {
            std::fs::write(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"), "0").unwrap();
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(test(Network { pod, server, dataplane: open() }));
    };
    host.run(work).unwrap();
}

impl Network {
    /// Carries out a change whole.
    pub(crate) async fn apply(&mut self, delta: Delta) {
        let report = self.dataplane.apply(&delta).await;
        assert!(report.is_complete(), "{report:?}");
    }

    pub(crate) async fn chains(&mut self, chains_set: Vec<Chain>) {
        self.apply(Delta { chains_set, ..Delta::default() }).await;
    }

    pub(crate) async fn change(&mut self, decl: &SetDecl, removed: Vec<Element>, added: Vec<Element>) {
        let change = ElementDelta { set: decl.name.clone(), removed, added };
        self.apply(Delta { elements: vec![change], ..Delta::default() }).await;
    }
}

/// A base chain.
pub(crate) fn base(chain_type: ChainType, hook: Hook, priority: i32, rules: Vec<Rule>) -> Chain {
    let base = Some(BaseChain { chain_type, hook, priority });
    Chain { name: chain_name("base"), base, rules }
}

/// A rule for a protocol and destination port.
pub(crate) fn to_port(protocol: u8, port: u16) -> Rule {
    let equal = |field, value| Match::Equal { field, value, negated: false };
    Rule {
        matches: vec![equal(Field::L4Proto, Value::Proto(protocol)), equal(Field::DstPort, Value::Port(port))],
        ..Rule::default()
    }
}

impl With for Rule {}

/// Rules piece by piece.
pub(crate) trait With: Into<Rule> {
    fn when(self, condition: Match) -> Rule {
        let mut rule = self.into();
        rule.matches.push(condition);
        rule
    }

    fn doing(self, statement: Statement) -> Rule {
        let mut rule = self.into();
        rule.statements.push(statement);
        rule
    }

    fn then(self, verdict: Verdict) -> Rule {
        Rule { verdict: Some(verdict), ..self.into() }
    }
}

/// A UDP socket in a namespace.
pub(crate) fn udp(netns: &Netns, address: &str, port: u16) -> UdpSocket {
    let address: IpAddr = address.parse().unwrap();
    let socket = netns.run(|| bind(address, port)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// What comes next, and from where.
pub(crate) fn next(socket: &UdpSocket) -> (u8, SocketAddr) {
    let mut byte = [0];
    let (_, from) = socket.recv_from(&mut byte).unwrap();
    let [byte] = byte;
    (byte, from)
}

/// A server that answers each connection with one byte and keeps it open as long as the other end does.
pub(crate) fn answering(netns: &Netns, port: u16) {
    let listener = netns.run(|| TcpListener::bind((SERVER, port)).unwrap()).unwrap();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            std::thread::spawn(move || {
                let _ = stream.write_all(&[1]);
                let _ = stream.read(&mut [0]);
            });
        }
    });
}

/// Connects and waits for the server's byte.
pub(crate) fn connect(netns: &Netns, port: u16) -> std::io::Result<TcpStream> {
    let target = SocketAddr::new(SERVER.parse().unwrap(), port);
    let mut stream = netns.run(|| TcpStream::connect_timeout(&target, PATIENCE)).unwrap()?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.read_exact(&mut [0])?;
    Ok(stream)
}

/// Tries again until it succeeds.
pub(crate) fn eventually<T>(mut attempt: impl FnMut() -> std::io::Result<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match attempt() {
            Ok(found) => return found,
            Err(error) if Instant::now() > deadline => panic!("{error}"),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// Whether a connection was answered by a reset.
pub(crate) fn is_refused<T>(outcome: std::io::Result<T>) -> bool {
    matches!(outcome, Err(error) if error.kind() == ErrorKind::ConnectionRefused)
}

/// A listener of a group of `nfnetlink_log`, in the calling thread's namespace.
pub(crate) struct LogGroup(netlink_sys::Socket);

impl LogGroup {
    pub(crate) fn listen(group: u16) -> Self {
        let mut socket = netlink_sys::Socket::new(netlink_sys::protocols::NETLINK_NETFILTER).unwrap();
        socket.bind_auto().unwrap();
        // Bind to the group; whole packets; each at once.
        for (kind, value) in [(1, &[1][..]), (2, &[0, 0, 0xff, 0xff, 2, 0]), (5, &[0, 0, 0, 1])] {
            socket.send(&config(group, kind, value), 0).unwrap();
            let answer = socket.recv_from_full().unwrap().0;
            assert_eq!(answer.get(16..20), Some(&[0; 4][..]), "the group is ours");
        }
        Self(socket)
    }

    /// Prefix and payload of the next packet.
    pub(crate) fn next(&self) -> (String, Vec<u8>) {
        const PAYLOAD: u16 = 9;
        const PREFIX: u16 = 10;
        let (message, _) = self.0.recv_from_full().unwrap();
        let length = u32::from_ne_bytes(*message.first_chunk().unwrap()) as usize;
        let mut attributes = message.get(20..length).unwrap();
        let (mut prefix, mut payload) = (String::new(), Vec::new());
        while let Some(&[l0, l1, k0, k1]) = attributes.first_chunk() {
            let length = usize::from(u16::from_ne_bytes([l0, l1]));
            let Some(value) = attributes.get(4..length) else { break };
            match u16::from_ne_bytes([k0, k1]) & 0x3fff {
                PAYLOAD => payload = value.to_vec(),
                PREFIX => prefix = String::from_utf8_lossy(value).trim_end_matches('\0').to_owned(),
                _ => {}
            }
            attributes = attributes.get((length + 3) & !3..).unwrap_or_default();
        }
        (prefix, payload)
    }
}

/// `NFULNL_MSG_CONFIG` with one attribute, to be acknowledged.
fn config(group: u16, kind: u16, value: &[u8]) -> Vec<u8> {
    let length = (16 + 4 + 4 + value.len() + 3) & !3;
    let mut message = (length as u32).to_ne_bytes().to_vec();
    message.extend_from_slice(&(4u16 << 8 | 1).to_ne_bytes());
    message.extend_from_slice(&0x5u16.to_ne_bytes());
    message.extend_from_slice(&[0; 8]);
    message.extend_from_slice(&[0, 0]);
    message.extend_from_slice(&group.to_be_bytes());
    message.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(value);
    message.resize(length, 0);
    message
}
