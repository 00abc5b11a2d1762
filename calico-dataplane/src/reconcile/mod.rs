//! Makes the host what it should be: with the fewest writes, at the right moment, one bad object at a time.
//!
//! [`Reconciler`] is the pure machine. In come changes of the desired state (from the renderer, from BGP), looks at the host and
//! what others changed there, outcomes of writes, and the time; out come [`Delta`](calico_core::table::Delta)s to carry out. [`Driver`] is its thin async
//! shell over a [`Dataplane`](crate::Dataplane).
//!
//! Rules that it keeps:
//! - Before the desired state is in sync nothing is written; only if our table is absent altogether, the skeleton is.
//! - After that only differences are: a restart over an unchanged host writes nothing to tables, routes, neighbours and limits.
//!   Interface settings are the exception. No one can tell the whole of them apart from the host's own, so each is handed to the
//!   backend once in a process life and once for each new interface (the backend may read before it writes).
//! - Routes, neighbours and settings of an interface that is not there wait for it; when another of the same name takes its
//!   place, all are written again.
//! - Learned (BGP) routes of the last process life stay until the speaker says that it has settled.
//! - What fails is tried again, ever more slowly; everything else goes on. A failing nf_tables transaction is halved until the
//!   object to blame is alone; that object, and what refers to it, is set aside. So an endpoint whose policy cannot be written
//!   keeps its former policy, or none of its packets pass if it is new; and its neighbours get theirs.
//! - What somebody else changes again and again is made right at once a few times, then ever more slowly; policy always at once.
//! - An address that left its workload is given to no interface before the connections of its former owner have ended.
//! - While an object is set aside, no chain or set is deleted: something that could not be written may still refer to it.

mod connections;
mod driver;
mod elements;
mod fights;
mod interfaces;
mod links;
mod machine;
mod objects;
mod plan;
mod retry;
mod shapings;
#[cfg(test)]
mod tests;

pub use driver::{Driver, Step};
pub use machine::{Holding, Reconciler, WorkloadState};
pub use retry::{Object, ReconcileConfig, RetryPolicy};
