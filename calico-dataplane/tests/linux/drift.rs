//! What others do to each class of our objects is heard of, told by object, and made right; what is theirs stays.

use std::time::Duration;

use calico_core::table::Datum;
use calico_core::testing::Generator;
use calico_dataplane::reconcile::Object;
use calico_dataplane::{HostChange, Observed};

use super::fixture::{nft, run};
use super::host::{Life, assert_same, held, here, in_host};

/// Longest wait for a notification.
const PATIENCE: Duration = Duration::from_secs(30);
const SEED: u64 = 11;
const TABLE: &str = "inet calico-dataplane";

/// Tables of others: one that looks like ours, one in which our names are.
const FOREIGN: &str = "\
table inet firewalld {
    set hosts { type ipv4_addr; elements = { 10.9.9.9 } }
    chain filter_FORWARD { type filter hook forward priority 10; policy accept; ip saddr @hosts drop; }
}
table ip calico-dataplane {
    chain from-workload { counter drop; }
}
";

fn foreign() -> String {
    ["inet firewalld", "ip calico-dataplane"].map(|table| run("nft", &format!("-a list table {table}"))).concat()
}

/// A command that undoes something, and whether an object is what it undid.
struct Deed {
    command: String,
    is_told: Box<dyn Fn(&Object) -> bool + Send>,
}

fn deed(command: String, is_told: impl Fn(&Object) -> bool + Send + 'static) -> Deed {
    Deed { command, is_told: Box::new(is_told) }
}

/// One for each class and each way to change it.
fn deeds(held: &Observed) -> Vec<Deed> {
    let is_set = |object: &Object| matches!(object, Object::Set(_));
    let is_chain = |object: &Object| matches!(object, Object::Chain(_));
    let (route, _) = held.routes.iter().find(|(key, _)| key.dest.address().is_ipv4()).unwrap();
    let neighbor = held.neighbors.iter().next().unwrap();
    let policy = held.chains.keys().find(|name| name.as_str().starts_with("policy-in/")).unwrap();
    let (hosts, member) = held
        .sets
        .iter()
        .find_map(|(name, set)| match &*set.elements.first()?.key {
            [Datum::Addr(address)] => Some((name, *address)),
            _ => None,
        })
        .unwrap();
    let (route, neighbor) = (*route, *neighbor);
    let is_route = move |object: &Object| *object == Object::Route(route);
    let is_neighbor = move |object: &Object| *object == Object::Neighbor(neighbor.interface, neighbor.address);
    let mut deeds = vec![
        deed(format!("nft add rule {TABLE} from-workload accept"), is_chain),
        deed(format!("nft insert rule {TABLE} {policy} accept"), is_chain),
        deed(format!("nft flush chain {TABLE} from-workload"), is_chain),
        deed(format!("nft add chain {TABLE} foreign"), is_chain),
        deed(format!("nft add set {TABLE} foreign {{ type ipv4_addr; }}"), is_set),
        deed(format!("nft add map {TABLE} foreign {{ type ipv4_addr : mark; }}"), is_set),
        deed(format!("nft add element {TABLE} {hosts} {{ 10.99.99.99 }}"), is_set),
        deed(format!("nft delete element {TABLE} {hosts} {{ {member} }}"), is_set),
        deed(format!("nft flush set {TABLE} {hosts}"), is_set),
        deed(format!("nft add table {TABLE} {{ flags dormant; }}"), is_chain),
        deed(format!("nft flush table {TABLE}"), is_chain),
        deed(format!("nft delete table {TABLE}"), is_chain),
        deed(format!("ip route del {} metric {}", route.dest, route.metric), is_route),
        deed(format!("ip route replace unreachable {} metric {}", route.dest, route.metric), is_route),
        deed(format!("ip neigh del {} dev {}", neighbor.address, neighbor.interface), is_neighbor),
        deed(
            format!(
                "ip neigh replace {} dev {} lladdr 02:00:00:00:00:99 nud permanent",
                neighbor.address, neighbor.interface
            ),
            is_neighbor,
        ),
    ];
    let maps = held.sets.iter().filter(|(_, set)| set.elements.iter().any(|element| element.data.is_some()));
    for (map, _) in maps {
        deeds.push(deed(format!("nft flush map {TABLE} {map}"), is_set));
    }
    deeds
}

#[test]
fn whatever_others_change_of_ours_is_told_and_made_right_and_theirs_is_left_alone() {
    in_host(async || {
        nft(FOREIGN);
        let before = foreign();
        let mut life = Life::begin().unwrap();
        let mut generator = Generator::new(SEED);
        let updates: Vec<_> = (0..60).map(|_| here(generator.update())).collect();
        life.take_in(&updates);
        life.driver.machine().set_in_sync();
        life.settle().await;
        let expected = held().await;
        while life.driver.machine().take_drift().is_some() {}
        for Deed { command, is_told } in deeds(&expected) {
            // Not within a fight: that routes and neighbours wait then has tests of its own.
            life.now += Duration::from_secs(60);
            let (program, arguments) = command.split_once(' ').unwrap();
            run(program, arguments);
            // The kernel may tell of other things first, of what came before.
            let made_right = async {
                loop {
                    life.driver.next_change().await.unwrap();
                    life.settle().await;
                    let mut drift = std::iter::from_fn(|| life.driver.machine().take_drift());
                    if drift.any(|object| is_told(&object)) {
                        break;
                    }
                }
            };
            tokio::time::timeout(PATIENCE, made_right).await.unwrap_or_else(|_| panic!("{command} is not told"));
            assert_same(&held().await, &expected, &command);
            assert_eq!(foreign(), before, "after {command}");
        }
        nft("flush ruleset\n");
        let heard = async { while life.driver.next_change().await.unwrap() != HostChange::Ruleset {} };
        tokio::time::timeout(PATIENCE, heard).await.expect("the flush is heard of");
        life.settle().await;
        assert_same(&held().await, &expected, "flush ruleset");
        let tables = run("nft", "list tables");
        let mut tables: Vec<&str> = tables.lines().map(str::trim).collect();
        tables.sort_unstable();
        assert_eq!(tables, ["table arp calico-dataplane", "table inet calico-dataplane"], "theirs is not made again");
    });
}
