//! The decision process (RFC 4271 section 9.1.2.2, RFC 4456 section 9), in BIRD's order.
//!
//! The steps are taken as eliminations over the whole set and never as pairwise comparison: MED is comparable only within one
//! neighbouring system, so "better" is not transitive and a fold over pairs would depend on the order of arrival.
//!
//! Left to the issues that bring them: reachability of next hops, LLGR-stale paths, AIGP, interior cost. Plain stale paths are
//! not worse than others.

use core::cmp::Reverse;

use super::path::Path;
use crate::wire::PeerType;

/// Index of the best path.
pub(crate) fn best(paths: &[Path]) -> Option<usize> {
    if paths.len() <= 1 {
        return paths.first().map(|_| 0);
    }
    let mut left: Vec<(usize, &Path)> = paths.iter().enumerate().collect();
    keep_least(&mut left, |path| Reverse(path.local_pref()));
    keep_least(&mut left, |path| path.attributes.as_path.len());
    keep_least(&mut left, |path| path.attributes.origin);
    keep_least_med(&mut left);
    keep_least(&mut left, |path| path.source.kind == PeerType::Internal);
    keep_least(&mut left, |path| path.originator());
    keep_least(&mut left, |path| path.attributes.cluster_list.len());
    keep_least(&mut left, |path| path.source.peer);
    left.first().map(|(index, _)| *index)
}

fn keep_least<K: Ord>(left: &mut Vec<(usize, &Path)>, key: impl Fn(&Path) -> K) {
    if let Some(least) = left.iter().map(|(_, path)| key(path)).min() {
        left.retain(|(_, path)| key(path) == least);
    }
}

/// A path goes when another one by the same neighbouring system has a lower MED; none counts as zero (RFC 4271 9.1.2.2 c).
fn keep_least_med(left: &mut Vec<(usize, &Path)>) {
    let med = |path: &Path| path.attributes.med.unwrap_or(0);
    let all = left.clone();
    left.retain(|(_, path)| {
        !all.iter().any(|(_, other)| other.neighbour() == path.neighbour() && med(other) < med(path))
    });
}

#[cfg(test)]
mod tests {
    use core::net::{IpAddr, Ipv4Addr};
    use std::sync::Arc;

    use calico_core::bgp::PeerId;
    use calico_core::net::AsNumber;
    use proptest::prelude::*;

    use super::*;
    use crate::rib::PathSource;
    use crate::session::peer_index::PeerIndex;
    use crate::wire::{Origin, PathAttributes};

    fn path(peer: u8) -> Path {
        Path {
            source: PathSource {
                peer: IpAddr::V4(Ipv4Addr::new(10, 0, 0, peer)).into(),
                index: PeerIndex(peer.into()),
                identifier: Ipv4Addr::new(10, 0, 0, peer),
                kind: PeerType::Internal,
            },
            next_hop: IpAddr::V4(Ipv4Addr::new(10, 0, 0, peer)),
            attributes: Arc::new(PathAttributes::default()),
            life: 0,
        }
    }

    fn with(peer: u8, change: impl Fn(&mut PathAttributes)) -> Path {
        let mut attributes = PathAttributes::default();
        change(&mut attributes);
        Path { attributes: Arc::new(attributes), ..path(peer) }
    }

    fn via(systems: &[u32]) -> crate::wire::AsPath {
        systems.iter().map(|system| AsNumber::new(*system)).collect()
    }

    /// Each row is decided by exactly one step, and the winner loses every later one.
    #[test]
    fn steps_in_order() {
        let external = |mut path: Path| {
            path.source.kind = PeerType::External;
            path
        };
        let rows = [
            ("LOCAL_PREF", with(9, |a| (a.local_pref, a.as_path) = (Some(200), via(&[1, 2]))), with(1, |_| ())),
            ("AS_PATH", with(9, |a| a.origin = Origin::Incomplete), with(1, |a| a.as_path = via(&[1]))),
            ("ORIGIN", with(9, |a| a.med = Some(9)), with(1, |a| a.origin = Origin::Egp)),
            ("MED", with(9, |a| a.med = Some(1)), external(with(1, |a| a.med = Some(2)))),
            ("external", external(path(9)), path(1)),
            ("identifier", with(2, |a| a.cluster_list = vec![Ipv4Addr::LOCALHOST]), path(3)),
            (
                "ORIGINATOR_ID",
                with(9, |a| a.originator_id = Some(Ipv4Addr::new(1, 1, 1, 1))),
                with(1, |a| a.originator_id = Some(Ipv4Addr::new(2, 1, 1, 1))),
            ),
        ];
        for (step, winner, loser) in rows {
            assert_eq!(best(&[winner.clone(), loser.clone()]), Some(0), "{step}");
            assert_eq!(best(&[loser, winner]), Some(1), "{step}, reversed");
        }
    }

    #[test]
    fn the_address_decides_between_two_sessions_of_one_speaker() {
        let (mut low, mut high) = (path(1), path(2));
        low.source.identifier = Ipv4Addr::new(1, 1, 1, 1);
        high.source.identifier = Ipv4Addr::new(1, 1, 1, 1);
        assert_eq!(best(&[high, low]), Some(1));
        assert_eq!(best(&[]), None);
    }

    fn any_path() -> impl Strategy<Value = Path> {
        let systems = prop::collection::vec(1..4_u32, 0..3);
        (0..6_u8, prop::option::of(90..=110_u32), systems, 0..2_u8, prop::option::of(0..3_u32), any::<bool>()).prop_map(
            |(peer, local_pref, systems, origin, med, external)| {
                let origin = if origin == 0 { Origin::Igp } else { Origin::Egp };
                let mut path = with(peer, |a| {
                    (a.local_pref, a.as_path, a.origin, a.med) = (local_pref, via(&systems), origin, med);
                });
                path.source.kind = if external { PeerType::External } else { PeerType::Internal };
                path
            },
        )
    }

    /// The twin: a path is best if no other one beats it, said as one sentence per step over all paths.
    fn twin(paths: &[Path]) -> PeerId {
        let head = |p: &Path| (Reverse(p.local_pref()), p.attributes.as_path.len(), p.attributes.origin);
        let top = paths.iter().map(head).min().unwrap();
        let level: Vec<&Path> = paths.iter().filter(|p| head(p) == top).collect();
        let med = |p: &Path| p.attributes.med.unwrap_or_default();
        let tail = |p: &Path| (p.source.kind == PeerType::Internal, p.source.identifier, p.source.peer);
        let groups: std::collections::BTreeSet<_> = level.iter().map(|p| p.neighbour()).collect();
        let winners = groups.into_iter().flat_map(|neighbour| {
            let group: Vec<&Path> = level.iter().copied().filter(|p| p.neighbour() == neighbour).collect();
            let least = group.iter().map(|p| med(p)).min().unwrap();
            group.into_iter().filter(move |p| med(p) == least).collect::<Vec<_>>()
        });
        winners.min_by_key(|p| tail(p)).unwrap().source.peer
    }

    proptest! {
        #[test]
        fn agrees_with_the_twin_in_any_order(paths in prop::collection::vec(any_path(), 1..7), turn in 0..7_usize) {
            let mut paths = paths;
            let mut seen = std::collections::BTreeSet::new();
            paths.retain(|p| seen.insert(p.source.peer));
            let expected = twin(&paths);
            let turn = turn % paths.len();
            paths.rotate_left(turn);
            prop_assert_eq!(paths[best(&paths).unwrap()].source.peer, expected);
        }
    }
}
