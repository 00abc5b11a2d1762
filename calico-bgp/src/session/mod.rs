//! Sessions: the pieces that the [speaker](crate::Speaker) is put together from.
//!
//! A peer has up to three connections at once: the established one, one that we opened and one that it opened. Each has its own
//! small state ([`state`]); [`collision`] says which of two survives, [`offer`] what our OPEN says, [`negotiate`] what two OPENs agree on,
//! [`graceful_restart`] whose end-of-RIB a restarted speaker still waits for, [`retention`] what becomes of a lost peer's routes,
//! [`transport`] what is wanted of TCP, [`backoff`] when to try again, and [`timer`] is the one queue that every deadline sits in.

pub(crate) mod backoff;
pub(crate) mod collision;
pub(crate) mod connection;
pub(crate) mod graceful_restart;
pub(crate) mod negotiate;
pub(crate) mod offer;
pub(crate) mod peer;
pub(crate) mod peer_index;
pub(crate) mod per_family;
pub(crate) mod retention;
pub(crate) mod state;
pub(crate) mod timer;
pub(crate) mod transport;
