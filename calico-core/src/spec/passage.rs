//! What one host does with a packet: where policies of workloads and of hosts come together.
//!
//! A packet is looked at in this order, and what is said first holds:
//!
//! 1. **Workloads**: neighbour discovery reaches the host, whoever sends it; an unknown workload is cut off; a forged source is dropped.
//! 2. **Untracked** policy (`doNotTrack`) of the host endpoint that a packet comes in by, or that the host sends by; forwarded packets that go
//!    out meet none. It sees the packet as it arrives. What it allows belongs to no connection from then on, and no other policy of host endpoints
//!    of that side has a say. To and from fail-safe ports, answers as well, it has none.
//! 3. **Connections**: what belongs to a known one, or is related to one, passes. What can belong to none is dropped where any end is policed.
//! 4. **preDNAT** policy of the host endpoint that a packet comes in by, fail-safe ports excepted. What it allows, that side's other
//!    policies have no say about.
//! 5. Destination NAT. From here on policy sees the translated packet.
//! 6. **To the host**: normal policy of the host endpoint; of a workload its own egress policy, then the endpoint-to-host action. **From the host**:
//!    normal policy, once, also where the packet was translated; workloads of the host are always reached.
//!    **Through the host**: `applyOnForward` policy of the side it comes in by, the sending workload's egress policy, the receiving workload's ingress
//!    policy, `applyOnForward` policy of the side it goes out by; all must allow. What is then still on its way to a service goes in circles, and
//!    is dropped.
//!
//! A host endpoint has an interface by name, or by one of its expected addresses where it gives no name. Of several the first by name of the
//! object has it, however they came by it; that with `*` has what is left. An interface that is not there is nobody's by name (upstream
//! goes through the interfaces that there are): were a packet to come by one, it would be one of what is left. Without policy and profile it drops all traffic of the host itself, and
//! leaves forwarded traffic alone.
//!
//! Other than upstream, because it is what the words promise:
//!
//! | Matter | Upstream | Here |
//! |---|---|---|
//! | `*`, preDNAT and forward | sees packets of workload interfaces as well | interfaces of workloads are no host's, in any stage |
//! | `*`, preDNAT | also has interfaces whose own host endpoint has no preDNAT policy | an interface is one endpoint's |
//! | `*`, untracked | not carried out | carried out: a Deny that is ignored lets through |
//! | `*`, loopback | policed in both directions | `lo` is no way to anybody; who wants it policed names it |
//! | translated traffic of the host | the nftables form misses it (`ct status`) | judged once |

use super::{Cluster, Stage};
use crate::flow::{ConnState, Decision, EndpointToHost, Flow, Passage, Place};
use crate::member::Endpoint;
use crate::net::InterfaceName;
use crate::resource::{Kind, PolicyType};

/// An end of a passage with what is known of it.
#[derive(Debug, Clone, Copy)]
enum End<'a> {
    Workload(&'a Endpoint),
    /// With the host endpoint that has it.
    Interface(Option<&'a Endpoint>),
    Host,
}

impl Cluster {
    /// What a host does with a packet. That it is translated, and of which connection it is, are facts of the question.
    pub fn passage(&self, node: &str, passage: &Passage<'_>) -> Decision {
        if self.is_discovery_of_a_workload(passage) {
            return Decision::Allow;
        }
        let (Some(from), Some(to)) = (self.end(node, passage.from), self.end(node, passage.to)) else {
            return Decision::Deny;
        };
        if matches!(from, End::Workload(sender) if self.is_spoofed(sender, &passage.arriving)) {
            return Decision::Deny;
        }
        let first = match (from, to) {
            (End::Interface(hep), _) => hep.zip(Some(PolicyType::Ingress)),
            (End::Host, End::Interface(hep)) => hep.zip(Some(PolicyType::Egress)),
            _ => None,
        };
        let early = |(hep, direction)| self.judge_early(hep, Stage::Untracked, direction, &passage.arriving);
        match first.and_then(early) {
            Some(Decision::Deny) => Decision::Deny,
            Some(Decision::Allow) => self.route(from, to, &passage.flow, true),
            None => self.tracked(from, to, passage),
        }
    }

    /// Without it no workload finds its IPv6 gateway. Whose the interface is, the host does not ask.
    fn is_discovery_of_a_workload(&self, passage: &Passage<'_>) -> bool {
        let is_workload = |name| self.settings.is_workload(name);
        let workload = matches!(passage.from, Place::Workload(_))
            || matches!(passage.from, Place::Interface(name) if is_workload(name));
        workload && passage.to == Place::Host && is_neighbor_discovery(&passage.flow)
    }

    fn tracked(&self, from: End<'_>, to: End<'_>, passage: &Passage<'_>) -> Decision {
        match passage.state {
            ConnState::Established | ConnState::Related => return Decision::Allow,
            ConnState::Invalid if self.settings.drop_invalid && is_policed(from, to) => return Decision::Deny,
            ConnState::Invalid | ConnState::New => {}
        }
        let early = match from {
            End::Interface(Some(hep)) => self.judge_early(hep, Stage::PreDnat, PolicyType::Ingress, &passage.arriving),
            _ => None,
        };
        match early {
            Some(Decision::Deny) => Decision::Deny,
            allowed => self.route(from, to, &passage.flow, allowed.is_some()),
        }
    }

    /// `allowed`: a policy before has let it through that end of the host which host endpoints police first.
    fn route(&self, from: End<'_>, to: End<'_>, flow: &Flow, allowed: bool) -> Decision {
        match (from, to) {
            (End::Interface(Some(hep)), End::Host) if !allowed => self.judge_host(hep, PolicyType::Ingress, flow),
            (End::Host, End::Interface(Some(hep))) if !allowed => self.judge_host(hep, PolicyType::Egress, flow),
            (End::Workload(sender), End::Host) => match self.settings.endpoint_to_host {
                EndpointToHost::Drop => Decision::Deny,
                EndpointToHost::Return | EndpointToHost::Accept => self.workload_egress(sender, flow),
            },
            (_, End::Host) | (End::Host, _) => Decision::Allow,
            _ => self.forward(from, to, flow, allowed),
        }
    }

    fn forward(&self, from: End<'_>, to: End<'_>, flow: &Flow, allowed: bool) -> Decision {
        let inward = match from {
            End::Workload(sender) => Some(self.workload_egress(sender, flow)),
            End::Interface(Some(hep)) if !allowed => self.judge(hep, Stage::Forward, PolicyType::Ingress, flow),
            _ => None,
        };
        let outward = match to {
            End::Workload(receiver) => self.judge(receiver, Stage::Normal, PolicyType::Ingress, flow),
            End::Interface(Some(hep)) => self.judge(hep, Stage::Forward, PolicyType::Egress, flow),
            _ => None,
        };
        let circles =
            self.settings.prevent_service_loops && self.services.iter().any(|net| net.contains(flow.destination));
        let denied = circles || [inward, outward].contains(&Some(Decision::Deny));
        if denied { Decision::Deny } else { Decision::Allow }
    }

    /// Policies before all others. What they do not decide goes on, and so does what is to or from a fail-safe port.
    fn judge_early(&self, hep: &Endpoint, stage: Stage, direction: PolicyType, flow: &Flow) -> Option<Decision> {
        let answer = stage == Stage::Untracked && self.failsafes.admits_reply(direction, flow);
        let spared = answer || self.failsafes.admits(direction, flow);
        if spared { None } else { self.judge(hep, stage, direction, flow) }
    }

    fn judge_host(&self, hep: &Endpoint, direction: PolicyType, flow: &Flow) -> Decision {
        let spared = self.failsafes.admits(direction, flow).then_some(Decision::Allow);
        spared.or_else(|| self.judge(hep, Stage::Normal, direction, flow)).unwrap_or(Decision::Deny)
    }

    pub(super) fn workload_egress(&self, sender: &Endpoint, flow: &Flow) -> Decision {
        let settings = &self.settings;
        let vxlan = flow.protocol == UDP && flow.destination_port == settings.vxlan_port;
        let encapsulated = vxlan && !settings.allow_vxlan_from_workloads
            || flow.protocol == IPIP && !settings.allow_ipip_from_workloads;
        let judged = self.judge(sender, Stage::Normal, PolicyType::Egress, flow);
        judged.filter(|_| !encapsulated).unwrap_or(Decision::Deny)
    }

    pub(super) fn is_spoofed(&self, sender: &Endpoint, flow: &Flow) -> bool {
        let further = sender.further_sources.iter().filter(|_| self.settings.allow_spoofed_sources);
        !sender.member.nets.iter().chain(further).any(|net| net.contains(flow.source))
    }

    /// None for what is no end of this host: a workload of another, or an interface that is called like a workload's.
    fn end(&self, node: &str, place: Place<'_>) -> Option<End<'_>> {
        match place {
            Place::Workload(key) => self.workload(key).filter(|endpoint| endpoint.node == node).map(End::Workload),
            Place::Interface(name) if self.settings.is_workload(name) => None,
            Place::Interface(name) => Some(End::Interface(self.owner(node, name))),
            Place::Host => Some(End::Host),
        }
    }

    /// The host endpoint that has an interface.
    fn owner(&self, node: &str, interface: InterfaceName) -> Option<&Endpoint> {
        let known = self.interfaces.get(node);
        let found = known.and_then(|all| all.iter().find(|(name, _)| *name == interface));
        let addresses = found.map(|(_, addresses)| addresses.as_slice()).unwrap_or_default();
        let is_there = known.is_none() || found.is_some();
        let first = |claims: &dyn Fn(&Endpoint) -> bool| {
            let here = |hep: &&Endpoint| hep.key.kind() == Kind::HostEndpoint && hep.node == node && claims(hep);
            self.endpoints.iter().filter(here).min_by_key(|hep| &hep.key)
        };
        let own = first(&|hep| match hep.interface.as_str() {
            "" => hep.member.nets.iter().any(|net| addresses.contains(&net.address())),
            name => is_there && name == interface.as_str(),
        });
        own.or_else(|| first(&|hep| hep.interface == "*" && interface.as_str() != "lo"))
    }
}

/// Whether any end is under policy. The host reaches its own workloads whatever they are.
const fn is_policed(from: End<'_>, to: End<'_>) -> bool {
    match (from, to) {
        (End::Host, End::Workload(_)) => false,
        _ => !matches!(from, End::Host | End::Interface(None)) || !matches!(to, End::Host | End::Interface(None)),
    }
}

/// Upstream's list: multicast listeners, router and neighbour solicitation and advertisement. Written out here on purpose: whoever is compared
/// with this must not have it from the same constant.
const fn is_neighbor_discovery(flow: &Flow) -> bool {
    flow.protocol == 58 && matches!(flow.icmp, Some((130..=133 | 135 | 136, _)))
}

const IPIP: u8 = 4;
const UDP: u8 = 17;
