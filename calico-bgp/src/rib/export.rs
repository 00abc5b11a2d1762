//! What a peer may hear, and in which form (RFC 4271 sections 5 and 9.2, RFC 1997).

use core::net::{IpAddr, Ipv4Addr};

use calico_core::bgp::{Community, ExportPolicy, Exported, NORMAL_PRIORITY, PRIORITY_SUM};
use calico_core::net::{AsNumber, Cidr};

use super::{AttributeTable, Best, Path, Sent, Source};
use crate::session::peer_index::PeerIndex;
use crate::wire::attribute::{NO_ADVERTISE, NO_EXPORT, NO_EXPORT_SUBCONFED};
use crate::wire::{PathAttributes, PeerType};

/// LOCAL_PREF of what this node originates, as upstream sends it: 2147483647 less the route's priority, 1024 for ordinary
/// workloads. A node that a live migration moves a workload to announces a smaller priority and so wins.
pub(crate) const ORIGINATED_LOCAL_PREF: u32 = PRIORITY_SUM - NORMAL_PRIORITY;

/// Whom a route is exported to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExportTarget {
    pub(crate) peer: PeerIndex,
    pub(crate) kind: PeerType,
}

/// This speaker, as far as exports depend on it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exporter<'a> {
    pub(crate) as_number: AsNumber,
    pub(crate) address: Ipv4Addr,
    pub(crate) policy: &'a ExportPolicy,
}

impl Exporter<'_> {
    /// Whether a best path from there may go to a peer of that kind at all. Cheap: it spares a mesh of thousands the work of
    /// looking at routes that never leave this node.
    pub(crate) fn may_export(source: Source, to: PeerType) -> bool {
        match source {
            Source::Nothing => false,
            Source::Originated => true,
            // Full mesh: internal peers heard it from its originator (RFC 4271 section 9.2).
            Source::Peer(from) => !(from.kind == PeerType::Internal && to == PeerType::Internal),
        }
    }

    /// What a peer should hear; `None` when nothing.
    pub(crate) fn export(
        &self,
        prefix: Cidr,
        best: Best<'_>,
        to: ExportTarget,
        table: &mut AttributeTable,
    ) -> Option<Sent> {
        let communities = self.policy.communities(prefix);
        match best {
            Best::Originated => Some(self.originated(&communities, to, table)),
            Best::Path(path) => {
                let priority = PRIORITY_SUM.saturating_sub(path.local_pref());
                let route = Exported { prefix, origin: None, priority, reflector: false };
                self.policy.decide(&route).0.then(|| self.passed_on(path, &communities, to, table))?
            }
        }
    }

    fn originated(&self, communities: &[Community], to: ExportTarget, table: &mut AttributeTable) -> Sent {
        let mut attributes = PathAttributes::default();
        add(communities, &mut attributes);
        match to.kind {
            PeerType::Internal => attributes.local_pref = Some(ORIGINATED_LOCAL_PREF),
            PeerType::External => attributes.as_path = attributes.as_path.prepended(self.as_number),
        }
        Sent { attributes: table.intern(attributes), next_hop: self.address }
    }

    fn passed_on(
        &self,
        path: &Path,
        added: &[Community],
        to: ExportTarget,
        table: &mut AttributeTable,
    ) -> Option<Sent> {
        let communities = &path.attributes.communities;
        let split_horizon = path.source.index == to.peer;
        let allowed = Self::may_export(Source::Peer(path.source), to.kind) && !communities.contains(&NO_ADVERTISE);
        if split_horizon || !allowed {
            return None;
        }
        let IpAddr::V4(next_hop) = path.next_hop else {
            return None;
        };
        let mut attributes = PathAttributes::clone(&path.attributes);
        add(added, &mut attributes);
        // Not transitive, and asked for on no session of ours (RFC 7311 section 3.3).
        if attributes.extra.aigp.is_some() {
            attributes.extra.make_mut().aigp = None;
        }
        match to.kind {
            PeerType::Internal => {
                attributes.local_pref = Some(path.local_pref());
                // Unchanged, as BIRD does: internal peers resolve the external next hop themselves.
                Some(Sent { attributes: table.intern(attributes), next_hop })
            }
            PeerType::External => {
                if communities.contains(&NO_EXPORT) || communities.contains(&NO_EXPORT_SUBCONFED) {
                    return None;
                }
                attributes.as_path = attributes.as_path.prepended(self.as_number);
                (attributes.local_pref, attributes.med) = (None, None);
                (attributes.originator_id, attributes.cluster_list) = (None, Vec::new());
                Some(Sent { attributes: table.intern(attributes), next_hop: self.address })
            }
        }
    }
}

/// Those that are not there yet, in order.
fn add(communities: &[Community], attributes: &mut PathAttributes) {
    for community in communities {
        match community {
            Community::Standard(number) if !attributes.communities.contains(number) => {
                attributes.communities.push(*number);
            }
            Community::Standard(_) => {}
            Community::Large(numbers) => {
                let [first, second, third] = numbers.map(u32::to_be_bytes);
                let mut octets = [0; 12];
                octets.iter_mut().zip([first, second, third].concat()).for_each(|(to, from)| *to = from);
                let large = &mut attributes.extra.make_mut().large_communities;
                if let Err(place) = large.binary_search(&octets) {
                    large.insert(place, octets);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::rib::PathSource;

    fn us(policy: &ExportPolicy) -> Exporter<'_> {
        Exporter { as_number: AsNumber::new(64512), address: Ipv4Addr::new(10, 0, 0, 1), policy }
    }

    fn prefix() -> Cidr {
        "10.1.0.0/26".parse().unwrap()
    }

    fn from(kind: PeerType, attributes: PathAttributes) -> Path {
        let address = Ipv4Addr::new(10, 0, 0, 7);
        Path {
            source: PathSource { peer: IpAddr::V4(address).into(), index: PeerIndex(7), identifier: address, kind },
            next_hop: address.into(),
            attributes: Arc::new(attributes),
            life: 0,
        }
    }

    fn to(kind: PeerType) -> ExportTarget {
        ExportTarget { peer: PeerIndex(9), kind }
    }

    #[test]
    fn originated_routes_lead_to_us() {
        let mut table = AttributeTable::default();
        let internal = us(&ExportPolicy::default())
            .export(prefix(), Best::Originated, to(PeerType::Internal), &mut table)
            .unwrap();
        assert_eq!(internal.next_hop, us(&ExportPolicy::default()).address);
        assert_eq!(internal.attributes.local_pref, Some(2_147_482_623));
        assert!(internal.attributes.as_path.is_empty());
        let external = us(&ExportPolicy::default())
            .export(prefix(), Best::Originated, to(PeerType::External), &mut table)
            .unwrap();
        assert_eq!(external.attributes.local_pref, None);
        assert_eq!(external.attributes.as_path.systems(), [us(&ExportPolicy::default()).as_number]);
    }

    #[test]
    fn what_goes_where() {
        let mut table = AttributeTable::default();
        let mut exported =
            |path: &Path, kind| us(&ExportPolicy::default()).export(prefix(), Best::Path(path), to(kind), &mut table);
        let internal = from(PeerType::Internal, PathAttributes { med: Some(5), ..PathAttributes::default() });
        assert_eq!(exported(&internal, PeerType::Internal), None, "full mesh");
        let sent = exported(&internal, PeerType::External).unwrap();
        assert_eq!((sent.next_hop, sent.attributes.med), (us(&ExportPolicy::default()).address, None));
        let external = from(PeerType::External, PathAttributes::default());
        let sent = exported(&external, PeerType::Internal).unwrap();
        assert_eq!((IpAddr::V4(sent.next_hop), sent.attributes.local_pref), (external.next_hop, Some(100)));
        for (community, internally, externally) in
            [(NO_EXPORT, true, false), (NO_EXPORT_SUBCONFED, true, false), (NO_ADVERTISE, false, false)]
        {
            let path = from(PeerType::External, PathAttributes { communities: vec![community], ..Default::default() });
            assert_eq!(exported(&path, PeerType::Internal).is_some(), internally, "{community:x}");
            assert_eq!(exported(&path, PeerType::External).is_some(), externally, "{community:x}");
        }
    }

    #[test]
    fn the_accumulated_metric_goes_to_nobody() {
        let mut attributes = PathAttributes::default();
        attributes.extra.make_mut().aigp = Some(crate::wire::attribute::Aigp::new(7));
        let path = from(PeerType::External, attributes);
        let mut table = AttributeTable::default();
        for kind in [PeerType::Internal, PeerType::External] {
            let sent = us(&ExportPolicy::default()).export(prefix(), Best::Path(&path), to(kind), &mut table).unwrap();
            assert_eq!(sent.attributes.extra.aigp, None);
        }
    }

    #[test]
    fn nothing_goes_back_to_where_it_came_from() {
        let path = from(PeerType::External, PathAttributes::default());
        let back = ExportTarget { peer: path.source.index, kind: PeerType::External };
        assert_eq!(
            us(&ExportPolicy::default()).export(prefix(), Best::Path(&path), back, &mut AttributeTable::default()),
            None
        );
    }

    #[test]
    fn the_policy_says_what_goes_out_and_with_which_communities() {
        let pool = |announced| ExportPolicy {
            pools: [("10.0.0.0/8".parse().unwrap(), announced)].into(),
            communities: vec![(prefix(), vec![Community::Standard(7), Community::Large([1, 2, 3])])],
            others: false,
            ..ExportPolicy::default()
        };
        let path = from(PeerType::External, PathAttributes { communities: vec![7], ..Default::default() });
        let mut table = AttributeTable::default();
        let mut exported = |policy: &ExportPolicy, prefix: &str| {
            us(policy).export(prefix.parse().unwrap(), Best::Path(&path), to(PeerType::External), &mut table)
        };
        let sent = exported(&pool(true), "10.1.0.0/26").unwrap();
        assert_eq!(sent.attributes.communities, [7], "each once");
        assert_eq!(sent.attributes.extra.large_communities, [[0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3]]);
        assert!(exported(&pool(true), "10.2.0.0/26").unwrap().attributes.extra.large_communities.is_empty());
        assert_eq!(exported(&pool(false), "10.1.0.0/26"), None, "a private pool");
        assert_eq!(exported(&pool(true), "0.0.0.0/0"), None, "no pool");
    }
}
