//! Every request to the kernel fails once, and the agent is killed at every one: what the kernel holds in the end is the same.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use calico_core::calc::Graph;
use calico_core::render::{PolicyRenderer, RenderConfig, Renderer};
use calico_core::resource::Resource;
use calico_core::table::Delta;
use calico_core::testing::{Generator, HOST};
use calico_core::update::Update;
use calico_dataplane::netns::{Request, RouteSocket, VethEnd};
use calico_dataplane::reconcile::{Driver, ReconcileConfig, Reconciler, Step};
use calico_dataplane::testing::faults::{Fault, plan, requests};
use calico_dataplane::testing::netns::scratch;
use calico_dataplane::{Dataplane, DataplaneError, LinuxConfig, LinuxDataplane, Observed};

use super::fixture::{nft, open};

/// The interfaces of the generator's endpoints, as pairs.
const LINKS: [[&str; 2]; 3] = [["cali00", "cali01"], ["cali02", "cali10"], ["cali11", "cali12"]];
const SEED: u64 = 11;
/// Longest time that a host may take to recover, by its own clock.
const PATIENCE: Duration = Duration::from_secs(600);

/// Batches of updates. Between them endpoints come, change and go, and addresses pass on.
fn story() -> Vec<Vec<Update>> {
    let mut generator = Generator::new(SEED);
    let mut batch = |size: usize| (0..size).map(|_| here(generator.update())).collect::<Vec<_>>();
    let story = [40, 15, 15].map(&mut batch);
    story.into()
}

/// With what makes neighbours and routes of this host.
fn here(mut update: Update) -> Update {
    if let Some(Resource::WorkloadEndpoint(endpoint)) = update.value.as_deref() {
        let mut endpoint = endpoint.clone();
        endpoint.spec.node = HOST.into();
        endpoint.spec.mac = Some("ee:00:00:00:00:01".parse().unwrap());
        update.value = Some(Arc::new(Resource::WorkloadEndpoint(endpoint)));
    }
    update
}

/// One life of an agent, with a clock of its own.
struct Life {
    graph: Graph,
    renderer: Renderer,
    driver: Driver,
    now: Duration,
}

impl Life {
    fn begin() -> Result<Self, DataplaneError> {
        let dataplane = LinuxDataplane::open(LinuxConfig::default())?;
        let renderer = Renderer::new(RenderConfig::default());
        let machine = Reconciler::new(renderer.skeleton(), ReconcileConfig::default());
        let driver = Driver::new(machine, Box::new(dataplane));
        Ok(Self { graph: Graph::new(HOST), renderer, driver, now: Duration::ZERO })
    }

    fn take_in<'u>(&mut self, updates: impl IntoIterator<Item = &'u Update>) {
        updates.into_iter().for_each(|update| self.graph.handle_update(update));
        let mut delta = Delta::default();
        for event in self.graph.flush() {
            self.renderer.handle(&event, &mut delta);
        }
        delta.connections_cut = self.graph.take_departed();
        self.driver.machine().desire(&delta);
    }

    /// Does what there is to do now; whether it came to its end.
    async fn work(&mut self, limit: Option<usize>) -> bool {
        loop {
            let now = self.now;
            if limit.is_some_and(|limit| requests() > limit) {
                return false;
            }
            if matches!(self.driver.step(&move || now).await, Step::Idle) {
                return true;
            }
        }
    }

    /// Until the host is as it should be.
    async fn settle(&mut self) {
        self.work(None).await;
        while !self.driver.state().is_settled() {
            let failures = || self.driver.state().failures().map(|(o, e)| format!("{o}: {e}")).collect::<Vec<_>>();
            let next = self.driver.state().poll_timeout(self.now);
            self.now = next.unwrap_or_else(|| panic!("it waits for nothing: {:?}", failures()));
            assert!(self.now < PATIENCE, "{:?}", failures());
            self.work(None).await;
        }
    }
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

/// In a namespace with the story's interfaces.
fn in_host<T: Send>(test: impl AsyncFnOnce() -> T + Send) -> T {
    let run = move || {
        let mut socket = RouteSocket::open().unwrap();
        let end = |name: &str| VethEnd { name: name.parse().unwrap(), netns: None, mac: None };
        for [one, other] in LINKS {
            socket.carry_out(&[Request::veth(end(one), end(other), 0)]).unwrap();
        }
        for name in LINKS.as_flattened().iter().chain(&["lo"]) {
            let link = socket.link(name.parse().unwrap()).unwrap().unwrap();
            socket.carry_out(&[Request::up(link.index)]).unwrap();
        }
        // From now on the kernel tracks connections.
        nft("table inet track { chain output { type filter hook output priority 0; ct state new accept; }; }\n");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        plan(None);
        let result = runtime.block_on(test());
        plan(None);
        result
    };
    scratch().run(run).unwrap()
}

/// What was written, without what namespaces differ in.
async fn held() -> Observed {
    let mut dataplane = open();
    Observed { links: BTreeMap::new(), ..dataplane.observe().await.unwrap() }
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

/// Part by part, so that what differs can be read.
fn assert_same(held: &Observed, expected: &Observed, when: &str) {
    assert_eq!(held.routes, expected.routes, "{when}");
    assert_eq!(held.neighbors, expected.neighbors, "{when}");
    assert_eq!(held.chains, expected.chains, "{when}");
    for (name, set) in &expected.sets {
        assert_eq!(held.sets.get(name), Some(set), "{when}: set {name}");
    }
    assert_eq!(held, expected, "{when}");
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
