//! Network namespaces: make, open and delete them, run code inside one, and speak rtnetlink in one.
//!
//! A [`Netns`] is an open descriptor and keeps its namespace alive. Code runs inside a namespace on a thread of its own
//! ([`Netns::run`]), so that no thread of the caller ever changes its namespace; a socket that is opened there and handed back
//! stays in that namespace for life. [`named`] keeps namespaces under a name the way iproute2 does. [`RouteSocket`] is a
//! synchronous rtnetlink conversation: many [`Request`]s in one send.
//!
//! Called by [`workload`](crate::workload) and by whoever builds a network out of namespaces. Nothing here executes a program.

mod departures;
mod error;
mod handle;
pub mod named;
mod request;
mod rtnl;
#[cfg(test)]
mod tests;

pub(crate) use departures::Departures;
pub use error::{NetnsError, RequestError};
pub use handle::Netns;
pub use request::{Request, VethEnd};
pub use rtnl::{AddressState, LinkInfo, RouteSocket};
