//! One range of addresses in memory, without pools, blocks or a store.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use calico_core::ipam::{
    Assign, Assigned, FamilyWant, HeldBy, IpamError, Release, ReleaseAddresses, ReleaseHandle, Released, Want,
};
use calico_core::net::{Cidr, Family};

use super::{Ipam, IpamFailure};

/// Largest range: more addresses than a test or a single host needs.
const MAX_HOST_BITS: u8 = 16;

/// Hands out the addresses of ranges, one per family at most. What a request says of pools, nodes and uses is not looked at;
/// sequence numbers are not kept.
#[derive(Debug)]
pub struct FixedRange {
    ranges: Vec<Cidr>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    free: VecDeque<IpAddr>,
    held: BTreeMap<IpAddr, Arc<str>>,
}

impl FixedRange {
    /// Hands out `ranges`; each is cut after its first 65536 addresses.
    pub fn new(ranges: impl IntoIterator<Item = Cidr>) -> Self {
        let ranges: Vec<_> = ranges.into_iter().collect();
        let free = ranges.iter().copied().flat_map(addresses).collect();
        Self { ranges, state: Mutex::new(State { free, held: BTreeMap::new() }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock can leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn assigned(&self, address: IpAddr) -> Assigned {
        let range = self.ranges.iter().find(|range| range.contains(address));
        Assigned { address, block: range.copied().unwrap_or_else(|| Cidr::host(address)) }
    }

    fn exhausted(&self, family: Family, wanted: u32, obtained: usize) -> IpamError {
        IpamError::Exhausted {
            family,
            wanted,
            obtained: u32::try_from(obtained).unwrap_or(u32::MAX),
            pools: self.ranges.clone(),
            strict: false,
        }
    }
}

impl State {
    fn held_by(&self, handle: &str) -> Vec<IpAddr> {
        self.held.iter().filter(|(_, holder)| &***holder == handle).map(|(address, _)| *address).collect()
    }

    /// Addresses to hand out beyond what is held, and how many there are in all.
    fn choose(&self, family: Family, want: &FamilyWant, held: &[IpAddr]) -> Vec<IpAddr> {
        let of_family = |address: &&IpAddr| Family::of(**address) == family;
        let count = usize::try_from(want.count).unwrap_or(usize::MAX);
        held.iter().filter(of_family).chain(self.free.iter().filter(of_family)).take(count).copied().collect()
    }

    fn take(&mut self, address: IpAddr, handle: &Arc<str>) {
        self.free.retain(|free| *free != address);
        self.held.insert(address, handle.clone());
    }

    fn release(&mut self, address: IpAddr, released: &mut Released) {
        if self.held.remove(&address).is_some() {
            self.free.push_back(address);
            released.released.push(address);
        } else {
            released.unallocated.push(address);
        }
    }
}

#[async_trait]
impl Ipam for FixedRange {
    async fn assign(&self, request: Assign) -> Result<Vec<Assigned>, IpamFailure> {
        let mut state = self.state();
        let handle = &request.holder.handle;
        let mut chosen = Vec::new();
        match &request.want {
            Want::Any { v4, v6 } => {
                let held = state.held_by(handle);
                for (family, want) in [(Family::V4, v4), (Family::V6, v6)] {
                    let addresses = state.choose(family, want, &held);
                    if u32::try_from(addresses.len()).is_ok_and(|count| count < want.count) {
                        return Err(self.exhausted(family, want.count, addresses.len()).into());
                    }
                    chosen.extend(addresses);
                }
            }
            Want::Address(address) => {
                let holder = state.held.get(address);
                if holder.is_some_and(|holder| holder != handle) {
                    let holder = holder.map(ToString::to_string);
                    return Err(IpamError::AlreadyAssigned { address: *address, holder }.into());
                }
                if holder.is_none() && !state.free.contains(address) {
                    return Err(IpamError::NotInPool { address: *address }.into());
                }
                chosen.push(*address);
            }
        }
        for address in &chosen {
            state.take(*address, handle);
        }
        Ok(chosen.into_iter().map(|address| self.assigned(address)).collect())
    }

    async fn release_handle(&self, request: ReleaseHandle) -> Result<Released, IpamFailure> {
        let mut state = self.state();
        let mut released = Released::default();
        for address in state.held_by(&request.handle) {
            state.release(address, &mut released);
        }
        Ok(released)
    }

    async fn release_addresses(&self, request: ReleaseAddresses) -> Result<Released, IpamFailure> {
        let mut state = self.state();
        for Release { address, handle, .. } in &request.releases {
            let holder = state.held.get(address);
            if let (Some(expected), Some(holder)) = (handle, holder)
                && expected != holder
            {
                return Err(IpamError::BadHandle { address: *address, expected: expected.clone() }.into());
            }
        }
        let mut released = Released::default();
        for release in &request.releases {
            state.release(release.address, &mut released);
        }
        Ok(released)
    }

    async fn held_by(&self, request: HeldBy) -> Result<Vec<Assigned>, IpamFailure> {
        let held = self.state().held_by(&request.handle);
        Ok(held.into_iter().map(|address| self.assigned(address)).collect())
    }
}

fn addresses(range: Cidr) -> Vec<IpAddr> {
    let bits = (range.family().bits() - range.length()).min(MAX_HOST_BITS);
    let count = 1_u32 << bits;
    let nth = |index: u32| match range.address() {
        IpAddr::V4(first) => IpAddr::V4((u32::from(first) + index).into()),
        IpAddr::V6(first) => IpAddr::V6((u128::from(first) + u128::from(index)).into()),
    };
    (0..count).map(nth).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipam::conformance;

    #[tokio::test]
    async fn conforms() {
        let ranges = ["10.0.0.0/28", "fd00::/124"].map(|range| range.parse().unwrap());
        conformance::run(&FixedRange::new(ranges)).await;
    }
}
