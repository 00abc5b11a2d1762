//! The trait that every datastore implements.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use calico_core::net::Cidr;
use calico_core::resource::{AffinityOwner, Kind, Resource, ResourceKey};
use calico_core::text::Words;
use serde_json::Value;

use crate::{DatastoreError, Revision};

/// Most operations of a batch. Each write is one, and one more if it is [guarded](Precondition::NothingNewerIn). It is what etcd takes
/// in one transaction unless it is configured otherwise (`max-txn-ops`); every store keeps to it, so that a batch that one of them
/// takes is taken by all.
pub const MAX_BATCH: usize = 128;

/// A store of objects with revisions, compare-and-swap and watches.
///
/// # Contract
/// - A [`Batch`] is atomic: all writes take effect at one revision, or none does. (A backend that cannot promise this for more
///   than one write documents its emulation.) The first write whose precondition fails decides the error.
/// - A commit that returned `Ok` is durable, and every later `get` and `list` of any process sees it.
/// - [`list`](Datastore::list) is a picture at one revision; [`watch`](Datastore::watch) from that revision delivers every later
///   change of the scope, in order, none twice; several writes to one key may be merged into the last only by an explicit
///   [`DatastoreError::TooOld`].
/// - An object that cannot be read does not fail a list or a watch: it is an [`Entry`] with a [`BadObject`].
/// - An object whose document cannot be held exactly ([`Document::inexact`]) is read, but a batch that would write that document back
///   is [`DatastoreError::Inexact`].
/// - [`scan`](Datastore::scan) finds the same as `list`, at one revision too, in any order. If the store forgets that revision before
///   the end, it is [`DatastoreError::TooOld`].
/// - A delete of an absent key that [`Precondition::None`] lets pass changes nothing: no event, no new revision.
/// - A batch that names a key twice, or an object of another kind than its key's, is [`DatastoreError::Refused`]; a key that no
///   store can hold (an empty name, a `/` in a name) is [`DatastoreError::InvalidKey`].
/// - A batch of more than [`MAX_BATCH`] operations is [`DatastoreError::TooLarge`], before anything is sent. Whoever has more to write
///   makes several batches, where it need not be atomic.
/// - `metadata.resourceVersion` is never stored; [`Stored::revision`] is the one truth.
/// - Methods may be called from many tasks at once; dropping a future cancels the wait, not necessarily the write.
#[async_trait]
pub trait Datastore: Send + Sync {
    /// One object. [`DatastoreError::NotFound`] when absent, [`DatastoreError::Unreadable`] when malformed.
    async fn get(&self, key: &ResourceKey) -> Result<Stored, DatastoreError>;

    /// All objects of a scope, sorted by key, at one revision.
    async fn list(&self, scope: &Scope) -> Result<Listing, DatastoreError>;

    /// The same objects bit by bit, for who keeps less of them than [`list`](Self::list) returns. A store that can read a part without
    /// the rest has its own; this one lists.
    async fn scan(&self, scope: &Scope) -> Result<Box<dyn Scan>, DatastoreError> {
        let Listing { entries, revision } = self.list(scope).await?;
        Ok(Box::new(Whole { entries: Some(entries), revision }))
    }

    /// Carries out all writes, or none. Answers with one [`Committed`] per write, in order.
    async fn commit(&self, batch: Batch) -> Result<Vec<Committed>, DatastoreError>;

    /// Changes of a scope after `from`.
    async fn watch(&self, scope: &Scope, from: Revision) -> Result<Box<dyn Watch>, DatastoreError>;
}

/// A running watch.
#[async_trait]
pub trait Watch: Send {
    /// The next change. After an error the watch is over; [`DatastoreError::TooOld`] and a lost connection both mean: list again,
    /// compare, and watch from there. Cancel safe.
    async fn next(&mut self) -> Result<WatchEvent, DatastoreError>;
}

/// A listing that is read bit by bit.
#[async_trait]
pub trait Scan: Send {
    /// The revision of the picture: watch from here.
    fn revision(&self) -> Revision;

    /// More of it; `None` after the last. After an error the scan is over.
    async fn next(&mut self) -> Result<Option<Vec<Entry>>, DatastoreError>;
}

/// A listing that was read at once.
struct Whole {
    entries: Option<Vec<Entry>>,
    revision: Revision,
}

#[async_trait]
impl Scan for Whole {
    fn revision(&self) -> Revision {
        self.revision
    }

    async fn next(&mut self) -> Result<Option<Vec<Entry>>, DatastoreError> {
        Ok(self.entries.take())
    }
}

/// Which objects.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scope {
    /// Every object the model knows.
    All,
    /// All of one kind.
    Kind(Kind),
    /// All of one namespaced kind in one namespace.
    Namespace {
        /// Kind.
        kind: Kind,
        /// Namespace.
        namespace: Arc<str>,
    },
    /// One object.
    Key(ResourceKey),
    /// The block affinities of one owner.
    AffinitiesOf(AffinityOwner),
    /// Blocks that lie inside a prefix.
    BlocksWithin(Cidr),
}

impl Scope {
    /// Whether a key belongs to it.
    pub fn contains(&self, key: &ResourceKey) -> bool {
        match self {
            Self::All => true,
            Self::Kind(kind) => key.kind() == *kind,
            Self::Namespace { kind, namespace } => key.kind() == *kind && key.namespace() == Some(namespace),
            Self::Key(wanted) => key == wanted,
            Self::AffinitiesOf(wanted) => matches!(key, ResourceKey::Affinity { owner, .. } if owner == wanted),
            Self::BlocksWithin(cidr) => matches!(key, ResourceKey::Block(block) if cidr.covers(block)),
        }
    }
}

/// A document as it was read from a store, or as it is to be stored. Its text may stay text until somebody asks what is in it: who
/// follows a whole cluster never does.
#[derive(Clone, Default)]
pub struct Document {
    value: OnceLock<Value>,
    /// What is stored, where there is no value yet (then it is JSON in order throughout), or where the value says something else.
    text: Box<[u8]>,
    inexact: Option<Box<str>>,
}

impl Document {
    /// A document of which this is the text, which must be JSON that a [`Value`] holds exactly.
    pub(crate) fn of_text(text: Box<[u8]>) -> Self {
        Self { text, ..Self::default() }
    }

    /// A document whose value is what is stored, but of which this would not be written back.
    pub(crate) fn partial(value: Value, reason: String) -> Self {
        Self::rounded(value, reason, &[])
    }

    /// A document that was read from this text, and of which this is not as it is stored there.
    pub(crate) fn rounded(value: Value, reason: String, text: &[u8]) -> Self {
        Self { value: value.into(), text: text.into(), inexact: Some(reason.into()) }
    }

    /// What of it is not as it is stored: a number that was rounded, text that is no Unicode, what is nested too deep. Whoever wrote it
    /// back would change that for good, so no store takes it as the base of a write.
    pub fn inexact(&self) -> Option<&str> {
        self.inexact.as_deref()
    }

    /// The bytes that are stored, where the value says something else than they do.
    pub fn text(&self) -> Option<&[u8]> {
        Some(&*self.text).filter(|text| self.inexact.is_some() && !text.is_empty())
    }

    /// The document alone.
    pub fn into_value(self) -> Value {
        let Self { value, text, .. } = self;
        value.into_inner().unwrap_or_else(|| parsed(&text))
    }
}

/// The value of a document's text: who made it one has read the text as JSON.
fn parsed(text: &[u8]) -> Value {
    serde_json::from_slice(text).unwrap_or_default()
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Document").field("value", &**self).field("inexact", &self.inexact).finish()
    }
}

impl PartialEq for Document {
    fn eq(&self, other: &Self) -> bool {
        **self == **other && self.inexact == other.inexact
    }
}

impl From<Value> for Document {
    fn from(value: Value) -> Self {
        Self { value: value.into(), ..Self::default() }
    }
}

impl Deref for Document {
    type Target = Value;

    fn deref(&self) -> &Value {
        self.value.get_or_init(|| parsed(&self.text))
    }
}

/// An object as stored.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Stored {
    /// Its key.
    pub key: ResourceKey,
    /// The typed view.
    pub resource: Arc<Resource>,
    /// The document it was read from, with the fields that the typed view does not know.
    pub raw: Arc<Document>,
    /// Its revision.
    pub revision: Revision,
}

impl Stored {
    /// For stores.
    pub const fn new(key: ResourceKey, resource: Arc<Resource>, raw: Arc<Document>, revision: Revision) -> Self {
        Self { key, resource, raw, revision }
    }

    /// Makes what it says one with what others say, unless somebody else has the object, too.
    pub(crate) fn share(&mut self, words: &mut Words) {
        self.key.share(words);
        if let Some(resource) = Arc::get_mut(&mut self.resource) {
            resource.share(words);
        }
    }
}

/// An object that is stored but cannot be used.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "stores build it with literals")]
pub struct BadObject {
    /// Its key.
    pub key: ResourceKey,
    /// Its revision.
    pub revision: Revision,
    /// Field and fault, for an operator.
    pub reason: String,
    /// What of it counts all the same ([`Resource::remains`]).
    pub remains: Option<Arc<Resource>>,
    /// What is stored, as it lies there.
    pub text: Arc<[u8]>,
}

impl BadObject {
    /// The document, if what is stored is JSON at least.
    pub fn document(&self) -> Option<Document> {
        crate::document::parse(self.key.kind(), &self.text).ok()
    }
}

/// A stored object, usable or not.
pub type Entry = Result<Stored, BadObject>;

/// The key of a stored object, usable or not.
pub(crate) const fn entry_key(entry: &Entry) -> &ResourceKey {
    match entry {
        Ok(stored) => &stored.key,
        Err(bad) => &bad.key,
    }
}

/// A picture of a scope.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "stores build it with literals")]
pub struct Listing {
    /// The objects, sorted by key.
    pub entries: Vec<Entry>,
    /// The revision of the picture: watch from here.
    pub revision: Revision,
}

impl Write {
    /// Stores a new object.
    pub fn create(key: ResourceKey, resource: Arc<Resource>) -> Self {
        Self::put(key, Precondition::Absent, resource, None)
    }

    /// Replaces an object that was read; fields that the typed view does not know are carried over.
    pub fn update(read: &Stored, resource: Arc<Resource>) -> Self {
        Self::put(read.key.clone(), Precondition::At(read.revision), resource, Some(Arc::clone(&read.raw)))
    }

    /// Stores an object, without life time.
    pub const fn put(
        key: ResourceKey,
        precondition: Precondition,
        resource: Arc<Resource>,
        base: Option<Arc<Document>>,
    ) -> Self {
        Self { key, precondition, change: Change::Put { resource, base, ttl: None } }
    }

    /// Deletes an object.
    pub const fn delete(key: ResourceKey, precondition: Precondition) -> Self {
        Self { key, precondition, change: Change::Delete }
    }
}

impl From<Write> for Batch {
    fn from(write: Write) -> Self {
        Self { writes: vec![write] }
    }
}

impl From<Vec<Write>> for Batch {
    fn from(writes: Vec<Write>) -> Self {
        Self { writes }
    }
}

/// Writes that take effect together.
#[derive(Debug, Clone, PartialEq, Default)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals")]
pub struct Batch {
    /// The writes; no key twice.
    pub writes: Vec<Write>,
}

/// One write.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals")]
pub struct Write {
    /// Which object.
    pub key: ResourceKey,
    /// What must hold first.
    pub precondition: Precondition,
    /// What to do.
    pub change: Change,
}

/// What must hold for a write to take effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "every store must honour each of them")]
pub enum Precondition {
    /// The key is absent; else [`DatastoreError::AlreadyExists`].
    Absent,
    /// The key is present at this revision; else [`DatastoreError::Conflict`], or [`DatastoreError::NotFound`] if it is absent.
    At(Revision),
    /// The key is present; else [`DatastoreError::NotFound`].
    Present,
    /// Nothing of this kind was created or changed after this revision, that of a listing; else [`DatastoreError::Conflict`] of the
    /// key written. Deletions do not count. Of a key that the listing did not have it says that the key is absent, too. So what
    /// depends on all objects of a kind (no two pools overlap) can be checked against the listing, and written only if it still holds.
    NothingNewerIn(Kind, Revision),
    /// Nothing.
    None,
}

/// What a write does.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "every store must carry out each of them")]
pub enum Change {
    /// Stores the object.
    Put {
        /// The typed object.
        resource: Arc<Resource>,
        /// The document that the caller read, if it did: fields there that the typed view does not know are carried over.
        base: Option<Arc<Document>>,
        /// Life time, after which the store deletes the key by itself (rounded down to whole seconds, at least one).
        ttl: Option<Duration>,
    },
    /// Deletes it.
    Delete,
}

/// Outcome of one write.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "stores build it with literals")]
pub struct Committed {
    /// The revision at which it took effect.
    pub revision: Revision,
    /// What a delete removed, if it could be read.
    pub previous: Option<Box<Stored>>,
}

/// One change, as a watch reports it.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "the syncer must handle each of them")]
pub enum WatchEvent {
    /// Created or changed.
    Put(Entry),
    /// Deleted, or expired.
    Deleted {
        /// Which.
        key: ResourceKey,
        /// When.
        revision: Revision,
    },
    /// Nothing up to this revision beyond what was delivered.
    Progress(Revision),
}

impl WatchEvent {
    /// The key it is about, unless it is mere progress.
    pub const fn key(&self) -> Option<&ResourceKey> {
        match self {
            Self::Put(Ok(stored)) => Some(&stored.key),
            Self::Put(Err(bad)) => Some(&bad.key),
            Self::Deleted { key, .. } => Some(key),
            Self::Progress(_) => None,
        }
    }

    /// The revision it happened at.
    pub const fn revision(&self) -> Revision {
        match self {
            Self::Put(Ok(stored)) => stored.revision,
            Self::Put(Err(bad)) => bad.revision,
            Self::Deleted { revision, .. } | Self::Progress(revision) => *revision,
        }
    }
}
