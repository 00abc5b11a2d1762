//! What an IPAM machine asks of a store, and what it is told back.
//!
//! A commit lists its writes in an order that is safe even for a backend that can only carry them out one after the other: a
//! handle never counts fewer addresses than blocks hold for it, and an affinity is confirmed after its block exists.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::net::Cidr;
use crate::resource::{AffinityOwner, Resource, ResourceKey};

/// A store's revision of one object, as an opaque number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Version(u64);

impl Version {
    /// For drivers: wraps the store's number.
    pub const fn from_raw(value: u64) -> Self {
        Self(value)
    }

    /// For drivers: the store's number back.
    pub const fn raw(self) -> u64 {
        self.0
    }
}

/// A request of a machine.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a driver must carry out each of them")]
pub enum Op {
    /// Read all of these, in any order or at once; answer with [`Outcome::Fetched`].
    Fetch(Vec<Query>),
    /// Carry out all writes or, if a precondition fails, none; answer with [`Outcome::Committed`] or [`Outcome::Conflict`].
    Commit(Vec<Write>),
}

/// One read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "a driver must carry out each of them")]
pub enum Query {
    /// One object.
    Object(ResourceKey),
    /// All pools.
    Pools,
    /// All block affinities of one owner.
    Affinities(AffinityOwner),
    /// All blocks inside a prefix.
    Blocks(Cidr),
}

/// What a read found under one key.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a key is in one of these states")]
pub enum Found {
    /// Nothing.
    Absent,
    /// An object.
    Present {
        /// It.
        resource: Arc<Resource>,
        /// Its revision.
        version: Version,
    },
    /// Something that cannot be read.
    Unreadable {
        /// Field and fault.
        reason: String,
    },
}

/// Answer to one [`Query`].
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "drivers build it with literals")]
pub struct Fetched {
    /// What was asked.
    pub query: Query,
    /// What is there: exactly one entry for [`Query::Object`], any number for the lists.
    pub found: Vec<(ResourceKey, Found)>,
}

/// One write.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "drivers take it apart")]
pub struct Write {
    /// Which object.
    pub key: ResourceKey,
    /// The revision it must have; `None`: it must be absent.
    pub expected: Option<Version>,
    /// The new object; `None`: delete it.
    pub resource: Option<Resource>,
}

/// What came of an [`Op`].
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a machine must understand each of them")]
pub enum Outcome {
    /// One answer per query.
    Fetched(Vec<Fetched>),
    /// All writes took effect.
    Committed,
    /// A precondition failed; nothing was written (or, on a backend without atomic batches, only the first writes).
    Conflict,
}
