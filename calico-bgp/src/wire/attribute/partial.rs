//! The Partial bit of attributes that this speaker understands: it is never cleared again (RFC 4271 section 5).

use super::code;

/// Which of the known optional transitive attributes arrived with the Partial bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Partial(u8);

impl Partial {
    /// None did.
    pub const NONE: Self = Self(0);

    /// Whether the attribute of that type code did.
    pub const fn contains(self, code: u8) -> bool {
        self.0 & bit(code) != 0
    }

    /// Notes that it did; of attributes that cannot, nothing is noted.
    pub(super) const fn insert(&mut self, code: u8) {
        self.0 |= bit(code);
    }

    /// The flag to send with an attribute.
    pub(super) const fn flag(self, code: u8) -> u8 {
        if self.contains(code) { code::PARTIAL } else { 0 }
    }
}

const fn bit(code: u8) -> u8 {
    match code {
        code::AGGREGATOR => 1,
        code::COMMUNITIES => 2,
        code::EXTENDED_COMMUNITIES => 4,
        code::IPV6_EXTENDED_COMMUNITIES => 8,
        code::LARGE_COMMUNITIES => 16,
        code::ONLY_TO_CUSTOMER => 32,
        _ => 0,
    }
}
