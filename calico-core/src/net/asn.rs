//! Autonomous system numbers (RFC 6793: four octets).

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A four-octet autonomous system number.
///
/// Text forms are `asplain` (`64512`) and `asdot` (`1.10`), RFC 5396; JSON is a number, and strings are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AsNumber(u32);

impl AsNumber {
    /// The AS number upstream gives to a cluster that configures none.
    pub const DEFAULT: Self = Self(64512);

    /// Wraps a number.
    pub const fn new(value: u32) -> Self {
        Self(value)
    }

    /// Whether it is nobody's: AS 0 (RFC 7607).
    pub const fn is_nobodys(self) -> bool {
        self.0 == 0
    }

    /// The number itself.
    pub const fn value(self) -> u32 {
        self.0
    }
}

/// Text that is no AS number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an AS number: give 0 to 4294967295, or the dotted form HIGH.LOW")]
pub struct AsNumberError(String);

impl FromStr for AsNumber {
    type Err = AsNumberError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || AsNumberError(text.into());
        // The number parser would take a sign.
        if !text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
            return Err(error());
        }
        match text.split_once('.') {
            None => text.parse().map(Self).map_err(|_| error()),
            Some((high, low)) => {
                let high: u16 = high.parse().map_err(|_| error())?;
                let low: u16 = low.parse().map_err(|_| error())?;
                Ok(Self(u32::from(high) << 16 | u32::from(low)))
            }
        }
    }
}

impl fmt::Display for AsNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for AsNumber {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(self.0)
    }
}

impl<'de> Deserialize<'de> for AsNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = AsNumber;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an AS number")
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<AsNumber, E> {
                u32::try_from(value).map(AsNumber).map_err(|_| E::invalid_value(de::Unexpected::Unsigned(value), &self))
            }
            fn visit_str<E: de::Error>(self, value: &str) -> Result<AsNumber, E> {
                value.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_plain_and_dotted_forms() {
        assert_eq!("64512".parse(), Ok(AsNumber::DEFAULT));
        assert_eq!("1.10".parse(), Ok(AsNumber::new(65546)));
        for bad in ["1.70000", "4294967296", "+1", "1.+2", "", ".", "1.2.3"] {
            assert!(bad.parse::<AsNumber>().is_err(), "{bad:?}");
        }
    }
}
