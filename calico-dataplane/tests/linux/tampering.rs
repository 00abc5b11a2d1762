use calico_core::table::{Delta, RouteKey, SetName};
use calico_dataplane::testing::sample::{self, chain_name};
use calico_dataplane::{Dataplane, LinuxDataplane, Observed};

use super::fixture::{in_namespace, open, run};

async fn fingerprinted(dataplane: &mut LinuxDataplane, chain: &str) -> bool {
    let observed = dataplane.observe().await.unwrap();
    observed.chains.get(&chain_name(chain)).unwrap().fingerprint.is_some()
}

async fn repair(dataplane: &mut LinuxDataplane, chain: &str) {
    let chains_set = sample::chains().into_iter().filter(|one| one.name.as_str() == chain).collect();
    assert!(dataplane.apply(&Delta { chains_set, ..Delta::default() }).await.is_complete());
    assert!(fingerprinted(dataplane, chain).await);
}

#[test]
fn a_chain_that_others_wrote_to_has_no_fingerprint() {
    in_namespace(async |mut dataplane| {
        assert!(dataplane.apply(&sample::delta()).await.is_complete());
        let table = "inet calico-dataplane";
        let handles = || {
            let listing = run("nft", &format!("-a list chain {table} every-match"));
            let handles = listing.lines().filter(|line| !line.contains("chain every-match"));
            handles
                .filter_map(|line| line.rsplit_once("# handle "))
                .map(|(_, handle)| handle.to_owned())
                .collect::<Vec<_>>()
        };
        for command in ["add", "insert"] {
            run("nft", &format!("{command} rule {table} every-match counter accept"));
            assert!(!fingerprinted(&mut dataplane, "every-match").await, "{command}");
            repair(&mut dataplane, "every-match").await;
        }
        for place in [0, 3, handles().len() - 1] {
            let handle = handles().swap_remove(place);
            run("nft", &format!("delete rule {table} every-match handle {handle}"));
            assert!(!fingerprinted(&mut dataplane, "every-match").await, "without rule {place}");
            repair(&mut dataplane, "every-match").await;
        }
        let handle = handles().swap_remove(2);
        run("nft", &format!("replace rule {table} every-match handle {handle} counter accept"));
        assert!(!fingerprinted(&mut dataplane, "every-match").await);
        repair(&mut dataplane, "every-match").await;

        run("nft", &format!("flush chain {table} stack-1"));
        let observed = dataplane.observe().await.unwrap();
        let wanted = sample::chains().into_iter().find(|chain| chain.name.as_str() == "stack-1").unwrap();
        assert_ne!(observed.chains.get(&wanted.name).unwrap().fingerprint, Some(wanted.fingerprint()));

        run("nft", &format!("chain {table} filter-forward {{ policy drop; }}"));
        assert!(!fingerprinted(&mut dataplane, "filter-forward").await);
        repair(&mut dataplane, "filter-forward").await;
    });
}

#[test]
fn a_table_put_to_sleep_is_woken() {
    in_namespace(async |mut dataplane| {
        assert!(dataplane.apply(&sample::delta()).await.is_complete());
        run("nft", "add table inet calico-dataplane { flags dormant; }");
        assert!(run("nft", "list table inet calico-dataplane").contains("dormant"));
        assert!(!fingerprinted(&mut dataplane, "filter-forward").await);
        assert!(fingerprinted(&mut dataplane, "every-match").await, "only what hangs at a hook is affected");
        repair(&mut dataplane, "filter-forward").await;
        assert!(!run("nft", "list table inet calico-dataplane").contains("dormant"));
    });
}

#[test]
fn foreign_sets_have_no_declaration() {
    in_namespace(async |mut dataplane| {
        assert!(dataplane.apply(&sample::delta()).await.is_complete());
        let table = "inet calico-dataplane";
        run("nft", &format!("add set {table} timed {{ type ipv4_addr; flags timeout; }}"));
        run("nft", &format!("add set {table} other {{ type ether_addr; }}"));
        run("nft", &format!("add map {table} marks {{ type ipv4_addr : mark; }}"));
        run("nft", &format!("add map {table} targets {{ type ipv4_addr : ipv4_addr . inet_service; }}"));
        run(
            "nft",
            &format!("add set {table} ranges {{ type ipv4_addr; flags interval; elements = {{ 10.0.0.1-10.0.0.6 }} }}"),
        );
        let observed = dataplane.observe().await.unwrap();
        let names = ["timed", "other", "marks", "targets", "ranges"].map(|name| SetName::new(name).unwrap());
        for name in &names {
            assert_eq!(observed.sets.get(name).unwrap().decl, None, "{name}");
        }
        let delta = Delta { sets_removed: names.to_vec(), ..Delta::default() };
        assert!(dataplane.apply(&delta).await.is_complete());
        assert_eq!(dataplane.observe().await.unwrap().sets.len(), sample::sets().len());
    });
}

#[test]
fn what_nft_writes_into_our_sets_is_read() {
    in_namespace(async |mut dataplane| {
        assert!(dataplane.apply(&sample::delta()).await.is_complete());
        let before = dataplane.observe().await.unwrap();
        let table = "inet calico-dataplane";
        for (set, element) in [
            ("hosts4", "10.9.9.9"),
            ("nets4", "172.16.0.0/12"),
            ("ports", "10.9.9.9 . tcp . 99"),
            ("spoof", "\"cali9\" . 10.9.9.9"),
            ("dispatch", "\"cali9\" : goto stack-1"),
            ("floating4", "192.0.2.9 : 10.9.9.9"),
            ("floating6", "\"eth9\" . 2001:db8::9 : fd00::9"),
        ] {
            run("nft", &format!("add element {table} {set} {{ {element} }}"));
            let now = dataplane.observe().await.unwrap();
            let name = SetName::new(set).unwrap();
            let elements = |observed: &Observed| observed.sets.get(&name).unwrap().elements.clone();
            let added = elements(&now).difference(&elements(&before)).cloned().collect::<Vec<_>>();
            assert_eq!(added.len(), 1, "{set}");
            // And written by us, it is the same element to the kernel.
            let change = calico_core::table::ElementDelta { set: name.clone(), removed: added, added: vec![] };
            assert!(dataplane.apply(&Delta { elements: vec![change], ..Delta::default() }).await.is_complete());
            assert_eq!(dataplane.observe().await.unwrap().sets, before.sets);
        }
    });
}

#[test]
fn another_life_of_the_process_recognises_what_the_last_one_wrote() {
    in_namespace(async |mut dataplane| {
        assert!(dataplane.apply(&sample::delta()).await.is_complete());
        let before = dataplane.observe().await.unwrap();
        drop(dataplane);
        let mut next = open();
        assert_eq!(next.observe().await.unwrap(), before);
        // Nothing known from a listing: chains of another kind are found out by the kernel's refusal.
        let mut blind = open();
        let mut chain = sample::chains().into_iter().find(|chain| chain.name.as_str() == "empty").unwrap();
        chain.base = Some(calico_core::table::BaseChain {
            chain_type: calico_core::table::ChainType::Filter,
            hook: calico_core::table::Hook::Input,
            priority: 7,
        });
        assert!(blind.apply(&Delta { chains_set: vec![chain.clone()], ..Delta::default() }).await.is_complete());
        assert_eq!(blind.observe().await.unwrap().chains.get(&chain.name).unwrap().base, chain.base);
    });
}

#[test]
fn only_routes_of_our_protocols_are_seen_and_removed() {
    in_namespace(async |mut dataplane| {
        for (metric, protocol) in [(1, "static"), (2, "bird"), (3, "186"), (4, "80"), (5, "81"), (6, "82")] {
            run("ip", &format!("route add blackhole 10.65.0.0/26 metric {metric} proto {protocol}"));
        }
        let ours: Vec<_> = dataplane.observe().await.unwrap().routes.into_keys().collect();
        assert_eq!(ours.iter().map(|key| key.metric).collect::<Vec<_>>(), [4, 5, 6]);
        let every = (1..=6).map(|metric| RouteKey { metric, ..*ours.first().unwrap() });
        let delta = Delta { routes_removed: every.collect(), ..Delta::default() };
        assert!(dataplane.apply(&delta).await.is_complete());
        let left = run("ip", "route show type blackhole");
        assert_eq!(left.lines().count(), 3, "{left}");
        assert!(dataplane.observe().await.unwrap().routes.is_empty());
    });
}

/// The kernel takes metric zero for "any" in a removal; ours is for the one route.
#[test]
fn the_removal_of_metric_zero_takes_no_other() {
    in_namespace(async |mut dataplane| {
        let of =
            |metric: u32, protocol: u8| format!("route add blackhole 10.65.0.0/26 metric {metric} proto {protocol}");
        run("ip", &of(0, 81));
        run("ip", &of(4096, 82));
        let keys: Vec<_> = dataplane.observe().await.unwrap().routes.into_keys().collect();
        assert_eq!(keys.iter().map(|key| key.metric).collect::<Vec<_>>(), [0, 4096]);
        for _ in 0..2 {
            let delta = Delta { routes_removed: vec![keys[0]], ..Delta::default() };
            assert!(dataplane.apply(&delta).await.is_complete());
            let left: Vec<_> = dataplane.observe().await.unwrap().routes.into_keys().collect();
            assert_eq!(left, [keys[1]]);
        }
    });
}
