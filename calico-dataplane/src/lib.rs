//! Carry out: the [`Dataplane`] trait over the table language of `calico-core`, and its implementations.

mod backend;
mod bucket;
#[cfg(feature = "linux")]
mod conntrack;
pub mod denied;
mod error;
#[cfg(feature = "nft-json")]
pub mod export;
#[cfg(feature = "linux")]
pub mod leftovers;
#[cfg(feature = "linux")]
mod linux;
#[cfg(feature = "linux")]
mod netlink;
#[cfg(feature = "linux")]
pub mod netns;
#[cfg(feature = "linux")]
mod nftables;
#[cfg(feature = "linux")]
mod quiet;
pub mod reconcile;
pub mod recording;
#[cfg(feature = "linux")]
mod suspicion;
#[cfg(feature = "linux")]
mod sysctl;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(feature = "linux")]
pub mod workload;

pub use backend::{
    ApplyReport, Dataplane, HostChange, LinkState, Listing, Observed, ObservedChain, ObservedObjects, ObservedSet,
    Pick, Removal, RouteFailure, Shaped, Tracked, TrackedName, Tracking, Ways,
};
pub use bucket::{PeakBucket, TokenBucket};
pub use error::DataplaneError;
#[cfg(feature = "linux")]
pub use linux::{LinuxConfig, LinuxDataplane};
