//! Steps: what happened to a flow on its way to a verdict, in order, each of them one line of text.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use crate::calc::event::{Member, PolicyId, ProfileId, SetId};
use crate::flow::{Decision, EndpointToHost};
use crate::resource::{Action, DefaultAction, PolicyType};

/// A decision and the steps that led to it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "an answer and its reasons, and nothing else")]
pub struct Verdict {
    /// What happens.
    pub decision: Decision,
    /// Why, in order; not empty. The last step is the one that decided, but for staged rules behind it.
    pub steps: Vec<Step>,
}

/// One thing that concerned a flow. Rules that do not match leave none.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// A rule matched. Allow and Deny decide, Pass leaves the tier (of a profile: goes on with the next), Log goes on.
    Rule(RuleStep),
    /// A rule of a staged policy matched: what it would have done. It decides nothing.
    Staged(RuleStep),
    /// No rule of a tier decided.
    EndOfTier {
        /// The tier.
        tier: Arc<str>,
        /// What its end does. Pass, too, where all its policies are staged.
        action: DefaultAction,
    },
    /// No profile decided: denied.
    EndOfProfiles,
    /// No policy decided, and none had to: the packet goes on.
    EndOfPolicies,
    /// Of a known connection, or one of its making: policy sees only what begins.
    Established,
    /// Of no connection that could be: denied.
    Invalid,
    /// To or, before connection tracking, from a fail-safe port.
    Failsafe,
    /// The source address is not the workload's: denied.
    Spoofed,
    /// Workloads may not send such: denied.
    Encapsulated(Encapsulation),
    /// Neighbour discovery and the like between a workload and its host, which needs no policy.
    NeighborDiscovery,
    /// What happens to what a workload sends to its own host.
    EndpointToHost(EndpointToHost),
    /// A host reaches its own workloads whatever their policy.
    FromOwnHost,
    /// Policy that comes earlier (`doNotTrack` or `preDNAT`) allowed it, so this one is not asked.
    AllowedBefore,
    /// Forwarded to an address of a service, which nobody translated: denied, as it would go in circles.
    ServiceLoop,
    /// The endpoint is not active on this host: denied.
    UnknownEndpoint,
    /// A policy or profile of the stack is not active, so the events were incomplete: denied.
    UnknownReference(Owner),
}

/// Whose rules.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "rules are one's or the other's")]
pub enum Owner {
    /// A policy's.
    Policy {
        /// Its tier.
        tier: Arc<str>,
        /// The policy.
        policy: PolicyId,
    },
    /// A profile's.
    Profile(ProfileId),
}

/// A rule that matched.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "an answer, read by many")]
pub struct RuleStep {
    /// Whose.
    pub owner: Owner,
    /// Of which of its two lists.
    pub direction: PolicyType,
    /// Position in the active rules of that direction, from zero.
    pub rule: usize,
    /// What it does.
    pub action: Action,
    /// Which members of sets and lists held the flow's addresses; empty for a rule that asks for none.
    pub matched: Vec<Matched>,
}

/// What held one side of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "an answer, read by many")]
pub struct Matched {
    /// Which side.
    pub side: Side,
    /// The set; none for the rule's own list of prefixes.
    pub set: Option<SetId>,
    /// The prefix, or the address with protocol and port.
    pub member: Member,
}

/// A side of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a flow has two sides")]
pub enum Side {
    /// Source.
    Source,
    /// Destination.
    Destination,
}

/// Packets in packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "workloads are kept from these two")]
pub enum Encapsulation {
    /// VXLAN.
    Vxlan,
    /// IP-in-IP.
    IpIp,
}

/// All steps on one line.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.iter().enumerate().try_for_each(|(index, step)| {
            let before = if index == 0 { "" } else { "; " };
            write!(f, "{before}{step}")
        })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(step) => write!(f, "{} {step}", done(step.action)),
            Self::Staged(step) => write!(f, "would be {} {step}", done(step.action)),
            Self::EndOfTier { tier, action: DefaultAction::Pass } => write!(f, "passed on at the end of tier {tier}"),
            Self::EndOfTier { tier, .. } => write!(f, "denied at the end of tier {tier}"),
            Self::EndOfProfiles => f.write_str("denied: no profile allows it"),
            Self::EndOfPolicies => f.write_str("goes on: no policy decides it"),
            Self::Established => f.write_str("allowed: it belongs to an established connection"),
            Self::Invalid => f.write_str("denied: it belongs to no connection that could be"),
            Self::Failsafe => f.write_str("allowed: it is for a fail-safe port, or finds neighbours"),
            Self::Spoofed => f.write_str("denied: the source address is not the workload's"),
            Self::Encapsulated(Encapsulation::Vxlan) => f.write_str("denied: workloads may not send VXLAN"),
            Self::Encapsulated(Encapsulation::IpIp) => f.write_str("denied: workloads may not send IP-in-IP"),
            Self::NeighborDiscovery => f.write_str("allowed: neighbour discovery of a workload needs no policy"),
            Self::EndpointToHost(EndpointToHost::Drop) => f.write_str("denied: workloads may not reach their host"),
            Self::EndpointToHost(_) => f.write_str("goes on: workloads may reach their host"),
            Self::FromOwnHost => f.write_str("allowed: a host reaches its own workloads"),
            Self::AllowedBefore => f.write_str("goes on: earlier policy allowed it"),
            Self::ServiceLoop => f.write_str("denied: forwarded to an address of a service"),
            Self::UnknownEndpoint => f.write_str("denied: the endpoint is not active here"),
            Self::UnknownReference(owner) => write!(f, "denied: {owner} is not active"),
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy { tier, policy } => write!(f, "{} in tier {tier}", policy.0),
            Self::Profile(profile) => write!(f, "Profile({})", profile.0),
        }
    }
}

impl fmt::Display for RuleStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = match self.direction {
            PolicyType::Ingress => "ingress",
            PolicyType::Egress => "egress",
        };
        write!(f, "by {list} rule {} of {}", self.rule, self.owner)?;
        self.matched.iter().try_for_each(|matched| write!(f, ", {matched}"))
    }
}

impl fmt::Display for Matched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.side {
            Side::Source => "source",
            Side::Destination => "destination",
        };
        match self.member {
            Member::Net(net) => write!(f, "{side} in {net}")?,
            Member::AddrPort { address, protocol, port } => {
                write!(f, "{side} is {address} protocol {protocol} port {port}")?;
            }
        }
        self.set.map_or(Ok(()), |set| write!(f, " of set {set}"))
    }
}

const fn done(action: Action) -> &'static str {
    match action {
        Action::Allow => "allowed",
        Action::Deny => "denied",
        Action::Pass => "passed on",
        Action::Log => "logged",
    }
}
