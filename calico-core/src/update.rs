//! What the datastore tells the consumers in core, already parsed and in order.

use alloc::sync::Arc;

use crate::resource::{Resource, ResourceKey};

/// New state of one key. `None` means absent: deleted, or stored but unusable (a diagnostic then says why). One thing counts although it
/// is unusable: that a pool is kept out of BGP. See [`Resource::remains`].
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "the vocabulary between syncer and graph: key and value, nothing else")]
pub struct Update {
    /// Which object.
    pub key: ResourceKey,
    /// Its state, shared: 250 000 endpoints are held once.
    pub value: Option<Arc<Resource>>,
}

/// How far the consumer's picture is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "consumers gate the kernel on it and must handle every state")]
pub enum SyncStatus {
    /// No contact with the datastore yet, or lost; what was enforced stays enforced.
    WaitForDatastore,
    /// The snapshot is arriving.
    Resync,
    /// The snapshot is complete; deltas follow.
    InSync,
}
