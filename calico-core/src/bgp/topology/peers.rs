//! BGPPeers read: whom they mean, and what their sessions are like.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use super::bfd::BfdConfig;
use super::configuration::{LONGEST_RESTART, whole_seconds};
use super::nodes::{Node, Nodes};
use super::problem::BgpProblem;
use super::secrets::KeyRef;
use crate::bgp::{NextHop, Source};
use crate::net::{AsNumber, Family};
use crate::resource::{BgpPeerSpec, Metadata, NextHopMode, ReversePeering, SourceAddress};
use crate::selector::Selector;

/// A BGPPeer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Peering {
    /// Nodes that have its sessions.
    pub(super) local: Choice,
    /// The other ends.
    pub(super) remote: Remote,
    /// The other ends have the mirrored sessions without being asked.
    pub(super) mirrored: bool,
    /// AS number of the other ends, where it is given.
    pub(super) as_number: Option<AsNumber>,
    pub(super) local_as: Option<AsNumber>,
    pub(super) own_as_allowed: u32,
    pub(super) source: Source,
    pub(super) password: KeyRef,
    pub(super) ttl_security: Option<u8>,
    pub(super) keepalive: Option<u16>,
    pub(super) restart_time: Option<u16>,
    pub(super) gateway: Option<IpAddr>,
    pub(super) next_hop: NextHop,
    /// `next_hop` is meant for external sessions only.
    pub(super) external_only: bool,
    pub(super) bfd: Option<BfdConfig>,
    pub(super) filters: Vec<String>,
    /// What is odd about it on its own.
    pub(super) problems: Vec<BgpProblem>,
}

/// Nodes that somebody means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Choice {
    /// All of them, without saying so.
    All,
    /// This one.
    Named(Arc<str>),
    /// Those with matching labels, kept current.
    Selected { selector: Selector, nodes: BTreeSet<Arc<str>> },
    /// None: what is said of them cannot be read.
    Nobody,
}

/// The other ends of a BGPPeer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Remote {
    /// An address.
    Address { address: IpAddr, port: Option<u16> },
    /// Nodes.
    Nodes(Choice),
    /// Workloads of the same host.
    Workloads(Selector),
    /// None: what is said of them cannot be read.
    Nobody,
}

impl Choice {
    /// Of a selector.
    fn selected(field: &'static str, text: &str, nodes: &Nodes, problems: &mut Vec<BgpProblem>) -> Self {
        match Selector::parse(text) {
            Ok(selector) => {
                let matching = nodes.iter().filter(|(_, node)| selector.matches(&node.labels));
                let nodes = matching.map(|(name, _)| name.clone()).collect();
                Self::Selected { selector, nodes }
            }
            Err(error) => {
                problems.push(BgpProblem::Selector { field, error });
                Self::Nobody
            }
        }
    }

    /// Whether a node is meant.
    pub(super) fn contains(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Named(one) => **one == *name,
            Self::Selected { nodes, .. } => nodes.contains(name),
            Self::Nobody => false,
        }
    }

    /// The nodes that are meant, of all that there are.
    pub(super) fn names<'a>(&'a self, all: &'a Nodes) -> Vec<&'a Arc<str>> {
        match self {
            Self::All => all.keys().collect(),
            Self::Named(one) => alloc::vec![one],
            Self::Selected { nodes, .. } => nodes.iter().collect(),
            Self::Nobody => Vec::new(),
        }
    }

    /// Labels of a node are others now.
    fn set_node(&mut self, name: &Arc<str>, node: Option<&Node>) {
        if let Self::Selected { selector, nodes } = self {
            if node.is_some_and(|node| selector.matches(&node.labels)) {
                nodes.insert(name.clone());
            } else {
                nodes.remove(name);
            }
        }
    }
}

impl Peering {
    pub(super) fn new(metadata: &Metadata, spec: &BgpPeerSpec, nodes: &Nodes) -> Self {
        let mut problems: Vec<_> = metadata.unread.iter().cloned().map(BgpProblem::NotUnderstood).collect();
        let problem = &mut problems;
        let local = local(spec, nodes, problem);
        let remote = remote(spec, nodes, problem);
        let gateway = gateway(spec, problem);
        let remote = if !spec.reachable_by.is_empty() && gateway.is_none() { Remote::Nobody } else { remote };
        unused(spec, &remote, problem);
        let (next_hop, external_only) = next_hop(spec);
        let bfd = BfdConfig::read(metadata).unwrap_or_else(|error| {
            problem.push(BgpProblem::Bfd(error));
            None
        });
        if spec.local_as_number.is_some_and(AsNumber::is_nobodys) {
            problem.push(BgpProblem::NobodysAs("localASNumber"));
        }
        let some = |number: Option<AsNumber>| number.filter(|number| !number.is_nobodys());
        Self {
            local,
            remote,
            mirrored: spec.reverse_peering != Some(ReversePeering::Manual),
            as_number: some(spec.as_number),
            local_as: some(spec.local_as_number),
            own_as_allowed: spec.num_allowed_local_as_numbers.map_or(0, |number| u32::try_from(number).unwrap_or(0)),
            source: match spec.source_address {
                Some(SourceAddress::None) => Source::Kernel,
                _ => Source::Node,
            },
            password: KeyRef::new(spec.password.as_ref()),
            ttl_security: spec.ttl_security.filter(|hops| *hops > 0),
            keepalive: whole_seconds("keepaliveTime", spec.keepalive_time, 1..=u32::from(u16::MAX), problem),
            restart_time: whole_seconds(
                "maxRestartTime",
                spec.max_restart_time,
                0..=u32::from(LONGEST_RESTART),
                problem,
            ),
            gateway,
            next_hop,
            external_only,
            bfd,
            filters: spec.filters.clone(),
            problems,
        }
    }

    /// Labels of a node are others now.
    pub(super) fn set_node(&mut self, name: &Arc<str>, node: Option<&Node>) {
        self.local.set_node(name, node);
        if let Remote::Nodes(choice) = &mut self.remote {
            choice.set_node(name, node);
        }
    }

    /// Whether a node may be an end of its sessions. An address may be any node's.
    pub(super) fn concerns(&self, node: &str) -> bool {
        let is_far_end = match &self.remote {
            Remote::Address { .. } => true,
            Remote::Nodes(choice) => choice.contains(node),
            Remote::Workloads(_) | Remote::Nobody => return false,
        };
        self.local.contains(node) || self.mirrored && is_far_end
    }

    /// The workloads that a node has sessions with, if it is meant.
    pub(super) fn workloads(&self, node: &str) -> Option<&Selector> {
        match &self.remote {
            Remote::Workloads(selector) if self.local.contains(node) => Some(selector),
            _ => None,
        }
    }
}

fn local(spec: &BgpPeerSpec, nodes: &Nodes, problems: &mut Vec<BgpProblem>) -> Choice {
    match (spec.node_selector.is_empty(), spec.node.is_empty()) {
        (true, true) => Choice::All,
        (true, false) => Choice::Named(spec.node.as_str().into()),
        (false, without) => {
            if !without {
                problems.push(BgpProblem::NotCarriedOut { field: "node", reason: "nodeSelector says which nodes" });
            }
            Choice::selected("nodeSelector", &spec.node_selector, nodes, problems)
        }
    }
}

fn remote(spec: &BgpPeerSpec, nodes: &Nodes, problems: &mut Vec<BgpProblem>) -> Remote {
    if !spec.local_workload_selector.is_empty() {
        if spec.as_number.is_none_or(AsNumber::is_nobodys) {
            problems.push(BgpProblem::NoAsNumber);
            return Remote::Nobody;
        }
        return match Selector::parse(&spec.local_workload_selector) {
            Ok(selector) => Remote::Workloads(selector),
            Err(error) => {
                problems.push(BgpProblem::Selector { field: "localWorkloadSelector", error });
                Remote::Nobody
            }
        };
    }
    if !spec.peer_selector.is_empty() {
        return Remote::Nodes(Choice::selected("peerSelector", &spec.peer_selector, nodes, problems));
    }
    if spec.peer_ip.is_empty() {
        problems.push(BgpProblem::NobodyToTalkTo);
        return Remote::Nobody;
    }
    match address(&spec.peer_ip) {
        Some((address, port)) => Remote::Address { address, port },
        None => {
            let (text, expected) = (spec.peer_ip.clone(), "address that a session can have");
            problems.push(BgpProblem::Text { field: "peerIP", text, expected, effect: "there is no session" });
            Remote::Nobody
        }
    }
}

/// An address with or without a port. One that holds on a link only would need the link, which the field cannot say.
fn address(text: &str) -> Option<(IpAddr, Option<u16>)> {
    let (address, port) = match text.parse::<IpAddr>() {
        Ok(address) => (address, None),
        Err(_) => {
            text.parse::<SocketAddr>().ok().map(|both| (both.ip(), Some(both.port()).filter(|port| *port > 0)))?
        }
    };
    let is_link_local = matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
    (!is_link_local && !address.is_unspecified() && !address.is_multicast()).then_some((address, port))
}

fn gateway(spec: &BgpPeerSpec, problems: &mut Vec<BgpProblem>) -> Option<IpAddr> {
    if spec.reachable_by.is_empty() {
        return None;
    }
    let gateway = spec.reachable_by.parse::<IpAddr>().ok();
    let family = address(&spec.peer_ip).map(|(address, _)| Family::of(address));
    let fitting = gateway.filter(|gateway| family.is_none_or(|family| Family::of(*gateway) == family));
    if fitting.is_none() {
        let (text, expected) = (spec.reachable_by.clone(), "address of the family of peerIP");
        problems.push(BgpProblem::Text { field: "reachableBy", text, expected, effect: "there is no session" });
    }
    fitting
}

/// Which next hop, and whether on external sessions only: the older field says nothing to others.
const fn next_hop(spec: &BgpPeerSpec) -> (NextHop, bool) {
    match spec.next_hop_mode {
        Some(NextHopMode::Auto) => (NextHop::Auto, false),
        Some(NextHopMode::Self_) => (NextHop::Own, false),
        Some(NextHopMode::Keep) => (NextHop::Keep, false),
        None if spec.keep_original_next_hop => (NextHop::Keep, true),
        None => (NextHop::Auto, false),
    }
}

/// Fields that mean nothing to a peer of this sort, as upstream has it.
fn unused(spec: &BgpPeerSpec, remote: &Remote, problems: &mut Vec<BgpProblem>) {
    let mut tell = |field, given, reason| {
        if given {
            problems.push(BgpProblem::NotCarriedOut { field, reason });
        }
    };
    let both = spec.keep_original_next_hop && spec.next_hop_mode.is_some();
    tell("keepOriginalNextHop", both, "nextHopMode says which next hop");
    let allowed = spec.num_allowed_local_as_numbers.is_some_and(|number| number > 0);
    match remote {
        Remote::Workloads(_) => {
            let reason = "sessions with local workloads have none";
            tell("peerIP", !spec.peer_ip.is_empty(), "localWorkloadSelector says who the peers are");
            tell("peerSelector", !spec.peer_selector.is_empty(), "localWorkloadSelector says who the peers are");
            tell("password", spec.password.is_some(), reason);
            tell("maxRestartTime", spec.max_restart_time.is_some(), reason);
            tell("keepaliveTime", spec.keepalive_time.is_some(), reason);
            tell("ttlSecurity", spec.ttl_security.is_some_and(|hops| hops > 0), reason);
            tell("nextHopMode", spec.next_hop_mode.is_some_and(|mode| mode != NextHopMode::Auto), reason);
            tell("keepOriginalNextHop", spec.keep_original_next_hop && !both, reason);
            tell("sourceAddress", spec.source_address == Some(SourceAddress::UseNodeIP), reason);
            tell("reachableBy", !spec.reachable_by.is_empty(), reason);
            tell("numAllowedLocalASNumbers", allowed, reason);
        }
        Remote::Nodes(_) => {
            let given = |number: Option<AsNumber>| number.is_some_and(|number| !number.is_nobodys());
            tell("peerIP", !spec.peer_ip.is_empty(), "peerSelector says who the peers are");
            tell("asNumber", given(spec.as_number), "nodes have their own");
            tell("localASNumber", given(spec.local_as_number), "nodes that are selected know this node by its own");
            tell("numAllowedLocalASNumbers", allowed, "it is carried out on sessions with peerIP only");
        }
        Remote::Address { .. } | Remote::Nobody => {}
    }
}
