//! Words that only certain hooks may lead to: the kernel looks at every way from a base chain, map elements included.

use std::collections::BTreeSet;

use calico_core::table::{BaseChain, Chain, ChainName, ChainType, ElementData, Hook, Rule, Table, Verdict};

use super::Ruleset;

impl Ruleset {
    /// The first rule that a base chain leads to and that may not be run there.
    pub(super) fn misplaced(&self) -> Option<String> {
        let restricted = |chain: &Chain| chain.rules.iter().any(|rule| !allowed_everywhere(rule));
        if !self.chains().any(|chain| restricted(chain) || chain.base.is_some_and(|base| !may_hang(chain, base))) {
            return None;
        }
        self.chains().find_map(|chain| {
            let base = chain.base?;
            if !may_hang(chain, base) {
                return Some(format!("chain {}", chain.name));
            }
            self.misplaced_below(chain, base, &mut BTreeSet::new())
        })
    }

    fn misplaced_below<'a>(
        &'a self,
        chain: &'a Chain,
        base: BaseChain,
        visited: &mut BTreeSet<&'a ChainName>,
    ) -> Option<String> {
        if !visited.insert(&chain.name) {
            return None;
        }
        for (index, rule) in chain.rules.iter().enumerate() {
            if !allowed_at(rule, base) {
                return Some(format!("rule {index} of chain {}", chain.name));
            }
            let verdicts = match &rule.verdict {
                Some(Verdict::Lookup { map, .. }) => self.sets.get(map),
                _ => None,
            };
            let looked_up = verdicts.into_iter().flat_map(|set| set.elements.values().flatten());
            let looked_up = looked_up.filter_map(ElementData::verdict);
            for target in rule.verdict.iter().chain(looked_up).flat_map(Verdict::targets) {
                let found = self.chains.get(target).and_then(|chain| self.misplaced_below(chain, base, visited));
                if found.is_some() {
                    return found;
                }
            }
        }
        None
    }
}

fn allowed_everywhere(rule: &Rule) -> bool {
    let places = [Hook::Prerouting, Hook::Input, Hook::Forward, Hook::Output, Hook::Postrouting];
    places.into_iter().all(|hook| allowed_at(rule, BaseChain { chain_type: ChainType::Filter, hook, priority: 0 }))
}

fn allowed_at(rule: &Rule, base: BaseChain) -> bool {
    let translates = |hooks: &[Hook]| base.chain_type == ChainType::Nat && hooks.contains(&base.hook);
    match &rule.verdict {
        Some(Verdict::Masquerade { .. }) => translates(&[Hook::Postrouting]),
        Some(Verdict::Snat { .. } | Verdict::SnatLookup { .. }) => translates(&[Hook::Postrouting, Hook::Input]),
        Some(Verdict::DnatLookup { .. }) => translates(&[Hook::Prerouting, Hook::Output]),
        Some(Verdict::Reject(_)) => matches!(base.hook, Hook::Input | Hook::Forward | Hook::Output),
        _ => true,
    }
}

fn may_hang(chain: &Chain, base: BaseChain) -> bool {
    if chain.name.table() == Table::Arp {
        return base.chain_type == ChainType::Filter && matches!(base.hook, Hook::Input | Hook::Output);
    }
    match base.chain_type {
        ChainType::Filter => true,
        // Behind connection tracking, whose verdict translation needs.
        ChainType::Nat => base.hook != Hook::Forward && base.priority > -200,
        ChainType::Route => base.hook == Hook::Output,
        _ => false,
    }
}
