//! Rules as their author wrote them, and where they stand: the graph knows them without those that it leaves out.

use calico_core::calc::event::{PolicyId, ProfileId};
use calico_core::calc::{Problem, rule_origins};
use calico_core::resource::{Kind, PolicyType, ResourceKey, Rule};
use calico_core::verdict::Owner;

use super::model::Model;
use super::rules::of_kubernetes;
use super::words;

/// One rule of a list, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Written {
    /// `spec.ingress[3]`
    pub(super) path: String,
    pub(super) text: String,
    /// Place among the active rules; none for one that is left out.
    pub(super) active: Option<usize>,
    /// What is wrong with it.
    pub(super) problem: Option<String>,
}

/// The object whose rules they are.
pub(super) fn key_of(owner: &Owner) -> ResourceKey {
    match owner {
        Owner::Policy { policy: PolicyId(key), .. } => key.clone(),
        Owner::Profile(ProfileId(name)) => ResourceKey::cluster(Kind::Profile, name),
    }
}

/// The rules of a policy or profile in one direction, in order.
pub(super) fn list(model: &Model, key: &ResourceKey, direction: PolicyType) -> Vec<Written> {
    let rules = model.picture.rules(key, direction);
    let active = rule_origins(key.namespace(), &rules);
    let staged =
        model.picture.resources.get(key).filter(|resource| resource.kind() == Kind::StagedKubernetesNetworkPolicy);
    let staged = staged.and_then(|resource| of_kubernetes(resource)).map(|(_, origins)| origins);
    let origins = staged.as_ref().or_else(|| model.picture.origins.get(key)).map(|origins| match direction {
        PolicyType::Ingress => &origins.ingress,
        PolicyType::Egress => &origins.egress,
    });
    let written = |(index, rule): (usize, &Rule)| {
        let place = origins.and_then(|origins| origins.get(index)).copied().unwrap_or(index);
        let problem = model.problems.get(key).into_iter().flatten().find_map(|problem| match problem {
            Problem::Rule { direction: of, index: at, .. } if *of == direction && *at == index => {
                Some(without_place(problem))
            }
            _ => None,
        });
        Written {
            path: path(direction, place),
            text: words::rule(rule),
            active: active.iter().position(|origin| *origin == index),
            problem,
        }
    };
    rules.iter().enumerate().map(written).collect()
}

/// Where a rule stands in the document.
pub(super) fn path(direction: PolicyType, index: usize) -> String {
    format!("spec.{}[{index}]", words::direction(direction))
}

/// The problem without the direction and number of the rule, which begin it.
fn without_place(problem: &Problem) -> String {
    let text = problem.to_string();
    text.split_once(": ").map_or_else(|| text.clone(), |(_, rest)| rest.to_owned())
}
