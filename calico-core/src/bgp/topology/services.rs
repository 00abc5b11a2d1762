//! Addresses of Kubernetes services: which of them this node announces (upstream: `confd/pkg/backends/calico/routes.go`).
//!
//! Whole ranges are announced by every node; a service's own addresses by the nodes that can serve them:
//! 1. by every node, if its policy is `Cluster` and one of its addresses is configured as a single one;
//! 2. by the nodes with a ready endpoint, if its policy is `Local`;
//! 3. by every node, if ranges of load balancers are not announced whole, and any endpoint is ready.
//!
//! What is announced follows from what is known, whatever came first: a service without slices is asked about all the same, and a slice
//! that goes takes its endpoints along (upstream overlooks both until the next event).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use super::configuration::ServiceRanges;
use crate::net::{Cidr, Family};
use crate::service::{EndpointSliceKey, ServiceKey};

/// What of a service counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "built with literals over the default")]
pub struct ServiceFacts {
    /// Its type.
    pub kind: ServiceKind,
    /// `clusterIPs`; empty where it has none (`None`).
    pub cluster_ips: Vec<IpAddr>,
    /// `ipFamilies`.
    pub families: Vec<Family>,
    /// `externalTrafficPolicy`.
    pub policy: Option<TrafficPolicy>,
    /// `externalIPs`.
    pub external_ips: Vec<IpAddr>,
    /// `loadBalancerIP` of the specification.
    pub load_balancer_ip: Option<IpAddr>,
    /// Addresses of `status.loadBalancer.ingress`.
    pub ingress_ips: Vec<IpAddr>,
}

/// Type of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_enums, reason = "the types of Kubernetes")]
pub enum ServiceKind {
    /// An address within the cluster.
    #[default]
    ClusterIp,
    /// A port of every node.
    NodePort,
    /// An address outside.
    LoadBalancer,
    /// A name: nothing is announced.
    ExternalName,
}

/// Where traffic from outside goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the policies of Kubernetes")]
pub enum TrafficPolicy {
    /// To any endpoint.
    Cluster,
    /// To endpoints of the node that it arrives at.
    Local,
}

/// What of a slice of a service's endpoints counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "built with literals over the default")]
pub struct EndpointSliceFacts {
    /// The service, of the slice's own namespace.
    pub service: Arc<str>,
    /// Family of its addresses; none of names.
    pub family: Option<Family>,
    /// Endpoints.
    pub endpoints: Vec<EndpointFacts>,
}

/// What of an endpoint counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "built with literals over the default")]
pub struct EndpointFacts {
    /// Its node.
    pub node: Option<Arc<str>>,
    /// Whether it is ready; if nobody says so, it is.
    pub ready: Option<bool>,
}

/// What is known of services.
#[derive(Debug, Clone)]
pub(super) struct Services {
    node: Arc<str>,
    ranges: ServiceRanges,
    services: BTreeMap<ServiceKey, ServiceFacts>,
    slices: BTreeMap<EndpointSliceKey, Slice>,
    /// Names of a service's slices.
    of: BTreeMap<ServiceKey, BTreeSet<Arc<str>>>,
    /// What is announced for a service.
    routes: BTreeMap<ServiceKey, BTreeSet<Cidr>>,
    /// For how many services something is announced.
    announced: BTreeMap<Cidr, usize>,
}

/// A slice.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Slice {
    service: ServiceKey,
    family: Option<Family>,
    /// Any endpoint is ready, and any of this node.
    ready: bool,
    ready_here: bool,
}

impl Services {
    /// Of a node that Kubernetes calls so.
    pub(super) fn new(node: Arc<str>, ranges: ServiceRanges) -> Self {
        let (services, slices, of) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { node, ranges, services, slices, of, routes: BTreeMap::new(), announced: BTreeMap::new() }
    }

    /// Takes in a service. Tells whether anything changes.
    pub(super) fn set_service(&mut self, key: &ServiceKey, value: Option<ServiceFacts>) -> bool {
        super::put(&mut self.services, key, value) && self.settle(key)
    }

    /// Takes in a slice. Tells whether anything changes.
    pub(super) fn set_slice(&mut self, key: &EndpointSliceKey, value: Option<&EndpointSliceFacts>) -> bool {
        let value = value.map(|facts| self.slice(key, facts));
        let former = self.slices.get(key).map(|slice| slice.service.clone());
        let service = value.as_ref().map(|slice| slice.service.clone());
        if !super::put(&mut self.slices, key, value) {
            return false;
        }
        if let Some(former) = &former
            && let Some(names) = self.of.get_mut(former)
        {
            names.remove(&key.name);
            if names.is_empty() {
                self.of.remove(former);
            }
        }
        if let Some(service) = &service {
            self.of.entry(service.clone()).or_default().insert(key.name.clone());
        }
        let mut changed = false;
        for service in former.iter().chain(&service) {
            changed |= self.settle(service);
        }
        changed
    }

    fn slice(&self, key: &EndpointSliceKey, facts: &EndpointSliceFacts) -> Slice {
        let mut ready = facts.endpoints.iter().filter(|endpoint| endpoint.ready != Some(false)).peekable();
        Slice {
            service: ServiceKey { namespace: key.namespace.clone(), name: facts.service.clone() },
            family: facts.family,
            ready: ready.peek().is_some(),
            ready_here: ready.any(|endpoint| endpoint.node.as_ref() == Some(&self.node)),
        }
    }

    /// Other ranges count.
    pub(super) fn set_ranges(&mut self, ranges: &ServiceRanges) {
        if self.ranges != *ranges {
            self.ranges = ranges.clone();
            let keys: Vec<_> = self.services.keys().cloned().collect();
            for key in keys {
                self.settle(&key);
            }
        }
    }

    /// All that is announced.
    pub(super) fn announced(&self) -> impl Iterator<Item = Cidr> {
        self.ranges.whole().chain(self.announced.keys().copied())
    }

    /// Works out again what is announced for one service.
    fn settle(&mut self, key: &ServiceKey) -> bool {
        let now = self.services.get(key).filter(|service| self.is_announced(key, service));
        let now: BTreeSet<Cidr> = now.into_iter().flat_map(|service| self.addresses(service)).collect();
        let former = self.routes.remove(key).unwrap_or_default();
        for route in former.difference(&now) {
            if let Some(count) = self.announced.get_mut(route) {
                *count -= 1;
                if *count == 0 {
                    self.announced.remove(route);
                }
            }
        }
        for route in now.difference(&former) {
            *self.announced.entry(*route).or_default() += 1;
        }
        let changed = former != now;
        if !now.is_empty() {
            self.routes.insert(key.clone(), now);
        }
        changed
    }

    fn is_announced(&self, key: &ServiceKey, service: &ServiceFacts) -> bool {
        if service.kind == ServiceKind::ExternalName || service.cluster_ips.is_empty() {
            return false;
        }
        let is_local = service.policy == Some(TrafficPolicy::Local);
        if service.policy == Some(TrafficPolicy::Cluster) && self.has_single(service) {
            return true;
        }
        if !is_local && self.ranges.aggregated {
            return false;
        }
        let names = self.of.get(key).into_iter().flatten().cloned();
        let mut slices = names
            .filter_map(|name| self.slices.get(&EndpointSliceKey { namespace: key.namespace.clone(), name }))
            .filter(|slice| slice.family.is_some_and(|family| service.families.contains(&family)));
        slices.any(|slice| if is_local { slice.ready_here } else { slice.ready })
    }

    /// Whether one of its addresses is configured as a single one.
    fn has_single(&self, service: &ServiceFacts) -> bool {
        let single = |ranges: &[Cidr], address: &IpAddr| ranges.contains(&Cidr::host(*address));
        let mut balanced = service.load_balancer_ip.iter().chain(&service.ingress_ips);
        service.kind == ServiceKind::LoadBalancer && balanced.any(|address| single(&self.ranges.load_balancer, address))
            || service.external_ips.iter().any(|address| single(&self.ranges.external, address))
    }

    fn addresses(&self, service: &ServiceFacts) -> Vec<Cidr> {
        let within = |ranges: &[Cidr], address: &IpAddr| ranges.iter().any(|range| range.contains(*address));
        let cluster = service.cluster_ips.iter().filter(|_| !self.ranges.cluster.is_empty());
        let external = service.external_ips.iter().filter(|address| within(&self.ranges.external, address));
        let balanced = service.ingress_ips.iter().filter(|address| within(&self.ranges.load_balancer, address));
        cluster.chain(external).chain(balanced).copied().map(Cidr::host).collect()
    }
}

impl ServiceRanges {
    /// What is announced whole. Learned routes within are not programmed, since every node answers them itself.
    pub(super) fn whole(&self) -> impl Iterator<Item = Cidr> {
        let balanced = self.load_balancer.iter().filter(|_| self.aggregated);
        let wide = self.external.iter().chain(balanced).filter(|range| !range.is_host());
        self.cluster.iter().chain(wide).copied()
    }

    /// What a reflector passes on.
    pub(super) fn reflected(&self) -> impl Iterator<Item = Cidr> {
        self.load_balancer.iter().chain(&self.external).copied()
    }
}
