//! Linux interface names.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

/// Longest name the kernel takes: `IFNAMSIZ` (16) less the terminating zero.
const MAX_LENGTH: usize = 15;

/// A valid interface name: 1 to 15 bytes, no `/`, no white space, not `.` or `..`.
///
/// Stored in place, so that an endpoint in an arena costs sixteen bytes and no allocation for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceName {
    bytes: [u8; MAX_LENGTH],
    length: u8,
}

/// Text that no interface can be called.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an interface name: 1 to 15 bytes without '/' or white space")]
pub struct InterfaceNameError(String);

impl InterfaceName {
    /// `cali`: how upstream's names of workload interfaces start.
    pub const CALI: Self = Self { bytes: *b"cali\0\0\0\0\0\0\0\0\0\0\0", length: 4 };
    /// `eth0`: how a host's interface is most often called.
    pub const ETH0: Self = Self { bytes: *b"eth0\0\0\0\0\0\0\0\0\0\0\0", length: 4 };

    /// `lo`: the host's way to itself.
    pub const LOOPBACK: Self = Self { bytes: *b"lo\0\0\0\0\0\0\0\0\0\0\0\0\0", length: 2 };

    /// The name as text.
    pub fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..usize::from(self.length)).unwrap_or_default();
        // Only ever filled from a `&str` cut nowhere, so this never falls back.
        core::str::from_utf8(bytes).unwrap_or_default()
    }

    /// Whether it starts with one of these: how workload interfaces are told from others.
    pub fn starts_with_any(&self, prefixes: &[Self]) -> bool {
        prefixes.iter().any(|prefix| self.as_str().starts_with(prefix.as_str()))
    }
}

impl FromStr for InterfaceName {
    type Err = InterfaceNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = text.is_empty()
            || matches!(text, "." | "..")
            || text.chars().any(|c| c == '/' || c == ':' || c.is_whitespace() || c.is_control());
        let mut bytes = [0; MAX_LENGTH];
        match bytes.get_mut(..text.len()) {
            Some(target) if !bad => target.copy_from_slice(text.as_bytes()),
            _ => return Err(InterfaceNameError(text.into())),
        }
        let length = u8::try_from(text.len()).map_err(|_| InterfaceNameError(text.into()))?;
        Ok(Self { bytes, length })
    }
}

impl fmt::Display for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

super::json_as_text!(InterfaceName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_fifteen_bytes_and_refuses_more() {
        assert_eq!("cali12345678901".parse::<InterfaceName>().unwrap().as_str(), "cali12345678901");
        for bad in ["", ".", "..", "a/b", "a b", "a:1", "cali123456789012", "tab\t"] {
            assert!(bad.parse::<InterfaceName>().is_err(), "{bad:?}");
        }
    }
}
