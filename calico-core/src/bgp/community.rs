//! Communities as operators write them.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

/// A community of a route: `aa:nn` (RFC 1997) or `aa:nn:mm` (RFC 8092).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "the two forms that upstream knows; each must be encoded")]
pub enum Community {
    /// Four octets.
    Standard(u32),
    /// Twelve octets.
    Large([u32; 3]),
}

/// Text that is no community.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a community: give AA:NN with numbers up to 65535, or AA:NN:MM with numbers up to 4294967295")]
pub struct CommunityError(String);

impl FromStr for Community {
    type Err = CommunityError;

    fn from_str(text: &str) -> Result<Self, CommunityError> {
        let error = || CommunityError(text.into());
        // The number parser would take a sign.
        if text.contains('+') {
            return Err(error());
        }
        let mut parts = text.split(':');
        let (first, second, third) = (parts.next(), parts.next(), parts.next());
        let (Some(first), Some(second), None) = (first, second, parts.next()) else { return Err(error()) };
        let wide = |text: &str| text.parse::<u32>().map_err(|_| error());
        let narrow = |text: &str| text.parse::<u16>().map(u32::from).map_err(|_| error());
        match third {
            Some(third) => Ok(Self::Large([wide(first)?, wide(second)?, wide(third)?])),
            None => Ok(Self::Standard(narrow(first)? << 16 | narrow(second)?)),
        }
    }
}

impl fmt::Display for Community {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Standard(number) => write!(f, "{}:{}", number >> 16, number & 0xffff),
            Self::Large([global, first, second]) => write!(f, "{global}:{first}:{second}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn two_forms_and_nothing_else() {
        for text in ["0:0", "65535:65535", "64512:100", "4294967295:0:1"] {
            assert_eq!(text.parse::<Community>().unwrap().to_string(), text);
        }
        assert_eq!("65535:666".parse(), Ok(Community::Standard(0xffff_029a)));
        for text in
            ["", "1", "1:", ":1", "65536:1", "1:65536", "1:2:3:4", "4294967296:0:0", "+1:2", "-1:2", "1:a", "1: 2"]
        {
            assert!(text.parse::<Community>().is_err(), "{text}");
        }
    }
}
