//! Which BGP sessions and prefixes a node should have, and which routes pass: resources in, [`DesiredBgp`] out.
//!
//! [`DesiredBgp`] is what every backend carries out (the native speaker, BIRD); filters and policies in it are data with one evaluator
//! each, here ([`first_match`], [`ExportPolicy::decide`], [`KernelPolicy::decide`]), so that whoever explains says what was done.

mod community;
mod desired;
mod document;
mod families;
mod filter;
mod policy;
mod secret;
mod topology;

pub use community::{Community, CommunityError};
pub use desired::{
    AddPath, BGP_PORT, Bfd, DesiredBgp, DesiredPeer, DynamicPeers, Listen, LocalSpeaker, NextHop, Origin, Originated,
    Password, PeerId, PeerKind, PeerPolicy, Role, SessionParameters, Source,
};
pub use document::DocumentError;
pub use families::Families;
pub use filter::{
    ByFamily, Filter, FilterOperation, FilterRule, InterfaceMatch, NORMAL_PRIORITY, PRIORITY_SUM, PrefixMatch,
    PrefixOperator, RouteDirection, RouteView, SessionKind, first_match,
};
pub use policy::{ExportPolicy, ExportReason, Exported, KernelPolicy, PoolRouting, Programming};
pub use secret::{Secret, SecretError};
pub use topology::{
    BgpProblem, EndpointFacts, EndpointSliceFacts, RouterIdSource, ServiceFacts, ServiceKind, Topology, TrafficPolicy,
};
