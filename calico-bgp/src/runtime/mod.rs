//! The speaker on real sockets: the only files of this crate that know tokio.
//!
//! One driver task owns the transport; the speaker sits behind a mutex that is held for one turn at a time, so that
//! `apply`, `status` and `next_event` reach it without a queue in between. Events need no queue either: they are states that
//! the speaker keeps until asked.
//!
//! ```text
//! listeners ─streams──▶ driver ◀──bytes── connection tasks (one per TCP connection)
//!                        │  ▲ turn            ▲
//!                        ▼  │                 └──chunks── driver
//!                      speaker ◀──apply, status, next_event── NativeBackend
//! ```
//!
//! Every channel is bounded. When the driver is busy, connection tasks stop reading and TCP slows the peers down; when a peer
//! does not read, its chunk slot stays full and the speaker keeps what is pending as a set of prefixes.

mod bfd;
mod connection;
mod driver;
mod listeners;
mod native;
mod option;
mod socket;

pub use native::{NativeBackend, NativeConfig};
