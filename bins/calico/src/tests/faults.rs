//! An ADD that fails at any step leaves nothing; a DEL that fails at one step still takes the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use calico_core::cni::{CniError, CniResult, ErrorCode, Identity, Invocation, Request};
use calico_core::net::{Cidr, InterfaceName, Mac};
use calico_core::resource::{Kind, ResourceKey};
use calico_dataplane::workload::{AttachRequest, Attached, DetachRequest, Plumbing, WorkloadError};
use calico_datastore::memory::MemoryStore;
use calico_datastore::{
    Batch, Change, Committed, Datastore, DatastoreError, IdSource, Listing, Revision, Scope, Stored, SystemClock,
    Watch, Write,
};
use calico_ipam::Allocator;

use super::fixture::{CONTAINER, block_on, put_pools, traces};
use crate::agent::Agent;
use crate::delegate::InProcess;
use crate::links::{HostEnd, Kernel, Links};
use crate::{Births, Parts, add, del};

/// Fails one of its requests: the one at a place, before or after it is carried out.
struct Failing {
    store: Arc<dyn Datastore>,
    countdown: AtomicUsize,
    carried_out: bool,
}

impl Failing {
    fn strikes(&self) -> bool {
        self.countdown.fetch_sub(1, Ordering::Relaxed) == 1
    }

    fn gate(&self) -> Result<(), DatastoreError> {
        if !self.carried_out && self.strikes() { Err(unavailable()) } else { Ok(()) }
    }
}

fn unavailable() -> DatastoreError {
    DatastoreError::Unavailable { operation: "injected".into(), source: None }
}

#[async_trait]
impl Datastore for Failing {
    async fn get(&self, key: &ResourceKey) -> Result<Stored, DatastoreError> {
        self.gate()?;
        self.store.get(key).await
    }

    async fn list(&self, scope: &Scope) -> Result<Listing, DatastoreError> {
        self.gate()?;
        self.store.list(scope).await
    }

    async fn commit(&self, batch: Batch) -> Result<Vec<Committed>, DatastoreError> {
        self.gate()?;
        let committed = self.store.commit(batch).await?;
        // Carried out, but the answer is lost.
        if self.carried_out && self.strikes() { Err(unavailable()) } else { Ok(committed) }
    }

    async fn watch(&self, scope: &Scope, from: Revision) -> Result<Box<dyn Watch>, DatastoreError> {
        self.store.watch(scope, from).await
    }
}

/// Says of each write of an endpoint that it failed. It is carried out, but for a removal.
struct Obstinate(Arc<dyn Datastore>);

#[async_trait]
impl Datastore for Obstinate {
    async fn get(&self, key: &ResourceKey) -> Result<Stored, DatastoreError> {
        self.0.get(key).await
    }

    async fn list(&self, scope: &Scope) -> Result<Listing, DatastoreError> {
        self.0.list(scope).await
    }

    async fn commit(&self, batch: Batch) -> Result<Vec<Committed>, DatastoreError> {
        let is_endpoint = |write: &&Write| write.key.kind() == Kind::WorkloadEndpoint;
        match batch.writes.iter().find(is_endpoint).map(|write| write.change == Change::Delete) {
            None => self.0.commit(batch).await,
            Some(true) => Err(unavailable()),
            Some(false) => self.0.commit(batch).await.and(Err(unavailable())),
        }
    }

    async fn watch(&self, scope: &Scope, from: Revision) -> Result<Box<dyn Watch>, DatastoreError> {
        self.0.watch(scope, from).await
    }
}

/// Has endpoints that cannot be read.
struct Garbled(Arc<dyn Datastore>);

#[async_trait]
impl Datastore for Garbled {
    async fn get(&self, key: &ResourceKey) -> Result<Stored, DatastoreError> {
        if key.kind() == Kind::WorkloadEndpoint {
            return Err(DatastoreError::Unreadable { key: key.clone(), reason: "injected".into() });
        }
        self.0.get(key).await
    }

    async fn list(&self, scope: &Scope) -> Result<Listing, DatastoreError> {
        self.0.list(scope).await
    }

    async fn commit(&self, batch: Batch) -> Result<Vec<Committed>, DatastoreError> {
        self.0.commit(batch).await
    }

    async fn watch(&self, scope: &Scope, from: Revision) -> Result<Box<dyn Watch>, DatastoreError> {
        self.0.watch(scope, from).await
    }
}

/// The kernel, or its refusal.
struct Refusing {
    attach: bool,
    detach: bool,
}

impl Links for Refusing {
    fn attach(&self, request: &AttachRequest) -> Result<Attached, WorkloadError> {
        if self.attach { Err(WorkloadError::SharedNetns) } else { Kernel.attach(request) }
    }

    fn detach(&self, request: &DetachRequest) -> Result<(), WorkloadError> {
        if self.detach { Err(WorkloadError::SharedNetns) } else { Kernel.detach(request) }
    }

    fn inspect(&self, request: &AttachRequest) -> Result<Plumbing, WorkloadError> {
        Kernel.inspect(request)
    }

    fn host_end(&self, request: &DetachRequest) -> Result<HostEnd, WorkloadError> {
        Kernel.host_end(request)
    }
}

/// The kernel, whose attachments fail halfway and are not taken back.
struct Halfway;

impl Links for Halfway {
    fn attach(&self, request: &AttachRequest) -> Result<Attached, WorkloadError> {
        Kernel.attach(request)?;
        let shared = || Box::new(WorkloadError::SharedNetns);
        Err(WorkloadError::CleanUp { first: shared(), second: shared() })
    }

    fn detach(&self, request: &DetachRequest) -> Result<(), WorkloadError> {
        Kernel.detach(request)
    }

    fn inspect(&self, request: &AttachRequest) -> Result<Plumbing, WorkloadError> {
        Kernel.inspect(request)
    }

    fn host_end(&self, request: &DetachRequest) -> Result<HostEnd, WorkloadError> {
        Kernel.host_end(request)
    }
}

/// An agent that notes who waited.
#[derive(Default)]
struct Noting(AtomicUsize);

impl Agent for Noting {
    fn wait(&self, _identity: &Identity, _addresses: &[Cidr], _mac: Option<Mac>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn remove(&self, _interface: InterfaceName) {}
}

struct Zero;

impl IdSource for Zero {
    fn draw(&self) -> u128 {
        0
    }
}

const BIRTHS: Births<'static> = Births { clock: &SystemClock, ids: &Zero };

/// One container on one host, with the memory store.
struct Scene {
    host: calico_dataplane::netns::Netns,
    container: calico_dataplane::netns::Netns,
    store: Arc<dyn Datastore>,
    folder: tempfile::TempDir,
}

const KERNEL: Refusing = Refusing { attach: false, detach: false };

impl Scene {
    fn new() -> Self {
        let store: Arc<dyn Datastore> = Arc::new(MemoryStore::new());
        block_on(put_pools(&store));
        let scratch = calico_dataplane::testing::netns::scratch;
        Self { host: scratch(), container: scratch(), store, folder: tempfile::tempdir().unwrap() }
    }

    fn request(&self) -> Request {
        let netns = self.container.path().to_str().unwrap().to_owned();
        let variable = |name: &str| {
            Some(match name {
                "CNI_COMMAND" => "ADD".to_owned(),
                "CNI_CONTAINERID" => CONTAINER.to_owned(),
                "CNI_IFNAME" => "eth0".to_owned(),
                "CNI_PATH" => "/".to_owned(),
                "CNI_NETNS" => netns.clone(),
                _ => return None,
            })
        };
        let lock = self.folder.path().join("lock");
        let conf = serde_json::json!({"cniVersion": "1.0.0", "name": "net1", "ipam_lock_file": lock.to_str().unwrap()});
        match Invocation::parse(&variable, conf.to_string().as_bytes()) {
            Ok(Invocation::Run(request)) => *request,
            other => panic!("{other:?}"),
        }
    }

    /// Runs a command on the host with a store and links of the caller's.
    fn run<T: Send>(
        &self,
        store: &Arc<dyn Datastore>,
        links: &dyn Links,
        command: impl AsyncFnOnce(&Request, Identity, &Parts<'_>) -> T + Send,
    ) -> T {
        let request = self.request();
        let identity = Identity::of(&request, "node-1", "cali").unwrap();
        let addresses =
            InProcess { allocator: Allocator::new(store.clone(), 0), store: store.clone(), node: "node-1".into() };
        let work = || {
            let parts = Parts { store: store.clone(), addresses: &addresses, links, agent: &Noting::default() };
            block_on(command(&request, identity, &parts))
        };
        self.host.run(work).unwrap()
    }

    fn add(&self, store: &Arc<dyn Datastore>, links: &dyn Links) -> Result<CniResult, CniError> {
        self.run(store, links, async |request, identity, parts| add::add(request, &identity, parts, &BIRTHS).await)
    }

    fn del(&self, store: &Arc<dyn Datastore>, links: &dyn Links) -> Result<(), CniError> {
        self.run(store, links, async |request, identity, parts| del::del(request, Ok(Some(identity)), parts).await)
    }

    fn assert_clean(&self, why: &str) {
        assert_eq!(block_on(traces(&*self.store)), Vec::<String>::new(), "{why}");
        for netns in [&self.host, &self.container] {
            assert!(super::fixture::Scene::interfaces(netns).is_empty(), "{why}");
        }
    }
}

#[test]
fn every_request_to_the_store_may_fail() {
    for carried_out in [false, true] {
        let mut failures = 0;
        for place in 1.. {
            let scene = Scene::new();
            let countdown = AtomicUsize::new(place);
            let failing = Arc::new(Failing { store: scene.store.clone(), countdown, carried_out });
            let store: Arc<dyn Datastore> = failing.clone();
            match scene.add(&store, &KERNEL) {
                Ok(_) => {
                    assert_eq!(scene.del(&scene.store, &KERNEL), Ok(()));
                    scene.assert_clean("after an ADD and a DEL");
                    break;
                }
                Err(error) => {
                    failures += 1;
                    assert_eq!(error.code, ErrorCode::TryAgain, "{error}");
                    scene.assert_clean(&format!("request {place} failed: {error}"));
                    // And the runtime may try again.
                    assert!(scene.add(&scene.store, &KERNEL).is_ok(), "after request {place} failed");
                }
            }
        }
        assert!(failures >= if carried_out { 2 } else { 7 }, "only {failures} requests");
    }
}

#[test]
fn a_refused_interface_gives_the_address_back() {
    let scene = Scene::new();
    let error = scene.add(&scene.store, &Refusing { attach: true, detach: false }).unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidNamespace);
    scene.assert_clean("the kernel refused");
}

#[test]
fn an_attachment_that_was_not_taken_back_is_by_the_add() {
    let scene = Scene::new();
    assert!(scene.add(&scene.store, &Halfway).is_err());
    scene.assert_clean("the attachment failed halfway");
}

#[test]
fn an_attachment_that_cannot_be_made_anew_goes_altogether() {
    let scene = Scene::new();
    scene.add(&scene.store, &KERNEL).unwrap();
    // Its endpoint and addresses are still there, its interface is not.
    scene.run(&scene.store, &KERNEL, async |request, _, parts| {
        let unwanted = crate::links::unwanted(request, None).unwrap();
        parts.links.detach(&unwanted).unwrap();
    });
    assert!(scene.add(&scene.store, &Refusing { attach: true, detach: false }).is_err());
    scene.assert_clean("the kernel refused the second time");
}

#[test]
fn one_failure_of_a_del_does_not_keep_the_rest() {
    let scene = Scene::new();
    scene.add(&scene.store, &KERNEL).unwrap();
    let error = scene.del(&scene.store, &Refusing { attach: false, detach: true }).unwrap_err();
    assert!(error.to_string().starts_with("cannot detach the container"), "{error}");
    assert!(block_on(traces(&*scene.store)).is_empty(), "endpoint and address are gone nevertheless");
    assert_eq!(scene.del(&scene.store, &KERNEL), Ok(()));
    scene.assert_clean("after the second DEL");
}

/// An address that is free while an endpoint names it would go to another workload, with the policy of the former one.
#[test]
fn the_address_of_an_endpoint_that_stays_is_kept() {
    let scene = Scene::new();
    let obstinate: Arc<dyn Datastore> = Arc::new(Obstinate(scene.store.clone()));
    let kept = |why: &str| {
        let traces = block_on(traces(&*scene.store));
        for kind in ["WorkloadEndpoint", "IPAMHandle"] {
            assert!(traces.iter().any(|key| key.starts_with(kind)), "{why}: {traces:?}");
        }
        assert!(super::fixture::Scene::interfaces(&scene.container).is_empty(), "{why}: the interface goes");
    };
    assert!(scene.add(&obstinate, &KERNEL).is_err());
    kept("after a failed ADD");
    assert!(scene.del(&obstinate, &KERNEL).is_err());
    kept("after a failed DEL");
    assert_eq!(scene.del(&scene.store, &KERNEL), Ok(()));
    scene.assert_clean("after a DEL");
}

#[test]
fn an_endpoint_that_cannot_be_read_does_not_keep_its_container() {
    let scene = Scene::new();
    scene.add(&scene.store, &KERNEL).unwrap();
    let garbled: Arc<dyn Datastore> = Arc::new(Garbled(scene.store.clone()));
    assert_eq!(scene.del(&garbled, &KERNEL), Ok(()));
    let left = block_on(traces(&*scene.store));
    assert!(left.iter().all(|key| key.starts_with("WorkloadEndpoint")), "{left:?}");
    assert!(super::fixture::Scene::interfaces(&scene.container).is_empty());
}

/// Every request of a DEL fails once: what is left is taken by the next DEL.
#[test]
fn a_del_is_completed_by_the_next() {
    for place in 1.. {
        let scene = Scene::new();
        scene.add(&scene.store, &KERNEL).unwrap();
        let countdown = AtomicUsize::new(place);
        let store: Arc<dyn Datastore> = Arc::new(Failing { store: scene.store.clone(), countdown, carried_out: false });
        let outcome = scene.del(&store, &KERNEL);
        assert!(super::fixture::Scene::interfaces(&scene.container).is_empty(), "the interface goes in any case");
        if outcome.is_ok() {
            assert!(place > 4, "only {place} requests");
            return;
        }
        assert_eq!(scene.del(&scene.store, &KERNEL), Ok(()));
        scene.assert_clean(&format!("request {place} failed"));
    }
}

#[test]
fn the_agent_is_waited_for_on_every_add() {
    let scene = Scene::new();
    let agent = Noting::default();
    for expected in 1..3 {
        let waits = scene.run(&scene.store, &KERNEL, async |request, identity, parts| {
            let parts = Parts { agent: &agent, store: parts.store.clone(), ..*parts };
            add::add(request, &identity, &parts, &BIRTHS).await.unwrap();
            agent.0.load(Ordering::Relaxed)
        });
        assert_eq!(waits, expected);
    }
}
