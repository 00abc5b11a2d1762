//! Release: all that a handle holds, or certain addresses.
//!
//! Blocks are written before handles, so that a handle never counts too few. A block that is nobody's and empty afterwards is deleted.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use super::block::bare;
use super::draft::{Direction, Draft, config, handle};
use super::machine::{Halt, Picture, Seen, Verdict, sealed::Decide};
use super::op::Query;
use super::{Allocation, Block, IpamError, address, pool};
use crate::net::{Cidr, Family};
use crate::resource::ResourceKey;
use crate::time::Timestamp;

/// Releases all that a handle holds, and the handle. An unknown handle is no error.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals")]
pub struct ReleaseHandle {
    /// The handle.
    pub handle: Arc<str>,
    /// The time.
    pub now: Timestamp,
}

/// Releases certain addresses. All or none: a failed expectation fails the request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals")]
pub struct ReleaseAddresses {
    /// Which.
    pub releases: Vec<Release>,
    /// The time.
    pub now: Timestamp,
}

/// An address to release, and what the caller believes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals")]
pub struct Release {
    /// The address.
    pub address: IpAddr,
    /// The handle that must hold it; `None`: whoever does.
    pub handle: Option<Arc<str>>,
    /// The number it must have been allocated under; `None`: any.
    pub sequence: Option<u64>,
}

/// What a release did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Released {
    /// Addresses that were held and are no more, in order.
    pub released: Vec<IpAddr>,
    /// Addresses that nobody held.
    pub unallocated: Vec<IpAddr>,
    /// Blocks that cannot be used, and why: what the handle holds there stays.
    pub unusable: Vec<(Cidr, String)>,
}

impl Decide for ReleaseHandle {
    type Output = Released;

    fn decide(&self, picture: &Picture) -> Result<Verdict<Released>, Halt> {
        let key = ResourceKey::Handle(self.handle.clone());
        picture.require([Query::Object(key), Query::Object(ResourceKey::IpamConfig)])?;
        let Some((stored, _)) = handle(picture, &self.handle)? else {
            return Ok(Verdict { writes: Vec::new(), output: Released::default() });
        };
        picture.require(stored.block.keys().map(|cidr| Query::Object(ResourceKey::Block(*cidr))))?;
        let cooldown = config(picture)?.ip_cooldown_seconds;
        let mut draft = Draft::new(picture, self.now, cooldown);
        let mut output = Released::default();
        for cidr in stored.block.keys() {
            match draft.block(*cidr)? {
                Seen::Present(mut block, version) => {
                    let released = block.release_handle(&self.handle, self.now);
                    if !released.is_empty() {
                        block.collect(self.now, cooldown);
                        draft.put_block(block, Some(version));
                    }
                    output.released.extend(released);
                }
                Seen::Absent => {}
                Seen::Unusable(reason) => output.unusable.push((*cidr, reason)),
            }
        }
        let writes = draft.into_writes(core::slice::from_ref(&self.handle), Direction::Back)?;
        Ok(Verdict { writes, output })
    }
}

impl Decide for ReleaseAddresses {
    type Output = Released;

    fn decide(&self, picture: &Picture) -> Result<Verdict<Released>, Halt> {
        picture.require([Query::Object(ResourceKey::IpamConfig), Query::Pools])?;
        let cooldown = config(picture)?.ip_cooldown_seconds;
        let mut draft = Draft::new(picture, self.now, cooldown);
        let (mut output, mut handles) = (Released::default(), BTreeSet::new());
        for (cidr, releases) in self.by_block(picture, &mut output)? {
            match draft.block(cidr)? {
                Seen::Present(mut block, version) => {
                    let before = output.released.len();
                    for release in releases {
                        handles.extend(release.carry_out(&mut block, self.now, &mut output)?);
                    }
                    if output.released.len() > before {
                        block.collect(self.now, cooldown);
                        draft.put_block(block, Some(version));
                    }
                }
                Seen::Absent => output.unallocated.extend(releases.iter().map(|release| release.address)),
                Seen::Unusable(reason) => {
                    return Err(IpamError::Unusable { key: ResourceKey::Block(cidr), reason }.into());
                }
            }
        }
        let handles: Vec<_> = handles.into_iter().collect();
        picture.require(handles.iter().map(|handle| Query::Object(ResourceKey::Handle(handle.clone()))))?;
        let writes = draft.into_writes(&handles, Direction::Back)?;
        Ok(Verdict { writes, output })
    }
}

impl ReleaseAddresses {
    fn by_block(&self, picture: &Picture, output: &mut Released) -> Result<BTreeMap<Cidr, Vec<&Release>>, Halt> {
        let mut blocks: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for release in &self.releases {
            match block_of(picture, release.address)? {
                Some(cidr) => blocks.entry(cidr).or_default().push(release),
                None => output.unallocated.push(release.address),
            }
        }
        picture.require(blocks.keys().map(|cidr| Query::Object(ResourceKey::Block(*cidr))))?;
        Ok(blocks)
    }
}

impl Release {
    /// In upstream's order: number, whether it is held at all, handle. Answers with the handle that held it.
    fn carry_out(
        &self,
        block: &mut Block,
        now: Timestamp,
        output: &mut Released,
    ) -> Result<Option<Arc<str>>, IpamError> {
        let found = block.sequence_of(self.address);
        if let Some(expected) = self.sequence.filter(|expected| *expected != found) {
            return Err(IpamError::BadSequence { address: self.address, expected, found });
        }
        let Some(Allocation::Held(attribute)) = block.allocation(self.address) else {
            output.unallocated.push(self.address);
            return Ok(None);
        };
        let holder = attribute.handle_id.as_deref().map(|id| bare(id).to_string());
        if let Some(expected) = self.handle.as_ref().filter(|expected| holder.as_deref() != Some(bare(expected))) {
            return Err(IpamError::BadHandle { address: self.address, expected: expected.clone() });
        }
        block.release_address(self.address, now);
        output.released.push(self.address);
        Ok(holder.map(Arc::from))
    }
}

/// The stored block that holds an address: by the pools, else (the pool is gone) by looking at all of the family.
fn block_of(picture: &Picture, wanted: IpAddr) -> Result<Option<Cidr>, Halt> {
    let by_pool = pool::all(picture)?.find_map(|pool| address::block_of(pool.cidr, pool.block_length(), wanted));
    if by_pool.is_some() {
        return Ok(by_pool);
    }
    let everything = match Family::of(wanted) {
        Family::V4 => Cidr::new(core::net::Ipv4Addr::UNSPECIFIED.into(), 0),
        Family::V6 => Cidr::new(core::net::Ipv6Addr::UNSPECIFIED.into(), 0),
    };
    let Some(everything) = everything else { return Ok(None) };
    let mut blocks = picture.list(&Query::Blocks(everything))?.filter_map(|(key, _)| match key {
        ResourceKey::Block(cidr) => Some(*cidr),
        _ => None,
    });
    Ok(blocks.find(|cidr| cidr.contains(wanted)))
}
