//! The memory store against the suite, and its faults.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use calico_core::resource::ResourceKey;

use super::*;
use crate::testing::{Subject, conformance, next, tier};
use crate::{WatchEvent, Write};

#[async_trait]
impl Subject for MemoryStore {
    fn first(&self) -> Arc<dyn Datastore> {
        Arc::new(self.clone())
    }

    fn second(&self) -> Arc<dyn Datastore> {
        Arc::new(self.clone())
    }

    async fn inject(&self, key: &ResourceKey, bytes: &[u8]) {
        Self::inject(self, key.clone(), bytes);
    }

    async fn compact(&self) {
        Self::compact(self);
    }
}

#[tokio::test(start_paused = true)]
async fn conforms() {
    conformance(|| async { Box::new(MemoryStore::new()) as Box<dyn Subject> }).await;
}

fn create(name: &str) -> Batch {
    let (key, resource) = tier(name, 1.0);
    Write::create(key, resource).into()
}

#[tokio::test]
async fn a_cut_connection_ends_watches_and_refuses_requests() {
    let store = MemoryStore::new();
    let mut watch = store.watch(&Scope::All, Revision::from_raw(0)).await.unwrap();
    store.disconnect();
    assert!(watch.next().await.unwrap_err().is_retryable());
    assert!(store.get(&tier("a", 1.0).0).await.unwrap_err().is_retryable());
    store.reconnect();
    assert!(watch.next().await.is_err(), "an ended watch stays ended");
    store.commit(create("a")).await.unwrap();
}

#[tokio::test]
async fn injected_faults_happen_as_often_as_asked() {
    let store = MemoryStore::new();
    store.faults().fail_next(2);
    for _ in 0..2 {
        assert!(store.list(&Scope::All).await.unwrap_err().is_retryable());
    }
    store.faults().conflict_next(1);
    assert!(store.commit(create("a")).await.unwrap_err().is_conflict());
    assert!(store.list(&Scope::All).await.unwrap().entries.is_empty());
    store.faults().lose_answer_next(1);
    assert!(store.commit(create("a")).await.unwrap_err().is_retryable());
    assert!(
        store.commit(create("a")).await.unwrap_err().is_conflict(),
        "the lost answer was of a write that took effect"
    );
}

#[tokio::test(start_paused = true)]
async fn latency_runs_on_tokios_clock() {
    let store = MemoryStore::new();
    store.faults().set_latency(Duration::from_secs(3600));
    let start = Instant::now();
    store.list(&Scope::All).await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(3600));
}

#[tokio::test]
async fn a_short_history_forgets_the_oldest_first() {
    let store = MemoryStore::with_history(2);
    for name in ["a", "b", "c"] {
        store.commit(create(name)).await.unwrap();
    }
    assert!(matches!(
        store.watch(&Scope::All, Revision::from_raw(0)).await.map(drop),
        Err(DatastoreError::TooOld { .. })
    ));
    let mut watch = store.watch(&Scope::All, Revision::from_raw(1)).await.unwrap();
    assert!(matches!(next(&mut watch).await, WatchEvent::Put(Ok(stored)) if stored.key == tier("b", 1.0).0));
}

#[tokio::test(start_paused = true)]
async fn a_part_of_a_listing_is_none() {
    let store = MemoryStore::new();
    let create = |name: &str| Write::create(tier(name, 1.0).0, tier(name, 1.0).1);
    store.commit((0..10).map(|one| create(&format!("t{one}"))).collect::<Vec<_>>().into()).await.unwrap();
    store.faults().set_page(3);
    store.faults().set_latency(Duration::from_secs(1));
    let begin = || {
        let store = store.clone();
        tokio::spawn(async move { store.list(&Scope::All).await })
    };
    let half = Duration::from_millis(2500);

    let listing = begin();
    tokio::time::sleep(half).await;
    store.inject(tier("late", 1.0).0, b"{}");
    assert_eq!(listing.await.unwrap().unwrap().entries.len(), 10, "all pages are of the first one's revision");

    let listing = begin();
    tokio::time::sleep(half).await;
    store.disconnect();
    assert!(matches!(listing.await.unwrap(), Err(DatastoreError::Unavailable { .. })));
    store.reconnect();

    let listing = begin();
    tokio::time::sleep(half).await;
    store.inject(tier("later", 1.0).0, b"{}");
    store.compact();
    assert!(matches!(listing.await.unwrap(), Err(DatastoreError::TooOld { .. })));
    assert_eq!(begin().await.unwrap().unwrap().entries.len(), 12);
}
