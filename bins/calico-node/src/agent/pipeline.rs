//! From updates to desired state, without any I/O: the graph, the renderer, the BGP topology and what BGP learned, side by side.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use calico_bgp::BgpEvent;
use calico_core::bgp::{DesiredBgp, Topology};
use calico_core::calc::Graph;
use calico_core::calc::event::{ActiveEndpoint, EndpointId, Event, PolicyId, ProfileId, SetId};
use calico_core::net::{Cidr, InterfaceName};
use calico_core::render::PolicyRenderer;
use calico_core::table::{Delta, Route, RouteClass, RouteKey, RouteTableId, RouteTarget};
use calico_core::update::Update;

use super::bgp_routes::{BLOCK_METRIC, BgpRoutes};

/// All that this host decides. Every method returns how the desired state changes.
pub(super) struct Pipeline {
    graph: Graph,
    topology: Topology,
    renderer: Box<dyn PolicyRenderer + Send>,
    bgp_routes: BgpRoutes,
    blocks: BTreeSet<Cidr>,
    desired_bgp: DesiredBgp,
    active: Active,
}

/// What is active on this host, for status and for those who wait.
#[derive(Debug, Default)]
pub(super) struct Active {
    pub(super) endpoints: HashMap<EndpointId, Arc<ActiveEndpoint>>,
    policies: HashSet<PolicyId>,
    profiles: HashSet<ProfileId>,
    sets: HashSet<SetId>,
}

/// What a batch of updates changes.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Tables, routes, neighbours, settings.
    pub(super) delta: Delta,
    /// BGP, if it changed.
    pub(super) bgp: Option<DesiredBgp>,
}

impl Pipeline {
    pub(super) fn new(
        node: &str,
        bgp_port: u16,
        renderer: Box<dyn PolicyRenderer + Send>,
        workload_prefixes: Vec<InterfaceName>,
    ) -> Self {
        Self {
            graph: Graph::new(node).with_workload_prefixes(workload_prefixes.clone()),
            topology: Topology::new(node).with_port(bgp_port).with_workload_prefixes(workload_prefixes),
            renderer,
            bgp_routes: BgpRoutes::default(),
            blocks: BTreeSet::new(),
            desired_bgp: DesiredBgp::default(),
            active: Active::default(),
        }
    }

    /// The part of the desired state that needs no datastore.
    pub(super) fn skeleton(&self) -> Delta {
        self.renderer.skeleton()
    }

    pub(super) fn handle_updates(&mut self, updates: &[Update]) -> Changes {
        let mut topology_changed = false;
        for update in updates {
            self.graph.handle_update(update);
            topology_changed |= self.topology.handle_update(update);
        }
        let mut changes = Changes::default();
        for event in self.graph.flush() {
            self.active.note(&event);
            self.renderer.handle(&event, &mut changes.delta);
        }
        changes.delta.connections_cut = self.graph.take_departed();
        if !topology_changed {
            return changes;
        }
        self.follow_blocks(&mut changes.delta);
        let desired = self.topology.desired();
        if desired != self.desired_bgp {
            self.desired_bgp = desired.clone();
            changes.bgp = Some(desired);
        }
        changes
    }

    pub(super) fn handle_bgp(&mut self, event: &BgpEvent) -> Delta {
        let mut delta = Delta::default();
        self.bgp_routes.handle(event, &mut delta);
        delta
    }

    pub(super) const fn active(&self) -> &Active {
        &self.active
    }

    pub(super) fn bgp_routes(&self) -> usize {
        self.bgp_routes.len()
    }

    pub(super) fn diagnostics(&self) -> impl Iterator<Item = String> + '_ {
        self.graph.diagnostics().map(|(key, problem)| format!("{key}: {problem}"))
    }

    /// An address of one of our blocks that no workload has must not leave by the default route and come back: upstream's blackhole.
    fn follow_blocks(&mut self, delta: &mut Delta) {
        let blocks: BTreeSet<Cidr> = self.topology.local_blocks().into_iter().collect();
        delta.routes_removed.extend(self.blocks.difference(&blocks).map(|block| block_key(*block)));
        delta.routes_set.extend(blocks.difference(&self.blocks).map(|block| Route {
            key: block_key(*block),
            target: RouteTarget::Blackhole,
            class: RouteClass::LocalBlock,
        }));
        self.blocks = blocks;
    }
}

impl Active {
    fn note(&mut self, event: &Event) {
        match event {
            Event::SetAdded { id, .. } => drop(self.sets.insert(*id)),
            Event::SetChanged { .. } => {}
            Event::SetRemoved(id) => drop(self.sets.remove(id)),
            Event::PolicySet { id, .. } => drop(self.policies.insert(id.clone())),
            Event::PolicyRemoved(id) => drop(self.policies.remove(id)),
            Event::ProfileSet { id, .. } => drop(self.profiles.insert(id.clone())),
            Event::ProfileRemoved(id) => drop(self.profiles.remove(id)),
            Event::EndpointSet { id, endpoint } => drop(self.endpoints.insert(id.clone(), Arc::clone(endpoint))),
            Event::EndpointRemoved(id) => drop(self.endpoints.remove(id)),
            Event::HostEndpointSet { .. } | Event::HostEndpointRemoved(_) | Event::NetworkSet(_) => {}
        }
    }

    pub(super) fn policies(&self) -> usize {
        self.policies.len() + self.profiles.len()
    }

    pub(super) fn sets(&self) -> usize {
        self.sets.len()
    }
}

const fn block_key(dest: Cidr) -> RouteKey {
    RouteKey { table: RouteTableId::MAIN, dest, metric: BLOCK_METRIC }
}
