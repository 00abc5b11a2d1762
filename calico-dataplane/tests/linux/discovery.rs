//! Real IPv6 through a host endpoint that lets nothing through: hosts find their neighbours, or no fail-safe port would be reached, and nothing
//! else of ICMPv6 passes.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use calico_core::calc::event::{ActiveHostEndpoint, Directions, Event, HostInterfaces, Stack};
use calico_core::net::InterfaceName;
use calico_core::render::RenderConfig;
use calico_core::resource::{Action, DefaultAction};
use calico_dataplane::netns::{Netns, Request, RouteSocket, VethEnd};
use calico_dataplane::testing::netns::scratch;
use socket2::{Domain, Protocol, Socket, Type};

use super::fixture::{open, run, stay_on_one_processor};
use super::host_endpoints::{Host, host_event, host_id, policy_event, rule, stack};

const UPLINK: &str = "uplink0";
const HERE: Ipv6Addr = Ipv6Addr::new(0xfd78, 0, 0, 0, 0, 0, 0, 1);
const PEER: Ipv6Addr = Ipv6Addr::new(0xfd78, 0, 0, 0, 0, 0, 0, 2);
/// Fail-safe ports, in and out.
const INBOUND: u16 = 68;
const OUTBOUND: u16 = 67;
const ECHO_REQUEST: u8 = 128;

/// One of two neighbours, with sockets in its namespace.
struct Side {
    netns: Netns,
    address: Ipv6Addr,
    udp: UdpSocket,
    port: u16,
    icmp: Socket,
}

impl Side {
    fn open(netns: Netns, link: &str, address: Ipv6Addr, port: u16) -> Self {
        let (udp, icmp) = netns.run(|| sockets(link, address, port)).unwrap();
        Self { netns, address, udp, port, icmp }
    }

    fn arrived(&self) {
        let heard = self.udp.recv(&mut [0; 1]);
        heard.unwrap_or_else(|error| panic!("the fail-safe port of {} is not reached: {error}", self.address));
    }

    /// Sends to the other side's fail-safe port, as if its neighbour were new to it. It arrives, or the test ends here.
    fn reaches(&self, other: &Self) {
        self.netns.run(|| run("ip", "-6 neigh flush all")).unwrap();
        self.udp.send_to(b"!", (other.address, other.port)).unwrap();
        other.arrived();
    }

    /// Whether the other side hears an echo request. What it has not heard before it hears the next thing was dropped.
    fn is_heard(&self, other: &Self) -> bool {
        let request = [ECHO_REQUEST, 0, 0, 0, 0, 7, 0, 7];
        if let Err(error) = self.icmp.send_to(&request, &SocketAddr::new(other.address.into(), 0).into()) {
            assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
        }
        self.udp.send_to(b"!", (other.address, other.port)).unwrap();
        other.arrived();
        let mut heard = false;
        let mut message = [0; 64];
        while let Ok(length) = std::io::Read::read(&mut &other.icmp, &mut message) {
            heard |= length == request.len() && message.first() == Some(&ECHO_REQUEST);
        }
        heard
    }
}

#[test]
fn neighbors_are_found_through_whatever_denies_all() {
    let (host, peer) = (scratch(), scratch());
    host.run(|| {
        stay_on_one_processor();
        let mut socket = RouteSocket::open().unwrap();
        let end = |name: &str, netns| VethEnd { name: name.parse().unwrap(), netns, mac: None };
        socket.carry_out(&[Request::veth(end(UPLINK, None), end("eth0", Some(peer.as_fd())), 0)]).unwrap();
        configure(&mut socket, UPLINK, HERE);
        configure(&mut RouteSocket::open_in(&peer).unwrap(), "eth0", PEER);
        let here = Side::open(Netns::current().unwrap(), UPLINK, HERE, INBOUND);
        let peer = Side::open(peer, "eth0", PEER, OUTBOUND);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(deny(&here, &peer));
    })
    .unwrap();
}

async fn deny(here: &Side, peer: &Side) {
    let mut host = Host::start(RenderConfig::default(), open()).await;
    host.tell(&[policy_event("closed", vec![rule(Action::Deny)], vec![rule(Action::Deny)])]).await;
    assert!(here.is_heard(peer) && peer.is_heard(here), "no endpoint, no policy");
    let (none, closed) = (Arc::<Stack>::default(), stack(&["closed"], DefaultAction::Deny));
    let named = HostInterfaces::Named(vec![UPLINK.parse().unwrap()]);
    for (untracked, pre_dnat) in [(&none, &none), (&closed, &none), (&none, &closed), (&closed, &closed)] {
        for interfaces in [named.clone(), HostInterfaces::Others] {
            let both = |stack: &Arc<Stack>| Directions { ingress: stack.clone(), egress: stack.clone() };
            let endpoint = ActiveHostEndpoint {
                dscp: Vec::new(),
                interfaces,
                untracked: both(untracked),
                pre_dnat: pre_dnat.clone(),
                normal: both(&closed),
                forward: both(&closed),
            };
            host.tell(&[host_event("uplink", endpoint)]).await;
            run("conntrack", "-F");
            peer.reaches(here);
            here.reaches(peer);
            assert!(!peer.is_heard(here), "policy denies what is no discovery");
            assert!(!here.is_heard(peer), "policy denies what is no discovery");
            host.tell(&[Event::HostEndpointRemoved(host_id("uplink"))]).await;
            assert!(here.is_heard(peer) && peer.is_heard(here), "no endpoint, no policy");
        }
    }
}

fn configure(socket: &mut RouteSocket, name: &str, address: Ipv6Addr) {
    let link = socket.link(name.parse::<InterfaceName>().unwrap()).unwrap().unwrap();
    let address = Request::address(link.index, IpAddr::V6(address), 64);
    socket.carry_out(&[Request::up(link.index), address]).unwrap();
}

fn sockets(link: &str, address: Ipv6Addr, port: u16) -> (UdpSocket, Socket) {
    let udp = UdpSocket::bind((address, port)).unwrap_or_else(|error| panic!("{address} on {link}: {error}"));
    udp.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let icmp = Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::ICMPV6)).unwrap();
    icmp.set_nonblocking(true).unwrap();
    (udp, icmp)
}
