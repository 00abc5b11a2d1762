//! Which BGP sessions and prefixes a node should have: resources in, [`DesiredBgp`] out.

mod desired;
mod topology;

pub use desired::{DesiredBgp, DesiredPeer, LocalSpeaker, PeerKind};
pub use topology::Topology;
