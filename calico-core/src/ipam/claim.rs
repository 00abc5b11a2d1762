//! Where an address comes from when the host's own blocks are full: a new block, an empty one that another host does not need, or
//! (borrowing) a free address of another host's block.
//!
//! Pools are tried in their order. Within a pool the search starts at a place that depends on the node's name, and goes on from there,
//! wrapping around: different hosts start at different places, so that they seldom want the same block.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::affinity;
use super::lookup::Assigned;
use super::machine::{Halt, Seen};
use super::work::Work;
use super::{Block, Query, Version, address};
use crate::net::Cidr;
use crate::resource::{AffinityOwner, IpPoolSpec, ResourceKey};

/// An empty block of another host is left alone for so long after its claim, in seconds: its owner may be about to use it. Upstream's
/// number.
const SETTLING: u64 = 60;

pub(super) struct Search<'s, 'a> {
    work: &'s mut Work<'a>,
    pools: &'s [&'s IpPoolSpec],
}

impl<'s, 'a> Search<'s, 'a> {
    pub(super) const fn new(work: &'s mut Work<'a>, pools: &'s [&'s IpPoolSpec]) -> Self {
        Self { work, pools }
    }

    /// Makes one more block the owner's and takes addresses from it; `false` if there is none to be had.
    pub(super) fn claim(&mut self, count: usize, got: &mut Vec<Assigned>) -> Result<bool, Halt> {
        let mut spare = Vec::new();
        for pool in self.pools {
            if self.claim_in(pool, count, got, &mut spare)? {
                return Ok(true);
            }
        }
        for (block, version) in spare {
            if self.reclaim(block, version, count, got)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes addresses from blocks of others.
    pub(super) fn borrow(&mut self, count: usize, got: &mut Vec<Assigned>) -> Result<(), Halt> {
        for pool in self.pools {
            let existing = self.existing(pool)?;
            let start = address::block_at(pool.cidr, pool.block_length(), self.start(pool)).unwrap_or(pool.cidr);
            let rotated: Vec<_> = existing.range(start..).chain(existing.range(..start)).copied().collect();
            for cidr in rotated {
                if got.len() >= count {
                    return Ok(());
                }
                match self.work.draft.block(cidr)? {
                    Seen::Present(block, version) if block.free() > 0 => {
                        self.work.take(block, Some(version), count, got)
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn claim_in(
        &mut self,
        pool: &IpPoolSpec,
        count: usize,
        got: &mut Vec<Assigned>,
        spare: &mut Vec<(Block, Version)>,
    ) -> Result<bool, Halt> {
        let (existing, length) = (self.existing(pool)?, pool.block_length());
        let Some(blocks) = address::block_count(pool.cidr, length) else { return Ok(false) };
        // Blocks of another size are left from before the pool was changed.
        let odd: Vec<_> = existing.iter().filter(|block| block.length() != length).copied().collect();
        let taken: BTreeSet<_> = existing.iter().filter(|block| block.length() == length).copied().collect();
        let covered = odd.iter().filter_map(|block| address::block_count(*block, length));
        let covered = covered.fold(0_u128, u128::saturating_add);
        let narrow = odd.iter().filter(|block| block.length() > length).count();
        // One place more than can be taken, by stored blocks or by those that this decision makes.
        let known = u128::try_from(taken.len() + narrow + self.work.draft.block_count()).unwrap_or(u128::MAX);
        let places = known.saturating_add(covered).saturating_add(1).min(blocks);
        let start = self.start(pool);
        let mut next = 0;
        while next < places {
            let index = start.checked_add(next).map_or(0, |index| index % blocks);
            next += 1;
            let Some(cidr) = address::block_at(pool.cidr, length, index) else { continue };
            if let Some(block) = odd.iter().find(|block| block.overlaps(&cidr)) {
                // In one step past it: a stray key may claim more than could ever be walked through.
                next = next.saturating_add(address::places_to_end(*block, cidr) - 1);
                continue;
            }
            if self.work.draft.touches(cidr) {
                continue;
            }
            if !taken.contains(&cidr) {
                if self.work.make(cidr, count, got)? {
                    return Ok(true);
                }
                continue;
            }
            let Seen::Present(block, version) = self.work.draft.block(cidr)? else { continue };
            let ours = block.is_affine_to(&self.work.owner);
            // Ours although no claim says so: the claim was lost.
            if ours && block.free() > 0 && self.work.draft.confirm(&self.work.owner, cidr)? {
                self.work.take(block, Some(version), count, got);
                return Ok(true);
            }
            if !ours && block.is_empty() {
                spare.push((block, version));
            }
        }
        Ok(false)
    }

    /// Takes over an empty block whose owner has had it for a while, or which is nobody's.
    fn reclaim(
        &mut self,
        mut block: Block,
        version: Version,
        count: usize,
        got: &mut Vec<Assigned>,
    ) -> Result<bool, Halt> {
        let now = self.work.request.now;
        if block.affinity().is_some() && block.claimed_at().is_some_and(|claimed| claimed.plus_secs(SETTLING) > now) {
            return Ok(false);
        }
        let former: Option<AffinityOwner> = block.affinity().and_then(affinity::owner);
        if !self.work.draft.confirm(&self.work.owner, block.cidr())? {
            return Ok(false);
        }
        if let Some(former) = &former {
            self.work.draft.disclaim(former, block.cidr())?;
        }
        block.claim(&self.work.owner, now);
        self.work.take(block, Some(version), count, got);
        Ok(true)
    }

    /// The pool's stored blocks, by address.
    fn existing(&self, pool: &IpPoolSpec) -> Result<BTreeSet<Cidr>, Halt> {
        let blocks = self.work.picture.list(&Query::Blocks(pool.cidr))?;
        let blocks = blocks.filter_map(|(key, _)| match key {
            ResourceKey::Block(cidr) => Some(*cidr),
            _ => None,
        });
        Ok(blocks.collect())
    }

    /// Where the node's search starts.
    fn start(&self, pool: &IpPoolSpec) -> u128 {
        let blocks = address::block_count(pool.cidr, pool.block_length()).unwrap_or(1).max(1);
        u128::from(place(&self.work.request.node, self.work.request.seed)) % blocks
    }
}

/// A well-spread number for a name and a seed: FNV-1a (64 bits), finished by splitmix64.
fn place(name: &str, seed: u64) -> u64 {
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let mut mixed = hash.wrapping_add(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
