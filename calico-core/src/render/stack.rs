//! What one direction of an endpoint runs through, as one chain.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::RenderConfig;
use super::names::{Direction, policy_chain, profile_chain, stack_chain};
use crate::calc::event::Stack;
use crate::resource::DefaultAction;
use crate::table::{Chain, ChainName, Match, Rule, Statement, Verdict};

/// Name of a stack's chain: equal stacks have one name, and others another. Names of stored objects are free text, so line ends in
/// them are escaped: no name can pass for two.
pub(super) fn name(stack: &Stack, direction: Direction) -> ChainName {
    let mut text = String::new();
    for tier in &stack.tiers {
        let action = if tier.default_action == DefaultAction::Pass { "pass" } else { "deny" };
        text.push_str(&format!("tier {} {action}\n", tier.name.escape_debug()));
        for policy in &tier.policies {
            text.push_str(&format!("policy {}\n", policy.0.to_string().escape_debug()));
        }
    }
    stack.profiles.iter().for_each(|profile| text.push_str(&format!("profile {}\n", profile.0.escape_debug())));
    stack_chain(&text, direction)
}

/// The chain. It always ends in a drop.
pub(super) fn render(stack: &Stack, direction: Direction, config: &RenderConfig) -> Chain {
    let pass = config.pass_mark();
    let passed_not = || Match::Mark { mask: pass, value: 0, negated: false };
    let mut rules = Vec::new();
    for tier in &stack.tiers {
        // The bit may be set by another tier, by the other half of the way through the host, or by strangers.
        rules.push(Rule { statements: vec![Statement::SetMark { mask: pass, value: 0 }], ..Rule::default() });
        for (position, policy) in tier.policies.iter().enumerate() {
            let matches = if position == 0 { Vec::new() } else { vec![passed_not()] };
            let verdict = Some(Verdict::Jump(policy_chain(policy, direction)));
            rules.push(Rule { matches, verdict, ..Rule::default() });
        }
        if tier.default_action != DefaultAction::Pass {
            rules.push(Rule {
                matches: vec![passed_not()],
                verdict: Some(Verdict::Drop),
                comment: Some(format!("end of tier {}", tier.name)),
                ..Rule::default()
            });
        }
    }
    for profile in &stack.profiles {
        let verdict = Some(Verdict::Jump(profile_chain(profile, direction)));
        rules.push(Rule { verdict, ..Rule::default() });
    }
    let comment = Some("no profile decided".to_string());
    rules.push(Rule { verdict: Some(Verdict::Drop), comment, ..Rule::default() });
    Chain { name: name(stack, direction), base: None, rules }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calc::event::ProfileId;

    #[test]
    fn no_name_passes_for_two() {
        let stack = |profiles: &[&str]| Stack {
            tiers: Vec::new(),
            profiles: profiles.iter().map(|name| ProfileId((*name).into())).collect(),
        };
        let name = |profiles: &[&str]| name(&stack(profiles), Direction::Ingress);
        assert_ne!(name(&["a\nprofile b"]), name(&["a", "b"]));
        assert_ne!(name(&["a\nb"]), name(&["a\\nb"]));
        assert_eq!(name(&["a", "b"]), name(&["a", "b"]));
    }
}
