//! nf_tables over raw netlink: tables `inet calico-dataplane` and `arp calico-dataplane`.
//!
//! - [`encode`]: a delta as one transaction in wire form; pure.
//! - [`decode`]: listings as what the reconciler compares; pure.
//! - [`touched`]: which objects notifications name; pure.
//! - [`transport`]: the socket between the two, and how a refused transaction is repaired.
//!
//! `nft` is never executed; tests compare what we write with what it would.

pub(crate) mod decode;
pub(crate) mod encode;
mod expression;
mod key;
mod touched;
mod transport;
pub(crate) mod uapi;
mod userdata;

pub(crate) use touched::{Extent, Touched};
pub(crate) use transport::Ruleset;
