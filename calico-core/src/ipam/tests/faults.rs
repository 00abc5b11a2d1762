//! Many machines over one store, interleaved at every step, abandoned at any, with batches carried out in part: compared with a
//! set of who was told to hold what.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::net::IpAddr;

use proptest::prelude::*;

use super::model::{Model, NOW, assign};
use crate::ipam::{Assign, Assigned, IpamError, Machine, Op, Outcome, ReleaseHandle, Released, Step};
use crate::resource::IpamConfig;

/// One thing that somebody does.
#[derive(Debug, Clone)]
enum Deed {
    Assign { node: u8, handle: u8, count: u32, later: u64 },
    Release { handle: u8, later: u64 },
}

/// How the schedule goes on.
#[derive(Debug, Clone, Copy)]
enum Turn {
    /// The machine at this place takes a step.
    Step(usize),
    /// It dies; if it was about to commit, only so many of its writes take effect.
    Die(usize, usize),
}

enum Running {
    Assign(String, Machine<Assign>),
    Release(String, Machine<ReleaseHandle>),
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        3 => (0_u8..3, 0_u8..5, 1_u32..4, 0_u64..200)
            .prop_map(|(node, handle, count, later)| Deed::Assign { node, handle, count, later }),
        2 => (0_u8..5, 0_u64..200).prop_map(|(handle, later)| Deed::Release { handle, later }),
    ]
}

fn turn(die: u32) -> impl Strategy<Value = Turn> {
    prop_oneof![
        20 => (0_usize..8).prop_map(Turn::Step),
        die => (0_usize..8, 0_usize..4).prop_map(|(who, writes)| Turn::Die(who, writes)),
    ]
}

/// A small world, so that deeds collide: 16 addresses in 4 blocks, 3 nodes, 5 handles.
fn world(strict: bool, cooldown: u32) -> Model {
    let mut model = Model::with_pools(&[("10.0.0.0/29", 30), ("10.0.1.0/29", 30)]);
    let ip_cooldown_seconds = cooldown;
    model.put_config(IpamConfig { strict_affinity: strict, ip_cooldown_seconds, ..Default::default() });
    model
}

fn start(deed: &Deed) -> Running {
    match deed {
        Deed::Assign { node, handle, count, later } => {
            let handle = alloc::format!("handle-{handle}");
            let request = assign(&alloc::format!("node-{node}"), &handle, *count, 0);
            Running::Assign(handle, Machine::new(Assign { now: NOW.plus_secs(*later), ..request }))
        }
        Deed::Release { handle, later } => {
            let handle = alloc::format!("handle-{handle}");
            let request = ReleaseHandle { handle: handle.as_str().into(), now: NOW.plus_secs(*later) };
            Running::Release(handle, Machine::new(request))
        }
    }
}

/// What a step of a machine led to. An answer without a commit is as old as its reads, so it tells the twin nothing.
enum Event {
    GoesOn,
    Ends,
    Assigned(String, Vec<Assigned>),
    Released(String, Released),
    Failed(IpamError),
}

fn step(model: &mut Model, running: &mut Running) -> Event {
    match running {
        Running::Assign(handle, machine) => match machine.poll() {
            Step::Done(Ok(_)) => Event::Ends,
            Step::Done(Err(error)) => Event::Failed(error),
            Step::Do(op) => match machine.handle_outcome(model.carry_out(&op, usize::MAX)) {
                Some(output) => Event::Assigned(handle.clone(), output),
                None => Event::GoesOn,
            },
        },
        Running::Release(handle, machine) => match machine.poll() {
            Step::Done(Ok(_)) => Event::Ends,
            Step::Done(Err(error)) => Event::Failed(error),
            Step::Do(op) => match machine.handle_outcome(model.carry_out(&op, usize::MAX)) {
                Some(output) => Event::Released(handle.clone(), output),
                None => Event::GoesOn,
            },
        },
    }
}

fn die(model: &mut Model, running: &mut Running, writes: usize) {
    let next = match running {
        Running::Assign(_, machine) => machine.poll_op(),
        Running::Release(_, machine) => machine.poll_op(),
    };
    if let Some(op @ Op::Commit(_)) = next {
        model.carry_out(&op, writes);
    }
}

impl<R: crate::ipam::Request> Machine<R> {
    fn poll_op(&mut self) -> Option<Op> {
        match self.poll() {
            Step::Do(op) => Some(op),
            Step::Done(_) => None,
        }
    }
}

/// The naive twin: who was told to hold what. Without deaths it is exact.
#[derive(Default)]
struct Twin {
    told: BTreeMap<IpAddr, String>,
}

impl Twin {
    fn note(&mut self, event: &Event) {
        match event {
            Event::Assigned(handle, assigned) => {
                for one in assigned {
                    let before = self.told.insert(one.address, handle.clone());
                    assert!(before.is_none() || before.as_ref() == Some(handle), "{one:?} is {before:?}'s already");
                }
            }
            Event::Released(handle, released) => {
                for address in &released.released {
                    assert_eq!(self.told.remove(address).as_ref(), Some(handle), "{address} was not its own");
                }
                assert!(released.unusable.is_empty());
            }
            Event::Failed(error) => assert!(error.is_exhausted(), "{error}"),
            Event::GoesOn | Event::Ends => {}
        }
    }
}

/// Runs deeds by a schedule; returns the store and the twin.
fn play(model: &mut Model, deeds: &[Deed], turns: &[Turn], twin: &mut Option<Twin>) {
    let mut waiting = deeds.iter();
    let mut running: Vec<Running> = waiting.by_ref().take(4).map(start).collect();
    let mut turns = turns.iter().copied().chain((0..).map(|index| Turn::Step(index % 4)));
    for _ in 0..20_000 {
        if running.is_empty() {
            return;
        }
        let ends = match turns.next() {
            Some(Turn::Die(who, writes)) => {
                let who = who % running.len();
                die(model, &mut running[who], writes);
                Some(who)
            }
            Some(Turn::Step(who)) => {
                let who = who % running.len();
                let event = step(model, &mut running[who]);
                if let Some(twin) = twin {
                    twin.note(&event);
                }
                (!matches!(event, Event::GoesOn)).then_some(who)
            }
            None => None,
        };
        model.check_handles(false);
        if let Some(who) = ends {
            running.remove(who);
            running.extend(waiting.next().map(start));
        }
    }
    panic!("the machines do not end");
}

fn release_everything(model: &mut Model) {
    for handle in 0..5 {
        model
            .run(ReleaseHandle { handle: alloc::format!("handle-{handle}").into(), now: NOW.plus_secs(1000) })
            .unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Interleaved at will, with atomic batches: exactly what a set would say.
    #[test]
    fn interleaved_machines_agree_with_a_set(
        deeds in prop::collection::vec(deed(), 1..24),
        turns in prop::collection::vec(turn(0), 0..200),
        strict: bool,
        cooldown in prop_oneof![Just(0_u32), Just(100)],
    ) {
        let mut model = world(strict, cooldown);
        let mut twin = Some(Twin::default());
        play(&mut model, &deeds, &turns, &mut twin);
        prop_assert_eq!(model.holders(), twin.unwrap().told);
        model.check_handles(true);
        model.check_affinities();
        release_everything(&mut model);
        prop_assert!(model.holders().is_empty());
        prop_assert!(model.objects.keys().all(|key| !key.to_string().starts_with("IPAMHandle")));
    }

    /// Dying anywhere, even in the middle of a batch: handles never count too few, and the next run repairs the rest.
    #[test]
    fn whatever_dies_is_repaired(
        deeds in prop::collection::vec(deed(), 1..24),
        turns in prop::collection::vec(turn(6), 0..200),
        strict: bool,
    ) {
        let mut model = world(strict, 0);
        play(&mut model, &deeds, &turns, &mut None);
        for handle in 0..5 {
            // Each handle's own next request makes its count exact.
            let request = ReleaseHandle { handle: alloc::format!("handle-{handle}").into(), now: NOW.plus_secs(1000) };
            model.run(request).unwrap();
        }
        prop_assert!(model.holders().is_empty(), "an address leaked: {:?}", model.holders());
        model.check_handles(true);
        // Every address can still be handed out, by any node, once the others' blocks have settled.
        let all = Assign { now: NOW.plus_secs(2000), ..assign("node-9", "all", 16, 0) };
        prop_assert_eq!(model.run(all).unwrap().len(), 16);
        model.check_handles(true);
    }
}

#[test]
fn gives_up_after_a_hundred_conflicts() {
    let mut model = world(false, 0);
    let mut machine = Machine::new(assign("node-a", "a", 1, 0));
    let mut conflicts = 0;
    let error = loop {
        match machine.poll() {
            Step::Do(op @ Op::Fetch(_)) => drop(machine.handle_outcome(model.carry_out(&op, usize::MAX))),
            Step::Do(Op::Commit(_)) => {
                conflicts += 1;
                machine.handle_outcome(Outcome::Conflict);
            }
            Step::Done(result) => break result.unwrap_err(),
        }
    };
    assert_eq!(conflicts, 100);
    assert!(error.is_contention());
}

#[test]
fn an_outcome_of_another_operation_is_ignored() {
    let mut machine = Machine::new(assign("node-a", "a", 1, 0));
    let Step::Do(first) = machine.poll() else { panic!("nothing to do") };
    assert_eq!(machine.handle_outcome(Outcome::Committed), None);
    assert_eq!(machine.poll(), Step::Do(first));
}
