//! The order of the steps, and that nothing depends on the order of arrival.

use core::net::Ipv4Addr;
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::support::{Bench, OWN_AS, address, path, session, settings};
use crate::rib::{Fate, Step};
use crate::session::peer_index::PeerIndex;
use crate::wire::attribute::LLGR_STALE;
use crate::wire::{Origin, PathAttributes};

const PREFIX: &str = "10.1.0.0/26";

/// Peers 1 to 9 are internal, 11 to 19 external, of systems 1 to 9.
fn bench() -> Bench {
    let mut bench = Bench::new();
    for index in (1..10).chain(11..20) {
        let system = if index < 10 { OWN_AS.value() } else { index - 10 };
        bench.up(settings(index, system), session(index, |_| ()));
    }
    bench
}

fn best(paths: &[(u32, PathAttributes)]) -> (Option<PeerIndex>, BTreeMap<PeerIndex, Fate>) {
    let mut bench = bench();
    for (peer, attributes) in paths {
        let peer = PeerIndex(*peer);
        bench.announce(peer, PREFIX, &address(peer.0).to_string(), |known| known.clone_from(attributes));
    }
    bench.settle();
    let explanation = bench.rib.explain(PREFIX.parse().unwrap());
    let reports = explanation.into_iter().flat_map(|explanation| explanation.paths);
    let index = |address: core::net::IpAddr| match address {
        core::net::IpAddr::V4(address) => PeerIndex(u32::from(address.octets()[3]) - 1),
        core::net::IpAddr::V6(_) => unreachable!(),
    };
    let fates: BTreeMap<PeerIndex, Fate> = reports.map(|one| (index(one.peer.address), one.fate)).collect();
    let winner = bench.host.values().next().map(|route| index(route.peer.address));
    assert_eq!(fates.iter().find(|(_, fate)| **fate == Fate::Best).map(|(peer, _)| *peer), winner);
    (winner, fates)
}

fn with(change: impl FnOnce(&mut PathAttributes)) -> PathAttributes {
    let mut attributes = PathAttributes::default();
    change(&mut attributes);
    attributes
}

/// Each row is decided by exactly one step, and the winner loses every later one.
#[test]
fn steps_in_order() {
    let rows = [
        (
            Step::LongLivedStale,
            (9, with(|_| ())),
            (1, with(|a| (a.communities, a.local_pref) = (vec![LLGR_STALE], Some(200)))),
        ),
        (Step::LocalPref, (9, with(|a| (a.local_pref, a.as_path) = (Some(200), path(&[1, 2])))), (1, with(|_| ()))),
        (Step::PathLength, (9, with(|a| a.origin = Origin::Incomplete)), (1, with(|a| a.as_path = path(&[1])))),
        (Step::Origin, (9, with(|a| a.med = Some(9))), (1, with(|a| a.origin = Origin::Egp))),
        (
            Step::Med,
            (9, with(|a| (a.med, a.as_path) = (Some(1), path(&[1])))),
            (11, with(|a| (a.med, a.as_path) = (Some(2), path(&[1])))),
        ),
        (Step::External, (19, with(|a| a.as_path = path(&[9]))), (1, with(|a| a.as_path = path(&[9])))),
        (Step::Identifier, (2, with(|a| a.cluster_list = vec![Ipv4Addr::LOCALHOST])), (3, with(|_| ()))),
        (
            Step::Identifier,
            (9, with(|a| a.originator_id = Some(Ipv4Addr::new(1, 1, 1, 1)))),
            (1, with(|a| a.originator_id = Some(Ipv4Addr::new(2, 1, 1, 1)))),
        ),
        (
            Step::ClusterList,
            (9, with(|a| a.originator_id = Some(Ipv4Addr::new(1, 1, 1, 1)))),
            (
                1,
                with(|a| {
                    a.originator_id = Some(Ipv4Addr::new(1, 1, 1, 1));
                    a.cluster_list = vec![Ipv4Addr::LOCALHOST];
                }),
            ),
        ),
        (
            Step::Address,
            (1, with(|a| a.originator_id = Some(Ipv4Addr::new(1, 1, 1, 1)))),
            (2, with(|a| a.originator_id = Some(Ipv4Addr::new(1, 1, 1, 1)))),
        ),
    ];
    for (step, winner, loser) in rows {
        for order in [[winner.clone(), loser.clone()], [loser.clone(), winner.clone()]] {
            let (best, fates) = best(&order);
            assert_eq!(best, Some(PeerIndex(winner.0)), "{step:?}");
            let fate = if step >= Step::Identifier { Fate::Shares(step) } else { Fate::Lost(step) };
            assert_eq!(fates[&PeerIndex(loser.0)], fate);
        }
    }
    assert_eq!(best(&[]).0, None);
}

fn any_path() -> impl Strategy<Value = (u32, PathAttributes)> {
    let systems = prop::collection::vec(1..4_u32, 0..3);
    (0..6_u32, prop::option::of(90..=110_u32), systems, 0..2_u8, prop::option::of(0..3_u32), any::<bool>()).prop_map(
        |(peer, local_pref, systems, origin, med, external)| {
            let origin = if origin == 0 { Origin::Igp } else { Origin::Egp };
            let peer = peer + if external { 11 } else { 1 };
            let systems = if external { [&[peer - 10], &systems[..]].concat() } else { systems };
            let as_path = path(&systems);
            (peer, PathAttributes { local_pref, as_path, origin, med, ..PathAttributes::default() })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn the_order_of_arrival_does_not_matter(paths in prop::collection::vec(any_path(), 1..7), turn in 0..7_usize) {
        let mut paths = paths;
        let mut seen = std::collections::BTreeSet::new();
        paths.retain(|(peer, _)| seen.insert(*peer));
        let expected = best(&paths);
        let turn = turn % paths.len();
        paths.rotate_left(turn);
        prop_assert_eq!(best(&paths), expected);
    }
}
