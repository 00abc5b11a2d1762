//! Whether one rule matches one flow.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use super::Cluster;
use crate::flow::Flow;
use crate::net::{Cidr, Family, Port};
use crate::resource::{
    Action, EntityRule, GlobalNetworkPolicySpec, Icmp, NAMESPACE_LABEL, NetworkPolicySpec, Rule, ServiceAccountMatch,
    ServiceMatch,
};
use crate::selector::Selector;
use crate::service::EndpointSlice;

pub(super) const SERVICE_ACCOUNT: &str = "projectcalico.org/serviceaccount";

/// TCP, UDP, SCTP: the protocols whose ports rules can name.
const WITH_PORTS: [u8; 3] = [6, 17, 132];

/// What the rule does about the flow, if it matches.
///
/// Of a rule that is not whole only so much is known: it meant part of what its other conditions match. A Deny denies all of
/// that, and so does a Pass, which would have kept that part from a later Allow of its tier. Any other rule is left out.
pub(super) fn action(cluster: &Cluster, rule: &Rule, namespace: &str, flow: &Flow) -> Option<Action> {
    let whole = is_whole(cluster, rule, namespace);
    let action = match rule.action {
        action if whole => action,
        Action::Deny | Action::Pass => Action::Deny,
        Action::Allow | Action::Log => return None,
    };
    matches(cluster, rule, whole, namespace, flow).then_some(action)
}

/// Whether every condition can be carried out.
fn is_whole(cluster: &Cluster, rule: &Rule, namespace: &str) -> bool {
    let known = |icmp: Icmp| icmp.icmp_type.is_some() || icmp.code.is_none();
    rule.unread.is_none()
        && rule.http.is_none()
        && matches!(rule.ip_version, None | Some(4 | 6))
        && !contradicts_service(&rule.destination)
        && rule.icmp.is_none_or(known)
        && rule.not_icmp.is_none_or(known)
        && [&rule.source, &rule.destination]
            .into_iter()
            .all(|entity| service(cluster, entity, namespace).is_ok() && peer_selector(entity, namespace).is_ok())
}

/// Whether all conditions that can be carried out hold.
fn matches(cluster: &Cluster, rule: &Rule, whole: bool, namespace: &str, flow: &Flow) -> bool {
    let entity = |entity: &EntityRule, address: IpAddr, port: u16, service_port: Option<(u8, u16)>| {
        let lost = PeerSelector { positive: None, negative: None };
        let selector = peer_selector(entity, namespace).unwrap_or(lost);
        let contradicted = service_port.is_some() && contradicts_service(entity);
        let wanted_service = service(cluster, entity, namespace).unwrap_or(None).filter(|_| !contradicted);
        nets_match(entity, address)
            && wanted_service.is_none_or(|service| is_behind(cluster, service, address, service_port))
            && selector.positive.as_ref().is_none_or(|wanted| is_member(cluster, wanted, address))
            && !selector.negative.as_ref().is_some_and(|unwanted| is_member(cluster, unwanted, address))
            && ports_match(cluster, entity, whole, selector.positive.as_ref(), flow, address, port)
    };
    rule.protocol.is_none_or(|protocol| protocol.number() == flow.protocol)
        && rule.not_protocol.is_none_or(|protocol| protocol.number() != flow.protocol)
        && family_matches(rule, flow)
        && port_numbers_apply(rule, flow)
        && rule.icmp.is_none_or(|icmp| icmp_matches(icmp, flow, false))
        && rule.not_icmp.is_none_or(|icmp| icmp_matches(icmp, flow, true))
        && entity(&rule.source, flow.source, flow.source_port, None)
        && entity(
            &rule.destination,
            flow.destination,
            flow.destination_port,
            Some((flow.protocol, flow.destination_port)),
        )
}

/// The given version, or that which the protocol's name implies.
fn family_matches(rule: &Rule, flow: &Flow) -> bool {
    let implied = match rule.protocol {
        Some(protocol) if protocol.is_named() && protocol.number() == 1 => Some(4),
        Some(protocol) if protocol.is_named() && protocol.number() == 58 => Some(6),
        _ => None,
    };
    let version = match flow.family() {
        Family::V4 => 4,
        Family::V6 => 6,
    };
    match rule.ip_version {
        None | Some(4 | 6) => rule.ip_version.or(implied).is_none_or(|given| given == version),
        Some(_) => true,
    }
}

/// Port numbers, wanted or unwanted, mean a protocol that has ports.
fn port_numbers_apply(rule: &Rule, flow: &Flow) -> bool {
    let numbered = |ports: &[Port]| ports.iter().any(|port| matches!(port, Port::Range(_)));
    let lists = [&rule.source.ports, &rule.source.not_ports, &rule.destination.ports, &rule.destination.not_ports];
    WITH_PORTS.contains(&flow.protocol) || !lists.iter().any(|ports| numbered(ports))
}

fn icmp_matches(icmp: Icmp, flow: &Flow, negated: bool) -> bool {
    let Some(icmp_type) = icmp.icmp_type else { return true };
    let of_family = match flow.family() {
        Family::V4 => flow.protocol == 1,
        Family::V6 => flow.protocol == 58,
    };
    let same = |(found_type, found_code)| found_type == icmp_type && icmp.code.is_none_or(|code| code == found_code);
    of_family && flow.icmp.is_some_and(|found| same(found) != negated)
}

/// A list that holds nothing of the family takes the rule out of that family, whether it is a wanted or an unwanted one; an
/// unwanted list that holds all of the family does so anyway.
fn nets_match(entity: &EntityRule, address: IpAddr) -> bool {
    let of_family = |nets: &[Cidr]| nets.iter().any(|net| net.family() == Family::of(address));
    let inside = |nets: &[Cidr]| nets.iter().any(|net| net.contains(address));
    let wanted = entity.nets.is_empty() || inside(&entity.nets);
    let unwanted = !entity.not_nets.is_empty() && (!of_family(&entity.not_nets) || inside(&entity.not_nets));
    wanted && !unwanted
}

/// An exception by port names reaches as far as the conditions beside it, so it goes with any that is lost.
fn ports_match(
    cluster: &Cluster,
    entity: &EntityRule,
    whole: bool,
    selector: Option<&Selector>,
    flow: &Flow,
    address: IpAddr,
    port: u16,
) -> bool {
    let listed = |entry: &Port| match entry {
        Port::Range(range) => range.contains(port),
        Port::Named(name) => is_named_port(cluster, selector, name, flow, address, port),
    };
    let excepted = |entry: &Port| (whole || matches!(entry, Port::Range(_))) && listed(entry);
    (entity.ports.is_empty() || entity.ports.iter().any(listed)) && !entity.not_ports.iter().any(excepted)
}

/// Whether an endpoint that the selector selects has this address and calls this port so.
fn is_named_port(
    cluster: &Cluster,
    selector: Option<&Selector>,
    name: &str,
    flow: &Flow,
    address: IpAddr,
    port: u16,
) -> bool {
    cluster.members().any(|member| {
        member.nets.iter().any(|net| net.contains(address))
            && WITH_PORTS.contains(&flow.protocol)
            && member
                .ports
                .iter()
                .any(|(own, protocol, number)| (&**own, *protocol, *number) == (name, flow.protocol, port))
            && selector.is_none_or(|wanted| cluster.selects(wanted, member))
    })
}

/// Whether an endpoint or network set that the selector selects has this address.
fn is_member(cluster: &Cluster, selector: &Selector, address: IpAddr) -> bool {
    cluster
        .members()
        .any(|member| member.nets.iter().any(|net| net.contains(address)) && cluster.selects(selector, member))
}

/// Name and namespace of the service that is asked for. Without a namespace it is the policy's own; a policy of the cluster has none.
fn service<'a>(
    cluster: &Cluster,
    entity: &'a EntityRule,
    namespace: &'a str,
) -> Result<Option<(&'a str, &'a str)>, Unusable> {
    let Some(ServiceMatch { name, namespace: given }) = &entity.services else { return Ok(None) };
    let namespace = if given.is_empty() { namespace } else { given };
    let unusable = name.is_empty() || namespace.is_empty() || cluster.slices.is_none();
    if unusable { Err(Unusable) } else { Ok(Some((name, namespace))) }
}

/// The ports to a service are the service's: others beside them contradict.
const fn contradicts_service(destination: &EntityRule) -> bool {
    destination.services.is_some() && !destination.ports.is_empty()
}

/// Whether the address stands behind the service; as a destination, with the port.
fn is_behind(cluster: &Cluster, (name, namespace): (&str, &str), address: IpAddr, port: Option<(u8, u16)>) -> bool {
    let of_service = |slice: &&Arc<EndpointSlice>| &*slice.service == name && &*slice.namespace == namespace;
    cluster
        .slices
        .iter()
        .flatten()
        .filter(of_service)
        .any(|slice| slice.addresses.contains(&address) && port.is_none_or(|port| slice.ports.contains(&port)))
}

struct PeerSelector {
    positive: Option<Selector>,
    /// Only where there is no positive one: it then also matches addresses that belong to nobody.
    negative: Option<Selector>,
}

struct Unusable;

fn parse(text: &str) -> Result<Selector, Unusable> {
    Selector::parse(text).map_err(|_| Unusable)
}

fn both(a: Option<Selector>, b: Option<Selector>) -> Option<Selector> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.and(&b)),
        (a, b) => a.or(b),
    }
}

fn peer_selector(entity: &EntityRule, namespace: &str) -> Result<PeerSelector, Unusable> {
    let given = |text: &str| if text.is_empty() { Ok(None) } else { parse(text).map(Some) };
    let own = both(service_account_selector(entity.service_accounts.as_ref())?, given(&entity.selector)?);
    let negative = given(&entity.not_selector)?;
    let namespaces = match given(&entity.namespace_selector)? {
        Some(selector) => Some(within_namespaces(&selector)),
        None if namespace.is_empty() || (own.is_none() && negative.is_none()) => None,
        None => Some(Selector::equal(NAMESPACE_LABEL, namespace)),
    };
    Ok(match (both(namespaces, own), negative) {
        (Some(positive), Some(negative)) => {
            PeerSelector { positive: Some(positive.and(&negative.negated())), negative: None }
        }
        (positive, negative) => PeerSelector { positive, negative },
    })
}

/// A condition on namespaces as one on endpoints: `all()` is whatever has a namespace, `global()` whatever has none.
fn within_namespaces(selector: &Selector) -> Selector {
    let namespaced = Selector::has(NAMESPACE_LABEL);
    selector.with_prefix("pcns.").replace_all(&namespaced).replace_global(&namespaced.negated())
}

fn service_account_selector(accounts: Option<&ServiceAccountMatch>) -> Result<Option<Selector>, Unusable> {
    let Some(accounts) = accounts else { return Ok(None) };
    let selector =
        if accounts.selector.is_empty() { None } else { Some(parse(&accounts.selector)?.with_prefix("pcsa.")) };
    let names: Vec<&str> = accounts.names.iter().map(String::as_str).collect();
    let named = (!names.is_empty()).then(|| Selector::any_of(SERVICE_ACCOUNT, names));
    Ok(both(selector, named))
}

pub(super) fn policy_selector(spec: &NetworkPolicySpec, namespace: &str) -> Option<Selector> {
    let mut selector = parse(&spec.selector).ok()?.and(&Selector::equal(NAMESPACE_LABEL, namespace));
    if !spec.service_account_selector.is_empty() {
        selector = selector.and(&parse(&spec.service_account_selector).ok()?.with_prefix("pcsa."));
    }
    Some(selector)
}

/// A further condition stands alone where no selector is given; where one is, each `all()` in it comes to mean what the
/// condition is about (as upstream's text replacement does).
pub(super) fn global_policy_selector(spec: &GlobalNetworkPolicySpec) -> Option<Selector> {
    let mut selector = if spec.selector.is_empty() { None } else { Some(parse(&spec.selector).ok()?) };
    let further = [
        (&spec.namespace_selector, "pcns.", NAMESPACE_LABEL),
        (&spec.service_account_selector, "pcsa.", SERVICE_ACCOUNT),
    ];
    for (text, prefix, label) in further.into_iter().filter(|(text, ..)| !text.is_empty()) {
        let condition = parse(text).ok()?.with_prefix(prefix);
        selector = both(selector, Some(condition)).map(|selector| selector.replace_all(&Selector::has(label)));
    }
    Some(selector.unwrap_or_else(Selector::all))
}
