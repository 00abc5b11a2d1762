//! Whether one rule matches one flow.

use alloc::string::String;
use core::net::IpAddr;

use super::Cluster;
use crate::flow::Flow;
use crate::member::{Member, SERVICE_ACCOUNT};
use crate::net::{Cidr, Family, Port, Protocol};
use crate::resource::{
    Action, EntityRule, GlobalNetworkPolicySpec, Icmp, NAMESPACE_LABEL, NetworkPolicySpec, Rule, ServiceAccountMatch,
};
use crate::selector::Selector;

/// TCP, UDP, SCTP: the protocols whose ports rules can name.
const WITH_PORTS: [u8; 3] = [6, 17, 132];

/// A rule, and the flow that it is asked about.
pub(super) struct Question<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) rule: &'a Rule,
    /// The policy's; empty where it has none.
    pub(super) namespace: &'a str,
    pub(super) flow: &'a Flow,
}

/// One side of a rule, and what of the flow it is about.
struct Side<'a> {
    entity: &'a EntityRule,
    address: IpAddr,
    port: u16,
    /// Of a destination the ports behind a service count as well.
    is_destination: bool,
    peers: Result<Peers, Unusable>,
    /// Name and namespace.
    service: Result<Option<(&'a str, &'a str)>, Unusable>,
}

/// Whose address it may be.
#[derive(Clone, Default)]
struct Peers {
    wanted: Option<Selector>,
    /// Only where none are wanted: it then also matches addresses that belong to nobody.
    unwanted: Option<Selector>,
}

#[derive(Clone, Copy)]
struct Unusable;

impl<'a> Question<'a> {
    /// What the rule does about the flow, if it matches.
    ///
    /// Of a rule that is not whole only so much is known: it meant part of what its other conditions match. A Deny denies all of
    /// that, and so does a Pass, which would have kept that part from a later Allow of its tier. Any other rule is left out.
    pub(super) fn action(&self) -> Option<Action> {
        let sides = [self.side(false), self.side(true)];
        let whole = self.is_whole() && sides.iter().all(|side| side.peers.is_ok() && side.service.is_ok());
        let action = match self.rule.action {
            action if whole => action,
            Action::Deny | Action::Pass => Action::Deny,
            Action::Allow | Action::Log => return None,
        };
        let matches = self.header_matches() && sides.iter().all(|side| self.side_matches(side, whole));
        matches.then_some(action)
    }

    fn side(&self, is_destination: bool) -> Side<'a> {
        let (entity, address, port) = match is_destination {
            false => (&self.rule.source, self.flow.source, self.flow.source_port),
            true => (&self.rule.destination, self.flow.destination, self.flow.destination_port),
        };
        let peers = peers(entity, self.namespace);
        Side { entity, address, port, is_destination, peers, service: self.service(entity, is_destination) }
    }

    /// Without a namespace it is the policy's own; a policy of the cluster has none. The ports to a service are the service's: others beside
    /// them contradict.
    fn service(&self, entity: &'a EntityRule, is_destination: bool) -> Result<Option<(&'a str, &'a str)>, Unusable> {
        let Some(service) = &entity.services else { return Ok(None) };
        let namespace = if service.namespace.is_empty() { self.namespace } else { &service.namespace };
        let contradicts = is_destination && !entity.ports.is_empty();
        let is_unknown = service.name.is_empty() || namespace.is_empty() || self.cluster.slices.is_none();
        if contradicts || is_unknown { Err(Unusable) } else { Ok(Some((&service.name, namespace))) }
    }

    /// Whether every condition on the flow as a whole can be carried out.
    fn is_whole(&self) -> bool {
        let rule = self.rule;
        let known = |icmp: &Icmp| icmp.icmp_type.is_some() || icmp.code.is_none();
        rule.unread.is_none()
            && rule.http.is_none()
            && matches!(rule.ip_version, None | Some(4 | 6))
            && rule.icmp.iter().chain(&rule.not_icmp).all(known)
    }

    /// Whether all conditions on the flow as a whole hold that can be carried out.
    fn header_matches(&self) -> bool {
        let Self { rule, flow, .. } = self;
        let [protocol, not_protocol] = [rule.protocol, rule.not_protocol].map(|one| one.map(Protocol::number));
        protocol.is_none_or(|protocol| protocol == flow.protocol)
            && not_protocol.is_none_or(|protocol| protocol != flow.protocol)
            && self.family_matches()
            && self.port_numbers_apply()
            && rule.icmp.is_none_or(|icmp| icmp_matches(icmp, flow, false))
            && rule.not_icmp.is_none_or(|icmp| icmp_matches(icmp, flow, true))
    }

    /// The given version, or that which the protocol's name implies.
    fn family_matches(&self) -> bool {
        let implied = match self.rule.protocol.filter(|protocol| protocol.is_named()).map(Protocol::number) {
            Some(1) => Some(4),
            Some(58) => Some(6),
            _ => None,
        };
        let version = if self.flow.family() == Family::V4 { 4 } else { 6 };
        // One that there is not is no condition that could be carried out.
        self.rule.ip_version.or(implied).is_none_or(|given| given == version || !matches!(given, 4 | 6))
    }

    /// Port numbers, wanted or unwanted, mean a protocol that has ports.
    fn port_numbers_apply(&self) -> bool {
        let Rule { source, destination, .. } = self.rule;
        let lists = [&source.ports, &source.not_ports, &destination.ports, &destination.not_ports];
        let is_number = |port: &Port| matches!(port, Port::Range(_));
        WITH_PORTS.contains(&self.flow.protocol) || !lists.into_iter().flatten().any(is_number)
    }

    /// Whether all conditions on one side hold that can be carried out.
    fn side_matches(&self, side: &Side<'_>, whole: bool) -> bool {
        let Peers { wanted, unwanted } = side.peers.clone().unwrap_or_default();
        let is_one_of = |selector: &Selector| self.holders(side.address, Some(selector)).next().is_some();
        nets_match(side.entity, side.address)
            && side.service.unwrap_or_default().is_none_or(|service| self.is_behind(side, service))
            && wanted.as_ref().is_none_or(is_one_of)
            && !unwanted.as_ref().is_some_and(is_one_of)
            && self.ports_match(side, whole, wanted.as_ref())
    }

    /// An exception by port names reaches as far as the conditions beside it, so it goes with any that is lost.
    fn ports_match(&self, side: &Side<'_>, whole: bool, wanted: Option<&Selector>) -> bool {
        let is_called = |holder: &Member, name: &str| {
            let is_it = |port: &(String, u8, u16)| (&*port.0, port.1, port.2) == (name, self.flow.protocol, side.port);
            WITH_PORTS.contains(&self.flow.protocol) && holder.ports.iter().any(is_it)
        };
        let listed = |entry: &Port| match entry {
            Port::Range(range) => range.contains(side.port),
            Port::Named(name) => self.holders(side.address, wanted).any(|holder| is_called(holder, name)),
        };
        let EntityRule { ports, not_ports, .. } = side.entity;
        let excepted = |entry: &Port| (whole || matches!(entry, Port::Range(_))) && listed(entry);
        (ports.is_empty() || ports.iter().any(listed)) && !not_ports.iter().any(excepted)
    }

    /// Endpoints and network sets that have this address, of those that the selector selects.
    fn holders(&self, address: IpAddr, selector: Option<&Selector>) -> impl Iterator<Item = &'a Member> {
        let has_address = move |member: &&Member| member.nets.iter().any(|net| net.contains(address));
        let cluster = self.cluster;
        let is_selected = move |member: &&Member| selector.is_none_or(|selector| cluster.selects(selector, member));
        cluster.members().filter(has_address).filter(is_selected)
    }

    /// Whether the address stands behind the service; as a destination, with the port.
    fn is_behind(&self, side: &Side<'_>, (name, namespace): (&str, &str)) -> bool {
        let to = (self.flow.protocol, side.port);
        self.cluster.slices.iter().flatten().any(|slice| {
            (&*slice.service, &*slice.namespace) == (name, namespace)
                && slice.addresses.contains(&side.address)
                && (!side.is_destination || slice.ports.contains(&to))
        })
    }
}

fn icmp_matches(icmp: Icmp, flow: &Flow, negated: bool) -> bool {
    let Some(icmp_type) = icmp.icmp_type else { return true };
    let protocol = if flow.family() == Family::V4 { 1 } else { 58 };
    let same = |(found_type, found_code)| found_type == icmp_type && icmp.code.is_none_or(|code| code == found_code);
    flow.protocol == protocol && flow.icmp.is_some_and(|found| same(found) != negated)
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

/// A selector, if any is given.
fn parse(text: &str) -> Result<Option<Selector>, Unusable> {
    if text.is_empty() { Ok(None) } else { Selector::parse(text).map(Some).map_err(|_| Unusable) }
}

fn both(a: Option<Selector>, b: Option<Selector>) -> Option<Selector> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.and(&b)),
        (a, b) => a.or(b),
    }
}

fn peers(entity: &EntityRule, namespace: &str) -> Result<Peers, Unusable> {
    let own = both(service_accounts(entity.service_accounts.as_ref())?, parse(&entity.selector)?);
    let negative = parse(&entity.not_selector)?;
    let namespaces = match parse(&entity.namespace_selector)? {
        Some(selector) => Some(within_namespaces(&selector)),
        None if namespace.is_empty() || (own.is_none() && negative.is_none()) => None,
        None => Some(Selector::equal(NAMESPACE_LABEL, namespace)),
    };
    Ok(match (both(namespaces, own), negative) {
        (Some(positive), Some(negative)) => Peers { wanted: Some(positive.and(&negative.negated())), unwanted: None },
        (wanted, unwanted) => Peers { wanted, unwanted },
    })
}

/// A condition on namespaces as one on endpoints: `all()` is whatever has a namespace, `global()` whatever has none.
fn within_namespaces(selector: &Selector) -> Selector {
    let namespaced = Selector::has(NAMESPACE_LABEL);
    selector.with_prefix("pcns.").replace_all(&namespaced).replace_global(&namespaced.negated())
}

fn service_accounts(accounts: Option<&ServiceAccountMatch>) -> Result<Option<Selector>, Unusable> {
    let Some(ServiceAccountMatch { names, selector }) = accounts else { return Ok(None) };
    let selector = parse(selector)?.map(|selector| selector.with_prefix("pcsa."));
    let named = (!names.is_empty()).then(|| Selector::any_of(SERVICE_ACCOUNT, names.iter().map(String::as_str)));
    Ok(both(selector, named))
}

/// The endpoints that a policy applies to; none where a selector does not parse.
pub(super) fn policy_selector(spec: &NetworkPolicySpec, namespace: &str) -> Option<Selector> {
    let accounts = parse(&spec.service_account_selector).ok()?.map(|selector| selector.with_prefix("pcsa."));
    let own = both(parse(&spec.selector).ok()?, Some(Selector::equal(NAMESPACE_LABEL, namespace)));
    both(own, accounts)
}

/// A further condition stands alone where no selector is given; where one is, each `all()` in it comes to mean what the
/// condition is about (as upstream's text replacement does).
pub(super) fn global_policy_selector(spec: &GlobalNetworkPolicySpec) -> Option<Selector> {
    let mut selector = parse(&spec.selector).ok()?;
    let further = [
        (&spec.namespace_selector, "pcns.", NAMESPACE_LABEL),
        (&spec.service_account_selector, "pcsa.", SERVICE_ACCOUNT),
    ];
    for (text, prefix, label) in further {
        let Some(condition) = parse(text).ok()?.map(|selector| selector.with_prefix(prefix)) else { continue };
        selector = both(selector, Some(condition)).map(|selector| selector.replace_all(&Selector::has(label)));
    }
    Some(selector.unwrap_or_else(Selector::all))
}
