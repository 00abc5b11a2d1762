//! Whom rules tell apart beyond the endpoints: an address for each prefix that they name, and one that nobody names.
//!
//! Prefixes either lie in one another or apart, so each stands for those of its addresses that are in no deeper one. One that is covered
//! by deeper ones altogether, or whose addresses are all somebody's, stands for nobody.

use std::collections::BTreeSet;
use std::net::IpAddr;

use calico_core::calc::event::{ActiveRule, Member};
use calico_core::net::{Cidr, Family};

use super::model::Model;
use super::names::{End, Party};

/// Addresses of nobody that some model's rules could tell apart, and what they stand for.
pub(super) fn others(models: &[&Model]) -> Vec<End> {
    let mut nets: BTreeSet<Cidr> = models.iter().flat_map(|model| named(model)).collect();
    nets.retain(|net| net.length() > 0);
    let known: BTreeSet<IpAddr> = models.iter().flat_map(|model| model.names.addresses()).collect();
    let has_v6 = known.iter().any(|address| address.is_ipv6());
    let mut ends = Vec::new();
    for family in [Family::V4, Family::V6] {
        let mut ranges: Vec<Range> =
            nets.iter().filter(|net| net.family() == family).map(|net| Range::of(*net)).collect();
        let of_family = known.iter().filter(|address| Family::of(**address) == family);
        ranges.extend(of_family.map(|address| Range { net: None, ..Range::of(Cidr::host(*address)) }));
        ranges.sort_by_key(|range| (range.first, u128::MAX - range.last, range.net.is_none()));
        let (found, roots) = gaps(&ranges);
        for (net, number) in found {
            let name = if net.is_host() { net.address().to_string() } else { net.to_string() };
            ends.push(End { name, party: Party::Outside(address(number, family)) });
        }
        let (name, places) = match family {
            Family::V4 => ("elsewhere", ELSEWHERE_V4),
            Family::V6 => ("elsewhere (IPv6)", ELSEWHERE_V6),
        };
        let free = places.iter().find_map(|(first, last)| free(*first, *last, &roots));
        if let Some(number) = free.filter(|_| family == Family::V4 || has_v6) {
            ends.push(End { name: name.into(), party: Party::Outside(address(number, family)) });
        }
    }
    ends
}

/// The prefixes that a model's rules, sets and settings name.
fn named(model: &Model) -> Vec<Cidr> {
    let rules = model.state().policies.values().chain(model.state().profiles.values());
    let mut found: Vec<Cidr> =
        rules.flat_map(|rules| rules.ingress.iter().chain(&rules.egress)).flat_map(nets).copied().collect();
    let members = model.state().sets.values().flat_map(|(_, members)| members);
    found.extend(members.filter_map(|member| match member {
        Member::Net(net) => Some(*net),
        Member::AddrPort { .. } => None,
    }));
    found.extend(&model.state().network.services);
    if !model.state().host_endpoints.is_empty() {
        let settings = model.settings.nodes().map(|node| model.settings.of_node(node));
        for settings in settings.chain([model.settings.common()]) {
            let ports = settings.failsafes.inbound.iter().chain(&settings.failsafes.outbound);
            found.extend(ports.filter_map(|port| port.net));
        }
    }
    found
}

fn nets(rule: &ActiveRule) -> impl Iterator<Item = &Cidr> {
    let sides = [&rule.source, &rule.destination];
    sides.into_iter().flat_map(|side| side.nets.iter().chain(&side.not_nets))
}

/// A prefix, or an address that is somebody's.
#[derive(Debug, Clone, Copy)]
struct Range {
    first: u128,
    last: u128,
    net: Option<Cidr>,
}

impl Range {
    fn of(net: Cidr) -> Self {
        let (first, width) = match net.address() {
            IpAddr::V4(address) => (u128::from(address.to_bits()), 32 - net.length()),
            IpAddr::V6(address) => (address.to_bits(), 128 - net.length()),
        };
        let size = u128::MAX.checked_shl(width.into()).map_or(u128::MAX, |mask| !mask);
        Self { first, last: first | size, net: Some(net) }
    }
}

fn address(number: u128, family: Family) -> IpAddr {
    match family {
        Family::V4 => IpAddr::V4(u32::try_from(number).unwrap_or_default().into()),
        Family::V6 => IpAddr::V6(number.into()),
    }
}

/// A range whose deeper ones are being gone through.
#[derive(Debug)]
struct Open {
    range: Range,
    /// Everything before is in a deeper one; none: everything is.
    next: Option<u128>,
    gap: Option<u128>,
}

/// For each prefix its first address that is in no deeper range, and the ranges that are in no other, in order. The ranges are sorted,
/// those that hold others before these.
fn gaps(ranges: &[Range]) -> (Vec<(Cidr, u128)>, Vec<Range>) {
    let (mut found, mut roots) = (Vec::new(), Vec::new());
    let mut open: Vec<Open> = Vec::new();
    let mut close = |ended: Open| {
        let rest = ended.next.filter(|next| *next <= ended.range.last);
        if let (Some(net), Some(gap)) = (ended.range.net, ended.gap.or(rest)) {
            found.push((net, gap));
        }
    };
    for range in ranges {
        while let Some(ended) = open.pop_if(|last| last.range.last < range.first) {
            close(ended);
        }
        match open.last_mut() {
            Some(outer) => {
                if outer.gap.is_none() {
                    outer.gap = outer.next.filter(|next| *next < range.first);
                }
                outer.next = range.last.checked_add(1).max(outer.next);
                if range.last == u128::MAX {
                    outer.next = None;
                }
            }
            None => roots.push(*range),
        }
        open.push(Open { range: *range, next: Some(range.first), gap: None });
    }
    while let Some(ended) = open.pop() {
        close(ended);
    }
    found.sort_unstable();
    (found, roots)
}

/// The first number from the one to the other that is in none of the ranges.
fn free(first: u128, last: u128, roots: &[Range]) -> Option<u128> {
    let mut next = first;
    for root in roots.iter().filter(|root| root.last >= first) {
        if root.first > next {
            break;
        }
        next = next.max(root.last.checked_add(1)?);
    }
    (next <= last).then_some(next)
}

/// Where an address is looked for that nobody names: what documents are full of, and else whatever is free.
const ELSEWHERE_V4: &[(u128, u128)] = &[(0xcb00_7100, 0xcb00_71ff), (0x0100_0000, 0xdfff_ffff)];
const ELSEWHERE_V6: &[(u128, u128)] =
    &[(0x2001_0db8 << 96, (0x2001_0db9 << 96) - 1), (0x2000 << 112, (0x4000 << 112) - 1)];

#[cfg(test)]
mod tests {
    use super::*;

    fn found(nets: &[&str], known: &[&str]) -> Vec<String> {
        let mut ranges: Vec<Range> = nets.iter().map(|net| Range::of(net.parse().unwrap())).collect();
        ranges.extend(known.iter().map(|one| Range { net: None, ..Range::of(format!("{one}/32").parse().unwrap()) }));
        ranges.sort_by_key(|range| (range.first, u128::MAX - range.last, range.net.is_none()));
        gaps(&ranges).0.into_iter().map(|(net, gap)| format!("{net} {}", address(gap, Family::V4))).collect()
    }

    #[test]
    fn a_prefix_stands_for_what_no_deeper_one_has() {
        assert_eq!(found(&["10.0.0.0/8"], &[]), ["10.0.0.0/8 10.0.0.0"]);
        assert_eq!(
            found(&["10.0.0.0/8", "10.0.0.0/16", "10.1.0.0/16"], &["10.0.0.0", "10.0.0.1"]),
            ["10.0.0.0/8 10.2.0.0", "10.0.0.0/16 10.0.0.2", "10.1.0.0/16 10.1.0.0"]
        );
        assert_eq!(found(&["10.0.0.0/31", "10.0.0.0/32"], &["10.0.0.1"]), ["10.0.0.0/32 10.0.0.0"]);
        assert_eq!(found(&["10.0.0.1/32"], &["10.0.0.1"]), Vec::<String>::new());
        assert_eq!(found(&["10.0.0.0/30", "10.0.0.2/31"], &[]), ["10.0.0.0/30 10.0.0.0", "10.0.0.2/31 10.0.0.2"]);
    }

    #[test]
    fn elsewhere_is_where_nothing_is_named() {
        let roots: Vec<Range> =
            ["1.0.0.0/8", "2.0.0.0/7", "203.0.113.0/25"].map(|net| Range::of(net.parse().unwrap())).into();
        assert_eq!(free(0xcb00_7100, 0xcb00_71ff, &roots), Some(0xcb00_7180));
        assert_eq!(free(0x0100_0000, 0xdfff_ffff, &roots), Some(0x0400_0000));
        let all = [Range::of("0.0.0.0/1".parse().unwrap()), Range::of("128.0.0.0/1".parse().unwrap())];
        assert_eq!(free(0x0100_0000, 0xdfff_ffff, &all), None);
    }
}
