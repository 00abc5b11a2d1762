//! BIRD as the speaker: a desired state becomes its configuration, its control socket says what came of it.
//!
//! | Part | In | Out |
//! |---|---|---|
//! | [`render`](fn@render) | [`DesiredBgp`](calico_core::bgp::DesiredBgp), a [`Dialect`], [`BirdSettings`] | one text, and what is not in it |
//!
//! | [`client`] | bytes of the control socket | replies, typed |
//! | [`BirdBackend`] (feature `tokio`) | both, beside a daemon | a [`BgpBackend`](crate::BgpBackend) |
//!
//! Two dialects are written: that of BIRD 2 (both families in one daemon) and that of upstream's BIRD 1.6, which has a daemon for each
//! family and, for pools with tunnels, `krt_tunnel`. A session that needs what a dialect has not is left out and named
//! ([`Unsupported`]): it is never made with less than was asked for. More than was asked for is possible in two places only, where BIRD has no
//! such bound: paths sent to one prefix ([`AddPath::send`](calico_core::bgp::AddPath)), and sessions of a range
//! ([`DynamicPeers::limit`](calico_core::bgp::DynamicPeers)).
//!
//! On external sessions BIRD 1.6 puts its own AS number into the path before the export filter runs, BIRD 2 after it: with 1.6, what a filter
//! prepends stands before the own number (as with upstream), and a condition on the path sees that number first.
//!
//! What differs from the files that upstream renders, on purpose:
//! - Everything is in one file, replaced at once.
//! - What is announced is what is desired and what was learned from peers. Routes of the kernel serve to resolve next hops, and nothing else.
//! - Names of sessions carry no port: addresses are unique here, and upstream's tools would print the port as a part of the address.
//! - Of pools within each other the longest decides, in BGP and in the kernel.
//!
//! What must stay true: no byte from outside reaches the text but through `render::text`'s checks; equal input gives equal text.

#[cfg(feature = "tokio")]
mod backend;
pub mod client;
mod render;

#[cfg(feature = "tokio")]
pub use backend::{BirdBackend, BirdConfig, BirdPaths, Generation};
pub use render::{
    BirdLog, BirdLogLevel, BirdSettings, Dialect, KernelMetric, KernelSettings, LeftOut, PeerOrRange, Rendered,
    Unsupported, render,
};
