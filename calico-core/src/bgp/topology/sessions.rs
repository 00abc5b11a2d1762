//! Sessions of this node: from BGPPeers, their mirror images, local workloads and the mesh.
//!
//! Who comes first has the address: BGPPeers for all nodes, those for some, mirror images, the mesh; within each by name (upstream takes
//! them in random order). A peer is known by its address alone, so two ports of one host are one peer; what is left out is told.
//!
//! Not as upstream: a peer of the mesh without an AS number has the cluster's and not this node's; a BGPPeer's session takes the place of
//! the mesh's (upstream starts both, and one stays down); neither end is passive, but where the peer is a workload; the mirror image
//! of a session has no `reachableBy`, whose gateway is one of the other end.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use super::Topology;
use super::nodes::Speaker;
use super::peers::{Peering, Remote};
use super::problem::BgpProblem;
use crate::bgp::{
    AddPath, BGP_PORT, DesiredPeer, NextHop, Password, PeerId, PeerKind, PeerPolicy, SessionParameters, Source,
};
use crate::net::{AsNumber, Family};
use crate::resource::{Kind, ResourceKey};

/// Paths to one prefix that a peer is sent, at most: upstream's "add paths on" has no bound.
const PATHS: u8 = 8;
const ADD_PATH: AddPath = AddPath { receive: true, send: PATHS };
const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// Sessions, and what is odd about BGPPeers beside each other.
#[derive(Debug, Default)]
pub(super) struct Sessions<'a> {
    /// By address, each with the name of its BGPPeer.
    taken: BTreeMap<PeerId, (DesiredPeer, Option<&'a Arc<str>>)>,
    pub(super) problems: BTreeMap<&'a Arc<str>, Vec<BgpProblem>>,
    /// Whose sessions were told to be left out, by whose.
    told: BTreeSet<(&'a Arc<str>, &'a Arc<str>)>,
}

/// The other end of a session, before it is one.
#[derive(Debug, Clone, Copy)]
struct End<'a> {
    address: IpAddr,
    port: u16,
    as_number: AsNumber,
    /// Cluster id, of a node that was selected.
    cluster_id: Option<&'a str>,
    /// Its node, if it is one.
    node: Option<&'a Arc<str>>,
}

/// What a session follows from.
#[derive(Debug, Clone, Copy)]
struct Cause<'a> {
    name: &'a Arc<str>,
    peering: &'a Peering,
    kind: PeerKind,
    mirrored: bool,
}

/// Nodes by address, in order of their names.
type Owners<'a> = BTreeMap<IpAddr, Vec<&'a Arc<str>>>;

impl Sessions<'_> {
    pub(super) fn into_peers(self) -> Vec<DesiredPeer> {
        self.taken.into_values().map(|(peer, _)| peer).collect()
    }
}

impl<'a> Sessions<'a> {
    fn add(&mut self, cause: Cause<'a>, peer: DesiredPeer) {
        let by = match self.taken.get(&peer.id) {
            None => {
                self.taken.insert(peer.id, (peer, Some(cause.name)));
                return;
            }
            Some((_, by)) => *by,
        };
        // A mirror image of what is there already is no news.
        if let Some(by) = by.filter(|by| !cause.mirrored && *by != cause.name)
            && self.told.insert((cause.name, by))
        {
            let by = ResourceKey::cluster(Kind::BgpPeer, by);
            self.tell(cause.name, BgpProblem::Taken { address: peer.id.address, by });
        }
    }

    fn tell(&mut self, name: &'a Arc<str>, problem: BgpProblem) {
        self.problems.entry(name).or_default().push(problem);
    }
}

impl Topology {
    /// Sessions of this node, a speaker.
    pub(super) fn sessions<'a>(&'a self, own: &'a Speaker) -> Sessions<'a> {
        let mut sessions = Sessions::default();
        let owners = if self.peers.is_empty() { Owners::new() } else { self.owners() };
        for kind in [PeerKind::Global, PeerKind::Node] {
            for (name, peering) in &self.peers {
                let is_global = matches!(peering.local, super::peers::Choice::All);
                if is_global == (kind == PeerKind::Global) && peering.local.contains(&self.node) {
                    let cause = Cause { name, peering, kind, mirrored: false };
                    self.forward(own, cause, &owners, &mut sessions);
                }
            }
        }
        self.local_workloads(&mut sessions);
        for (name, peering) in self.peers.iter().filter(|(_, peering)| peering.mirrored) {
            let cause = Cause { name, peering, kind: PeerKind::Node, mirrored: true };
            self.mirrored(own, cause, &owners, &mut sessions);
        }
        self.mesh(own, &mut sessions);
        sessions
    }

    fn owners(&self) -> Owners<'_> {
        let mut owners = Owners::new();
        for (name, node) in &self.nodes {
            node.speaker.addresses().for_each(|address| owners.entry(address).or_default().push(name));
        }
        owners
    }

    fn forward<'a>(&'a self, own: &'a Speaker, cause: Cause<'a>, owners: &Owners<'a>, sessions: &mut Sessions<'a>) {
        for filter in &cause.peering.filters {
            if !self.filters.contains_key(filter.as_str()) {
                sessions.tell(cause.name, BgpProblem::NoSuchFilter(filter.clone()));
            }
        }
        match &cause.peering.remote {
            Remote::Address { address, port } => {
                if let Some(end) = self.named(*address, *port, cause, owners, sessions)
                    && let Some(peer) = self.session(own, cause, end)
                {
                    sessions.add(cause, peer);
                }
            }
            Remote::Nodes(choice) => self.with_nodes(own, cause, &choice.names(&self.nodes), &FAMILIES, sessions),
            Remote::Workloads(_) | Remote::Nobody => {}
        }
    }

    /// The end that an address means. Of a node it has the node's port where none is given.
    fn named<'a>(
        &'a self,
        address: IpAddr,
        port: Option<u16>,
        cause: Cause<'a>,
        owners: &Owners<'a>,
        sessions: &mut Sessions<'a>,
    ) -> Option<End<'a>> {
        let nodes = self.meant(address, port, cause.peering.as_number, owners);
        let node = nodes.first().copied();
        let cluster_wide = node.map(|_| self.configuration.settings().as_number);
        let Some(as_number) = cause.peering.as_number.or(cluster_wide) else {
            sessions.tell(cause.name, BgpProblem::NoAsNumber);
            return None;
        };
        if let (None, Some(other)) = (node, owners.get(&address).and_then(|names| names.first())) {
            let actual = self.as_number_of(other);
            if actual != as_number {
                sessions.tell(cause.name, BgpProblem::OtherAs { node: Arc::clone(other), given: as_number, actual });
            }
        }
        let port = port.or_else(|| node.map(|node| self.port_of(node))).unwrap_or(BGP_PORT);
        Some(End { address, port, as_number, cluster_id: None, node })
    }

    /// Nodes that an address, an AS number and a port mean. A node's own port is compared with the cluster's all the same: upstream's.
    fn meant<'a>(
        &self,
        address: IpAddr,
        port: Option<u16>,
        as_number: Option<AsNumber>,
        owners: &Owners<'a>,
    ) -> Vec<&'a Arc<str>> {
        let settings = self.configuration.settings();
        let as_number = as_number.unwrap_or(settings.as_number);
        let fits = |name: &&&Arc<str>| {
            let ports = [self.configuration.port(name), settings.port];
            self.as_number_of(name) == as_number
                && port.is_none_or(|port| ports.into_iter().flatten().all(|other| other == port))
        };
        owners.get(&address).into_iter().flatten().filter(fits).copied().collect()
    }

    fn as_number_of(&self, node: &str) -> AsNumber {
        let own = self.nodes.get(node).and_then(|node| node.speaker.as_number);
        own.unwrap_or_else(|| self.configuration.settings().as_number)
    }

    fn port_of(&self, node: &str) -> u16 {
        self.configuration.port(node).unwrap_or(self.port)
    }

    fn with_nodes<'a>(
        &'a self,
        own: &'a Speaker,
        cause: Cause<'a>,
        names: &[&'a Arc<str>],
        families: &[Family],
        sessions: &mut Sessions<'a>,
    ) {
        for name in names {
            let Some(node) = self.nodes.get(*name) else { continue };
            for address in families.iter().filter_map(|family| node.speaker.address(*family)) {
                let end = End {
                    address,
                    port: self.port_of(name),
                    as_number: self.as_number_of(name),
                    cluster_id: node.speaker.cluster_id.as_deref(),
                    node: Some(name),
                };
                if let Some(peer) = self.session(own, cause, end) {
                    sessions.add(cause, peer);
                }
            }
        }
    }

    /// The mirror images: of those whose other end this node is, with the nodes that have them.
    fn mirrored<'a>(&'a self, own: &'a Speaker, cause: Cause<'a>, owners: &Owners<'a>, sessions: &mut Sessions<'a>) {
        let families = match &cause.peering.remote {
            Remote::Nodes(choice) if choice.contains(&self.node) => &FAMILIES[..],
            Remote::Address { address, port } => {
                let meant = self.meant(*address, *port, cause.peering.as_number, owners);
                if !meant.contains(&&self.node) {
                    return;
                }
                match Family::of(*address) {
                    Family::V4 => &[Family::V4][..],
                    Family::V6 => &[Family::V6][..],
                }
            }
            _ => return,
        };
        self.with_nodes(own, cause, &cause.peering.local.names(&self.nodes), families, sessions);
    }

    /// A session with an end; none with this node itself, or of a family in which it has no address.
    fn session(&self, own: &Speaker, cause: Cause<'_>, end: End<'_>) -> Option<DesiredPeer> {
        let Cause { peering, .. } = cause;
        let family = Family::of(end.address);
        if own.address(family)? == end.address {
            return None;
        }
        let is_named = !cause.mirrored && matches!(peering.remote, Remote::Address { .. });
        let local_as = peering.local_as.filter(|_| is_named);
        let own_as = local_as.unwrap_or_else(|| self.as_number_of(&self.node));
        let is_internal = own_as == end.as_number;
        let name = end.node.filter(|_| !is_named).unwrap_or(cause.name);
        let peer = DesiredPeer::new(end.address, end.as_number, cause.kind, &**name);
        let session = SessionParameters {
            local_as,
            source: peering.source,
            password: self.secrets.password(&peering.password),
            ttl_security: peering.ttl_security,
            keepalive: peering.keepalive,
            restart_time: peering.restart_time,
            add_path: ADD_PATH,
            bfd: peering.bfd.map(|bfd| bfd.session(is_on_link(own, end.address))),
            gateway: peering.gateway.filter(|_| is_named),
            ..peer.session
        };
        let policy = PeerPolicy {
            next_hop: if peering.external_only && is_internal { NextHop::Auto } else { peering.next_hop },
            reflector_client: is_internal && own.cluster_id.is_some() && own.cluster_id.as_deref() != end.cluster_id,
            own_as_allowed: if is_named { peering.own_as_allowed } else { 0 },
            filters: self.filters_of(peering),
        };
        Some(DesiredPeer { port: end.port, session, policy, ..peer })
    }

    fn filters_of(&self, peering: &Peering) -> Vec<Arc<crate::bgp::Filter>> {
        let known = peering.filters.iter().filter_map(|name| self.filters.get(name.as_str()));
        known.map(|filter| filter.filter.clone()).collect()
    }

    /// Each workload is the peer of the first BGPPeer that selects it, with its first address of each family.
    fn local_workloads<'a>(&'a self, sessions: &mut Sessions<'a>) {
        let selecting: Vec<_> = self
            .peers
            .iter()
            .filter_map(|(name, peering)| Some((name, peering, peering.workloads(&self.node)?)))
            .collect();
        if selecting.is_empty() {
            return;
        }
        for (key, workload) in self.workloads.iter() {
            let first = selecting.iter().find(|(_, _, selector)| self.workloads.is_selected(selector, workload));
            let Some((name, peering, _)) = first else { continue };
            let Some(as_number) = peering.as_number else { continue };
            for family in FAMILIES {
                let address = workload.addresses.iter().find(|address| address.family() == family);
                let Some(address) = address.map(crate::net::Cidr::address) else { continue };
                let peer = DesiredPeer::new(address, as_number, PeerKind::LocalWorkload, workload_name(key));
                let session = SessionParameters {
                    local_as: peering.local_as,
                    source: Source::Kernel,
                    passive: true,
                    add_path: ADD_PATH,
                    ..peer.session
                };
                let policy = PeerPolicy { filters: self.filters_of(peering), ..PeerPolicy::default() };
                let cause = Cause { name, peering, kind: PeerKind::LocalWorkload, mirrored: false };
                sessions.add(cause, DesiredPeer { session, policy, ..peer });
            }
        }
    }

    /// Every other node that is no reflector, with an address of a family that this node has one of.
    fn mesh<'a>(&'a self, own: &Speaker, sessions: &mut Sessions<'a>) {
        let settings = self.configuration.settings();
        if own.cluster_id.is_some() || !settings.mesh {
            return;
        }
        let password = self.secrets.password(&settings.mesh_password);
        let mut replaced: BTreeMap<&Arc<str>, usize> = BTreeMap::new();
        for (name, node) in self.nodes.iter().filter(|(name, node)| **name != self.node && !node.speaker.reflects()) {
            for address in FAMILIES.into_iter().filter_map(|family| node.speaker.address(family)) {
                // Two nodes with one address would be one peer twice; upstream compares addresses to leave this node out.
                if own.address(Family::of(address)).is_none_or(|own| own == address) {
                    continue;
                }
                if let Some((_, by)) = sessions.taken.get(&PeerId::from(address)) {
                    by.iter().for_each(|by| *replaced.entry(by).or_default() += 1);
                    continue;
                }
                let peer = self.mesh_peer(own, name, address, password.clone());
                sessions.taken.insert(peer.id, (peer, None));
            }
        }
        for (name, sessions_of_mesh) in replaced {
            sessions.tell(name, BgpProblem::InsteadOfMesh { sessions: sessions_of_mesh });
        }
    }

    fn mesh_peer(&self, own: &Speaker, name: &Arc<str>, address: IpAddr, password: Password) -> DesiredPeer {
        let settings = self.configuration.settings();
        let peer = DesiredPeer::new(address, self.as_number_of(name), PeerKind::Mesh, &**name);
        let session = SessionParameters {
            password,
            restart_time: settings.mesh_restart,
            add_path: ADD_PATH,
            bfd: settings.mesh_bfd.map(|bfd| bfd.session(is_on_link(own, address))),
            ..peer.session
        };
        DesiredPeer { port: self.port_of(name), session, ..peer }
    }
}

fn is_on_link(own: &Speaker, address: IpAddr) -> bool {
    own.address.get(Family::of(address)).is_some_and(|own| own.network().contains(address))
}

/// For logs and status: `NAMESPACE/NAME`.
fn workload_name(key: &ResourceKey) -> alloc::string::String {
    let name = key.name().unwrap_or_default();
    match key.namespace() {
        Some(namespace) => alloc::format!("{namespace}/{name}"),
        None => name.into(),
    }
}
