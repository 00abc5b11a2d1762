//! What is accepted and yet does not do what it says, or more: conditions of rules that this version cannot carry out, and fields of
//! newer versions that go with what they belonged to.

use calico_core::resource::{Action, EntityRule, Fault, Resource, Rule};

use crate::input::Item;

/// One warning for everything of the resource that an operator should know.
pub(crate) fn of(item: &Item) -> Vec<String> {
    let name = item.resource.key().map_or_else(|| item.kind.to_string(), |key| key.to_string());
    let lost = |path: &String| {
        format!(
            "warning: {name}: the field {path} of the stored resource, of a newer version, is gone with what it belonged to: if that is \
             not meant, use a calicoctl of that version"
        )
    };
    item.rehearsed.lost.iter().map(lost).chain(conditions(item, &name)).collect()
}

/// One warning for every condition of the resource's rules that nothing carries out.
fn conditions(item: &Item, name: &str) -> Vec<String> {
    let (ingress, egress): (&[Rule], &[Rule]) = match &item.resource {
        Resource::NetworkPolicy(policy) => (&policy.spec.ingress, &policy.spec.egress),
        Resource::GlobalNetworkPolicy(policy) => (&policy.spec.ingress, &policy.spec.egress),
        Resource::Profile(profile) => (&profile.spec.ingress, &profile.spec.egress),
        _ => return Vec::new(),
    };
    let mut warnings = Vec::new();
    for (list, rules) in [("ingress", ingress), ("egress", egress)] {
        for (index, rule) in rules.iter().enumerate() {
            for (field, sort) in without_effect(rule) {
                let path = format!("spec.{list}[{index}].{field}");
                let place = item.document.place(&Fault::value(&path, None, ""));
                let effect = effect(rule.action);
                warnings.push(format!(
                    "warning: {name}, {path}: this version cannot carry out {sort}: {effect}\n  at {place}"
                ));
            }
        }
    }
    warnings
}

/// Conditions that are not carried out, and what they are.
fn without_effect(rule: &Rule) -> Vec<(&'static str, &'static str)> {
    let has_services = |entity: &EntityRule| entity.services.is_some();
    let conditions = [
        (rule.http.is_some(), "http", "HTTP matches"),
        (has_services(&rule.source), "source.services", "matches of services"),
        (has_services(&rule.destination), "destination.services", "matches of services"),
    ];
    conditions.into_iter().filter_map(|(is_given, field, sort)| is_given.then_some((field, sort))).collect()
}

/// What becomes of a rule with such a condition: it fails closed.
const fn effect(action: Action) -> &'static str {
    match action {
        Action::Allow => "the Allow rule never matches",
        Action::Deny => "the Deny rule matches without it",
        Action::Pass => "the Pass rule denies without it",
        Action::Log => "the Log rule never matches",
    }
}
