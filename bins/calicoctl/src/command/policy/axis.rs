//! Ports, cut into intervals that nothing tells apart.

use std::collections::{BTreeMap, BTreeSet};

use calico_core::calc::event::SetId;
use calico_core::net::PortRange;

/// What a rule asks of the ports of one end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Side {
    pub(super) ports: Vec<PortRange>,
    pub(super) not_ports: Vec<PortRange>,
    pub(super) names: Vec<SetId>,
}

impl Side {
    /// Whether a port is wanted, as far as that does not depend on names.
    pub(super) fn takes(&self, port: u16) -> bool {
        let holds = |ranges: &[PortRange]| ranges.iter().any(|range| range.contains(port));
        (self.ports.is_empty() && self.names.is_empty() || holds(&self.ports)) && !holds(&self.not_ports)
    }
}

/// Ports next to each other that nothing tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Interval {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) point: Option<u16>,
    /// Whether a rule or setting names them.
    pub(super) is_named: bool,
}

impl Interval {
    pub(super) const fn holds(self, port: u16) -> bool {
        self.first <= port && port <= self.last
    }
}

/// All ports, cut where anything begins or ends.
#[derive(Debug)]
pub(super) struct Axis(pub(super) Vec<Interval>);

impl Axis {
    pub(super) fn of<'s>(sides: impl Iterator<Item = &'s Side>, points: BTreeSet<u16>) -> Self {
        let ranges: BTreeSet<(u16, u16)> = sides
            .flat_map(|side| side.ports.iter().chain(&side.not_ports))
            .map(|range| (PortRange::min(*range), PortRange::max(*range)))
            .chain(points.iter().map(|port| (*port, *port)))
            .collect();
        let after = |port: u16| port.checked_add(1);
        let mut cuts: BTreeSet<u16> =
            ranges.iter().flat_map(|(first, last)| [Some(*first), after(*last)]).flatten().collect();
        cuts.remove(&0);
        cuts.insert(1);
        let firsts: Vec<u16> = cuts.into_iter().collect();
        let lasts = firsts.iter().skip(1).map(|next| next - 1).chain([u16::MAX]);
        let interval = |(first, last): (u16, u16)| Interval {
            first,
            last,
            point: points.contains(&first).then_some(first),
            is_named: ranges.iter().any(|(from, to)| (*from..=*to).contains(&first)),
        };
        Self(firsts.iter().copied().zip(lasts).map(interval).collect())
    }
}

/// Traffic of one sort in parts of which each is some destinations from some sources, whichever of them.
pub(super) fn parts(pairs: Vec<(Interval, Interval)>) -> Vec<(BTreeSet<Interval>, BTreeSet<Interval>)> {
    let mut by_destination: BTreeMap<Interval, BTreeSet<Interval>> = BTreeMap::new();
    for (to, from) in pairs {
        by_destination.entry(to).or_default().insert(from);
    }
    let mut by_sources: BTreeMap<BTreeSet<Interval>, BTreeSet<Interval>> = BTreeMap::new();
    for (to, from) in by_destination {
        by_sources.entry(from).or_default().insert(to);
    }
    by_sources.into_iter().map(|(from, to)| (to, from)).collect()
}

pub(super) fn joined(intervals: &BTreeSet<Interval>) -> Vec<(u16, u16)> {
    join(intervals.iter().map(|one| (one.first, one.last)))
}

/// Neighbours are one.
pub(super) fn join(intervals: impl Iterator<Item = (u16, u16)>) -> Vec<(u16, u16)> {
    let mut joined: Vec<(u16, u16)> = Vec::new();
    for (first, last) in intervals {
        match joined.last_mut() {
            Some((_, end)) if end.checked_add(1) == Some(first) => *end = last,
            _ => joined.push((first, last)),
        }
    }
    joined
}

/// `80,8000-8080`
pub(super) fn ranges(intervals: &[(u16, u16)]) -> String {
    let text = |(first, last): &(u16, u16)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    intervals.iter().map(text).collect::<Vec<_>>().join(",")
}
