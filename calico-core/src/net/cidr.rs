//! Prefixes: an address and a length, host bits always zero.

use alloc::string::String;
use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;

use ipnet::IpNet;
/// Address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "there are two IP versions; every match must say what it does for both")]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// The family of an address.
    pub const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// Address width in bits: 32 or 128.
    pub const fn bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// A prefix whose host bits are zero: `10.0.0.0/26`, `fd00::/122`, and hosts as `/32` or `/128`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr(IpNet);

/// Text or numbers that make no prefix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CidrError {
    /// Neither an address nor `ADDRESS/LENGTH`.
    #[error("{0:?} is not a CIDR: give ADDRESS/LENGTH, such as 10.0.0.0/24 or fd00::/64")]
    Syntax(String),
    /// Set bits beyond the prefix length, where the caller asked for strictness.
    #[error("{given} has host bits set: the network is {network}")]
    HostBits {
        /// As given.
        given: String,
        /// The same prefix with the host bits cleared.
        network: Cidr,
    },
}

impl Cidr {
    /// The prefix of `length` bits that holds `address`; `None` when the length is too long for the family.
    pub fn new(address: IpAddr, length: u8) -> Option<Self> {
        IpNet::new(address, length).ok().map(|net| Self(net.trunc()))
    }

    /// The host prefix (`/32` or `/128`) of an address.
    pub fn host(address: IpAddr) -> Self {
        Self(IpNet::from(address))
    }

    /// Parses `ADDRESS/LENGTH` only, and refuses set host bits.
    pub fn parse_strict(text: &str) -> Result<Self, CidrError> {
        let net = prefix(text).ok_or_else(|| CidrError::Syntax(text.into()))?;
        let network = Self(net.trunc());
        if network.0 == net { Ok(network) } else { Err(CidrError::HostBits { given: text.into(), network }) }
    }

    /// Network address.
    pub fn address(&self) -> IpAddr {
        self.0.network()
    }

    /// Prefix length in bits.
    pub fn length(&self) -> u8 {
        self.0.prefix_len()
    }

    /// Address family.
    pub fn family(&self) -> Family {
        Family::of(self.address())
    }

    /// Whether this is a single address.
    pub fn is_host(&self) -> bool {
        self.length() == self.family().bits()
    }

    /// Whether `address` lies inside.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }

    /// Whether `other` lies wholly inside (equal counts).
    pub fn covers(&self, other: &Self) -> bool {
        self.0.contains(&other.0)
    }

    /// Whether the two share an address.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.covers(other) || other.covers(self)
    }

    /// All that covers it, itself first and the widest last.
    pub fn widening(self) -> impl Iterator<Item = Self> {
        (0..=self.length()).rev().filter_map(move |length| Self::new(self.address(), length))
    }

    /// First and last address.
    pub fn bounds(&self) -> (IpAddr, IpAddr) {
        (self.0.network(), self.0.broadcast())
    }
}

/// Reads `ADDRESS/LENGTH`. `IpNet`'s own reader takes `010.0.0.1` for 10.0.0.1, which is 8.0.0.1 to others; Go's refuses it.
fn prefix(text: &str) -> Option<IpNet> {
    let (address, length) = text.split_once('/')?;
    let is_number = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    let length = length.parse().ok().filter(|_| is_number)?;
    IpNet::new(address.parse().ok()?, length).ok()
}

impl FromStr for Cidr {
    type Err = CidrError;

    /// Accepts a prefix or a bare address (which becomes a host prefix); host bits are cleared.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(net) = prefix(text) {
            return Ok(Self(net.trunc()));
        }
        text.parse::<IpAddr>().map(Self::host).map_err(|_| CidrError::Syntax(text.into()))
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

super::json_as_text!(Cidr);

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn clears_host_bits_and_reads_bare_addresses() {
        assert_eq!(format!("{}", "10.0.0.9/26".parse::<Cidr>().unwrap()), "10.0.0.0/26");
        assert!("10.0.0.9".parse::<Cidr>().unwrap().is_host());
        assert!("10.0.0.9/33".parse::<Cidr>().is_err());
    }

    /// As Go reads them, whose readers share the data.
    #[test]
    fn what_others_read_otherwise_is_no_prefix() {
        assert_eq!(format!("{}", "10.0.0.1/032".parse::<Cidr>().unwrap()), "10.0.0.1/32");
        for text in
            ["010.0.0.1/32", "010.0.0.1", "10.0.0.1/+8", "10.0.0.1/", "/8", "10.0.0.1/ 8", "fe80::1%eth0/64", "10.1/16"]
        {
            assert!(text.parse::<Cidr>().is_err() && Cidr::parse_strict(text).is_err(), "{text}");
        }
    }

    #[test]
    fn strict_parsing_names_the_network() {
        let error = Cidr::parse_strict("10.0.0.9/26").unwrap_err();
        assert_eq!(format!("{error}"), "10.0.0.9/26 has host bits set: the network is 10.0.0.0/26");
        assert!(Cidr::parse_strict("10.0.0.9").is_err());
    }
}
