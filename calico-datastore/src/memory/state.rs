//! What the memory store holds: a sorted map and the log of its changes. Synchronous; time comes as an argument.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use calico_core::resource::ResourceKey;
use tokio::time::Instant;

use crate::{
    Batch, Change, Committed, DatastoreError, Entry, Listing, Precondition, Revision, Scope, Stored, WatchEvent, Write,
    document,
};

#[derive(Debug)]
pub(super) struct State {
    revision: u64,
    objects: BTreeMap<ResourceKey, Item>,
    expiries: BTreeSet<(Instant, ResourceKey)>,
    log: VecDeque<(u64, WatchEvent)>,
    history: usize,
    /// Everything up to here is forgotten: watches start at or after it.
    compacted: u64,
}

#[derive(Debug)]
struct Item {
    entry: Entry,
    expires: Option<Instant>,
}

impl State {
    pub(super) const fn new(history: usize) -> Self {
        Self {
            revision: 0,
            objects: BTreeMap::new(),
            expiries: BTreeSet::new(),
            log: VecDeque::new(),
            history,
            compacted: 0,
        }
    }

    pub(super) fn commit(&mut self, batch: Batch, now: Instant) -> Result<Vec<Committed>, DatastoreError> {
        for write in &batch.writes {
            self.admit(write)?;
        }
        let changes = batch.writes.iter().any(|write| self.would_change(write));
        if changes {
            self.revision += 1;
        }
        Ok(batch.writes.into_iter().map(|write| self.apply(write, now)).collect())
    }

    pub(super) fn inject(&mut self, key: ResourceKey, bytes: &[u8]) -> Revision {
        self.revision += 1;
        let revision = Revision::from_raw(self.revision);
        self.store(document::decode(key.clone(), bytes, revision), key, None);
        revision
    }

    /// Removes what has expired; whether there was anything.
    pub(super) fn expire(&mut self, now: Instant) -> bool {
        let mut expired = false;
        while self.expiries.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, key)) = self.expiries.pop_first() else { break };
            self.revision += 1;
            self.remove(&key);
            expired = true;
        }
        expired
    }

    pub(super) fn compact(&mut self) {
        self.log.clear();
        self.compacted = self.revision;
    }

    pub(super) fn get(&self, key: &ResourceKey) -> Option<Entry> {
        self.objects.get(key).map(|item| item.entry.clone())
    }

    pub(super) fn list(&self, scope: &Scope) -> Listing {
        let entries =
            self.objects.iter().filter(|(key, _)| scope.contains(key)).map(|(_, item)| item.entry.clone()).collect();
        Listing { entries, revision: Revision::from_raw(self.revision) }
    }

    pub(super) const fn revision(&self) -> u64 {
        self.revision
    }

    pub(super) const fn compacted(&self) -> u64 {
        self.compacted
    }

    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.expiries.first().map(|(at, _)| *at)
    }

    /// The changes of a scope after a revision, oldest first.
    pub(super) fn changes<'a>(&'a self, scope: &'a Scope, after: u64) -> impl Iterator<Item = &'a WatchEvent> {
        let start = self.log.partition_point(|(revision, _)| *revision <= after);
        self.log
            .range(start..)
            .map(|(_, event)| event)
            .filter(|event| event.key().is_some_and(|key| scope.contains(key)))
    }

    fn admit(&self, write: &Write) -> Result<(), DatastoreError> {
        let current = self.objects.get(&write.key).map(|item| &item.entry);
        write
            .precondition
            .admit(current.map(revision_of), self.is_newer(write.precondition))
            .map_err(|refusal| refusal.into_error(&write.key, current.and_then(|entry| entry.as_ref().ok()).cloned()))
    }

    fn is_newer(&self, precondition: Precondition) -> bool {
        precondition.guard().is_some_and(|(kind, than)| {
            let newer =
                |(key, item): (&ResourceKey, &Item)| key.kind() == kind && revision_of(&item.entry).raw() > than.raw();
            self.objects.iter().any(newer)
        })
    }

    fn would_change(&self, write: &Write) -> bool {
        !matches!(write.change, Change::Delete) || self.objects.contains_key(&write.key)
    }

    fn apply(&mut self, write: Write, now: Instant) -> Committed {
        let revision = Revision::from_raw(self.revision);
        match write.change {
            Change::Delete => Committed { revision, previous: self.remove(&write.key) },
            Change::Put { resource, base, ttl } => {
                let document = document::encode(&resource, base.as_deref());
                // Read back rather than kept, so that every store shows the same object for the same document.
                let entry = document::decode_value(write.key.clone(), document, revision);
                self.store(entry, write.key, ttl.map(|ttl| now + whole_seconds(ttl)));
                Committed { revision, previous: None }
            }
        }
    }

    fn store(&mut self, entry: Entry, key: ResourceKey, expires: Option<Instant>) {
        self.record(WatchEvent::Put(entry.clone()));
        if let Some(at) = expires {
            self.expiries.insert((at, key.clone()));
        }
        if let Some(Item { expires: Some(at), .. }) = self.objects.insert(key.clone(), Item { entry, expires })
            && expires != Some(at)
        {
            self.expiries.remove(&(at, key));
        }
    }

    fn remove(&mut self, key: &ResourceKey) -> Option<Box<Stored>> {
        let item = self.objects.remove(key)?;
        if let Some(at) = item.expires {
            self.expiries.remove(&(at, key.clone()));
        }
        self.record(WatchEvent::Deleted { key: key.clone(), revision: Revision::from_raw(self.revision) });
        item.entry.ok().map(Box::new)
    }

    fn record(&mut self, event: WatchEvent) {
        self.log.push_back((self.revision, event));
        while self.log.len() > self.history {
            if let Some((revision, _)) = self.log.pop_front() {
                self.compacted = revision;
            }
        }
    }
}

fn revision_of(entry: &Entry) -> Revision {
    match entry {
        Ok(stored) => stored.revision,
        Err(bad) => bad.revision,
    }
}

/// Life times are leases of whole seconds, at least one, as etcd's are.
fn whole_seconds(ttl: Duration) -> Duration {
    Duration::from_secs(ttl.as_secs().max(1))
}
