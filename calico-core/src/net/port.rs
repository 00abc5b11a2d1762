//! Ports as rules give them: a number, a range or a name.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// An inclusive range of port numbers, `min <= max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortRange {
    min: u16,
    max: u16,
}

impl PortRange {
    /// Every port there can be.
    pub const ALL: Self = Self { min: 0, max: u16::MAX };

    /// A range, if it is not empty. The API accepts no port 0; kernel fields do, so it is allowed here.
    pub fn new(min: u16, max: u16) -> Option<Self> {
        (min <= max).then_some(Self { min, max })
    }

    /// Just one port.
    pub const fn single(port: u16) -> Self {
        Self { min: port, max: port }
    }

    /// Lowest port.
    pub const fn min(self) -> u16 {
        self.min
    }

    /// Highest port.
    pub const fn max(self) -> u16 {
        self.max
    }

    /// Whether `port` lies inside.
    pub const fn contains(self, port: u16) -> bool {
        self.min <= port && port <= self.max
    }
}

/// One entry of a rule's port list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "the API has numbers and names; a third kind must break every match")]
pub enum Port {
    /// Port numbers.
    Range(PortRange),
    /// A name that endpoints resolve.
    Named(String),
}

/// Text that is no port.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a port: give a number from 1 to 65535, a range MIN:MAX, or a name of letters, digits, '_', '.', '-'"
)]
pub struct PortError(String);

impl FromStr for Port {
    type Err = PortError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || PortError(text.into());
        // The number parser would take a sign.
        let numeric = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let number = |part: &str| part.parse::<u16>().ok().filter(|port| *port != 0 && numeric(part));
        if let Some((min, max)) = text.split_once(':') {
            let range = number(min).zip(number(max)).and_then(|(min, max)| PortRange::new(min, max));
            return range.map(Self::Range).ok_or_else(error);
        }
        if numeric(text) {
            return number(text).map(|port| Self::Range(PortRange::single(port))).ok_or_else(error);
        }
        let name = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'));
        if name && (1..=128).contains(&text.len()) { Ok(Self::Named(text.into())) } else { Err(error()) }
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range(range) if range.min == range.max => range.min.fmt(f),
            Self::Range(range) => write!(f, "{}:{}", range.min, range.max),
            Self::Named(name) => f.write_str(name),
        }
    }
}

impl Serialize for Port {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Range(range) if range.min == range.max => serializer.serialize_u16(range.min),
            other => serializer.collect_str(other),
        }
    }
}

impl<'de> Deserialize<'de> for Port {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Port;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a port number, a range MIN:MAX or a port name")
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Port, E> {
                let port = u16::try_from(value).ok().filter(|port| *port != 0);
                let range = port.map(PortRange::single).map(Port::Range);
                range.ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(value), &self))
            }
            fn visit_str<E: de::Error>(self, value: &str) -> Result<Port, E> {
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
    fn reads_numbers_ranges_and_names() {
        for (json, out) in [("80", "80"), ("\"80\"", "80"), ("\"80:90\"", "\"80:90\""), ("\"http\"", "\"http\"")] {
            let port: Port = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::to_string(&port).unwrap(), out);
        }
        for bad in ["0", "65536", "\"90:80\"", "\"0:1\"", "\"+1:2\"", "\"1:+2\"", "\"a b\"", "\"\""] {
            assert!(serde_json::from_str::<Port>(bad).is_err(), "{bad}");
        }
    }
}
