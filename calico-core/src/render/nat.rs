//! Settings of source translation.

use core::net::IpAddr;
use core::str::FromStr;

use crate::net::{InterfaceName, InterfaceNameError, PortRange};
use crate::table::{Field, Match, Value};

/// How traffic that leaves the cluster is translated, with upstream's defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals and `..Default::default()`")]
pub struct NatConfig {
    /// Source ports of TCP and UDP (`NATPortRange`); none leaves them to the kernel.
    pub ports: Option<PortRange>,
    /// The source address of its family (`NATOutgoingAddress`); none means that of the interface.
    pub address: Option<IpAddr>,
    /// Only on these interfaces (`IptablesNATOutgoingInterfaceFilter`).
    pub interfaces: Option<InterfacePattern>,
    /// Whether traffic to hosts of the cluster stays as it is, as that to pools does (`NATOutgoingExclusions=IPPoolsAndHostIPs`).
    pub spare_hosts: bool,
    /// Whether ports are drawn at random, so that two connections that begin at once do not draw the same one.
    pub random: bool,
}

impl Default for NatConfig {
    fn default() -> Self {
        Self { ports: None, address: None, interfaces: None, spare_hosts: false, random: true }
    }
}

/// Interfaces by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "these are the forms that the kernel can compare")]
pub enum InterfacePattern {
    /// The one of this name.
    Named(InterfaceName),
    /// All whose names start so.
    StartsWith(InterfaceName),
}

impl InterfacePattern {
    pub(super) const fn matches(self, field: Field) -> Match {
        match self {
            Self::Named(name) => Match::Equal { field, value: Value::Interface(name), negated: false },
            Self::StartsWith(prefix) => Match::InterfacePrefix { field, prefix, negated: false },
        }
    }
}

/// A name, or its beginning and `+` (the form of iptables) or `*` (that of nf_tables).
impl FromStr for InterfacePattern {
    type Err = InterfaceNameError;

    fn from_str(text: &str) -> Result<Self, InterfaceNameError> {
        match text.strip_suffix(['+', '*']) {
            Some(prefix) => prefix.parse().map(Self::StartsWith),
            None => text.parse().map(Self::Named),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_end_in_a_wildcard_of_either_kind() {
        let name = |text: &str| text.parse::<InterfaceName>().unwrap();
        assert_eq!("eth0".parse(), Ok(InterfacePattern::Named(name("eth0"))));
        assert_eq!("eth+".parse(), Ok(InterfacePattern::StartsWith(name("eth"))));
        assert_eq!("eth*".parse(), Ok(InterfacePattern::StartsWith(name("eth"))));
        assert!("+".parse::<InterfacePattern>().is_err());
    }
}
