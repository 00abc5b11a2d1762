//! IP address management: pools, blocks, affinities and handles, decided without I/O.
//!
//! Upstream's scheme (`libcalico-go/lib/ipam`), byte for byte in what is stored: a pool is cut into blocks; a host claims blocks
//! by an *affinity* and hands out addresses from its own; a *handle* counts, block by block, the addresses of one owner, so that they
//! can be found and released by it.
//!
//! | In | Machine | Out |
//! |---|---|---|
//! | [`Assign`] | [`Machine`]`<Assign>` | addresses that the handle now holds |
//! | [`ReleaseHandle`], [`ReleaseAddresses`] | likewise | what was released |
//! | [`HeldBy`] | likewise, reading only | the handle's addresses |
//!
//! A driver (`calico_datastore::ipam`) carries the machine's [`Op`]s out. Invariants, whatever others do at the same time and
//! wherever a machine is abandoned:
//!
//! - An ordinal is held by at most one handle: every block write is conditional on the revision that was read.
//! - A handle counts at least what blocks hold for it; the next request with that handle makes the count exact.
//! - A confirmed affinity has a block of its owner, or the next assignment of the owner makes one.
//! - Asking again with the same handle yields the same addresses.

mod address;
mod affinity;
mod assign;
mod block;
mod claim;
mod draft;
mod error;
mod lookup;
mod machine;
mod op;
mod pool;
mod release;
mod request;
#[cfg(test)]
mod tests;
mod work;

pub use block::{Allocation, Block, Holder};
pub use error::IpamError;
pub use lookup::{Assigned, HeldBy};
pub use machine::{Machine, Request, Step};
pub use op::{Fetched, Found, Op, Outcome, Query, Version, Write};
pub use pool::PoolRef;
pub use release::{Release, ReleaseAddresses, ReleaseHandle, Released};
pub use request::{Assign, FamilyWant, Want};
