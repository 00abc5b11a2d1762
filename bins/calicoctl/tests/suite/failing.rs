//! A store that fails under way: what is known is said, and no more is tried.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use calico_core::resource::{Kind, ResourceKey};
use calico_datastore::memory::MemoryStore;
use calico_datastore::{Batch, Committed, Datastore, DatastoreError, Listing, Revision, Scope, Stored, Watch};

use crate::common::{Cluster, Run, golden, type_at};

/// How the store fails.
#[derive(Clone, Copy, PartialEq)]
enum Failing {
    /// The write is carried out, and its answer is lost.
    Undecided,
    Unavailable,
    Refused,
}

/// Fails from one commit on.
struct Store {
    inner: MemoryStore,
    failing: Failing,
    /// Commits that succeed first.
    good: AtomicUsize,
    /// Requests that were made once it failed.
    later: AtomicUsize,
}

impl Store {
    fn fails(&self) -> bool {
        self.good.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err()
    }

    fn error(&self) -> DatastoreError {
        self.later.fetch_add(1, Ordering::Relaxed);
        let operation = "commit".to_owned();
        match self.failing {
            Failing::Undecided => DatastoreError::Undecided { operation, source: None },
            Failing::Unavailable => DatastoreError::Unavailable { operation, source: None },
            Failing::Refused => DatastoreError::Refused { operation, source: None },
        }
    }
}

#[async_trait]
impl Datastore for Store {
    async fn get(&self, key: &ResourceKey) -> Result<Stored, DatastoreError> {
        self.inner.get(key).await
    }

    async fn list(&self, scope: &Scope) -> Result<Listing, DatastoreError> {
        self.inner.list(scope).await
    }

    async fn commit(&self, batch: Batch) -> Result<Vec<Committed>, DatastoreError> {
        if !self.fails() {
            return self.inner.commit(batch).await;
        }
        if self.failing == Failing::Undecided {
            self.inner.commit(batch).await?;
        }
        Err(self.error())
    }

    async fn watch(&self, scope: &Scope, from: Revision) -> Result<Box<dyn Watch>, DatastoreError> {
        self.inner.watch(scope, from).await
    }
}

const SETS: &str = "\
apiVersion: v1
kind: List
items:
- {apiVersion: projectcalico.org/v3, kind: GlobalNetworkSet, metadata: {name: a}}
- {apiVersion: projectcalico.org/v3, kind: GlobalNetworkSet, metadata: {name: b}}
- {apiVersion: projectcalico.org/v3, kind: GlobalNetworkSet, metadata: {name: c}}
- {apiVersion: projectcalico.org/v3, kind: GlobalNetworkSet, metadata: {name: d}}
";

/// Types at a cluster whose store fails after so many commits; how often it was asked then.
fn failing(cluster: &Cluster, failing: Failing, good: usize, line: &str, stdin: &str) -> (Run, usize) {
    let good = AtomicUsize::new(good);
    let store = Arc::new(Store { inner: (*cluster.store).clone(), failing, good, later: AtomicUsize::new(0) });
    let run = type_at(Arc::<Store>::clone(&store), line, stdin);
    (run, store.later.load(Ordering::Relaxed))
}

fn initialised() -> Cluster {
    let cluster = Cluster::new();
    cluster.done("apply -f -", "{apiVersion: projectcalico.org/v3, kind: GlobalNetworkSet, metadata: {name: first}}");
    cluster
}

#[test]
fn after_an_error_of_the_store_nothing_more_is_tried() {
    for (name, sort) in
        [("undecided", Failing::Undecided), ("unavailable", Failing::Unavailable), ("refused", Failing::Refused)]
    {
        let cluster = initialised();
        let (run, asked) = failing(&cluster, sort, 1, "apply -f -", SETS);
        assert_eq!((run.code, asked), (1, 1), "{name}: {run:?}");
        golden(&format!("failing-{name}.txt"), &run.transcript());
        let (run, asked) = failing(&initialised(), sort, 0, "create -f -", SETS);
        assert_eq!((run.code, asked), (1, 1), "{name}: {run:?}");
        golden(&format!("failing-{name}-first.txt"), &run.transcript());
        let cluster = initialised();
        cluster.done("apply -f -", SETS);
        let (run, asked) = failing(&cluster, sort, 1, "delete gnetsets a b c", "");
        assert_eq!((run.code, asked), (1, 1), "{name}: {run:?}");
        golden(&format!("failing-{name}-delete.txt"), &run.transcript());
    }
}

#[test]
fn one_resource_of_which_it_is_not_known_is_not_said_to_have_failed() {
    let one = "{apiVersion: projectcalico.org/v3, kind: GlobalNetworkSet, metadata: {name: a}}";
    for (line, stdin) in [
        ("apply -f -", one),
        ("label gnetsets first a=b", ""),
        (r#"patch gnetsets first -p {"spec":{"nets":["10.0.0.0/8"]}}"#, ""),
        ("delete gnetsets first", ""),
    ] {
        let (run, _) = failing(&initialised(), Failing::Undecided, 0, line, stdin);
        assert!(run.code == 1 && run.stdout.is_empty(), "{line}: {run:?}");
        let said = ["failed to apply", "not changed", "Failed to delete", "failed to patch"];
        assert!(!said.iter().any(|words| run.stderr.contains(words)), "{line}: {run:?}");
        assert!(run.stderr.contains("look before you repeat it"), "{line}: {run:?}");
    }
}

#[test]
fn a_cluster_that_cannot_be_initialised_is_not_written_to() {
    for sort in [Failing::Undecided, Failing::Unavailable] {
        let (run, asked) = failing(&Cluster::new(), sort, 0, "apply -f -", SETS);
        assert_eq!((run.code, asked), (1, 2), "{run:?}");
        assert!(run.stderr.contains("not tried any more: GlobalNetworkSet(b), GlobalNetworkSet(c)"), "{run:?}");
    }
    // Who may not write tiers may still write policies.
    let (run, asked) = failing(&Cluster::new(), Failing::Refused, 0, "apply -f -", SETS);
    assert!(run.code == 1 && asked > 1, "{run:?}");
}

#[test]
fn a_store_that_does_not_answer_is_asked_once() {
    let cluster = initialised();
    for (line, stdin) in [("apply -f -", SETS), ("get gnetsets a b c d", ""), ("delete gnetsets a b c d", "")] {
        cluster.store.faults().fail_next(1);
        let run = cluster.type_in(line, stdin);
        assert!(run.code == 1 && run.stderr.contains("datastore is unavailable"), "{line}: {run:?}");
        assert!(!run.stderr.contains("does not exist"), "{line}: {run:?}");
        cluster.store.faults().fail_next(0);
    }
    // A field of a newer version makes calicoctl look at what is stored before it refuses it.
    cluster.store.faults().fail_next(1);
    let run = cluster.type_in("apply -f -", &SETS.replace("name: a}", "name: a}, newer: 1"));
    assert!(run.code == 1 && run.stderr.contains("datastore is unavailable"), "{run:?}");
}

#[test]
fn of_several_resources_each_is_named() {
    let cluster = initialised();
    let key = ResourceKey::cluster(Kind::GlobalNetworkSet, "b");
    let (run, _) = failing(&cluster, Failing::Unavailable, 1, "create -f -", SETS);
    assert!(run.stderr.contains(&format!("hit error: [{key}: datastore is unavailable")), "{run:?}");
}
