//! Converse: a BGP-4 speaker.

extern crate alloc;

mod backend;
mod rib;
#[cfg(feature = "tokio")]
mod runtime;
mod session;
mod speaker;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod time;
pub mod wire;

pub use backend::{
    BgpBackend, BgpError, BgpEvent, BgpStatus, LearnedRoute, PeerStatus, RecordingBackend, SessionState,
};
#[cfg(feature = "tokio")]
pub use runtime::{NativeBackend, NativeConfig};
pub use speaker::{Action, ConnectionId, Speaker, SpeakerConfig};
pub use time::Timestamp;
