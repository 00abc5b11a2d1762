//! A packet's way through one host: which policy of whom is asked, in which order, and what is decided without any.
//!
//! The order and what is decided without policy are those of [`crate::spec`], which says what a host does with a packet. Both evaluators, the
//! plain and the compiled one, walk this way; they differ in how they find the rules that match.

use alloc::vec;
use alloc::vec::Vec;

use super::passage::{End, Evaluator, HostEndpoint, PassageVerdict, Settings, Stage, judge};
use super::step::{Encapsulation, Step, Verdict};
use crate::calc::event::EndpointId;
use crate::flow::{ConnState, Decision, EndpointToHost, Flow, Passage, Place};
use crate::net::WORKLOAD_DISCOVERY;
use crate::resource::{PolicyType, ResourceKey};
use crate::spec;

/// A packet on its way.
pub(super) struct Way<'e, 'p, E> {
    evaluator: &'e mut E,
    settings: &'p Settings,
    passage: &'p Passage<'p>,
    /// Whether policy before NAT allowed it: no other of that side of the host has a say.
    allowed: bool,
    ends: Vec<End>,
}

/// Whose policy is asked, and which.
type Asked = (Option<EndpointId>, PolicyType, Stage);

/// Each part answers whether the packet goes on.
impl<'e, 'p, 'a, E: Evaluator<'a>> Way<'e, 'p, E> {
    pub(super) const fn new(evaluator: &'e mut E, settings: &'p Settings, passage: &'p Passage<'p>) -> Self {
        Self { evaluator, settings, passage, allowed: false, ends: Vec::new() }
    }

    pub(super) fn go(mut self) -> PassageVerdict {
        let decision = if self.all() { Decision::Allow } else { Decision::Deny };
        PassageVerdict { decision, ends: self.ends }
    }

    fn all(&mut self) -> bool {
        let Passage { from, to, .. } = *self.passage;
        if let Some(end) = self.neighbor_discovery() {
            return self.told(end, allowed(Step::NeighborDiscovery));
        }
        if !self.is_known(from, PolicyType::Egress) || !self.is_known(to, PolicyType::Ingress) {
            return false;
        }
        if self.is_spoofed() {
            return self.told(self.inward(Stage::Workload), denied(Step::Spoofed));
        }
        let untracked = if from == Place::Host {
            self.host_endpoint(to, Stage::Untracked, PolicyType::Egress)
        } else {
            self.host_endpoint(from, Stage::Untracked, PolicyType::Ingress)
        };
        if !untracked {
            return false;
        }
        if !self.allowed
            && let Some(goes_on) = self.by_state()
        {
            return goes_on;
        }
        match (from, to) {
            (Place::Host, Place::Host) => true,
            (Place::Host, Place::Workload(_)) => self.told(self.outward(Stage::Workload), allowed(Step::FromOwnHost)),
            (Place::Host, Place::Interface(_)) => self.host_endpoint(to, Stage::Host, PolicyType::Egress),
            _ => {
                self.host_endpoint(from, Stage::PreDnat, PolicyType::Ingress)
                    && if to == Place::Host { self.reach_host(from) } else { self.forward(from, to) }
            }
        }
    }

    /// What is no end of this host: a workload that is not active, or an interface that is called like a workload's.
    fn is_known(&mut self, place: Place<'_>, direction: PolicyType) -> bool {
        let endpoint = match place {
            Place::Workload(key) if self.evaluator.workload(key).is_none() => Some(EndpointId(key.clone())),
            Place::Interface(name) if self.settings.host.is_workload(name) => None,
            _ => return true,
        };
        self.told((endpoint, direction, Stage::Workload), denied(Step::UnknownEndpoint))
    }

    /// Whether a workload's packet comes from an address that is none of its.
    fn is_spoofed(&self) -> bool {
        let Place::Workload(key) = self.passage.from else { return false };
        let source = self.passage.arriving.source;
        let Some(workload) = self.evaluator.workload(key) else { return false };
        let own = workload.endpoint.addresses.iter().any(|net| net.contains(source));
        let further = || workload.endpoint.allowed_sources.iter().any(|net| net.contains(source));
        !(own || self.settings.host.allow_spoofed_sources && further())
    }

    /// What connection tracking decides, said by whoever is policed.
    fn by_state(&mut self) -> Option<bool> {
        let step = match self.passage.state {
            ConnState::New => return None,
            ConnState::Invalid if !self.settings.host.drop_invalid => return None,
            ConnState::Established | ConnState::Related => Step::Established,
            ConnState::Invalid => Step::Invalid,
        };
        let policed = self.policed();
        if step == Step::Invalid {
            return policed.into_iter().next().map(|end| self.told(end, denied(Step::Invalid)));
        }
        policed.into_iter().for_each(|end| {
            self.told(end, allowed(Step::Established));
        });
        Some(true)
    }

    /// Ends that are under policy. The host reaches its own workloads whatever they are.
    fn policed(&self) -> Vec<Asked> {
        let Passage { from, to, .. } = *self.passage;
        let stage = if from == Place::Host || to == Place::Host { Stage::Host } else { Stage::Forward };
        let inward = from != Place::Host;
        let outward = to != Place::Host && !(from == Place::Host && matches!(to, Place::Workload(_)));
        let ends = [inward.then(|| self.inward(stage)), outward.then(|| self.outward(stage))];
        ends.into_iter().flatten().filter(|(endpoint, ..)| endpoint.is_some()).collect()
    }

    /// The end that a packet comes from.
    fn inward(&self, stage: Stage) -> Asked {
        match self.passage.from {
            Place::Workload(key) => (Some(EndpointId(key.clone())), PolicyType::Egress, Stage::Workload),
            from => (self.owner(from).map(|found| found.id.clone()), PolicyType::Ingress, stage),
        }
    }

    /// The end that a packet goes to.
    fn outward(&self, stage: Stage) -> Asked {
        match self.passage.to {
            Place::Workload(key) => (Some(EndpointId(key.clone())), PolicyType::Ingress, Stage::Workload),
            to => (self.owner(to).map(|found| found.id.clone()), PolicyType::Egress, stage),
        }
    }

    fn reach_host(&mut self, from: Place<'_>) -> bool {
        match from {
            Place::Workload(key) => self.leave_workload(key) && self.endpoint_to_host(),
            _ => self.host_endpoint(from, Stage::Host, PolicyType::Ingress),
        }
    }

    fn forward(&mut self, from: Place<'_>, to: Place<'_>) -> bool {
        let inward = match from {
            Place::Workload(key) => self.leave_workload(key),
            _ => self.host_endpoint(from, Stage::Forward, PolicyType::Ingress),
        };
        inward
            && match to {
                Place::Workload(key) => self.reach_workload(key),
                _ => self.host_endpoint(to, Stage::Forward, PolicyType::Egress),
            }
            && self.is_no_service_loop()
    }

    fn leave_workload(&mut self, key: &ResourceKey) -> bool {
        let Some(workload) = self.evaluator.workload(key) else { return false };
        let verdict = match encapsulation(&self.passage.flow, &self.settings.host) {
            Some(encapsulation) => denied(Step::Encapsulated(encapsulation)),
            None => judge(self.evaluator, Some(workload.egress), PolicyType::Egress, &self.passage.flow),
        };
        self.told(self.inward(Stage::Workload), verdict)
    }

    fn reach_workload(&mut self, key: &ResourceKey) -> bool {
        let Some(workload) = self.evaluator.workload(key) else { return false };
        let verdict = judge(self.evaluator, Some(workload.ingress), PolicyType::Ingress, &self.passage.flow);
        self.told(self.outward(Stage::Workload), verdict)
    }

    /// Said by the workload's egress, which comes to its end here.
    fn endpoint_to_host(&mut self) -> bool {
        let action = self.settings.host.endpoint_to_host;
        let drops = action == EndpointToHost::Drop;
        if let Some(end) = self.ends.last_mut() {
            end.verdict.steps.push(Step::EndpointToHost(action));
            end.verdict.decision = if drops { Decision::Deny } else { Decision::Allow };
        }
        !drops
    }

    /// What a host endpoint says, if there is one and it is to be asked.
    fn host_endpoint(&mut self, place: Place<'_>, stage: Stage, direction: PolicyType) -> bool {
        let Some(HostEndpoint { id, stacks }) = self.owner(place) else { return true };
        let Some(stack) = stacks.stack(stage, direction) else { return true };
        // Without policy only traffic of the host itself is denied.
        if stage != Stage::Host && !self.evaluator.has_tiers(stack) {
            return true;
        }
        let flow = match stage {
            Stage::Untracked | Stage::PreDnat => self.passage.arriving,
            _ => self.passage.flow,
        };
        let verdict = match self.unpoliced(stage, direction, &flow) {
            Some(step) => allowed(step),
            None if stage == Stage::Host => judge(self.evaluator, Some(stack), direction, &flow),
            None => self.ask(stack, stage, direction, &flow),
        };
        self.told((Some(id.clone()), direction, stage), verdict)
    }

    /// Policy that need not decide.
    fn ask(&mut self, stack: E::Stack, stage: Stage, direction: PolicyType, flow: &Flow) -> Verdict {
        let mut steps = Vec::new();
        let decided = self.evaluator.walk(stack, direction, flow, &mut steps);
        if stage != Stage::Forward {
            self.allowed |= decided == Some(Decision::Allow);
        }
        let decision = decided.unwrap_or_else(|| {
            steps.push(Step::EndOfPolicies);
            Decision::Allow
        });
        Verdict { decision, steps }
    }

    /// The host endpoint that has an interface. Loopback is no way to anybody, so that of all other interfaces has it not.
    fn owner(&self, place: Place<'_>) -> Option<HostEndpoint<'a, E::Stack>> {
        let Place::Interface(name) = place else { return None };
        let others = || self.evaluator.host_endpoint(None).filter(|_| name.as_str() != "lo");
        self.evaluator.host_endpoint(Some(name)).or_else(others)
    }

    /// Why policy of a host endpoint need not be asked.
    fn unpoliced(&self, stage: Stage, direction: PolicyType, flow: &Flow) -> Option<Step> {
        let failsafes = &self.settings.failsafes;
        let answer = stage == Stage::Untracked && failsafes.admits_reply(direction, flow);
        let goes_out = stage == Stage::Forward && direction == PolicyType::Egress;
        if self.allowed && !goes_out {
            return Some(Step::AllowedBefore);
        }
        let open = answer || stage != Stage::Forward && failsafes.admits(direction, flow);
        open.then_some(Step::Failsafe)
    }

    fn is_no_service_loop(&mut self) -> bool {
        let to = self.passage.flow.destination;
        let is_service = || self.evaluator.network().services.iter().any(|net| net.contains(to));
        if !self.settings.host.prevent_service_loops || !is_service() {
            return true;
        }
        self.told((None, PolicyType::Ingress, Stage::Forwarding), denied(Step::ServiceLoop))
    }

    /// The workload whose host hears it in any case, even if it is unknown.
    fn neighbor_discovery(&self) -> Option<Asked> {
        let Passage { from, to, flow, .. } = *self.passage;
        let endpoint = match from {
            Place::Workload(key) => Some(EndpointId(key.clone())),
            Place::Interface(name) if self.settings.host.is_workload(name) => None,
            _ => return None,
        };
        (is_neighbor_discovery(&flow) && to == Place::Host).then_some((endpoint, PolicyType::Egress, Stage::Workload))
    }

    fn told(&mut self, (endpoint, direction, stage): Asked, verdict: Verdict) -> bool {
        let goes_on = verdict.decision == Decision::Allow;
        self.ends.push(End { endpoint, direction, stage, verdict });
        goes_on
    }
}

/// What a workload may say to its host whatever its policy.
pub(super) fn is_neighbor_discovery(flow: &Flow) -> bool {
    flow.is_icmpv6(&WORKLOAD_DISCOVERY)
}

/// What a workload must not send.
pub(super) const fn encapsulation(flow: &Flow, settings: &spec::Settings) -> Option<Encapsulation> {
    match flow.protocol {
        UDP if flow.destination_port == settings.vxlan_port && !settings.allow_vxlan_from_workloads => {
            Some(Encapsulation::Vxlan)
        }
        IPIP if !settings.allow_ipip_from_workloads => Some(Encapsulation::IpIp),
        _ => None,
    }
}

fn allowed(step: Step) -> Verdict {
    Verdict { decision: Decision::Allow, steps: vec![step] }
}

pub(super) fn denied(step: Step) -> Verdict {
    Verdict { decision: Decision::Deny, steps: vec![step] }
}

const UDP: u8 = 17;
const IPIP: u8 = 4;
