//! What is accepted and yet does not do what it says, or more: conditions of rules that this version cannot carry out, and fields of
//! newer versions that go with what they belonged to, kinds that nothing acts on, and what is replaced unread.

use std::collections::BTreeSet;

use calico_core::resource::{Action, EntityRule, Fault, Kind, Resource, Rule};

use crate::input::Item;

/// Kinds that are checked, stored and shown, and that nothing acts on yet: as `ARCHITECTURE.md` says among the known limits.
const STORED_ONLY: [Kind; 13] = [
    Kind::HostEndpoint,
    Kind::StagedNetworkPolicy,
    Kind::StagedGlobalNetworkPolicy,
    Kind::StagedKubernetesNetworkPolicy,
    Kind::IpReservation,
    Kind::FelixConfiguration,
    Kind::BgpConfiguration,
    Kind::BgpPeer,
    Kind::BgpFilter,
    Kind::IpamConfiguration,
    Kind::CalicoNodeStatus,
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
    mended.chain(item.rehearsed.lost.iter().map(lost)).chain(conditions(item, &name)).collect()
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
            match name {
                "the staged policies" => {
                    listed.extend(Kind::V3.iter().filter(|kind| kind.name().starts_with("Staged")))
                }
                name => assert!(listed.insert(Kind::from_name(name).unwrap()), "{name}"),
            }
        }
        assert_eq!(listed, STORED_ONLY.into());
    }
}
