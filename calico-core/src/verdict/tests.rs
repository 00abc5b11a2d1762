//! The evaluator of what is active against the specification evaluator, which reads the resources themselves.

use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;
use std::println;

mod cluster;
mod compiled;
mod matrix;

use super::*;
use crate::calc::Graph;
use crate::calc::event::EndpointId;
use crate::flow::{Decision, Flow};
use crate::resource::{PolicyType, Resource, ResourceKey};
use crate::spec::Cluster;
use crate::testing::{Generator, HOST};
use crate::update::Update;

/// How many decisions of each kind of cause a run has seen: a test that never gets somewhere proves nothing about it.
#[derive(Debug, Default)]
struct Seen {
    allowed: usize,
    denied: usize,
    by_policy: usize,
    by_end_of_tier: usize,
    by_profile: usize,
    passed: usize,
}

impl Seen {
    fn count(&mut self, verdict: &Verdict) {
        match verdict.decision {
            Decision::Allow => self.allowed += 1,
            Decision::Deny => self.denied += 1,
        }
        match verdict.steps.last() {
            Some(Step::Rule(RuleStep { owner: Owner::Policy { .. }, .. })) => self.by_policy += 1,
            Some(Step::EndOfTier { .. }) => self.by_end_of_tier += 1,
            Some(Step::Rule(RuleStep { owner: Owner::Profile(_), .. })) => self.by_profile += 1,
            _ => {}
        }
        self.passed += usize::from(verdict.steps.len() > 1);
    }
}

/// Runs flows to and from every active endpoint of a random cluster through both.
fn compare(mut generator: Generator, updates: usize, flows: usize, seen: &mut Seen) {
    let objects = generator.cluster(updates);
    let mut graph = Graph::new(HOST);
    for (key, value) in &objects {
        graph.handle_update(&Update { key: key.clone(), value: Some(value.clone()) });
    }
    let mut state = ActiveState::default();
    graph.flush().iter().for_each(|event| state.apply(event));
    // An object under a key of another kind is absent.
    let usable = objects.iter().filter(|(key, value)| key.kind() == value.kind()).map(|(_, value)| &**value);
    let cluster = Cluster::new(usable);
    for (id, endpoint) in &state.endpoints {
        for _ in 0..flows {
            let mut flow = generator.flow();
            let own = endpoint.addresses.iter().find(|net| net.family() == flow.family());
            let Some(own) = own.map(|net| net.address()) else { continue };
            flow.source = own;
            check(&state, &cluster, id, PolicyType::Egress, &flow, seen);
            core::mem::swap(&mut flow.source, &mut flow.destination);
            check(&state, &cluster, id, PolicyType::Ingress, &flow, seen);
        }
    }
}

fn check(state: &ActiveState, cluster: &Cluster, id: &EndpointId, direction: PolicyType, flow: &Flow, seen: &mut Seen) {
    let verdict = state.judge(id, direction, flow);
    let expected = match direction {
        PolicyType::Ingress => cluster.ingress(&id.0, flow),
        PolicyType::Egress => cluster.egress(&id.0, flow),
    };
    let context = || format!("{direction:?} {} of {flow:?}: {verdict}\n{:#?}", id.0, state.endpoints[id]);
    assert_eq!(verdict.decision, expected, "{}", context());
    seen.count(&verdict);
}

#[test]
fn agrees_with_the_specification() {
    let mut seen = Seen::default();
    for seed in 0..200 {
        println!("seed {seed}");
        let generator = if seed % 2 == 0 { Generator::new(seed) } else { Generator::with_faults(seed) };
        compare(generator, 80, 40, &mut seen);
    }
    println!("{seen:?}");
    let Seen { allowed, denied, by_policy, by_end_of_tier, by_profile, passed } = seen;
    for count in [allowed, denied, by_policy, by_end_of_tier, by_profile, passed] {
        assert!(count > 500, "{seen:?} leaves something untested");
    }
}

#[test]
fn says_what_decided() {
    let state = ActiveState::default();
    let id = EndpointId(ResourceKey::namespaced(crate::resource::Kind::WorkloadEndpoint, "one", "a"));
    let flow = Generator::new(1).flow();
    let verdict = state.judge(&id, PolicyType::Ingress, &flow);
    assert_eq!(verdict.decision, Decision::Deny);
    assert_eq!(verdict.to_string(), "denied: the endpoint is not active here");
}

#[test]
fn the_built_in_profile_allows_everything() {
    let mut generator = Generator::new(7);
    let mut graph = Graph::new(HOST);
    let key = ResourceKey::namespaced(crate::resource::Kind::WorkloadEndpoint, "one", "pod-1");
    let mut object = crate::resource::Object::<crate::resource::WorkloadEndpointSpec>::default();
    object.spec.node = HOST.into();
    object.spec.interface_name = "cali1".parse().ok();
    object.spec.ip_networks = alloc::vec!["10.0.0.1/32".parse().unwrap()];
    object.spec.profiles = alloc::vec!["projectcalico-default-allow".into()];
    graph.handle_update(&Update { key: key.clone(), value: Some(Arc::new(Resource::WorkloadEndpoint(object))) });
    let mut state = ActiveState::default();
    graph.flush().iter().for_each(|event| state.apply(event));
    let verdict = state.judge(&EndpointId(key), PolicyType::Egress, &generator.flow());
    assert_eq!(verdict.decision, Decision::Allow);
    assert_eq!(verdict.to_string(), "allowed by egress rule 0 of Profile(projectcalico-default-allow)");
}
