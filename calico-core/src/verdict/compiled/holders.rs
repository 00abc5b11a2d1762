//! Which conditions hold an address, or a port of an address: sets turned inside out.

use alloc::vec::Vec;
use core::cmp::Reverse;
use core::hash::Hash;
use core::net::IpAddr;

use hashbrown::HashMap;

use crate::calc::event::Member;
use crate::net::{Cidr, Family};

/// Number of a condition.
pub(in crate::verdict) type ConditionId = u32;

/// Members of all sets and lists, with who has them.
#[derive(Debug, Default)]
pub(super) struct Holders {
    v4: Lengths<u32>,
    v6: Lengths<u128>,
    ports: HashMap<Triple, Ids>,
}

/// Address, protocol and port.
pub(in crate::verdict) type Triple = (IpAddr, u8, u16);

/// Prefixes by length; no table is empty. An address is looked up once for each length that there is, and there are few.
#[derive(Debug)]
struct Lengths<K>(Vec<(u8, HashMap<K, Ids>)>);

/// Some numbers in order, none twice. Nearly all addresses are in one set or two.
#[derive(Debug)]
enum Ids {
    One(ConditionId),
    Many(Vec<ConditionId>),
}

impl Holders {
    /// A condition gains or loses a member.
    pub(super) fn set(&mut self, member: Member, id: ConditionId, present: bool) {
        match member {
            Member::Net(net) => self.set_net(net, id, present),
            Member::AddrPort { address, protocol, port } => {
                change(&mut self.ports, (address, protocol, port), id, present);
            }
        }
    }

    fn set_net(&mut self, net: Cidr, id: ConditionId, present: bool) {
        match net.address() {
            IpAddr::V4(address) => self.v4.set(address.to_bits(), net.length(), id, present),
            IpAddr::V6(address) => self.v6.set(address.to_bits(), net.length(), id, present),
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.v4.0.is_empty() && self.v6.0.is_empty() && self.ports.is_empty()
    }

    /// Puts those that hold an address into `found`, in order, none twice, each with the length of its longest prefix that does.
    pub(super) fn of_address(&self, address: IpAddr, found: &mut Vec<(ConditionId, u8)>) {
        found.clear();
        match address {
            IpAddr::V4(address) => self.v4.find(found, |length| mask4(address.to_bits(), length)),
            IpAddr::V6(address) => self.v6.find(found, |length| mask6(address.to_bits(), length)),
        }
        found.sort_unstable_by_key(|(id, length)| (*id, Reverse(*length)));
        found.dedup_by_key(|(id, _)| *id);
    }

    /// Those that have a port of an address, in order.
    pub(super) fn of_port(&self, triple: &Triple) -> &[ConditionId] {
        self.ports.get(triple).map(Ids::all).unwrap_or_default()
    }
}

const fn mask4(address: u32, length: u8) -> u32 {
    match u32::MAX.checked_shl((Family::V4.bits() - length) as u32) {
        Some(mask) => address & mask,
        None => 0,
    }
}

const fn mask6(address: u128, length: u8) -> u128 {
    match u128::MAX.checked_shl((Family::V6.bits() - length) as u32) {
        Some(mask) => address & mask,
        None => 0,
    }
}

impl<K> Default for Lengths<K> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Hash + Eq> Lengths<K> {
    fn set(&mut self, key: K, length: u8, id: ConditionId, present: bool) {
        match self.0.iter_mut().position(|(known, _)| *known == length) {
            Some(index) => {
                let Some((_, table)) = self.0.get_mut(index) else { return };
                change(table, key, id, present);
                if table.is_empty() {
                    self.0.swap_remove(index);
                }
            }
            None if present => self.0.push((length, core::iter::once((key, Ids::One(id))).collect())),
            None => {}
        }
    }

    fn find(&self, found: &mut Vec<(ConditionId, u8)>, key: impl Fn(u8) -> K) {
        for (length, table) in &self.0 {
            if let Some(ids) = table.get(&key(*length)) {
                found.extend(ids.all().iter().map(|id| (*id, *length)));
            }
        }
    }
}

fn change<K: Hash + Eq>(table: &mut HashMap<K, Ids>, key: K, id: ConditionId, present: bool) {
    if present {
        match table.get_mut(&key) {
            Some(ids) => ids.insert(id),
            None => {
                table.insert(key, Ids::One(id));
            }
        }
    } else if table.get_mut(&key).is_some_and(|ids| ids.remove(id)) {
        table.remove(&key);
    }
}

impl Ids {
    fn all(&self) -> &[ConditionId] {
        match self {
            Self::One(id) => core::slice::from_ref(id),
            Self::Many(ids) => ids,
        }
    }

    fn insert(&mut self, id: ConditionId) {
        match self {
            Self::One(only) if *only == id => {}
            Self::One(only) => {
                let mut both = alloc::vec![*only, id];
                both.sort_unstable();
                *self = Self::Many(both);
            }
            Self::Many(ids) => {
                if let Err(index) = ids.binary_search(&id) {
                    ids.insert(index, id);
                }
            }
        }
    }

    /// Whether nothing is left.
    fn remove(&mut self, id: ConditionId) -> bool {
        match self {
            Self::One(only) => *only == id,
            Self::Many(ids) => {
                if let Ok(index) = ids.binary_search(&id) {
                    ids.remove(index);
                }
                if let [only] = **ids {
                    *self = Self::One(only);
                }
                false
            }
        }
    }
}
