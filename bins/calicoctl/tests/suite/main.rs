//! The program, typed at as an operator would: on a store in memory, on SQLite and on a real etcd.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bgp;
mod commit;
mod common;
mod convert;
mod datastore;
mod diff;
mod edit;
#[cfg(feature = "etcd")]
mod etcd;
mod failing;
mod formats;
mod kinds;
mod messages;
mod node;
mod policy;
mod policy_more;
mod spoilt;
mod verbs;
mod version;
