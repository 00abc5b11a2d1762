//! The syncer: keeps a consumer's picture of some scopes of a store complete and current, for ever.
//!
//! Comes in: listings and watch events of any [`Datastore`](crate::Datastore); goes out: [`SyncEvent`]s, of which the updates
//! are [`calico_core::update::Update`]s. [`Merge`] decides (pure), [`Syncer`] asks and waits (async).
//!
//! Invariants: after [`SyncStatus::InSync`](calico_core::update::SyncStatus) the updates delivered so far add up to a state that
//! the store had; a key that vanished while nobody watched is reported absent; a key at the revision already delivered is never
//! delivered again, so a restart that finds nothing changed is silent; an object that cannot be used is absent plus one
//! diagnostic, and nothing else stops for it.

mod backoff;
mod driver;
mod merge;
pub mod scopes;
#[cfg(test)]
mod tests;

pub use driver::{SyncOptions, Syncer};
pub use merge::{Diagnostic, Merge, ScopeId, SyncEvent};
