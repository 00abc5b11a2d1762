//! Optional transitive attributes that this speaker only passes on.
//!
//! Their content is nobody's business here: garbage in tunnel encapsulation (23), Prefix-SID (40) or ATTR_SET (128) has reset
//! sessions far away from its source when speakers looked at it.

use super::{OPTIONAL, PARTIAL, TRANSITIVE};

/// An attribute kept byte for byte.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "type, value and the one flag that is not implied")]
pub struct OtherAttribute {
    /// Type code.
    pub code: u8,
    /// Value.
    pub value: Vec<u8>,
    /// Whether some system on the way (or we) passed it on without understanding it.
    pub partial: bool,
}

impl OtherAttribute {
    pub(super) fn received(flags: u8, code: u8, value: &[u8], not_understood: bool) -> Self {
        Self { code, value: value.to_vec(), partial: not_understood || flags & PARTIAL != 0 }
    }

    pub(super) const fn flags(&self) -> u8 {
        OPTIONAL | TRANSITIVE | if self.partial { PARTIAL } else { 0 }
    }
}
