//! The machine against a naive twin, and the driver against a store that misbehaves.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use calico_core::resource::{Kind, Resource, ResourceKey};
use calico_core::update::{SyncStatus, Update};
use proptest::prelude::*;

use super::merge::Seen;
use super::*;
use crate::memory::MemoryStore;
use crate::testing::{network_set, tier};
use crate::{
    BadObject, Batch, Committed, Datastore, DatastoreError, Entry, Listing, Precondition, Revision, Scope, Stored,
    Watch, WatchEvent, Write,
};

/// What a consumer has after taking everything.
#[derive(Debug, Default)]
struct Consumer {
    state: BTreeMap<ResourceKey, Arc<Resource>>,
    statuses: Vec<SyncStatus>,
    updates: usize,
    bad: usize,
    faults: std::collections::BTreeSet<ResourceKey>,
    unavailable: usize,
    /// Why, the last time.
    reason: String,
}

impl Consumer {
    fn take(&mut self, event: SyncEvent) {
        match event {
            SyncEvent::Status(status) => self.statuses.push(status),
            SyncEvent::Updates(updates) => {
                let keys: std::collections::BTreeSet<_> = updates.iter().map(|update| &update.key).collect();
                assert_eq!(keys.len(), updates.len(), "no key twice in a batch");
                self.updates += updates.len();
                for Update { key, value } in updates {
                    match value {
                        Some(value) => drop(self.state.insert(key, value)),
                        None => drop(self.state.remove(&key)),
                    }
                }
            }
            SyncEvent::Diagnostic(Diagnostic::BadObject(bad)) => {
                self.bad += 1;
                self.faults.insert(bad.key);
            }
            SyncEvent::Diagnostic(Diagnostic::Mended(key)) => {
                assert!(self.faults.remove(&key), "{key} was not known to be bad");
            }
            SyncEvent::Diagnostic(Diagnostic::Unavailable { reason, .. }) => {
                self.unavailable += 1;
                self.reason = reason;
            }
        }
    }

    fn drain(&mut self, merge: &mut Merge) {
        while let Some(event) = merge.poll_output() {
            self.take(event);
        }
        assert_eq!(merge.backlog(), 0);
    }

    fn status(&self) -> Option<SyncStatus> {
        self.statuses.last().copied()
    }
}

/// What happens to a store and the syncer's view of it.
#[derive(Debug, Clone)]
enum Step {
    Put(u8),
    PutBad(u8),
    Delete(u8),
    /// The watch delivers what it has, some neighbours in the wrong order: of one key's changes the order is kept, of others' not.
    Deliver(u16),
    /// The watch delivers only so many, and is lost.
    Break(u8),
    /// The watch delivers its last changes once more, from an earlier place on.
    Replay(u8),
    /// The watch is lost: what it has not delivered is skipped, and the scope is listed again.
    Relist,
    /// A listing fails.
    Fail,
    /// A listing fails after so many objects.
    FailHalfway(u8),
    /// The consumer takes what waits.
    Drain,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..6_u8).prop_map(Step::Put),
        1 => (0..6_u8).prop_map(Step::PutBad),
        3 => (0..6_u8).prop_map(Step::Delete),
        3 => any::<u16>().prop_map(Step::Deliver),
        1 => (0..6_u8).prop_map(Step::Break),
        1 => (0..9_u8).prop_map(Step::Replay),
        1 => Just(Step::Relist),
        1 => Just(Step::Fail),
        1 => (0..6_u8).prop_map(Step::FailHalfway),
        2 => Just(Step::Drain),
    ]
}

/// The naive twin: the store as a plain map, from which the expected picture is read off.
#[derive(Default)]
struct Twin {
    revision: u64,
    objects: BTreeMap<ResourceKey, Entry>,
    undelivered: Vec<WatchEvent>,
    /// What the watch has delivered since the last listing.
    delivered: Vec<WatchEvent>,
}

impl Twin {
    fn put(&mut self, name: u8, usable: bool) {
        self.revision += 1;
        let revision = Revision::from_raw(self.revision);
        let (key, resource) = tier(&format!("t{name}"), self.revision as f64);
        // Of the even ones something remains.
        let remains = name.is_multiple_of(2).then(|| tier(&key.to_string(), -1.0).1);
        let entry = if usable {
            Ok(Stored::new(key.clone(), resource, Arc::default(), revision))
        } else {
            Err(BadObject { key: key.clone(), revision, reason: "odd".to_owned(), remains, text: Arc::default() })
        };
        self.objects.insert(key, entry.clone());
        self.undelivered.push(WatchEvent::Put(entry));
    }

    fn delete(&mut self, name: u8) {
        let key = tier(&format!("t{name}"), 0.0).0;
        if self.objects.remove(&key).is_some() {
            self.revision += 1;
            let revision = Revision::from_raw(self.revision);
            self.undelivered.push(WatchEvent::Deleted { key, revision });
        }
    }

    /// What the watch has, with neighbours swapped where a bit says so, unless they are of one key.
    fn deliver(&mut self, mut swaps: u16) -> Vec<WatchEvent> {
        let mut events = std::mem::take(&mut self.undelivered);
        for first in 1..events.len() {
            if swaps & 1 == 1 && events[first - 1].key() != events[first].key() {
                events.swap(first - 1, first);
            }
            swaps = swaps.rotate_right(1);
        }
        self.delivered.extend(events.iter().cloned());
        events
    }

    fn listing(&self) -> Listing {
        let entries = self.objects.values().cloned().collect();
        Listing { entries, revision: Revision::from_raw(self.revision) }
    }

    fn faults(&self) -> std::collections::BTreeSet<ResourceKey> {
        self.objects.values().filter_map(|entry| entry.as_ref().err().map(|bad| bad.key.clone())).collect()
    }

    fn picture(&self) -> BTreeMap<ResourceKey, Arc<Resource>> {
        let delivered = self.objects.iter().filter_map(|(key, entry)| {
            let value =
                entry.as_ref().map_or_else(|bad| bad.remains.clone(), |stored| Some(Arc::clone(&stored.resource)));
            Some((key.clone(), value?))
        });
        delivered.collect()
    }
}

proptest! {
    #[test]
    fn the_consumer_ends_with_the_stores_picture(steps in proptest::collection::vec(step(), 0..120)) {
        let mut twin = Twin::default();
        let mut merge = Merge::new(1);
        let scope = merge.scope_ids().next().unwrap();
        let mut consumer = Consumer::default();
        let mut listed = false;
        for step in steps {
            match step {
                Step::Put(name) => twin.put(name, true),
                Step::PutBad(name) => twin.put(name, false),
                Step::Delete(name) => twin.delete(name),
                // A watch exists only after a listing.
                Step::Deliver(swaps) if listed => {
                    twin.deliver(swaps).into_iter().for_each(|event| merge.handle_event(scope, event));
                }
                Step::Break(count) if listed => {
                    let events = twin.undelivered.drain(..usize::from(count).min(twin.undelivered.len()));
                    events.for_each(|event| merge.handle_event(scope, event));
                    listed = false;
                }
                Step::Replay(count) if listed => {
                    let from = twin.delivered.len().saturating_sub(count.into());
                    twin.delivered[from..].iter().cloned().for_each(|event| merge.handle_event(scope, event));
                }
                Step::Deliver(_) | Step::Break(_) | Step::Replay(_) => {}
                Step::Relist => {
                    twin.undelivered.clear();
                    twin.delivered.clear();
                    merge.handle_listing(scope, twin.listing());
                    listed = true;
                }
                Step::FailHalfway(count) => {
                    merge.begin_listing(scope);
                    let some = twin.listing().entries.into_iter().take(count.into());
                    merge.handle_entries(scope, some.map(Seen::from));
                    merge.handle_unavailable(scope, "away".to_owned(), Duration::ZERO);
                    listed = false;
                }
                Step::Fail => {
                    merge.handle_unavailable(scope, "away".to_owned(), Duration::ZERO);
                    listed = false;
                }
                Step::Drain => {
                    consumer.drain(&mut merge);
                    if listed && twin.undelivered.is_empty() {
                        prop_assert_eq!(&consumer.state, &twin.picture());
                        prop_assert_eq!(consumer.status(), Some(SyncStatus::InSync));
                    }
                }
            }
        }
        twin.undelivered.clear();
        merge.handle_listing(scope, twin.listing());
        consumer.drain(&mut merge);
        prop_assert_eq!(&consumer.state, &twin.picture());
        prop_assert_eq!(&consumer.faults, &twin.faults());
        prop_assert_eq!(consumer.status(), Some(SyncStatus::InSync));

        // The same listing once more says nothing.
        merge.handle_listing(scope, twin.listing());
        prop_assert_eq!(merge.poll_output(), None);
        prop_assert!(consumer.statuses.windows(2).all(|pair| pair[0] != pair[1]), "a status is told once");
    }
}

#[test]
fn the_overall_status_waits_for_every_scope() {
    let mut merge = Merge::new(2);
    let scopes: Vec<_> = merge.scope_ids().collect();
    let empty = || Listing { entries: Vec::new(), revision: Revision::from_raw(1) };
    merge.handle_listing(scopes[0], empty());
    merge.handle_listing(scopes[1], empty());
    merge.handle_unavailable(scopes[0], "away".to_owned(), Duration::ZERO);
    merge.handle_unavailable(scopes[1], "away".to_owned(), Duration::ZERO);
    let mut consumer = Consumer::default();
    consumer.drain(&mut merge);
    use SyncStatus::{InSync, Resync, WaitForDatastore};
    assert_eq!(consumer.statuses, [WaitForDatastore, Resync, InSync, Resync, WaitForDatastore]);
}

#[test]
fn a_bad_object_is_absent_and_told_once_per_revision() {
    let mut merge = Merge::new(1);
    let scope = merge.scope_ids().next().unwrap();
    let mut twin = Twin::default();
    let mut consumer = Consumer::default();
    twin.put(1, true);
    merge.handle_listing(scope, twin.listing());
    consumer.drain(&mut merge);
    twin.put(1, false);
    for _ in 0..3 {
        merge.handle_listing(scope, twin.listing());
    }
    consumer.drain(&mut merge);
    assert_eq!((consumer.state.len(), consumer.bad, consumer.updates), (0, 1, 2));
    twin.put(1, true);
    merge.handle_listing(scope, twin.listing());
    // Delivered before it is told: in between nobody may take it for gone.
    while !consumer.faults.is_empty() {
        consumer.take(merge.poll_output().expect("it is told"));
    }
    assert_eq!(consumer.state.len(), 1);
}

#[test]
fn what_waits_is_merged_by_key_but_never_across_a_status() {
    let mut merge = Merge::new(1);
    let scope = merge.scope_ids().next().unwrap();
    let mut twin = Twin::default();
    merge.handle_listing(scope, twin.listing());
    for _ in 0..1000 {
        twin.put(1, true);
    }
    twin.undelivered.drain(..).for_each(|event| merge.handle_event(scope, event));
    merge.handle_unavailable(scope, "away".to_owned(), Duration::ZERO);
    twin.put(1, true);
    merge.handle_listing(scope, twin.listing());
    assert!(merge.backlog() < 10);
    let mut consumer = Consumer::default();
    consumer.drain(&mut merge);
    assert_eq!(consumer.updates, 2);
    assert_eq!(consumer.state, twin.picture());
}

/// Keys that changed while nobody took anything are what waits, however often each changed.
#[test]
fn what_waits_is_bounded_by_the_keys_and_not_by_the_changes() {
    for keys in [1, 10, 200] {
        let mut merge = Merge::new(1);
        let scope = merge.scope_ids().next().unwrap();
        let mut twin = Twin::default();
        merge.handle_listing(scope, twin.listing());
        Consumer::default().drain(&mut merge);
        for round in 0..20_000_u32 {
            let name = u8::try_from(round % keys).unwrap();
            if round % 7 == 0 {
                twin.delete(name)
            } else {
                twin.put(name, true)
            }
            twin.undelivered.drain(..).for_each(|event| merge.handle_event(scope, event));
            assert!(merge.backlog() <= keys as usize, "{} wait for {keys} keys", merge.backlog());
        }
        let mut consumer = Consumer::default();
        consumer.drain(&mut merge);
        assert!(consumer.updates <= keys as usize);
        assert_eq!(consumer.state, twin.picture());
    }
}

async fn until(syncer: &mut Syncer, consumer: &mut Consumer, what: &str, done: impl Fn(&Consumer) -> bool) {
    while !done(consumer) {
        let event = tokio::time::timeout(Duration::from_secs(60), syncer.next()).await;
        consumer.take(event.unwrap_or_else(|_| panic!("{what}: {consumer:?}")).unwrap());
    }
}

fn create(name: &str) -> Batch {
    let (key, resource) = tier(name, 1.0);
    Write::create(key, resource).into()
}

fn start(store: &MemoryStore, scopes: Vec<Scope>) -> Syncer {
    Syncer::start(Arc::new(store.clone()), scopes, SyncOptions::default())
}

#[tokio::test(start_paused = true)]
async fn follows_a_store_that_is_away_at_first_and_goes_away_again() {
    let store = MemoryStore::new();
    store.commit(create("a")).await.unwrap();
    store.disconnect();
    let mut syncer = start(&store, vec![Scope::Kind(Kind::Tier), Scope::Kind(Kind::NetworkSet)]);
    let mut consumer = Consumer::default();
    until(&mut syncer, &mut consumer, "told that it is away", |consumer| consumer.unavailable >= 4).await;
    assert_eq!(consumer.status(), Some(SyncStatus::WaitForDatastore));
    store.reconnect();
    until(&mut syncer, &mut consumer, "in sync", |consumer| consumer.status() == Some(SyncStatus::InSync)).await;
    assert_eq!(consumer.state.len(), 1);

    store.disconnect();
    let away = consumer.unavailable + 2;
    until(&mut syncer, &mut consumer, "away again", |consumer| consumer.unavailable >= away).await;
    assert_eq!(consumer.state.len(), 1, "what was known stays");
    store.reconnect();
    store.commit(Write::delete(tier("a", 0.0).0, Precondition::Present).into()).await.unwrap();
    store.commit(create("b")).await.unwrap();
    let (key, set) = network_set("n", "s");
    store.commit(Write::create(key, set).into()).await.unwrap();
    until(&mut syncer, &mut consumer, "caught up", |consumer| {
        consumer.state.len() == 2 && consumer.status() == Some(SyncStatus::InSync)
    })
    .await;
    assert!(consumer.state.keys().all(|key| key.name() != Some("a")), "the delete that nobody watched is found");
}

#[tokio::test(start_paused = true)]
async fn a_lost_history_is_listed_again_without_a_word_when_nothing_changed() {
    let store = MemoryStore::new();
    for name in ["a", "b", "c"] {
        store.commit(create(name)).await.unwrap();
    }
    let mut syncer = start(&store, vec![Scope::All]);
    let mut consumer = Consumer::default();
    until(&mut syncer, &mut consumer, "in sync", |consumer| consumer.status() == Some(SyncStatus::InSync)).await;
    let (updates, statuses) = (consumer.updates, consumer.statuses.len());
    // The watch is cut and the next listing works at once.
    store.disconnect();
    store.reconnect();
    store.commit(create("d")).await.unwrap();
    until(&mut syncer, &mut consumer, "the one new object", |consumer| consumer.state.len() == 4).await;
    assert_eq!((consumer.updates, consumer.statuses.len()), (updates + 1, statuses));
}

/// After a watch that was lost the store takes long to answer: that counts as being away while it lasts.
#[tokio::test(start_paused = true)]
async fn a_silent_store_is_told_of_before_it_says_that_it_is_away() {
    let store = MemoryStore::new();
    let mut syncer = start(&store, vec![Scope::All]);
    let mut consumer = Consumer::default();
    until(&mut syncer, &mut consumer, "in sync", |consumer| consumer.status() == Some(SyncStatus::InSync)).await;
    store.disconnect();
    store.reconnect();
    store.faults().set_latency(Duration::from_secs(8));
    until(&mut syncer, &mut consumer, "silent", |consumer| consumer.status() == Some(SyncStatus::WaitForDatastore))
        .await;
    assert_eq!(consumer.unavailable, 1, "and why");
    let reason = &consumer.reason;
    assert!(reason.starts_with("the datastore does not answer yet (watch lost: "), "nothing has failed now: {reason}");
    until(&mut syncer, &mut consumer, "back", |consumer| consumer.status() == Some(SyncStatus::InSync)).await;
}

/// A store that lists and refuses every watch, as when the machine is out of inotify instances.
struct Unwatchable(MemoryStore);

#[async_trait::async_trait]
impl Datastore for Unwatchable {
    async fn get(&self, key: &ResourceKey) -> Result<Stored, DatastoreError> {
        self.0.get(key).await
    }

    async fn list(&self, scope: &Scope) -> Result<Listing, DatastoreError> {
        self.0.list(scope).await
    }

    async fn commit(&self, batch: Batch) -> Result<Vec<Committed>, DatastoreError> {
        self.0.commit(batch).await
    }

    async fn watch(&self, _: &Scope, _: Revision) -> Result<Box<dyn Watch>, DatastoreError> {
        Err(DatastoreError::Unavailable { operation: "watch".to_owned(), source: None })
    }
}

/// Counts the changes that its watches have handed out.
struct Counting(MemoryStore, Arc<std::sync::atomic::AtomicUsize>);

struct CountingWatch(Box<dyn Watch>, Arc<std::sync::atomic::AtomicUsize>);

#[async_trait::async_trait]
impl Datastore for Counting {
    async fn get(&self, key: &ResourceKey) -> Result<Stored, DatastoreError> {
        self.0.get(key).await
    }

    async fn list(&self, scope: &Scope) -> Result<Listing, DatastoreError> {
        self.0.list(scope).await
    }

    async fn commit(&self, batch: Batch) -> Result<Vec<Committed>, DatastoreError> {
        self.0.commit(batch).await
    }

    async fn watch(&self, scope: &Scope, from: Revision) -> Result<Box<dyn Watch>, DatastoreError> {
        Ok(Box::new(CountingWatch(self.0.watch(scope, from).await?, Arc::clone(&self.1))))
    }
}

#[async_trait::async_trait]
impl Watch for CountingWatch {
    async fn next(&mut self) -> Result<WatchEvent, DatastoreError> {
        let event = self.0.next().await;
        self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        event
    }
}

/// All that a syncer holds between the store and a consumer that sleeps: its two channels and the backlog.
#[tokio::test(start_paused = true)]
async fn a_sleeping_consumer_stops_the_watch_after_a_bounded_number_of_changes() {
    const BACKLOG: usize = 100;
    const CHANGES: usize = 5000;
    let store = MemoryStore::new();
    let taken = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let options = SyncOptions { channel: 1, backlog: BACKLOG, ..SyncOptions::default() };
    let counting = Arc::new(Counting(store.clone(), Arc::clone(&taken)));
    let mut syncer = Syncer::start(counting, vec![Scope::All], options);
    let mut consumer = Consumer::default();
    until(&mut syncer, &mut consumer, "in sync", |consumer| consumer.status() == Some(SyncStatus::InSync)).await;
    for name in 0..CHANGES {
        store.commit(create(&format!("t{name}"))).await.unwrap();
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    let held = taken.load(std::sync::atomic::Ordering::Relaxed);
    // One batch in the consumer's channel, one backlog behind it, the full inbox, and one in the hand of each of three tasks.
    assert!((BACKLOG..=2 * BACKLOG + 256 + 3).contains(&held), "{held} of {CHANGES} changes are held");
    until(&mut syncer, &mut consumer, "all of them", |consumer| consumer.state.len() == CHANGES).await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_cannot_be_watched_is_listed_again_and_told_of() {
    let store = MemoryStore::new();
    let mut syncer = Syncer::start(Arc::new(Unwatchable(store.clone())), vec![Scope::All], SyncOptions::default());
    let mut consumer = Consumer::default();
    until(&mut syncer, &mut consumer, "told of", |consumer| consumer.unavailable >= 2).await;
    store.commit(create("late")).await.unwrap();
    until(&mut syncer, &mut consumer, "found by a later listing", |consumer| consumer.state.len() == 1).await;
    use SyncStatus::{InSync, Resync, WaitForDatastore};
    assert_eq!(consumer.statuses, [WaitForDatastore, Resync, InSync], "no flapping");
}

#[tokio::test(start_paused = true)]
async fn a_slow_consumer_holds_the_watch_back_and_gets_the_newest() {
    let store = MemoryStore::new();
    let options = SyncOptions { channel: 1, backlog: 8, ..SyncOptions::default() };
    let mut syncer = Syncer::start(Arc::new(store.clone()), vec![Scope::All], options);
    let mut consumer = Consumer::default();
    until(&mut syncer, &mut consumer, "in sync", |consumer| consumer.status() == Some(SyncStatus::InSync)).await;
    for round in 0..5000 {
        let (key, resource) = tier(&format!("t{}", round % 50), f64::from(round));
        store.commit(Write::put(key, Precondition::None, resource, None).into()).await.unwrap();
        tokio::task::yield_now().await;
    }
    let newest = |consumer: &Consumer| {
        let orders = consumer.state.values().filter_map(|resource| match &**resource {
            Resource::Tier(tier) => tier.spec.order,
            _ => None,
        });
        orders.filter(|order| *order >= 4950.0).count() == 50
    };
    until(&mut syncer, &mut consumer, "the newest of all", newest).await;
}

/// What happens to a store that a syncer follows.
#[derive(Debug, Clone)]
enum Trouble {
    Put(u8),
    PutBad(u8),
    Delete(u8),
    Disconnect,
    Reconnect,
    Compact,
    Fail(u8),
    /// Each request takes so many milliseconds.
    Slow(u8),
    /// Listings come in pages of so many objects.
    Pages(u8),
    /// So many milliseconds pass.
    Wait(u16),
    /// The consumer takes one event, if there is one.
    Take,
}

fn trouble() -> impl Strategy<Value = Trouble> {
    prop_oneof![
        6 => (0..12_u8).prop_map(Trouble::Put),
        1 => (0..12_u8).prop_map(Trouble::PutBad),
        4 => (0..12_u8).prop_map(Trouble::Delete),
        1 => Just(Trouble::Disconnect),
        2 => Just(Trouble::Reconnect),
        1 => Just(Trouble::Compact),
        1 => (0..3_u8).prop_map(Trouble::Fail),
        1 => (0..50_u8).prop_map(Trouble::Slow),
        1 => (0..4_u8).prop_map(Trouble::Pages),
        5 => (0..400_u16).prop_map(Trouble::Wait),
        3 => Just(Trouble::Take),
    ]
}

/// Of two kinds, so that two scopes interleave.
fn object(name: u8) -> (ResourceKey, Arc<Resource>) {
    if name.is_multiple_of(2) { tier(&format!("t{name}"), 1.0) } else { network_set("n", &format!("s{name}")) }
}

impl Trouble {
    async fn happen(self, store: &MemoryStore, syncer: &mut Syncer, consumer: &mut Consumer) {
        match self {
            // Past the faults, as somebody else's connection would.
            Self::Put(name) => {
                let (key, resource) = object(name);
                store.inject(key, resource.encode().to_string().as_bytes());
            }
            Self::PutBad(name) => drop(store.inject(object(name).0, b"no JSON")),
            Self::Delete(name) => drop(store.commit(Write::delete(object(name).0, Precondition::None).into()).await),
            Self::Disconnect => store.disconnect(),
            Self::Reconnect => store.reconnect(),
            Self::Compact => store.compact(),
            Self::Fail(count) => store.faults().fail_next(count.into()),
            Self::Slow(millis) => store.faults().set_latency(Duration::from_millis(millis.into())),
            Self::Pages(objects) => store.faults().set_page(objects.into()),
            Self::Wait(millis) => tokio::time::sleep(Duration::from_millis(millis.into())).await,
            Self::Take => {
                if let Ok(Some(event)) = tokio::time::timeout(Duration::from_millis(1), syncer.next()).await {
                    consumer.take(event);
                }
            }
        }
    }
}

/// The store is its own naive twin: when the trouble is over, a listing of it is what the consumer must have.
async fn survives(troubles: Vec<Trouble>) {
    let store = MemoryStore::with_history(8);
    let options = SyncOptions { channel: 1, backlog: 4, ..SyncOptions::default() };
    let scopes = vec![Scope::Kind(Kind::Tier), Scope::Kind(Kind::NetworkSet)];
    let mut syncer = Syncer::start(Arc::new(store.clone()), scopes, options);
    let mut consumer = Consumer::default();
    for trouble in troubles {
        trouble.happen(&store, &mut syncer, &mut consumer).await;
    }
    store.faults().fail_next(0);
    store.faults().set_latency(Duration::ZERO);
    store.reconnect();
    let mut twin = Twin::default();
    for entry in store.list(&Scope::All).await.unwrap().entries {
        let key = entry.as_ref().map_or_else(|bad| bad.key.clone(), |stored| stored.key.clone());
        twin.objects.insert(key, entry);
    }
    until(&mut syncer, &mut consumer, "what the store has", |consumer| {
        let is_there = consumer.state == twin.picture() && consumer.faults == twin.faults();
        is_there && consumer.status() == Some(SyncStatus::InSync)
    })
    .await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.min(2000), ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_missed_whatever_happens_to_the_store(troubles in proptest::collection::vec(trouble(), 0..80)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(survives(troubles));
    }
}
