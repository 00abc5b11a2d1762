//! What the renderer makes of random clusters, in a real kernel, by the reconciler.

use std::time::{Duration, Instant};

use calico_core::calc::Graph;
use calico_core::render::{PolicyRenderer, RenderConfig, Renderer};
use calico_core::table::Delta;
use calico_core::testing::{Generator, HOST};
use calico_core::verdict::ActiveState;
use calico_dataplane::reconcile::{Driver, ReconcileConfig, Reconciler, Step};
use calico_dataplane::{Dataplane, HostChange, LinuxDataplane};

use super::fixture::{in_namespace, nft, open};

/// A host's pipeline on a real kernel.
pub(crate) struct Node {
    pub(crate) graph: Graph,
    /// The sum of what the graph said.
    pub(crate) state: ActiveState,
    renderer: Renderer,
    driver: Driver,
    started: Instant,
}

impl Node {
    pub(crate) fn start(dataplane: LinuxDataplane) -> Self {
        Self::with(dataplane, RenderConfig::default())
    }

    pub(crate) fn with(dataplane: LinuxDataplane, config: RenderConfig) -> Self {
        let renderer = Renderer::new(config);
        let mut machine = Reconciler::new(renderer.skeleton(), ReconcileConfig::default());
        machine.set_in_sync();
        let driver = Driver::new(machine, Box::new(dataplane));
        Self { graph: Graph::new(HOST), state: ActiveState::default(), renderer, driver, started: Instant::now() }
    }

    /// Writes until the kernel holds what it should; the kernel must take every transaction. Returns what was written.
    pub(crate) async fn settle(&mut self) -> Vec<Delta> {
        let mut delta = Delta::default();
        for event in self.graph.flush() {
            self.renderer.handle(&event, &mut delta);
            self.state.apply(&event);
        }
        self.driver.machine().desire(&delta);
        let started = self.started;
        let mut written = Vec::new();
        loop {
            match self.driver.step(&|| started.elapsed()).await {
                Step::Idle => return written,
                Step::Looked => {}
                Step::LookFailed(error) => panic!("{error:?}"),
                Step::Applied { delta, report } => {
                    assert!(report.ruleset.is_none(), "{:?} for\n{delta}", report.ruleset);
                    written.push(*delta);
                }
            }
        }
    }
}

#[test]
fn the_kernel_takes_every_change_and_a_restart_changes_nothing() {
    in_namespace(async |first| {
        drop(first);
        for seed in 0..12 {
            let mut generator = Generator::new(seed);
            let (mut node, mut objects) = (Node::start(open()), Vec::new());
            for _ in 0..6 {
                for _ in 0..20 {
                    let update = generator.update();
                    node.graph.handle_update(&update);
                    objects.push(update);
                }
                node.settle().await;
                assert_eq!(node.driver.state().failures().count(), 0, "seed {seed}");
            }
            drop(node);
            let mut successor = Node::start(open());
            objects.iter().for_each(|update| successor.graph.handle_update(update));
            for delta in successor.settle().await {
                assert_eq!(delta, Delta { settings: delta.settings.clone(), ..Delta::default() }, "seed {seed}");
            }
        }
    });
}

#[test]
fn a_flush_by_a_stranger_is_repaired() {
    in_namespace(async |dataplane| {
        let mut generator = Generator::new(7);
        let mut node = Node::start(dataplane);
        for _ in 0..60 {
            let update = generator.update();
            node.graph.handle_update(&update);
        }
        node.settle().await;
        let before = open().observe().await.unwrap();
        nft("flush ruleset");
        let noticed = async { while node.driver.next_change().await.unwrap() != HostChange::Ruleset {} };
        tokio::time::timeout(Duration::from_secs(30), noticed).await.expect("the flush is announced");
        node.settle().await;
        let after = open().observe().await.unwrap();
        assert!(after.table_present && !after.chains.is_empty());
        assert_eq!((after.chains, after.sets), (before.chains, before.sets));
    });
}
