//! Whose own the floating addresses of this host's workloads are: what is meant for a workload or a host, here or elsewhere, is not diverted.

use core::net::IpAddr;

use super::super::diagnostic::Owner;
use super::Graph;

impl Graph {
    /// Looks again at the floating addresses that came, or may have got or lost an owner, since the last call. To be called before what
    /// is to be looked at again is taken.
    pub(super) fn settle_floating(&mut self) {
        let readdressed = [self.hosts.take_readdressed(), self.network.take_readdressed()];
        let mut doubtful = self.addresses.take_fresh();
        for gone in doubtful.iter().filter(|address| !self.addresses.is_floating(**address)) {
            self.sets.holders().forget(*gone);
        }
        self.sets.ask_for_holders(doubtful.iter().copied().filter(|address| self.addresses.is_floating(*address)));
        doubtful.append(&mut self.sets.holders().take_changed());
        if readdressed.contains(&true) {
            doubtful.extend(self.addresses.floating());
        }
        for address in doubtful {
            let owner = self.owner(address);
            for key in self.addresses.set_owner(address, owner, &mut self.diagnostics) {
                self.activation.touch_endpoint(key);
            }
        }
    }

    fn owner(&mut self, address: IpAddr) -> Option<Owner> {
        if !self.addresses.is_floating(address) {
            return None;
        }
        if self.hosts.has_address(address) {
            return Some(Owner::ThisHost);
        }
        if self.network.is_hosts(address) {
            return Some(Owner::Host);
        }
        self.sets.holders().of(address).cloned().map(Owner::Workload)
    }
}
