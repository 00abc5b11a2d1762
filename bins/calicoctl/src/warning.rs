//! What is accepted and yet does not do what it says, or more: conditions of rules that this version cannot carry out, and fields of
//! newer versions that go with what they belonged to, kinds that nothing acts on, and what is replaced unread.

use std::collections::BTreeSet;

use calico_core::resource::{Action, Fault, Kind, Resource, Rule};

use crate::input::Item;

/// Kinds that are checked, stored and shown, and that nothing acts on yet: as `ARCHITECTURE.md` says among the known limits.
const STORED_ONLY: [Kind; 5] = [
    Kind::IpReservation,
    Kind::FelixConfiguration,
    Kind::IpamConfiguration,
    Kind::KubeControllersConfiguration,
    Kind::LiveMigration,
];

/// One warning for each of these kinds that nothing acts on.
pub(crate) fn of_kinds(kinds: impl Iterator<Item = Kind>) -> Vec<String> {
    let idle: BTreeSet<Kind> = kinds.filter(|kind| STORED_ONLY.contains(kind)).collect();
    idle.into_iter()
        .map(|kind| format!("warning: {kind}: this version checks and stores it, and nothing acts on it yet"))
        .collect()
}

/// One warning for everything of the resource that an operator should know.
pub(crate) fn of(item: &Item) -> Vec<String> {
    let name = item.name();
    let lost = |path: &String| {
        format!(
            "warning: {name}: the field {path} of the stored resource, of a newer version, is gone with what it belonged to: if that is \
             not meant, use a calicoctl of that version"
        )
    };
    let mends = |reason: &String| {
        format!(
            "warning: {name}: what is stored cannot be read or written back ({reason}) and is replaced whole: its identity and time of \
             creation are kept if they can be read, and nothing else"
        )
    };
    let mended = item.rehearsed.mends.iter().map(mends);
    let lost = item.rehearsed.lost.iter().map(lost);
    mended.chain(lost).chain(conditions(item, &name)).chain(limits(item, &name)).collect()
}

/// One warning for every limit of a workload that means nothing for want of another.
fn limits(item: &Item, name: &str) -> Vec<String> {
    let Resource::WorkloadEndpoint(endpoint) = &item.resource else { return Vec::new() };
    let idle = endpoint.spec.qos_controls.as_deref().map(|controls| controls.without_effect()).unwrap_or_default();
    let warning = |(field, reason)| {
        let path = format!("spec.qosControls.{field}");
        let place = item.document.place(&Fault::value(&path, None, ""));
        format!("warning: {name}, {path}: {reason}\n  at {place}")
    };
    idle.into_iter().map(warning).collect()
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
            for (field, reason) in without_effect(rule) {
                let path = format!("spec.{list}[{index}].{field}");
                let place = item.document.place(&Fault::value(&path, None, ""));
                warnings.push(format!("warning: {name}, {path}: {reason}\n  at {place}"));
            }
        }
    }
    warnings
}

/// Conditions that are not carried out, and what becomes of the rule.
fn without_effect(rule: &Rule) -> Vec<(&'static str, String)> {
    let conditions = [
        ("http", rule.http.is_some(), "the kernel cannot carry out HTTP matches"),
        ("source.services", rule.source.services.is_some(), NO_SERVICES),
        ("destination.services", rule.destination.services.is_some(), NO_SERVICES),
    ];
    let found = conditions.into_iter().filter(|(_, is_there, _)| *is_there);
    found.map(|(field, _, reason)| (field, format!("{reason}: {}", effect(rule.action)))).collect()
}

const NO_SERVICES: &str = "agents of this version do not ask Kubernetes for the endpoints of services";

/// What becomes of a rule with a condition that cannot be seen: it fails closed.
const fn effect(action: Action) -> &'static str {
    match action {
        Action::Allow => "the Allow rule never matches",
        Action::Deny => "the Deny rule matches without it",
        Action::Pass => "the Pass rule denies without it",
        Action::Log => "the Log rule never matches",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What operators are warned of is what the known limits say.
    #[test]
    fn the_kinds_without_effect_are_those_of_the_known_limits() {
        let text = include_str!("../../../ARCHITECTURE.md");
        let (_, list) = text.split_once("nothing acts on them yet: ").unwrap();
        let (list, _) = list.split_once('.').unwrap();
        let mut listed = BTreeSet::new();
        for name in list.split(',').map(str::trim) {
            assert!(listed.insert(Kind::from_name(name).unwrap()), "{name}");
        }
        assert_eq!(listed, STORED_ONLY.into());
    }
}
