//! Path attributes (RFC 4271 section 5) and what becomes of malformed ones (RFC 7606).
//!
//! `decode` walks the attribute list once, `encode` writes one. Every attribute has its expected flags and its treatment in
//! `rule`; its value is read by the file named after it. What is not understood but may be passed on (optional transitive) is
//! kept byte for byte.

mod aggregator;
mod aigp;
mod as_path;
mod code;
mod community;
mod decode;
mod encode;
mod extra;
mod fault;
mod mp_reach;
mod origin;
mod other;
mod partial;
mod rule;

pub use aggregator::Aggregator;
pub use aigp::Aigp;
pub use as_path::AsPath;
pub use community::{BLACKHOLE, GRACEFUL_SHUTDOWN, LLGR_STALE, NO_ADVERTISE, NO_EXPORT, NO_EXPORT_SUBCONFED, NO_LLGR};
pub use extra::{Extra, ExtraAttributes};
pub use fault::{AttributeFault, FaultReason, Treatment};
pub use origin::Origin;
pub use other::OtherAttribute;
pub use partial::Partial;

use core::net::Ipv4Addr;

pub(super) use decode::{Decoded, decode};
pub(super) use encode::{MpReachHead, encode, put_mp_unreach};

/// The attributes of a path, next hop excepted: that belongs to the prefixes, because an UPDATE may carry two.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[expect(
    clippy::exhaustive_structs,
    reason = "originators build it with literals; a new attribute must break the encoder"
)]
pub struct PathAttributes {
    /// ORIGIN.
    pub origin: Origin,
    /// ATOMIC_AGGREGATE.
    pub atomic_aggregate: bool,
    /// Which of the optional transitive attributes arrived with the Partial bit.
    pub partial: Partial,
    /// ORIGINATOR_ID (RFC 4456).
    pub originator_id: Option<Ipv4Addr>,
    /// MULTI_EXIT_DISC.
    pub med: Option<u32>,
    /// LOCAL_PREF.
    pub local_pref: Option<u32>,
    /// AS_PATH.
    pub as_path: AsPath,
    /// COMMUNITIES (RFC 1997), in the order received.
    pub communities: Vec<u32>,
    /// CLUSTER_LIST (RFC 4456).
    pub cluster_list: Vec<Ipv4Addr>,
    /// What few paths carry.
    pub extra: Extra,
}
