//! Endpoints of this host as the renderer sees them, and what of them cannot be carried out.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use super::abilities::Abilities;
use super::admit::{Endpoint, HostEndpoint};
use super::diagnostic::Problem;
use super::event::{ActiveEndpoint, Directions};
use crate::net::{Cidr, Dscp, Family};
use crate::resource::{HostPort, IpNat, QosControls, WorkloadEndpointSpec, nobodys};

/// The mark of a host's packets that leave the cluster.
const DSCP: &str = "qos.projectcalico.org/dscp";

/// A workload with its stacks.
pub(super) fn workload(
    endpoint: &Endpoint,
    stacks: Directions,
    abilities: Abilities,
    problems: &mut Vec<Problem>,
) -> Option<ActiveEndpoint> {
    let spec = &endpoint.object()?.spec;
    not_carried_out(spec, abilities, problems);
    if let Some(controls) = &spec.qos_controls {
        limits(controls, problems);
    }
    Some(ActiveEndpoint {
        interface: spec.interface_name?,
        mac: spec.mac,
        addresses: spec.addresses().collect(),
        allowed_sources: spec.allow_spoofed_source_prefixes.clone(),
        floating: if abilities.floating_addresses { floating(spec, problems) } else { Vec::new() },
        qos: spec.qos_controls.as_ref().map(|qos| Arc::new((**qos).clone())),
        ingress: stacks.ingress,
        egress: stacks.egress,
    })
}

/// What an endpoint asks of a host that does no such thing.
fn not_carried_out(spec: &WorkloadEndpointSpec, abilities: Abilities, problems: &mut Vec<Problem>) {
    let wants_bandwidth = spec
        .qos_controls
        .as_ref()
        .is_some_and(|controls| controls.ingress_bandwidth.or(controls.egress_bandwidth).is_some());
    let wishes = [
        (
            !spec.ip_nats.is_empty() && !abilities.floating_addresses,
            "ipNATs",
            "floating addresses are switched off on this host (FloatingIPs)",
        ),
        (
            !spec.allow_spoofed_source_prefixes.is_empty() && !abilities.spoofed_sources,
            "allowSpoofedSourcePrefixes",
            "they are switched off on this host (WorkloadSourceSpoofing)",
        ),
        (wants_bandwidth && !abilities.bandwidth, "limits on bandwidth (qosControls)", "this host has no such limits"),
    ];
    let asked = wishes.into_iter().filter(|(asked, ..)| *asked);
    problems.extend(asked.map(|(_, field, reason)| Problem::NotCarriedOut { field, reason }));
}

/// Limits that are none: of sizes that no manifest may have (those of bandwidth count as the nearest that there is), and beside which that
/// is missing what they limit.
fn limits(controls: &QosControls, problems: &mut Vec<Problem>) {
    let sizes = [
        ("ingressPacketRate", controls.ingress_packet_rate),
        ("egressPacketRate", controls.egress_packet_rate),
        ("ingressMaxConnections", controls.ingress_max_connections),
        ("egressMaxConnections", controls.egress_max_connections),
    ];
    let is_none = |value: i64| value <= 0 || value > u32::MAX.into();
    let none = sizes.into_iter().filter(|(_, value)| value.is_some_and(is_none));
    let none = none.map(|(field, _)| (field, "no limit can be of that size"));
    let alone = controls.without_effect();
    problems.extend(none.chain(alone).map(|(field, reason)| Problem::Limit { field, reason }));
}

/// Addresses of a host endpoint whose packets are marked when they leave the cluster (upstream's `qos.projectcalico.org/dscp`).
pub(super) fn marked(endpoint: &HostEndpoint, problems: &mut Vec<Problem>) -> Vec<(IpAddr, u8)> {
    let Some(object) = endpoint.object() else { return Vec::new() };
    let Some(text) = object.metadata.annotations.get(DSCP) else { return Vec::new() };
    let reason = match text.as_str().parse::<Dscp>() {
        Err(error) => error.to_string(),
        Ok(_) if object.spec.expected_ips.is_empty() => {
            String::from("its packets are told by its expectedIPs, and there are none")
        }
        Ok(mark) => {
            let addresses = object.spec.expected_ips.iter().map(|address| (address.to_canonical(), mark.value()));
            let mut marked: Vec<_> = addresses.collect();
            marked.sort_unstable();
            marked.dedup();
            return marked;
        }
    };
    problems.push(Problem::Dscp(reason));
    Vec::new()
}

/// Named ports that rules cannot know. The ports of a host endpoint are those of its expected addresses, and of no others that its interface
/// may have.
pub(super) fn unknown_ports(endpoint: &HostEndpoint) -> impl Iterator<Item = Problem> {
    let spec = endpoint.object().map(|object| &object.spec);
    let ports = spec.into_iter().flat_map(|spec| &spec.ports);
    let nowhere = spec.is_some_and(|spec| !spec.ports.is_empty() && spec.expected_ips.is_empty());
    let is_unknown = |port: &&HostPort| {
        port.name.is_empty() || port.port.is_none() || !port.protocol.is_some_and(|protocol| protocol.has_ports())
    };
    let unknown = ports.filter(is_unknown).map(|port| Problem::HostPort(port.name.clone()));
    unknown.chain(nowhere.then_some(Problem::PortsWithoutAddress))
}

/// Floating addresses that lead to one of the workload's own.
pub(super) fn floating_addresses(spec: &WorkloadEndpointSpec) -> Vec<(IpAddr, IpAddr)> {
    floating(spec, &mut Vec::new())
}

/// Floating addresses that lead to one of the workload's own, in order. Of two for one address outside the first counts.
fn floating(spec: &WorkloadEndpointSpec, problems: &mut Vec<Problem>) -> Vec<(IpAddr, IpAddr)> {
    let mut found: Vec<(IpAddr, IpAddr)> = Vec::new();
    for nat in &spec.ip_nats {
        let reason = match leads(spec, nat) {
            Ok((outside, _)) if found.iter().any(|(other, _)| *other == outside) => "it is given twice",
            Ok(pair) => {
                found.push(pair);
                continue;
            }
            Err(reason) => reason,
        };
        let (external, internal) = (nat.external_ip.clone(), nat.internal_ip.clone());
        problems.push(Problem::Floating { external, internal, reason });
    }
    found.sort_unstable();
    found
}

fn leads(spec: &WorkloadEndpointSpec, nat: &IpNat) -> Result<(IpAddr, IpAddr), &'static str> {
    let parse = |text: &str| text.parse::<Cidr>().ok().filter(Cidr::is_host).map(|net| net.address());
    let (Some(outside), Some(own)) = (parse(&nat.external_ip), parse(&nat.internal_ip)) else {
        return Err("an address cannot be read");
    };
    if Family::of(outside) != Family::of(own) {
        return Err("the addresses are not of one family");
    }
    if nobodys(outside).is_some() {
        return Err("it can be nobody's address");
    }
    if !spec.addresses().any(|net| net.address() == own) {
        return Err("the workload has no such address");
    }
    Ok((outside, own))
}
