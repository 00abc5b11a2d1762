//! IP protocol numbers, by number or by the names the v3 API knows.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Number and API name of the protocols that have one (upstream `numorstring.Protocol`).
const NAMES: [(u8, &str); 6] = [(6, "TCP"), (17, "UDP"), (1, "ICMP"), (58, "ICMPv6"), (132, "SCTP"), (136, "UDPLite")];

/// A protocol as an API object gives it: by number or by name.
///
/// The two forms are kept apart although they match the same packets: the names `ICMP` and `ICMPv6` imply an address family, the
/// numbers 1 and 58 do not, and what was written is what is shown again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Protocol {
    number: u8,
    named: bool,
}

/// Text or a number that is no protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a protocol: give TCP, UDP, ICMP, ICMPv6, SCTP, UDPLite or a number from 1 to 255")]
pub struct ProtocolError(String);

impl Protocol {
    /// `TCP`, by name.
    pub const TCP: Self = Self { number: 6, named: true };
    /// `UDP`, by name.
    pub const UDP: Self = Self { number: 17, named: true };
    /// `ICMP`, by name.
    pub const ICMP: Self = Self { number: 1, named: true };
    /// `ICMPv6`, by name.
    pub const ICMPV6: Self = Self { number: 58, named: true };
    /// `SCTP`, by name.
    pub const SCTP: Self = Self { number: 132, named: true };

    /// A protocol given by number; zero is none.
    pub fn from_number(number: u8) -> Option<Self> {
        (number != 0).then_some(Self { number, named: false })
    }

    /// The number in the IP header.
    pub const fn number(self) -> u8 {
        self.number
    }

    /// Whether it was given by name.
    pub const fn is_named(self) -> bool {
        self.named
    }

    /// Whether rules for it may carry ports (TCP, UDP, SCTP; upstream leaves UDPLite out).
    pub const fn has_ports(self) -> bool {
        matches!(self.number, 6 | 17 | 132)
    }
}

impl FromStr for Protocol {
    type Err = ProtocolError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some((number, _)) = NAMES.iter().find(|(_, name)| *name == text) {
            return Ok(Self { number: *number, named: true });
        }
        // The number parser would take a sign.
        let digits = Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let number = digits.and_then(|text| text.parse().ok());
        number.and_then(Self::from_number).ok_or_else(|| ProtocolError(text.into()))
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(number, _)| self.named && *number == self.number) {
            Some((_, name)) => f.write_str(name),
            None => self.number.fmt(f),
        }
    }
}

impl Serialize for Protocol {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.named { serializer.collect_str(self) } else { serializer.serialize_u8(self.number) }
    }
}

impl<'de> Deserialize<'de> for Protocol {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Protocol;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a protocol name or a number from 1 to 255")
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Protocol, E> {
                let number = u8::try_from(value).ok().and_then(Protocol::from_number);
                number.ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(value), &self))
            }
            fn visit_str<E: de::Error>(self, value: &str) -> Result<Protocol, E> {
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
    fn keeps_the_given_form() {
        for (json, out) in [("\"TCP\"", "\"TCP\""), ("6", "6"), ("\"6\"", "6"), ("\"UDPLite\"", "\"UDPLite\"")] {
            let protocol: Protocol = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::to_string(&protocol).unwrap(), out);
        }
        for bad in ["0", "256", "\"tcp\"", "\"\"", "\"+6\"", "-1"] {
            assert!(serde_json::from_str::<Protocol>(bad).is_err(), "{bad}");
        }
    }
}
