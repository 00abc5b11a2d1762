//! What a program depends on besides the packet: the host's addresses, and what its rules have counted.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use calico_core::flow::Flow;
use calico_core::net::{Family, InterfaceName};
use calico_core::table::{ChainName, RateLimit};

/// The host around a packet. It is kept from packet to packet where limits matter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Surroundings {
    addresses: BTreeMap<InterfaceName, Vec<IpAddr>>,
    buckets: BTreeMap<Place, Bucket>,
    connections: BTreeMap<Place, BTreeSet<Connection>>,
    now: Duration,
}

/// A statement: its chain, rule and place in the rule.
pub(super) type Place = (ChainName, usize, usize);

/// A connection in either direction: protocol and both ends.
type Connection = (u8, BTreeSet<(IpAddr, u16)>);

/// A bucket that holds as many nanoseconds as its burst takes to refill; each packet costs a share of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bucket {
    filled: u128,
    at: Duration,
}

impl Surroundings {
    /// A host with these addresses; the first of an interface is what it masquerades as.
    pub fn new(addresses: impl IntoIterator<Item = (InterfaceName, Vec<IpAddr>)>) -> Self {
        Self { addresses: addresses.into_iter().collect(), ..Self::default() }
    }

    /// Time passes.
    pub fn advance(&mut self, time: Duration) {
        self.now = self.now.saturating_add(time);
    }

    /// A connection ends: no rule counts it any more.
    pub fn end_connection(&mut self, flow: &Flow) {
        let ended = connection(flow);
        self.connections.values_mut().for_each(|counted| {
            counted.remove(&ended);
        });
    }

    pub(super) fn is_local(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.addresses.values().flatten().any(|own| *own == address)
    }

    /// What the host calls itself when a packet leaves by an interface.
    pub(super) fn masquerade(&self, oif: Option<InterfaceName>, family: Family) -> Option<IpAddr> {
        let of_family = |address: &&IpAddr| Family::of(**address) == family;
        let own = oif.and_then(|oif| self.addresses.get(&oif)).into_iter().flatten();
        own.chain(self.addresses.values().flatten()).find(of_family).copied()
    }

    /// Whether a packet stays within the rate; if so, it is counted.
    pub(super) fn takes(&mut self, place: Place, limit: RateLimit) -> bool {
        let cost = u128::from(limit.seconds) * 1_000_000_000 / u128::from(limit.rate.max(1));
        let most = cost * u128::from(limit.burst);
        let now = self.now;
        let bucket = self.buckets.entry(place).or_insert(Bucket { filled: most, at: now });
        let filled = (bucket.filled + now.saturating_sub(bucket.at).as_nanos()).min(most);
        let within = filled >= cost;
        *bucket = Bucket { filled: if within { filled - cost } else { filled }, at: now };
        within
    }

    /// Counts a flow's connection, and says how many there are.
    pub(super) fn count(&mut self, place: Place, flow: &Flow) -> usize {
        let counted = self.connections.entry(place).or_default();
        counted.insert(connection(flow));
        counted.len()
    }
}

fn connection(flow: &Flow) -> Connection {
    let ends = [(flow.source, flow.source_port), (flow.destination, flow.destination_port)];
    (flow.protocol, BTreeSet::from(ends))
}
