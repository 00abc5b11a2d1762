//! Fetch and store: one [`Datastore`] trait over the objects of `calico-core`, and what is built on it.

mod error;
pub mod ipam;
mod revision;
mod store;

pub use error::DatastoreError;
pub use revision::Revision;
pub use store::{
    BadObject, Batch, Change, Committed, Datastore, Entry, Listing, Precondition, Scope, Stored, Watch, WatchEvent,
    Write,
};
