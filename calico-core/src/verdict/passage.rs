//! A packet's way through one host: which policy of whom is asked, in which order, and what is decided without any.
//!
//! The order is that of the hooks: `doNotTrack` policy before connection tracking, `preDNAT` policy before destination NAT, then the
//! workload's own policy and that of host endpoints. Both evaluators, the plain and the compiled one, walk it; they differ in how they
//! find the rules that match. As upstream has it (`felix/rules`):
//!
//! - policy sees the first packet of a connection only, but `doNotTrack` policy sees each, and a forged source is never let through;
//! - what `doNotTrack` policy allows is not tracked, so it is new to all that follows;
//! - what it or `preDNAT` policy allows, policy of host endpoints is not asked about again, but for `applyOnForward` on the way out;
//! - a host endpoint of all other interfaces (`*`) has no untracked policy, and has `preDNAT` and forwarded traffic of workloads too;
//! - policy of a workload is not asked by its own host, and its host is reached only if the settings say so.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::step::{Encapsulation, Step, Verdict};
use crate::calc::event::{ActiveEndpoint, ActiveHostEndpoint, Directions, EndpointId, Network, Stack};
use crate::flow::{ConnState, Decision, Flow, Passage, Place};
use crate::net::{Failsafes, InterfaceName};
use crate::render::EndpointToHost;
use crate::resource::{PolicyType, ResourceKey};
use crate::spec;

/// Settings of a host that decide about flows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals and `..Default::default()`")]
pub struct Settings {
    /// What concerns workloads.
    pub host: spec::Settings,
    /// What no policy of a host endpoint closes.
    pub failsafes: Failsafes,
}

/// What a host does with a packet, and who had a say.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "an answer and its reasons, and nothing else")]
pub struct PassageVerdict {
    /// What happens.
    pub decision: Decision,
    /// Who was asked, in order. The last one decided if it denied; otherwise all let it go on. Empty: nobody had to be asked.
    pub ends: Vec<End>,
}

/// What one endpoint, or the host, says to a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "an answer, read by many")]
pub struct End {
    /// Whose policy; none for rules of the host itself.
    pub endpoint: Option<EndpointId>,
    /// To the endpoint or from it. Of a host endpoint, ingress comes in by its interface.
    pub direction: PolicyType,
    /// Which policy.
    pub stage: Stage,
    /// What it says.
    pub verdict: Verdict,
}

/// Which policy of an endpoint is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// A host endpoint's `doNotTrack` policy.
    Untracked,
    /// A host endpoint's `preDNAT` policy.
    PreDnat,
    /// A workload's.
    Workload,
    /// A host endpoint's, for what goes to the host itself or comes from it.
    Host,
    /// A host endpoint's `applyOnForward` policy, for what goes through the host.
    Forward,
    /// None: a rule of the host about what it forwards.
    Forwarding,
}

/// Where to look things up, and how to find the rules that match.
pub(super) trait Evaluator<'a> {
    /// Handle of a stack.
    type Stack: Copy;

    fn workload(&self, key: &ResourceKey) -> Option<Workload<'a, Self::Stack>>;

    /// The host endpoint of an interface; without one, that of all other interfaces.
    fn host_endpoint(&self, interface: Option<InterfaceName>) -> Option<HostEndpoint<'a, Self::Stack>>;

    fn network(&self) -> &'a Network;

    fn has_tiers(&self, stack: Self::Stack) -> bool;

    /// Runs through tiers and profiles; none when nothing decides.
    fn walk(
        &mut self,
        stack: Self::Stack,
        direction: PolicyType,
        flow: &Flow,
        steps: &mut Vec<Step>,
    ) -> Option<Decision>;
}

pub(super) struct Workload<'a, S> {
    pub(super) id: &'a EndpointId,
    pub(super) endpoint: &'a ActiveEndpoint,
    pub(super) ingress: S,
    pub(super) egress: S,
}

pub(super) struct HostEndpoint<'a, S> {
    pub(super) id: &'a EndpointId,
    pub(super) stacks: HostStacks<S>,
}

/// The stacks of a host endpoint; pairs are ingress and egress.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostStacks<S> {
    pub(super) untracked: [S; 2],
    pub(super) pre_dnat: S,
    pub(super) normal: [S; 2],
    pub(super) forward: [S; 2],
}

impl<S: Copy> HostStacks<S> {
    pub(super) fn of<'a>(endpoint: &'a ActiveHostEndpoint, mut handle: impl FnMut(&'a Arc<Stack>) -> S) -> Self {
        let mut both = |both: &'a Directions| [handle(&both.ingress), handle(&both.egress)];
        let (untracked, normal, forward) = (both(&endpoint.untracked), both(&endpoint.normal), both(&endpoint.forward));
        Self { untracked, pre_dnat: handle(&endpoint.pre_dnat), normal, forward }
    }

    fn stack(&self, stage: Stage, direction: PolicyType) -> Option<S> {
        match stage {
            Stage::Untracked => Some(of_direction(self.untracked, direction)),
            Stage::PreDnat => Some(self.pre_dnat),
            Stage::Host => Some(of_direction(self.normal, direction)),
            Stage::Forward => Some(of_direction(self.forward, direction)),
            Stage::Workload | Stage::Forwarding => None,
        }
    }
}

/// Of ingress and egress the one.
pub(super) fn of_direction<T>([ingress, egress]: [T; 2], direction: PolicyType) -> T {
    match direction {
        PolicyType::Ingress => ingress,
        PolicyType::Egress => egress,
    }
}

/// What a stack says that ends in a drop; none: that of an endpoint which is not active.
pub(super) fn judge<'a, E: Evaluator<'a>>(
    evaluator: &mut E,
    stack: Option<E::Stack>,
    direction: PolicyType,
    flow: &Flow,
) -> Verdict {
    let Some(stack) = stack else { return denied(Step::UnknownEndpoint) };
    let mut steps = Vec::new();
    let decision = evaluator.walk(stack, direction, flow, &mut steps).unwrap_or_else(|| {
        steps.push(Step::EndOfProfiles);
        Decision::Deny
    });
    Verdict { decision, steps }
}

pub(super) fn run<'a, E: Evaluator<'a>>(
    evaluator: &mut E,
    settings: &Settings,
    passage: &Passage<'_>,
) -> PassageVerdict {
    let way = Way { evaluator, settings, passage, state: passage.state, allowed: false, ends: Vec::new() };
    way.go()
}

/// A packet on its way.
struct Way<'e, 'p, E> {
    evaluator: &'e mut E,
    settings: &'p Settings,
    passage: &'p Passage<'p>,
    /// What connection tracking says, if it is asked.
    state: ConnState,
    /// Whether policy before NAT allowed it.
    allowed: bool,
    ends: Vec<End>,
}

impl<'a, E: Evaluator<'a>> Way<'_, '_, E> {
    fn go(mut self) -> PassageVerdict {
        let decision = if self.all() { Decision::Allow } else { Decision::Deny };
        PassageVerdict { decision, ends: self.ends }
    }

    /// Each part answers whether the packet goes on.
    fn all(&mut self) -> bool {
        let Passage { from, to, .. } = *self.passage;
        if let (Place::Workload(key), true) = (from, self.is_neighbor_discovery()) {
            let id = self.evaluator.workload(key).map(|workload| workload.id.clone());
            return self.told(id, PolicyType::Egress, Stage::Workload, allowed(Step::NeighborDiscovery));
        }
        match (from, to) {
            (Place::Host, Place::Host) => true,
            (Place::Host, Place::Workload(key)) => self.from_own_host(key),
            (Place::Host, Place::Interface(_)) => {
                self.host_endpoint(to, Stage::Untracked, PolicyType::Egress)
                    && self.host_endpoint(to, Stage::Host, PolicyType::Egress)
            }
            _ => {
                self.host_endpoint(from, Stage::Untracked, PolicyType::Ingress)
                    && self.host_endpoint(from, Stage::PreDnat, PolicyType::Ingress)
                    && if to == Place::Host { self.to_host(from) } else { self.forward(from, to) }
            }
        }
    }

    fn to_host(&mut self, from: Place<'_>) -> bool {
        match from {
            Place::Workload(key) => self.from_workload(key) && self.endpoint_to_host(),
            _ => self.host_endpoint(from, Stage::Host, PolicyType::Ingress),
        }
    }

    fn forward(&mut self, from: Place<'_>, to: Place<'_>) -> bool {
        let mut goes = self.host_endpoint(from, Stage::Forward, PolicyType::Ingress);
        if let Place::Workload(key) = from {
            goes = goes && self.from_workload(key);
        }
        if let Place::Workload(key) = to {
            goes = goes && self.to_workload(key);
        }
        goes && self.host_endpoint(to, Stage::Forward, PolicyType::Egress) && self.is_no_service_loop()
    }

    fn from_workload(&mut self, key: &ResourceKey) -> bool {
        let Some(workload) = self.evaluator.workload(key) else { return self.unknown(key, PolicyType::Egress) };
        let verdict = match self.unpoliced_from_workload(workload.endpoint) {
            Some(verdict) => verdict,
            None => judge(self.evaluator, Some(workload.egress), PolicyType::Egress, &self.passage.flow),
        };
        self.told(Some(workload.id.clone()), PolicyType::Egress, Stage::Workload, verdict)
    }

    fn to_workload(&mut self, key: &ResourceKey) -> bool {
        let Some(workload) = self.evaluator.workload(key) else { return self.unknown(key, PolicyType::Ingress) };
        let verdict = match self.by_state() {
            Some(verdict) => verdict,
            None => judge(self.evaluator, Some(workload.ingress), PolicyType::Ingress, &self.passage.flow),
        };
        self.told(Some(workload.id.clone()), PolicyType::Ingress, Stage::Workload, verdict)
    }

    fn from_own_host(&mut self, key: &ResourceKey) -> bool {
        let Some(workload) = self.evaluator.workload(key) else { return self.unknown(key, PolicyType::Ingress) };
        let id = Some(workload.id.clone());
        self.told(id, PolicyType::Ingress, Stage::Workload, allowed(Step::FromOwnHost))
    }

    /// What is decided about traffic from a workload before its policy.
    fn unpoliced_from_workload(&self, endpoint: &ActiveEndpoint) -> Option<Verdict> {
        let (flow, settings) = (&self.passage.flow, &self.settings.host);
        let own = endpoint.addresses.iter().any(|net| net.contains(flow.source));
        let further = || endpoint.allowed_sources.iter().any(|net| net.contains(flow.source));
        if !own && !(settings.allow_spoofed_sources && further()) {
            return Some(denied(Step::Spoofed));
        }
        if let Some(verdict) = self.by_state() {
            return Some(verdict);
        }
        let vxlan = flow.protocol == UDP && flow.destination_port == settings.vxlan_port;
        if vxlan && !settings.allow_vxlan_from_workloads {
            return Some(denied(Step::Encapsulated(Encapsulation::Vxlan)));
        }
        if flow.protocol == IPIP && !settings.allow_ipip_from_workloads {
            return Some(denied(Step::Encapsulated(Encapsulation::IpIp)));
        }
        None
    }

    /// Said by the workload's egress, which comes to its end here.
    fn endpoint_to_host(&mut self) -> bool {
        let action = self.settings.host.endpoint_to_host;
        let known = matches!(self.state, ConnState::Established | ConnState::Related);
        let drops = action == EndpointToHost::Drop && !known;
        if let (false, Some(end)) = (known, self.ends.last_mut()) {
            end.verdict.steps.push(Step::EndpointToHost(action));
            end.verdict.decision = if drops { Decision::Deny } else { Decision::Allow };
        }
        !drops
    }

    /// What a host endpoint says, if there is one and it is to be asked.
    fn host_endpoint(&mut self, place: Place<'_>, stage: Stage, direction: PolicyType) -> bool {
        let Some((id, stack)) = self.stack_of(place, stage, direction) else { return true };
        // Without policy only traffic of the host itself is denied.
        if stage != Stage::Host && !self.evaluator.has_tiers(stack) {
            return true;
        }
        let flow = match stage {
            Stage::Untracked | Stage::PreDnat => self.passage.arriving,
            _ => self.passage.flow,
        };
        let verdict = match self.unpoliced(stage, direction, &flow) {
            Some(verdict) => verdict,
            None if stage == Stage::Host => judge(self.evaluator, Some(stack), direction, &flow),
            None => self.ask(stack, stage, direction, &flow),
        };
        self.told(Some(id.clone()), direction, stage, verdict)
    }

    /// Policy that need not decide.
    fn ask(&mut self, stack: E::Stack, stage: Stage, direction: PolicyType, flow: &Flow) -> Verdict {
        let mut steps = Vec::new();
        let decided = self.evaluator.walk(stack, direction, flow, &mut steps);
        if decided == Some(Decision::Allow) && stage != Stage::Forward {
            self.allowed = true;
            if stage == Stage::Untracked {
                self.state = ConnState::New;
            }
        }
        let decision = decided.unwrap_or_else(|| {
            steps.push(Step::EndOfPolicies);
            Decision::Allow
        });
        Verdict { decision, steps }
    }

    fn stack_of(&self, place: Place<'_>, stage: Stage, direction: PolicyType) -> Option<(&'a EndpointId, E::Stack)> {
        let others = || self.evaluator.host_endpoint(None);
        let found = match (place, stage) {
            (Place::Host, _) => None,
            (Place::Workload(_), Stage::PreDnat | Stage::Forward) => others(),
            (Place::Workload(_), _) => None,
            (Place::Interface(name), Stage::Untracked) => self.evaluator.host_endpoint(Some(name)),
            (Place::Interface(name), _) => self.evaluator.host_endpoint(Some(name)).or_else(others),
        }?;
        Some((found.id, found.stacks.stack(stage, direction)?))
    }

    /// What is decided about traffic of a host endpoint before its policy.
    fn unpoliced(&self, stage: Stage, direction: PolicyType, flow: &Flow) -> Option<Verdict> {
        let failsafes = &self.settings.failsafes;
        if stage == Stage::Untracked {
            let open = failsafes.admits(direction, flow) || failsafes.admits_reply(direction, flow);
            return open.then(|| allowed(Step::Failsafe));
        }
        let asked_again = stage == Stage::Forward && direction == PolicyType::Egress;
        if self.allowed && !asked_again {
            return Some(allowed(Step::AllowedBefore));
        }
        let open = || (stage != Stage::Forward && failsafes.admits(direction, flow)).then(|| allowed(Step::Failsafe));
        self.by_state().or_else(open)
    }

    fn by_state(&self) -> Option<Verdict> {
        match self.state {
            ConnState::New => None,
            ConnState::Established | ConnState::Related => Some(allowed(Step::Established)),
            ConnState::Invalid => Some(denied(Step::Invalid)),
        }
    }

    fn is_no_service_loop(&mut self) -> bool {
        let to = self.passage.flow.destination;
        if !self.evaluator.network().services.iter().any(|net| net.contains(to)) {
            return true;
        }
        self.told(None, PolicyType::Ingress, Stage::Forwarding, denied(Step::ServiceLoop))
    }

    /// Upstream's list: multicast listeners, router and neighbour solicitation and advertisement.
    fn is_neighbor_discovery(&self) -> bool {
        let Passage { to, flow, .. } = self.passage;
        *to == Place::Host && flow.protocol == ICMPV6 && matches!(flow.icmp, Some((130..=133 | 135 | 136, _)))
    }

    fn unknown(&mut self, key: &ResourceKey, direction: PolicyType) -> bool {
        self.told(Some(EndpointId(key.clone())), direction, Stage::Workload, denied(Step::UnknownEndpoint))
    }

    fn told(&mut self, endpoint: Option<EndpointId>, direction: PolicyType, stage: Stage, verdict: Verdict) -> bool {
        let goes_on = verdict.decision == Decision::Allow;
        self.ends.push(End { endpoint, direction, stage, verdict });
        goes_on
    }
}

fn allowed(step: Step) -> Verdict {
    Verdict { decision: Decision::Allow, steps: vec![step] }
}

fn denied(step: Step) -> Verdict {
    Verdict { decision: Decision::Deny, steps: vec![step] }
}

const UDP: u8 = 17;
const IPIP: u8 = 4;
const ICMPV6: u8 = 58;
