//! One assignment in the making: what is asked for, what is known, and the writes so far.

use alloc::vec::Vec;

use super::draft::Draft;
use super::lookup::Assigned;
use super::machine::{Halt, Picture};
use super::request::Assign;
use super::{Block, Version};
use crate::net::Cidr;
use crate::resource::{AffinityOwner, IpamConfig};

/// One decision in the making.
pub(super) struct Work<'a> {
    pub(super) request: &'a Assign,
    pub(super) picture: &'a Picture,
    pub(super) config: IpamConfig,
    pub(super) owner: AffinityOwner,
    pub(super) draft: Draft<'a>,
}

impl Work<'_> {
    /// Claims and makes a block that does not exist; `false` if that cannot be.
    pub(super) fn make(&mut self, cidr: Cidr, count: usize, got: &mut Vec<Assigned>) -> Result<bool, Halt> {
        let Some(block) = Block::create(cidr, &self.owner, self.request.now) else { return Ok(false) };
        if !self.draft.confirm(&self.owner, cidr)? {
            return Ok(false);
        }
        self.take(block, None, count, got);
        Ok(true)
    }

    /// Takes what is still missing from a block.
    pub(super) fn take(&mut self, mut block: Block, version: Option<Version>, count: usize, got: &mut Vec<Assigned>) {
        let taken = block.take(count.saturating_sub(got.len()), &self.request.holder);
        let cidr = block.cidr();
        got.extend(taken.into_iter().map(|address| Assigned { address, block: cidr }));
        self.draft.put_block(block, version);
    }
}
