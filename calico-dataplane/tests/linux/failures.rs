//! Every request to the kernel fails once, and the agent is killed at every one: what the kernel holds in the end is the same.

use std::collections::BTreeMap;

use calico_core::render::{PolicyRenderer, RenderConfig, Renderer};
use calico_core::testing::Generator;
use calico_core::update::Update;
use calico_dataplane::Observed;
use calico_dataplane::testing::faults::{Fault, plan, requests};

use super::host::{Life, assert_same, held, here, in_host};

const SEED: u64 = 11;
/// Batches of updates. Between them endpoints come, change and go, and addresses pass on.
fn story() -> Vec<Vec<Update>> {
    let mut generator = Generator::new(SEED);
    let mut batch = |size: usize| (0..size).map(|_| here(generator.update())).collect::<Vec<_>>();
    let story = [40, 15, 15].map(&mut batch);
    story.into()
}

/// Lives through the story; ends early at a request beyond the limit.
async fn live(life: &mut Life, story: &[Vec<Update>], limit: Option<usize>) -> bool {
    if !life.work(limit).await {
        return false;
    }
    for (number, batch) in story.iter().enumerate() {
        life.take_in(batch);
        if number == 0 {
            life.driver.machine().set_in_sync();
        }
        if !life.work(limit).await {
            return false;
        }
    }
    true
}

/// What an undisturbed life leaves, and how many requests it makes.
fn undisturbed() -> (Observed, usize) {
    in_host(async || {
        let mut life = Life::begin().unwrap();
        assert!(live(&mut life, &story(), None).await);
        assert!(life.driver.state().is_settled());
        let made = requests();
        let held = held().await;
        let elements = held.sets.values().map(|set| set.elements.len()).sum::<usize>();
        let counts = [held.chains.len(), elements, held.routes.len(), held.neighbors.len()];
        assert!(counts.iter().zip([15, 20, 3, 3]).all(|(count, least)| *count >= least), "{counts:?}");
        (held, made)
    })
}

#[test]
fn whichever_request_fails_the_host_becomes_as_it_should_be() {
    let (expected, made) = undisturbed();
    for at in 0..made {
        for fault in [Fault::Refused(at), Fault::Unanswered(at)] {
            in_host(async || {
                plan(Some(fault));
                // An agent that cannot open its dataplane ends, and is started again.
                let mut life = Life::begin().or_else(|_| Life::begin()).unwrap();
                live(&mut life, &story(), None).await;
                assert!(requests() > at, "{fault:?} was planned and never came");
                life.settle().await;
                assert_same(&held().await, &expected, &format!("{fault:?} of {made} requests"));
            });
        }
    }
}

#[test]
fn whenever_the_agent_is_killed_its_successor_makes_the_host_as_it_should_be() {
    let (expected, made) = undisturbed();
    let skeleton = Renderer::new(RenderConfig::default()).skeleton();
    for at in 0..made {
        in_host(async || {
            plan(Some(Fault::Dead(at)));
            if let Ok(mut life) = Life::begin() {
                assert!(!live(&mut life, &story(), Some(at)).await, "it lived on after request {at}");
            }
            plan(None);
            // Nothing or everything of what denies unknown interfaces is there.
            let left = held().await;
            let there = skeleton.chains_set.iter().filter(|chain| left.chains.contains_key(&chain.name)).count();
            assert!([0, skeleton.chains_set.len()].contains(&there), "killed at {at}: {:?}", left.chains.keys());
            let mut successor = Life::begin().unwrap();
            let last = story().into_iter().flatten().map(|update| (update.key.clone(), update));
            let last: BTreeMap<_, _> = last.collect();
            successor.take_in(last.values());
            successor.driver.machine().set_in_sync();
            successor.settle().await;
            assert_same(&held().await, &expected, &format!("killed at request {at} of {made}"));
        });
    }
}
