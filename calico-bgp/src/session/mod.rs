//! Sessions: the pieces that the [speaker](crate::Speaker) is put together from.
//!
//! A peer has up to three connections at once: the established one, one that we opened and one that it opened. Each has its own
//! small state ([`state`]); [`collision`] says which of two survives, [`negotiate`] what two OPENs agree on, [`graceful_restart`]
//! whose end-of-RIB a restarted speaker still waits for, [`backoff`] when to try again, and [`timer`] is the one queue that
//! every deadline sits in.

pub(crate) mod backoff;
pub(crate) mod collision;
pub(crate) mod connection;
pub(crate) mod graceful_restart;
pub(crate) mod negotiate;
pub(crate) mod peer;
pub(crate) mod peer_index;
pub(crate) mod state;
pub(crate) mod timer;
