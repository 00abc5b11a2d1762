//! nf_tables over raw netlink: tables `inet calico-dataplane` and `arp calico-dataplane`.
//!
//! - [`encode`]: a delta as one transaction in wire form; pure.
//! - [`decode`]: listings as what the reconciler compares; pure.
//! - [`touched`]: which objects notifications name; pure.
//! - [`reader`]: the questions that a listing is made of.
//! - [`known`]: what was last seen or written, for what the kernel does not say.
//! - [`transport`]: transactions and listings over one socket, and how a refused transaction is repaired.
//!
//! `nft` is never executed; tests compare what we write with what it would.

pub(crate) mod decode;
pub(crate) mod encode;
mod expression;
mod key;
mod known;
mod reader;
mod touched;
mod transport;
pub(crate) mod uapi;
mod userdata;

pub(crate) use touched::{Extent, Touched};
pub(crate) use transport::{Listing, Ruleset};
