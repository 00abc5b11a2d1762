//! What a peer may hear, and in which form (RFC 4271 sections 5 and 9.2, RFC 1997).

use core::net::{IpAddr, Ipv4Addr};

use calico_core::net::AsNumber;

use super::{AttributeTable, Best, Path, Sent, Source};
use crate::wire::attribute::{NO_ADVERTISE, NO_EXPORT, NO_EXPORT_SUBCONFED};
use crate::wire::{PathAttributes, PeerType};

/// LOCAL_PREF of what this node originates, as upstream sends it: 2147483647 less the route's priority, 1024 for ordinary
/// workloads. A node that a live migration moves a workload to announces a smaller priority and so wins.
pub(crate) const ORIGINATED_LOCAL_PREF: u32 = 2_147_483_647 - 1024;

/// Whom a route is exported to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExportTarget {
    pub(crate) peer: IpAddr,
    pub(crate) kind: PeerType,
}

/// This speaker, as far as exports depend on it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exporter {
    pub(crate) as_number: AsNumber,
    pub(crate) address: Ipv4Addr,
}

impl Exporter {
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
    pub(crate) fn export(&self, best: Best<'_>, to: ExportTarget, table: &mut AttributeTable) -> Option<Sent> {
        match best {
            Best::Originated => Some(self.originated(to, table)),
            Best::Path(path) => self.passed_on(path, to, table),
        }
    }

    fn originated(&self, to: ExportTarget, table: &mut AttributeTable) -> Sent {
        let mut attributes = PathAttributes::default();
        match to.kind {
            PeerType::Internal => attributes.local_pref = Some(ORIGINATED_LOCAL_PREF),
            PeerType::External => attributes.as_path = attributes.as_path.prepended(self.as_number),
        }
        Sent { attributes: table.intern(attributes), next_hop: self.address }
    }

    fn passed_on(&self, path: &Path, to: ExportTarget, table: &mut AttributeTable) -> Option<Sent> {
        let communities = &path.attributes.communities;
        let split_horizon = path.source.peer == to.peer;
        let allowed = Self::may_export(Source::Peer(path.source), to.kind) && !communities.contains(&NO_ADVERTISE);
        if split_horizon || !allowed {
            return None;
        }
        let IpAddr::V4(next_hop) = path.next_hop else {
            return None;
        };
        let mut attributes = PathAttributes::clone(&path.attributes);
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::rib::PathSource;

    const US: Exporter = Exporter { as_number: AsNumber::new(64512), address: Ipv4Addr::new(10, 0, 0, 1) };

    fn from(kind: PeerType, attributes: PathAttributes) -> Path {
        let address = Ipv4Addr::new(10, 0, 0, 7);
        Path {
            source: PathSource { peer: address.into(), identifier: address, kind },
            next_hop: address.into(),
            attributes: Arc::new(attributes),
            life: 0,
        }
    }

    fn to(kind: PeerType) -> ExportTarget {
        ExportTarget { peer: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9)), kind }
    }

    #[test]
    fn originated_routes_lead_to_us() {
        let mut table = AttributeTable::default();
        let internal = US.export(Best::Originated, to(PeerType::Internal), &mut table).unwrap();
        assert_eq!(internal.next_hop, US.address);
        assert_eq!(internal.attributes.local_pref, Some(2_147_482_623));
        assert!(internal.attributes.as_path.is_empty());
        let external = US.export(Best::Originated, to(PeerType::External), &mut table).unwrap();
        assert_eq!(external.attributes.local_pref, None);
        assert_eq!(external.attributes.as_path.systems(), [US.as_number]);
    }

    #[test]
    fn what_goes_where() {
        let mut table = AttributeTable::default();
        let mut exported = |path: &Path, kind| US.export(Best::Path(path), to(kind), &mut table);
        let internal = from(PeerType::Internal, PathAttributes { med: Some(5), ..PathAttributes::default() });
        assert_eq!(exported(&internal, PeerType::Internal), None, "full mesh");
        let sent = exported(&internal, PeerType::External).unwrap();
        assert_eq!((sent.next_hop, sent.attributes.med), (US.address, None));
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
    fn nothing_goes_back_to_where_it_came_from() {
        let path = from(PeerType::External, PathAttributes::default());
        let back = ExportTarget { peer: path.source.peer, kind: PeerType::External };
        assert_eq!(US.export(Best::Path(&path), back, &mut AttributeTable::default()), None);
    }
}
