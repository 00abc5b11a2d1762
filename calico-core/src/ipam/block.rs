//! One allocation block: which ordinal is held by whom, in upstream's stored form.
//!
//! What comes in is an [`IpamBlock`] as stored; [`Block::admit`] lets only consistent ones through, so that every operation can
//! rely on the invariants: one `allocations` entry per address of the block, every index within `attributes`, every ordinal either
//! allocated or in `unallocated` and never twice. What goes out is the same document changed the way upstream
//! (`libcalico-go/lib/backend/model/block.go`, `lib/ipam/ipam_block.go`) would have changed it:
//!
//! - Free ordinals are a queue: taken from the head, returned to the tail, so that an address is not reused at once.
//! - Allocations with equal owners share one attribute entry.
//! - A released ordinal first rests: it points at an entry that holds only `releasedAt`. [`Block::collect`] frees those whose rest
//!   is over.
//! - `sequenceNumber` grows with every write; an ordinal remembers the number that the block had when it was allocated.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;

use super::address;
use crate::net::Cidr;
use crate::resource::{AffinityOwner, AllocationAttribute, IpamBlock};
use crate::time::Timestamp;

/// Largest block that is believed: 16 host bits. Upstream allows 12.
const MAX_HOST_BITS: u8 = 16;

/// A consistent allocation block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    stored: IpamBlock,
}

/// Who is to hold an address.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals")]
pub struct Holder {
    /// Handle.
    pub handle: Arc<str>,
    /// Attributes that are stored with each address (`node`, `pod`, `namespace`, `timestamp` …).
    pub attributes: BTreeMap<String, String>,
}

/// State of one ordinal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "an address is in one of these states")]
pub enum Allocation<'a> {
    /// Nobody's.
    Free,
    /// Released, and not yet to be handed out again.
    Resting,
    /// Somebody's.
    Held(&'a AllocationAttribute),
}

impl Block {
    /// A new block of an owner. Sequence numbers start at the time in nanoseconds, so that those of a block made anew are larger than
    /// all it ever had.
    pub fn create(cidr: Cidr, owner: &AffinityOwner, now: Timestamp) -> Option<Self> {
        let size = size(cidr)?;
        let mut stored = IpamBlock {
            cidr,
            affinity: None,
            affinity_claim_time: None,
            allocations: vec![None; usize::try_from(size).ok()?],
            unallocated: (0..size).collect(),
            attributes: Vec::new(),
            sequence_number: now.nanos(),
            sequence_number_for_allocation: BTreeMap::new(),
            deleted: false,
            host_affinity: None,
        };
        claim(&mut stored, owner, now);
        Some(Self { stored })
    }

    /// Checks a stored block; the error says what is wrong with it.
    pub fn admit(cidr: Cidr, stored: &IpamBlock) -> Result<Self, String> {
        if stored.cidr != cidr {
            return Err(format!("cidr: {} is stored under the key of {cidr}", stored.cidr));
        }
        let size = size(cidr).ok_or("cidr: too large for an allocation block")?;
        if usize::try_from(size) != Ok(stored.allocations.len()) {
            return Err(format!("allocations: {} entries for {size} addresses", stored.allocations.len()));
        }
        if let Some(index) = stored.allocations.iter().flatten().find(|index| **index >= stored.attributes.len()) {
            return Err(format!("allocations: attribute {index} does not exist"));
        }
        let mut free = BTreeSet::new();
        for ordinal in &stored.unallocated {
            let allocation = usize::try_from(*ordinal).ok().and_then(|at| stored.allocations.get(at));
            if allocation != Some(&None) || !free.insert(*ordinal) {
                return Err(format!("unallocated: ordinal {ordinal} is not free, or listed twice"));
            }
        }
        if free.len() + stored.allocations.iter().flatten().count() != stored.allocations.len() {
            return Err("unallocated: a free ordinal is missing".to_owned());
        }
        Ok(Self { stored: stored.clone() })
    }

    /// Its prefix.
    pub const fn cidr(&self) -> Cidr {
        self.stored.cidr
    }

    /// `host:<name>`, `virtual:<name>` or none.
    pub fn affinity(&self) -> Option<&str> {
        self.stored.affinity.as_deref()
    }

    /// Whether the owner holds it.
    pub fn is_affine_to(&self, owner: &AffinityOwner) -> bool {
        self.stored.affinity.as_ref().is_some_and(|affinity| *affinity == owner.to_string())
    }

    /// When the affinity was claimed, if that is known.
    pub fn claimed_at(&self) -> Option<Timestamp> {
        self.stored.affinity_claim_time.as_deref().and_then(Timestamp::parse_rfc3339)
    }

    /// Makes it the owner's.
    pub fn claim(&mut self, owner: &AffinityOwner, now: Timestamp) {
        claim(&mut self.stored, owner, now);
    }

    /// How many addresses can be handed out.
    pub fn free(&self) -> usize {
        self.stored.unallocated.len()
    }

    /// Whether no address is held or resting.
    pub fn is_empty(&self) -> bool {
        self.stored.allocations.iter().all(Option::is_none)
    }

    /// Whether it may go: nobody's and empty. Upstream deletes such a block instead of writing it.
    pub fn is_abandoned(&self) -> bool {
        self.stored.affinity.is_none() && self.is_empty()
    }

    /// State of an address of the block; `None` outside.
    pub fn allocation(&self, address: IpAddr) -> Option<Allocation<'_>> {
        let ordinal = address::ordinal(self.stored.cidr, address)?;
        let index = *self.stored.allocations.get(usize::try_from(ordinal).ok()?)?;
        Some(match index.and_then(|index| self.stored.attributes.get(index)) {
            None => Allocation::Free,
            Some(attribute) if attribute.released_at.is_some() => Allocation::Resting,
            Some(attribute) => Allocation::Held(attribute),
        })
    }

    /// The sequence number that an address was allocated under; 0 if none is noted.
    pub fn sequence_of(&self, address: IpAddr) -> u64 {
        let ordinal = address::ordinal(self.stored.cidr, address);
        let number = ordinal.and_then(|at| self.stored.sequence_number_for_allocation.get(&at.to_string()));
        number.copied().unwrap_or_default()
    }

    /// The addresses that a handle holds, in order.
    pub fn held_by(&self, handle: &str) -> Vec<IpAddr> {
        let held = self.ordinals_of(handle);
        held.into_iter().filter_map(|ordinal| address::at(self.stored.cidr, ordinal)).collect()
    }

    /// Takes up to `count` addresses from the head of the queue.
    pub fn take(&mut self, count: usize, holder: &Holder) -> Vec<IpAddr> {
        let count = count.min(self.stored.unallocated.len());
        let taken: Vec<_> = self.stored.unallocated.drain(..count).collect();
        self.allocate(&taken, holder);
        taken.into_iter().filter_map(|ordinal| address::at(self.stored.cidr, ordinal)).collect()
    }

    /// Takes one address out of the queue; `false` if it is not free.
    pub fn take_address(&mut self, address: IpAddr, holder: &Holder) -> bool {
        let Some(ordinal) = address::ordinal(self.stored.cidr, address) else { return false };
        let Some(position) = self.stored.unallocated.iter().position(|free| *free == ordinal) else { return false };
        self.stored.unallocated.remove(position);
        self.allocate(&[ordinal], holder);
        true
    }

    /// Releases all that a handle holds. Sequence numbers stay, as upstream leaves them on this path.
    pub fn release_handle(&mut self, handle: &str, now: Timestamp) -> Vec<IpAddr> {
        let held = self.ordinals_of(handle);
        self.rest(&held, now);
        held.into_iter().filter_map(|ordinal| address::at(self.stored.cidr, ordinal)).collect()
    }

    /// Releases one address; `false` if it is not held.
    pub fn release_address(&mut self, address: IpAddr, now: Timestamp) -> bool {
        let Some(Allocation::Held(_)) = self.allocation(address) else { return false };
        let Some(ordinal) = address::ordinal(self.stored.cidr, address) else { return false };
        self.rest(&[ordinal], now);
        self.stored.sequence_number_for_allocation.insert(ordinal.to_string(), self.stored.sequence_number);
        true
    }

    /// Frees the ordinals whose rest of `cooldown` seconds is over, and drops attributes that nobody refers to.
    pub fn collect(&mut self, now: Timestamp, cooldown: u32) {
        let attributes = self.stored.attributes.iter().enumerate();
        let over = attributes.filter(|(_, attribute)| is_over(attribute, now, cooldown)).map(|(index, _)| index);
        let over: BTreeSet<_> = over.collect();
        for (allocation, ordinal) in self.stored.allocations.iter_mut().zip(0..) {
            if allocation.is_some_and(|index| over.contains(&index)) {
                *allocation = None;
                self.stored.unallocated.push(ordinal);
                self.stored.sequence_number_for_allocation.remove(&ordinal.to_string());
            }
        }
        self.compact();
    }

    /// The document to store, one sequence number on.
    pub fn into_stored(mut self) -> IpamBlock {
        self.stored.sequence_number = self.stored.sequence_number.wrapping_add(1);
        self.stored
    }

    /// The document to create: a block that is not stored yet keeps its first number.
    pub fn into_created(self) -> IpamBlock {
        self.stored
    }

    fn ordinals_of(&self, handle: &str) -> Vec<u32> {
        let wanted = bare(handle);
        let is_held = |index: usize| {
            let attribute = self.stored.attributes.get(index).filter(|attribute| attribute.released_at.is_none());
            attribute.and_then(|attribute| attribute.handle_id.as_deref()).is_some_and(|id| bare(id) == wanted)
        };
        let allocations = self.stored.allocations.iter().zip(0..);
        allocations.filter(|(index, _)| index.is_some_and(is_held)).map(|(_, ordinal)| ordinal).collect()
    }

    fn allocate(&mut self, ordinals: &[u32], holder: &Holder) {
        if ordinals.is_empty() {
            return;
        }
        let attribute = AllocationAttribute {
            handle_id: Some((*holder.handle).to_owned()),
            secondary: holder.attributes.clone(),
            ..Default::default()
        };
        let index = self.attribute_index(attribute);
        self.point(ordinals, index);
        for ordinal in ordinals {
            self.stored.sequence_number_for_allocation.insert(ordinal.to_string(), self.stored.sequence_number);
        }
    }

    fn rest(&mut self, ordinals: &[u32], now: Timestamp) {
        if ordinals.is_empty() {
            return;
        }
        let attribute = AllocationAttribute { released_at: Some(now.rfc3339()), ..Default::default() };
        let index = self.attribute_index(attribute);
        self.point(ordinals, index);
    }

    fn attribute_index(&mut self, attribute: AllocationAttribute) -> usize {
        self.stored.attributes.iter().position(|other| *other == attribute).unwrap_or_else(|| {
            self.stored.attributes.push(attribute);
            self.stored.attributes.len() - 1
        })
    }

    fn point(&mut self, ordinals: &[u32], index: usize) {
        for ordinal in ordinals {
            let slot = usize::try_from(*ordinal).ok().and_then(|at| self.stored.allocations.get_mut(at));
            if let Some(slot) = slot {
                *slot = Some(index);
            }
        }
    }

    fn compact(&mut self) {
        let used: BTreeSet<_> = self.stored.allocations.iter().flatten().copied().collect();
        if used.len() == self.stored.attributes.len() {
            return;
        }
        let renumbered: BTreeMap<_, _> = used.iter().copied().zip(0_usize..).collect();
        for allocation in self.stored.allocations.iter_mut().flatten() {
            *allocation = renumbered.get(allocation).copied().unwrap_or_default();
        }
        let mut index = 0..;
        self.stored.attributes.retain(|_| index.next().is_some_and(|index| used.contains(&index)));
    }
}

/// Number of addresses of a block; `None` if no block may be that large.
fn size(cidr: Cidr) -> Option<u32> {
    let host_bits = cidr.family().bits().checked_sub(cidr.length()).filter(|bits| *bits <= MAX_HOST_BITS)?;
    1_u32.checked_shl(host_bits.into())
}

fn claim(stored: &mut IpamBlock, owner: &AffinityOwner, now: Timestamp) {
    stored.affinity = Some(owner.to_string());
    stored.affinity_claim_time = Some(now.rfc3339());
}

/// Whether the rest of a released ordinal is over. Upstream wants the end to be strictly past, so that with no cool-down an ordinal
/// released in the same second rests until the next load; here it is over at its end. An unreadable time counts as long ago.
fn is_over(attribute: &AllocationAttribute, now: Timestamp, cooldown: u32) -> bool {
    attribute.released_at.as_deref().is_some_and(|released| {
        Timestamp::parse_rfc3339(released).is_none_or(|released| released.plus_secs(cooldown.into()) <= now)
    })
}

/// A handle id without what follows a carriage return: some were stored with a line end (upstream's old host-local migration).
pub(super) fn bare(handle: &str) -> &str {
    handle.split_once('\r').map_or(handle, |(id, _)| id)
}
