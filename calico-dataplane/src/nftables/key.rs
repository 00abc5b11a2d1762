//! Keys of sets and maps: their types as `nft` numbers them, and their octets.
//!
//! A key of one part has the part's own length; in a key of several, each part is padded to four octets, which is how the parts lie
//! in the registers that a rule fills. Addresses and ports are in network order; an interface name is sixteen octets, zero-filled.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use calico_core::net::{Cidr, Family, InterfaceName};
use calico_core::table::{Datum, FieldType, Key};

/// `IFNAMSIZ`.
pub(crate) const NAME_LENGTH: usize = 16;

/// Bits by which `nft` shifts the type numbers of a concatenation.
const TYPE_BITS: u32 = 6;

/// `nft`'s number of a key part's type.
const fn type_number(part: FieldType) -> Option<u32> {
    Some(match part {
        FieldType::Addr(Family::V4) => 7,
        FieldType::Addr(Family::V6) => 8,
        FieldType::Proto => 12,
        FieldType::Port => 13,
        FieldType::Interface => 41,
        _ => return None,
    })
}

const fn type_of_number(number: u32) -> Option<FieldType> {
    Some(match number {
        7 => FieldType::Addr(Family::V4),
        8 => FieldType::Addr(Family::V6),
        12 => FieldType::Proto,
        13 => FieldType::Port,
        41 => FieldType::Interface,
        _ => return None,
    })
}

/// Octets of a part by itself.
const fn part_length(part: FieldType) -> usize {
    match part {
        FieldType::Addr(Family::V4) => 4,
        FieldType::Addr(Family::V6) | FieldType::Interface => 16,
        FieldType::Port => 2,
        _ => 1,
    }
}

/// Octets of a part in a key of so many parts.
const fn padded_length(part: FieldType, parts: usize) -> usize {
    let length = part_length(part);
    if parts == 1 { length } else { (length + 3) & !3 }
}

/// The number of a whole key's type.
pub(crate) fn key_type(parts: &[FieldType]) -> Option<u32> {
    parts.iter().try_fold(0u32, |sum, part| Some(sum.checked_mul(1 << TYPE_BITS)? | type_number(*part)?))
}

/// The key that a type number stands for.
pub(crate) fn key_of_type(mut number: u32) -> Option<Vec<FieldType>> {
    let mut parts = Vec::new();
    while number != 0 {
        parts.push(type_of_number(number & ((1 << TYPE_BITS) - 1))?);
        number >>= TYPE_BITS;
    }
    parts.reverse();
    (!parts.is_empty()).then_some(parts)
}

/// Octets of a whole key.
pub(crate) fn key_length(parts: &[FieldType]) -> usize {
    parts.iter().map(|part| padded_length(*part, parts.len())).sum()
}

/// An interface name as the kernel compares it.
pub(crate) fn name_octets(name: InterfaceName) -> [u8; NAME_LENGTH] {
    let mut octets = [0; NAME_LENGTH];
    for (target, byte) in octets.iter_mut().zip(name.as_str().bytes()) {
        *target = byte;
    }
    octets
}

/// Appends an address.
pub(crate) fn push_address(into: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => into.extend_from_slice(&address.octets()),
        IpAddr::V6(address) => into.extend_from_slice(&address.octets()),
    }
}

/// Appends the octets of a key's parts; of a prefix its first address.
pub(crate) fn push_key(into: &mut Vec<u8>, key: &[Datum]) {
    for datum in key {
        match datum {
            Datum::Interface(name) => into.extend_from_slice(&name_octets(*name)),
            Datum::Addr(address) => push_address(into, *address),
            Datum::Net(cidr) => push_address(into, cidr.address()),
            Datum::Proto(proto) => into.push(*proto),
            Datum::Port(port) => into.extend_from_slice(&port.to_be_bytes()),
            _ => {}
        }
        if key.len() > 1 {
            into.resize((into.len() + 3) & !3, 0);
        }
    }
}

/// Reads back a key of exact parts.
pub(crate) fn read_key(parts: &[FieldType], mut octets: &[u8]) -> Option<Key> {
    if let [part] = parts {
        return (octets.len() == part_length(*part))
            .then(|| read_datum(*part, octets))
            .flatten()
            .map(|one| [one].into());
    }
    let mut key = Vec::with_capacity(parts.len());
    for part in parts {
        let value = octets.get(..part_length(*part))?;
        key.push(read_datum(*part, value)?);
        octets = octets.get(padded_length(*part, parts.len())..)?;
    }
    octets.is_empty().then(|| key.into())
}

fn read_datum(part: FieldType, value: &[u8]) -> Option<Datum> {
    Some(match part {
        FieldType::Addr(family) => Datum::Addr(read_address(family, value)?),
        FieldType::Proto => Datum::Proto(*value.first()?),
        FieldType::Port => Datum::Port(u16::from_be_bytes(*value.first_chunk()?)),
        FieldType::Interface => {
            let text = value.split(|byte| *byte == 0).next()?;
            Datum::Interface(core::str::from_utf8(text).ok()?.parse().ok()?)
        }
        _ => return None,
    })
}

/// Reads back an address.
pub(crate) fn read_address(family: Family, value: &[u8]) -> Option<IpAddr> {
    Some(match family {
        Family::V4 => Ipv4Addr::from(<[u8; 4]>::try_from(value).ok()?).into(),
        Family::V6 => Ipv6Addr::from(<[u8; 16]>::try_from(value).ok()?).into(),
    })
}

/// The first address after a prefix; none after the family's last.
pub(crate) fn after(cidr: &Cidr) -> Option<IpAddr> {
    Some(match cidr.bounds().1 {
        IpAddr::V4(last) => Ipv4Addr::from(u32::from(last).checked_add(1)?).into(),
        IpAddr::V6(last) => Ipv6Addr::from(u128::from(last).checked_add(1)?).into(),
    })
}

/// The prefix that starts at one address and ends before the other (none: at the family's last), if there is one such.
pub(crate) fn cidr_between(first: IpAddr, end: Option<IpAddr>) -> Option<Cidr> {
    let number = |address| match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    };
    let bits = Family::of(first).bits();
    // All arithmetic is modulo the family's width, so that "past the last address" is zero.
    let mask = if bits == 32 { u128::from(u32::MAX) } else { u128::MAX };
    let size = end.map_or(0, number).wrapping_sub(number(first)) & mask;
    let host_bits = if size == 0 { u32::from(bits) } else { size.trailing_zeros() };
    let length = bits.checked_sub(u8::try_from(host_bits).ok()?)?;
    let cidr = Cidr::new(first, length)?;
    (cidr.address() == first && after(&cidr) == end).then_some(cidr)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_types_as_nft_does() {
        assert_eq!(key_type(&[FieldType::Interface, FieldType::Addr(Family::V4)]), Some(0xa47));
        assert_eq!(key_of_type(0xa47), Some(vec![FieldType::Interface, FieldType::Addr(Family::V4)]));
        assert_eq!(key_of_type(0), None);
        assert_eq!(key_of_type(5), None);
    }

    #[test]
    fn pads_only_in_concatenations() {
        let key = [Datum::Proto(6), Datum::Port(80)];
        let mut octets = Vec::new();
        push_key(&mut octets, &key);
        assert_eq!(octets, [6, 0, 0, 0, 0, 80, 0, 0]);
        let parts = [FieldType::Proto, FieldType::Port];
        assert_eq!(key_length(&parts), octets.len());
        assert_eq!(read_key(&parts, &octets).as_deref(), Some(&key[..]));
        assert_eq!(read_key(&parts, &octets[..7]), None);
        let mut port = Vec::new();
        push_key(&mut port, &[Datum::Port(80)]);
        assert_eq!(port, [0, 80]);
    }

    proptest! {
        #[test]
        fn prefixes_survive_their_bounds(address: [u8; 16], length in 0u8..=128, four: bool) {
            let cidr = if four {
                let [a, b, c, d, ..] = address;
                Cidr::new(IpAddr::from([a, b, c, d]), length % 33).unwrap()
            } else {
                Cidr::new(IpAddr::from(address), length).unwrap()
            };
            prop_assert_eq!(cidr_between(cidr.address(), after(&cidr)), Some(cidr));
        }

        #[test]
        fn no_prefix_from_other_bounds(first: u32, size in 1u32..1000) {
            let end = first.checked_add(size).map(|end| IpAddr::from(end.to_be_bytes()));
            prop_assume!(end.is_some());
            let found = cidr_between(IpAddr::from(first.to_be_bytes()), end);
            let exact = size.is_power_of_two() && first % size == 0;
            prop_assert_eq!(found.is_some(), exact);
        }
    }
}
