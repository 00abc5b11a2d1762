//! Which addresses a handle holds. The handle says where to look; the blocks say what is true.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use super::draft;
use super::machine::{Halt, Picture, Seen, Verdict, sealed::Decide};
use super::op::Query;
use crate::net::Cidr;
use crate::resource::ResourceKey;

/// An address that the handle holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::exhaustive_structs, reason = "plain result data")]
pub struct Assigned {
    /// The address.
    pub address: IpAddr,
    /// Its block; the result of a plugin carries the block's prefix length.
    pub block: Cidr,
}

/// Asks for the addresses of a handle. Writes nothing; an unknown handle holds none.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals")]
pub struct HeldBy {
    /// The handle.
    pub handle: Arc<str>,
}

impl Decide for HeldBy {
    type Output = Vec<Assigned>;

    fn decide(&self, picture: &Picture) -> Result<Verdict<Self::Output>, Halt> {
        Ok(Verdict { writes: Vec::new(), output: held(picture, &self.handle)? })
    }
}

/// The addresses of a handle, in order of block and address.
pub(super) fn held(picture: &Picture, handle: &Arc<str>) -> Result<Vec<Assigned>, Halt> {
    let Some((stored, _)) = draft::handle(picture, handle)? else { return Ok(Vec::new()) };
    picture.require(stored.block.keys().map(|cidr| Query::Object(ResourceKey::Block(*cidr))))?;
    let mut held = Vec::new();
    for cidr in stored.block.keys() {
        if let Seen::Present(block, _) = picture.block(*cidr)? {
            held.extend(block.held_by(handle).into_iter().map(|address| Assigned { address, block: *cidr }));
        }
    }
    Ok(held)
}
