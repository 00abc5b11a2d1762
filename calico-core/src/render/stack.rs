//! What one direction of an endpoint runs through, as one chain.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::RenderConfig;
use super::action::end_of_stack;
use super::names::{Direction, stack_chain};
use super::owner::{Layer, Owner};
use super::segment::{self, Way};
use super::words::{mark, marked};
use crate::calc::event::{ProfileId, Stack, StackTier};
use crate::resource::DefaultAction;
use crate::table::{Chain, ChainName, Rule, Verdict};

/// What a stack is run for. Courses of one stack that come to the same chain share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Course {
    pub(super) direction: Direction,
    /// As [`Layer::shared`] gives it.
    pub(super) layer: Layer,
    /// Whether profiles and a drop are at the end; else what nothing decides goes on.
    pub(super) closed: bool,
}

impl Course {
    pub(super) const fn way(self, config: &RenderConfig) -> Way {
        Way { direction: self.direction, layer: self.layer, pass: config.mark_mask.pass() }
    }
}

/// Name of a stack's chain: equal stacks have one name, and others another. Names of stored objects are free text, so line ends in
/// them are escaped: no name can pass for two.
pub(super) fn name(stack: &Stack, course: Course) -> ChainName {
    let mut text = String::new();
    for tier in &stack.tiers {
        let action = if tier.default_action == DefaultAction::Pass { "pass" } else { "deny" };
        text.push_str(&format!("tier {} {action}\n", tier.name.escape_debug()));
        tier.policies.iter().for_each(|policy| segment::describe(&mut text, policy));
    }
    stack.profiles.iter().for_each(|profile| text.push_str(&format!("profile {}\n", profile.0.escape_debug())));
    let open = if course.closed { "" } else { "open-" };
    stack_chain(&text, course.direction, &format!("{}{open}", course.layer.prefix()))
}

/// The chain. A closed one always ends in a drop.
pub(super) fn render(stack: &Stack, course: Course, config: &RenderConfig) -> Chain {
    let mut rules: Vec<Rule> = stack.tiers.iter().flat_map(|tier| tier_rules(tier, course, config)).collect();
    if course.closed {
        rules.extend(stack.profiles.iter().map(|profile| call(profile, course)));
        rules.push(denied("DR", None, "no profile decided".to_string(), course, config));
    }
    Chain { name: name(stack, course), base: None, rules }
}

fn tier_rules(tier: &StackTier, course: Course, config: &RenderConfig) -> Vec<Rule> {
    let way = course.way(config);
    let pass = way.pass;
    let enforces = tier.policies.iter().any(|policy| !policy.is_staged());
    let mut rules = Vec::new();
    if enforces {
        // The bit may be set by another tier, by another part of the way through the host, or by strangers.
        rules.push(Rule { statements: vec![mark(pass, false)], ..Rule::default() });
    }
    // Before the first that may pass, nothing has.
    let mut may_have_passed = false;
    for piece in segment::cut(&tier.policies) {
        if segment::is_segment(piece) {
            rules.push(segment::ask_segment(piece, way, &mut may_have_passed));
        } else {
            rules.extend(segment::ask(piece.iter(), way, &mut may_have_passed));
        }
    }
    if enforces && tier.default_action != DefaultAction::Pass {
        let end = denied("DP", Some(&tier.name), format!("end of tier {}", tier.name), course, config);
        rules.push(Rule { matches: vec![marked(pass, false)], ..end });
    } else if !enforces {
        let statements: Vec<_> =
            end_of_stack("PP", Some(&tier.name), course.direction, course.layer, config).into_iter().collect();
        rules.extend((!statements.is_empty()).then(|| Rule { statements, ..Rule::default() }));
    }
    rules
}

fn call(profile: &ProfileId, course: Course) -> Rule {
    let chain = Owner::Profile(profile.clone()).chain(course.direction, course.layer);
    Rule { verdict: Some(Verdict::Jump(chain)), ..Rule::default() }
}

fn denied(start: &str, tier: Option<&str>, comment: String, course: Course, config: &RenderConfig) -> Rule {
    let statements = end_of_stack(start, tier, course.direction, course.layer, config).into_iter().collect();
    Rule { matches: Vec::new(), statements, verdict: Some(course.layer.deny(config)), comment: Some(comment) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_passes_for_two() {
        let stack = |profiles: &[&str]| Stack {
            tiers: Vec::new(),
            profiles: profiles.iter().map(|name| ProfileId((*name).into())).collect(),
        };
        let course = Course { direction: Direction::Ingress, layer: Layer::Filter, closed: true };
        let name = |profiles: &[&str]| name(&stack(profiles), course);
        assert_ne!(name(&["a\nprofile b"]), name(&["a", "b"]));
        assert_ne!(name(&["a\nb"]), name(&["a\\nb"]));
        assert_eq!(name(&["a", "b"]), name(&["a", "b"]));
    }
}
