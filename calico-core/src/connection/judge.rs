//! Whether a connection would be denied if it began now.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::IpAddr;

use super::Connection;
use crate::calc::event::EndpointId;
use crate::flow::{Decision, Flow};
use crate::resource::PolicyType;
use crate::verdict::ActiveState;

/// What is active on a host, as a judge of connections.
#[derive(Debug)]
pub struct Judge<'a> {
    state: &'a ActiveState,
    workloads: BTreeMap<IpAddr, Vec<&'a EndpointId>>,
    host: &'a BTreeSet<IpAddr>,
}

impl<'a> Judge<'a> {
    /// By what is active, on a host with these addresses of its own.
    pub fn new(state: &'a ActiveState, host: &'a BTreeSet<IpAddr>) -> Self {
        let mut workloads: BTreeMap<IpAddr, Vec<&EndpointId>> = BTreeMap::new();
        for (id, endpoint) in &state.endpoints {
            for address in &endpoint.addresses {
                workloads.entry(address.address()).or_default().push(id);
            }
        }
        Self { state, workloads, host }
    }

    /// Whether a connection would be denied. Of workloads that share an address it is enough that one allows it.
    pub fn denies(&self, connection: &Connection) -> bool {
        let flow = connection.at_policy();
        // What belongs to another falls with that one. Neighbour discovery is never judged by policy.
        if connection.master.is_some() || is_neighbor_discovery(&flow) {
            return false;
        }
        // From its own host a workload is always reached.
        let from_host = flow.source.is_loopback() || self.host.contains(&flow.source);
        self.deny(flow.source, PolicyType::Egress, &flow)
            || !from_host && self.deny(flow.destination, PolicyType::Ingress, &flow)
    }

    /// Whether an address is a workload's of this host.
    pub fn knows(&self, address: IpAddr) -> bool {
        self.workloads.contains_key(&address)
    }

    fn deny(&self, address: IpAddr, direction: PolicyType, flow: &Flow) -> bool {
        let denies = |id: &&EndpointId| self.state.judge(id, direction, flow).decision == Decision::Deny;
        self.workloads.get(&address).is_some_and(|ids| ids.iter().all(denies))
    }
}

fn is_neighbor_discovery(flow: &Flow) -> bool {
    flow.protocol == 58 && matches!(flow.icmp, Some((130..=137, _)))
}
