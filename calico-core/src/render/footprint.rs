//! Which packets a list of rules can match at all, by protocol and destination port.
//!
//! It is read off the rendered rules and says too much rather than too little: conditions on anything else are overlooked. So whoever
//! leaves rules out for packets outside their footprint changes nothing, not even a counter.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use super::rule::merged;
use crate::net::{Family, PortRange};
use crate::table::{Field, Match, Rule, Value};

/// Which packets may match.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Footprint {
    /// Any packet may.
    pub(super) everything: bool,
    /// Those of a protocol may, to these ports: in order, and none touches another.
    pub(super) protocols: BTreeMap<u8, Vec<PortRange>>,
}

impl Footprint {
    pub(super) fn of(rules: &[Rule]) -> Self {
        let mut footprint = Self::default();
        for rule in rules {
            match rule.matches.iter().find_map(protocol) {
                Some(number) => footprint.protocols.entry(number).or_default().extend(ports(&rule.matches)),
                None => footprint.everything = true,
            }
        }
        footprint.protocols.values_mut().for_each(|ranges| *ranges = merged(ranges));
        footprint
    }
}

/// The only protocol for which the condition can hold.
const fn protocol(condition: &Match) -> Option<u8> {
    match condition {
        Match::Equal { field: Field::L4Proto, value: Value::Proto(number), negated: false } => Some(*number),
        Match::Icmp { family: Family::V4, .. } => Some(1),
        Match::Icmp { family: Family::V6, .. } => Some(58),
        _ => None,
    }
}

fn ports(conditions: &[Match]) -> Vec<PortRange> {
    let listed = conditions.iter().find_map(|condition| match condition {
        Match::InPorts { field: Field::DstPort, ranges, negated: false } => Some(ranges.clone()),
        _ => None,
    });
    listed.unwrap_or_else(|| vec![PortRange::ALL])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(number: u8) -> Match {
        Match::Equal { field: Field::L4Proto, value: Value::Proto(number), negated: false }
    }

    fn to(field: Field, ranges: &[(u16, u16)], negated: bool) -> Match {
        let ranges = ranges.iter().map(|(min, max)| PortRange::new(*min, *max).unwrap()).collect();
        Match::InPorts { field, ranges, negated }
    }

    fn footprint(rules: &[&[Match]]) -> Footprint {
        let rules: Vec<Rule> =
            rules.iter().map(|matches| Rule { matches: matches.to_vec(), ..Rule::default() }).collect();
        Footprint::of(&rules)
    }

    #[test]
    fn ports_add_up_by_protocol() {
        let found = footprint(&[
            &[is(6), to(Field::DstPort, &[(80, 80), (443, 443)], false)],
            &[to(Field::DstPort, &[(81, 90)], false), is(6)],
            &[is(17), to(Field::DstPort, &[(53, 53)], false)],
        ]);
        let ranges = |ranges: &[(u16, u16)]| ranges.iter().map(|(a, b)| PortRange::new(*a, *b).unwrap()).collect();
        assert!(!found.everything);
        assert_eq!(found.protocols, [(6, ranges(&[(80, 90), (443, 443)])), (17, ranges(&[(53, 53)]))].into());
        assert_eq!(footprint(&[]), Footprint::default());
    }

    #[test]
    fn what_says_nothing_of_the_destination_is_about_all_ports() {
        for open in [
            vec![is(6)],
            vec![is(6), to(Field::SrcPort, &[(1, 9)], false)],
            vec![is(6), to(Field::DstPort, &[(1, 9)], true)],
        ] {
            assert_eq!(footprint(&[&open]).protocols, [(6, vec![PortRange::ALL])].into());
        }
        let icmp = |family, negated| Match::Icmp { family, icmp_type: 8, code: None, negated };
        assert_eq!(footprint(&[&[icmp(Family::V6, true)]]).protocols, [(58, vec![PortRange::ALL])].into());
        assert_eq!(footprint(&[&[icmp(Family::V4, false)]]).protocols, [(1, vec![PortRange::ALL])].into());
    }

    #[test]
    fn without_one_protocol_it_is_about_everything() {
        let other = Match::Equal { field: Field::L4Proto, value: Value::Proto(6), negated: true };
        for open in [vec![], vec![other], vec![to(Field::DstPort, &[(80, 80)], false)], vec![Match::Family(Family::V4)]]
        {
            assert!(footprint(&[&open]).everything, "{open:?}");
        }
    }
}
