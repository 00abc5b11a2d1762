//! Carry out: the [`Dataplane`] trait over the table language of `calico-core`, and its implementations.

mod backend;
mod error;

pub use backend::{ApplyReport, Dataplane, HostChange, LinkState, Observed, ObservedChain, ObservedSet, RouteFailure};
pub use error::DataplaneError;
