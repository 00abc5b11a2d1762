//! The compiled evaluator against the plain one, while everything changes.

use alloc::vec::Vec;
use core::net::IpAddr;
use std::println;

use super::cluster::{Wide, graph};
use super::*;
use crate::calc::event::ActiveEndpoint;
use crate::resource::Action;
use crate::update::Update;

/// Verdicts are compared with all their steps, by index and by checking each rule.
#[test]
fn agrees_with_the_plain_one_after_every_change() {
    let (mut asked, mut staged, mut members, mut logged, mut passed_on) = (0, 0, 0, 0, 0);
    for seed in 0..60 {
        println!("seed {seed}");
        let mut wide = Wide::new(seed);
        let (mut graph, mut compiled) = (graph(), Compiled::default());
        let mut keys = Vec::new();
        for _ in 0..40 {
            for _ in 0..=wide.0.random.below(6) {
                let update = wide.update();
                graph.handle_update(&update);
                keys.push(update.key);
            }
            graph.flush().iter().for_each(|event| compiled.apply(event));
            for verdict in compare(&compiled, &mut wide) {
                asked += 1;
                for step in &verdict.steps {
                    match step {
                        Step::Staged(_) => staged += 1,
                        Step::Rule(step) => {
                            members += step.matched.len();
                            logged += usize::from(step.action == Action::Log);
                        }
                        Step::EndOfPolicies => passed_on += 1,
                        _ => {}
                    }
                }
            }
        }
        let again = Compiled::from(compiled.state().clone());
        assert_eq!(again.state(), compiled.state());
        compare(&again, &mut wide);
        for key in keys {
            graph.handle_update(&Update { key, value: None });
        }
        graph.flush().iter().for_each(|event| compiled.apply(event));
        assert_eq!(compiled.leftover(), None);
    }
    println!("{asked} verdicts, {staged} staged rules, {members} members, {logged} logged, {passed_on} passed on");
    for count in [asked / 20, staged, members, logged, passed_on] {
        assert!(count > 500, "something is untested");
    }
}

fn compare(compiled: &Compiled, wide: &mut Wide) -> Vec<Verdict> {
    let state = compiled.state();
    let mut verdicts = Vec::new();
    let endpoints = state.endpoints.keys().chain(state.host_endpoints.keys());
    let (mut by_index, mut one_by_one) = (compiled.asker().always_by_index(), compiled.asker());
    for id in endpoints {
        for _ in 0..6 {
            let flow = wide.0.flow();
            for direction in [PolicyType::Ingress, PolicyType::Egress] {
                let expected = state.judge(id, direction, &flow);
                assert_eq!(by_index.judge(id, direction, &flow), expected, "{direction:?} {} {flow:?}", id.0);
                assert_eq!(one_by_one.judge(id, direction, &flow), expected, "{direction:?} {} {flow:?}", id.0);
                assert_eq!(by_index.decide(id, direction, &flow), expected.decision);
                verdicts.push(expected);
            }
        }
    }
    let workloads: Vec<_> = state.endpoints.iter().map(with_addresses).collect();
    for _ in 0..30 {
        let passage = wide.passage(&workloads);
        let settings = Settings::default();
        let expected = state.passage(&settings, &passage);
        assert_eq!(by_index.passage(&settings, &passage), expected, "{passage:?}");
        verdicts.extend(expected.ends.into_iter().map(|end| end.verdict));
    }
    verdicts
}

/// Sets that are announced again, members that are told twice, rules that come after their stacks, and nothing at all.
#[test]
fn takes_events_in_any_order() {
    use crate::calc::event::{Event, IpSetKind, Member, SetId};
    let (set, mut compiled) = (SetId::new([1; 16]), Compiled::default());
    let member = |text: &str| Member::Net(text.parse().unwrap());
    let (one, two) = (member("10.0.0.0/24"), member("10.0.1.1/32"));
    compiled.apply(&Event::SetRemoved(set));
    compiled.apply(&Event::SetChanged { id: set, added: [one].into(), removed: [].into() });
    assert_eq!(compiled.leftover(), None);
    compiled.apply(&Event::SetAdded { id: set, kind: IpSetKind::Net, members: [one].into() });
    compiled.apply(&Event::SetAdded { id: set, kind: IpSetKind::Net, members: [two].into() });
    compiled.apply(&Event::SetChanged { id: set, added: [two, one].into(), removed: [one].into() });
    compiled.apply(&Event::SetRemoved(set));
    assert_eq!(compiled.leftover(), None);
    assert_eq!(*compiled.state(), ActiveState::default());
}

fn with_addresses((id, endpoint): (&EndpointId, &Arc<ActiveEndpoint>)) -> (ResourceKey, Vec<IpAddr>) {
    (id.0.clone(), endpoint.addresses.iter().map(|net| net.address()).collect())
}
