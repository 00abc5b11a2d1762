//! Of our tables, only those objects are read that others touched; and whatever they do while we look, all is right in the end.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use calico_core::net::Family;
use calico_core::table::{Datum, Delta, Element, ElementDelta, FieldType, SetDecl, SetKind};
use calico_dataplane::reconcile::{Driver, ReconcileConfig, Reconciler, Step};
use calico_dataplane::testing::faults::record_listed;
use calico_dataplane::testing::sample::{self, chain_name, set_name};
use calico_dataplane::{Dataplane, HostChange, LinuxDataplane, Observed};

use super::fixture::{in_namespace, nft, open};

/// Longest wait for a notification, and for an end of work.
const PATIENCE: Duration = Duration::from_secs(60);
/// A set that nobody touches.
const BIG: &str = "big";
const MEMBERS: u32 = 20_000;
const SEED: u64 = 5;

fn big() -> Delta {
    let member = |number: u32| Element::member([Datum::Addr((0x0a80_0000 + number).to_be_bytes().into())]);
    let set = set_name(BIG);
    let decl = SetDecl::new(set.clone(), vec![FieldType::Addr(Family::V4)], SetKind::Hash);
    let elements = ElementDelta { set, removed: vec![], added: (0..MEMBERS).map(member).collect() };
    Delta { sets_added: vec![decl], elements: vec![elements], ..Delta::default() }
}

async fn steps(driver: &mut Driver) -> Vec<Step> {
    let mut steps = Vec::new();
    loop {
        match driver.step(&|| Duration::ZERO).await {
            Step::Idle => return steps,
            step => steps.push(step),
        }
    }
}

/// A driver that has written the sample and a big set.
async fn settled(dataplane: LinuxDataplane) -> Driver {
    let mut driver = Driver::new(Reconciler::new(Delta::default(), ReconcileConfig::default()), Box::new(dataplane));
    driver.machine().desire(&sample::delta());
    driver.machine().desire(&big());
    driver.machine().set_in_sync();
    steps(&mut driver).await;
    assert!(driver.state().is_settled(), "{:?}", driver.state().failures().collect::<Vec<_>>());
    driver
}

async fn held() -> Observed {
    open().observe().await.unwrap()
}

/// Waits for the first news of our tables and says what it was.
async fn heard(driver: &mut Driver) -> HostChange {
    let news = async {
        loop {
            match driver.next_change().await.unwrap() {
                change @ (HostChange::Objects(_) | HostChange::Ruleset) => return change,
                HostChange::Overrun => panic!("nothing is lost here"),
                _ => {}
            }
        }
    };
    tokio::time::timeout(PATIENCE, news).await.unwrap()
}

fn drift(driver: &mut Driver) -> Vec<String> {
    std::iter::from_fn(|| driver.machine().take_drift()).map(|object| object.to_string()).collect()
}

type Names = &'static [&'static str];

/// What others do, and what of ours is read thereupon; none where it is everything.
const DEEDS: [(&str, Option<Names>, Names); 24] = [
    ("add rule inet calico-dataplane stack-1 accept", Some(&["stack-1"]), &["chain stack-1"]),
    ("insert rule inet calico-dataplane every-match accept", Some(&["every-match"]), &["chain every-match"]),
    ("flush chain inet calico-dataplane stack-1", Some(&["stack-1"]), &["chain stack-1"]),
    ("flush chain arp calico-dataplane stack-1", Some(&["stack-1"]), &["arp chain stack-1"]),
    ("delete chain inet calico-dataplane empty", Some(&[]), &["chain empty"]),
    ("delete chain inet calico-dataplane filter-forward", Some(&[]), &["chain filter-forward"]),
    (
        "chain inet calico-dataplane filter-forward { policy drop; }",
        Some(&["filter-forward"]),
        &["chain filter-forward"],
    ),
    ("add chain inet calico-dataplane foreign", Some(&["foreign"]), &["chain foreign"]),
    (
        "add chain inet calico-dataplane foreign { type filter hook input priority 3; policy drop; }",
        Some(&["foreign"]),
        &["chain foreign"],
    ),
    // Of the name that is left, and of whatever leads there, nothing is told.
    ("rename chain inet calico-dataplane empty other", None, &["chain empty", "chain other"]),
    (
        "delete chain inet calico-dataplane empty; rename chain inet calico-dataplane every-match empty",
        None,
        &["chain empty", "chain every-match"],
    ),
    ("rename chain inet calico-dataplane stack-1 other", None, &["chain stack-1", "chain every-match", "set dispatch"]),
    (
        "rename chain inet calico-dataplane stack-1 other; add chain inet calico-dataplane stack-1",
        None,
        &["chain stack-1", "chain every-match", "set dispatch"],
    ),
    ("add element inet calico-dataplane hosts4 { 10.9.9.9 }", Some(&["hosts4"]), &["set hosts4"]),
    ("delete element inet calico-dataplane hosts4 { 10.0.0.1 }", Some(&["hosts4"]), &["set hosts4"]),
    ("delete element inet calico-dataplane nets4 { 10.0.0.0/25 }", Some(&["nets4"]), &["set nets4"]),
    ("flush set inet calico-dataplane hosts6", Some(&["hosts6"]), &["set hosts6"]),
    (
        "delete element inet calico-dataplane dispatch { \"cali1\" }; \
         add element inet calico-dataplane dispatch { \"cali1\" : accept }",
        Some(&["dispatch"]),
        &["set dispatch"],
    ),
    ("add set inet calico-dataplane foreign { type ether_addr; }", Some(&[]), &["set foreign"]),
    (
        "add set inet calico-dataplane foreign { type ipv4_addr; elements = { 10.1.1.1 }; }",
        Some(&["foreign"]),
        &["set foreign"],
    ),
    ("add rule inet calico-dataplane stack-1 tcp dport { 1, 2 } accept", Some(&["stack-1"]), &["chain stack-1"]),
    (
        "flush chain inet calico-dataplane stack-1; flush set inet calico-dataplane hosts4; \
         add chain arp calico-dataplane foreign",
        Some(&["foreign", "hosts4", "stack-1"]),
        &["chain stack-1", "arp chain foreign", "set hosts4"],
    ),
    ("add table inet calico-dataplane { flags dormant; }", None, &["chain filter-forward"]),
    ("delete table inet calico-dataplane", None, &["chain stack-1", "set big"]),
];

#[test]
fn only_what_others_touched_is_read_and_made_right() {
    in_namespace(async |dataplane| {
        let mut driver = settled(dataplane).await;
        drift(&mut driver);
        let expected = held().await;
        for (commands, read, undone) in DEEDS {
            record_listed();
            nft(&format!(
                "{}\n",
                commands.replace("; ", "\n").replace(";\n}", "; }").replace("\npriority", "; priority")
            ));
            let news = heard(&mut driver).await;
            let looked = steps(&mut driver).await.iter().any(|step| matches!(step, Step::Looked));
            // A map without a name of its own is part of its rule.
            let listed = record_listed().into_iter().filter(|name| !name.starts_with("__map"));
            let listed: BTreeSet<String> = listed.collect();
            match read {
                Some(read) => {
                    assert!(matches!(news, HostChange::Objects(_)) && !looked, "{commands}: {news:?}");
                    assert_eq!(listed, read.iter().map(|name| (*name).to_owned()).collect(), "{commands}");
                }
                None => assert!(looked && listed.contains("hosts4"), "{commands}: {news:?}"),
            }
            let told = drift(&mut driver);
            assert!(undone.iter().all(|object| told.iter().any(|one| one == object)), "{commands}: {told:?}");
            assert!(read.is_none() || told.len() == undone.len(), "{commands}: {told:?}");
            assert!(driver.state().is_settled(), "{commands}: {:?}", driver.state().failures().collect::<Vec<_>>());
            assert_eq!(held().await, expected, "{commands}");
        }
    });
}

#[test]
fn more_objects_than_are_worth_naming_are_made_right() {
    in_namespace(async |dataplane| {
        let mut driver = settled(dataplane).await;
        let expected = held().await;
        let chains = (0..3000).map(|number| format!("add chain inet calico-dataplane foreign-{number}\n"));
        nft(&chains.collect::<String>());
        assert_eq!(heard(&mut driver).await, HostChange::Ruleset);
        steps(&mut driver).await;
        assert_eq!(held().await, expected);
    });
}

/// What is read is what is there when somebody asks, not when it was told.
#[test]
fn what_came_right_meanwhile_is_no_news() {
    in_namespace(async |dataplane| {
        let mut driver = settled(dataplane).await;
        nft("add element inet calico-dataplane hosts4 { 10.9.9.9 }\n");
        nft("delete element inet calico-dataplane hosts4 { 10.9.9.9 }\n");
        nft("flush chain inet calico-dataplane stack-1\n");
        // Before that is heard, something else is wanted of the same chain and of the same set, and written.
        let mut chain = sample::chains().into_iter().find(|chain| chain.name == chain_name("stack-1")).unwrap();
        chain.rules.extend(chain.rules.clone());
        let added = vec![sample::member([sample::addr("10.0.0.77")])];
        let hosts = ElementDelta { set: set_name("hosts4"), removed: vec![], added };
        driver.machine().desire(&Delta { chains_set: vec![chain], elements: vec![hosts], ..Delta::default() });
        assert_eq!(steps(&mut driver).await.len(), 1);
        drift(&mut driver);
        let expected = held().await;
        assert!(matches!(heard(&mut driver).await, HostChange::Objects(_)));
        assert!(steps(&mut driver).await.is_empty());
        assert!(drift(&mut driver).is_empty());
        assert_eq!(held().await, expected);
    });
}

/// Somebody writes as fast as `nft` can be run, while we look and make it right.
#[test]
fn whatever_others_do_meanwhile_all_is_right_in_the_end() {
    in_namespace(async |dataplane| {
        let mut driver = settled(dataplane).await;
        let expected = held().await;
        let vandal = std::thread::spawn(|| {
            let harmless = DEEDS.iter().filter(|(commands, ..)| !commands.contains("rename"));
            let deeds: Vec<&str> = harmless.map(|(commands, ..)| *commands).collect();
            let mut random = SEED;
            for _ in 0..200 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let Some(commands) = deeds.get(usize::try_from(random >> 33).unwrap() % deeds.len()) else { continue };
                // What is not there just now cannot be undone.
                let _ = std::process::Command::new("nft").arg(commands).output().unwrap();
            }
        });
        let started = Instant::now();
        let settled = async {
            loop {
                let is_over = vandal.is_finished();
                let next = tokio::time::timeout(Duration::from_millis(100), driver.next_change());
                next.await.into_iter().for_each(|change| drop(change.unwrap()));
                while !matches!(driver.step(&move || started.elapsed()).await, Step::Idle) {}
                if is_over && driver.state().is_settled() && held().await == expected {
                    return;
                }
            }
        };
        let outcome = tokio::time::timeout(PATIENCE, settled).await;
        let failures = || driver.state().failures().map(|(o, e)| format!("{o}: {e}")).collect::<Vec<_>>();
        assert!(outcome.is_ok(), "seed {SEED}: {:?}", failures());
        vandal.join().unwrap();
    });
}
