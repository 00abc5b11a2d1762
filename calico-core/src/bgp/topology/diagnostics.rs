//! What is told of all this: each object's own problems, and those of objects beside each other.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::Topology;
use super::configuration::{ClusterRoutes, priority};
use super::nodes::same_addresses;
use super::problem::BgpProblem;
use crate::bgp::Password;
use crate::net::Family;
use crate::resource::{FelixConfigurationSpec, Kind, Resource, ResourceKey};

impl Topology {
    /// What cannot be carried out as written, by object, sorted. Costs a look at everything that is known.
    pub fn diagnostics(&self) -> Vec<(ResourceKey, BgpProblem)> {
        let key = |kind, name: &str| ResourceKey::cluster(kind, name);
        let mut found = Vec::new();
        let configurations = self.configuration.problems();
        found.extend(configurations.map(|(name, problem)| (key(Kind::BgpConfiguration, name), problem.clone())));
        for node in self.configuration.nodes().filter(|node| !self.nodes.contains_key(*node)) {
            let name = ["node.", node].concat();
            found.push((key(Kind::BgpConfiguration, &name), BgpProblem::NoSuchNode(node.into())));
        }
        let agreement = self.agreement();
        found.extend(agreement.into_iter().map(|problem| (key(Kind::BgpConfiguration, "default"), problem)));
        for (name, filter) in &self.filters {
            found.extend(filter.problems.iter().map(|problem| (key(Kind::BgpFilter, name), problem.clone())));
        }
        let of_nodes = same_addresses(&self.nodes).into_iter().chain(self.own_problems());
        found.extend(of_nodes.map(|(name, problem)| (key(Kind::Node, &name), problem)));
        let of_peers = self.peer_problems();
        found.extend(of_peers.into_iter().map(|(name, problem)| (key(Kind::BgpPeer, name), problem)));
        for (name, reference) in self.passwords() {
            if let Password::Missing(reason) = self.secrets.password(reference) {
                let object = match name {
                    Some(name) => key(Kind::BgpPeer, name),
                    None => key(Kind::BgpConfiguration, "default"),
                };
                found.push((object, BgpProblem::Password(reason)));
            }
        }
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        found
    }

    /// This node's own.
    fn own_problems(&self) -> Vec<(Arc<str>, BgpProblem)> {
        let Some(own) = self.nodes.get(&self.node).filter(|own| !own.speaker.is_nobody()) else { return Vec::new() };
        let mut problems = Vec::new();
        match own.speaker.router_id(&self.node, self.router_id) {
            None => problems.push(BgpProblem::NoRouterId),
            Some(id) if id.is_unspecified() => problems.push(BgpProblem::NoRouterId),
            Some(_) => {}
        }
        if let Some(text) = own.speaker.cluster_id.as_ref().filter(|id| id.parse::<core::net::Ipv4Addr>().is_err()) {
            let (text, expected) = (text.clone(), "IPv4 address");
            let effect = "this node reflects with its router id instead";
            problems.push(BgpProblem::Text { field: "routeReflectorClusterID", text, expected, effect });
        }
        problems.into_iter().map(|problem| (self.node.clone(), problem)).collect()
    }

    fn peer_problems(&self) -> Vec<(&Arc<str>, BgpProblem)> {
        let mut found = Vec::new();
        for (name, peering) in &self.peers {
            found.extend(peering.problems.iter().map(|problem| (name, problem.clone())));
            if let super::peers::Choice::Named(node) = &peering.local
                && !self.nodes.contains_key(node)
            {
                found.push((name, BgpProblem::NoSuchNode(String::from(&**node))));
            }
            found.extend(self.unplaced_gateway(peering).map(|problem| (name, problem)));
        }
        if let Some(own) = self.nodes.get(&self.node) {
            for (name, problems) in self.sessions(&own.speaker).problems {
                found.extend(problems.into_iter().map(|problem| (name, problem)));
            }
        }
        found
    }

    /// Workloads talk to an address that somebody must put at their interfaces.
    fn unplaced_gateway(&self, peering: &super::peers::Peering) -> Option<BgpProblem> {
        let gateway = &self.configuration.settings().workload_gateway;
        let given = [Family::V4, Family::V6].into_iter().any(|family| gateway.get(family).is_some());
        let reason = "workloads do not know whom to talk to: BGPConfiguration has no localWorkloadPeeringIPV4 or IPV6";
        let selects = peering.workloads(&self.node).is_some();
        (selects && !given).then_some(BgpProblem::NotCarriedOut { field: "localWorkloadSelector", reason })
    }

    /// Where BGPConfiguration and FelixConfiguration contradict each other.
    fn agreement(&self) -> Vec<BgpProblem> {
        let mut problems = Vec::new();
        let default = FelixConfigurationSpec::default();
        let felix = match self.felix.as_deref() {
            Some(Resource::FelixConfiguration(object)) => &object.spec,
            _ => &default,
        };
        let settings = self.configuration.settings();
        let theirs = ClusterRoutes::read(felix.program_cluster_routes.as_deref());
        let theirs = theirs.unwrap_or(ClusterRoutes { tunnelled: true, plain: false });
        for (routes, ours, theirs) in [
            ("routes of IP-in-IP pools", settings.program.tunnelled, theirs.tunnelled),
            ("routes of pools without encapsulation", settings.program.plain, theirs.plain),
        ] {
            if ours == theirs {
                problems.push(BgpProblem::Ownership { routes, both: ours });
            }
        }
        let mut priorities = |field, given, bgp: u32| {
            // What is out of range there is told by whoever reads it.
            let felix = priority(field, given, &mut Vec::new());
            if bgp != felix {
                problems.push(BgpProblem::Disagreement { field, bgp, felix });
            }
        };
        let ours = &settings.normal_priority;
        priorities("ipv4NormalRoutePriority", felix.ipv4_normal_route_priority, ours.ipv4);
        priorities("ipv6NormalRoutePriority", felix.ipv6_normal_route_priority, ours.ipv6);
        problems
    }
}
