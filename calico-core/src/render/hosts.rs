//! Host endpoints: what the host's own interfaces let in, out and through.
//!
//! ```text
//! prerouting  -300  raw-in            fail-safes; iifname vmap @untracked-in
//! prerouting  -299  raw-in-notrack    what raw-in accepted is not tracked
//! output      -300  raw-out           fail-safes; oifname vmap @untracked-out
//! output      -299  raw-out-notrack
//! prerouting  -150  pre-dnat          established, invalid, fail-safes; iifname vmap @pre-dnat
//! input          2  host-in           established, invalid, fail-safes; iifname vmap @host-in
//! output         0  host-out          established, invalid, fail-safes; oifname vmap @host-out
//! postrouting -150  host-out-dnat     the same for what the host sends to a translated destination: only here is its interface right
//! forward        2  forward-host-in   established, invalid; iifname vmap @forward-in
//! forward        3  forward-host-out  established, invalid; oifname vmap @forward-out
//! postrouting -149  dscp-hosts        saddr vmap @dscp-hosts, of host endpoints whose packets are marked
//! ```
//!
//! A named interface is an element of each map, and none of these chains belongs to an endpoint. What an endpoint of all other interfaces
//! (`*`) wants follows the look-up as a goto. The base chains exist while there is a host endpoint, those before the routing decision
//! while a policy wants them; a host without any does not pay for them, and its fail-safe ports are open because all are.
//!
//! *What was accepted already.* The bit `carried` tells a later hook that raw or `preDNAT` policy accepted a packet: then the policy of the
//! host endpoint is not asked again. A chain sets the bit before it asks its policy, and clears it behind; whatever accepts in between ends
//! the base chain and leaves it set. So policies need no mark of their own, and all layers share their chains. Connection state would not do
//! instead: neighbour discovery and what other programs exempt are untracked too. The first chain on each way clears the bit, as a
//! stranger may have set it, and the chain that acts on it clears it as well. From output to postrouting the same bit says the
//! opposite, "not yet judged": there, nothing else can have it.
//!
//! Whose an interface is, and what is another than upstream's, is said by [`spec`](crate::spec): above all, `*` has neither interfaces of
//! workloads nor loopback, and all layers.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;

use super::chains::{Chains, Written};
use super::host_chains::Parts;
use super::stage::Stage;
use super::workloads::change_elements;
use super::{RenderConfig, qos, stack};
use crate::calc::event::{ActiveHostEndpoint, EndpointId, HostInterfaces, Stack};
use crate::net::InterfaceName;
use crate::table::{Chain, ChainName, Datum, Delta, Element, FieldType, SetDecl, SetKind, SetName, Verdict};

/// Set of the interfaces that host endpoints name.
pub(super) const HOST_INTERFACES: &str = "host-interfaces";

/// One interface, or all others.
type Claim = Option<InterfaceName>;

/// The host endpoints.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    endpoints: BTreeMap<EndpointId, Arc<ActiveHostEndpoint>>,
    /// Several only while an interface passes on; the smallest counts.
    claims: BTreeMap<Claim, BTreeSet<EndpointId>>,
    /// Number of claims with policies in a stage.
    users: BTreeMap<Stage, usize>,
    /// Who wants packets from an address marked, and how; the first counts.
    marks: BTreeMap<IpAddr, BTreeSet<(EndpointId, u8)>>,
    /// The base chains and what only they refer to, as last written.
    written: Written,
}

impl Hosts {
    pub(super) fn change(
        &mut self,
        id: &EndpointId,
        endpoint: Option<&Arc<ActiveHostEndpoint>>,
        chains: &mut Chains,
        delta: &mut Delta,
    ) {
        let before = self.endpoints.get(id).map(|old| claims(old, &chains.config)).unwrap_or_default();
        let after = endpoint.map(|new| claims(new, &chains.config)).unwrap_or_default();
        let concerned: BTreeSet<Claim> = before.iter().chain(&after).copied().collect();
        let was: Vec<_> = concerned.into_iter().map(|claim| (claim, self.active(claim))).collect();
        for claim in before {
            if self.claims.get_mut(&claim).is_some_and(|rivals| rivals.remove(id) && rivals.is_empty()) {
                self.claims.remove(&claim);
            }
        }
        for claim in after {
            self.claims.entry(claim).or_default().insert(id.clone());
        }
        let former = match endpoint {
            Some(new) => self.endpoints.insert(id.clone(), Arc::clone(new)),
            None => self.endpoints.remove(id),
        };
        self.mark(id, former.as_deref(), endpoint.map(|new| &**new), chains, delta);
        let changed: Vec<_> = was.into_iter().map(|(claim, old)| (claim, old, self.active(claim))).collect();
        let changed: Vec<_> = changed.into_iter().filter(|(_, old, new)| old != new).collect();
        for (_, _, new) in &changed {
            self.take(new.as_deref(), chains, delta);
        }
        for (claim, old, new) in &changed {
            let elements = |endpoint: &Option<Arc<ActiveHostEndpoint>>| match (claim, endpoint) {
                (Some(interface), Some(endpoint)) => elements(*interface, endpoint, &chains.config),
                _ => BTreeSet::new(),
            };
            change_elements(&elements(old), &elements(new), delta);
        }
        for (_, old, _) in &changed {
            self.release(old.as_deref(), chains, delta);
        }
        self.write(chains, delta);
    }

    /// Brings the marks of a host endpoint up to date; what is referred to comes first and goes last.
    fn mark(
        &mut self,
        id: &EndpointId,
        former: Option<&ActiveHostEndpoint>,
        endpoint: Option<&ActiveHostEndpoint>,
        chains: &mut Chains,
        delta: &mut Delta,
    ) {
        let marks = |endpoint: Option<&ActiveHostEndpoint>| -> BTreeSet<(IpAddr, u8)> {
            endpoint.into_iter().flat_map(|endpoint| endpoint.dscp.iter().copied()).collect()
        };
        let (before, after) = (marks(former), marks(endpoint));
        if before == after {
            return;
        }
        let (gone, new) = (qos::host_chains(&before), qos::host_chains(&after));
        new.into_iter().for_each(|chain| chains.take_chain(chain, delta));
        let concerned: BTreeSet<IpAddr> = before.iter().chain(&after).map(|(address, _)| *address).collect();
        let elements = |marks: &BTreeMap<IpAddr, BTreeSet<(EndpointId, u8)>>| {
            let first = |address: &IpAddr| Some(qos::host_element(*address, marks.get(address)?.first()?.1));
            concerned.iter().filter_map(first).collect::<BTreeSet<_>>()
        };
        let old = elements(&self.marks);
        for (address, mark) in before {
            if self
                .marks
                .get_mut(&address)
                .is_some_and(|rivals| rivals.remove(&(id.clone(), mark)) && rivals.is_empty())
            {
                self.marks.remove(&address);
            }
        }
        for (address, mark) in after {
            self.marks.entry(address).or_default().insert((id.clone(), mark));
        }
        change_elements(&old, &elements(&self.marks), delta);
        let names: Vec<ChainName> = gone.into_iter().map(|chain| chain.name).collect();
        names.into_iter().for_each(|name| chains.drop_chain(name, delta));
    }

    fn active(&self, claim: Claim) -> Option<Arc<ActiveHostEndpoint>> {
        let id = self.claims.get(&claim)?.first()?;
        self.endpoints.get(id).cloned()
    }

    fn take(&mut self, endpoint: Option<&ActiveHostEndpoint>, chains: &mut Chains, delta: &mut Delta) {
        for (stage, stack) in stacks(endpoint, &chains.config) {
            chains.take_stack(stack, stage.course(&chains.config), delta);
            *self.users.entry(stage).or_insert(0) += 1;
        }
    }

    fn release(&mut self, endpoint: Option<&ActiveHostEndpoint>, chains: &mut Chains, delta: &mut Delta) {
        for (stage, stack) in stacks(endpoint, &chains.config) {
            chains.drop_stack(stack, stage.course(&chains.config), delta);
            if let Some(users) = self.users.get_mut(&stage) {
                *users = users.saturating_sub(1);
            }
        }
    }

    /// Brings the base chains up to date: a handful, whatever the number of endpoints.
    fn write(&mut self, chains: &mut Chains, delta: &mut Delta) {
        let wanted = if self.claims.is_empty() { Vec::new() } else { self.chains(&chains.config) };
        self.written.write(wanted, &mut chains.pending, delta);
    }

    fn chains(&self, config: &RenderConfig) -> Vec<Chain> {
        let wildcard = self.active(None);
        let used = |stage| self.users.get(&stage).is_some_and(|users| *users > 0);
        let parts = Parts {
            config,
            wildcard: wildcard.as_deref(),
            raw: used(Stage::UntrackedIn) || used(Stage::UntrackedOut),
            pre_dnat: used(Stage::PreDnat),
        };
        parts.chains()
    }
}

/// The sets that are there with or without host endpoints.
pub(super) fn declarations(config: &RenderConfig) -> Vec<SetDecl> {
    let key = || vec![FieldType::Interface];
    let map = |stage: Stage| SetDecl::new(SetName::composed(stage.map()), key(), SetKind::VerdictMap);
    let mut sets: Vec<SetDecl> = Stage::all(config).map(map).collect();
    sets.push(SetDecl::new(SetName::composed(HOST_INTERFACES), key(), SetKind::Hash));
    sets
}

/// What an endpoint lays claim to. The interface of a workload is never a host endpoint's.
fn claims(endpoint: &ActiveHostEndpoint, config: &RenderConfig) -> BTreeSet<Claim> {
    match &endpoint.interfaces {
        HostInterfaces::Others => BTreeSet::from([None]),
        HostInterfaces::Named(names) => {
            names.iter().copied().filter(|name| !config.is_workload(*name)).map(Some).collect()
        }
    }
}

/// Stacks that get a chain.
fn stacks<'a>(endpoint: Option<&'a ActiveHostEndpoint>, config: &RenderConfig) -> Vec<(Stage, &'a Arc<Stack>)> {
    let Some(endpoint) = endpoint else { return Vec::new() };
    let stacks = Stage::all(config).map(|stage| (stage, stage.stack(endpoint)));
    stacks.filter(|(stage, stack)| stage.leads_to(stack)).collect()
}

fn elements(
    interface: InterfaceName,
    endpoint: &ActiveHostEndpoint,
    config: &RenderConfig,
) -> BTreeSet<(SetName, Element)> {
    let key = || vec![Datum::Interface(interface)].into_boxed_slice();
    let mut elements = BTreeSet::from([(SetName::composed(HOST_INTERFACES), Element::member(key()))]);
    for stage in Stage::all(config) {
        let (stack, course) = (stage.stack(endpoint), stage.course(config));
        let verdict = if stage.leads_to(stack) {
            Verdict::Goto(stack::name(stack, course))
        } else {
            // Nothing of its own, and nothing of the others' either.
            Verdict::Return
        };
        elements.insert((SetName::composed(stage.map()), Element::verdict(key(), verdict)));
    }
    elements
}
