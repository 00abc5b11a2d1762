//! Prefixes on the wire: a length in bits and as many octets as hold them (RFC 4271 section 4.3).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use calico_core::net::{Cidr, Family};

use super::reader::Reader;

/// Reads prefixes until the end. `None` when a length is impossible or an octet is missing. Bits beyond the length are
/// irrelevant (RFC 4271 section 4.3) and cleared, so that equal prefixes compare equal.
pub fn decode(family: Family, bytes: &[u8]) -> Option<Vec<Cidr>> {
    let mut reader = Reader::new(bytes);
    let mut prefixes = Vec::new();
    while !reader.is_empty() {
        let length = reader.u8().filter(|length| *length <= family.bits())?;
        let octets = reader.take(usize::from(length.div_ceil(8)))?;
        let mut padded = [0; 16];
        padded.iter_mut().zip(octets).for_each(|(to, from)| *to = *from);
        prefixes.push(Cidr::new(address(family, padded), length)?);
    }
    Some(prefixes)
}

/// Appends one prefix.
pub fn encode(prefix: Cidr, into: &mut Vec<u8>) {
    let length = prefix.length();
    into.push(length);
    let octets = usize::from(length.div_ceil(8));
    match prefix.address() {
        IpAddr::V4(address) => into.extend(address.octets().into_iter().take(octets)),
        IpAddr::V6(address) => into.extend(address.octets().into_iter().take(octets)),
    }
}

fn address(family: Family, padded: [u8; 16]) -> IpAddr {
    let [a, b, c, d, ..] = padded;
    match family {
        Family::V4 => Ipv4Addr::new(a, b, c, d).into(),
        Family::V6 => Ipv6Addr::from(padded).into(),
    }
}
