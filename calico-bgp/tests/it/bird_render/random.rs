//! Whatever the desired state says, BIRD can read what is written: no text of others changes the configuration's meaning, no number freezes it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use calico_bgp::bird::{BirdLog, BirdSettings, render};
use calico_core::bgp::{
    AddPath, Bfd, ByFamily, Community, DesiredBgp, DesiredPeer, DynamicPeers, Families, Filter, FilterRule,
    InterfaceMatch, LocalSpeaker, NextHop, Originated, Password, PeerKind, PrefixMatch, PrefixOperator, Role, Secret,
    Source,
};
use calico_core::net::{AsNumber, Cidr};

use super::DIALECTS;
use super::parse::assert_reads;

const ROUNDS: u64 = 60;

/// SplitMix64.
struct Draw(u64);

impl Draw {
    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.number() % most as u64).unwrap()
    }

    fn coin(&mut self) -> bool {
        self.below(2) == 0
    }

    fn of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }

    /// What can be written, seven times of eight: one number out of range keeps its whole session out.
    fn mostly<T: Clone>(&mut self, good: &[T], any: &[T]) -> T {
        if self.below(8) == 0 { self.of(any) } else { self.of(good) }
    }

    fn text(&mut self) -> String {
        const PIECES: [&str; 16] =
            ["\"", "'", "\\", "\n", ";", "}", "{", "#", "/*", "é", "x", "a-b.c", "?", "*", "\t", "include \"x\""];
        let pieces = 1 + self.below(6);
        (0..pieces).map(|_| self.of(&PIECES)).collect()
    }

    fn address(&mut self) -> IpAddr {
        const ADDRESSES: [&str; 8] =
            ["10.0.0.1", "10.0.0.2", "240.0.0.1", "fd00::1", "fd00::2", "fe80::1", "192.0.2.9", "2001:db8::9"];
        self.of(&ADDRESSES).parse().unwrap()
    }

    fn cidr(&mut self) -> Cidr {
        let address = self.address();
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let length = self.of(&[0, 1, 8, 16, 24, 26, 31, 32, 64, 127, 128]);
        Cidr::new(address, length.min(bits)).unwrap()
    }

    fn rule(&mut self) -> FilterRule {
        let operators = [PrefixOperator::Equal, PrefixOperator::NotEqual, PrefixOperator::In, PrefixOperator::NotIn];
        let lengths = self.coin().then(|| (self.of(&[0, 8, 24, 32, 128, 255]), self.of(&[0, 8, 24, 32, 128, 255])));
        let prefix = PrefixMatch { cidr: self.cidr(), operator: self.of(&operators), lengths };
        FilterRule {
            prefix: self.coin().then_some(prefix),
            interface: (self.below(20) == 0).then(|| InterfaceMatch { pattern: self.text() }),
            community: self.coin().then_some(Community::Standard(u32::MAX)),
            as_path: if self.coin() { vec![AsNumber::new(u32::MAX)] } else { Vec::new() },
            priority: self.coin().then(|| self.of(&[0, 1, u32::MAX])),
            accept: self.coin(),
            ..FilterRule::default()
        }
    }

    fn filter(&mut self) -> Arc<Filter> {
        let mut rules = || (0..3).map(|_| self.rule()).collect::<Vec<_>>();
        let (ipv4, ipv6) = (rules(), rules());
        let rules = ByFamily { ipv4, ipv6 };
        Arc::new(Filter { name: self.text().into(), import: rules.clone(), export: rules })
    }

    fn peer(&mut self) -> DesiredPeer {
        let kinds = [PeerKind::Mesh, PeerKind::Node, PeerKind::Global, PeerKind::LocalWorkload];
        let mut peer = DesiredPeer::new(
            self.address(),
            AsNumber::new(self.mostly(&[1, 64512, u32::MAX], &[0])),
            self.of(&kinds),
            self.text(),
        );
        peer.port = self.mostly(&[1, 179, u16::MAX], &[0]);
        peer.id.interface = self.coin().then(|| self.text().parse().ok()).flatten();
        let session = &mut peer.session;
        session.local_as = self.coin().then(|| AsNumber::new(self.mostly(&[7, 64512], &[0])));
        let own = if peer.id.address.is_ipv4() { Families::IPV4 } else { Families::IPV6 };
        session.families = self.mostly(&[own, own, Families::BOTH], &[Families::NONE, Families::IPV4, Families::IPV6]);
        session.source = self.mostly(&[Source::Node], &[Source::Kernel, Source::Address([10, 0, 0, 1].into())]);
        session.passive = self.coin();
        session.password = match self.below(4) {
            0 => Secret::new(self.text()).map_or(Password::None, Password::Key),
            _ => Password::None,
        };
        session.ttl_security = self.coin().then(|| self.mostly(&[1, 2, 255], &[0]));
        session.hold_time = self.coin().then(|| self.mostly(&[0, 3, 9, u16::MAX], &[1, 2]));
        session.keepalive = self.coin().then(|| self.of(&[0, 1, 3, u16::MAX]));
        session.restart_time = self.coin().then(|| self.of(&[0, 1, u16::MAX]));
        session.long_lived = self.coin().then(|| self.of(&[0, 1, u32::MAX]));
        session.add_path = AddPath { receive: self.coin(), send: self.of(&[0, 1, 255]) };
        session.extended_next_hop = self.below(4) == 0;
        let roles = [Role::Provider, Role::RouteServer, Role::RouteServerClient, Role::Customer, Role::Peer];
        session.role = (self.below(4) == 0).then(|| self.of(&roles));
        session.gateway = (self.below(8) == 0).then(|| self.address());
        session.maximum_prefixes = self.coin().then(|| self.mostly(&[1, u32::MAX], &[0]));
        let interval =
            |draw: &mut Self| Duration::from_micros(draw.mostly(&[1, 1_000_000], &[0, u64::from(u32::MAX) + 1]));
        session.bfd = (self.below(4) == 0).then(|| Bfd {
            transmit: interval(self),
            receive: interval(self),
            multiplier: self.mostly(&[1, 255], &[0]),
            multihop: self.coin(),
        });
        peer.policy.next_hop = self.of(&[NextHop::Auto, NextHop::Own, NextHop::Keep]);
        peer.policy.reflector_client = self.coin();
        peer.policy.own_as_allowed = self.of(&[0, 1, u32::MAX]);
        peer.policy.filters = (0..self.below(3)).map(|_| self.filter()).collect();
        peer
    }

    fn desired(&mut self) -> DesiredBgp {
        let mut local = LocalSpeaker::new(self.text(), AsNumber::new(64512), [10, 0, 0, 1].into());
        local.ipv6 = self.coin().then(|| "fd00::1".parse().unwrap());
        local.cluster_id = self.coin().then(|| [0, 0, 0, 1].into());
        local.listen.own_addresses = self.coin();
        local.listen.port = self.of(&[0, 1, 179, u16::MAX]);
        let dynamic = |draw: &mut Self| DynamicPeers { range: draw.cidr(), limit: 1, like: draw.peer() };
        let originated =
            |draw: &mut Self| Originated { priority: draw.of(&[0, 1, u32::MAX]), ..Originated::block(draw.cidr()) };
        let mut desired = DesiredBgp {
            local: Some(local),
            peers: (0..8).map(|_| self.peer()).collect(),
            dynamic: (0..self.below(3)).map(|_| dynamic(self)).collect(),
            originated: (0..6).map(|_| originated(self)).collect(),
            ..DesiredBgp::default()
        };
        desired.originated.sort();
        desired
    }
}

#[test]
fn whatever_is_desired_bird_can_read() {
    let mut written = 0;
    for seed in 0..ROUNDS {
        println!("seed {seed}");
        let mut draw = Draw(seed);
        let desired = draw.desired();
        let log = draw.coin().then(|| BirdLog::File(format!("log{}", draw.text().replace('/', ""))));
        let settings = BirdSettings { log, ignored_interfaces: vec![draw.text()], ..BirdSettings::default() };
        for (_, dialect, reader) in DIALECTS {
            let rendered = render(&desired, dialect, &settings);
            written += rendered.sessions.len();
            assert_reads(reader, &rendered.text);
        }
    }
    assert!(written > 50, "only {written} sessions were written: the rounds show nothing");
}
