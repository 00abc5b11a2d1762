//! Desired states that together say everything that one can say.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use calico_core::bgp::{
    AddPath, Bfd, ByFamily, Community, DesiredBgp, DesiredPeer, DynamicPeers, ExportPolicy, Families, Filter,
    FilterOperation, FilterRule, InterfaceMatch, KernelPolicy, LocalSpeaker, NextHop, Origin, Originated, Password,
    PeerKind, PeerPolicy, PoolRouting, PrefixMatch, PrefixOperator, Role, Secret, SessionKind, SessionParameters,
    Source,
};
use calico_core::net::{AsNumber, Cidr};

const AS: AsNumber = AsNumber::new(64512);
const OTHER_AS: AsNumber = AsNumber::new(4_200_000_001);

pub(super) fn cidr(text: &str) -> Cidr {
    text.parse().unwrap()
}

fn community(text: &str) -> Community {
    text.parse().unwrap()
}

fn local() -> LocalSpeaker {
    LocalSpeaker { ipv6: Some("fd00::1".parse().unwrap()), ..LocalSpeaker::new("one", AS, [10, 0, 0, 1].into()) }
}

fn peer(address: &str, as_number: AsNumber, kind: PeerKind, name: &str) -> DesiredPeer {
    let (address, interface) = match address.split_once('%') {
        Some((address, interface)) => (address, Some(interface.parse().unwrap())),
        None => (address, None),
    };
    let mut peer = DesiredPeer::new(address.parse().unwrap(), as_number, kind, name);
    peer.id.interface = interface;
    peer
}

fn with(mut peer: DesiredPeer, change: impl FnOnce(&mut SessionParameters, &mut PeerPolicy)) -> DesiredPeer {
    change(&mut peer.session, &mut peer.policy);
    peer
}

fn sorted(mut desired: DesiredBgp) -> DesiredBgp {
    desired.peers.sort_by_key(|peer| peer.id);
    desired.originated.sort();
    desired
}

pub(super) fn mesh() -> DesiredBgp {
    let add_path = AddPath { receive: true, send: 8 };
    let mesh = |address, name| {
        with(peer(address, AS, PeerKind::Mesh, name), |session, _| {
            session.add_path = add_path;
            session.restart_time = Some(300);
        })
    };
    let originated = |prefix, origin, priority| Originated { prefix: cidr(prefix), origin, priority };
    sorted(DesiredBgp {
        local: Some(local()),
        peers: vec![mesh("10.0.0.2", "two"), mesh("10.0.0.3", "three \"\n};"), mesh("fd00::2", "two")],
        originated: vec![
            Originated::block(cidr("10.65.0.0/26")),
            Originated::block(cidr("fd65::/122")),
            originated("10.65.9.7/32", Origin::Workload, 512),
            originated("10.65.0.7/32", Origin::Workload, 1024),
            originated("10.96.0.0/12", Origin::Service, 1024),
            originated("192.0.2.0/24", Origin::Static, 1024),
        ],
        export: Arc::new(ExportPolicy {
            pools: [(cidr("10.65.0.0/16"), true), (cidr("fd65::/64"), true)].into(),
            blocks: vec![cidr("10.65.0.0/26"), cidr("fd65::/122")],
            communities: vec![(cidr("10.65.0.0/16"), vec![community("64512:7"), community("64512:1:2")])],
            others: false,
            ..ExportPolicy::default()
        }),
        kernel: Arc::new(KernelPolicy {
            rejected: vec![cidr("10.96.0.0/12")],
            pools: [(cidr("10.65.0.0/16"), PoolRouting::Plain)].into(),
            ..KernelPolicy::default()
        }),
        ..DesiredBgp::default()
    })
}

pub(super) fn peers() -> DesiredBgp {
    let key = || Password::Key(Secret::new("it's 100% secret; \\ #".into()).unwrap());
    let bfd = |multihop| Bfd {
        transmit: Duration::from_millis(300),
        receive: Duration::from_micros(123_456),
        multiplier: 3,
        multihop,
    };
    let mut own = local();
    own.listen.port = 1790;
    own.listen.own_addresses = true;
    let mut elsewhere = with(peer("192.0.2.1", OTHER_AS, PeerKind::Global, "tor-a"), |session, policy| {
        session.password = key();
        session.ttl_security = Some(2);
        session.local_as = Some(AsNumber::new(65001));
        session.keepalive = Some(20);
        session.hold_time = Some(60);
        session.gateway = Some(IpAddr::from([10, 0, 0, 254]));
        session.maximum_prefixes = Some(1000);
        session.role = Some(Role::Customer);
        policy.next_hop = NextHop::Own;
        policy.own_as_allowed = 2;
    });
    elsewhere.port = 1179;
    let range = |range: &str, families| DynamicPeers {
        range: cidr(range),
        limit: 10,
        like: with(peer("0.0.0.0", OTHER_AS, PeerKind::Global, "leaves"), |session, _| {
            session.families = families;
            session.password = key();
        }),
    };
    sorted(DesiredBgp {
        local: Some(own),
        peers: vec![
            elsewhere,
            with(peer("192.0.2.2", AS, PeerKind::Node, "single-hop"), |session, policy| {
                session.bfd = Some(bfd(false));
                session.passive = true;
                session.hold_time = Some(0);
                session.add_path = AddPath { receive: true, send: 0 };
                policy.next_hop = NextHop::Keep;
            }),
            with(peer("192.0.2.3", OTHER_AS, PeerKind::Node, "several-hops"), |session, _| {
                session.bfd = Some(bfd(true));
                session.source = Source::Address(IpAddr::from([10, 0, 0, 9]));
                session.keepalive = Some(600);
                session.long_lived = Some(3600);
                session.add_path = AddPath { receive: false, send: 1 };
            }),
            with(peer("10.65.0.7", OTHER_AS, PeerKind::LocalWorkload, "default/router"), |session, _| {
                session.source = Source::Kernel;
                session.passive = true;
            }),
            with(peer("fd00::9", OTHER_AS, PeerKind::Global, "both-families"), |session, _| {
                session.families = Families::BOTH;
                session.restart_time = Some(60_000);
            }),
            with(peer("fd00::10", OTHER_AS, PeerKind::Global, "ipv6-next-hops"), |session, _| {
                session.families = Families::BOTH;
                session.extended_next_hop = true;
            }),
            with(peer("fe80::1%eth0.7", OTHER_AS, PeerKind::Node, "unnumbered"), |session, _| {
                session.families = Families::BOTH;
                session.extended_next_hop = true;
                session.role = Some(Role::Peer);
            }),
        ],
        dynamic: vec![range("198.51.100.0/24", Families::IPV4), range("2001:db8::/64", Families::IPV6)],
        ..DesiredBgp::default()
    })
}

fn rule(accept: bool) -> FilterRule {
    FilterRule { accept, ..FilterRule::default() }
}

fn prefix(text: &str, operator: PrefixOperator, lengths: Option<(u8, u8)>) -> Option<PrefixMatch> {
    Some(PrefixMatch { cidr: cidr(text), operator, lengths })
}

fn conditions() -> Vec<FilterRule> {
    use PrefixOperator::{Equal, In, NotEqual, NotIn};
    vec![
        FilterRule { prefix: prefix("10.1.0.0/16", Equal, None), ..rule(false) },
        FilterRule { prefix: prefix("10.2.0.0/16", NotEqual, None), learned: true, ..rule(false) },
        FilterRule { prefix: prefix("10.3.0.0/16", In, Some((20, 24))), ..rule(true) },
        FilterRule {
            prefix: prefix("10.4.0.0/16", NotIn, Some((0, 64))),
            session: Some(SessionKind::External),
            ..rule(false)
        },
        FilterRule { prefix: prefix("10.5.0.0/16", In, Some((24, 20))), ..rule(false) },
        FilterRule { prefix: prefix("10.6.0.0/16", NotIn, None), session: Some(SessionKind::Internal), ..rule(true) },
        FilterRule { interface: Some(InterfaceMatch { pattern: "eth*.7".into() }), ..rule(true) },
        FilterRule { community: Some(community("65001:100")), ..rule(false) },
        FilterRule { community: Some(community("65001:4294967295:7")), ..rule(true) },
        FilterRule { as_path: vec![AsNumber::new(65001), OTHER_AS], ..rule(true) },
        FilterRule { priority: Some(512), ..rule(true) },
        FilterRule { unknown: true, ..rule(true) },
        FilterRule { unknown: true, learned: true, ..rule(false) },
    ]
}

fn changes() -> Vec<FilterRule> {
    let operations = vec![
        FilterOperation::AddCommunity(community("65001:100")),
        FilterOperation::AddCommunity(community("65001:1:2")),
        FilterOperation::Prepend(vec![AsNumber::new(65001), AsNumber::new(65002)]),
        FilterOperation::SetPriority(512),
    ];
    vec![FilterRule { operations, ..rule(true) }]
}

fn filter(name: &str, rules: Vec<FilterRule>) -> Arc<Filter> {
    let both = ByFamily { ipv4: rules, ipv6: changes() };
    Arc::new(Filter { name: name.into(), import: both.clone(), export: both })
}

pub(super) fn filters() -> DesiredBgp {
    let first = filter("every.condition-1", conditions());
    let long = filter(&"long".repeat(20), changes());
    let namesake = filter("every.condition-1", changes());
    let odd = filter("it's (odd); \"", changes());
    let filters = |filters: &[&Arc<Filter>]| filters.iter().map(|filter| Arc::clone(filter)).collect::<Vec<_>>();
    sorted(DesiredBgp {
        local: Some(local()),
        peers: vec![
            with(peer("192.0.2.1", OTHER_AS, PeerKind::Global, "tor-a"), |_, policy| {
                policy.filters = filters(&[&first, &long]);
            }),
            with(peer("192.0.2.2", AS, PeerKind::Global, "tor-b"), |_, policy| {
                policy.filters = filters(&[&odd, &namesake, &first]);
            }),
            with(peer("2001:db8::1", OTHER_AS, PeerKind::Node, "tor-c"), |_, policy| {
                policy.filters = filters(&[&first]);
            }),
        ],
        ..DesiredBgp::default()
    })
}

pub(super) fn pools() -> DesiredBgp {
    let pools = [
        ("10.0.0.0/8", true, PoolRouting::Plain),
        ("10.9.0.0/16", false, PoolRouting::Elsewhere),
        ("10.9.9.0/24", true, PoolRouting::Tunnel),
        ("10.10.0.0/16", true, PoolRouting::TunnelAcrossSubnets),
        ("fd65::/48", true, PoolRouting::Plain),
        ("fd65::/64", false, PoolRouting::Tunnel),
    ];
    DesiredBgp {
        export: Arc::new(ExportPolicy {
            pools: pools.map(|(pool, announced, _)| (cidr(pool), announced)).into(),
            ..ExportPolicy::default()
        }),
        kernel: Arc::new(KernelPolicy {
            pools: pools.map(|(pool, _, routing)| (cidr(pool), routing)).into(),
            rejected: vec![cidr("10.96.0.0/12"), cidr("fd96::/108")],
            other_next_hops: vec![[10, 0, 0, 9].into(), [10, 0, 0, 10].into()],
            subnet: ByFamily { ipv4: Some(cidr("10.0.0.0/24")), ipv6: None },
            ..KernelPolicy::default()
        }),
        ..mesh()
    }
}

pub(super) fn reflector() -> DesiredBgp {
    let mut own = local();
    own.cluster_id = Some([224, 0, 0, 1].into());
    let client = |address, as_number| {
        with(peer(address, as_number, PeerKind::Node, "client"), |_, policy| policy.reflector_client = true)
    };
    sorted(DesiredBgp {
        local: Some(own),
        peers: vec![
            client("10.0.0.2", AS),
            client("10.0.0.4", OTHER_AS),
            peer("10.0.0.3", AS, PeerKind::Node, "other reflector"),
        ],
        export: Arc::new(ExportPolicy {
            reflected: vec![cidr("203.0.113.0/24"), cidr("2001:db8:1::/64")],
            others: false,
            ..ExportPolicy::default()
        }),
        ..DesiredBgp::default()
    })
}

/// Peers that cannot be written, and a word of why.
pub(super) fn unwritable() -> Vec<(&'static str, DesiredPeer)> {
    let plain = |address| peer(address, OTHER_AS, PeerKind::Global, "odd");
    let change = |change: fn(&mut SessionParameters, &mut PeerPolicy)| with(plain("192.0.2.1"), change);
    vec![
        ("no such secret", change(|session, _| session.password = Password::Missing("no such secret".into()))),
        ("this password", change(|session, _| session.password = Password::Key(Secret::new("a\nb".into()).unwrap()))),
        ("no family", change(|session, _| session.families = Families::NONE)),
        ("hold time is 2", change(|session, _| session.hold_time = Some(2))),
        ("source address fd00::2", change(|session, _| session.source = Source::Address("fd00::2".parse().unwrap()))),
        ("gateway fd00::2", change(|session, _| session.gateway = Some("fd00::2".parse().unwrap()))),
        ("number of hops is 0", change(|session, _| session.ttl_security = Some(0))),
        ("most prefixes is 0", change(|session, _| session.maximum_prefixes = Some(0))),
        ("own AS number is 0", change(|session, _| session.local_as = Some(AsNumber::new(0)))),
        (
            "BFD over several hops without a source",
            change(|session, _| {
                session.source = Source::Kernel;
                let second = Duration::from_secs(1);
                session.bfd = Some(Bfd { transmit: second, receive: second, multiplier: 3, multihop: true });
            }),
        ),
        (
            "multiplier of BFD is 0",
            change(|session, _| {
                let second = Duration::from_secs(1);
                session.bfd = Some(Bfd { transmit: second, receive: second, multiplier: 0, multihop: false });
            }),
        ),
        (
            "filter odd: BIRD cannot be told the interface",
            change(|_, policy| {
                let interface = Some(InterfaceMatch { pattern: "eth\"".into() });
                policy.filters = vec![filter("odd", vec![FilterRule { interface, ..rule(true) }])];
            }),
        ),
        ("this node's own", plain("10.0.0.1")),
        ("needs its interface", plain("fe80::7")),
        ("cannot be told the interface", plain("fe80::7%a\"b")),
        ("peer's AS number is 0", DesiredPeer { as_number: AsNumber::new(0), ..plain("192.0.2.1") }),
        ("peer's port is 0", DesiredPeer { port: 0, ..plain("192.0.2.1") }),
    ]
}
