//! Who of a run of policies can match a packet, by classes of packets.
//!
//! In come footprints, one for each policy in order; out go, for each protocol that any of them names, ranges of destination ports with the
//! places of those that are to be asked, in order. To ask one more than needed is never wrong, so where the lists would grow out of
//! proportion some are replaced by all that name the protocol.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use super::footprint::Footprint;
use crate::net::PortRange;

/// Places in a run, in order.
pub(super) type List = Vec<usize>;

/// Who is asked.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Candidates {
    pub(super) protocols: BTreeMap<u8, Ports>,
    /// About packets of all other protocols.
    pub(super) rest: List,
}

/// Who is asked about packets of one protocol.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ports {
    /// By destination port, in order.
    pub(super) ranges: Vec<(PortRange, List)>,
    /// About all other ports, and where there are none.
    pub(super) others: List,
}

/// So many times the policies of a run stand in lists at most, but for the lists of a whole protocol.
const GROWTH: usize = 4;
/// So many times with those: more protocols than this are not told apart.
const MOST: usize = 8;
/// Ranges of one protocol that are told apart at most.
const RANGES: usize = 512;

impl Candidates {
    /// None where nothing is won by telling packets apart.
    pub(super) fn of(footprints: &[&Footprint]) -> Option<Self> {
        let places = |wanted: &dyn Fn(&Footprint) -> bool| -> List {
            footprints.iter().enumerate().filter(|(_, one)| wanted(one)).map(|(place, _)| place).collect()
        };
        let rest = places(&|one| one.everything);
        let numbers: BTreeSet<u8> = footprints.iter().flat_map(|one| one.protocols.keys().copied()).collect();
        let mut classes: BTreeMap<u8, Vec<(PortRange, List)>> = BTreeMap::new();
        let mut wholes: BTreeMap<u8, List> = BTreeMap::new();
        for number in numbers {
            let whole = places(&|one| one.everything || one.protocols.contains_key(&number));
            classes.insert(number, by_port(footprints, number, &whole));
            wholes.insert(number, whole);
        }
        let affordable = affordable(classes.values().flatten(), GROWTH * footprints.len());
        for (ranges, whole) in classes.values_mut().zip(wholes.values()) {
            let dear = |list: &List| list.len() > 1 && !affordable.contains(list);
            ranges.iter_mut().filter(|(_, list)| dear(list)).for_each(|(_, list)| list.clone_from(whole));
            join_neighbors(ranges);
        }
        let lists = || classes.values().flatten().map(|(_, list)| list).chain([&rest]);
        let total: usize = lists().collect::<BTreeSet<_>>().into_iter().map(Vec::len).sum();
        if total > MOST * footprints.len() || lists().all(|list| list.len() == footprints.len()) {
            return None;
        }
        let protocols = classes.into_iter().map(|(number, ranges)| (number, Ports::of(ranges))).collect();
        Some(Self { protocols, rest })
    }
}

impl Ports {
    /// What most ranges have in common is for all ports that are not named.
    fn of(mut ranges: Vec<(PortRange, List)>) -> Self {
        let mut uses: BTreeMap<&List, usize> = BTreeMap::new();
        ranges.iter().for_each(|(_, list)| *uses.entry(list).or_default() += 1);
        let others = uses.iter().max_by_key(|(_, uses)| **uses).map(|(list, _)| (*list).clone()).unwrap_or_default();
        ranges.retain(|(_, list)| *list != others);
        Self { ranges, others }
    }
}

/// All ports, in order, each with those that name it.
fn by_port(footprints: &[&Footprint], number: u8, whole: &List) -> Vec<(PortRange, List)> {
    // At each port: who begins there, and who has ended before it.
    let mut changes: BTreeMap<u16, Vec<(usize, bool)>> = BTreeMap::new();
    let mut asked = BTreeSet::new();
    let mut count = 0;
    for (place, footprint) in footprints.iter().enumerate() {
        if footprint.everything {
            asked.insert(place);
            continue;
        }
        for range in footprint.protocols.get(&number).into_iter().flatten().copied() {
            changes.entry(range.min()).or_default().push((place, true));
            if let Some(end) = range.max().checked_add(1) {
                changes.entry(end).or_default().push((place, false));
            }
            count += 1;
        }
    }
    if count > RANGES {
        return vec![(PortRange::ALL, whole.clone())];
    }
    changes.entry(0).or_default();
    let ends = changes.keys().skip(1).map(|start| start - 1).chain([u16::MAX]).collect::<Vec<_>>();
    let mut ranges = Vec::new();
    for ((start, changes), end) in changes.iter().zip(ends) {
        for (place, begins) in changes {
            if *begins {
                asked.insert(*place)
            } else {
                asked.remove(place)
            };
        }
        ranges.extend(PortRange::new(*start, end).map(|range| (range, asked.iter().copied().collect())));
    }
    join_neighbors(&mut ranges);
    ranges
}

fn join_neighbors(ranges: &mut Vec<(PortRange, List)>) {
    ranges.dedup_by(|next, known| {
        let joined = PortRange::new(known.0.min(), next.0.max()).filter(|_| known.1 == next.1);
        joined.map(|range| known.0 = range).is_some()
    });
}

/// The shortest lists of several places that come to no more than so many places together.
fn affordable<'a>(classes: impl Iterator<Item = &'a (PortRange, List)>, most: usize) -> BTreeSet<List> {
    let distinct: BTreeSet<&List> = classes.map(|(_, list)| list).filter(|list| list.len() > 1).collect();
    let mut shortest: Vec<&List> = distinct.into_iter().collect();
    shortest.sort_by_key(|list| list.len());
    let mut spent = 0;
    let fits = |list: &&&List| {
        spent += list.len();
        spent <= most
    };
    shortest.iter().take_while(fits).map(|list| (*list).clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    const PORTS: [u16; 9] = [0, 1, 53, 54, 80, 443, 8080, 65534, 65535];

    fn footprint(random: &mut Random, ports: usize) -> Footprint {
        let mut footprint = Footprint { everything: random.chance(10), ..Footprint::default() };
        for number in [1, 6, 17] {
            if random.chance(50) {
                let range = |random: &mut Random| {
                    let (a, b) = (random.pick(&PORTS), random.pick(&PORTS));
                    PortRange::new(a.min(b), a.max(b)).unwrap()
                };
                let ranges: Vec<_> = (0..=random.below(ports)).map(|_| range(random)).collect();
                footprint.protocols.insert(number, super::super::rule::merged(&ranges));
            }
        }
        footprint
    }

    fn names(footprint: &Footprint, number: u8, port: u16) -> bool {
        let ranges = footprint.protocols.get(&number).into_iter().flatten();
        footprint.everything || ranges.copied().any(|range| range.contains(port))
    }

    fn asked(candidates: &Candidates, number: u8, port: u16) -> &List {
        let Some(ports) = candidates.protocols.get(&number) else { return &candidates.rest };
        let found = ports.ranges.iter().find(|(range, _)| range.contains(port));
        found.map_or(&ports.others, |(_, list)| list)
    }

    /// Whoever names a packet is asked, in order; and hardly anybody else, where the lists are few.
    #[test]
    fn who_names_a_packet_is_asked() {
        let (mut exact, mut more, mut told) = (0, 0, 0);
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let (count, ports) = (2 + random.below(40), 1 + random.below(3));
            let footprints: Vec<Footprint> = (0..count).map(|_| footprint(&mut random, ports)).collect();
            let Some(candidates) = Candidates::of(&footprints.iter().collect::<Vec<_>>()) else { continue };
            told += 1;
            let mut lists: BTreeSet<&List> = BTreeSet::from([&candidates.rest]);
            for (number, port) in [1, 6, 17, 99].into_iter().flat_map(|number| PORTS.map(|port| (number, port))) {
                let found = asked(&candidates, number, port);
                lists.insert(found);
                let wanted: List = (0..count).filter(|place| names(&footprints[*place], number, port)).collect();
                assert!(found.is_sorted() && wanted.iter().all(|place| found.contains(place)), "seed {seed}");
                if *found == wanted { exact += 1 } else { more += 1 }
            }
            assert!(lists.into_iter().map(Vec::len).sum::<usize>() <= MOST * count, "seed {seed}");
        }
        assert!(told > 250 && exact > more && more > 0, "{told}: {exact}, {more}");
    }

    #[test]
    fn what_tells_nobody_apart_is_nothing() {
        let all = Footprint { everything: true, ..Footprint::default() };
        let tcp = Footprint { protocols: [(6, vec![PortRange::ALL])].into(), ..Footprint::default() };
        assert_eq!(Candidates::of(&[&all, &all]), None);
        let found = Candidates::of(&[&tcp, &all]).unwrap();
        assert_eq!((found.rest, &found.protocols[&6].others), (vec![1], &vec![0, 1]));
        let nobody = Footprint::default();
        assert_eq!(Candidates::of(&[&nobody]), Some(Candidates { protocols: BTreeMap::new(), rest: Vec::new() }));
    }

    /// Half of many policies is about any port and each of the others about one: every list would be half as long as all.
    #[test]
    fn lists_do_not_outgrow_the_policies() {
        let one = |place: u16| match place % 2 {
            0 => Footprint { protocols: [(6, vec![PortRange::ALL])].into(), ..Footprint::default() },
            _ => Footprint { protocols: [(6, vec![PortRange::single(place)])].into(), ..Footprint::default() },
        };
        let footprints: Vec<Footprint> = (0..64).map(one).collect();
        let found = Candidates::of(&footprints.iter().collect::<Vec<_>>()).unwrap();
        let ports = &found.protocols[&6];
        let lists: BTreeSet<&List> = ports.ranges.iter().map(|(_, list)| list).chain([&ports.others]).collect();
        assert!(lists.iter().map(|list| list.len()).sum::<usize>() <= (GROWTH + 1) * 64);
        assert_eq!(asked(&found, 6, 9999).len(), 32, "what most packets want is still told apart");
    }

    /// Each policy names all protocols but one: as many lists as protocols, each of nearly all policies.
    #[test]
    fn more_protocols_than_lists_may_hold_are_not_told_apart() {
        let told = |count: u8| {
            let but_one = |place: u8| Footprint {
                protocols: (0..count)
                    .filter(|number| *number != place)
                    .map(|number| (number, vec![PortRange::ALL]))
                    .collect(),
                ..Footprint::default()
            };
            let footprints: Vec<Footprint> = (0..count).map(but_one).collect();
            Candidates::of(&footprints.iter().collect::<Vec<_>>()).is_some()
        };
        assert!(told(8) && !told(20));
    }
}
