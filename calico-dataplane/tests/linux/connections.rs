//! Connections of some addresses end, in a kernel that tracks them; all others stay.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use calico_core::table::Delta;
use calico_dataplane::Dataplane;
use socket2::{Domain, Protocol, Socket, Type};

use super::fixture::{bind, in_namespace, nft, run};

/// Replies to the address that the rule translates come from another than was asked: only the other direction's tuple tells it.
const RULES: &str = "\
table ip translate {
    chain output { type nat hook output priority -100; ip daddr 127.1.0.9 dnat to 127.1.0.3; }
}
table inet track {
    chain output { type filter hook output priority 0; ct state new accept; }
}
";

/// Source and destination of each, all over `lo`.
const FLOWS: [(&str, &str); 7] = [
    ("127.1.0.1", "127.1.0.2"),
    ("127.1.0.2", "127.1.0.1"),
    ("127.1.0.2", "127.1.0.4"),
    ("127.1.0.5", "127.1.0.9"),
    ("127.1.0.11", "127.1.0.12"),
    ("fd65::1", "fd65::2"),
    ("fd65::3", "fd65::4"),
];

/// Makes an IPv6 address the namespace's own. `ip` returns before the kernel's worker makes the address's local route, and what is sent
/// before that follows the route of its prefix, whose packets are not tracked.
fn own(address: &str) {
    run("ip", &format!("address add {address}/128 dev lo nodad"));
    let deadline = Instant::now() + Duration::from_secs(30);
    while !run("ip", &format!("route get {address}")).starts_with("local") {
        assert!(Instant::now() < deadline, "no local route to {address}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn talk(from: &str, to: &str) {
    let from = bind(from.parse().unwrap(), 7777);
    from.send_to(b"hello", (to.parse::<std::net::IpAddr>().unwrap(), 5353)).unwrap();
}

/// What `conntrack` lists, as places in [`FLOWS`].
fn tracked() -> Vec<usize> {
    let listed = run("conntrack", "-L -f ipv4 -p udp") + &run("conntrack", "-L -f ipv6 -p udp");
    let is_listed = |(from, to): &(&str, &str)| listed.contains(&format!("src={from} dst={to} sport=7777"));
    FLOWS.iter().enumerate().filter(|(_, flow)| is_listed(flow)).map(|(place, _)| place).collect()
}

fn ip(text: &str) -> std::net::IpAddr {
    text.parse().unwrap()
}

fn cut(addresses: &[&str]) -> Delta {
    let connections_cut = addresses.iter().map(|address| address.parse().unwrap()).collect();
    Delta { connections_cut, ..Delta::default() }
}

#[test]
fn connections_of_an_address_end_whichever_end_it_is() {
    in_namespace(async |mut dataplane| {
        // Before anything is tracked, there is nothing to do.
        assert!(dataplane.apply(&cut(&["127.1.0.1", "fd65::1"])).await.is_complete());
        nft(RULES);
        (1..5).for_each(|last| own(&format!("fd65::{last}")));
        FLOWS.iter().for_each(|(from, to)| talk(from, to));
        assert_eq!(tracked(), [0, 1, 2, 3, 4, 5, 6]);

        assert!(dataplane.apply(&cut(&["127.1.0.1"])).await.is_complete());
        assert_eq!(tracked(), [2, 3, 4, 5, 6], "as source and as destination");
        assert!(dataplane.apply(&cut(&["127.1.0.3"])).await.is_complete());
        assert_eq!(tracked(), [2, 4, 5, 6], "behind a translation");
        for _ in 0..2 {
            assert!(dataplane.apply(&cut(&["127.1.0.4", "fd65::2"])).await.is_complete());
            assert_eq!(tracked(), [4, 6], "many at once, of both families");
        }
    });
}

/// What is asked for is told with its translation, and ends by its name.
#[test]
fn connections_are_told_as_they_are_and_end_by_name() {
    in_namespace(async |mut dataplane| {
        let nothing = dataplane.connections(Box::new(|_| true)).await.unwrap();
        assert!(nothing.connections.is_empty());
        nft(RULES);
        (1..5).for_each(|last| own(&format!("fd65::{last}")));
        FLOWS.iter().for_each(|(from, to)| talk(from, to));
        let listed = dataplane.connections(Box::new(|found| found.original.protocol == 17)).await.unwrap();
        assert_eq!(listed.connections.len(), FLOWS.len());
        assert!(
            listed.host.contains(&"fd65::3".parse().unwrap()) && listed.host.contains(&"127.0.0.1".parse().unwrap())
        );
        let translated = listed.connections.iter().find(|one| one.connection.original.destination == ip("127.1.0.9"));
        let at_policy = translated.unwrap().connection.at_policy();
        assert_eq!((at_policy.source, at_policy.destination), (ip("127.1.0.5"), ip("127.1.0.3")));
        assert_eq!((at_policy.source_port, at_policy.destination_port), (7777, 5353));

        let wanted = ip("127.1.0.1");
        let some = dataplane.connections(Box::new(move |found| found.addresses().contains(&wanted))).await.unwrap();
        let names: Vec<_> = some.connections.into_iter().map(|tracked| tracked.name).collect();
        assert_eq!(names.len(), 2);
        dataplane.end_connections(names.clone()).await.unwrap();
        assert_eq!(tracked(), [2, 3, 4, 5, 6]);
        dataplane.end_connections(names).await.unwrap();
        assert_eq!(tracked(), [2, 3, 4, 5, 6], "they have ended already");
    });
}

/// Pings carry type and code.
#[test]
fn pings_are_told_by_type_and_code() {
    in_namespace(async |mut dataplane| {
        nft(RULES);
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4)).unwrap();
        // An echo request; kernels check the sum before they answer or track it.
        let echo = [8, 0, 0xf7, 0xfd, 0, 1, 0, 1];
        socket.send_to(&echo, &SocketAddr::from(([127, 1, 0, 2], 0)).into()).unwrap();
        let listed = dataplane.connections(Box::new(|found| found.original.protocol == 1)).await.unwrap();
        let icmp: Vec<_> = listed.connections.iter().map(|one| one.connection.original.icmp).collect();
        assert_eq!(icmp, [Some((8, 0))]);
    });
}

/// More than one datagram of removals, and more than one of the listing.
#[test]
fn a_thousand_connections_end_at_once() {
    in_namespace(async |mut dataplane| {
        nft(RULES);
        let from = UdpSocket::bind(("127.1.0.1", 7777)).unwrap();
        for port in 1..=1000 {
            from.send_to(b"hello", ("127.1.0.2", port)).unwrap();
        }
        talk("127.1.0.11", "127.1.0.12");
        let count = || run("conntrack", "-L -p udp").lines().count();
        assert_eq!(count(), 1001);
        assert!(dataplane.apply(&cut(&["127.1.0.2"])).await.is_complete());
        assert_eq!(count(), 1);
    });
}
