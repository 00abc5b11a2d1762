//! Fewer rules that say the same: what differs in one list only becomes one rule with both lists.
//!
//! Between rules of one action order does not matter, as long as nothing else stands among them: whichever matches, the same happens. So
//! within such a run, rules that are equal but for their prefixes or port numbers on one side are joined, and one look-up in a set takes
//! the place of a walk. Rules that log stand where they are. Where rules are counted or logged each for itself, they are told apart, and
//! nothing is folded.

use alloc::vec::Vec;

use super::RenderConfig;
use crate::calc::event::ActiveRule;
use crate::resource::Action;

/// Whether nothing tells which of two rules of one action matched.
pub(super) const fn is_unseen(config: &RenderConfig) -> bool {
    !config.counters && !config.flow_logs
}

/// The same decisions by at most as many rules.
pub(super) fn fold(rules: &[ActiveRule]) -> Vec<ActiveRule> {
    let mut folded: Vec<ActiveRule> = Vec::new();
    let mut run = 0;
    for rule in rules {
        if rule.action == Action::Log || folded.last().is_some_and(|last| last.action != rule.action) {
            run = folded.len();
        }
        let known = folded.get_mut(run..).unwrap_or_default();
        // A bound on the search: what belongs together mostly stands together.
        let joined =
            rule.action != Action::Log && known.iter_mut().rev().take(LOOK_BACK).any(|known| join(known, rule));
        if !joined {
            folded.push(rule.clone());
        }
    }
    folded
}

const LOOK_BACK: usize = 16;

/// Widens a rule by another one, if one list of both is all that differs.
fn join(known: &mut ActiveRule, rule: &ActiveRule) -> bool {
    join_by(known, &rule.source.nets, rule, |rule| &mut rule.source.nets)
        || join_by(known, &rule.destination.nets, rule, |rule| &mut rule.destination.nets)
        || join_by(known, &rule.source.ports, rule, |rule| &mut rule.source.ports)
        || join_by(known, &rule.destination.ports, rule, |rule| &mut rule.destination.ports)
}

/// An empty list means anything, and is not to be joined with one that means something.
fn join_by<T: Clone + Ord>(
    known: &mut ActiveRule,
    theirs: &[T],
    rule: &ActiveRule,
    list: fn(&mut ActiveRule) -> &mut Vec<T>,
) -> bool {
    if theirs.is_empty() || list(known).is_empty() {
        return false;
    }
    // With their list in the place of its own, it is the same rule if nothing else differs.
    let mut all = core::mem::replace(list(known), theirs.to_vec());
    let joins = *known == *rule;
    if joins {
        all.extend_from_slice(theirs);
        all.sort();
        all.dedup();
    }
    *list(known) = all;
    joins
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::calc::event::ActiveEntity;
    use crate::net::{Cidr, PortRange};

    fn rule(action: Action, nets: &[&str], port: u16) -> ActiveRule {
        let nets = nets.iter().map(|net| net.parse().unwrap()).collect();
        ActiveRule {
            protocol: Some(6),
            source: ActiveEntity { nets, ..ActiveEntity::default() },
            destination: ActiveEntity { ports: vec![PortRange::single(port)], ..ActiveEntity::default() },
            ..ActiveRule::all(action)
        }
    }

    #[test]
    fn one_list_may_differ_and_no_more() {
        let (a, b) = (["10.0.0.0/8"], ["11.0.0.0/8"]);
        let allow = |nets: &[&str], port| rule(Action::Allow, nets, port);
        let ports = fold(&[allow(&a, 80), allow(&a, 90), allow(&b, 80)]);
        assert_eq!(ports.len(), 2);
        assert_eq!(ports[0].destination.ports, [80, 90].map(PortRange::single));
        // Both hold the same ports by now.
        let all = fold(&[allow(&a, 80), allow(&a, 90), allow(&b, 80), allow(&b, 90)]);
        assert_eq!(all.len(), 2, "{all:?}");
        assert_eq!(fold(&[allow(&a, 80), allow(&b, 90)]).len(), 2);
        assert_eq!(fold(&[allow(&[], 80), allow(&a, 80)]).len(), 2, "anywhere is no list");
    }

    #[test]
    fn what_stands_between_keeps_its_place() {
        let a = |action| rule(action, &["10.0.0.0/8"], 80);
        let b = |action| rule(action, &["11.0.0.0/8"], 80);
        for between in [Action::Log, Action::Deny, Action::Pass] {
            let rules = [a(Action::Allow), b(between), b(Action::Allow)];
            assert_eq!(fold(&rules), rules);
        }
        assert_eq!(fold(&[a(Action::Log), b(Action::Log)]).len(), 2);
    }

    #[test]
    fn what_is_about_anything_is_narrowed_by_nothing() {
        let rule = |nets: &[&str], port| rule(Action::Deny, nets, port);
        let (none, a): ([&str; 0], _) = ([], ["10.0.0.0/8"]);
        for rules in [[rule(&none, 80), rule(&a, 80)], [rule(&a, 80), rule(&none, 80)]] {
            assert_eq!(fold(&rules), rules);
        }
    }

    #[test]
    fn each_list_of_either_side_joins() {
        type List = fn(&mut ActiveRule, u8);
        let lists: [List; 4] = [
            |rule, number| rule.source.nets.push(Cidr::host([10, 0, 0, number].into())),
            |rule, number| rule.destination.nets.push(Cidr::host([10, 0, 0, number].into())),
            |rule, number| rule.source.ports.push(PortRange::single(number.into())),
            |rule, number| rule.destination.ports.push(PortRange::single(number.into())),
        ];
        for list in lists {
            let with = |numbers: &[u8]| {
                let mut rule = ActiveRule::all(Action::Allow);
                numbers.iter().for_each(|number| list(&mut rule, *number));
                rule
            };
            // In order, and what several have once.
            assert_eq!(fold(&[with(&[3]), with(&[1, 3]), with(&[2])]), [with(&[1, 2, 3])]);
        }
    }

    #[test]
    fn rules_are_told_apart_by_counters_and_by_logs_of_flows() {
        let told = |counters, flow_logs| RenderConfig { counters, flow_logs, ..RenderConfig::default() };
        let seen =
            [(false, false), (false, true), (true, false)].map(|(counters, logs)| !is_unseen(&told(counters, logs)));
        assert_eq!(seen, [false, true, true]);
    }
}
