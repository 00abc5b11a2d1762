//! Pools: which prefixes are announced, and who programs routes to them.
//!
//! Overlapping pools: the longest decides, whatever their order in the datastore; of two with one range, that which is kept out of BGP,
//! and that whose routes are somebody else's.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use super::configuration::ClusterRoutes;
use crate::bgp::PoolRouting;
use crate::net::{Cidr, Family};
use crate::resource::{EncapMode, IpPoolSpec};

/// A pool as far as BGP cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pool {
    cidr: Cidr,
    exported: bool,
    vxlan: bool,
    ipip: EncapMode,
}

/// All pools.
#[derive(Debug, Clone, Default)]
pub(super) struct Pools {
    named: BTreeMap<Arc<str>, Pool>,
    /// By range, each with its pools by name.
    ranges: BTreeMap<Cidr, BTreeMap<Arc<str>, Pool>>,
}

impl Pool {
    pub(super) fn new(spec: &IpPoolSpec) -> Self {
        Self {
            cidr: spec.cidr,
            exported: !spec.disable_bgp_export,
            vxlan: spec.vxlan_mode != EncapMode::Never,
            ipip: spec.ipip_mode,
        }
    }

    fn ranges(&self) -> impl Iterator<Item = Cidr> {
        // What remains of a pool whose range cannot be read is every address, and nobody knows of which family.
        let other = self.is_everything().then(|| Cidr::new([0u16; 8].into(), 0)).flatten();
        core::iter::once(self.cidr).chain(other)
    }

    fn is_everything(&self) -> bool {
        self.cidr.length() == 0 && self.cidr.family() == Family::V4
    }

    fn routing(&self, program: ClusterRoutes) -> PoolRouting {
        let owned = |ours, routing| if ours { routing } else { PoolRouting::Elsewhere };
        match (self.vxlan, self.ipip, self.cidr.family()) {
            (true, ..) => PoolRouting::Elsewhere,
            (false, EncapMode::Always, Family::V4) => owned(program.tunnelled, PoolRouting::Tunnel),
            (false, EncapMode::CrossSubnet, Family::V4) => owned(program.tunnelled, PoolRouting::TunnelAcrossSubnets),
            _ => owned(program.plain, PoolRouting::Plain),
        }
    }
}

impl Pools {
    /// Takes in the new state of one. Tells whether anything changes.
    pub(super) fn set(&mut self, name: &Arc<str>, pool: Option<Pool>) -> bool {
        let former = self.named.get(name).copied();
        if !super::put(&mut self.named, name, pool) {
            return false;
        }
        for range in former.iter().flat_map(Pool::ranges) {
            if let Some(pools) = self.ranges.get_mut(&range) {
                pools.remove(name);
                if pools.is_empty() {
                    self.ranges.remove(&range);
                }
            }
        }
        if let Some(pool) = pool {
            for range in pool.ranges() {
                self.ranges.entry(range).or_default().insert(name.clone(), pool);
            }
        }
        true
    }

    /// Whether the pool that a prefix lies in is announced.
    pub(super) fn exports(&self, prefix: &Cidr) -> Option<bool> {
        prefix.widening().find_map(|range| self.ranges.get(&range)).map(is_exported)
    }

    /// Ranges, and whether they are announced.
    pub(super) fn announced(&self) -> BTreeMap<Cidr, bool> {
        self.ranges.iter().map(|(range, pools)| (*range, is_exported(pools))).collect()
    }

    /// Ranges, and how routes within are programmed. Of a pool that is everything nobody knows that.
    pub(super) fn routing(&self, program: ClusterRoutes) -> BTreeMap<Cidr, PoolRouting> {
        let rank = |routing: &PoolRouting| match routing {
            PoolRouting::Elsewhere => 0,
            PoolRouting::Tunnel => 1,
            PoolRouting::TunnelAcrossSubnets => 2,
            PoolRouting::Plain => 3,
        };
        let known = self.ranges.iter().filter(|(range, _)| range.length() > 0);
        let routed = known.filter_map(|(range, pools)| {
            let routing = pools.values().map(|pool| pool.routing(program)).min_by_key(rank)?;
            Some((*range, routing))
        });
        routed.collect()
    }
}

fn is_exported(pools: &BTreeMap<Arc<str>, Pool>) -> bool {
    pools.values().all(|pool| pool.exported)
}
