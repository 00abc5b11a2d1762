use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use calico_core::table::{Delta, Neighbor, Route, RouteClass, RouteKey, RouteTableId, RouteTarget, SetName};
use calico_dataplane::reconcile::{Driver, ReconcileConfig, Reconciler, Step};
use calico_dataplane::testing::sample::{self, arp_set, set_name};
use calico_dataplane::{Dataplane, HostChange, LinuxDataplane};

use super::fixture::{WORKLOAD, in_namespace, run};

/// Longest wait for a notification.
const PATIENCE: Duration = Duration::from_secs(30);

async fn next(dataplane: &mut LinuxDataplane) -> HostChange {
    let change = tokio::time::timeout(PATIENCE, dataplane.next_change()).await;
    change.unwrap_or_else(|_| panic!("no change was announced within {PATIENCE:?}")).unwrap()
}

/// Skips what the namespace's birth announced.
async fn settle(dataplane: &mut LinuxDataplane) {
    run("ip", "link add settled type veth peer name settled1");
    let settled = |change: &HostChange| matches!(change, HostChange::Link { name, .. } if name.as_str() == "settled");
    while !settled(&next(dataplane).await) {}
}

fn key(dest: &str, metric: u32) -> RouteKey {
    RouteKey { table: RouteTableId::MAIN, dest: dest.parse().unwrap(), metric }
}

fn route(metric: u32) -> Route {
    Route { key: key("10.65.0.1/32", metric), target: RouteTarget::Blackhole, class: RouteClass::Bgp }
}

fn neighbor() -> Neighbor {
    Neighbor {
        interface: WORKLOAD.parse().unwrap(),
        address: "10.65.0.1".parse().unwrap(),
        mac: "02:00:00:00:00:01".parse().unwrap(),
    }
}

fn everything() -> Delta {
    Delta { routes_set: vec![route(5), route(6)], neighbors_set: vec![neighbor()], ..sample::delta() }
}

/// That this set was touched, and nothing else.
fn only_of(change: HostChange, set: &SetName) {
    let HostChange::Objects(objects) = change else { panic!("{change:?}") };
    assert!(objects.chains.is_empty() && objects.sets.keys().eq([set]), "{objects:?}");
}

#[test]
fn only_what_others_do_is_reported() {
    in_namespace(async |mut dataplane| {
        dataplane.observe().await.unwrap();
        settle(&mut dataplane).await;
        assert!(dataplane.apply(&everything()).await.is_complete());

        run("nft", "add table inet other");
        run("nft", "add element inet calico-dataplane hosts4 { 10.9.9.9 }");
        only_of(next(&mut dataplane).await, &set_name("hosts4"));

        run("nft", "add table arp other");
        run("nft", "add chain arp other calico-dataplane");
        run("nft", "add element arp calico-dataplane hosts4 { 10.9.9.9 }");
        only_of(next(&mut dataplane).await, &arp_set("hosts4"));

        run("ip", "route del blackhole 10.65.0.1/32 metric 5");
        assert_eq!(next(&mut dataplane).await, HostChange::Route { key: route(5).key, route: None });

        run("ip", "route replace unreachable 10.65.0.1/32 metric 6 proto static");
        assert_eq!(next(&mut dataplane).await, HostChange::Route { key: route(6).key, route: None });

        run("ip", "route add blackhole 10.65.0.1/32 metric 7 proto 82");
        assert_eq!(next(&mut dataplane).await, HostChange::Route { key: route(7).key, route: Some(route(7)) });

        run("ip", &format!("neigh del 10.65.0.1 dev {WORKLOAD}"));
        let HostChange::Neighbor { neighbor: gone, present: false } = next(&mut dataplane).await else {
            panic!("a deleted neighbour is reported as gone");
        };
        assert_eq!((gone.interface, gone.address), (neighbor().interface, neighbor().address));
    });
}

#[test]
fn links_come_go_and_change_their_names() {
    in_namespace(async |mut dataplane| {
        dataplane.observe().await.unwrap();
        settle(&mut dataplane).await;
        let link = async |dataplane: &mut LinuxDataplane, wanted: &str| loop {
            match next(dataplane).await {
                HostChange::Link { name, state } if name.as_str() == wanted => break state,
                _ => {}
            }
        };
        run("ip", "link add cali7 type veth peer name peer7");
        let born = link(&mut dataplane, "cali7").await.unwrap();
        assert!(!born.up);
        run("ip", "link set cali7 up");
        assert!(link(&mut dataplane, "cali7").await.unwrap().up);
        run("ip", "link set cali7 down");
        assert!(!link(&mut dataplane, "cali7").await.unwrap().up);
        run("ip", "link set cali7 name cali8");
        assert_eq!(link(&mut dataplane, "cali7").await, None);
        assert_eq!(link(&mut dataplane, "cali8").await, Some(born));
        run("ip", "link del cali8");
        assert_eq!(link(&mut dataplane, "cali8").await, None);
    });
}

/// Whatever is done to either table is noticed and undone, and to no other.
#[test]
fn both_tables_are_repaired_and_strangers_left_alone() {
    in_namespace(async |dataplane| {
        let mut driver =
            Driver::new(Reconciler::new(Delta::default(), ReconcileConfig::default()), Box::new(dataplane));
        driver.machine().desire(&sample::delta());
        driver.machine().set_in_sync();
        let clock = || Duration::ZERO;
        while !matches!(driver.step(&clock).await, Step::Idle) {}
        let listing = || {
            let tables = ["inet", "arp"].map(|family| run("nft", &format!("list table {family} calico-dataplane")));
            tables.concat()
        };
        run("nft", "add table arp calico");
        run("nft", "add chain arp calico calico-dataplane { type filter hook output priority 0; }");
        run("nft", "add rule arp calico calico-dataplane arp operation reply counter");
        let (wanted, foreign) = (listing(), run("nft", "list table arp calico"));
        for command in [
            "delete table arp calico-dataplane",
            "flush chain arp calico-dataplane filter-output",
            "add rule arp calico-dataplane stack-1 accept",
            "delete element arp calico-dataplane hosts4 { 10.0.0.3 }",
            "add set arp calico-dataplane other { type ipv4_addr; }",
            "add table arp calico-dataplane { flags dormant; }",
            "delete table inet calico-dataplane",
            "flush ruleset arp",
        ] {
            run("nft", command);
            let of_tables = |change: HostChange| matches!(change, HostChange::Ruleset | HostChange::Objects(_));
            while !of_tables(tokio::time::timeout(PATIENCE, driver.next_change()).await.unwrap().unwrap()) {}
            while !matches!(driver.step(&clock).await, Step::Idle) {}
            assert!(driver.state().is_settled(), "{command}: {:?}", driver.state().failures().collect::<Vec<_>>());
            assert_eq!(sorted(&listing()), sorted(&wanted), "{command}");
            if command != "flush ruleset arp" {
                assert_eq!(run("nft", "list table arp calico"), foreign);
            }
        }
    });
}

/// A set's elements come in no particular order, and chains in that of their making.
fn sorted(listing: &str) -> Vec<String> {
    let words =
        listing.split([',', '\n']).map(|line| line.trim().trim_start_matches("elements = {").trim_end_matches('}'));
    let mut words: Vec<String> = words.map(|word| word.trim().to_owned()).collect();
    words.sort();
    words
}

#[test]
fn a_new_address_brings_back_a_route_that_failed_for_lack_of_it() {
    in_namespace(async |dataplane| {
        let mut driver =
            Driver::new(Reconciler::new(Delta::default(), ReconcileConfig::default()), Box::new(dataplane));
        driver.machine().set_in_sync();
        let via = Route { target: RouteTarget::Via("192.0.2.1".parse().unwrap()), ..route(4096) };
        driver.machine().desire(&Delta { routes_set: vec![via], ..Delta::default() });
        // Time stands still: no pause ever ends.
        let clock = || Duration::ZERO;
        while !matches!(driver.step(&clock).await, Step::Idle) {}
        assert_eq!(driver.state().failures().count(), 1, "no way to the gateway");

        run("ip", "address add 192.0.2.2/24 dev peer0");
        let address = HostChange::Address {
            interface: "peer0".parse().unwrap(),
            address: "192.0.2.2".parse().unwrap(),
            present: true,
        };
        while tokio::time::timeout(PATIENCE, driver.next_change()).await.unwrap().unwrap() != address {}
        while !matches!(driver.step(&clock).await, Step::Idle) {}
        assert!(driver.state().is_settled(), "{:?}", driver.state().failures().collect::<Vec<_>>());
        assert!(run("ip", "route show").contains("10.65.0.1 via 192.0.2.1"));
    });
}

#[test]
fn addresses_are_seen_and_followed_under_every_name() {
    in_namespace(async |dataplane| {
        run("ip", "address add 192.0.2.1/24 dev peer0");
        let machine = Reconciler::new(Delta::default(), ReconcileConfig::default());
        let mut driver = Driver::new(machine, Box::new(dataplane));
        let mut known = BTreeMap::new();
        let mut until = async |name: &str, wanted: Option<&[&str]>| {
            let wanted: Option<Vec<IpAddr>> = wanted.map(|all| all.iter().map(|one| one.parse().unwrap()).collect());
            loop {
                while !matches!(driver.step(&|| Duration::ZERO).await, Step::Idle) {}
                for (name, addresses) in driver.machine().take_interfaces() {
                    known.insert(name.as_str().to_owned(), addresses);
                }
                if known.get(name) == Some(&wanted) {
                    return;
                }
                let change = tokio::time::timeout(PATIENCE, driver.next_change()).await;
                change.unwrap_or_else(|_| panic!("{name} never has {wanted:?}: {known:?}")).unwrap();
            }
        };
        until("peer0", Some(&["192.0.2.1"])).await;
        run("ip", "address add 2001:db8::1/64 dev peer0 nodad");
        until("peer0", Some(&["192.0.2.1", "2001:db8::1"])).await;
        run("ip", "address del 192.0.2.1/24 dev peer0");
        until("peer0", Some(&["2001:db8::1"])).await;
        run("ip", "link set peer0 down");
        run("ip", "address add 192.0.2.9/24 dev peer0");
        run("ip", "link set peer0 name uplink0");
        until("peer0", None).await;
        until("uplink0", Some(&["192.0.2.9"])).await;
        run("ip", "link del uplink0");
        until("uplink0", None).await;
    });
}

#[test]
fn a_bulk_of_own_writes_overruns_nothing() {
    in_namespace(async |mut dataplane| {
        dataplane.observe().await.unwrap();
        settle(&mut dataplane).await;
        // A default receive queue holds about 200 KiB; this would be some twenty times as much.
        let routes = (0..20_000)
            .map(|number: u32| Route { key: RouteKey { metric: number + 1, ..key("10.65.0.1/32", 0) }, ..route(0) });
        let delta = Delta { routes_set: routes.collect(), ..Delta::default() };
        assert!(dataplane.apply(&delta).await.is_complete());
        run("ip", "route add blackhole 10.99.0.0/16 proto 82 metric 1");
        let change = next(&mut dataplane).await;
        assert!(
            matches!(change, HostChange::Route { key: found, .. } if found == key("10.99.0.0/16", 1)),
            "{change:?}"
        );
    });
}
