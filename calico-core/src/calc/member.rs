//! Members of one set, counted by contribution, and what the dataplane is shown of them.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::ops::Bound;

use super::event::Member;
use super::hosts::Hosts;
use crate::net::{Cidr, Family};

/// Prefixes of a set. A prefix that a wider one of the same set covers is not shown: interval sets take no overlaps.
#[derive(Debug, Default)]
pub(super) struct NetMembers {
    /// IPv4 addresses.
    hosts: Hosts,
    /// Everything else.
    nets: BTreeMap<Cidr, u32>,
    /// How many of `nets` there are of each length: looking for a cover asks only for lengths that occur.
    lengths: Vec<(Family, u8, u32)>,
}

impl NetMembers {
    /// Counts a contribution of a set that nobody was told of yet.
    pub(super) fn gather(&mut self, net: Cidr) {
        match host(&net) {
            Some(address) => self.hosts.gather(address),
            None => self.add(net, &mut |_, _| ()),
        }
    }

    /// Counts a contribution and tells what it changes in what is shown.
    pub(super) fn add(&mut self, net: Cidr, show: &mut impl FnMut(Member, bool)) {
        let new = match host(&net) {
            Some(address) => self.hosts.add(address),
            None => {
                let count = self.nets.entry(net).or_default();
                *count += 1;
                let new = *count == 1;
                if new {
                    self.count_length(net, true);
                }
                new
            }
        };
        if !new || self.is_covered(&net) {
            return;
        }
        for hidden in self.shown_below(net) {
            show(Member::Net(hidden), false);
        }
        show(Member::Net(net), true);
    }

    /// Takes a contribution back and tells what it changes in what is shown.
    pub(super) fn remove(&mut self, net: Cidr, show: &mut impl FnMut(Member, bool)) {
        let last = match host(&net) {
            Some(address) => self.hosts.remove(address),
            None => self.remove_net(net),
        };
        if !last || self.is_covered(&net) {
            return;
        }
        show(Member::Net(net), false);
        for uncovered in self.shown_below(net) {
            show(Member::Net(uncovered), true);
        }
    }

    /// Everything that is shown, sorted.
    pub(super) fn shown(&mut self) -> Vec<Member> {
        let mut widest: Vec<Cidr> = Vec::new();
        for net in self.nets.keys() {
            if !widest.last().is_some_and(|last| last.covers(net)) {
                widest.push(*net);
            }
        }
        self.with_hosts(&widest, (0, u32::MAX)).into_iter().map(Member::Net).collect()
    }

    fn remove_net(&mut self, net: Cidr) -> bool {
        let Some(count) = self.nets.get_mut(&net) else { return false };
        *count -= 1;
        let last = *count == 0;
        if last {
            self.nets.remove(&net);
            self.count_length(net, false);
        }
        last
    }

    fn count_length(&mut self, net: Cidr, more: bool) {
        let (family, length) = (net.family(), net.length());
        let position = self.lengths.iter().position(|entry| (entry.0, entry.1) == (family, length));
        match position.and_then(|position| self.lengths.get_mut(position)) {
            Some(entry) if more => entry.2 += 1,
            Some(entry) => entry.2 -= 1,
            None => self.lengths.push((family, length, 1)),
        }
        self.lengths.retain(|entry| entry.2 > 0);
    }

    fn is_covered(&self, net: &Cidr) -> bool {
        let wider = self.lengths.iter().filter(|(family, length, _)| *family == net.family() && *length < net.length());
        let mut covers = wider.filter_map(|(_, length, _)| Cidr::new(net.address(), *length));
        covers.any(|cover| self.nets.contains_key(&cover))
    }

    /// The widest prefixes strictly inside `net`: those that are shown when `net` is not. Order is by address, then by length, so
    /// after each of them the search goes on behind its last address.
    fn shown_below(&mut self, net: Cidr) -> Vec<Cidr> {
        if net.is_host() {
            return Vec::new();
        }
        let mut shown = Vec::new();
        let mut from = Bound::Excluded(net);
        while let Some((next, _)) = self.nets.range((from, Bound::Unbounded)).next() {
            if !net.covers(next) {
                break;
            }
            shown.push(*next);
            // Nothing sorts between the host prefix of the last address and the first prefix behind it.
            from = Bound::Excluded(Cidr::host(next.bounds().1));
        }
        match net.bounds() {
            (IpAddr::V4(first), IpAddr::V4(last)) => self.with_hosts(&shown, (first.into(), last.into())),
            _ => shown,
        }
    }

    /// Prefixes that do not overlap, and the IPv4 addresses beside them within bounds, in order.
    fn with_hosts(&mut self, nets: &[Cidr], (first, last): (u32, u32)) -> Vec<Cidr> {
        let mut all = Vec::new();
        let mut first = u64::from(first);
        let v4 = nets.partition_point(|net| net.family() == Family::V4);
        for net in nets.iter().take(v4) {
            let (IpAddr::V4(start), IpAddr::V4(end)) = net.bounds() else { continue };
            all.extend(self.between(first, u32::from(start).into()));
            all.push(*net);
            first = u64::from(u32::from(end)) + 1;
        }
        all.extend(self.between(first, u64::from(last) + 1));
        all.extend(nets.iter().skip(v4));
        all
    }

    /// Addresses from the first to before the end; both may lie behind all addresses.
    fn between(&mut self, first: u64, end: u64) -> impl Iterator<Item = Cidr> {
        let bounds = u32::try_from(first).ok().zip(end.checked_sub(1).and_then(|last| u32::try_from(last).ok()));
        let bounds = bounds.filter(|(first, last)| first <= last);
        let hosts = bounds.map(|(first, last)| self.hosts.between(first, last));
        hosts.into_iter().flatten().map(|address| Cidr::host(IpAddr::V4(address.into())))
    }
}

/// The address of an IPv4 host prefix.
fn host(net: &Cidr) -> Option<u32> {
    match net.address() {
        IpAddr::V4(address) if net.is_host() => Some(address.into()),
        _ => None,
    }
}

/// Address, protocol and port triples of a set.
#[derive(Debug, Default)]
pub(super) struct PortMembers {
    counts: BTreeMap<Member, u32>,
}

impl PortMembers {
    pub(super) fn add(&mut self, address: IpAddr, protocol: u8, port: u16, show: &mut impl FnMut(Member, bool)) {
        let member = Member::AddrPort { address, protocol, port };
        let count = self.counts.entry(member).or_default();
        *count += 1;
        if *count == 1 {
            show(member, true);
        }
    }

    pub(super) fn remove(&mut self, address: IpAddr, protocol: u8, port: u16, show: &mut impl FnMut(Member, bool)) {
        let member = Member::AddrPort { address, protocol, port };
        let Some(count) = self.counts.get_mut(&member) else { return };
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&member);
            show(member, false);
        }
    }

    pub(super) fn shown(&self) -> Vec<Member> {
        self.counts.keys().copied().collect()
    }
}

/// A prefix as sets hold it: one of length zero in two halves, because the kernel's interval sets cannot hold it.
pub(super) fn halves(net: Cidr) -> impl Iterator<Item = Cidr> {
    let upper = match net.address() {
        IpAddr::V4(_) => IpAddr::from([128, 0, 0, 0]),
        IpAddr::V6(_) => IpAddr::from([0x8000, 0, 0, 0, 0, 0, 0, 0]),
    };
    let split = net.length() == 0;
    let first = if split { Cidr::new(net.address(), 1) } else { Some(net) };
    let second = if split { Cidr::new(upper, 1) } else { None };
    first.into_iter().chain(second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    fn nets() -> impl Strategy<Value = Cidr> {
        let v4 =
            (0..16u32, 26..=32u8).prop_map(|(address, length)| (IpAddr::V4((0xffff_fff0 + address).into()), length));
        let v6 = (0..4u128, 125..=128u8).prop_map(|(address, length)| (IpAddr::V6(address.into()), length));
        prop_oneof![v4, v6].prop_map(|(address, length)| Cidr::new(address, length).unwrap())
    }

    proptest! {
        #[test]
        fn shows_exactly_the_widest(
            mut held in prop::collection::vec(nets(), 0..20),
            steps in prop::collection::vec((nets(), any::<bool>()), 1..60),
        ) {
            let mut members = NetMembers::default();
            held.iter().for_each(|net| members.gather(*net));
            let mut shown: BTreeSet<Member> = members.shown().into_iter().collect();
            for (net, add) in steps {
                let mut show = |member, present| {
                    let changed = if present { shown.insert(member) } else { shown.remove(&member) };
                    assert!(changed, "{member:?} told twice");
                };
                let position = held.iter().position(|other| *other == net);
                match (add, position) {
                    (true, _) => {
                        members.add(net, &mut show);
                        held.push(net);
                    }
                    (false, Some(position)) => {
                        members.remove(net, &mut show);
                        held.remove(position);
                    }
                    (false, None) => {}
                }
                let widest = |net: &&Cidr| !held.iter().any(|other| other != *net && other.covers(net));
                let expected: BTreeSet<Member> = held.iter().filter(widest).map(|net| Member::Net(*net)).collect();
                prop_assert_eq!(&shown, &expected);
                prop_assert_eq!(members.shown(), expected.into_iter().collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn the_whole_space_is_two_halves() {
        let texts = |net: &str| halves(net.parse().unwrap()).map(|net| alloc::format!("{net}")).collect::<Vec<_>>();
        assert_eq!(texts("0.0.0.0/0"), ["0.0.0.0/1", "128.0.0.0/1"]);
        assert_eq!(texts("::/0"), ["::/1", "8000::/1"]);
        assert_eq!(texts("10.0.0.0/8"), ["10.0.0.0/8"]);
    }
}
