//! One matter each.

use core::net::Ipv4Addr;
use std::sync::Arc;

use calico_core::bgp::{
    ExportPolicy, Filter, FilterOperation, FilterRule, NextHop as Mode, Originated, PRIORITY_SUM, Role,
};
use calico_core::net::Family;

use super::support::{Bench, OWN, OWN_AS, address, cidr, client, path, session, settings, us, with_role};
use crate::rib::{Fate, Refusal, Retain, Withheld};
use crate::session::peer_index::PeerIndex;
use crate::wire::attribute::{Aigp, LLGR_STALE, NO_EXPORT};
use crate::wire::{NextHop, Nlri, PathAttributes};

const PREFIX: &str = "10.1.0.0/26";

fn internal(index: u32) -> crate::rib::PeerSettings {
    settings(index, OWN_AS.value())
}

#[test]
fn what_we_originate_leads_to_us_and_the_marker_comes_last() {
    let mut bench = Bench::new();
    bench.rib.set_originated(&[Originated::block(cidr(PREFIX)), Originated::block(cidr("2001:db8:1::/64"))]);
    let mesh = bench.up(internal(1), session(1, |_| ()));
    let tor = bench.up(settings(2, 65001), session(2, |_| ()));
    assert_eq!(bench.rib.poll_ready(), Some(mesh));
    assert!(bench.deliver(mesh));
    assert_eq!(bench.peers[&mesh].2.ends, 0);
    bench.settle();
    let (attributes, next_hop) = bench.told(mesh, PREFIX).unwrap();
    assert_eq!((attributes.local_pref, *next_hop), (Some(PRIORITY_SUM - 1024), OWN.into()));
    let (attributes, next_hop) = bench.told(tor, "2001:db8:1::/64").unwrap();
    assert_eq!((attributes.local_pref, *next_hop), (None, us().address(Family::V6).unwrap().into()));
    assert_eq!(attributes.as_path, path(&[OWN_AS.value()]));
    assert_eq!((bench.peers[&mesh].2.ends, bench.peers[&tor].2.ends), (2, 2));
    // A mesh does not pass on what it hears.
    bench.announce(mesh, "10.2.0.0/26", "10.0.0.2", |_| ());
    let third = bench.up(internal(3), session(3, |_| ()));
    bench.settle();
    assert_eq!(bench.told(third, "10.2.0.0/26"), None);
    assert!(bench.told(tor, "10.2.0.0/26").is_some());
}

#[test]
fn reflection_says_who_originated_and_where_it_has_been() {
    let mut bench = Bench::new();
    let mut local = us();
    local.cluster_id = Some(Ipv4Addr::new(1, 2, 3, 4));
    bench.rib.set_local(Some(local));
    let (one, two) = (bench.up(client(1), session(1, |_| ())), bench.up(client(2), session(2, |_| ())));
    let (other, plain) = (bench.up(internal(3), session(3, |_| ())), bench.up(internal(4), session(4, |_| ())));
    bench.announce(one, PREFIX, "10.0.0.2", |known| known.med = Some(7));
    bench.announce(other, "10.2.0.0/26", "10.0.0.4", |_| ());
    bench.settle();
    for peer in [two, other] {
        let (attributes, next_hop) = bench.told(peer, PREFIX).unwrap();
        assert_eq!((attributes.originator_id, attributes.med), (Some(address(1)), Some(7)));
        assert_eq!(attributes.cluster_list, [Ipv4Addr::new(1, 2, 3, 4)]);
        assert_eq!(*next_hop, Ipv4Addr::new(10, 0, 0, 2).into());
    }
    assert_eq!(bench.told(one, PREFIX), None, "it is its own");
    assert!(bench.told(two, "10.2.0.0/26").is_some());
    assert_eq!(bench.told(plain, "10.2.0.0/26"), None, "neither is a client");
    bench.announce(two, PREFIX, "10.0.0.3", |known| known.cluster_list = vec![Ipv4Addr::new(1, 2, 3, 4)]);
    bench.settle();
    let fates = bench.rib.received_from(two);
    assert_eq!(fates[0].fate, Fate::Refused(Refusal::OwnCluster));
    let explanation = bench.rib.explain(cidr("10.2.0.0/26")).unwrap();
    let told = |index| explanation.told.iter().find(|(peer, _)| *peer == internal(index).id).unwrap().1.clone();
    assert_eq!(told(4), Err(Withheld::Internal));
    assert_eq!(told(3), Err(Withheld::SplitHorizon));
    assert!(told(1).is_ok());
}

#[test]
fn a_peer_that_does_not_read_costs_one_message_in_the_end() {
    let mut bench = Bench::new();
    let source = bench.up(settings(1, 65001), session(1, |_| ()));
    let (fast, slow) = (bench.up(internal(2), session(2, |_| ())), bench.up(internal(3), session(3, |_| ())));
    bench.settle();
    let before = bench.peers[&slow].2.updates;
    for round in 0..3000_u32 {
        let prefix = format!("10.{}.{}.0/24", round % 30, round / 256);
        bench.announce(source, &prefix, "10.0.0.2", |known| (known.as_path, known.med) = (path(&[65001]), Some(round)));
        bench.rib.withdraw(source, &[cidr(&prefix).into()]);
        bench.announce(source, PREFIX, "10.0.0.2", |known| (known.as_path, known.med) = (path(&[65001]), Some(round)));
        while bench.rib.poll_ready().is_some() {}
        while bench.deliver(fast) {}
        assert!(bench.rib.log_len() < 3 * 1024, "the log grows with changes");
    }
    bench.reading.insert(slow);
    bench.settle();
    assert!(bench.peers[&slow].2.updates - before <= 3);
    assert_eq!(bench.peers[&slow].2.routes, bench.peers[&fast].2.routes);
    assert_eq!(bench.told(slow, PREFIX).unwrap().0.med, Some(2999));
}

#[test]
fn paths_that_are_equally_good_share_traffic() {
    let mut bench = Bench::new();
    let peers: Vec<PeerIndex> = (1..4).map(|index| bench.up(settings(index, 65001), session(index, |_| ()))).collect();
    for (peer, next_hop) in peers.iter().zip(["10.0.0.9", "10.0.0.8", "10.0.0.7"]) {
        bench.announce(*peer, PREFIX, next_hop, |known| known.as_path = path(&[65001]));
    }
    bench.announce(peers[2], PREFIX, "10.0.0.7", |known| known.as_path = path(&[65001, 65001]));
    bench.settle();
    let route = &bench.host[&cidr(PREFIX)];
    let hops: Vec<String> = route.next_hops.iter().map(ToString::to_string).collect();
    assert_eq!((route.next_hop.to_string(), hops), ("10.0.0.9".into(), vec!["10.0.0.8".to_owned(), "10.0.0.9".into()]));
    assert_eq!(route.priority, PRIORITY_SUM - 100);
    bench.rib.withdraw(peers[0], &[cidr(PREFIX).into()]);
    bench.settle();
    assert_eq!(bench.host[&cidr(PREFIX)].next_hops.len(), 1);
}

#[test]
fn next_hops_by_family_and_policy() {
    let mut bench = Bench::new();
    let six: NextHop = "2001:db8::9".parse::<core::net::Ipv6Addr>().unwrap().into();
    let extended = |channel: &mut crate::rib::Channel| channel.extended_next_hop = true;
    let source = bench.up(settings(1, 65001), session(1, extended));
    let crossing = bench.up(internal(2), session(2, extended));
    let plain = bench.up(internal(3), session(3, |_| ()));
    let mut own = internal(4);
    own.policy.next_hop = Mode::Own;
    let own = bench.up(own, session(4, |_| ()));
    let mut keep = settings(5, 65002);
    keep.policy.next_hop = Mode::Keep;
    let keep = bench.up(keep, session(5, extended));
    let attributes = PathAttributes { as_path: path(&[65001]), ..PathAttributes::default() };
    bench.rib.announce(source, attributes.clone(), six, &[cidr(PREFIX).into()]);
    let on_link =
        NextHop::V6LinkLocal { global: "2001:db8::9".parse().unwrap(), link_local: "fe80::9".parse().unwrap() };
    bench.rib.announce(source, attributes.clone(), on_link, &[cidr("2001:db8:9::/64").into()]);
    let nowhere: NextHop = "fe80::9".parse::<core::net::Ipv6Addr>().unwrap().into();
    bench.rib.announce(source, attributes, nowhere, &[cidr("2001:db8:8::/64").into()]);
    bench.settle();
    let hop = |peer, prefix: &str| bench.told(peer, prefix).map(|(_, next_hop)| *next_hop);
    assert_eq!(hop(crossing, PREFIX), Some(six));
    assert_eq!(hop(keep, PREFIX), Some(six));
    assert_eq!(hop(plain, PREFIX), None, "it could not read it");
    assert_eq!(hop(own, PREFIX), Some(OWN.into()));
    assert_eq!(hop(plain, "2001:db8:9::/64"), Some(six), "a link-local address means nothing elsewhere");
    assert_eq!(hop(plain, "2001:db8:8::/64"), None, "the peer is not on one link with it");
    let explanation = bench.rib.explain(cidr("2001:db8:8::/64")).unwrap();
    assert_eq!(explanation.paths[0].fate, Fate::Refused(Refusal::NextHop(nowhere)));
}

#[test]
fn what_is_only_meant_for_the_system_does_not_leave_it() {
    let mut bench = Bench::new();
    let source = bench.up(settings(1, 65001), session(1, |_| ()));
    let (mesh, tor) = (bench.up(internal(2), session(2, |_| ())), bench.up(settings(3, 65002), session(3, |_| ())));
    bench.announce(source, PREFIX, "10.0.0.2", |known| {
        (known.as_path, known.med) = (path(&[65001]), Some(5));
        known.extra.make_mut().aigp = Some(Aigp::new(7));
    });
    bench.announce(source, "10.2.0.0/26", "10.0.0.2", |known| {
        (known.as_path, known.communities) = (path(&[65001]), vec![NO_EXPORT]);
    });
    bench.settle();
    let (inside, outside) = (bench.told(mesh, PREFIX).unwrap().clone(), bench.told(tor, PREFIX).unwrap().clone());
    assert_eq!((inside.0.local_pref, inside.0.med, inside.1), (Some(100), Some(5), Ipv4Addr::new(10, 0, 0, 2).into()));
    assert_eq!((outside.0.local_pref, outside.0.med, outside.1), (None, None, OWN.into()));
    assert_eq!((inside.0.extra.aigp.as_ref(), outside.0.extra.aigp.as_ref()), (None, None));
    assert_eq!(outside.0.as_path, path(&[OWN_AS.value(), 65001]));
    assert!(bench.told(mesh, "10.2.0.0/26").is_some() && bench.told(tor, "10.2.0.0/26").is_none());
}

/// RFC 9234: what a provider told us goes to customers only, and says so.
#[test]
fn roles_keep_routes_from_leaking() {
    let mut bench = Bench::new();
    let provider = bench.up(with_role(1, 65001, Role::Customer), session(1, |_| ()));
    let customer = bench.up(with_role(2, 65002, Role::Provider), session(2, |_| ()));
    let other = bench.up(with_role(3, 65003, Role::Customer), session(3, |_| ()));
    bench.announce(provider, PREFIX, "10.0.0.2", |known| known.as_path = path(&[65001]));
    bench.announce(customer, "10.2.0.0/26", "10.0.0.3", |known| known.as_path = path(&[65002]));
    bench.settle();
    assert_eq!(bench.told(customer, PREFIX).unwrap().0.extra.only_to_customer, Some(path(&[65001]).first().unwrap()));
    assert_eq!(bench.told(other, PREFIX), None);
    assert_eq!(bench.told(other, "10.2.0.0/26").unwrap().0.extra.only_to_customer, None);
    bench.announce(customer, "10.2.0.0/26", "10.0.0.3", |known| {
        known.as_path = path(&[65002]);
        known.extra.make_mut().only_to_customer = path(&[1]).first();
    });
    bench.settle();
    assert!(!bench.host.contains_key(&cidr("10.2.0.0/26")), "a leak");
}

/// RFC 9494.
#[test]
fn the_last_resort_loses_and_says_what_it_is() {
    let mut bench = Bench::new();
    let (dead, alive) =
        (bench.up(settings(1, 65001), session(1, |_| ())), bench.up(settings(2, 65001), session(2, |_| ())));
    let knows = bench.up(internal(3), session(3, |channel| channel.long_lived = true));
    let plain = bench.up(internal(4), session(4, |_| ()));
    bench.announce(dead, PREFIX, "10.0.0.2", |known| known.as_path = path(&[65001]));
    bench.announce(alive, PREFIX, "10.0.0.3", |known| known.as_path = path(&[65001, 7]));
    bench.announce(dead, "10.2.0.0/26", "10.0.0.2", |known| known.as_path = path(&[65001]));
    bench.settle();
    assert_eq!(bench.host[&cidr(PREFIX)].next_hop.to_string(), "10.0.0.2");
    bench.rib.session_down(dead);
    bench.rib.retain(dead, Family::V4, Retain::LongLived);
    bench.forget(dead);
    bench.settle();
    assert_eq!(bench.host[&cidr(PREFIX)].next_hop.to_string(), "10.0.0.3");
    assert_eq!(bench.told(plain, "10.2.0.0/26"), None);
    assert_eq!(bench.told(knows, "10.2.0.0/26").unwrap().0.communities, [LLGR_STALE]);
    bench.rib.sweep(dead, Family::V4);
    bench.settle();
    assert_eq!((bench.told(knows, "10.2.0.0/26"), bench.host.len()), (None, 1));
}

/// What was refused is remembered: a new filter needs no refresh, and one peer's filter is no other's.
#[test]
fn filters_work_both_ways_and_at_once() {
    let reject = FilterRule { accept: false, ..FilterRule::default() };
    let raise = FilterOperation::SetPriority(10);
    let accept = FilterRule { accept: true, operations: vec![raise], ..FilterRule::default() };
    let both = |rule: FilterRule| calico_core::bgp::ByFamily { ipv4: vec![rule.clone()], ipv6: vec![rule] };
    let named = |import: Option<FilterRule>, export: Option<FilterRule>| {
        let (import, export) = (import.map(both).unwrap_or_default(), export.map(both).unwrap_or_default());
        vec![Arc::new(Filter { name: "f".into(), import, export })]
    };
    let mut bench = Bench::new();
    let mut tor = settings(1, 65001);
    tor.policy.filters = named(Some(reject.clone()), None);
    let source = bench.up(tor.clone(), session(1, |_| ()));
    let (mesh, other) = (bench.up(internal(2), session(2, |_| ())), bench.up(internal(3), session(3, |_| ())));
    bench.announce(source, PREFIX, "10.0.0.2", |known| known.as_path = path(&[65001]));
    bench.settle();
    assert!(bench.host.is_empty());
    let refused = &bench.rib.explain(cidr(PREFIX)).unwrap().paths[0];
    assert_eq!(refused.fate, Fate::Refused(Refusal::Filter { filter: "f".into(), rule: 0 }));
    assert_eq!(bench.rib.received(source, Family::V4).accepted, 0);
    tor.policy.filters = named(Some(accept), None);
    bench.rib.set_peer(source, tor);
    bench.settle();
    assert_eq!(bench.host[&cidr(PREFIX)].priority, 10);
    assert_eq!(bench.told(mesh, PREFIX).unwrap().0.local_pref, Some(PRIORITY_SUM - 10));
    assert_eq!(bench.rib.received(source, Family::V4).accepted, 1);
    let mut closed = internal(2);
    closed.policy.filters = named(None, Some(reject));
    let before = bench.peers[&other].2.updates;
    bench.rib.set_peer(mesh, closed);
    bench.settle();
    assert_eq!((bench.told(mesh, PREFIX), bench.told(other, PREFIX).is_some()), (None, true));
    assert_eq!(bench.peers[&other].2.updates, before, "nothing changed for it");
    let before = bench.peers[&mesh].2.updates;
    bench.rib.set_peer(mesh, internal(2));
    bench.settle();
    assert_eq!(bench.peers[&mesh].2.updates, before + 1);
    // Another policy that comes to the same says nothing again.
    let before = bench.peers[&mesh].2.updates;
    bench
        .rib
        .set_export(&Arc::new(ExportPolicy { pools: [(cidr("10.0.0.0/8"), true)].into(), ..ExportPolicy::default() }));
    let mut own = internal(2);
    own.policy.own_as_allowed = 1;
    bench.rib.set_peer(mesh, own);
    bench.settle();
    assert_eq!(bench.peers[&mesh].2.updates, before);
}

#[test]
fn what_does_not_fit_in_a_message_is_withdrawn_and_hides_nothing() {
    let mut bench = Bench::new();
    let source = bench.up(settings(1, 65001), session(1, |_| ()));
    let mesh = bench.up(internal(2), session(2, |_| ()));
    let small = |known: &mut PathAttributes| known.as_path = path(&[65001]);
    bench.announce(source, PREFIX, "10.0.0.2", small);
    bench.settle();
    bench.announce(source, PREFIX, "10.0.0.2", |known| {
        small(known);
        known.communities = (0..1100).collect();
    });
    bench.announce(source, "10.2.0.0/26", "10.0.0.2", small);
    bench.settle();
    assert_eq!((bench.told(mesh, PREFIX), bench.told(mesh, "10.2.0.0/26").is_some()), (None, true));
}

#[test]
fn a_refresh_brings_everything_again_between_its_markers() {
    let mut bench = Bench::new();
    bench.rib.set_originated(&[Originated::block(cidr(PREFIX))]);
    let enhanced = bench.up(internal(1), session(1, |channel| channel.enhanced_refresh = true));
    let other = bench.up(internal(2), session(2, |_| ()));
    bench.settle();
    let before = (bench.peers[&enhanced].2.updates, bench.peers[&other].2.updates);
    bench.rib.refresh(enhanced, Family::V4);
    assert_eq!(bench.rib.poll_ready(), Some(enhanced));
    let mut bytes = Vec::new();
    bench.rib.poll_transmit(enhanced, 1 << 20, &mut bytes);
    assert_eq!((bytes[18], bytes[21]), (5, 1), "a BoRR first");
    assert_eq!(bytes.last_chunk::<2>(), Some(&[2, 1]), "an EoRR last");
    bench.reading.insert(enhanced);
    bench.rib.refresh(enhanced, Family::V4);
    bench.settle();
    assert_eq!((bench.peers[&enhanced].2.updates, bench.peers[&other].2.updates), (before.0 + 1, before.1));
}

#[test]
fn several_paths_have_names_that_stay() {
    let mut bench = Bench::new();
    let (one, two) =
        (bench.up(settings(1, 65001), session(1, |_| ())), bench.up(settings(2, 65002), session(2, |_| ())));
    let taker = bench.up(internal(3), session(3, |channel| channel.add_path = 2));
    bench.announce(one, PREFIX, "10.0.0.2", |known| known.as_path = path(&[65001]));
    bench.announce(two, PREFIX, "10.0.0.3", |known| known.as_path = path(&[65002, 7]));
    bench.settle();
    let names = |bench: &Bench| bench.peers[&taker].2.routes.keys().copied().collect::<Vec<Nlri>>();
    let before = names(&bench);
    assert_eq!(before.len(), 2);
    bench.announce(two, PREFIX, "10.0.0.3", |known| known.as_path = path(&[65002]));
    bench.settle();
    assert_eq!(names(&bench), before);
    bench.rib.withdraw(one, &[cidr(PREFIX).into()]);
    bench.settle();
    assert_eq!(names(&bench), before[1..]);
}

#[test]
fn a_peer_with_endless_paths_to_one_prefix_is_not_believed() {
    let mut bench = Bench::new();
    let (many, listener) =
        (bench.up(internal(1), session(1, |_| ())), bench.up(settings(2, 65002), session(2, |_| ())));
    for number in 0..200 {
        let nlri = Nlri { prefix: cidr(PREFIX), path_id: crate::wire::PathId::new(number) };
        bench.rib.announce(many, PathAttributes::default(), address(1).into(), &[nlri]);
    }
    bench.settle();
    assert_eq!(bench.rib.received(many, Family::V4).paths, crate::rib::path::MOST_PATHS);
    bench.rib.session_down(many);
    bench.rib.retain(many, Family::V4, Retain::Drop);
    bench.forget(many);
    bench.settle();
    assert_eq!((bench.told(listener, PREFIX), bench.rib.len()), (None, 0));
}
