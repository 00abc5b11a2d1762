//! Optional transitive attributes that this speaker only passes on.
//!
//! Their content is nobody's business here: garbage in tunnel encapsulation (23), Prefix-SID (40) or ATTR_SET (128) has reset
//! sessions far away from its source when speakers looked at it.

use super::code::{OPTIONAL, PARTIAL, TRANSITIVE};

/// Most octets of such attributes that one path may bring along: what an ordinary message has room for. An extended one could
/// bring sixteen times as much, for every path that a peer announces.
pub(super) const MAX_OTHERS: usize = 4096;

/// An attribute kept byte for byte.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "type, value and the one flag that is not implied")]
pub struct OtherAttribute {
    /// Type code.
    pub code: u8,
    /// Value.
    pub value: Box<[u8]>,
    /// Whether some system on the way (or we) passed it on without understanding it.
    pub partial: bool,
}

impl OtherAttribute {
    /// As it leaves here: not understood.
    pub(super) fn passed_on(code: u8, value: &[u8]) -> Self {
        Self { code, value: value.into(), partial: true }
    }

    pub(super) const fn flags(&self) -> u8 {
        OPTIONAL | TRANSITIVE | if self.partial { PARTIAL } else { 0 }
    }
}
