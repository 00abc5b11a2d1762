//! Whatever happened before, the host ends as a fresh one would.

use calico_core::table::{Datum, Element, ElementDelta, SetName};

use super::*;

#[derive(Debug, Clone)]
enum Op {
    Endpoint(u8, Vec<u8>),
    NoEndpoint(u8),
    Policy(u8, Vec<u8>),
    Members(u8, BTreeSet<u8>),
    Link(u8, Option<u32>),
    Flush,
    Tamper(u8, Vec<u8>),
    LoseRoute(u8),
    Pass(u16),
    Fail(Vec<u8>),
    Work,
    Restart,
}

fn op() -> impl Strategy<Value = Op> {
    let few = || proptest::collection::vec(0..3_u8, 0..3);
    prop_oneof![
        4 => (1..5_u8, few()).prop_map(|(n, policies)| Op::Endpoint(n, policies)),
        2 => (1..5_u8).prop_map(Op::NoEndpoint),
        3 => (0..3_u8, proptest::collection::vec(0..2_u8, 0..2)).prop_map(|(n, sets)| Op::Policy(n, sets)),
        3 => (0..2_u8, proptest::collection::btree_set(0..5_u8, 0..4)).prop_map(|(n, members)| Op::Members(n, members)),
        2 => (1..5_u8, proptest::option::of(1..9_u32)).prop_map(|(n, index)| Op::Link(n, index)),
        1 => Just(Op::Flush),
        3 => (0..8_u8, few()).prop_map(|(what, members)| Op::Tamper(what, members)),
        4 => (1..5_u8).prop_map(Op::LoseRoute),
        2 => (0..6000_u16).prop_map(Op::Pass),
        1 => few().prop_map(Op::Fail),
        4 => Just(Op::Work),
        1 => Just(Op::Restart),
    ]
}

/// What is active, by number: enough to tell a fresh node all of it.
#[derive(Default)]
struct World {
    endpoints: BTreeMap<u8, Vec<u8>>,
    policies: BTreeMap<u8, Vec<u8>>,
    members: BTreeMap<u8, BTreeSet<u8>>,
}

impl World {
    fn new() -> Self {
        Self {
            policies: (0..3).map(|number| (number, Vec::new())).collect(),
            members: (0..2).map(|number| (number, BTreeSet::new())).collect(),
            ..Self::default()
        }
    }

    fn events(&self) -> Vec<Event> {
        let sets = self.members.iter().map(|(n, members)| set_added(*n, &members.iter().copied().collect::<Vec<_>>()));
        let policies = self.policies.iter().map(|(n, sets)| policy(*n, sets));
        let endpoints = self.endpoints.iter().map(|(n, policies)| endpoint(*n, policies));
        sets.chain(policies).chain(endpoints).collect()
    }

    fn change(&mut self, op: &Op) -> Vec<Event> {
        match op {
            Op::Endpoint(n, policies) => {
                self.endpoints.insert(*n, policies.clone());
                vec![endpoint(*n, policies)]
            }
            Op::NoEndpoint(n) => {
                self.endpoints.remove(n).map(|_| Event::EndpointRemoved(endpoint_id(*n))).into_iter().collect()
            }
            Op::Policy(n, sets) => {
                self.policies.insert(*n, sets.clone());
                vec![policy(*n, sets)]
            }
            Op::Members(n, members) => {
                let before = self.members.insert(*n, members.clone()).unwrap();
                let pick =
                    |from: &BTreeSet<u8>, less: &BTreeSet<u8>| from.difference(less).map(|n| member(*n)).collect();
                vec![Event::SetChanged { id: set(*n), added: pick(members, &before), removed: pick(&before, members) }]
            }
            _ => Vec::new(),
        }
    }
}

/// A stranger changes one object: a chain, a set of addresses, or one of its own making.
fn tamper(host: &Recording, what: u8, members: &[u8]) {
    let ruleset = host.ruleset();
    let (mut chains, mut sets) = (ruleset.chains(), ruleset.sets());
    let delta = match what % 4 {
        0 => {
            let chain = chains.nth(usize::from(what)).map(|chain| Chain { rules: Vec::new(), ..chain.clone() });
            Delta { chains_set: chain.into_iter().collect(), ..Delta::default() }
        }
        1 => {
            let plain = sets.find(|(decl, _)| decl.kind == SetKind::Hash && decl.key.len() == 1);
            let address = |n: &u8| Element::member([Datum::Addr([10, 9, 9, *n].into())]);
            let change = |(decl, elements): (&SetDecl, _)| ElementDelta {
                set: decl.name.clone(),
                removed: Iterator::collect(elements),
                added: members.iter().map(address).collect(),
            };
            Delta { elements: plain.map(change).into_iter().collect(), ..Delta::default() }
        }
        2 => {
            let chain = Chain { name: chain_name("foreign"), base: None, rules: Vec::new() };
            Delta { chains_set: vec![chain], ..Delta::default() }
        }
        _ => {
            let decl = sets.next().map(|(decl, _)| SetDecl { name: SetName::new("foreign").unwrap(), ..decl.clone() });
            Delta { sets_added: decl.into_iter().collect(), ..Delta::default() }
        }
    };
    // What the kernel would refuse has not happened.
    let _ = host.tamper(&delta);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// Whatever happens on the way, a node ends where a fresh node on a fresh host ends at once.
    #[test]
    fn every_way_ends_at_the_same_host(ops in proptest::collection::vec(op(), 0..40)) {
        let (host, mut world) = (Recording::new(), World::new());
        let mut node = Node::in_sync(&host);
        node.events(&world.events());
        for op in &ops {
            node.events(&world.change(op));
            match op {
                Op::Link(n, index) => host.set_link(cali(*n), index.and_then(up)),
                Op::Flush => host.flush_ruleset(),
                Op::Tamper(what, members) => tamper(&host, *what, members),
                Op::Pass(millis) => node.now += Duration::from_millis((*millis).into()),
                Op::LoseRoute(n) => host.set_route(route(*n).key, None),
                Op::Fail(policies) => {
                    let chains = policies.iter().map(|n| chain_name(&format!("policy-in/gnp/p{n}"))).collect();
                    host.set_faults(Faults { chains, ..Faults::default() });
                }
                Op::Work => node.work(),
                Op::Restart => {
                    let now = node.now;
                    node = Node::in_sync(&host);
                    node.now = now;
                    node.events(&world.events());
                }
                _ => {}
            }
        }
        host.set_faults(Faults::default());
        node.settle();

        let fresh_host = Recording::new();
        let links = ready(host.clone().observe()).unwrap().unwrap().links;
        links.into_iter().for_each(|(name, state)| fresh_host.set_link(name, Some(state)));
        let mut fresh = Node::in_sync(&fresh_host);
        fresh.events(&world.events());
        fresh.settle();
        prop_assert_eq!(host.ruleset().to_string(), fresh_host.ruleset().to_string());
        prop_assert_eq!(host.routes(), fresh_host.routes());
        prop_assert_eq!(host.neighbors(), fresh_host.neighbors());
        for n in 1..5 {
            let path = "net/ipv4/conf/{}/proxy_arp";
            prop_assert_eq!(
                world.endpoints.contains_key(&n).then(|| host.setting(cali(n), path)).flatten(),
                fresh_host.setting(cali(n), path)
            );
        }
    }
}
