//! Transactions at the edges: long names, many elements, whole address spaces, strangers in between, and the one object in thousands that the
//! kernel refuses.

use std::collections::BTreeSet;
use std::time::Duration;

use calico_core::net::Family;
use calico_core::table::{
    BaseChain, Chain, ChainName, ChainType, Delta, Element, ElementDelta, FieldType, Hook, Match, Rule, SetDecl,
    SetKind, SetName, Table, Verdict,
};
use calico_dataplane::reconcile::{Driver, ReconcileConfig, Reconciler, Step};
use calico_dataplane::testing::sample::{addr, chain_name, interface, member, net, set_name};
use calico_dataplane::{Dataplane, LinuxDataplane};

use super::fixture::{in_namespace, run};

const V4: FieldType = FieldType::Addr(Family::V4);

async fn complete(dataplane: &mut LinuxDataplane, delta: &Delta) {
    let report = dataplane.apply(delta).await;
    assert!(report.is_complete(), "{report:?}");
}

async fn elements(dataplane: &mut LinuxDataplane, set: &SetName) -> BTreeSet<Element> {
    dataplane.observe().await.unwrap().sets.remove(set).unwrap().elements
}

fn change(set: &SetName, removed: Vec<Element>, added: Vec<Element>) -> Delta {
    let change = ElementDelta { set: set.clone(), removed, added };
    Delta { elements: vec![change], ..Delta::default() }
}

fn plain(name: ChainName, verdict: Verdict) -> Chain {
    Chain { name, base: None, rules: vec![Rule { verdict: Some(verdict), ..Rule::default() }] }
}

#[test]
fn names_have_up_to_255_octets() {
    in_namespace(async |mut dataplane| {
        for table in Table::ALL {
            let long = |letter: &str| letter.repeat(255);
            let (target, caller) =
                (ChainName::of(table, &long("t")).unwrap(), ChainName::of(table, &long("c")).unwrap());
            let map =
                SetDecl::new(SetName::of(table, &long("m")).unwrap(), vec![FieldType::Interface], SetKind::VerdictMap);
            let leads = Element::verdict([interface("cali1")], Verdict::Goto(target.clone()));
            let delta = Delta {
                sets_added: vec![map.clone()],
                chains_set: vec![
                    plain(target.clone(), Verdict::Drop),
                    plain(caller.clone(), Verdict::Jump(target.clone())),
                ],
                ..change(&map.name, vec![], vec![leads.clone()])
            };
            for _ in 0..2 {
                complete(&mut dataplane, &delta).await;
                let observed = dataplane.observe().await.unwrap();
                for chain in &delta.chains_set {
                    assert_eq!(observed.chains.get(&chain.name).unwrap().fingerprint, Some(chain.fingerprint()));
                }
                assert_eq!(observed.sets.get(&map.name).unwrap().elements, BTreeSet::from([leads.clone()]));
            }
            let family = if table == Table::Arp { "arp" } else { "inet" };
            assert!(run("nft", &format!("list table {family} calico-dataplane")).contains(&format!("jump {target}")));
            let removal = Delta {
                chains_removed: vec![target, caller],
                sets_removed: vec![map.name.clone()],
                ..change(&map.name, vec![leads], vec![])
            };
            complete(&mut dataplane, &removal).await;
        }
        let observed = dataplane.observe().await.unwrap();
        assert!(observed.chains.is_empty() && observed.sets.is_empty());
    });
}

/// More than a length of sixteen bits can count, in one transaction, in plain sets, intervals and maps.
#[test]
fn one_transaction_holds_more_than_64k_elements() {
    in_namespace(async |mut dataplane| {
        let address = |number: u32| std::net::IpAddr::from((0x0a00_0000 + number).to_be_bytes());
        let host = |number: u32| calico_core::table::Datum::Addr(address(number));
        let prefix = |number: u32| {
            let cidr = calico_core::net::Cidr::new(address(number * 4), 31).unwrap();
            calico_core::table::Datum::Net(cidr)
        };
        let targets = SetKind::AddressMap(Family::V4);
        let kinds = [("hosts", SetKind::Hash), ("nets", SetKind::Interval), ("targets", targets)];
        let decls = kinds.map(|(name, kind)| SetDecl::new(set_name(name), vec![V4], kind));
        const COUNT: u32 = 70_000;
        let added = |kind: SetKind| -> Vec<Element> {
            match kind {
                SetKind::Interval => (0..COUNT).map(|number| Element::member([prefix(number)])).collect(),
                SetKind::Hash => (0..COUNT).map(|number| Element::member([host(number)])).collect(),
                _ => (0..COUNT).map(|number| Element::address([host(number)], address(number + 1))).collect(),
            }
        };
        let changes = |removed: bool| {
            decls
                .iter()
                .map(|decl| {
                    let elements = added(decl.kind);
                    let (removed, added) = if removed { (elements, vec![]) } else { (vec![], elements) };
                    ElementDelta { set: decl.name.clone(), removed, added }
                })
                .collect()
        };
        let delta = Delta { sets_added: decls.to_vec(), elements: changes(false), ..Delta::default() };
        complete(&mut dataplane, &delta).await;
        let observed = dataplane.observe().await.unwrap();
        for decl in &decls {
            let expected: BTreeSet<_> = added(decl.kind).into_iter().collect();
            assert!(observed.sets.get(&decl.name).unwrap().elements == expected, "{decl}");
        }
        complete(&mut dataplane, &Delta { elements: changes(true), ..Delta::default() }).await;
        let observed = dataplane.observe().await.unwrap();
        assert!(observed.sets.values().all(|set| set.elements.is_empty()));
    });
}

#[test]
fn intervals_cover_whole_address_spaces_and_give_way() {
    in_namespace(async |mut dataplane| {
        for (family, whole, halves, inner) in [
            (Family::V4, "0.0.0.0/0", ["0.0.0.0/1", "128.0.0.0/1"], "10.0.0.0/8"),
            (Family::V6, "::/0", ["::/1", "8000::/1"], "fd00::/8"),
        ] {
            let decl = SetDecl::new(set_name("nets"), vec![FieldType::Addr(family)], SetKind::Interval);
            complete(&mut dataplane, &Delta { sets_added: vec![decl.clone()], ..Delta::default() }).await;
            let of = |texts: &[&str]| texts.iter().map(|text| member([net(text)])).collect::<Vec<_>>();
            // Each overlaps the one before: what goes must have gone before what comes.
            let steps = [&[][..], &[whole], &halves, &[inner], &[whole], &[halves[1]], &[halves[0]], &[]];
            for step in steps.windows(2) {
                let [before, after] = step else { continue };
                complete(&mut dataplane, &change(&decl.name, of(before), of(after))).await;
                let found = elements(&mut dataplane, &decl.name).await;
                assert_eq!(found, of(after).into_iter().collect(), "{before:?} to {after:?}");
            }
            complete(&mut dataplane, &Delta { sets_removed: vec![decl.name], ..Delta::default() }).await;
        }
    });
}

#[test]
fn what_a_key_leads_to_changes_in_one_transaction() {
    in_namespace(async |mut dataplane| {
        let verdicts = SetDecl::new(set_name("verdicts"), vec![FieldType::Interface], SetKind::VerdictMap);
        let targets = SetDecl::new(set_name("targets"), vec![V4], SetKind::AddressMap(Family::V4));
        let delta = Delta {
            sets_added: vec![verdicts.clone(), targets.clone()],
            chains_set: vec![plain(chain_name("a"), Verdict::Drop), plain(chain_name("b"), Verdict::Drop)],
            ..Delta::default()
        };
        complete(&mut dataplane, &delta).await;
        let leads = |verdict| Element::verdict([interface("cali1")], verdict);
        let to = |text: &str| Element::address([addr("192.0.2.1")], text.parse().unwrap());
        let goto = |name| leads(Verdict::Goto(chain_name(name)));
        let ways = [
            (&verdicts, vec![goto("a"), goto("b"), leads(Verdict::Drop), leads(Verdict::Accept), goto("a")]),
            (&targets, vec![to("10.0.0.1"), to("10.0.0.2"), to("10.0.0.1")]),
        ];
        for (decl, way) in ways {
            let mut before = Vec::new();
            for element in way {
                complete(&mut dataplane, &change(&decl.name, before, vec![element.clone()])).await;
                assert_eq!(elements(&mut dataplane, &decl.name).await, BTreeSet::from([element.clone()]));
                // Another value for a key that is there is refused, and nothing changes.
                let other = if decl == &verdicts { leads(Verdict::Return) } else { to("10.9.9.9") };
                assert!(!dataplane.apply(&change(&decl.name, vec![], vec![other])).await.is_complete());
                assert_eq!(elements(&mut dataplane, &decl.name).await, BTreeSet::from([element.clone()]));
                before = vec![element];
            }
        }
    });
}

struct Agent {
    driver: Driver,
    now: Duration,
}

impl Agent {
    fn new(dataplane: LinuxDataplane, desired: &Delta) -> Self {
        let machine = Reconciler::new(Delta::default(), ReconcileConfig::default());
        let mut driver = Driver::new(machine, Box::new(dataplane));
        driver.machine().desire(desired);
        driver.machine().set_in_sync();
        Self { driver, now: Duration::ZERO }
    }

    /// Works until nothing is left to do now; nothing that the kernel announces is heard.
    async fn work(&mut self) {
        let now = self.now;
        while !matches!(self.driver.step(&|| now).await, Step::Idle) {}
    }

    /// Works, and waits out every pause.
    async fn settle(&mut self) {
        for _ in 0..20 {
            self.work().await;
            if self.driver.state().is_settled() {
                return;
            }
            self.now += Duration::from_secs(120);
        }
        panic!("never settled: {:?}", self.driver.state().failures().collect::<Vec<_>>());
    }

    fn failures(&self) -> Vec<String> {
        self.driver.state().failures().map(|(object, _)| object.to_string()).collect()
    }
}

/// What a stranger did just before, the kernel says by its refusals (EEXIST, EBUSY); they are looked into and overcome.
#[test]
fn strangers_in_between_are_overcome() {
    in_namespace(async |dataplane| {
        let nets = SetDecl::new(set_name("nets"), vec![V4], SetKind::Interval);
        let hosts = SetDecl::new(set_name("hosts"), vec![V4], SetKind::Hash);
        let in_hosts = Match::InSet {
            key: vec![calico_core::table::Field::SrcAddr(Family::V4)],
            set: hosts.name.clone(),
            negated: false,
        };
        let user = Chain {
            rules: vec![Rule { matches: vec![in_hosts], ..Rule::default() }],
            ..plain(chain_name("user"), Verdict::Drop)
        };
        let desired = Delta {
            sets_added: vec![nets.clone(), hosts.clone()],
            chains_set: vec![user.clone(), plain(chain_name("target"), Verdict::Drop)],
            ..Delta::default()
        };
        let mut agent = Agent::new(dataplane, &desired);
        agent.settle().await;
        let table = "inet calico-dataplane";

        run("nft", &format!("add element {table} nets {{ 10.0.0.0/8 }}"));
        agent.driver.machine().desire(&change(&nets.name, vec![], vec![member([net("10.1.0.0/16")])]));
        agent.settle().await;
        let listing = run("nft", &format!("list set {table} nets"));
        assert!(listing.contains("10.1.0.0/16") && !listing.contains("10.0.0.0/8"), "{listing}");

        run("nft", &format!("add chain {table} foreign {{ type filter hook input priority 5; }}"));
        run("nft", &format!("add rule {table} foreign ip saddr @hosts jump target"));
        agent.driver.machine().desire(&Delta {
            sets_removed: vec![hosts.name],
            chains_removed: vec![user.name, chain_name("target")],
            ..Delta::default()
        });
        agent.settle().await;
        let listing = run("nft", &format!("list table {table}"));
        assert!(!listing.contains("foreign") && !listing.contains("hosts") && !listing.contains("target"), "{listing}");

        run("nft", &format!("add set {table} late {{ type inet_service; }}"));
        run("nft", &format!("add chain {table} late {{ type nat hook output priority 5; }}"));
        let late = SetDecl::new(set_name("late"), vec![V4], SetKind::Hash);
        agent.driver.machine().desire(&Delta {
            sets_added: vec![late.clone()],
            chains_set: vec![plain(chain_name("late"), Verdict::Drop)],
            ..change(&late.name, vec![], vec![member([addr("10.0.0.1")])])
        });
        agent.settle().await;
        let listing = run("nft", &format!("list table {table}"));
        assert!(listing.contains("type ipv4_addr") && !listing.contains("inet_service") && !listing.contains("nat"));
    });
}

/// Masquerading outside a chain for it, which the kernel alone finds out.
fn refused(number: usize) -> Chain {
    let verdict = Verdict::Masquerade { ports: None, random: false };
    let base = BaseChain { chain_type: ChainType::Filter, hook: Hook::Input, priority: 1 };
    Chain { base: Some(base), ..plain(chain_name(&format!("chain-{number}")), verdict) }
}

#[test]
fn the_one_to_blame_among_thousands_is_found() {
    in_namespace(async |dataplane| {
        const COUNT: usize = 3000;
        let chain = |number: usize| match number {
            1777 => refused(number),
            _ => plain(chain_name(&format!("chain-{number}")), Verdict::Return),
        };
        let decl = |number: usize| SetDecl::new(set_name(&format!("set-{number}")), vec![V4], SetKind::Hash);
        let element = |number: usize| ElementDelta {
            set: decl(number).name,
            removed: vec![],
            added: vec![member([addr("10.0.0.1")])],
        };
        let desired = Delta {
            sets_added: (0..COUNT).map(decl).collect(),
            chains_set: (0..COUNT).map(chain).collect(),
            elements: (0..COUNT).map(element).collect(),
            ..Delta::default()
        };
        let mut agent = Agent::new(dataplane, &desired);
        agent.work().await;
        assert_eq!(agent.failures(), ["chain chain-1777"]);
        let observed = super::fixture::open().observe().await.unwrap();
        assert_eq!((observed.chains.len(), observed.sets.len()), (COUNT - 1, COUNT));
        assert!(observed.sets.values().all(|set| set.elements.len() == 1));
        // Once it is mended it is written like the others.
        agent
            .driver
            .machine()
            .desire(&Delta { chains_set: vec![plain(chain_name("chain-1777"), Verdict::Return)], ..Delta::default() });
        agent.settle().await;
        assert_eq!(super::fixture::open().observe().await.unwrap().chains.len(), COUNT);
    });
}
