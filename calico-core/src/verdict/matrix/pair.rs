//! A connection's way from a row to a column: which policy is asked, in which order, and what is decided without any.
//!
//! It is the way of [`crate::verdict::way`] on both hosts, without what concerns single packets (known connections, forged sources): first
//! all that is asked where the connection begins, then all where it ends. Ends on one host are one passage, which meets no host endpoint.

use super::grid::End;
use super::scene::{Gates, Role};
use crate::flow::{Decision, EndpointToHost, Flow};
use crate::resource::PolicyType;
use crate::verdict::compiled::StackId;
use crate::verdict::passage::Settings;
use crate::verdict::way;

/// Whose policy is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gate {
    UntrackedOut,
    HostOut,
    WorkloadOut,
    ForwardOut,
    UntrackedIn,
    PreDnat,
    HostIn,
    ForwardIn,
    WorkloadIn,
}

/// How far a connection got.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pair {
    is_denied: bool,
    /// Policy before NAT allowed it: no other of that side of the host has a say.
    is_allowed: bool,
}

/// One question.
pub(super) struct Asked<'a> {
    pub(super) source: &'a End<'a>,
    pub(super) destination: &'a End<'a>,
    /// Of the host whose gate it is.
    pub(super) settings: &'a Settings,
    pub(super) flow: &'a Flow,
    /// What the gate's policy says; none when nothing decides.
    pub(super) decide: &'a dyn Fn() -> Option<Decision>,
}

impl Gate {
    /// Where a connection begins, in order.
    pub(super) const OUT: [Self; 4] = [Self::UntrackedOut, Self::HostOut, Self::WorkloadOut, Self::ForwardOut];
    /// Where it ends.
    pub(super) const IN: [Self; 5] =
        [Self::UntrackedIn, Self::PreDnat, Self::HostIn, Self::ForwardIn, Self::WorkloadIn];

    pub(super) const fn direction(self) -> PolicyType {
        match self {
            Self::UntrackedOut | Self::HostOut | Self::WorkloadOut | Self::ForwardOut => PolicyType::Egress,
            _ => PolicyType::Ingress,
        }
    }

    pub(super) const fn stack(self, gates: &Gates) -> Option<StackId> {
        match self {
            Self::UntrackedOut | Self::UntrackedIn => gates.untracked,
            Self::PreDnat => gates.pre_dnat,
            Self::HostOut | Self::HostIn => gates.host,
            Self::ForwardOut | Self::ForwardIn => gates.forward,
            Self::WorkloadOut | Self::WorkloadIn => gates.own,
        }
    }

    const fn is_workloads(self) -> bool {
        matches!(self, Self::WorkloadOut | Self::WorkloadIn)
    }
}

impl Pair {
    pub(super) fn pass(&mut self, gate: Gate, asked: &Asked<'_>) {
        // What stays on a host meets no host endpoint, and a host reaches its own workloads whatever their policy.
        let stays = is_on_one_host(asked.source, asked.destination);
        let is_hosts = stays && asked.source.alike.role == Role::Host;
        if self.is_denied || stays && !gate.is_workloads() || is_hosts {
            return;
        }
        self.is_denied = !self.goes_on(gate, asked);
    }

    fn goes_on(&mut self, gate: Gate, asked: &Asked<'_>) -> bool {
        let (failsafes, flow, direction) = (&asked.settings.failsafes, asked.flow, gate.direction());
        let is_open = || failsafes.admits(direction, flow);
        match gate {
            Gate::UntrackedOut | Gate::UntrackedIn => {
                failsafes.admits_reply(direction, flow) || is_open() || self.before_nat(asked)
            }
            Gate::PreDnat => self.is_allowed || is_open() || self.before_nat(asked),
            Gate::HostOut | Gate::HostIn => self.is_allowed || is_open() || (asked.decide)() == Some(Decision::Allow),
            Gate::ForwardOut => (asked.decide)() != Some(Decision::Deny),
            Gate::ForwardIn => self.is_allowed || (asked.decide)() != Some(Decision::Deny),
            Gate::WorkloadOut => {
                is_neighbor_discovery(asked)
                    || way::encapsulation(flow, &asked.settings.host).is_none()
                        && (asked.decide)() == Some(Decision::Allow)
            }
            Gate::WorkloadIn => (asked.decide)() == Some(Decision::Allow),
        }
    }

    fn before_nat(&mut self, asked: &Asked<'_>) -> bool {
        let decided = (asked.decide)();
        self.is_allowed |= decided == Some(Decision::Allow);
        decided != Some(Decision::Deny)
    }

    /// The connection leaves one host for the other.
    pub(super) const fn arrive(&mut self) {
        self.is_allowed = false;
    }

    /// What needs no policy; settings are those of both ends.
    pub(super) fn ends_well(
        self,
        source: &End<'_>,
        destination: &End<'_>,
        [from, to]: [&Settings; 2],
        flow: &Flow,
    ) -> bool {
        let is = |end: &End<'_>, role| end.alike.role == role;
        let stays = is_on_one_host(source, destination);
        let reaches_host = stays && is(destination, Role::Host);
        if reaches_host && (is(source, Role::Workload) || is(source, Role::Unknown)) && way::is_neighbor_discovery(flow)
        {
            return true;
        }
        if self.is_denied || is(source, Role::Unknown) || is(destination, Role::Unknown) {
            return false;
        }
        if reaches_host && is(source, Role::Workload) {
            return from.host.endpoint_to_host != EndpointToHost::Drop;
        }
        let forwards = |end: &End<'_>, settings: &Settings| {
            is(end, Role::Workload) && end.alike.has_host && settings.host.prevent_service_loops
        };
        let is_hosts = stays && is(source, Role::Host);
        let is_looked_at = forwards(source, from) || !is_hosts && forwards(destination, to);
        !(destination.is_service && is_looked_at)
    }
}

fn is_neighbor_discovery(asked: &Asked<'_>) -> bool {
    is_on_one_host(asked.source, asked.destination)
        && asked.destination.alike.role == Role::Host
        && way::is_neighbor_discovery(asked.flow)
}

fn is_on_one_host(one: &End<'_>, other: &End<'_>) -> bool {
    one.alike.place.is_some() && one.alike.place == other.alike.place
}
