//! What tools and the agent write through: upstream's `clientv3` over any [`Datastore`].
//!
//! Comes in: objects as a user means them; goes out: objects as the cluster needs them. On top of a plain store it gives a new
//! object its identity and time of creation, fills defaults, refuses what would break the rest (a policy in a tier that does not
//! exist, a peer with a filter that does not, overlapping pools, the deletion of a tier in use), and shows and protects the built-in
//! profile. The rules of single kinds are in `rules`.
//!
//! The v3 `IPAMConfiguration` is stored like any other object, and IPAM does not look at it: with etcd, upstream's IPAM goes by
//! `/calico/ipam/v2/config` alone, and so do we with every store. Nothing copies the one to the other.
//!
//! Invariants: nothing is written unless all checks pass; what was read is written back only at the revision read; fields that
//! the typed view does not know survive.

mod claims;
mod error;
mod former;
mod initial;
mod mend;
mod node;
mod pool;
mod rehearsal;
mod rules;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use calico_core::resource::{Fault, Kind, Resource, ResourceKey, merge_newer};
use serde_json::Value;

pub use self::error::ClientError;
pub use self::rehearsal::{Intent, Rehearsal, Rehearsed};
use crate::Datastore;
use crate::{Clock, DatastoreError, Document, IdSource, Listing, Revision, Scope, Stored, Write, document};

/// How often a write is tried again that lost to another writer, when the caller named no revision.
const ATTEMPTS: usize = 10;

/// An object to write.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals")]
pub struct Draft {
    /// The object.
    pub resource: Resource,
    /// The user's whole document, where there is one: fields that the model only carries are taken from it.
    pub document: Option<Value>,
}

impl From<Resource> for Draft {
    fn from(resource: Resource) -> Self {
        Self { resource, document: None }
    }
}

/// What [`Client::apply`] did.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "an object is new, changed or as it was")]
pub enum Applied {
    /// The object is new.
    Created(Stored),
    /// The object was there and has changed.
    Updated(Stored),
    /// The object was there, exactly so: nothing was written.
    Unchanged(Stored),
}

impl Applied {
    /// The object as it is stored now.
    pub fn into_stored(self) -> Stored {
        match self {
            Self::Created(stored) | Self::Updated(stored) | Self::Unchanged(stored) => stored,
        }
    }
}

/// The typed client. Clones share the store.
#[derive(Clone)]
pub struct Client {
    store: Arc<dyn Datastore>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
}

impl Client {
    /// A client of a store, with the clock and the random source for new objects.
    pub fn new(store: Arc<dyn Datastore>, clock: Arc<dyn Clock>, ids: Arc<dyn IdSource>) -> Self {
        Self { store, clock, ids }
    }

    /// The store beneath.
    pub fn store(&self) -> &Arc<dyn Datastore> {
        &self.store
    }

    /// One object, with its revision in the metadata. A claim of a block that is marked deleted is not found, but listed.
    pub async fn get(&self, key: &ResourceKey) -> Result<Stored, ClientError> {
        if rules::is_built_in(key) {
            return Ok(rules::built_in_profile());
        }
        let stored = self.read(key).await?;
        match &*stored.resource {
            Resource::ApiBlockAffinity(claim) if claim.spec.deleted.0 => {
                Err(DatastoreError::NotFound { key: key.clone() }.into())
            }
            _ => Ok(shown(stored)),
        }
    }

    /// All objects of a scope, sorted by key, each with its revision in the metadata. Profiles include the built-in one.
    pub async fn list(&self, scope: &Scope) -> Result<Listing, ClientError> {
        let mut listing = self.store.list(scope).await?;
        listing.entries = listing.entries.into_iter().map(|entry| entry.map(shown)).collect();
        rules::add_built_in(scope, &mut listing);
        Ok(listing)
    }

    /// Stores a new object.
    pub async fn create(&self, draft: impl Into<Draft> + Send) -> Result<Stored, ClientError> {
        let Draft { mut resource, document } = draft.into();
        refuse_revision(&resource)?;
        resource.fill_defaults()?;
        let key = key_of(&resource)?;
        if rules::is_built_in(&key) {
            return Err(DatastoreError::AlreadyExists { key, current: None }.into());
        }
        if let Some(former) = self.former(&key).await? {
            let key = former.key.clone();
            return Err(DatastoreError::AlreadyExists { key, current: Some(Box::new(former)) }.into());
        }
        if key.kind() == Kind::Node {
            // As upstream: where only hosts are protected, a node is the first thing that an operator makes.
            self.initialise().await?;
        }
        self.identify(&mut resource);
        let (resource, base) = (Arc::new(resource), document.map(|document| Arc::new(document.into())));
        let mut attempts = 0..ATTEMPTS;
        loop {
            let precondition = rules::before_create(&*self.store, &resource, &rehearsal::Made::default()).await?;
            let write = Write::put(key.clone(), precondition, Arc::clone(&resource), base.clone());
            match self.write(key.clone(), write).await {
                // Not the key but what was checked has changed: check anew.
                Err(ClientError::Store(DatastoreError::Conflict { .. }))
                    if precondition.guard().is_some() && attempts.next().is_some() => {}
                other => return other,
            }
        }
    }

    /// Replaces an object. With a revision in its metadata, only that one; without, whatever is there. Writing what is there
    /// already changes nothing, not even the revision.
    pub async fn update(&self, draft: impl Into<Draft> + Send) -> Result<Stored, ClientError> {
        let draft = Prepared::new(draft.into())?;
        let mut attempts = attempts(draft.revision);
        loop {
            let read = self.read_for_update(&draft.key).await?;
            match self.replace(&draft, read).await {
                Err(error) if error.is_conflict() && attempts.next().is_some() => {}
                other => return other.map(Applied::into_stored),
            }
        }
    }

    /// Creates an object or, if it is there, replaces it.
    pub async fn apply(&self, draft: impl Into<Draft> + Send) -> Result<Applied, ClientError> {
        let draft = Prepared::new(draft.into())?;
        let mut attempts = attempts(draft.revision);
        loop {
            let done = match self.read_for_update(&draft.key).await {
                Ok(read) => self.replace(&draft, read).await,
                Err(error) if error.is_not_found() => self.create(draft.fresh()).await.map(Applied::Created),
                Err(error) => Err(error),
            };
            match done {
                Err(error) if error.is_conflict() && attempts.next().is_some() => {}
                other => return other,
            }
        }
    }

    /// Deletes an object, at a revision or whatever is there, and what cannot be without it: what is a node's own, a pool's claims.
    /// Answers with what was deleted, if it could be read.
    pub async fn delete(&self, key: &ResourceKey, revision: Option<Revision>) -> Result<Option<Stored>, ClientError> {
        rules::before_delete(&*self.store, key, &BTreeSet::new()).await?;
        let key = &self.place(key).await?;
        let mut attempts = attempts(revision);
        loop {
            match self.delete_with_its_own(key, revision).await {
                Err(error) if error.is_conflict() && attempts.next().is_some() => {}
                other => return other,
            }
        }
    }

    /// First what cannot be without the object, then the object.
    async fn delete_with_its_own(
        &self,
        key: &ResourceKey,
        revision: Option<Revision>,
    ) -> Result<Option<Stored>, ClientError> {
        let revision = match key.kind() {
            Kind::IpPool => pool::retire(&*self.store, key, revision).await?,
            Kind::Node => {
                self.expect_revision(key, revision).await?;
                self.retire_node(key).await?;
                revision
            }
            _ => revision,
        };
        let precondition = revision.map_or(crate::Precondition::Present, crate::Precondition::At);
        let committed = self.store.commit(Write::delete(key.clone(), precondition).into()).await?;
        Ok(committed.into_iter().next().and_then(|one| one.previous).map(|previous| shown(*previous)))
    }

    /// Refuses before anything is deleted what the deletion itself would be refused for in the end.
    async fn expect_revision(&self, key: &ResourceKey, wanted: Option<Revision>) -> Result<(), ClientError> {
        let Some(wanted) = wanted else { return Ok(()) };
        let listing = self.store.list(&Scope::Key(key.clone())).await?;
        match listing.entries.into_iter().next() {
            None => Err(DatastoreError::NotFound { key: key.clone() }.into()),
            Some(Ok(read)) => conflict_unless(Some(wanted), &read),
            Some(Err(bad)) if bad.revision == wanted => Ok(()),
            Some(Err(_)) => Err(DatastoreError::Conflict { key: key.clone(), current: None }.into()),
        }
    }

    /// Reads what an update starts from.
    async fn read_for_update(&self, key: &ResourceKey) -> Result<Stored, ClientError> {
        if rules::is_built_in(key) {
            return Ok(rules::built_in_profile());
        }
        let read = self.read(key).await?;
        not_anothers(key, &read).map(|()| read)
    }

    /// Writes the draft over what was read.
    async fn replace(&self, draft: &Prepared, read: Stored) -> Result<Applied, ClientError> {
        rules::before_write(&*self.store, &draft.draft.resource, &rehearsal::Made::default()).await?;
        match draft.replacement(&read)?.write {
            Some(write) => self.write(read.key, write).await.map(Applied::Updated),
            None => Ok(Applied::Unchanged(shown(read))),
        }
    }

    async fn write(&self, key: ResourceKey, write: Write) -> Result<Stored, ClientError> {
        let document = mend::stored_by(&write);
        let committed = self.store.commit(write.into()).await?;
        let revision = committed.first().map_or(Revision::from_raw(0), |one| one.revision);
        Ok(shown(document::readable(document::decode_value(key, document, revision))?))
    }

    /// Gives a new object its identity and time of creation, unless it brings them.
    fn identify(&self, resource: &mut Resource) {
        if let Some(metadata) = resource.metadata_mut() {
            metadata.uid.get_or_insert_with(|| uuid(self.ids.draw()));
            metadata.creation_timestamp.get_or_insert_with(|| self.clock.now().rfc3339());
        }
    }
}

/// A draft that is to replace an object, checked as far as it goes without the store.
struct Prepared {
    draft: Draft,
    key: ResourceKey,
    /// The revision that the caller named.
    revision: Option<Revision>,
}

/// How a draft is to replace an object.
struct Replacement {
    /// The write; none if the object is so already.
    write: Option<Write>,
    /// Fields of the stored object that no part of the model knows and that the write removes.
    lost: Vec<String>,
    /// What is stored then.
    after: Value,
}

impl Prepared {
    fn new(mut draft: Draft) -> Result<Self, ClientError> {
        draft.resource.fill_defaults()?;
        let key = key_of(&draft.resource)?;
        let revision = named_revision(&draft.resource)?;
        Ok(Self { draft, key, revision })
    }

    /// What makes the draft of what was read.
    fn replacement(&self, read: &Stored) -> Result<Replacement, ClientError> {
        let Draft { mut resource, document } = self.draft.clone();
        conflict_unless(self.revision, read)?;
        keep_identity(&mut resource, &read.resource);
        rules::before_update(&read.resource, &resource)?;
        let (base, lost) = match document {
            Some(document) => {
                if document.get("status").is_none() {
                    resource.keep_status(&read.resource);
                }
                let merged = merge_newer(resource.kind(), &read.raw, document);
                (Arc::new(merged.document.into()), merged.lost)
            }
            None => (Arc::clone(&read.raw), Vec::new()),
        };
        let after = document::encode(&resource, Some(&*base));
        if after == **read.raw {
            return Ok(Replacement { write: None, lost, after });
        }
        document::exact(&read.key, &read.raw)?;
        if rules::is_built_in(&read.key) {
            return Err(rules::protected("Update", &read.key));
        }
        let mut write = Write::update(read, Arc::new(resource));
        set_base(&mut write, Some(base));
        Ok(Replacement { write: Some(write), lost, after })
    }

    /// As a new object.
    fn fresh(&self) -> Draft {
        let mut draft = self.draft.clone();
        if let Some(metadata) = draft.resource.metadata_mut() {
            metadata.resource_version = None;
        }
        draft
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

/// Further tries after losing to another writer: none if the caller named the revision.
const fn attempts(revision: Option<Revision>) -> std::ops::Range<usize> {
    0..if revision.is_some() { 0 } else { ATTEMPTS }
}

fn key_of(resource: &Resource) -> Result<ResourceKey, ClientError> {
    resource.key().ok_or_else(|| {
        let named = resource.metadata().is_some_and(|metadata| !metadata.name.is_empty());
        Fault::missing(if named { "metadata.namespace" } else { "metadata.name" }).into()
    })
}

/// Refuses to write over an object that lies under the key and that users see under another.
fn not_anothers(key: &ResourceKey, read: &Stored) -> Result<(), ClientError> {
    match read.resource.key().filter(|shown| read.key == *key && shown != key) {
        Some(shown) => Err(rules::taken(key, &shown)),
        None => Ok(()),
    }
}

/// A new object has no revision yet.
fn refuse_revision(resource: &Resource) -> Result<(), ClientError> {
    match resource.metadata().and_then(|metadata| metadata.resource_version.clone()) {
        Some(version) => {
            let reason = "field must not be set for a Create request";
            Err(Fault::value("metadata.resourceVersion", Some(version), reason).into())
        }
        None => Ok(()),
    }
}

/// A conflict if what was read is at another revision than the caller named.
fn conflict_unless(wanted: Option<Revision>, read: &Stored) -> Result<(), ClientError> {
    match wanted {
        Some(wanted) if wanted != read.revision => {
            Err(DatastoreError::Conflict { key: read.key.clone(), current: Some(Box::new(read.clone())) }.into())
        }
        _ => Ok(()),
    }
}

/// The revision that a draft names.
fn named_revision(resource: &Resource) -> Result<Option<Revision>, ClientError> {
    let Some(text) = resource.metadata().and_then(|metadata| metadata.resource_version.as_deref()) else {
        return Ok(None);
    };
    match text.parse() {
        Ok(revision) => Ok(Some(Revision::from_raw(revision))),
        Err(_) => {
            let reason = "not a revision of this datastore: leave it out, or read the object again";
            Err(Fault::value("metadata.resourceVersion", Some(text.to_owned()), reason).into())
        }
    }
}

/// Identity and time of creation stay what they were.
fn keep_identity(resource: &mut Resource, read: &Resource) {
    if let (Some(metadata), Some(old)) = (resource.metadata_mut(), read.metadata()) {
        metadata.uid = old.uid.clone().or_else(|| metadata.uid.take());
        metadata.creation_timestamp = old.creation_timestamp.clone().or_else(|| metadata.creation_timestamp.take());
    }
}

fn set_base(write: &mut Write, wanted: Option<Arc<Document>>) {
    if let crate::Change::Put { base, .. } = &mut write.change {
        *base = wanted;
    }
}

/// With the revision in the metadata and a policy's tier among its labels, as users see it. The document beside stays what is stored.
fn shown(mut stored: Stored) -> Stored {
    let resource = Arc::make_mut(&mut stored.resource);
    resource.fill_shown();
    if let Some(metadata) = resource.metadata_mut() {
        metadata.resource_version = Some(stored.revision.to_string());
    }
    stored
}

/// The digits of an RFC 4122 identifier of version 4, from random bits.
fn uuid_digits(bits: u128) -> String {
    let bits = bits & !(0xf << 76) | (4 << 76);
    let bits = bits & !(0b11 << 62) | (0b10 << 62);
    format!("{bits:032x}")
}

/// The same in its usual form.
fn uuid(bits: u128) -> String {
    let digits = uuid_digits(bits);
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}
