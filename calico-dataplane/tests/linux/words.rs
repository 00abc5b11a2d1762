//! Real packets for each word whose effect is more than to pass or to drop.

use std::io::{Error, ErrorKind};
use std::net::SocketAddr;
use std::slice::from_ref;

use calico_core::net::{Family, PortRange};
use calico_core::table::{
    BaseChain, Chain, ChainType, CtState, Delta, Element, Field, FieldType, Hook, Match, RateLimit, Reject, Rule,
    SetDecl, SetKind, Statement, Value, Verdict,
};
use calico_dataplane::testing::sample::{addr, arp_chain, set_name};

use super::fixture::run;
use super::network::*;

const DESTINATION: Field = Field::DstAddr(Family::V4);
const SOURCE: Field = Field::SrcAddr(Family::V4);

fn drop_rule() -> Rule {
    Rule { verdict: Some(Verdict::Drop), ..Rule::default() }
}

fn is(field: Field, address: &str) -> Match {
    Match::Equal { field, value: Value::Addr(address.parse().unwrap()), negated: false }
}

fn to(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().unwrap(), port)
}

fn map(name: &str) -> SetDecl {
    SetDecl::new(set_name(name), vec![FieldType::Addr(Family::V4)], SetKind::AddressMap(Family::V4))
}

#[test]
fn ports_lead_where_their_range_says() {
    // Single ports are looked up in a hash, ranges in a tree.
    for width in [0, 3] {
        in_network(async move |mut network| {
            let range = |min| PortRange::new(min, min + width).unwrap();
            let target = Chain {
                name: calico_dataplane::testing::sample::chain_name("target"),
                base: None,
                rules: vec![drop_rule()],
            };
            let verdicts = vec![
                (range(5000), Verdict::Accept),
                (range(5004), Verdict::Jump(target.name.clone())),
                (range(5008), Verdict::Return),
            ];
            let udp_only = Match::Equal { field: Field::L4Proto, value: Value::Proto(UDP), negated: false };
            let by_port = Verdict::ByPort { field: Field::DstPort, verdicts };
            let look_up = Rule { verdict: Some(by_port), ..Rule::default() }.when(udp_only);
            // Whatever goes on.
            let others = to_port(UDP, 5012).then(Verdict::Drop);
            network.chains(vec![target, base(ChainType::Filter, Hook::Forward, 0, vec![look_up, others])]).await;
            let pod = udp(&network.pod, POD, 6000);
            let send = |number: u8, port| assert_eq!(pod.send_to(&[number], to(SERVER, port)).unwrap(), 1);
            let last = udp(&network.server, SERVER, 5020);
            for (number, port, passes) in [
                (1, 5000 + width, true),
                (2, 5004, false),
                (3, 5004 + width, false),
                (4, 5008 + width, true),
                (5, 5012, false),
                (6, 5013, true),
            ] {
                let server = udp(&network.server, SERVER, port);
                send(number, port);
                send(number, 5020);
                assert_eq!(next(&last).0, number, "the link keeps the order");
                server.set_nonblocking(true).unwrap();
                assert_eq!(server.recv(&mut [0]).is_ok(), passes, "port {port}, ranges of {}", width + 1);
            }
        });
    }
}

#[test]
fn masquerade_takes_a_port_of_its_range() {
    in_network(async |mut network| {
        let udp_to_server = to_port(UDP, 5000).when(is(DESTINATION, SERVER));
        let rule = udp_to_server.then(Verdict::Masquerade { ports: PortRange::new(40_000, 40_003), random: true });
        network.chains(vec![base(ChainType::Nat, Hook::Postrouting, 110, vec![rule])]).await;
        let server = udp(&network.server, SERVER, 5000);
        for port in [6000, 6001] {
            let pod = udp(&network.pod, POD, port);
            pod.send_to(&[1], to(SERVER, 5000)).unwrap();
            let (_, from) = next(&server);
            assert_eq!(from.ip(), UPLINK.parse::<std::net::IpAddr>().unwrap());
            assert!((40_000..=40_003).contains(&from.port()), "{from}");
            server.send_to(&[2], from).unwrap();
            assert_eq!(next(&pod), (2, to(SERVER, 5000)), "the answer finds its way back");
        }
    });
}

#[test]
fn snat_writes_its_address_and_ports() {
    in_network(async |mut network| {
        run("ip", &format!("address add 10.88.0.9/24 dev {FAR}"));
        let address = "10.88.0.9".parse().unwrap();
        let plain = to_port(UDP, 5000).then(Verdict::Snat { address, ports: None, random: false });
        let ports = PortRange::new(41_000, 41_000);
        let chosen = to_port(UDP, 5001).then(Verdict::Snat { address, ports, random: false });
        // Of another family: it goes on.
        let other = Rule {
            verdict: Some(Verdict::Snat { address: "fd00::9".parse().unwrap(), ports: None, random: false }),
            ..Rule::default()
        };
        network.chains(vec![base(ChainType::Nat, Hook::Postrouting, 110, vec![other, plain, chosen])]).await;
        let pod = udp(&network.pod, POD, 6000);
        for (port, expected) in [(5000, to("10.88.0.9", 6000)), (5001, to("10.88.0.9", 41_000)), (5002, to(POD, 6000))]
        {
            let server = udp(&network.server, SERVER, port);
            pod.send_to(&[1], to(SERVER, port)).unwrap();
            assert_eq!(next(&server).1, expected);
        }
    });
}

#[test]
fn maps_of_addresses_lead_where_they_say_and_change_at_once() {
    in_network(async |mut network| {
        run("ip", &format!("address add 10.88.0.77/32 dev {FAR}"));
        let (inward, outward) = (map("inward"), map("outward"));
        let look_up = Rule {
            verdict: Some(Verdict::DnatLookup { key: vec![DESTINATION], map: inward.name.clone() }),
            ..Rule::default()
        };
        let hairpin = Rule {
            verdict: Some(Verdict::SnatLookup { key: vec![SOURCE], map: outward.name.clone() }),
            ..Rule::default()
        };
        let from_server =
            Match::Equal { field: Field::IifName, value: Value::Interface(FAR.parse().unwrap()), negated: false };
        // Only what was translated gets to the pod from outside.
        let direct =
            drop_rule().when(from_server).when(Match::CtState(CtState::NEW)).when(Match::Translated { negated: true });
        let mut pre = base(ChainType::Nat, Hook::Prerouting, -100, vec![look_up]);
        let mut post = base(ChainType::Nat, Hook::Postrouting, 110, vec![hairpin]);
        let name = calico_dataplane::testing::sample::chain_name;
        (pre.name, post.name) = (name("pre"), name("post"));
        let filter = base(ChainType::Filter, Hook::Forward, 0, vec![direct]);
        network
            .apply(Delta {
                sets_added: vec![inward.clone(), outward.clone()],
                chains_set: vec![pre, post, filter],
                ..Delta::default()
            })
            .await;
        let leads = |target: &str| Element::address([addr("10.88.0.77")], target.parse().unwrap());
        network.change(&inward, vec![], vec![leads(POD)]).await;
        let (pod, other) = (udp(&network.pod, POD, 5000), udp(&network.pod, OTHER_POD, 5000));
        let first = udp(&network.server, SERVER, 6000);
        first.send_to(&[9], to(POD, 5000)).unwrap();
        first.send_to(&[1], to("10.88.0.77", 5000)).unwrap();
        assert_eq!(next(&pod), (1, to(SERVER, 6000)), "the direct packet before it was dropped");
        pod.send_to(&[2], to(SERVER, 6000)).unwrap();
        assert_eq!(next(&first), (2, to("10.88.0.77", 5000)), "it answers by the address that was asked");

        // The same key with another address: removed and added in one transaction.
        network.change(&inward, vec![leads(POD)], vec![leads(OTHER_POD)]).await;
        let second = udp(&network.server, SERVER, 6001);
        second.send_to(&[3], to("10.88.0.77", 5000)).unwrap();
        assert_eq!(next(&other), (3, to(SERVER, 6001)));

        let outgoing = Element::address([addr(OTHER_POD)], "10.88.0.77".parse().unwrap());
        network.change(&outward, vec![], vec![outgoing]).await;
        let sender = udp(&network.pod, OTHER_POD, 6002);
        sender.send_to(&[4], to(SERVER, 6001)).unwrap();
        assert_eq!(next(&second), (4, to("10.88.0.77", 6002)));
    });
}

#[test]
fn what_is_not_tracked_has_no_connection() {
    in_network(async |mut network| {
        let exempt = to_port(UDP, 5000).doing(Statement::NoTrack);
        let mut raw = base(ChainType::Filter, Hook::Prerouting, -300, vec![exempt]);
        raw.name = calico_dataplane::testing::sample::chain_name("raw");
        // Neither form says anything of a packet without a connection.
        let status =
            [false, true].map(|negated| to_port(UDP, 5000).when(Match::Translated { negated }).then(Verdict::Drop));
        let untracked = Rule {
            matches: vec![Match::CtState(CtState::UNTRACKED)],
            verdict: Some(Verdict::Accept),
            ..Rule::default()
        };
        let tracked = to_port(UDP, 5001).when(Match::CtState(CtState::NEW)).then(Verdict::Accept);
        let rules = status.into_iter().chain([untracked, tracked, drop_rule()]).collect();
        network.chains(vec![raw, base(ChainType::Filter, Hook::Forward, 0, rules)]).await;
        let pod = udp(&network.pod, POD, 6000);
        for port in [5000, 5001] {
            let server = udp(&network.server, SERVER, port);
            pod.send_to(&[1], to(SERVER, port)).unwrap();
            next(&server);
        }
        let known = run("conntrack", "-L -p udp");
        assert!(known.contains("dport=5001") && !known.contains("dport=5000"), "{known}");
    });
}

#[test]
fn a_refusal_is_heard() {
    in_network(async |mut network| {
        answering(&network.server, 5000);
        let reset = to_port(TCP, 5000).then(Verdict::Reject(Reject::TcpReset));
        let unreachable = to_port(UDP, 5001).then(Verdict::Reject(Reject::PortUnreachable));
        connect(&network.pod, 5000).unwrap();
        network.chains(vec![base(ChainType::Filter, Hook::Forward, 0, vec![reset, unreachable])]).await;
        assert!(is_refused(connect(&network.pod, 5000)));
        let pod = udp(&network.pod, POD, 6000);
        pod.connect(to(SERVER, 5001)).unwrap();
        pod.send(&[1]).unwrap();
        assert!(is_refused(pod.recv(&mut [0])));
    });
}

#[test]
fn limits_take_their_burst() {
    for over in [false, true] {
        in_network(async move |mut network| {
            let limit = Statement::Limit(RateLimit { rate: 1, seconds: 86_400, burst: 3, over });
            let limited = to_port(UDP, 5000).doing(limit);
            let rules = match over {
                true => vec![limited.then(Verdict::Drop)],
                false => vec![limited.then(Verdict::Accept), to_port(UDP, 5000).then(Verdict::Drop)],
            };
            network.chains(vec![base(ChainType::Filter, Hook::Forward, 0, rules)]).await;
            let (server, last) = (udp(&network.server, SERVER, 5000), udp(&network.server, SERVER, 5001));
            let pod = udp(&network.pod, POD, 6000);
            for number in 0..6 {
                pod.send_to(&[number], to(SERVER, 5000)).unwrap();
            }
            pod.send_to(&[9], to(SERVER, 5001)).unwrap();
            next(&last);
            server.set_nonblocking(true).unwrap();
            let mut arrived = Vec::new();
            let mut byte = [0];
            while server.recv(&mut byte).is_ok() {
                arrived.extend_from_slice(&byte);
            }
            assert_eq!(arrived, [0, 1, 2]);
        });
    }
}

#[test]
fn connections_are_limited_until_others_end() {
    in_network(async |mut network| {
        answering(&network.server, 5000);
        let rule = to_port(TCP, 5000).when(Match::CtState(CtState::NEW)).doing(Statement::ConnectionsOver(2));
        let rule = rule.then(Verdict::Reject(Reject::TcpReset));
        network.chains(vec![base(ChainType::Filter, Hook::Forward, 0, vec![rule])]).await;
        let first = connect(&network.pod, 5000).unwrap();
        let second = connect(&network.pod, 5000).unwrap();
        assert!(is_refused(connect(&network.pod, 5000)));
        assert!(is_refused(connect(&network.pod, 5000)), "a refused one does not count");
        drop(first);
        let third = eventually(|| connect(&network.pod, 5000));
        assert!(is_refused(connect(&network.pod, 5000)));
        drop((second, third));
    });
}

#[test]
fn the_hosts_own_addresses_are_local() {
    in_network(async |mut network| {
        let host = std::net::UdpSocket::bind((UPLINK, 5000)).unwrap();
        host.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
        let server = udp(&network.server, SERVER, 5000);
        let pod = udp(&network.pod, POD, 6000);
        for negated in [true, false] {
            let rule = to_port(UDP, 5000).when(Match::Local { field: DESTINATION, negated }).then(Verdict::Drop);
            network.chains(vec![base(ChainType::Filter, Hook::Prerouting, -150, vec![rule])]).await;
            let (passes, target) = if negated { (&host, UPLINK) } else { (&server, SERVER) };
            let dropped = if negated { SERVER } else { UPLINK };
            pod.send_to(&[1], to(dropped, 5000)).unwrap();
            pod.send_to(&[2], to(target, 5000)).unwrap();
            assert_eq!(next(passes).0, 2);
        }
        for socket in [host, server] {
            socket.set_nonblocking(true).unwrap();
            assert_eq!(socket.recv(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        }
    });
}

#[test]
fn code_points_are_set_and_checksums_right() {
    in_network(async |mut network| {
        let rule = to_port(UDP, 5000).doing(Statement::SetDscp { family: Family::V4, value: 46 });
        network.chains(vec![base(ChainType::Filter, Hook::Postrouting, -150, vec![rule])]).await;
        network
            .server
            .run(|| {
                run("nft", "add table ip seen");
                run("nft", "add chain ip seen input { type filter hook input priority 0; }");
                for point in [46, 0] {
                    run("nft", &format!("add rule ip seen input udp dport 5000-5001 ip dscp {point} counter"));
                }
            })
            .unwrap();
        let pod = udp(&network.pod, POD, 6000);
        for port in [5000, 5001] {
            // What arrives at a socket had a right header checksum.
            let server = udp(&network.server, SERVER, port);
            pod.send_to(&[1], to(SERVER, port)).unwrap();
            next(&server);
        }
        let seen = network.server.run(|| run("nft", "list table ip seen")).unwrap();
        assert_eq!(seen.matches("counter packets 1").count(), 2, "{seen}");
    });
}

#[test]
fn marks_route_anew_what_the_host_sends() {
    in_network(async |mut network| {
        let target = "10.99.0.2";
        for netns in [&network.pod, &network.server] {
            netns.run(|| run("ip", &format!("address add {target}/32 dev lo"))).unwrap();
        }
        run("ip", &format!("route add {target}/32 via {POD} dev {NEAR}"));
        run("ip", &format!("route add {target}/32 via {SERVER} dev {FAR} table 100"));
        run("ip", "rule add fwmark 0x1/0x1 lookup 100");
        let rule = to_port(UDP, 5000).doing(Statement::SetMark { mask: 1, value: 1 });
        network.chains(vec![base(ChainType::Route, Hook::Output, -150, vec![rule])]).await;
        let host = std::net::UdpSocket::bind(("0.0.0.0", 0)).unwrap();
        let (server, pod) = (udp(&network.server, target, 5000), udp(&network.pod, target, 5001));
        host.send_to(&[1], to(target, 5000)).unwrap();
        assert_eq!(next(&server).0, 1);
        host.send_to(&[2], to(target, 5001)).unwrap();
        assert_eq!(next(&pod).0, 2);
    });
}

#[test]
fn groups_of_the_log_get_a_packets_beginning() {
    in_network(async |mut network| {
        let group = Statement::LogGroup { group: 7, prefix: "DPE|default".into(), snaplen: 28 };
        let rule = to_port(UDP, 5000).doing(group);
        network.chains(vec![base(ChainType::Filter, Hook::Forward, 0, vec![rule])]).await;
        let log = LogGroup::listen(7);
        let pod = udp(&network.pod, POD, 6000);
        for port in [5001, 5000] {
            let server = udp(&network.server, SERVER, port);
            pod.send_to(&[1], to(SERVER, port)).unwrap();
            next(&server);
        }
        let (prefix, packet) = log.next();
        assert_eq!(prefix, "DPE|default");
        // An IPv4 header, then a UDP header with the port at its third octet; the byte sent is cut off.
        assert_eq!((packet.len(), packet.get(22..24)), (28, Some(&5000u16.to_be_bytes()[..])));
    });
}

#[test]
fn answers_of_arp_are_withheld_for_one_sender() {
    in_network(async |mut network| {
        let withheld = "10.77.0.7";
        run("ip", &format!("address add {withheld}/24 dev {NEAR}"));
        let base = Some(BaseChain { chain_type: ChainType::Filter, hook: Hook::Output, priority: 0 });
        let rule = drop_rule().when(Match::ArpReply).when(is(Field::ArpSender, withheld));
        let chain = Chain { name: arp_chain("output"), base, rules: vec![rule.doing(Statement::Counter)] };
        network.chains(vec![chain.clone()]).await;
        let pod = udp(&network.pod, POD, 6000);
        let (own, other) =
            (std::net::UdpSocket::bind((GATEWAY, 5000)).unwrap(), std::net::UdpSocket::bind((withheld, 5000)).unwrap());
        pod.send_to(&[1], to(withheld, 5000)).unwrap();
        pod.send_to(&[2], to(GATEWAY, 5000)).unwrap();
        assert_eq!(next(&own).0, 2, "other addresses are answered for");
        let failed = || {
            let found = network.pod.run(|| run("ip", &format!("neigh show {withheld}"))).unwrap();
            if found.contains("FAILED") { Ok(()) } else { Err(Error::other(found)) }
        };
        eventually(failed);
        let listing = run("nft", "list table arp calico-dataplane");
        assert!(!listing.contains("counter packets 0"), "{listing}");
        network.apply(Delta { chains_removed: vec![chain.name], ..Delta::default() }).await;
        network.pod.run(|| run("ip", "neigh flush all")).unwrap();
        other.set_nonblocking(true).unwrap();
        eventually(|| {
            pod.send_to(from_ref(&3), to(withheld, 5000))?;
            other.recv(&mut [0])
        });
    });
}
