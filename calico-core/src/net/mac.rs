//! Ethernet addresses.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

/// A 48-bit Ethernet address, written `ee:ee:ee:ee:ee:ee`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac([u8; 6]);

/// Text that is no Ethernet address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a MAC address: give six hexadecimal octets, such as ee:ee:ee:ee:ee:ee")]
pub struct MacError(String);

impl Mac {
    /// The address upstream gives to every host-side veth, so that moving a workload never leaves a stale neighbour.
    pub const ALL_EE: Self = Self([0xee; 6]);

    /// Wraps six octets.
    pub const fn new(octets: [u8; 6]) -> Self {
        Self(octets)
    }

    /// The six octets, first on the wire first.
    pub const fn octets(self) -> [u8; 6] {
        self.0
    }
}

impl FromStr for Mac {
    type Err = MacError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || MacError(text.into());
        let mut octets = [0; 6];
        let mut parts = text.split([':', '-']);
        for octet in &mut octets {
            // The number parser would take a sign.
            let hex = |part: &&str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
            let part = parts.next().filter(hex).ok_or_else(error)?;
            *octet = u8::from_str_radix(part, 16).map_err(|_| error())?;
        }
        if parts.next().is_some() { Err(error()) } else { Ok(Self(octets)) }
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

super::json_as_text!(Mac);

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn round_trips_and_refuses_odd_lengths() {
        let mac: Mac = "EE:ee:00-01:02:0a".parse().unwrap();
        assert_eq!(format!("{mac}"), "ee:ee:00:01:02:0a");
        for bad in ["", "ee:ee", "ee:ee:ee:ee:ee:ee:ee", "gg:ee:ee:ee:ee:ee", "+e:ee:ee:ee:ee:ee"] {
            assert!(bad.parse::<Mac>().is_err(), "{bad:?}");
        }
    }
}
