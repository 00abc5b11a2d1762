//! Beside the tables of kube-proxy, firewalld and Docker: packets obey all of them, and nobody's table is touched.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use calico_core::net::{Port, PortRange, Protocol};
use calico_core::resource::{
    Action, GlobalNetworkPolicySpec, Kind, Object, PolicyType, ProfileSpec, Resource, ResourceKey, Rule,
    WorkloadEndpointSpec,
};
use calico_core::testing::HOST;
use calico_core::update::Update;
use calico_dataplane::netns::{Netns, Request, RouteSocket, VethEnd};
use calico_dataplane::testing::netns::scratch;

use super::fixture::{nft, run};
use super::host::{Life, held, in_host};

const CLIENT: &str = "10.65.0.1";
const SERVER: &str = "10.65.0.2";
/// Policy allows this port of the server, and no other.
const OPEN: u16 = 8080;
const CLOSED: u16 = 9090;
/// A service whose port 80 leads to the one, and 81 to the other.
const SERVICE: &str = "10.96.0.10";
/// What was sent and has not come back by then was dropped.
const PATIENCE: Duration = Duration::from_millis(300);

/// In the shape of kube-proxy's.
const KUBE_PROXY: &str = "\
table ip kube-proxy {
    map service-ips {
        type ipv4_addr . inet_proto . inet_service : verdict
        elements = { 10.96.0.10 . udp . 80 : goto service-open, 10.96.0.10 . udp . 81 : goto service-closed }
    }
    chain filter-forward { type filter hook forward priority -110; policy accept; ct state new jump filters; }
    chain filters { ct state invalid drop; }
    chain nat-prerouting { type nat hook prerouting priority dstnat; policy accept; jump services; }
    chain nat-output { type nat hook output priority -100; policy accept; jump services; }
    chain nat-postrouting { type nat hook postrouting priority srcnat; policy accept; jump masquerading; }
    chain services { ip daddr . meta l4proto . th dport vmap @service-ips; }
    chain service-open { ip saddr != 10.65.0.0/16 jump mark-for-masquerade; numgen random mod 1 vmap { 0 : goto endpoint-open }; }
    chain service-closed { numgen random mod 1 vmap { 0 : goto endpoint-closed }; }
    chain endpoint-open { ip saddr 10.65.0.2 jump mark-for-masquerade; meta l4proto udp dnat to 10.65.0.2:8080; }
    chain endpoint-closed { meta l4proto udp dnat to 10.65.0.2:9090; }
    chain mark-for-masquerade { mark set mark or 0x4000; }
    chain masquerading { mark and 0x4000 == 0 return; mark set mark xor 0x4000; masquerade fully-random; }
}
";

/// In the shape of firewalld's, which lets everything pass.
const FIREWALLD: &str = "\
table inet firewalld {
    chain filter_PREROUTING { type filter hook prerouting priority 10; policy accept; meta nfproto ipv6 fib saddr . mark . iif oif missing drop; }
    chain filter_FORWARD { type filter hook forward priority 10; policy accept; ct state established,related accept; ct status dnat accept; accept; }
}
";

fn put(key: ResourceKey, resource: Resource) -> Update {
    Update { key, value: Some(Arc::new(resource)) }
}

fn workload(name: &str, interface: &str, address: &str) -> Update {
    let spec = WorkloadEndpointSpec {
        node: HOST.into(),
        interface_name: Some(interface.parse().unwrap()),
        ip_networks: vec![format!("{address}/32").parse().unwrap()],
        profiles: vec!["open".into()],
        ..WorkloadEndpointSpec::default()
    };
    let key = ResourceKey::namespaced(Kind::WorkloadEndpoint, "default", name);
    put(key, Resource::WorkloadEndpoint(Object { spec, ..Object::default() }))
}

/// Everything may leave, and come in by one UDP port.
fn cluster() -> Vec<Update> {
    let profile = ProfileSpec { egress: vec![Rule::default()], ..ProfileSpec::default() };
    let mut allow = Rule { action: Action::Allow, protocol: Some(Protocol::UDP), ..Rule::default() };
    allow.destination.ports = vec![Port::Range(PortRange::single(OPEN))];
    let policy =
        GlobalNetworkPolicySpec { types: vec![PolicyType::Ingress], ingress: vec![allow], ..Default::default() };
    let cluster = |kind, name| ResourceKey::cluster(kind, name);
    vec![
        put(cluster(Kind::Profile, "open"), Resource::Profile(Object { spec: profile, ..Object::default() })),
        put(
            cluster(Kind::GlobalNetworkPolicy, "port"),
            Resource::GlobalNetworkPolicy(Object { spec: policy, ..Object::default() }),
        ),
        workload("client", "cali-client", CLIENT),
        workload("server", "cali-server", SERVER),
    ]
}

/// A container behind an interface of the calling thread's namespace.
fn attach(interface: &str, address: &str) -> Netns {
    let pod = scratch();
    let mut host = RouteSocket::open().unwrap();
    let end = |name: &str, netns| VethEnd { name: name.parse().unwrap(), netns, mac: None };
    host.carry_out(&[Request::veth(end(interface, None), end("eth0", Some(pod.as_fd())), 0)]).unwrap();
    run("ip", &format!("link set {interface} up"));
    // A host with a default route would answer for it.
    run("ip", &format!("address add 169.254.1.1/32 dev {interface}"));
    let commands =
        ["link set lo up", "link set eth0 up", "route add 169.254.1.1 dev eth0", "route add default via 169.254.1.1"];
    pod.run(|| {
        run("ip", &format!("address add {address}/32 dev eth0"));
        commands.iter().for_each(|command| drop(run("ip", command)));
    })
    .unwrap();
    pod
}

fn serve(server: &Netns, port: u16) {
    let socket = server.run(|| UdpSocket::bind((SERVER, port))).unwrap().unwrap();
    std::thread::spawn(move || {
        let mut message = [0; 8];
        while let Ok((length, from)) = socket.recv_from(&mut message) {
            let _ = socket.send_to(message.get(..length).unwrap_or_default(), from);
        }
    });
}

/// Whether a new flow is answered. Where it is expected to be, a loss to a busy machine is made up for.
fn answers(from: &Netns, to: &str, port: u16) -> bool {
    let to = SocketAddr::new(to.parse::<IpAddr>().unwrap(), port);
    let talk = || {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.connect(to).unwrap();
        let mut answer = [0; 8];
        socket.send(b"hello").and_then(|_| socket.recv(&mut answer)).is_ok()
    };
    from.run(|| (0..3).any(|_| talk())).unwrap()
}

fn table(name: &str) -> String {
    run("nft", &format!("-a -s list table {name}"))
}

#[test]
fn packets_obey_everybody_and_nobodys_table_is_touched() {
    in_host(async || {
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
        let (client, server) = (attach("cali-client", CLIENT), attach("cali-server", SERVER));
        [OPEN, CLOSED].into_iter().for_each(|port| serve(&server, port));
        nft(KUBE_PROXY);
        nft(FIREWALLD);
        let others = || [table("ip kube-proxy"), table("inet firewalld")];
        let before = others();

        let mut life = Life::begin().unwrap();
        life.take_in(&cluster());
        life.driver.machine().set_in_sync();
        life.settle().await;
        let ours = held().await;
        let is_right = |when: &str| {
            // Policy decides by the address and port behind a service.
            for (to, port, answered) in
                [(SERVER, OPEN, true), (SERVER, CLOSED, false), (SERVICE, 80, true), (SERVICE, 81, false)]
            {
                assert_eq!(answers(&client, to, port), answered, "{when}: {to}:{port}");
            }
            // To itself by way of its service, masqueraded.
            assert!(answers(&server, SERVICE, 80), "{when}: hairpin");
        };
        is_right("side by side");
        assert_eq!(others(), before);

        // They load theirs anew, as daemons do, and we ours.
        nft(&format!("delete table ip kube-proxy\n{KUBE_PROXY}"));
        nft("delete table inet calico-dataplane\n");
        let made_anew = async {
            // The kernel may tell of other things first.
            while held().await.chains != ours.chains {
                life.driver.next_change().await.unwrap();
                life.settle().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), made_anew).await.unwrap();
        is_right("after both were loaded anew");

        // What somebody else drops is dropped.
        run("nft", &format!("insert rule inet firewalld filter_FORWARD udp dport {OPEN} drop"));
        assert!(!answers(&client, SERVER, OPEN));
        nft(&format!("delete table inet firewalld\n{FIREWALLD}"));
        is_right("after firewalld changed its mind");

        // Docker drops what is forwarded and none of its own: also what we allow, until it is told.
        run("iptables-nft", "-P FORWARD DROP");
        run("iptables-nft", "-N DOCKER-USER");
        run("iptables-nft", "-A FORWARD -j DOCKER-USER");
        assert!(!answers(&client, SERVER, OPEN));
        run("iptables-nft", "-A DOCKER-USER -i cali+ -j ACCEPT");
        is_right("with Docker told");
        life.settle().await;
        assert_eq!(held().await.chains, ours.chains, "none of it was taken for ours");
    });
}
