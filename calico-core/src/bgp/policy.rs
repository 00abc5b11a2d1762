//! Which routes peers hear of, and which the kernel gets, beside the filters of a session.
//!
//! Both are lists of prefixes with a verdict each; of several pools that cover a prefix the longest decides, whatever their order in the
//! datastore (upstream's statements are sorted as text, which makes the lexically smaller one win).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;

use super::{Community, NORMAL_PRIORITY, Origin};
use crate::net::Cidr;

/// Which routes peers hear of, after their filters.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "built with literals over the default; a new part must break every backend"
)]
pub struct ExportPolicy {
    /// Pools, and whether their routes are announced.
    pub pools: BTreeMap<Cidr, bool>,
    /// This node's blocks: more specific routes within stay here, unless their priority is elevated.
    pub blocks: Vec<Cidr>,
    /// Communities for routes within a prefix.
    pub communities: Vec<(Cidr, Vec<Community>)>,
    /// Ranges of services, whose routes a reflector passes on.
    pub reflected: Vec<Cidr>,
    /// Metric of an ordinary IPv4 and IPv6 route: one below it is elevated.
    pub normal_priority: super::ByFamily<u32>,
    /// Whether routes outside all of this are announced.
    pub others: bool,
}

/// Which learned routes the kernel gets.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "built with literals over the default; a new part must break every backend"
)]
pub struct KernelPolicy {
    /// Routes within are never programmed: they are services', which every node answers itself.
    pub rejected: Vec<Cidr>,
    /// How routes within a pool are programmed.
    pub pools: BTreeMap<Cidr, PoolRouting>,
    /// Nodes that are reached another way (WireGuard): routes via them are somebody else's.
    pub other_next_hops: Vec<IpAddr>,
    /// This node's subnet, of each family.
    pub subnet: super::ByFamily<Option<Cidr>>,
    /// Metric of an ordinary route.
    pub normal_priority: super::ByFamily<u32>,
}

/// How routes within a pool are programmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "upstream's four")]
pub enum PoolRouting {
    /// Not by the speaker.
    Elsewhere,
    /// Via the next hop.
    Plain,
    /// Through the IP-in-IP device.
    Tunnel,
    /// The same, unless the next hop is in this node's subnet.
    TunnelAcrossSubnets,
}

/// A verdict with its reason, for whoever explains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExportReason {
    /// Its pool is kept out of BGP.
    PrivatePool(Cidr),
    /// It is a block of this node.
    OwnBlock,
    /// It lies in a block of this node, which is announced whole.
    InOwnBlock(Cidr),
    /// It lies in a block of this node, and its priority is elevated.
    Elevated(Cidr),
    /// It is a service's.
    Service,
    /// It lies in a range of services, and this node is a reflector.
    Reflected(Cidr),
    /// Its pool is announced.
    Pool(Cidr),
    /// Nothing says anything about it.
    Other,
}

/// How a learned route is programmed, with its reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Programming {
    /// Via its next hop.
    Plain,
    /// Through the IP-in-IP device, to its next hop.
    Tunnel,
    /// Not: it lies in this range of services.
    Service(Cidr),
    /// Not: routes of this pool are somebody else's.
    Elsewhere(Cidr),
    /// Not: its next hop is reached another way.
    OtherNextHop,
}

/// A route that may be announced.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "built with literals by whoever has a route")]
pub struct Exported {
    /// Its prefix.
    pub prefix: Cidr,
    /// Why it is originated here; none if it was learned.
    pub origin: Option<Origin>,
    /// Its metric here.
    pub priority: u32,
    /// This node reflects routes.
    pub reflector: bool,
}

impl Default for ExportPolicy {
    /// Announces everything.
    fn default() -> Self {
        Self {
            pools: BTreeMap::new(),
            blocks: Vec::new(),
            communities: Vec::new(),
            reflected: Vec::new(),
            normal_priority: super::ByFamily { ipv4: NORMAL_PRIORITY, ipv6: NORMAL_PRIORITY },
            others: true,
        }
    }
}

impl Default for KernelPolicy {
    /// Programs everything.
    fn default() -> Self {
        Self {
            rejected: Vec::new(),
            pools: BTreeMap::new(),
            other_next_hops: Vec::new(),
            subnet: super::ByFamily::default(),
            normal_priority: super::ByFamily { ipv4: NORMAL_PRIORITY, ipv6: NORMAL_PRIORITY },
        }
    }
}

impl ExportPolicy {
    /// Whether a route is announced, and why (not). Upstream's order (`bird_ipam.cfg.template`).
    pub fn decide(&self, route: &Exported) -> (bool, ExportReason) {
        let pool = longest(&self.pools, route.prefix);
        if let Some((cidr, false)) = pool {
            return (false, ExportReason::PrivatePool(cidr));
        }
        if let Some(block) = self.blocks.iter().find(|block| block.covers(&route.prefix)) {
            return match *block == route.prefix {
                true => (true, ExportReason::OwnBlock),
                false if route.priority < *self.normal_priority.get(block.family()) => {
                    (true, ExportReason::Elevated(*block))
                }
                false => (false, ExportReason::InOwnBlock(*block)),
            };
        }
        if matches!(route.origin, Some(Origin::Service | Origin::Static)) {
            return (true, ExportReason::Service);
        }
        let reflected = self.reflected.iter().find(|range| route.reflector && range.covers(&route.prefix));
        if let Some(range) = reflected {
            return (true, ExportReason::Reflected(*range));
        }
        match pool {
            Some((cidr, _)) => (true, ExportReason::Pool(cidr)),
            None => (self.others, ExportReason::Other),
        }
    }

    /// Communities that a route gets, sorted, each once.
    pub fn communities(&self, prefix: Cidr) -> Vec<Community> {
        let within = self.communities.iter().filter(|(range, _)| range.covers(&prefix));
        let mut found: Vec<Community> = within.flat_map(|(_, communities)| communities).copied().collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

impl KernelPolicy {
    /// How a learned route is programmed, and why (not).
    pub fn decide(&self, prefix: Cidr, next_hop: IpAddr) -> Programming {
        if let Some(range) = self.rejected.iter().find(|range| range.covers(&prefix)) {
            return Programming::Service(*range);
        }
        if self.other_next_hops.contains(&next_hop) {
            return Programming::OtherNextHop;
        }
        match longest(&self.pools, prefix) {
            None | Some((_, PoolRouting::Plain)) => Programming::Plain,
            Some((cidr, PoolRouting::Elsewhere)) => Programming::Elsewhere(cidr),
            Some((_, PoolRouting::Tunnel)) => Programming::Tunnel,
            Some((_, PoolRouting::TunnelAcrossSubnets)) => {
                let subnet = self.subnet.get(prefix.family());
                let near = subnet.is_some_and(|subnet| subnet.contains(next_hop));
                if near { Programming::Plain } else { Programming::Tunnel }
            }
        }
    }
}

/// The longest of these that covers a prefix.
fn longest<T: Copy>(ranges: &BTreeMap<Cidr, T>, prefix: Cidr) -> Option<(Cidr, T)> {
    if ranges.is_empty() {
        return None;
    }
    prefix.widening().find_map(|range| ranges.get(&range).map(|value| (range, *value)))
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    #[test]
    fn what_is_announced_and_why() {
        let policy = ExportPolicy {
            pools: [(cidr("10.0.0.0/8"), true), (cidr("10.9.0.0/16"), false), (cidr("10.9.9.0/24"), true)].into(),
            blocks: vec![cidr("10.1.0.0/26"), cidr("10.9.1.0/26"), cidr("172.16.0.0/26")],
            reflected: vec![cidr("203.0.113.0/24")],
            others: false,
            ..ExportPolicy::default()
        };
        let learned = |prefix| Exported { prefix: cidr(prefix), origin: None, priority: 1024, reflector: false };
        let cases = [
            (learned("10.1.0.0/26"), true, ExportReason::OwnBlock),
            (learned("10.1.0.1/32"), false, ExportReason::InOwnBlock(cidr("10.1.0.0/26"))),
            (Exported { priority: 512, ..learned("10.1.0.1/32") }, true, ExportReason::Elevated(cidr("10.1.0.0/26"))),
            (learned("10.9.1.0/26"), false, ExportReason::PrivatePool(cidr("10.9.0.0/16"))),
            (learned("10.9.9.0/26"), true, ExportReason::Pool(cidr("10.9.9.0/24"))),
            (learned("10.2.0.0/26"), true, ExportReason::Pool(cidr("10.0.0.0/8"))),
            (learned("172.16.0.0/26"), true, ExportReason::OwnBlock),
            (learned("0.0.0.0/0"), false, ExportReason::Other),
            (learned("203.0.113.7/32"), false, ExportReason::Other),
            (
                Exported { reflector: true, ..learned("203.0.113.7/32") },
                true,
                ExportReason::Reflected(cidr("203.0.113.0/24")),
            ),
            (Exported { origin: Some(Origin::Service), ..learned("192.0.2.1/32") }, true, ExportReason::Service),
        ];
        for (route, announced, reason) in cases {
            assert_eq!(policy.decide(&route), (announced, reason), "{route:?}");
        }
        assert_eq!(ExportPolicy::default().decide(&learned("0.0.0.0/0")), (true, ExportReason::Other));
    }

    #[test]
    fn how_routes_are_programmed() {
        let policy = KernelPolicy {
            rejected: vec![cidr("10.96.0.0/12")],
            pools: [
                (cidr("10.1.0.0/16"), PoolRouting::Plain),
                (cidr("10.2.0.0/16"), PoolRouting::Tunnel),
                (cidr("10.3.0.0/16"), PoolRouting::TunnelAcrossSubnets),
                (cidr("10.3.3.0/24"), PoolRouting::Elsewhere),
            ]
            .into(),
            other_next_hops: vec!["192.0.2.9".parse().unwrap()],
            subnet: super::super::ByFamily { ipv4: Some(cidr("192.0.2.0/24")), ipv6: None },
            ..KernelPolicy::default()
        };
        let cases = [
            ("10.1.0.0/26", "192.0.2.1", Programming::Plain),
            ("10.1.0.0/26", "192.0.2.9", Programming::OtherNextHop),
            ("10.2.0.0/26", "192.0.2.1", Programming::Tunnel),
            ("10.3.0.0/26", "192.0.2.1", Programming::Plain),
            ("10.3.0.0/26", "198.51.100.1", Programming::Tunnel),
            ("10.3.3.0/26", "198.51.100.1", Programming::Elsewhere(cidr("10.3.3.0/24"))),
            ("10.97.0.1/32", "192.0.2.1", Programming::Service(cidr("10.96.0.0/12"))),
            ("0.0.0.0/0", "192.0.2.1", Programming::Plain),
        ];
        for (prefix, next_hop, expected) in cases {
            assert_eq!(policy.decide(cidr(prefix), next_hop.parse().unwrap()), expected, "{prefix} via {next_hop}");
        }
    }

    #[test]
    fn communities_are_gathered_once() {
        let number = |text: &str| text.parse::<Community>().unwrap();
        let policy = ExportPolicy {
            communities: vec![
                (cidr("10.0.0.0/8"), vec![number("1:2"), number("1:1")]),
                (cidr("10.1.0.0/16"), vec![number("1:2"), number("1:2:3")]),
            ],
            ..ExportPolicy::default()
        };
        assert_eq!(policy.communities(cidr("10.1.0.0/26")), [number("1:1"), number("1:2"), number("1:2:3")]);
        assert_eq!(policy.communities(cidr("11.0.0.0/8")), []);
    }
}
