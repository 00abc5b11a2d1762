//! Whether a received path may be used, and as what: loops (RFC 4271 section 9.1.2, RFC 4456 section 8), next hops, leaks (RFC 9234), and the
//! peer's filters.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use calico_core::bgp::{FilterRule, LocalSpeaker, Role, RouteDirection, first_match};
use calico_core::net::{AsNumber, Cidr, Family};

use super::intern::{Interner, PathSet};
use super::peer::RibPeer;
use super::policy::{apply, large_communities, view};
use crate::wire::{NextHop, PeerType};

/// Why a path is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// There is no speaker to compare with.
    #[error("this node has no BGP address yet")]
    NoSpeaker,
    /// The path does not begin with the peer's system (RFC 4271 section 6.3).
    #[error("its AS path does not begin with the peer's AS")]
    ForeignPath,
    /// The path has passed here.
    #[error("AS {0} of this speaker is in its AS path")]
    OwnAs(AsNumber),
    /// The route was originated here.
    #[error("this speaker is its ORIGINATOR_ID")]
    OwnOriginator,
    /// The route was reflected here.
    #[error("this cluster is in its CLUSTER_LIST")]
    OwnCluster,
    /// Nothing can be sent there.
    #[error("its next hop {0} leads nowhere")]
    NextHop(NextHop),
    /// No packet to there may leave a host.
    #[error("{0} is no prefix to route: it is of loopback, multicast or link-local scope")]
    Bogus(Cidr),
    /// It was to go to customers only (RFC 9234 section 5).
    #[error("it is a leak: AS {0} said that it may go to customers only")]
    Leak(AsNumber),
    /// A filter says so.
    #[error("rule {rule} of filter {filter} rejects it")]
    Filter {
        /// Name.
        filter: Arc<str>,
        /// Place of the rule among those of the direction and the family, from zero.
        rule: usize,
    },
}

/// Judges what a peer sends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Importer<'a> {
    pub(crate) local: Option<&'a LocalSpeaker>,
    pub(crate) peer: &'a RibPeer,
}

impl<'a> Importer<'a> {
    /// What holds for every prefix with these attributes. The number is OTC's, to be added.
    pub(crate) fn screen(&self, set: &PathSet) -> Result<Option<AsNumber>, Refusal> {
        let local = self.local.ok_or(Refusal::NoSpeaker)?;
        let (settings, attributes) = (&self.peer.settings, &set.attributes);
        let is_external = self.peer.kind() == PeerType::External;
        // Route servers keep out of paths.
        let is_transparent = settings.role == Some(Role::RouteServerClient);
        if is_external && !is_transparent && attributes.as_path.first() != Some(settings.remote_as) {
            return Err(Refusal::ForeignPath);
        }
        let allowed = usize::try_from(settings.policy.own_as_allowed).unwrap_or(usize::MAX);
        let own = [settings.local_as, local.as_number];
        if let Some(own) = own.into_iter().find(|own| attributes.as_path.count(*own) > allowed) {
            return Err(Refusal::OwnAs(own));
        }
        if attributes.originator_id == Some(local.router_id) {
            return Err(Refusal::OwnOriginator);
        }
        if attributes.cluster_list.contains(&cluster_id(local)) || attributes.cluster_list.contains(&local.router_id) {
            return Err(Refusal::OwnCluster);
        }
        if !self.is_usable(local, set.next_hop) {
            return Err(Refusal::NextHop(set.next_hop));
        }
        self.leak(set)
    }

    /// RFC 9234 section 5, ingress.
    fn leak(&self, set: &PathSet) -> Result<Option<AsNumber>, Refusal> {
        let remote = self.peer.settings.remote_as;
        let role = self.peer.settings.role.filter(|_| self.peer.kind() == PeerType::External);
        match (role, set.attributes.extra.only_to_customer) {
            (Some(Role::Provider | Role::RouteServer), Some(system)) => Err(Refusal::Leak(system)),
            (Some(Role::Peer), Some(system)) if system != remote => Err(Refusal::Leak(system)),
            (Some(Role::Customer | Role::RouteServerClient | Role::Peer), None) => Ok(Some(remote)),
            _ => Ok(None),
        }
    }

    /// Whether traffic could go there at all. 240/4 may be in use; ourselves, loopback, multicast and nothing may not.
    fn is_usable(&self, local: &LocalSpeaker, next_hop: NextHop) -> bool {
        match forwarding_address(next_hop) {
            IpAddr::V4(address) => is_usable_v4(address) && Some(address) != local.ipv4,
            IpAddr::V6(address) => {
                let on_link = address.is_unicast_link_local() && self.peer.settings.id.interface.is_none();
                is_usable_v6(address) && !on_link && Some(address) != local.ipv6
            }
        }
    }

    /// The rule that lets a path in, if there is one.
    pub(crate) fn filter(
        &self,
        prefix: Cidr,
        set: &PathSet,
        large: &[[u32; 3]],
    ) -> Result<Option<&'a FilterRule>, Refusal> {
        if is_bogus(prefix) {
            return Err(Refusal::Bogus(prefix));
        }
        let route = view(prefix, &set.attributes, large, self.peer.kind(), true);
        match first_match(&self.peer.settings.policy.filters, RouteDirection::Import, &route) {
            Some((filter, rule, decision)) if !decision.accept => {
                Err(Refusal::Filter { filter: Arc::clone(&filter.name), rule })
            }
            found => Ok(found.map(|(_, _, rule)| rule)),
        }
    }
}

/// Paths with equal attributes, judged one after the other.
#[derive(Debug)]
pub(crate) struct ImportBatch<'a> {
    importer: Importer<'a>,
    /// None if no prefix can make it acceptable.
    screened: Option<Arc<PathSet>>,
    large: Vec<[u32; 3]>,
    /// What the last rule made of it.
    last: Option<(&'a FilterRule, Arc<PathSet>)>,
}

impl<'a> ImportBatch<'a> {
    pub(crate) fn new(importer: Importer<'a>, received: &Arc<PathSet>, sets: &mut Interner<PathSet>) -> Self {
        let screened = match importer.screen(received) {
            Ok(None) => Some(Arc::clone(received)),
            Ok(Some(system)) => {
                let mut set = PathSet::clone(received);
                set.attributes.extra.make_mut().only_to_customer = Some(system);
                Some(sets.intern(set))
            }
            Err(refusal) => {
                tracing::debug!(peer = %importer.peer.settings.id, %refusal, "BGP paths are not used");
                None
            }
        };
        let has_filters = !importer.peer.settings.policy.filters.is_empty();
        let large = screened.as_ref().filter(|_| has_filters).map(|set| large_communities(set)).unwrap_or_default();
        Self { importer, screened, large, last: None }
    }

    /// What the path to a prefix is used as.
    pub(crate) fn accept(&mut self, prefix: Cidr, sets: &mut Interner<PathSet>) -> Option<Arc<PathSet>> {
        let screened = self.screened.as_ref().filter(|_| !is_bogus(prefix))?;
        if self.importer.peer.settings.policy.filters.is_empty() {
            return Some(Arc::clone(screened));
        }
        let Some(rule) = self.importer.filter(prefix, screened, &self.large).ok()? else {
            return Some(Arc::clone(screened));
        };
        if let Some((_, made)) = self.last.as_ref().filter(|(last, _)| core::ptr::eq(*last, rule)) {
            return Some(Arc::clone(made));
        }
        let mut set = PathSet::clone(screened);
        apply(&rule.operations, &mut set.attributes);
        let made = sets.intern(set);
        self.last = Some((rule, Arc::clone(&made)));
        Some(made)
    }
}

/// Cluster of this speaker (RFC 4456 section 7).
pub(crate) fn cluster_id(local: &LocalSpeaker) -> Ipv4Addr {
    local.cluster_id.unwrap_or(local.router_id)
}

/// Where packets go. Peers without a global address repeat the link-local one, or leave the global one out.
pub(crate) const fn forwarding_address(next_hop: NextHop) -> IpAddr {
    match next_hop {
        NextHop::V6LinkLocal { global, link_local } if global.is_unspecified() || global.is_unicast_link_local() => {
            IpAddr::V6(link_local)
        }
        other => other.address(),
    }
}

/// Whether all of a prefix is of a scope that is never routed, as BIRD's `net_classify` has it. What merely covers such addresses is not.
fn is_bogus(prefix: Cidr) -> bool {
    match prefix.address() {
        IpAddr::V4(address) => match address.octets() {
            [0, ..] => prefix.length() >= 8,
            [127, ..] => prefix.length() >= 8,
            [first, ..] => first >= 224 && prefix.length() >= 3,
        },
        IpAddr::V6(address) => {
            let link_local = address.is_unicast_link_local() && prefix.length() >= 10;
            let multicast = address.is_multicast() && prefix.length() >= 8;
            let own = (address.is_loopback() || address.is_unspecified()) && prefix.length() == 128;
            link_local || multicast || own
        }
    }
}

fn is_usable_v4(address: Ipv4Addr) -> bool {
    let in_zero = address.octets().first() == Some(&0);
    !(in_zero || address.is_loopback() || address.is_multicast() || address == Ipv4Addr::BROADCAST)
}

fn is_usable_v6(address: Ipv6Addr) -> bool {
    let is_mapped = address.to_ipv4_mapped().is_some();
    !(is_mapped || address.is_unspecified() || address.is_loopback() || address.is_multicast())
}

/// Whether an address of that family may stand for prefixes of `family`.
pub(crate) fn fits(next_hop: NextHop, family: Family, extended: bool) -> bool {
    match (family, next_hop) {
        (Family::V4, NextHop::V4(_)) => true,
        (Family::V6, NextHop::V4(_)) => false,
        (Family::V4, NextHop::V6(_) | NextHop::V6LinkLocal { .. }) => extended,
        (Family::V6, NextHop::V6(_) | NextHop::V6LinkLocal { .. }) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_never_routed_is_bogus_and_what_covers_it_is_not() {
        let bogus = |text: &str| is_bogus(text.parse().unwrap());
        for prefix in ["127.0.0.0/8", "127.1.0.0/16", "224.0.0.0/4", "240.0.0.0/4", "255.255.255.255/32", "0.1.0.0/16"]
        {
            assert!(bogus(prefix), "{prefix}");
        }
        for prefix in ["fe80::/10", "fe80:1::/64", "ff02::/16", "::1/128", "::/128"] {
            assert!(bogus(prefix), "{prefix}");
        }
        for prefix in
            ["0.0.0.0/0", "96.0.0.0/3", "128.0.0.0/1", "192.0.0.0/2", "10.0.0.0/8", "::/0", "f000::/4", "2001:db8::/32"]
        {
            assert!(!bogus(prefix), "{prefix}");
        }
    }
}
