//! States of a datastore with what the graph makes of them: facts of upstream's `felix/calc/states_for_test.go` as data, `states.json`.
//!
//! Of each state the file says which objects there are, and what is active: members of sets (of each its addresses, or `address
//! protocol:port`), policies, profiles, and for each endpoint the tiers of each layer, ingress and egress. What is active depends on the
//! state alone, so the states are walked through in any order, whole or change by change. Upstream's states of routes and tunnels are not
//! here: nothing of core's graph is about those.

use alloc::collections::BTreeMap;
use alloc::format;
use std::println;

use serde::Deserialize;

use super::levels::Rig;
use super::*;
use crate::calc::event::{HostInterfaces, Member as SetMember, Stack};
use crate::net::InterfaceName;
use crate::service::EndpointSlice;
use crate::testing::{Change, Random, World};
use crate::update::Update;
use crate::verdict::ActiveState;

#[derive(Deserialize)]
struct File {
    objects: BTreeMap<String, Value>,
    states: Vec<State>,
}

#[derive(Deserialize)]
struct State {
    name: String,
    objects: Vec<String>,
    #[serde(flatten)]
    expected: Active,
}

/// For each layer of an endpoint its tiers with their policies, ingress and egress.
type Layers = BTreeMap<String, [Vec<(String, Vec<String>)>; 2]>;

#[derive(Debug, PartialEq, Deserialize)]
struct Active {
    sets: Vec<Vec<String>>,
    policies: Vec<String>,
    profiles: Vec<String>,
    endpoints: BTreeMap<String, Layers>,
}

fn load() -> Vec<(String, World, Active)> {
    let file: File = serde_json::from_str(include_str!("states.json")).unwrap();
    let world = |state: &State| {
        let mut world = World::default();
        for (name, address) in [("eth1", "192.0.2.1"), ("eth2", "10.0.0.3")] {
            world.apply(&Change::Interface(name.parse().unwrap(), Some([address.parse().unwrap()].into())));
        }
        for name in &state.objects {
            let document = &file.objects[name];
            if document["kind"] == "EndpointSlice" {
                let (key, slice, faults) = EndpointSlice::parse(document).unwrap();
                assert!(faults.is_empty(), "{name}: {faults:?}");
                world.apply(&Change::Slice(key, Some(Arc::new(slice))));
                continue;
            }
            let kind = Kind::from_name(document["kind"].as_str().unwrap()).unwrap();
            let object = Resource::decode(kind, document).unwrap_or_else(|faults| panic!("{name}: {faults:?}"));
            let key = object.key().unwrap();
            world.apply(&Change::Object(Update { key, value: Some(Arc::new(object)) }));
        }
        world
    };
    let worlds: Vec<World> = file.states.iter().map(world).collect();
    file.states.into_iter().zip(worlds).map(|(state, world)| (state.name, world, state.expected)).collect()
}

/// What is active, in the words of the file.
fn active(state: &ActiveState) -> Active {
    let member = |member: &SetMember| match member {
        SetMember::Net(net) => net.to_string(),
        SetMember::AddrPort { address, protocol, port } => format!("{address} {protocol}:{port}"),
    };
    let sorted = |mut texts: Vec<String>| {
        texts.sort();
        texts
    };
    let mut sets: Vec<_> =
        state.sets.values().map(|(_, members)| sorted(members.iter().map(member).collect())).collect();
    sets.sort();
    let name = |key: &ResourceKey| key.name().unwrap().to_string();
    let tiers = |stack: &Stack| {
        let policies = |tier: &crate::calc::event::StackTier| tier.policies.iter().map(|id| name(&id.0)).collect();
        stack.tiers.iter().map(|tier| (tier.name.to_string(), policies(tier))).collect::<Vec<_>>()
    };
    let mut endpoints = BTreeMap::new();
    for (id, endpoint) in &state.endpoints {
        let normal = [tiers(&endpoint.ingress), tiers(&endpoint.egress)];
        endpoints.insert(name(&id.0), Layers::from([("normal".to_string(), normal)]));
    }
    for (id, endpoint) in &state.host_endpoints {
        let both = |both: &crate::calc::event::Directions| [tiers(&both.ingress), tiers(&both.egress)];
        let layers = [
            ("normal", both(&endpoint.normal)),
            ("untracked", both(&endpoint.untracked)),
            ("preDNAT", [tiers(&endpoint.pre_dnat), Vec::new()]),
            ("forward", both(&endpoint.forward)),
        ];
        let told = layers.into_iter().filter(|(_, both)| both.iter().any(|tiers| !tiers.is_empty()));
        endpoints.insert(name(&id.0), told.map(|(layer, both)| (layer.to_string(), both)).collect());
        let interface: InterfaceName = if name(&id.0) == "named" { "eth1" } else { "eth2" }.parse().unwrap();
        assert_eq!(endpoint.interfaces, HostInterfaces::Named([interface].into()));
    }
    Active {
        sets,
        policies: sorted(state.policies.keys().map(|id| name(&id.0)).collect()),
        profiles: sorted(state.profiles.keys().map(|id| id.0.to_string()).collect()),
        endpoints,
    }
}

/// Walks through states; with `each`, what is active is told after each change and not only at a state's end.
fn walk<'a>(
    states: impl Iterator<Item = &'a (String, World, Active)>,
    random: &mut Random,
    shuffled: bool,
    each: bool,
) {
    let (mut rig, mut world) = (Rig::new(), World::default());
    for (name, next, expected) in states {
        let mut changes = world.changes_to(next);
        if shuffled {
            random.shuffle(&mut changes);
        }
        for change in &changes {
            rig.take(change);
            if each {
                rig.flush();
            }
        }
        rig.flush();
        assert_eq!(active(rig.state()), *expected, "{name}");
        world = next.clone();
    }
}

#[test]
fn what_is_active_depends_on_the_state_alone() {
    let states = load();
    assert!(states.len() > 60);
    let mut random = Random::new(1);
    for each in [false, true] {
        walk(states.iter(), &mut random, false, each);
        walk(states.iter().rev(), &mut random, false, each);
        walk(states.iter().flat_map(|state| [state, &states[0]]), &mut random, false, each);
        for round in 0..20 {
            println!("round {round}");
            let mut order: Vec<_> = states.iter().collect();
            random.shuffle(&mut order);
            walk(order.into_iter(), &mut random, true, each);
        }
    }
}
