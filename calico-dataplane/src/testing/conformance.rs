//! What every [`Dataplane`] must do: run it against an implementation with [`suite`].

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test suite: a breach of the contract is a panic that names it"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use calico_core::connection::RouteQuery;
use calico_core::net::{InterfaceName, Mac};
use calico_core::table::{
    Chain, Delta, Element, ElementDelta, InterfaceSetting, Neighbor, Peak, Route, RouteClass, RouteKey, RouteTableId,
    RouteTarget, SetDecl, SetKind, Shaper, Shaping, Verdict,
};

use super::sample::{self, addr, chain_name, interface, member, net, set_name};
use crate::{ApplyReport, Dataplane, DataplaneError, HostChange, Observed, Shaped, TokenBucket};

/// Runs the whole suite against a host that holds nothing of ours, and leaves it holding nothing but an empty table.
///
/// `workload` is an interface that exists, is up (`lo` too) and counts as a workload's; it is removed in the end. No interface is called
/// `cali-none`.
///
/// # Panics
/// If the implementation breaks the contract.
pub async fn suite(dataplane: &mut dyn Dataplane, workload: InterfaceName) {
    holds_nothing(dataplane).await;
    everything_is_read_back(dataplane).await;
    carrying_out_twice_is_harmless(dataplane).await;
    chains_are_replaced_whole(dataplane).await;
    chains_move_between_hooks(dataplane).await;
    elements_come_and_go(dataplane).await;
    sets_change_their_type(dataplane).await;
    the_ruleset_is_all_or_nothing(dataplane).await;
    removals_forgive_absence(dataplane).await;
    routes_are_kept_by_key(dataplane, workload).await;
    neighbors_are_kept_by_address(dataplane, workload).await;
    settings_are_written(dataplane, workload).await;
    bandwidths_are_kept_by_device(dataplane, workload).await;
    failures_are_reported_by_object(dataplane, workload).await;
    connections_end_where_there_are_any(dataplane).await;
    connections_are_listed_and_ended_by_name(dataplane).await;
    own_writes_are_no_news(dataplane).await;
    workloads_are_removed(dataplane, workload).await;
}

async fn holds_nothing(dataplane: &mut dyn Dataplane) {
    let observed = observe(dataplane).await;
    assert!(!observed.table_present, "the suite needs a host without our table");
    assert!(observed.chains.is_empty() && observed.sets.is_empty() && observed.routes.is_empty());
    complete(&dataplane.apply(&Delta::default()).await);
    assert!(!observe(dataplane).await.table_present, "an empty delta makes nothing");
}

async fn everything_is_read_back(dataplane: &mut dyn Dataplane) {
    complete(&dataplane.apply(&sample::delta()).await);
    is_sample(&observe(dataplane).await);
}

async fn carrying_out_twice_is_harmless(dataplane: &mut dyn Dataplane) {
    complete(&dataplane.apply(&sample::delta()).await);
    is_sample(&observe(dataplane).await);
}

async fn chains_are_replaced_whole(dataplane: &mut dyn Dataplane) {
    let mut chain = sample::chains().swap_remove(0);
    chain.rules.truncate(3);
    complete(&dataplane.apply(&chains([chain.clone()])).await);
    let observed = observe(dataplane).await;
    assert_eq!(observed.chains[&chain.name].fingerprint, Some(chain.fingerprint()));
    chain.rules.clear();
    complete(&dataplane.apply(&chains([chain.clone()])).await);
    assert_eq!(observe(dataplane).await.chains[&chain.name].fingerprint, Some(chain.fingerprint()));
    complete(&dataplane.apply(&chains(sample::chains())).await);
    is_sample(&observe(dataplane).await);
}

async fn chains_move_between_hooks(dataplane: &mut dyn Dataplane) {
    let original = sample::chains().into_iter().find(|chain| chain.base.is_some()).unwrap();
    let mut base = original.base.unwrap();
    base.priority += 1;
    for base in [Some(base), None, original.base] {
        let chain = Chain { base, ..original.clone() };
        // Both removed and written: replaced by one of another kind.
        let delta = Delta { chains_removed: vec![chain.name.clone()], ..chains([chain.clone()]) };
        complete(&dataplane.apply(&delta).await);
        let observed = &observe(dataplane).await.chains[&chain.name];
        assert_eq!((observed.base, observed.fingerprint), (base, Some(chain.fingerprint())));
    }
}

async fn elements_come_and_go(dataplane: &mut dyn Dataplane) {
    let host = |text| member([addr(text)]);
    let prefix = |text| member([net(text)]);
    let leads = |verdict| Element::verdict([interface("cali9")], verdict);
    let known = |name: &str| sample::sets().into_iter().find(|(decl, _)| decl.name.as_str() == name).unwrap().1;
    let before = |name| known(name).into_iter().collect::<BTreeSet<_>>();
    let mut cases = vec![
        // Absent, present, and a removal with an addition of the same.
        ("hosts4", vec![host("9.9.9.9")], vec![host("10.0.0.1")], before("hosts4")),
        ("hosts4", vec![host("10.0.0.1")], vec![host("10.0.0.1")], before("hosts4")),
    ];
    let mut wide = before("nets4");
    wide.insert(prefix("172.16.0.0/12"));
    cases.push(("nets4", vec![], vec![prefix("172.16.0.0/12")], wide));
    // Removed before added: the two overlap.
    let mut narrow = before("nets4");
    narrow.insert(prefix("172.16.0.0/16"));
    cases.push(("nets4", vec![prefix("172.16.0.0/12")], vec![prefix("172.16.0.0/16")], narrow));
    cases.push(("nets4", vec![prefix("172.16.0.0/16"), prefix("1.2.0.0/16")], vec![], before("nets4")));
    let mut map = before("dispatch");
    map.insert(leads(Verdict::Drop));
    cases.push(("dispatch", vec![], vec![leads(Verdict::Drop)], map));
    let mut map = before("dispatch");
    map.insert(leads(Verdict::Goto(chain_name("stack-1"))));
    cases.push(("dispatch", vec![leads(Verdict::Drop)], vec![leads(Verdict::Goto(chain_name("stack-1")))], map));
    cases.push(("dispatch", vec![leads(Verdict::Drop)], vec![], before("dispatch")));
    for (set, removed, added, expected) in cases {
        let change = ElementDelta { set: set_name(set), removed, added };
        let delta = Delta { elements: vec![change.clone()], ..Delta::default() };
        for _ in 0..2 {
            complete(&dataplane.apply(&delta).await);
            assert_eq!(observe(dataplane).await.sets[&set_name(set)].elements, expected, "after {change:?}");
        }
    }
}

async fn sets_change_their_type(dataplane: &mut dyn Dataplane) {
    let name = set_name("turncoat");
    let hash = SetDecl { name: name.clone(), key: sample::sets()[0].0.key.clone(), kind: SetKind::Hash };
    let interval = SetDecl { kind: SetKind::Interval, ..hash.clone() };
    for (decl, element) in [(hash, member([addr("10.0.0.1")])), (interval, member([net("10.0.0.0/8")]))] {
        let delta = Delta {
            sets_removed: vec![name.clone()],
            sets_added: vec![decl.clone()],
            elements: vec![ElementDelta { set: name.clone(), removed: vec![], added: vec![element.clone()] }],
            ..Delta::default()
        };
        complete(&dataplane.apply(&delta).await);
        let observed = observe(dataplane).await;
        let set = &observed.sets[&name];
        assert_eq!((set.decl.as_ref(), set.elements.iter().collect::<Vec<_>>()), (Some(&decl), vec![&element]));
    }
    complete(&dataplane.apply(&Delta { sets_removed: vec![name], ..Delta::default() }).await);
    is_sample(&observe(dataplane).await);
}

async fn the_ruleset_is_all_or_nothing(dataplane: &mut dyn Dataplane) {
    let nowhere = sample::rule(
        calico_core::table::Match::CtState(calico_core::table::CtState::NEW),
        Verdict::Jump(chain_name("no-such-chain")),
    );
    let good = SetDecl { name: set_name("good"), ..sample::sets()[0].0.clone() };
    let delta = Delta {
        sets_added: vec![good],
        chains_set: vec![Chain { name: chain_name("bad"), base: None, rules: vec![nowhere] }],
        elements: vec![ElementDelta {
            set: set_name("hosts4"),
            removed: vec![],
            added: vec![member([addr("10.7.7.7")])],
        }],
        ..Delta::default()
    };
    let report = dataplane.apply(&delta).await;
    let error = report.ruleset.as_ref().unwrap_or_else(|| panic!("a jump to nowhere must fail"));
    let named = ["bad", "no-such-chain"].iter().any(|name| error.to_string().contains(name));
    assert!(named, "the error must name what it stumbled over: {error}");
    is_sample(&observe(dataplane).await);
}

async fn removals_forgive_absence(dataplane: &mut dyn Dataplane) {
    for _ in 0..2 {
        complete(&dataplane.apply(&sample::removal()).await);
        let observed = observe(dataplane).await;
        assert!(observed.chains.is_empty() && observed.sets.is_empty(), "{observed:?}");
    }
}

async fn routes_are_kept_by_key(dataplane: &mut dyn Dataplane, workload: InterfaceName) {
    let key = |dest: &str, metric| RouteKey { table: RouteTableId::MAIN, dest: dest.parse().unwrap(), metric };
    let onlink = RouteTarget::ViaOnlink { gateway: "169.254.7.7".parse().unwrap(), interface: workload };
    let routes = vec![
        Route {
            key: key("10.65.0.1/32", 0),
            target: RouteTarget::Interface(workload),
            class: RouteClass::LocalWorkload,
        },
        Route { key: key("10.65.0.1/32", 50), target: onlink, class: RouteClass::Bgp },
        Route { key: key("10.65.0.0/26", 1024), target: RouteTarget::Blackhole, class: RouteClass::LocalBlock },
        Route {
            key: RouteKey { table: RouteTableId::new(4000), ..key("10.66.0.0/16", 7) },
            target: RouteTarget::Blackhole,
            class: RouteClass::Bgp,
        },
        Route {
            key: key("fd65::1/128", 1024),
            target: RouteTarget::Interface(workload),
            class: RouteClass::LocalWorkload,
        },
    ];
    let set = |routes: &[Route]| Delta { routes_set: routes.to_vec(), ..Delta::default() };
    let expect = |routes: &[Route]| routes.iter().map(|route| (route.key, route.clone())).collect();
    for _ in 0..2 {
        complete(&dataplane.apply(&set(&routes)).await);
        assert_eq!(observe(dataplane).await.routes, expect(&routes));
    }
    let mut changed = routes.clone();
    changed[1].target = RouteTarget::Blackhole;
    changed[2].class = RouteClass::Bgp;
    complete(&dataplane.apply(&set(&changed)).await);
    assert_eq!(observe(dataplane).await.routes, expect(&changed));
    let removal = Delta { routes_removed: vec![routes[1].key, routes[3].key], ..Delta::default() };
    changed.retain(|route| !removal.routes_removed.contains(&route.key));
    for _ in 0..2 {
        complete(&dataplane.apply(&removal).await);
        assert_eq!(observe(dataplane).await.routes, expect(&changed));
    }
    let rest = Delta { routes_removed: routes.iter().map(|route| route.key).collect(), ..Delta::default() };
    complete(&dataplane.apply(&rest).await);
    assert!(observe(dataplane).await.routes.is_empty());
}

async fn neighbors_are_kept_by_address(dataplane: &mut dyn Dataplane, workload: InterfaceName) {
    let before = observe(dataplane).await.neighbors;
    let neighbor = |address: &str, last| Neighbor {
        interface: workload,
        address: address.parse().unwrap(),
        mac: Mac::new([2, 0, 0, 0, 0, last]),
    };
    for last in [1, 1, 2] {
        let both = [neighbor("10.65.0.1", last), neighbor("fd65::1", last)];
        complete(&dataplane.apply(&Delta { neighbors_set: both.to_vec(), ..Delta::default() }).await);
        let added: BTreeSet<_> = observe(dataplane).await.neighbors.difference(&before).copied().collect();
        assert_eq!(added, both.into());
    }
    // Whatever the Ethernet address says.
    let removal = vec![neighbor("10.65.0.1", 9), neighbor("fd65::1", 9)];
    for _ in 0..2 {
        complete(&dataplane.apply(&Delta { neighbors_removed: removal.clone(), ..Delta::default() }).await);
        assert_eq!(observe(dataplane).await.neighbors, before);
    }
}

async fn settings_are_written(dataplane: &mut dyn Dataplane, workload: InterfaceName) {
    for value in ["1", "1", "0"] {
        let setting = InterfaceSetting { interface: workload, path: "net/ipv4/conf/{}/proxy_arp", value: value.into() };
        complete(&dataplane.apply(&Delta { settings: vec![setting], ..Delta::default() }).await);
    }
}

/// Each direction on its own, from one value to any other; and the devices that it takes are nobody's links.
async fn bandwidths_are_kept_by_device(dataplane: &mut dyn Dataplane, workload: InterfaceName) {
    while poll_next(dataplane).is_ready() {}
    let before = observe(dataplane).await;
    let mtu = before.links[&workload].mtu;
    let (received, sent) = (Shaper::of_received(workload), Shaper::of_sent(workload));
    let peak = |rate| Some(Peak { rate, burst: 20_000 });
    let values = [
        (125_000, 10_000, None),
        (125_000, 10_000, None),
        (1 << 33, 1, peak(1 << 34)),
        (125_000, u32::MAX, peak(250_000)),
        (125_000_000_000_000, u32::MAX, peak(126_250_000_000_000)),
        (125, 1, None),
    ];
    let mut expected = BTreeMap::new();
    for (rate, burst, peak) in values {
        for shaper in [received, sent] {
            let shaping = Shaping { shaper, rate, burst, peak };
            complete(&dataplane.apply(&Delta { shapings_set: vec![shaping], ..Delta::default() }).await);
            let bucket = Some(TokenBucket::of(&shaping, mtu));
            expected.insert(shaper.device, Shaped { source: shaper.source, bucket });
            let observed = observe(dataplane).await;
            assert_eq!(observed.shapings, expected, "after {shaping}");
            assert_eq!(observed.links, before.links);
        }
    }
    for shaper in [sent, received] {
        expected.remove(&shaper.device);
        for _ in 0..2 {
            complete(&dataplane.apply(&Delta { shapings_removed: vec![shaper], ..Delta::default() }).await);
            assert_eq!(observe(dataplane).await.shapings, expected);
        }
    }
    let polled = poll_news(dataplane);
    assert!(polled.is_pending(), "our own write came back as {polled:?}");
}

async fn failures_are_reported_by_object(dataplane: &mut dyn Dataplane, workload: InterfaceName) {
    let none: InterfaceName = "cali-none".parse().unwrap();
    let route = |dest: &str, interface| Route {
        key: RouteKey { table: RouteTableId::MAIN, dest: dest.parse().unwrap(), metric: 0 },
        target: RouteTarget::Interface(interface),
        class: RouteClass::LocalWorkload,
    };
    let neighbor = |interface| Neighbor { interface, address: "10.65.0.9".parse().unwrap(), mac: Mac::ALL_EE };
    let setting = |interface| InterfaceSetting { interface, path: "net/ipv4/conf/{}/proxy_arp", value: "1".into() };
    let shaping = |shaper| Shaping { shaper, rate: 125_000, burst: 10_000, peak: None };
    let delta = Delta {
        routes_set: vec![route("10.65.0.8/32", none), route("10.65.0.9/32", workload)],
        neighbors_set: vec![neighbor(none), neighbor(workload)],
        settings: vec![setting(none), setting(workload)],
        shapings_set: vec![shaping(Shaper::of_sent(none)), shaping(Shaper::of_received(workload))],
        ..Delta::default()
    };
    let report = dataplane.apply(&delta).await;
    let waits = |error: &DataplaneError| matches!(error, DataplaneError::NoInterface { interface, .. } if interface == "cali-none");
    assert!(report.ruleset.is_none());
    assert!(
        matches!(&report.routes[..], [failure] if failure.key == delta.routes_set[0].key && waits(&failure.error)),
        "{report:?}"
    );
    assert!(matches!(&report.neighbors[..], [(one, error)] if *one == neighbor(none) && waits(error)), "{report:?}");
    assert!(matches!(&report.settings[..], [(one, error)] if *one == setting(none) && waits(error)), "{report:?}");
    let observed = observe(dataplane).await;
    assert!(
        matches!(&report.shapings[..], [(one, error)] if *one == Shaper::of_sent(none) && waits(error)),
        "{report:?}"
    );
    assert_eq!(observed.shapings.keys().collect::<Vec<_>>(), [&workload]);
    assert!(observed.routes.contains_key(&delta.routes_set[1].key) && observed.neighbors.contains(&neighbor(workload)));
    // What is to be removed from an interface that is gone, is gone.
    let removal = Delta {
        routes_removed: delta.routes_set.iter().map(|route| route.key).collect(),
        neighbors_removed: delta.neighbors_set,
        shapings_removed: delta.shapings_set.iter().map(|shaping| shaping.shaper).collect(),
        ..Delta::default()
    };
    complete(&dataplane.apply(&removal).await);
}

async fn connections_end_where_there_are_any(dataplane: &mut dyn Dataplane) {
    for addresses in [vec!["10.65.0.1"], vec!["fd65::1"], vec!["10.65.0.1", "10.65.0.1", "fd65::1"]] {
        let connections_cut = addresses.iter().map(|address| address.parse().unwrap()).collect();
        complete(&dataplane.apply(&Delta { connections_cut, ..Delta::default() }).await);
    }
}

async fn own_writes_are_no_news(dataplane: &mut dyn Dataplane) {
    // What made the fixture may be news.
    while poll_next(dataplane).is_ready() {}
    complete(&dataplane.apply(&sample::delta()).await);
    complete(&dataplane.apply(&sample::removal()).await);
    let polled = poll_news(dataplane);
    assert!(polled.is_pending(), "our own write came back as {polled:?}");
}

async fn connections_are_listed_and_ended_by_name(dataplane: &mut dyn Dataplane) {
    let listing = dataplane.connections(Box::new(|_| true));
    // It does not hold the dataplane.
    observe(dataplane).await;
    let listed = listing.await.unwrap_or_else(|error| panic!("connections are not listed: {error:?}"));
    let names: Vec<_> = listed.connections.into_iter().map(|tracked| tracked.name).collect();
    for _ in 0..2 {
        let ending = dataplane.end_connections(names.clone()).await;
        ending.unwrap_or_else(|error| panic!("connections are not ended: {error:?}"));
    }
    let asked: BTreeSet<RouteQuery> =
        ["127.0.0.1", "192.0.2.77", "::1"].map(|to| RouteQuery { from: None, to: to.parse().unwrap() }).into();
    let ways = dataplane.ways(asked.clone());
    observe(dataplane).await;
    let ways = ways.await.unwrap_or_else(|error| panic!("routes are not looked up: {error:?}"));
    assert!(ways.iter().all(|(query, names)| asked.contains(query) && !names.is_empty()), "{ways:?}");
    let listing = dataplane.connections(Box::new(|_| false)).await;
    assert!(listing.unwrap_or_else(|error| panic!("{error:?}")).connections.is_empty(), "nothing was picked");
}

async fn workloads_are_removed(dataplane: &mut dyn Dataplane, workload: InterfaceName) {
    let before = observe(dataplane).await.links;
    assert!(before.contains_key(&workload));
    for interface in ["cali-none".parse().unwrap(), workload, workload] {
        let removal = dataplane.remove_workload(interface);
        // It does not hold the dataplane.
        observe(dataplane).await;
        removal.await.unwrap_or_else(|error| panic!("{interface} is not removed: {error:?}"));
    }
    let after = observe(dataplane).await;
    assert!(!after.links.contains_key(&workload));
    assert!(after.neighbors.iter().all(|neighbor| neighbor.interface != workload));
}

fn poll_next(dataplane: &mut dyn Dataplane) -> Poll<Result<HostChange, DataplaneError>> {
    pin!(dataplane.next_change()).poll(&mut Context::from_waker(Waker::noop()))
}

/// The same, but for what may be told after a write of our own: that a neighbour is gone, and that limits are to be looked at.
fn poll_news(dataplane: &mut dyn Dataplane) -> Poll<Result<HostChange, DataplaneError>> {
    loop {
        match poll_next(dataplane) {
            Poll::Ready(Ok(HostChange::Neighbor { present: false, .. } | HostChange::Shaping { .. })) => {}
            polled => return polled,
        }
    }
}

async fn observe(dataplane: &mut dyn Dataplane) -> Observed {
    dataplane.observe().await.unwrap_or_else(|error| panic!("observe: {error:?}"))
}

fn complete(report: &ApplyReport) {
    assert!(report.is_complete(), "{report:?}");
}

fn chains(chains: impl IntoIterator<Item = Chain>) -> Delta {
    Delta { chains_set: chains.into_iter().collect(), ..Delta::default() }
}

fn is_sample(observed: &Observed) {
    assert!(observed.table_present);
    let chains = sample::chains();
    assert_eq!(observed.chains.len(), chains.len(), "{:?}", observed.chains.keys());
    for chain in chains {
        let found = &observed.chains[&chain.name];
        assert_eq!((found.base, found.fingerprint), (chain.base, Some(chain.fingerprint())), "chain {}", chain.name);
    }
    let sets = sample::sets();
    assert_eq!(observed.sets.len(), sets.len(), "{:?}", observed.sets.keys());
    for (decl, elements) in sets {
        let found = &observed.sets[&decl.name];
        assert_eq!(found.decl.as_ref(), Some(&decl));
        assert_eq!(found.elements, elements.into_iter().collect(), "elements of {}", decl.name);
    }
}

#[cfg(test)]
mod tests {
    use crate::LinkState;
    use crate::recording::Recording;

    #[tokio::test]
    async fn the_recording_backend_keeps_the_contract() {
        let workload = "cali00001".parse().unwrap();
        let mut recording = Recording::new();
        recording.set_link(workload, Some(LinkState { index: 2, up: true, mtu: 1500 }));
        super::suite(&mut recording, workload).await;
    }
}
