//! Fields in packets and registers, and values as the kernel compares them.

use std::net::IpAddr;

use calico_core::net::{Cidr, Family};
use calico_core::table::{Field, Value};

use crate::nftables::key::{name_octets, push_address};

/// Offset and length of an address in its header.
pub(super) const fn address_place(field: Field) -> Option<(u32, u32)> {
    Some(match field {
        Field::SrcAddr(Family::V4) => (12, 4),
        Field::DstAddr(Family::V4) => (16, 4),
        Field::SrcAddr(Family::V6) => (8, 16),
        Field::DstAddr(Family::V6) => (24, 16),
        // Behind the types, their lengths, the operation and the sender's hardware address.
        Field::ArpSender => (14, 4),
        _ => return None,
    })
}

/// Registers of four octets that a field fills.
pub(super) const fn units(field: Field) -> u8 {
    match field {
        Field::IifName | Field::OifName | Field::SrcAddr(Family::V6) | Field::DstAddr(Family::V6) => 4,
        _ => 1,
    }
}

pub(super) fn interface_field(field: Field) -> Result<(), String> {
    let interface = matches!(field, Field::IifName | Field::OifName);
    if interface { Ok(()) } else { Err(format!("{field:?} is no interface name")) }
}

pub(super) fn address_field(field: Field, cidr: &Cidr) -> Result<(), String> {
    match field {
        Field::SrcAddr(family) | Field::DstAddr(family) if family == cidr.family() => Ok(()),
        Field::ArpSender if cidr.family() == Family::V4 => Ok(()),
        _ => Err(format!("{field:?} never lies in {cidr}")),
    }
}

pub(super) fn value_octets(field: Field, value: Value) -> Option<Vec<u8>> {
    Some(match (field, value) {
        (Field::IifName | Field::OifName, Value::Interface(name)) => name_octets(name).to_vec(),
        (Field::SrcAddr(family) | Field::DstAddr(family), Value::Addr(address)) if family == Family::of(address) => {
            let mut octets = Vec::new();
            push_address(&mut octets, address);
            octets
        }
        (Field::ArpSender, Value::Addr(IpAddr::V4(address))) => address.octets().to_vec(),
        (Field::L4Proto, Value::Proto(proto)) => vec![proto],
        (Field::SrcPort | Field::DstPort, Value::Port(port)) => port.to_be_bytes().to_vec(),
        _ => return None,
    })
}

pub(super) fn mask_octets(cidr: &Cidr) -> Vec<u8> {
    let length = u32::from(cidr.length());
    match cidr.family() {
        Family::V4 => u32::MAX.checked_shl(32 - length).unwrap_or(0).to_be_bytes().to_vec(),
        Family::V6 => u128::MAX.checked_shl(128 - length).unwrap_or(0).to_be_bytes().to_vec(),
    }
}
