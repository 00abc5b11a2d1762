//! Carries out what core's IPAM machines ask for.
//!
//! Reads of one step run at once; a commit is one batch. Where the backend's batches are atomic, block, handle and affinity change
//! together or not at all; elsewhere the order of the writes keeps the invariants (see `calico_core::ipam`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use calico_core::ipam::{
    Assign, Assigned, Fetched, Found, HeldBy, Machine, Op, Outcome, Query, ReleaseAddresses, ReleaseHandle, Released,
    Request, Step, Version, Write as IpamWrite,
};
use calico_core::resource::{Kind, ResourceKey};
use futures_util::future::try_join_all;

use super::{Ipam, IpamFailure};
use crate::{Batch, Change, Datastore, DatastoreError, Entry, Listing, Precondition, Revision, Scope, Stored, Write};

/// Conflicts in a row that are retried at once: the first few nearly always end it.
const PATIENCE: u32 = 3;
/// Longest pause after a conflict, in microseconds, as a power of two (33 ms).
const LONGEST_PAUSE: u32 = 15;

/// IPAM over a datastore.
pub struct StoreIpam {
    store: Arc<dyn Datastore>,
    seed: u64,
    one_by_one: bool,
}

impl StoreIpam {
    /// IPAM over `store`. The seed spreads the pauses after conflicts; different processes should have different ones.
    pub const fn new(store: Arc<dyn Datastore>, seed: u64) -> Self {
        Self { store, seed, one_by_one: false }
    }

    /// Reads one object after the other instead of those of a step at once. Faster where the store is a local file and the process
    /// lives for milliseconds: it opens one connection and one thread, not several.
    #[must_use]
    pub fn reading_one_by_one(self) -> Self {
        Self { one_by_one: true, ..self }
    }

    async fn run<R: Request>(&self, request: R) -> Result<R::Output, IpamFailure> {
        let mut machine = Machine::new(request);
        let mut seen = Seen::default();
        loop {
            let op = match machine.poll() {
                Step::Do(op) => op,
                Step::Done(result) => return Ok(result?),
            };
            let outcome = match op {
                Op::Fetch(queries) => {
                    let answers = self.fetch_all(queries).await?;
                    Outcome::Fetched(answers.into_iter().map(|answer| seen.note(answer)).collect())
                }
                Op::Commit(writes) => self.commit(&seen, writes).await?,
            };
            let conflict = outcome == Outcome::Conflict;
            if let Some(output) = machine.handle_outcome(outcome) {
                return Ok(output);
            }
            if conflict && machine.conflicts() > PATIENCE {
                tokio::time::sleep(pause(self.seed, machine.conflicts())).await;
            }
        }
    }

    async fn fetch_all(&self, queries: Vec<Query>) -> Result<Vec<(Query, Vec<Entry>)>, DatastoreError> {
        if !self.one_by_one {
            return try_join_all(queries.into_iter().map(|query| self.fetch(query))).await;
        }
        let mut answers = Vec::with_capacity(queries.len());
        for query in queries {
            answers.push(self.fetch(query).await?);
        }
        Ok(answers)
    }

    async fn fetch(&self, query: Query) -> Result<(Query, Vec<Entry>), DatastoreError> {
        let listing = match &query {
            Query::Object(key) => {
                let entries = Vec::from_iter(self.object(key).await?);
                return Ok((query, entries));
            }
            Query::Pools => self.store.list(&Scope::Kind(Kind::IpPool)).await?,
            Query::Affinities(owner) => self.store.list(&Scope::AffinitiesOf(owner.clone())).await?,
            Query::Blocks(prefix) => self.store.list(&Scope::BlocksWithin(*prefix)).await?,
        };
        let Listing { entries, .. } = listing;
        Ok((query, entries))
    }

    async fn object(&self, key: &ResourceKey) -> Result<Option<Entry>, DatastoreError> {
        match self.store.get(key).await {
            Ok(stored) => Ok(Some(Ok(stored))),
            Err(DatastoreError::Unreadable { key, reason }) => Ok(Some(Err(crate::BadObject {
                key,
                revision: Revision::from_raw(0),
                reason,
                remains: None,
                text: Arc::default(),
            }))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn commit(&self, seen: &Seen, writes: Vec<IpamWrite>) -> Result<Outcome, DatastoreError> {
        let writes = writes.into_iter().map(|write| seen.write(write)).collect();
        match self.store.commit(Batch { writes }).await {
            Ok(_) => Ok(Outcome::Committed),
            // Not found: the object that was to be replaced or deleted is gone.
            Err(error) if error.is_conflict() || error.is_not_found() => Ok(Outcome::Conflict),
            Err(error) => Err(error),
        }
    }
}

#[async_trait]
impl Ipam for StoreIpam {
    async fn assign(&self, request: Assign) -> Result<Vec<Assigned>, IpamFailure> {
        self.run(request).await
    }

    async fn release_handle(&self, request: ReleaseHandle) -> Result<Released, IpamFailure> {
        self.run(request).await
    }

    async fn release_addresses(&self, request: ReleaseAddresses) -> Result<Released, IpamFailure> {
        self.run(request).await
    }

    async fn held_by(&self, request: HeldBy) -> Result<Vec<Assigned>, IpamFailure> {
        self.run(request).await
    }
}

/// The documents that were read, so that fields which the typed view does not know survive a write.
#[derive(Default)]
struct Seen {
    objects: BTreeMap<ResourceKey, Stored>,
}

impl Seen {
    fn note(&mut self, (query, entries): (Query, Vec<Entry>)) -> Fetched {
        let mut found: Vec<_> = entries.into_iter().map(|entry| self.entry(entry)).collect();
        if let Query::Object(key) = &query
            && found.is_empty()
        {
            found.push((key.clone(), Found::Absent));
        }
        Fetched { query, found }
    }

    fn entry(&mut self, entry: Entry) -> (ResourceKey, Found) {
        match entry {
            Ok(stored) => {
                let version = Version::from_raw(stored.revision.raw());
                let found = Found::Present { resource: stored.resource.clone(), version };
                let key = stored.key.clone();
                self.objects.insert(key.clone(), stored);
                (key, found)
            }
            Err(bad) => (bad.key, Found::Unreadable { reason: bad.reason }),
        }
    }

    fn write(&self, IpamWrite { key, expected, resource }: IpamWrite) -> Write {
        let revision = expected.map(|version| Revision::from_raw(version.raw()));
        let base = self.objects.get(&key).filter(|stored| Some(stored.revision) == revision);
        let base = base.map(|stored| stored.raw.clone());
        Write {
            precondition: revision.map_or(Precondition::Absent, Precondition::At),
            change: resource.map_or(Change::Delete, |resource| Change::Put {
                resource: Arc::new(resource),
                base,
                ttl: None,
            }),
            key,
        }
    }
}

/// A pause that doubles with every conflict up to a bound, of which a pseudo-random half to whole is taken: those who collided
/// come back at different times.
fn pause(seed: u64, conflicts: u32) -> Duration {
    let longest = 1_u64 << (conflicts + 6).min(LONGEST_PAUSE);
    let mixed = (seed ^ u64::from(conflicts)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Duration::from_micros(longest / 2 + (mixed >> 32) % (longest / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_differ_by_seed() {
        assert!(pause(1, 4) < pause(1, 20));
        assert!(pause(7, 100) <= Duration::from_millis(33));
        assert_ne!(pause(1, 9), pause(2, 9));
    }
}
