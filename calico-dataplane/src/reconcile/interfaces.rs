//! The host's own interfaces and their addresses: facts for whoever decides whose they are.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use calico_core::net::InterfaceName;

/// What is known of interfaces that are no workload's.
#[derive(Debug)]
pub(super) struct Interfaces {
    workload_prefixes: Vec<InterfaceName>,
    known: BTreeMap<InterfaceName, BTreeSet<IpAddr>>,
    changed: BTreeSet<InterfaceName>,
}

impl Interfaces {
    pub(super) const fn new(workload_prefixes: Vec<InterfaceName>) -> Self {
        Self { workload_prefixes, known: BTreeMap::new(), changed: BTreeSet::new() }
    }

    /// All links there are, with their addresses.
    pub(super) fn observe(
        &mut self,
        links: impl Iterator<Item = InterfaceName>,
        mut addresses: BTreeMap<InterfaceName, BTreeSet<IpAddr>>,
    ) {
        let own = links.filter(|name| !name.starts_with_any(&self.workload_prefixes));
        let seen: BTreeMap<_, _> = own.map(|name| (name, addresses.remove(&name).unwrap_or_default())).collect();
        let before = std::mem::replace(&mut self.known, seen);
        let is_news = |name: &&InterfaceName| before.get(*name) != self.known.get(*name);
        self.changed.extend(before.keys().chain(self.known.keys()).filter(is_news));
    }

    pub(super) fn set_link(&mut self, name: InterfaceName, present: bool) {
        if name.starts_with_any(&self.workload_prefixes) || self.known.contains_key(&name) == present {
            return;
        }
        if present {
            self.known.insert(name, BTreeSet::new());
        } else {
            self.known.remove(&name);
        }
        self.changed.insert(name);
    }

    pub(super) fn set_address(&mut self, name: InterfaceName, address: IpAddr, present: bool) {
        let Some(addresses) = self.known.get_mut(&name) else { return };
        let is_news = if present { addresses.insert(address) } else { addresses.remove(&address) };
        if is_news {
            self.changed.insert(name);
        }
    }

    /// What changed since the last call; none for an interface that went.
    pub(super) fn take_changes(&mut self) -> Vec<(InterfaceName, Option<Vec<IpAddr>>)> {
        let changed = std::mem::take(&mut self.changed);
        let addresses = |name| self.known.get(name).map(|addresses| addresses.iter().copied().collect());
        changed.iter().map(|name| (*name, addresses(name))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_tells_what_differs_from_what_was_heard() {
        let (eth0, eth1): (InterfaceName, InterfaceName) = ("eth0".parse().unwrap(), "eth1".parse().unwrap());
        let address = IpAddr::from([192, 0, 2, 1]);
        let mut interfaces = Interfaces::new(vec![InterfaceName::CALI]);
        interfaces.set_link(eth0, true);
        interfaces.set_address(eth0, address, true);
        interfaces.set_link(eth1, true);
        interfaces.take_changes();
        let seen = BTreeMap::from([(eth0, BTreeSet::from([address]))]);
        interfaces.observe([eth0, InterfaceName::CALI].into_iter(), seen);
        assert_eq!(interfaces.take_changes(), [(eth1, None)]);
        interfaces.observe([eth0].into_iter(), BTreeMap::new());
        assert_eq!(interfaces.take_changes(), [(eth0, Some(Vec::new()))]);
    }
}
