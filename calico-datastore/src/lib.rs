//! Fetch and store: one [`Datastore`] trait over the objects of `calico-core`, and what is built on it.
//!
//! | Module | What it is |
//! |---|---|
//! | [`Datastore`] | the trait; its documentation is the contract |
//! | [`memory`] | the reference store, with faults on demand |
//! | `sqlite` (feature) | the embedded store: one file, several processes |
//! | `etcd` (feature) | etcd v3, with upstream's keys and JSON |
//! | [`sync`] | follows a store for ever: listings and watches merged into ordered updates |
//! | [`client`] | what operators' tools and the agent write through: defaults, identity, protection of built-in objects |
//! | [`ipam`] | addresses out of pools, over any store |
//! | `testing` (feature) | the conformance suite that every store passes |
#![forbid(unsafe_code)]

mod clock;
mod document;
mod error;
mod key;
mod precondition;
mod revision;
mod store;

pub mod client;
#[cfg(feature = "etcd")]
pub mod etcd;
pub mod ipam;
pub mod memory;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod sync;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use clock::{Clock, IdSource, SystemClock, SystemIds};
pub use error::DatastoreError;
pub use revision::Revision;
pub use store::{
    BadObject, Batch, Change, Committed, Datastore, Entry, Listing, Precondition, Scope, Stored, Watch, WatchEvent,
    Write,
};
