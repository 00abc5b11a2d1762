//! Questions about a packet's way through one host and their answers, and what both evaluators must know to answer them.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::step::{Step, Verdict};
use super::way::{Way, denied};
use crate::calc::event::{ActiveEndpoint, ActiveHostEndpoint, Directions, EndpointId, Network, Stack};
use crate::flow::{Decision, Flow, Passage};
use crate::net::{Failsafes, InterfaceName};
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

impl Stage {
    /// The stack of a host endpoint that is asked here; none where it has none.
    pub fn stack_of(self, endpoint: &ActiveHostEndpoint, direction: PolicyType) -> Option<&Arc<Stack>> {
        HostStacks::of(endpoint, |stack| stack).stack(self, direction)
    }
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

    pub(super) fn all(self) -> [S; 7] {
        let Self { untracked: [a, b], pre_dnat, normal: [c, d], forward: [e, f] } = self;
        [a, b, pre_dnat, c, d, e, f]
    }

    pub(super) fn stack(&self, stage: Stage, direction: PolicyType) -> Option<S> {
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
    Way::new(evaluator, settings, passage).go()
}
