//! The RIB alone, to be measured: one external peer announces, others hear of it.

use core::net::{IpAddr, Ipv4Addr};

use calico_core::bgp::{ByFamily, LocalSpeaker, PeerPolicy};
use calico_core::net::{AsNumber, Cidr};

use crate::rib::{Channel, PeerSettings, Rib, Session};
use crate::session::peer_index::PeerIndex;
use crate::wire::{EncodeContext, NextHop, Nlri, PathAttributes};

const OWN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const SOURCE: PeerIndex = PeerIndex(0);
/// Octets that are taken at a time, as a transport would.
const BUDGET: usize = 1 << 16;

/// A RIB with one peer that announces and some that listen.
#[derive(Debug)]
pub struct RibBench {
    rib: Rib,
    round: u32,
}

impl RibBench {
    /// With so many listeners, each in a system of its own.
    pub fn new(listeners: u32) -> Self {
        let mut rib = Rib::default();
        rib.set_local(Some(LocalSpeaker::new("us", AsNumber::new(64512), OWN)));
        for index in 0..=listeners {
            let address = Ipv4Addr::from_bits(0xc633_6400 + index);
            rib.set_peer(PeerIndex(index), settings(address, index));
            rib.session_up(PeerIndex(index), session(address));
            rib.finish(PeerIndex(index));
        }
        let mut bench = Self { rib, round: 0 };
        bench.deliver();
        bench
    }

    /// The source announces so many prefixes, of which each `per_set` have equal attributes, and other ones in each round.
    pub fn announce(&mut self, prefixes: u32, per_set: u32) {
        self.round += 1;
        let all: Vec<Nlri> = (0..prefixes).map(prefix).collect();
        for (number, routes) in (0..).zip(all.chunks(usize::try_from(per_set.max(1)).unwrap_or(1))) {
            let systems = [64513, 7, self.round, number + 1].map(AsNumber::new);
            let attributes = PathAttributes { as_path: systems.into_iter().collect(), ..PathAttributes::default() };
            self.rib.announce(SOURCE, attributes, NextHop::V4(Ipv4Addr::new(198, 51, 100, 0)), routes);
        }
    }

    /// The source takes them back.
    pub fn withdraw(&mut self, prefixes: u32) {
        let all: Vec<Nlri> = (0..prefixes).map(prefix).collect();
        self.rib.withdraw(SOURCE, &all);
    }

    /// Everything that waits goes out: octets to listeners, and changes for the host.
    pub fn deliver(&mut self) -> (usize, usize) {
        let (mut octets, mut buffer) = (0, Vec::new());
        while let Some(index) = self.rib.poll_ready() {
            loop {
                buffer.clear();
                self.rib.poll_transmit(index, BUDGET, &mut buffer);
                if buffer.is_empty() {
                    break;
                }
                octets += buffer.len();
            }
        }
        (octets, core::iter::from_fn(|| self.rib.poll_report()).count())
    }

    /// Number of prefixes that anything is known of.
    pub fn prefixes(&self) -> usize {
        self.rib.len()
    }
}

fn prefix(number: u32) -> Nlri {
    let address = Ipv4Addr::from_bits(0x1000_0000 + (number << 8));
    Cidr::new(address.into(), 24).unwrap_or_else(|| Cidr::host(address.into())).into()
}

fn settings(address: Ipv4Addr, index: u32) -> PeerSettings {
    let (remote_as, local_as) = (AsNumber::new(64513 + index), AsNumber::new(64512));
    PeerSettings { id: IpAddr::V4(address).into(), remote_as, local_as, role: None, policy: PeerPolicy::default() }
}

fn session(identifier: Ipv4Addr) -> Session {
    let channel = Channel {
        own_next_hop: Some(OWN.into()),
        extended_next_hop: false,
        add_path: 0,
        long_lived: false,
        enhanced_refresh: false,
    };
    let channels = ByFamily { ipv4: Some(channel), ipv6: None };
    Session { identifier, encode: EncodeContext::default(), channels }
}
