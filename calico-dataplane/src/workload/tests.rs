//! Against the real kernel: these need root. A router stands for the host, with an agent's route to the workload.

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

use super::*;
use crate::netns::{Netns, Request, RouteSocket};
use crate::testing::netns::scratch;

struct Scene {
    host: Netns,
    container: Netns,
}

impl Scene {
    fn new() -> Self {
        Self { host: scratch(), container: scratch() }
    }

    fn request(&self) -> AttachRequest {
        AttachRequest {
            netns: self.container.path(),
            container_interface: "eth0".parse().unwrap(),
            host_interface: "cali0123456789a".parse().unwrap(),
            addresses: vec!["10.65.0.2/32".parse().unwrap(), "fd00:65::2/128".parse().unwrap()],
            routes: Vec::new(),
            mtu: 1440,
            container_mac: Some("02:00:00:00:00:42".parse().unwrap()),
            ip_forwarding: false,
        }
    }

    fn attach(&self, request: &AttachRequest) -> Result<Attached, WorkloadError> {
        self.host.run(|| attach(request)).unwrap()
    }

    fn inspect(&self, request: &AttachRequest) -> Plumbing {
        let look = || inspect(&request.netns, request.container_interface, request.host_interface);
        self.host.run(look).unwrap().unwrap()
    }

    fn detach(&self, netns: Option<PathBuf>, host_interface: Option<InterfaceName>) -> Result<(), WorkloadError> {
        let request = DetachRequest { netns, container_interface: "eth0".parse().unwrap(), host_interface };
        self.host.run(|| detach(&request)).unwrap()
    }

    fn sysctl(&self, path: &str) -> String {
        let read = || std::fs::read_to_string(format!("/proc/sys/net/{path}"));
        self.host.run(read).unwrap().unwrap().trim().into()
    }

    /// What the agent would do.
    fn route_to_workload(&self, attached: &Attached, request: &AttachRequest) {
        let routes = request.addresses.iter().map(|address| Request::route(*address, None, attached.host_index));
        RouteSocket::open_in(&self.host).unwrap().carry_out(&routes.collect::<Vec<_>>()).unwrap();
    }
}

#[test]
fn an_attached_workload_exchanges_packets_with_its_host() {
    let scene = Scene::new();
    let request = scene.request();
    let attached = scene.attach(&request).unwrap();
    assert_eq!(attached.container_mac, request.container_mac.unwrap());
    assert_eq!(attached.host_mac, Mac::ALL_EE);
    assert_eq!(scene.inspect(&request).mismatches(&request), []);
    scene.route_to_workload(&attached, &request);

    for address in ["10.65.0.2", "fd00:65::2"] {
        let address: IpAddr = address.parse().unwrap();
        let listener = scene.container.run(|| TcpListener::bind((address, 80))).unwrap().unwrap();
        let mut hosts = RouteSocket::open_in(&scene.host).unwrap();
        let lo = hosts.link("lo".parse().unwrap()).unwrap().unwrap();
        let own: IpAddr = if address.is_ipv4() { [10, 0, 0, 1].into() } else { "fd00::1".parse().unwrap() };
        hosts
            .carry_out(&[Request::up(lo.index), Request::address(lo.index, own, if own.is_ipv4() { 32 } else { 128 })])
            .unwrap();
        let connect = || TcpStream::connect_timeout(&(address, 80).into(), Duration::from_secs(30));
        scene.host.run(connect).unwrap().unwrap();
        drop(listener);

        // The other way round, by the default route and the gateway's permanent neighbour.
        let server = scene.host.run(|| UdpSocket::bind((own, 53))).unwrap().unwrap();
        server.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let send = || UdpSocket::bind((address, 0)).and_then(|socket| socket.send_to(b"hello", (own, 53)));
        scene.container.run(send).unwrap().unwrap();
        let mut buffer = [0; 16];
        let (length, from) = server.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..length], from.ip()), (b"hello".as_slice(), address));
    }
}

#[test]
fn the_host_interface_is_set_up_for_a_workload() {
    let scene = Scene::new();
    // A new namespace takes it over from the first one, whatever it is there.
    let forwarding = scene.sysctl("ipv4/conf/all/forwarding");
    scene.attach(&scene.request()).unwrap();
    assert_eq!(scene.sysctl("ipv4/conf/all/forwarding"), forwarding, "a plugin changes nothing of the whole host");
    for (path, value) in [
        ("ipv4/conf/cali0123456789a/proxy_arp", "1"),
        ("ipv4/conf/cali0123456789a/forwarding", "1"),
        ("ipv4/conf/cali0123456789a/route_localnet", "1"),
        ("ipv4/neigh/cali0123456789a/proxy_delay", "0"),
        ("ipv6/conf/cali0123456789a/accept_ra", "0"),
        ("ipv6/conf/cali0123456789a/proxy_ndp", "1"),
        ("ipv6/conf/cali0123456789a/forwarding", "1"),
    ] {
        assert_eq!(scene.sysctl(path), value, "{path}");
    }
}

#[test]
fn attaching_again_replaces_the_pair() {
    let scene = Scene::new();
    let request = scene.request();
    let first = scene.attach(&request).unwrap();
    let second = scene.attach(&request).unwrap();
    assert_ne!(first.host_index, second.host_index);
    assert_eq!(scene.inspect(&request).mismatches(&request), []);
}

#[test]
fn a_failure_halfway_leaves_nothing() {
    let scene = Scene::new();
    // A multicast address: the kernel refuses it, after the pair was made and other addresses were set.
    let mut request = scene.request();
    request.addresses.push("ff02::1/128".parse().unwrap());
    let error = scene.attach(&request).unwrap_err();
    assert!(matches!(error, WorkloadError::Request { .. }), "{error:?}");
    let left = scene.inspect(&request);
    assert_eq!((left.container, left.host), (None, None));
}

#[test]
fn a_failure_that_could_not_be_taken_back_tells_both() {
    let interface = "cali0".parse().unwrap();
    let first = || WorkloadError::Vanished { interface };
    assert!(!attach::taken_back(first(), Ok(())).is_left_behind());
    let both = attach::taken_back(first(), Err(WorkloadError::ForeignHostInterface { interface }));
    assert!(both.is_left_behind());
    assert!(both.to_string().contains("not a veth"), "{both}");
    assert_eq!(std::error::Error::source(&both).unwrap().to_string(), "interface cali0 vanished");
}

#[test]
fn interfaces_that_are_not_ours_are_left_alone() {
    let scene = Scene::new();
    let request = scene.request();
    let bridge = |netns: &Netns, name: InterfaceName| {
        RouteSocket::open_in(netns).unwrap().carry_out(&[Request::bridge(name)]).unwrap();
    };
    bridge(&scene.container, request.container_interface);
    let error = scene.attach(&request).unwrap_err();
    assert!(matches!(error, WorkloadError::ContainerInterfaceExists { .. }), "{error:?}");
    assert!(scene.inspect(&request).host.is_none());
    scene.detach(Some(request.netns.clone()), Some(request.host_interface)).unwrap();
    assert!(scene.inspect(&request).container.is_some(), "a bridge is no workload interface");

    bridge(&scene.host, request.host_interface);
    let error = scene.attach(&request).unwrap_err();
    assert!(matches!(error, WorkloadError::ForeignHostInterface { .. }), "{error:?}");
}

#[test]
fn detaching_removes_both_ends_and_absence_is_success() {
    let scene = Scene::new();
    let request = scene.request();
    scene.attach(&request).unwrap();
    scene.detach(Some(request.netns.clone()), None).unwrap();
    let left = scene.inspect(&request);
    assert_eq!((left.container, left.host), (None, None));
    scene.detach(Some(request.netns.clone()), Some(request.host_interface)).unwrap();
    scene.detach(Some("/run/netns/no-such-namespace".into()), None).unwrap();
    scene.detach(None, None).unwrap();

    scene.attach(&request).unwrap();
    scene.detach(None, Some(request.host_interface)).unwrap();
    assert!(scene.inspect(&request).container.is_none());
}

#[test]
fn a_workload_in_the_hosts_own_namespace_is_refused() {
    let scene = Scene::new();
    let request = AttachRequest { netns: scene.host.path(), ..scene.request() };
    assert!(matches!(scene.attach(&request).unwrap_err(), WorkloadError::SharedNetns));
    assert!(matches!(scene.detach(Some(scene.host.path()), None).unwrap_err(), WorkloadError::SharedNetns));
}

#[test]
fn an_absent_namespace_is_told_apart() {
    let scene = Scene::new();
    let request = AttachRequest { netns: "/run/netns/no-such-namespace".into(), ..scene.request() };
    assert!(scene.attach(&request).unwrap_err().is_netns_absent());
}

#[test]
fn inspection_names_every_difference() {
    let scene = Scene::new();
    let request = scene.request();
    scene.attach(&request).unwrap();
    let wanted = AttachRequest {
        mtu: 9000,
        container_mac: Some("02:00:00:00:00:43".parse().unwrap()),
        addresses: vec!["10.65.0.3/32".parse().unwrap()],
        routes: vec!["10.1.0.0/16".parse().unwrap()],
        ..request.clone()
    };
    let messages: Vec<_> = scene.inspect(&request).mismatches(&wanted).iter().map(ToString::to_string).collect();
    assert_eq!(
        messages,
        [
            "the container's MTU is 1440 and should be 9000",
            "the container's Ethernet address is 02:00:00:00:00:42 and should be 02:00:00:00:00:43",
            "the container's interface lacks the address 10.65.0.3/32",
            "the container lacks the route to 10.1.0.0/16",
        ]
    );
}

#[test]
fn an_mtu_of_zero_is_the_kernels() {
    let scene = Scene::new();
    let request = AttachRequest { mtu: 0, ..scene.request() };
    scene.attach(&request).unwrap();
    let found = scene.inspect(&request);
    assert_eq!(found.container.as_ref().unwrap().mtu, 1500);
    assert_eq!(found.mismatches(&request), []);
}

#[test]
fn a_retired_interface_is_gone_at_both_ends() {
    let scene = Scene::new();
    let request = scene.request();
    let retire = |name: InterfaceName| scene.host.run(|| retire(name)).unwrap();
    retire(request.host_interface).unwrap();
    for _ in 0..5 {
        scene.attach(&request).unwrap();
        retire(request.host_interface).unwrap();
        let plumbing = scene.inspect(&request);
        assert_eq!((plumbing.container, plumbing.host), (None, None));
    }
    let bridge = request.host_interface;
    RouteSocket::open_in(&scene.host).unwrap().carry_out(&[Request::bridge(bridge)]).unwrap();
    retire(bridge).unwrap();
    assert!(scene.inspect(&request).host.is_some(), "not ours");
}
