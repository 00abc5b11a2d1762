//! ORIGIN.

/// How the prefix came into BGP. The order is that of preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[expect(clippy::exhaustive_enums, reason = "the values of RFC 4271 section 4.3")]
pub enum Origin {
    /// Interior: a network statement, an aggregate, our own blocks.
    #[default]
    Igp,
    /// The EGP protocol.
    Egp,
    /// Redistributed.
    Incomplete,
}

impl Origin {
    pub(super) const fn decode(value: &[u8]) -> Option<Self> {
        Some(match value {
            [0] => Self::Igp,
            [1] => Self::Egp,
            [2] => Self::Incomplete,
            _ => return None,
        })
    }

    pub(super) const fn code(self) -> u8 {
        match self {
            Self::Igp => 0,
            Self::Egp => 1,
            Self::Incomplete => 2,
        }
    }
}
