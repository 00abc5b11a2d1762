//! Converse: a BGP-4 speaker.

extern crate alloc;

mod backend;

pub use backend::{BgpBackend, BgpError, BgpEvent, BgpStatus, LearnedRoute, PeerStatus, SessionState};
