//! Which BGP sessions and prefixes a node should have: resources in, [`DesiredBgp`] out.

mod desired;

pub use desired::{DesiredBgp, DesiredPeer, LocalSpeaker, PeerKind};
