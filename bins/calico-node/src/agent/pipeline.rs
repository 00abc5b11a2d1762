//! From updates to desired state, without any I/O: the graph, the renderer, the BGP topology and what BGP learned, side by side.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use calico_bgp::BgpEvent;
use calico_cmd::control::EndpointProblems;
use calico_core::bgp::{DesiredBgp, Topology};
use calico_core::calc::{Abilities, Graph, Problem};
use calico_core::flow::Flow;
use calico_core::net::{Cidr, InterfaceName};
use calico_core::render::PolicyRenderer;
use calico_core::resource::ResourceKey;
use calico_core::table::{Delta, Route, RouteClass, RouteKey, RouteTableId, RouteTarget};
use calico_core::update::Update;
use calico_core::verdict::{ActiveState, Compiled, Settings};
use calico_dataplane::denied::{DeniedConnections, Holding, Work};

use super::ailing;
use super::bgp_routes::{BLOCK_METRIC, BgpRoutes};
use super::facts::Fact;

/// All that this host decides. Every method returns how the desired state changes.
pub(super) struct Pipeline {
    graph: Graph,
    topology: Topology,
    renderer: Box<dyn PolicyRenderer + Send>,
    pub(super) bgp_routes: BgpRoutes,
    pub(super) blocks: BTreeSet<Cidr>,
    pub(super) desired_bgp: DesiredBgp,
    active: Compiled,
    denied: Option<DeniedConnections>,
    missing_profiles: Missing,
}

/// How many profiles are missing, counted at this revision of the graph's diagnostics: every turn asks, and few change them.
#[derive(Debug, Default, Clone, Copy)]
struct Missing {
    revision: u64,
    count: usize,
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
        graph: Graph,
        topology: Topology,
        renderer: Box<dyn PolicyRenderer + Send>,
        end_denied: Option<Settings>,
    ) -> Self {
        // Nobody gives an agent endpoint slices.
        let abilities = Abilities { services: false, ..renderer.abilities() };
        Self {
            graph: graph.with_abilities(abilities),
            topology,
            renderer,
            bgp_routes: BgpRoutes::default(),
            blocks: BTreeSet::new(),
            desired_bgp: DesiredBgp::default(),
            active: Compiled::default(),
            denied: end_denied.map(DeniedConnections::new),
            missing_profiles: Missing::default(),
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
        let changes = Changes { delta: self.flush(), bgp: None };
        if topology_changed { self.follow_topology(changes) } else { changes }
    }

    /// Takes in what somebody watched beside the datastore.
    pub(super) fn handle_facts(&mut self, facts: Vec<Fact>) -> Changes {
        let mut topology_changed = false;
        for fact in facts {
            match fact {
                Fact::Secret { name, value } => topology_changed |= self.topology.handle_secret(&name, value),
            }
        }
        if topology_changed { self.follow_topology(Changes::default()) } else { Changes::default() }
    }

    /// BGP identifier of this node, if it has one.
    pub(super) fn bgp_identifier(&self) -> Option<Ipv4Addr> {
        self.desired_bgp.local.as_ref().map(|local| local.router_id)
    }

    /// Secrets that sessions of this host need.
    pub(super) fn wanted_secrets(&self) -> BTreeSet<Arc<str>> {
        self.topology.secrets()
    }

    fn follow_topology(&mut self, mut changes: Changes) -> Changes {
        self.follow_blocks(&mut changes.delta);
        let desired = self.topology.desired();
        self.bgp_routes.set_policy(&desired.kernel, &mut changes.delta);
        if desired != self.desired_bgp {
            self.desired_bgp = desired.clone();
            changes.bgp = Some(desired);
        }
        changes
    }

    /// Takes in what is known now of interfaces of this host: their addresses, or none if they are gone.
    pub(super) fn handle_interfaces(&mut self, interfaces: &[(InterfaceName, Option<Vec<IpAddr>>)]) -> Delta {
        for (name, addresses) in interfaces {
            self.graph.set_interface(*name, addresses.as_deref());
            if let Some(denied) = &mut self.denied {
                denied.set_interface(*name, addresses.as_deref());
            }
        }
        self.flush()
    }

    fn flush(&mut self) -> Delta {
        let mut delta = Delta::default();
        for event in self.graph.flush() {
            if let Some(denied) = &mut self.denied {
                denied.handle(self.active.state(), &event);
            }
            self.active.apply(&event);
            self.renderer.handle(&event, &mut delta);
        }
        delta.connections_cut = self.graph.take_departed();
        self.count_missing();
        delta
    }

    fn count_missing(&mut self) {
        let revision = self.graph.diagnostics_revision();
        if revision == self.missing_profiles.revision {
            return;
        }
        let missing = self.graph.diagnostics().filter(|(_, problem)| matches!(problem, Problem::MissingProfile));
        self.missing_profiles = Missing { revision, count: missing.count() };
    }

    pub(super) fn handle_bgp(&mut self, event: &BgpEvent) -> Delta {
        let mut delta = Delta::default();
        self.bgp_routes.handle(event, &mut delta);
        delta
    }

    /// What is active on this host.
    pub(super) const fn active(&self) -> &ActiveState {
        self.active.state()
    }

    /// How many policies and profiles are in force. A profile that is not there denies all the same, but is none.
    pub(super) fn policies(&self) -> usize {
        let active = self.active();
        (active.policies.len() + active.profiles.len()).saturating_sub(self.missing_profiles.count)
    }

    /// What ends connections that policy denies now, unless it is switched off.
    pub(super) const fn denied(&mut self) -> Option<&mut DeniedConnections> {
        self.denied.as_mut()
    }

    /// What is to be done about those connections.
    pub(super) fn poll_denied(&mut self, holding: Holding, now: Duration) -> Option<Work> {
        self.denied.as_mut()?.poll(&self.active, holding, now)
    }

    /// Packets of connections that were ended are dropped, or no more.
    pub(super) fn bar(&mut self, ended: &[Flow], over: &[Flow]) -> Delta {
        let mut delta = Delta::default();
        self.renderer.bar(ended, over, &mut delta);
        delta
    }

    /// When to ask again at the latest.
    pub(super) fn denied_timeout(&self) -> Option<Duration> {
        self.denied.as_ref()?.poll_timeout()
    }

    pub(super) fn bgp_routes(&self) -> usize {
        self.bgp_routes.len()
    }

    pub(super) fn diagnostics(&self) -> impl Iterator<Item = String> + '_ {
        let of_bgp = self.topology.diagnostics().into_iter().map(|(key, problem)| format!("{key}: {problem}"));
        self.graph.diagnostics().map(|(key, problem)| format!("{key}: {problem}")).chain(of_bgp)
    }

    /// What is not as written, by endpoint, and of how many endpoints. Faults are of objects that could not be read.
    pub(super) fn endpoint_problems(&self, faults: &BTreeMap<ResourceKey, String>) -> (Vec<EndpointProblems>, usize) {
        ailing::endpoints(&self.graph, faults)
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

const fn block_key(dest: Cidr) -> RouteKey {
    RouteKey { table: RouteTableId::MAIN, dest, metric: BLOCK_METRIC }
}
