//! Address arithmetic inside prefixes: ordinals of addresses, and blocks of pools.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::net::{Cidr, Family};

/// The address at an ordinal of a block; `None` beyond its end.
pub(super) fn at(block: Cidr, ordinal: u32) -> Option<IpAddr> {
    let address = number(block.address()).checked_add(ordinal.into())?;
    from_number(block.family(), address).filter(|address| block.contains(*address))
}

/// The ordinal of an address in a block; `None` outside.
pub(super) fn ordinal(block: Cidr, address: IpAddr) -> Option<u32> {
    if !block.contains(address) {
        return None;
    }
    u32::try_from(number(address) - number(block.address())).ok()
}

/// How many blocks of `length` bits a pool has; `None` if such a block is larger than the pool.
pub(super) fn block_count(pool: Cidr, length: u8) -> Option<u128> {
    if length > pool.family().bits() {
        return None;
    }
    let bits = length.checked_sub(pool.length())?;
    // A pool of all IPv6 addresses in host-sized blocks: one fewer than there are is as good as infinite.
    Some(1_u128.checked_shl(bits.into()).unwrap_or(u128::MAX))
}

/// The block at an index of a pool.
pub(super) fn block_at(pool: Cidr, length: u8, index: u128) -> Option<Cidr> {
    let host_bits = pool.family().bits().checked_sub(length)?;
    let offset = if host_bits == 128 { 0 } else { index.checked_mul(1 << host_bits)? };
    let address = from_number(pool.family(), number(pool.address()).checked_add(offset)?)?;
    Cidr::new(address, length).filter(|block| pool.covers(block))
}

/// The block of a pool that holds an address.
pub(super) fn block_of(pool: Cidr, length: u8, address: IpAddr) -> Option<Cidr> {
    if !pool.contains(address) {
        return None;
    }
    Cidr::new(address, length).filter(|block| pool.covers(block))
}

/// How many places of `length` bits there are from `from` to the end of a stored block that overlaps it; at least one.
pub(super) fn places_to_end(block: Cidr, from: Cidr) -> u128 {
    let host_bits = u32::from(from.family().bits().saturating_sub(from.length()));
    let rest = number(block.bounds().1).saturating_sub(number(from.address()));
    rest.checked_shr(host_bits).unwrap_or_default().saturating_add(1)
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

fn from_number(family: Family, number: u128) -> Option<IpAddr> {
    match family {
        Family::V4 => u32::try_from(number).ok().map(|number| Ipv4Addr::from(number).into()),
        Family::V6 => Some(Ipv6Addr::from(number).into()),
    }
}
