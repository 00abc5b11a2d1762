//! One flow: what the first packet of a connection looks like to a policy. The common question of every evaluator.

use core::net::IpAddr;

use crate::net::Family;

/// A flow by its addresses, protocol and ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals; a new part must break every evaluator")]
pub struct Flow {
    /// Source address.
    pub source: IpAddr,
    /// Destination address, of the same family.
    pub destination: IpAddr,
    /// Protocol number.
    pub protocol: u8,
    /// Source port; 0 for protocols without ports.
    pub source_port: u16,
    /// Destination port; 0 for protocols without ports.
    pub destination_port: u16,
    /// ICMP type and code, for ICMP and ICMPv6.
    pub icmp: Option<(u8, u8)>,
}

impl Flow {
    /// Address family.
    pub const fn family(&self) -> Family {
        Family::of(self.source)
    }
}

/// What happens to a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "traffic goes through or it does not")]
pub enum Decision {
    /// Goes through.
    Allow,
    /// Is dropped.
    Deny,
}
