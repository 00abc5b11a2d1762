//! Where packets run: a host in one namespace, and in another one the far ends of all its interfaces, where nobody lives: what is sent
//! from there is written to the wire as it is, and what arrives there is caught.
//!
//! No packet is waited for. All work is done on one processor, whose queue keeps the order: a frame of no known protocol, which no policy is
//! about, arrives behind all that was sent before it. A second one is behind what the first still met on the host.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use calico_core::flow::Flow;
use calico_core::net::{Cidr, InterfaceName, Mac};
use calico_dataplane::netns::{Netns, Request, RouteSocket, VethEnd};
use calico_dataplane::testing::netns::scratch;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{LinkAddr, bind, recvfrom};
use socket2::{Domain, Protocol, Socket, Type};

use super::super::fixture::{nft, run, stay_on_one_processor};
use super::wire;

/// The host's own interfaces with their addresses, as the generator of worlds knows them.
pub(crate) const UPLINKS: [(&str, [&str; 2]); 3] = [
    ("eth0", ["192.0.2.1", "2001:db8::1"]),
    ("eth1", ["192.0.2.2", "2001:db8::2"]),
    ("tunl0", ["192.0.2.3", "2001:db8::3"]),
];
/// Those of workloads, as the generator names them.
pub(crate) const WORKLOADS: [&str; 6] = ["cali00", "cali01", "cali02", "cali10", "cali11", "cali12"];
/// Where the host sends what is for nobody here; of several that cover an address, the first.
pub(crate) const ROUTES: [(&str, &str); 11] = [
    ("192.0.2.5/32", "eth0"),
    ("192.0.2.77/32", "eth1"),
    ("198.51.100.1/32", "tunl0"),
    ("10.0.0.0/24", "tunl0"),
    ("10.0.1.0/24", "eth1"),
    ("2001:db8::77/128", "eth1"),
    ("2001:db8::99/128", "tunl0"),
    ("fd00::/112", "eth1"),
    ("fd00::1:0/112", "tunl0"),
    ("0.0.0.0/0", "eth0"),
    ("::/0", "eth0"),
];
const PROTOCOLS: [u8; 7] = [wire::TCP, wire::UDP, wire::SCTP, wire::OSPF, wire::GRE, wire::IPIP, wire::ICMP];

/// Protocols of Ethernet: the families, and one for experiments.
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const EXPERIMENT: u16 = 0x88b5;
const ANY: u16 = 0;

/// What the host's own packets are marked with: all else that it would send (refusals, answers of its programs) is silenced.
const OURS: u32 = 1;

/// The namespaces and the sockets in them.
pub(crate) struct Field {
    /// By the host's interface.
    lines: BTreeMap<InterfaceName, Line>,
    /// All that arrives at far ends, and the host's interfaces by the index of their far ends.
    caught: [Socket; 2],
    ends: BTreeMap<usize, InterfaceName>,
    /// All that arrives at the host.
    heard: Vec<Socket>,
    sent: [Socket; 2],
    experiment: Socket,
}

/// The far end of an interface.
struct Line {
    socket: Socket,
    near: Mac,
    far: Mac,
}

/// Where a packet came to, and for whom by then; the host does not say for whom, if it is IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// The interface by which it left; none: the host took it.
    pub(crate) interface: Option<InterfaceName>,
    pub(crate) destination: Option<(IpAddr, u16)>,
}

impl Field {
    /// The host is the namespace of the calling thread, which stays on one processor from now on.
    pub(crate) fn open() -> Self {
        stay_on_one_processor();
        let network = scratch();
        settings(&network);
        let (mut near, mut far) = (RouteSocket::open().unwrap(), RouteSocket::open_in(&network).unwrap());
        names().for_each(|name| connect(name, &network, &mut near, &mut far));
        addresses(&mut near);
        nft(STRANGER);
        let line = |name: InterfaceName| {
            let (near, far) = (near.link(name).unwrap().unwrap().mac, far.link(name).unwrap().unwrap().mac);
            let socket = network.run(|| line(name)).unwrap();
            (name, Line { socket, near: near.unwrap(), far: far.unwrap() })
        };
        let lines = names().map(line).collect();
        let ends = names().map(|name| (far.link(name).unwrap().unwrap().index as usize, name)).collect();
        let raw = |domain, number: u8| Socket::new(domain, Type::RAW, Some(Protocol::from(i32::from(number)))).unwrap();
        let hear = |number| [Domain::IPV4, Domain::IPV6].map(|domain| quiet(raw(domain, number)));
        let mut heard: Vec<_> = PROTOCOLS.into_iter().flat_map(hear).collect();
        heard.extend(hear(wire::ICMPV6));
        Self {
            caught: network.run(|| [IPV4, IPV6].map(|family| quiet(ethernet(Type::DGRAM, family)))).unwrap(),
            lines,
            ends,
            heard,
            sent: [Domain::IPV4, Domain::IPV6].map(|domain| raw(domain, 255)),
            experiment: ethernet(Type::DGRAM, EXPERIMENT),
        }
    }

    /// The Ethernet address at the far end of a workload's interface.
    pub(crate) fn workload(&self, name: InterfaceName) -> Option<Mac> {
        self.lines.get(&name).map(|line| line.far)
    }

    /// Sends a packet to the host by an interface.
    pub(crate) fn inject(&self, interface: InterfaceName, packet: &[u8]) {
        let family = if packet.first().unwrap() >> 4 == 4 { IPV4 } else { IPV6 };
        self.frame(interface, family, packet);
    }

    /// Sends a packet from the host, with these bits of the mark and our own.
    pub(crate) fn emit(&self, to: IpAddr, mark: u32, packet: &[u8]) {
        let [v4, v6] = &self.sent;
        let socket = if to.is_ipv4() { v4 } else { v6 };
        socket.set_mark(mark | OURS).unwrap();
        if let Err(error) = socket.send_to(packet, &SocketAddr::new(to, 0).into()) {
            // A hook has dropped it.
            assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied, "sending to {to}");
        }
    }

    /// All packets that came to where they went, by number.
    pub(crate) fn collect(&self) -> BTreeMap<u32, Vec<Arrival>> {
        for round in 0..2 {
            self.frame(InterfaceName::ETH0, EXPERIMENT, &[round]);
            let mut heard = [0; 64];
            let read = (&self.experiment).read(&mut heard);
            let read = read.unwrap_or_else(|error| panic!("what no policy is about does not arrive: {error}"));
            assert_eq!(heard.get(..read.min(1)), Some([round].as_slice()));
        }
        let mut arrived: BTreeMap<u32, Vec<Arrival>> = BTreeMap::new();
        let mut buffer = [0; 2048];
        for socket in &self.caught {
            while let Ok((length, from)) = recvfrom::<LinkAddr>(socket.as_raw_fd(), &mut buffer) {
                let Some((number, address, port)) = wire::read(buffer.get(..length).unwrap()) else { continue };
                let interface = Some(*self.ends.get(&from.unwrap().ifindex()).unwrap());
                let arrival = Arrival { interface, destination: Some((address, port)) };
                arrived.entry(number).or_default().push(arrival);
            }
        }
        for socket in &self.heard {
            while let Ok(length) = (&mut &*socket).read(&mut buffer) {
                let packet = buffer.get(..length).unwrap();
                let whole = wire::read(packet).map(|(number, address, port)| (number, Some((address, port))));
                let found = whole.or_else(|| Some((wire::number(packet)?, None)));
                let Some((number, destination)) = found else { continue };
                arrived.entry(number).or_default().push(Arrival { interface: None, destination });
            }
        }
        arrived
    }

    fn frame(&self, interface: InterfaceName, protocol: u16, packet: &[u8]) {
        let line = self.lines.get(&interface).unwrap();
        let header = [&line.near.octets()[..], &line.far.octets(), &protocol.to_be_bytes()].concat();
        let frame = [&header, packet].concat();
        assert_eq!(line.socket.send(&frame).unwrap(), frame.len());
    }
}

fn names() -> impl Iterator<Item = InterfaceName> {
    UPLINKS.iter().map(|(name, _)| *name).chain(WORKLOADS).map(|name| name.parse().unwrap())
}

/// An interface of the host, with its far end. Nobody answers there, so nobody is asked for an Ethernet address.
fn connect(name: InterfaceName, network: &Netns, near: &mut RouteSocket, far: &mut RouteSocket) {
    let [here, there] = [None, Some(network.as_fd())].map(|netns| VethEnd { name, netns, mac: None });
    near.carry_out(&[Request::veth(here, there, 0)]).unwrap();
    for socket in [near, far] {
        let index = socket.link(name).unwrap().unwrap().index;
        socket.carry_out(&[Request::up(index)]).unwrap();
    }
    run("ip", &format!("link set {name} arp off"));
}

/// How the host translates the destinations of these flows; of others from now on nothing.
pub(crate) fn translate(flows: &[(Flow, Flow, u32)]) {
    let maps = ["to4", "to6", "echo4", "echo6"];
    let mut commands: String = maps.map(|map| format!("flush map inet stranger {map}\n")).concat();
    for (before, after, number) in flows {
        let family = if before.source.is_ipv4() { 4 } else { 6 };
        let Flow { source, destination, protocol, source_port, destination_port, .. } = before;
        let (to, port, id) = (after.destination, after.destination_port, wire::identifier(*number));
        commands += &match before.icmp {
            Some(_) => format!("add element inet stranger echo{family} {{ {source} . {destination} . {id} : {to} }}\n"),
            None => format!(
                "add element inet stranger to{family} \
                 {{ {source} . {destination} . {protocol} . {source_port} . {destination_port} : {to} . {port} }}\n"
            ),
        };
    }
    nft(&commands);
}

/// Neither side says anything by itself, and the host keeps nothing back for reasons of its own: forged sources are policy's matter.
fn settings(network: &Netns) {
    let write = |path: &str, value: &str| std::fs::write(format!("/proc/sys/net/{path}"), value).unwrap();
    network.run(|| ["all", "default"].map(|conf| write(&format!("ipv6/conf/{conf}/disable_ipv6"), "1"))).unwrap();
    write("ipv4/ip_forward", "1");
    write("ipv6/conf/all/forwarding", "1");
    write("ipv6/conf/default/addr_gen_mode", "1");
    for conf in ["all", "default"] {
        write(&format!("ipv4/conf/{conf}/rp_filter"), "0");
        write(&format!("ipv4/conf/{conf}/send_redirects"), "0");
        write(&format!("ipv4/conf/{conf}/accept_local"), "1");
    }
}

fn addresses(socket: &mut RouteSocket) {
    let mut index = |name: &str| socket.link(name.parse().unwrap()).unwrap().unwrap().index;
    let mut requests = vec![Request::up(index("lo"))];
    for (name, [v4, v6]) in UPLINKS {
        let index = index(name);
        requests.push(Request::address(index, v4.parse().unwrap(), 32));
        requests.push(Request::address(index, v6.parse().unwrap(), 128));
    }
    for (dest, name) in ROUTES {
        requests.push(Request::route(dest.parse::<Cidr>().unwrap(), None, index(name)));
    }
    socket.carry_out(&requests).unwrap();
}

/// A socket that writes frames to an interface of the calling thread's namespace, and reads none.
fn line(name: InterfaceName) -> Socket {
    let socket = ethernet(Type::RAW, ANY);
    let mut links = getifaddrs().unwrap().filter(|found| found.interface_name == name.as_str());
    let address = links.find_map(|found| found.address?.as_link_addr().copied()).unwrap();
    bind(socket.as_raw_fd(), &address).unwrap();
    socket
}

fn ethernet(kind: Type, protocol: u16) -> Socket {
    let socket = Socket::new(Domain::PACKET, kind, Some(Protocol::from(i32::from(protocol.to_be())))).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    socket
}

/// A socket that holds all that a batch can bring and never waits.
fn quiet(socket: Socket) -> Socket {
    socket.set_nonblocking(true).unwrap();
    socket.set_recv_buffer_size(4 << 20).unwrap();
    socket
}

/// Others on the host: marks of strangers on all that comes in, translation, and silence of what is not ours.
const STRANGER: &str = "
table inet stranger {
    map to4 { type ipv4_addr . ipv4_addr . inet_proto . inet_service . inet_service : ipv4_addr . inet_service; }
    map to6 { type ipv6_addr . ipv6_addr . inet_proto . inet_service . inet_service : ipv6_addr . inet_service; }
    map echo4 { typeof ip saddr . ip daddr . icmp id : ip daddr; }
    map echo6 { typeof ip6 saddr . ip6 daddr . icmpv6 id : ip6 daddr; }
    chain marks {
        type filter hook prerouting priority -400;
        iifname != \"lo\" meta mark set numgen inc mod 4 map { 0 : 0x0, 1 : 0x10000, 2 : 0x20000, 3 : 0x30000 };
    }
    chain translate {
        dnat ip to ip saddr . ip daddr . meta l4proto . th sport . th dport map @to4
        dnat ip6 to ip6 saddr . ip6 daddr . meta l4proto . th sport . th dport map @to6
        dnat ip to ip saddr . ip daddr . icmp id map @echo4
        dnat ip6 to ip6 saddr . ip6 daddr . icmpv6 id map @echo6
    }
    chain in { type nat hook prerouting priority -100; jump translate; }
    chain out { type nat hook output priority -100; jump translate; }
    chain silence { type filter hook output priority -400; meta mark & 0x1 == 0 drop; }
}
";
