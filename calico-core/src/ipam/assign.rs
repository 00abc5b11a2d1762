//! Assignment: make a handle hold so many addresses, or a certain one.
//!
//! Per family, in this order: what the handle holds already; the host's own blocks; a block claimed anew (see `claim`); and, unless
//! affinity is strict, a free address of another host's block. Both families are one decision and one commit: a request that cannot be
//! served in full writes nothing, so there is nothing to roll back.

use alloc::string::ToString;
use alloc::vec::Vec;
use core::net::IpAddr;

use super::claim::Search;
use super::draft::{Direction, Draft, config};
use super::lookup::{self, Assigned};
use super::machine::{Halt, Picture, Seen, Verdict, sealed::Decide};
use super::pool::{self, Wish};
use super::request::{Assign, FamilyWant, Want};
use super::work::Work;
use super::{Allocation, Block, Found, IpamError, Query, address};
use crate::net::{Cidr, Family};
use crate::resource::{AffinityOwner, AllowedUse, IpPoolSpec, Resource, ResourceKey};

/// Most blocks of a host where neither the cluster nor the request says otherwise; upstream's number.
const DEFAULT_MAX_BLOCKS: u32 = 20;

impl Decide for Assign {
    type Output = Vec<Assigned>;

    fn decide(&self, picture: &Picture) -> Result<Verdict<Self::Output>, Halt> {
        let handle_key = ResourceKey::Handle(self.holder.handle.clone());
        let first = [Query::Object(handle_key), Query::Object(ResourceKey::IpamConfig), Query::Pools];
        picture.require(first.into_iter().chain([Query::Affinities(self.owner())]))?;
        let config = config(picture)?;
        let held = self.held(picture)?;
        let draft = Draft::new(picture, self.now, config.ip_cooldown_seconds);
        let mut work = Work { request: self, picture, config, owner: self.owner(), draft };
        let output = match &self.want {
            Want::Any { v4, v6 } => {
                let mut all = work.family(Family::V4, v4, &held)?;
                all.extend(work.family(Family::V6, v6, &held)?);
                all
            }
            Want::Address(address) => alloc::vec![work.address(*address)?],
        };
        let writes = work.draft.into_writes(core::slice::from_ref(&self.holder.handle), Direction::Out)?;
        Ok(Verdict { writes, output })
    }
}

impl Assign {
    fn owner(&self) -> AffinityOwner {
        AffinityOwner::Host(self.node.clone())
    }

    fn held(&self, picture: &Picture) -> Result<Vec<Assigned>, Halt> {
        lookup::held(picture, &self.holder.handle)
    }
}

impl Work<'_> {
    fn family(&mut self, family: Family, want: &FamilyWant, held: &[Assigned]) -> Result<Vec<Assigned>, Halt> {
        let count = usize::try_from(want.count).unwrap_or(usize::MAX);
        let mut got: Vec<_> =
            held.iter().filter(|held| Family::of(held.address) == family).take(count).copied().collect();
        if got.len() >= count {
            return Ok(got);
        }
        let Assign { node, intended_use, namespace_labels, .. } = self.request;
        let namespace_labels = namespace_labels.as_ref();
        let wish = Wish { family, named: &want.pools, node, namespace_labels, intended_use: *intended_use };
        let pools = pool::choose(self.picture, &wish)?;
        let own = self.own_blocks(&pools)?;
        self.use_own_blocks(&own, count, &mut got)?;
        if got.len() < count {
            self.go_elsewhere(&pools, own.len(), count, &mut got)?;
        }
        if got.len() < count {
            return Err(IpamError::Exhausted {
                family,
                wanted: want.count,
                obtained: u32::try_from(got.len()).unwrap_or(u32::MAX),
                pools: pools.iter().map(|pool| pool.cidr).collect(),
                strict: self.config.strict_affinity,
            }
            .into());
        }
        Ok(got)
    }

    /// The owner's claims inside the pools, in order.
    fn own_blocks(&self, pools: &[&IpPoolSpec]) -> Result<Vec<Cidr>, Halt> {
        let affinities = self.picture.list(&Query::Affinities(self.owner.clone()))?;
        let claimed = affinities.filter_map(|(key, found)| match (key, found) {
            (ResourceKey::Affinity { block, .. }, Found::Present { resource, .. }) => match resource.as_ref() {
                Resource::BlockAffinity(affinity) if !affinity.deleted => Some(*block),
                _ => None,
            },
            _ => None,
        });
        Ok(claimed.filter(|block| pools.iter().any(|pool| pool.cidr.covers(block))).collect())
    }

    fn use_own_blocks(&mut self, own: &[Cidr], count: usize, got: &mut Vec<Assigned>) -> Result<(), Halt> {
        for (index, cidr) in own.iter().enumerate() {
            if got.len() >= count {
                return Ok(());
            }
            // Full blocks are the rule but for the last: read as many more at once as were read before.
            let ahead = own.iter().skip(index).take(index.max(1)).map(|cidr| Query::Object(ResourceKey::Block(*cidr)));
            if !self.draft.touches(*cidr) && self.picture.block(*cidr).is_err() {
                self.picture.require(ahead)?;
            }
            self.use_own_block(*cidr, count, got)?;
        }
        Ok(())
    }

    /// The states that a claim and its block can be in, whoever stopped in the middle.
    fn use_own_block(&mut self, cidr: Cidr, count: usize, got: &mut Vec<Assigned>) -> Result<(), Halt> {
        match self.draft.block(cidr)? {
            Seen::Present(block, version) if block.is_affine_to(&self.owner) => {
                if block.free() > 0 && self.draft.confirm(&self.owner, cidr)? {
                    self.take(block, Some(version), count, got);
                }
            }
            // Somebody else won the block.
            Seen::Present(..) => self.draft.disclaim(&self.owner, cidr)?,
            Seen::Absent => {
                self.make(cidr, count, got)?;
            }
            Seen::Unusable(_) => {}
        }
        Ok(())
    }

    fn go_elsewhere(
        &mut self,
        pools: &[&IpPoolSpec],
        mut own: usize,
        count: usize,
        got: &mut Vec<Assigned>,
    ) -> Result<(), Halt> {
        let limit = self.max_blocks();
        while got.len() < count && self.config.auto_allocate_blocks {
            if u32::try_from(own).unwrap_or(u32::MAX) >= limit {
                // Upstream stops here, and does not borrow either.
                return Err(IpamError::BlockLimit { limit }.into());
            }
            if !Search::new(self, pools).claim(count, got)? {
                break;
            }
            own += 1;
        }
        if got.len() < count && !self.config.strict_affinity && self.request.intended_use != AllowedUse::Tunnel {
            Search::new(self, pools).borrow(count, got)?;
        }
        Ok(())
    }

    fn max_blocks(&self) -> u32 {
        let limits = [self.config.max_blocks_per_host, self.request.max_blocks];
        limits.into_iter().filter(|limit| *limit > 0).min().unwrap_or(DEFAULT_MAX_BLOCKS)
    }

    /// One certain address. As upstream: any enabled pool will do, and the block limit does not count.
    fn address(&mut self, wanted: IpAddr) -> Result<Assigned, Halt> {
        let pool = pool::holding(self.picture, wanted)?.ok_or(IpamError::NotInPool { address: wanted })?;
        if !pool.allowed_uses.contains(&self.request.intended_use) {
            return Err(IpamError::NoPoolForUse { wanted: self.request.intended_use }.into());
        }
        let cidr = address::block_of(pool.cidr, pool.block_length(), wanted);
        let cidr = cidr.ok_or(IpamError::NotInPool { address: wanted })?;
        let (mut block, version) = match self.draft.block(cidr)? {
            Seen::Present(block, version) => (block, Some(version)),
            Seen::Absent => (self.new_block(cidr)?, None),
            Seen::Unusable(reason) => {
                return Err(IpamError::Unusable { key: ResourceKey::Block(cidr), reason }.into());
            }
        };
        if let Some(Allocation::Held(attribute)) = block.allocation(wanted) {
            let holder = attribute.handle_id.clone();
            if holder.as_deref().is_some_and(|id| super::block::bare(id) == &*self.request.holder.handle) {
                return Ok(Assigned { address: wanted, block: cidr });
            }
            return Err(IpamError::AlreadyAssigned { address: wanted, holder }.into());
        }
        if self.config.strict_affinity && !block.is_affine_to(&self.owner) {
            let affinity = block.affinity().unwrap_or("none").to_string();
            return Err(IpamError::ForeignBlock { block: cidr, affinity, wanted: self.owner.to_string() }.into());
        }
        if !block.take_address(wanted, &self.request.holder) {
            return Err(IpamError::AlreadyAssigned { address: wanted, holder: None }.into());
        }
        self.draft.put_block(block, version);
        Ok(Assigned { address: wanted, block: cidr })
    }

    fn new_block(&mut self, cidr: Cidr) -> Result<Block, Halt> {
        let unusable = |reason: &str| IpamError::Unusable { key: ResourceKey::Block(cidr), reason: reason.to_string() };
        if !self.draft.confirm(&self.owner, cidr)? {
            return Err(unusable("the node's claim of it cannot be read").into());
        }
        let block = Block::create(cidr, &self.owner, self.request.now);
        Ok(block.ok_or_else(|| unusable("too large for an allocation block"))?)
    }
}
