//! The changes that a decision wants, on top of what was seen.
//!
//! Reads go through the draft, so that one decision may take several addresses, of both families, from the same or from new blocks,
//! and ends with one commit. The order of the writes is the one that [`Op::Commit`](super::Op::Commit) promises.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::affinity::CONFIRMED;
use super::machine::{Halt, Picture, Seen};
use super::op::{Version, Write};
use super::{Block, IpamError};
use crate::net::Cidr;
use crate::resource::{AffinityOwner, BlockAffinity, IpamConfig, IpamHandle, Resource, ResourceKey};
use crate::time::Timestamp;

pub(super) struct Draft<'a> {
    picture: &'a Picture,
    now: Timestamp,
    cooldown: u32,
    blocks: BTreeMap<Cidr, (Block, Option<Version>)>,
    affinities: BTreeMap<ResourceKey, (Option<BlockAffinity>, Option<Version>)>,
}

/// Which way addresses go: decides whether handles are written before blocks or after.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Out,
    Back,
}

impl<'a> Draft<'a> {
    pub(super) const fn new(picture: &'a Picture, now: Timestamp, cooldown: u32) -> Self {
        Self { picture, now, cooldown, blocks: BTreeMap::new(), affinities: BTreeMap::new() }
    }

    /// A block as it will be, with what has rested long enough collected.
    pub(super) fn block(&self, cidr: Cidr) -> Result<Seen<Block>, Halt> {
        if let Some((block, version)) = self.blocks.get(&cidr) {
            // The version of a draft is its own business; `put_block` keeps the first.
            return Ok(Seen::Present(block.clone(), version.unwrap_or(Version::from_raw(0))));
        }
        let mut seen = self.picture.block(cidr)?;
        if let Seen::Present(block, _) = &mut seen {
            block.collect(self.now, self.cooldown);
        }
        Ok(seen)
    }

    /// Whether this decision changes or makes the block.
    pub(super) fn touches(&self, cidr: Cidr) -> bool {
        self.blocks.contains_key(&cidr)
    }

    /// How many blocks this decision changes or makes.
    pub(super) fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// Stores a block that was read at `version`, or `None` if it is new.
    pub(super) fn put_block(&mut self, block: Block, version: Option<Version>) {
        let version = self.blocks.get(&block.cidr()).map_or(version, |(_, first)| *first);
        self.blocks.insert(block.cidr(), (block, version));
    }

    /// Makes the owner's claim complete; `false` if the stored claim is unreadable and so cannot be replaced.
    pub(super) fn confirm(&mut self, owner: &AffinityOwner, block: Cidr) -> Result<bool, Halt> {
        let key = ResourceKey::Affinity { owner: owner.clone(), block };
        let version = match self.affinity(&key)? {
            Seen::Present(affinity, _) if affinity.is_confirmed() && !self.affinities.contains_key(&key) => {
                return Ok(true);
            }
            Seen::Present(_, version) => Some(version),
            Seen::Absent => None,
            Seen::Unusable(_) => return Ok(false),
        };
        self.affinities.insert(key, (Some(CONFIRMED), version));
        Ok(true)
    }

    /// Deletes a claim, if there is one.
    pub(super) fn disclaim(&mut self, owner: &AffinityOwner, block: Cidr) -> Result<(), Halt> {
        let key = ResourceKey::Affinity { owner: owner.clone(), block };
        if let Seen::Present(_, version) = self.affinity(&key)? {
            self.affinities.insert(key, (None, Some(version)));
        }
        Ok(())
    }

    fn affinity(&self, key: &ResourceKey) -> Result<Seen<&'a BlockAffinity>, Halt> {
        self.picture.typed(key, |resource| match resource {
            Resource::BlockAffinity(affinity) => Some(affinity),
            _ => None,
        })
    }

    /// The writes. Each handle's counts are made exact for every block that was seen.
    pub(super) fn into_writes(self, handles: &[Arc<str>], direction: Direction) -> Result<Vec<Write>, Halt> {
        let mut counts = Vec::new();
        for handle in handles {
            counts.extend(self.handle_write(handle)?);
        }
        let blocks = self.blocks.into_values().map(|(block, version)| {
            let key = ResourceKey::Block(block.cidr());
            let resource = match version {
                None => Some(Resource::IpamBlock(block.into_created())),
                Some(_) if block.is_abandoned() => None,
                Some(_) => Some(Resource::IpamBlock(block.into_stored())),
            };
            Write { key, expected: version, resource }
        });
        let mut writes: Vec<_> = match direction {
            Direction::Out => counts.into_iter().chain(blocks).collect(),
            Direction::Back => blocks.chain(counts).collect(),
        };
        let affinities = self.affinities.into_iter().map(|(key, (affinity, expected))| Write {
            key,
            expected,
            resource: affinity.map(Resource::BlockAffinity),
        });
        writes.extend(affinities);
        Ok(writes)
    }

    fn handle_write(&self, id: &Arc<str>) -> Result<Option<Write>, Halt> {
        let key = ResourceKey::Handle(id.clone());
        let (stored, expected) = match handle(self.picture, id)? {
            Some((stored, version)) => (stored.clone(), Some(version)),
            None => (IpamHandle::default(), None),
        };
        let mut counts = stored.block.clone();
        self.picture.require(counts.keys().map(|cidr| super::Query::Object(ResourceKey::Block(*cidr))))?;
        let cidrs: Vec<_> = counts.keys().chain(self.blocks.keys()).copied().collect();
        for cidr in cidrs {
            let held = match self.block(cidr)? {
                Seen::Present(block, _) => block.held_by(id).len(),
                Seen::Absent => 0,
                Seen::Unusable(_) => continue,
            };
            match u32::try_from(held).unwrap_or(u32::MAX) {
                0 => counts.remove(&cidr),
                held => counts.insert(cidr, held),
            };
        }
        Ok(match (expected, counts.is_empty()) {
            (None, true) => None,
            (Some(_), true) => Some(Write { key, expected, resource: None }),
            // Where a block is written, the handle is written too, even unchanged: its revision must guard the count.
            (Some(_), false) if counts == stored.block && !stored.deleted && self.blocks.is_empty() => None,
            (_, false) => {
                let resource = Resource::IpamHandle(IpamHandle { block: counts, deleted: false });
                Some(Write { key, expected, resource: Some(resource) })
            }
        })
    }
}

/// A handle, or none.
pub(super) fn handle<'a>(picture: &'a Picture, id: &Arc<str>) -> Result<Option<(&'a IpamHandle, Version)>, Halt> {
    let key = ResourceKey::Handle(id.clone());
    let view = |resource: &'a Resource| match resource {
        Resource::IpamHandle(handle) => Some(handle),
        _ => None,
    };
    match picture.typed(&key, view)? {
        Seen::Present(handle, version) => Ok(Some((handle, version))),
        Seen::Absent => Ok(None),
        Seen::Unusable(reason) => Err(IpamError::Unusable { key, reason }.into()),
    }
}

/// The cluster's settings. Unreadable ones are an error: to guess could break strictness.
pub(super) fn config(picture: &Picture) -> Result<IpamConfig, Halt> {
    let seen = picture.typed(&ResourceKey::IpamConfig, |resource| match resource {
        Resource::IpamConfig(config) => Some(config),
        _ => None,
    });
    match seen? {
        Seen::Present(config, _) => Ok(config.clone()),
        Seen::Absent => Ok(IpamConfig::default()),
        Seen::Unusable(reason) => Err(IpamError::Unusable { key: ResourceKey::IpamConfig, reason }.into()),
    }
}
