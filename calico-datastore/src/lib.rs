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
//! | [`model`] | keys of upstream's older model: Felix' status, and what Typha and confd say |
//! | `testing` (feature) | the conformance suite that every store passes |
//!
//! A store, a client that writes through it, and a syncer that follows it:
//!
//! ```
//! use std::sync::Arc;
//!
//! use calico_core::resource::Kind;
//! use calico_core::update::SyncStatus;
//! use calico_datastore::client::Client;
//! use calico_datastore::memory::MemoryStore;
//! use calico_datastore::sync::{SyncEvent, SyncOptions, Syncer};
//! use calico_datastore::{Scope, SystemClock, SystemIds};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let store = Arc::new(MemoryStore::new());
//! let client = Client::new(store.clone(), Arc::new(SystemClock), Arc::new(SystemIds::open()?));
//! client.initialise().await?;
//!
//! let mut syncer = Syncer::start(store, vec![Scope::Kind(Kind::Tier)], SyncOptions::default());
//! let mut tiers = 0;
//! loop {
//!     match syncer.next().await {
//!         Some(SyncEvent::Updates(updates)) => tiers += updates.len(),
//!         Some(SyncEvent::Status(SyncStatus::InSync)) | None => break,
//!         Some(_) => {}
//!     }
//! }
//! assert_eq!(tiers, 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod clock;
mod document;
mod error;
mod etcd_config;
mod key;
mod lenient;
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
pub use etcd_config::{Discovery, EtcdConfig, Pem, TlsLimits, TlsSuite, TlsVersion};
pub use key::{model, path};
pub use revision::Revision;
pub use store::{
    BadObject, Batch, Change, Committed, Datastore, Document, Entry, Listing, MAX_BATCH, Precondition, Scan, Scope,
    Stored, Watch, WatchEvent, Write,
};
