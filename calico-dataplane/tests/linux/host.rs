//! A host with interfaces for the generator's endpoints, and the life of an agent on it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use calico_core::calc::Graph;
use calico_core::render::{PolicyRenderer, RenderConfig, Renderer};
use calico_core::resource::Resource;
use calico_core::table::Delta;
use calico_core::testing::HOST;
use calico_core::update::Update;
use calico_dataplane::netns::{Request, RouteSocket, VethEnd};
use calico_dataplane::reconcile::{Driver, ReconcileConfig, Reconciler, Step};
use calico_dataplane::testing::faults::{plan, requests};
use calico_dataplane::testing::netns::scratch;
use calico_dataplane::{Dataplane, DataplaneError, LinuxConfig, LinuxDataplane, Observed};

use super::fixture::{nft, open};

/// The interfaces of the generator's endpoints, as pairs.
const LINKS: [[&str; 2]; 3] = [["cali00", "cali01"], ["cali02", "cali10"], ["cali11", "cali12"]];
/// Longest time that a host may take to recover, by its own clock.
const PATIENCE: Duration = Duration::from_secs(600);

/// With what makes neighbours and routes of this host.
pub(crate) fn here(mut update: Update) -> Update {
    if let Some(Resource::WorkloadEndpoint(endpoint)) = update.value.as_deref() {
        let mut endpoint = endpoint.clone();
        endpoint.spec.node = HOST.into();
        endpoint.spec.mac = Some("ee:00:00:00:00:01".parse().unwrap());
        update.value = Some(Arc::new(Resource::WorkloadEndpoint(endpoint)));
    }
    update
}

/// One life of an agent, with a clock of its own.
pub(crate) struct Life {
    pub(crate) graph: Graph,
    renderer: Renderer,
    pub(crate) driver: Driver,
    pub(crate) now: Duration,
}

impl Life {
    pub(crate) fn begin() -> Result<Self, DataplaneError> {
        let dataplane = LinuxDataplane::open(LinuxConfig::default())?;
        let renderer = Renderer::new(RenderConfig::default());
        let machine = Reconciler::new(renderer.skeleton(), ReconcileConfig::default());
        let driver = Driver::new(machine, Box::new(dataplane));
        Ok(Self { graph: Graph::new(HOST), renderer, driver, now: Duration::ZERO })
    }

    pub(crate) fn take_in<'u>(&mut self, updates: impl IntoIterator<Item = &'u Update>) {
        updates.into_iter().for_each(|update| self.graph.handle_update(update));
        let mut delta = Delta::default();
        for event in self.graph.flush() {
            self.renderer.handle(&event, &mut delta);
        }
        delta.connections_cut = self.graph.take_departed();
        self.driver.machine().desire(&delta);
    }

    /// Does what there is to do now; whether it came to its end.
    pub(crate) async fn work(&mut self, limit: Option<usize>) -> bool {
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
    pub(crate) async fn settle(&mut self) {
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

/// In a namespace with the story's interfaces.
pub(crate) fn in_host<T: Send>(test: impl AsyncFnOnce() -> T + Send) -> T {
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
pub(crate) async fn held() -> Observed {
    let mut dataplane = open();
    Observed { links: BTreeMap::new(), ..dataplane.observe().await.unwrap() }
}

/// Part by part, so that what differs can be read.
pub(crate) fn assert_same(held: &Observed, expected: &Observed, when: &str) {
    assert_eq!(held.routes, expected.routes, "{when}");
    assert_eq!(held.neighbors, expected.neighbors, "{when}");
    assert_eq!(held.chains, expected.chains, "{when}");
    for (name, set) in &expected.sets {
        assert_eq!(held.sets.get(name), Some(set), "{when}: set {name}");
    }
    assert_eq!(held, expected, "{when}");
}
