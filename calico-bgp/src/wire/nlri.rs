//! Prefixes on the wire (RFC 4271 section 4.3): a length in bits and as many octets as hold them; with add-path (RFC 7911) after
//! four octets that tell several paths to one prefix apart.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use calico_core::net::{Cidr, Family};

use super::reader::Reader;

/// Tells several paths to one prefix by one peer apart (RFC 7911). Chosen by whoever sends them, meaningless otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PathId(u32);

impl PathId {
    /// That of the only path, where no identifiers are exchanged.
    pub const NONE: Self = Self(0);

    /// Any number is one.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn value(self) -> u32 {
        self.0
    }
}

/// A prefix, and which of the sender's paths to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "the fields of RFC 7911 section 3")]
pub struct Nlri {
    /// The prefix.
    pub prefix: Cidr,
    /// Which path; [`PathId::NONE`] without add-path.
    pub path_id: PathId,
}

impl From<Cidr> for Nlri {
    fn from(prefix: Cidr) -> Self {
        Self { prefix, path_id: PathId::NONE }
    }
}

/// Octets of a path identifier.
const PATH_ID: usize = 4;

/// Appends the prefixes of `bytes`, until its end. `None` when a length is impossible or an octet is missing. Bits beyond the
/// length are irrelevant (RFC 4271 section 4.3) and cleared, so that equal prefixes compare equal.
pub fn decode(family: Family, add_path: bool, bytes: &[u8], into: &mut Vec<Nlri>) -> Option<()> {
    // The commonest sizes: a /24 and a /48, each with its length.
    let usual: usize = match family {
        Family::V4 => 4,
        Family::V6 => 7,
    };
    let usual = usual.saturating_add(if add_path { PATH_ID } else { 0 });
    into.reserve(bytes.len().checked_div(usual).unwrap_or(0));
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        let path_id = PathId(if add_path { reader.u32()? } else { 0 });
        let length = reader.u8().filter(|length| *length <= family.bits())?;
        let octets = reader.take(usize::from(length.div_ceil(8)))?;
        let address = match family {
            Family::V4 => Ipv4Addr::from(padded::<4>(octets)).into(),
            Family::V6 => Ipv6Addr::from(padded::<16>(octets)).into(),
        };
        into.push(Nlri { prefix: Cidr::new(address, length)?, path_id });
    }
    Some(())
}

fn padded<const N: usize>(octets: &[u8]) -> [u8; N] {
    let mut padded = [0; N];
    padded.iter_mut().zip(octets).for_each(|(to, from)| *to = *from);
    padded
}

/// Appends one prefix.
pub fn encode(nlri: Nlri, add_path: bool, into: &mut Vec<u8>) {
    if add_path {
        into.extend_from_slice(&nlri.path_id.0.to_be_bytes());
    }
    let length = nlri.prefix.length();
    // Whole addresses are appended and cut, because copies of known size are cheap: this is the innermost loop of a full table.
    let unused = match nlri.prefix.address() {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            into.extend_from_slice(&[length, a, b, c, d]);
            Family::V4.bits().saturating_sub(length)
        }
        IpAddr::V6(address) => {
            into.push(length);
            into.extend_from_slice(&address.octets());
            Family::V6.bits().saturating_sub(length)
        }
    };
    into.truncate(into.len().saturating_sub(usize::from(unused >> 3)));
}
