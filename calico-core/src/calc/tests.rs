//! The graph as a whole: what it says of a state, whatever the way to that state was.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use std::{format, vec};

mod fields;
mod hosts;
mod random;
mod reach;
mod services;
mod staged;

use core::net::IpAddr;

use super::event::{ActiveHostEndpoint, EndpointId, Event, HostInterfaces, Member, PolicyId, ProfileId, SetId, Stack};
use super::{Graph, Problem};
use crate::net::{InterfaceName, Port, Protocol};
use crate::resource::{
    Action, DefaultAction, EndpointPort, EntityRule, HttpMatch, Kind, Metadata, NetworkPolicySpec, NetworkSetSpec,
    Object, PolicyType, ProfileSpec, Resource, ResourceKey, Rule, Tier, TierSpec, WorkloadEndpointSpec,
};
use crate::service::{EndpointSlice, EndpointSliceKey};
use crate::testing::HOST;
use crate::update::Update;
use crate::verdict::ActiveState;

type Objects = BTreeMap<ResourceKey, Arc<Resource>>;

/// All that a graph is told.
#[derive(Debug, Clone, Default, PartialEq)]
struct Inputs {
    objects: Objects,
    interfaces: BTreeMap<InterfaceName, Vec<IpAddr>>,
    slices: BTreeMap<EndpointSliceKey, Arc<EndpointSlice>>,
}

/// A change of it.
#[derive(Debug, Clone)]
enum Input {
    Object(Update),
    Interface(InterfaceName, Option<Vec<IpAddr>>),
    Slice(EndpointSliceKey, Option<Arc<EndpointSlice>>),
}

/// A graph with the sum of its events. Every event is checked against what came before it.
struct Rig {
    graph: Graph,
    state: ActiveState,
    inputs: Inputs,
}

impl Rig {
    fn new() -> Self {
        Self { graph: Graph::new(HOST), state: ActiveState::default(), inputs: Inputs::default() }
    }

    fn update(&mut self, update: Update) {
        self.take(Input::Object(update));
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Object(update) => {
                self.graph.handle_update(&update);
                note(&mut self.inputs.objects, update.key, update.value);
            }
            Input::Interface(name, addresses) => {
                self.graph.set_interface(name, addresses.as_deref());
                note(&mut self.inputs.interfaces, name, addresses);
            }
            Input::Slice(key, slice) => {
                self.graph.set_endpoint_slice(&key, slice.clone());
                note(&mut self.inputs.slices, key, slice);
            }
        }
    }

    fn flush(&mut self) -> Vec<Event> {
        let events = self.graph.flush();
        for event in &events {
            self.check(event);
            self.state.apply(event);
        }
        self.check_needed();
        assert!(self.graph.flush().is_empty(), "a second flush has nothing to say");
        events
    }

    /// References exist when they are made, and are gone when what they name goes; nothing is said that is known.
    fn check(&self, event: &Event) {
        let state = &self.state;
        match event {
            Event::SetAdded { id, members, .. } => {
                assert!(!state.sets.contains_key(id), "{id} added twice");
                assert!(members.is_sorted(), "members of {id} are not sorted");
            }
            Event::SetChanged { id, added, removed } => {
                let (_, members) = &state.sets[id];
                assert!(!added.is_empty() || !removed.is_empty());
                assert!(removed.iter().all(|member| members.contains(member)), "{event:?}");
                assert!(!added.iter().any(|member| members.contains(member)), "{event:?}");
            }
            Event::SetRemoved(id) => {
                assert!(state.sets.contains_key(id));
                assert!(!referenced_sets(state).contains(id), "{id} removed while referred to");
            }
            Event::PolicySet { id, rules } => {
                assert_ne!(state.policies.get(id), Some(rules), "nothing new");
                assert!(sets_of(rules).all(|set| state.sets.contains_key(&set)), "{id:?} refers to a set to come");
            }
            Event::ProfileSet { id, rules } => {
                assert_ne!(state.profiles.get(id), Some(rules), "nothing new");
                assert!(sets_of(rules).all(|set| state.sets.contains_key(&set)), "{id:?} refers to a set to come");
            }
            Event::PolicyRemoved(id) => assert!(!referenced_policies(state).contains(id), "{id:?} is referred to"),
            Event::ProfileRemoved(id) => assert!(!referenced_profiles(state).contains(id), "{id:?} is referred to"),
            Event::EndpointSet { id, endpoint } => {
                assert_ne!(state.endpoints.get(id), Some(endpoint), "nothing new");
                self.check_stacks(&format!("{id:?}"), [&endpoint.ingress, &endpoint.egress]);
            }
            Event::EndpointRemoved(id) => assert!(state.endpoints.contains_key(id)),
            Event::HostEndpointSet { id, endpoint } => {
                assert_ne!(state.host_endpoints.get(id), Some(endpoint), "nothing new");
                self.check_stacks(&format!("{id:?}"), host_stacks(endpoint));
                if let HostInterfaces::Named(names) = &endpoint.interfaces {
                    assert!(!names.is_empty() && names.is_sorted(), "{endpoint:?}");
                }
            }
            Event::HostEndpointRemoved(id) => assert!(state.host_endpoints.contains_key(id)),
            Event::NetworkSet(network) => assert_ne!(state.network, *network, "nothing new"),
        }
    }

    fn check_stacks<'a>(&self, whose: &str, stacks: impl IntoIterator<Item = &'a Arc<Stack>>) {
        for stack in stacks {
            let mut policies = stack.tiers.iter().flat_map(|tier| &tier.policies);
            assert!(policies.all(|policy| self.state.policies.contains_key(policy)), "{whose}");
            assert!(stack.profiles.iter().all(|profile| self.state.profiles.contains_key(profile)), "{whose}");
            for tier in &stack.tiers {
                assert!(!tier.policies.is_empty());
                let all_staged = tier.policies.iter().all(PolicyId::is_staged);
                assert!(!all_staged || tier.default_action == DefaultAction::Pass, "{whose}: {tier:?}");
                let in_tier = |id: &PolicyId| self.state.policies[id].tier.as_ref() == Some(&tier.name);
                assert!(tier.policies.iter().all(in_tier), "{whose}: {tier:?}");
            }
        }
    }

    /// After a flush nothing is active that nothing needs, and no interface is two host endpoints'.
    fn check_needed(&self) {
        let state = &self.state;
        assert_eq!(state.sets.keys().copied().collect::<BTreeSet<_>>(), referenced_sets(state));
        let needed =
            self.inputs.objects.iter().filter(|(_, object)| is_needed_everywhere(object) || stands_nowhere(object));
        let policies: BTreeSet<_> =
            needed.map(|(key, _)| PolicyId(key.clone())).chain(referenced_policies(state)).collect();
        let active: BTreeSet<_> = state.policies.keys().cloned().collect();
        assert!(active.is_subset(&policies) && referenced_policies(state).is_subset(&active));
        let mut interfaces = BTreeSet::new();
        for endpoint in state.host_endpoints.values() {
            match &endpoint.interfaces {
                HostInterfaces::Named(names) => {
                    assert!(names.iter().all(|name| interfaces.insert(name.as_str())), "{interfaces:?}");
                }
                HostInterfaces::Others => assert!(interfaces.insert("*"), "{interfaces:?}"),
            }
        }
        assert_eq!(state.profiles.keys().cloned().collect::<BTreeSet<_>>(), referenced_profiles(state));
        self.check_reach();
        for (kind, members) in state.sets.values() {
            let nets = members.iter().filter_map(|member| match member {
                Member::Net(net) => Some(net),
                Member::AddrPort { .. } => None,
            });
            let nets: Vec<_> = nets.collect();
            let overlap = nets.iter().any(|a| nets.iter().any(|b| a != b && a.covers(b)));
            assert!(!overlap, "{kind:?} set with overlaps: {nets:?}");
        }
    }

    fn problems(&self) -> Vec<String> {
        self.graph.diagnostics().map(|(key, problem)| format!("{key}: {problem}")).collect()
    }
}

fn note<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    };
}

fn is_needed_everywhere(object: &Resource) -> bool {
    let hints = match object {
        Resource::NetworkPolicy(object) => &object.spec.performance_hints,
        Resource::StagedNetworkPolicy(object) => &object.spec.policy.performance_hints,
        Resource::GlobalNetworkPolicy(object) => &object.spec.performance_hints,
        Resource::StagedGlobalNetworkPolicy(object) => &object.spec.policy.performance_hints,
        _ => return false,
    };
    hints.iter().any(|hint| hint == "AssumeNeededOnEveryNode")
}

/// `preDNAT` policies are about traffic that comes in.
fn stands_nowhere(object: &Resource) -> bool {
    let spec = match object {
        Resource::GlobalNetworkPolicy(object) => &object.spec,
        Resource::StagedGlobalNetworkPolicy(object) => &object.spec.policy,
        _ => return false,
    };
    spec.pre_dnat && !spec.do_not_track
}

fn host_stacks(endpoint: &ActiveHostEndpoint) -> impl Iterator<Item = &Arc<Stack>> {
    let both = [&endpoint.untracked, &endpoint.normal, &endpoint.forward];
    both.into_iter().flat_map(|both| [&both.ingress, &both.egress]).chain([&endpoint.pre_dnat])
}

fn sets_of(rules: &super::event::ActiveRules) -> impl Iterator<Item = SetId> {
    let entities = rules.ingress.iter().chain(&rules.egress).flat_map(|rule| [&rule.source, &rule.destination]);
    entities.flat_map(|entity| {
        let lists = [&entity.sets, &entity.not_sets, &entity.port_sets, &entity.not_port_sets];
        lists.into_iter().flatten().copied()
    })
}

fn referenced_sets(state: &ActiveState) -> BTreeSet<SetId> {
    state.policies.values().chain(state.profiles.values()).flat_map(|rules| sets_of(rules)).collect()
}

fn stacks(state: &ActiveState) -> impl Iterator<Item = &Stack> {
    let workloads = state.endpoints.values().flat_map(|endpoint| [&*endpoint.ingress, &*endpoint.egress]);
    workloads.chain(state.host_endpoints.values().flat_map(|endpoint| host_stacks(endpoint).map(|stack| &**stack)))
}

fn referenced_policies(state: &ActiveState) -> BTreeSet<PolicyId> {
    stacks(state).flat_map(|stack| &stack.tiers).flat_map(|tier| &tier.policies).cloned().collect()
}

fn referenced_profiles(state: &ActiveState) -> BTreeSet<ProfileId> {
    stacks(state).flat_map(|stack| &stack.profiles).cloned().collect()
}

/// The graph's word on a state that it is told at once.
fn from_scratch(inputs: &Inputs) -> (ActiveState, Vec<String>) {
    let mut rig = Rig::new();
    for step in steps(&Inputs::default(), inputs) {
        rig.take(step);
    }
    rig.flush();
    let problems = rig.problems();
    (rig.state, problems)
}

/// Changes that lead from one state to another, removals included.
fn steps(from: &Inputs, to: &Inputs) -> Vec<Input> {
    fn differences<K: Ord + Clone, V: Clone + PartialEq>(
        from: &BTreeMap<K, V>,
        to: &BTreeMap<K, V>,
        step: impl Fn(K, Option<V>) -> Input,
    ) -> Vec<Input> {
        let gone = from.keys().filter(|key| !to.contains_key(*key)).map(|key| (key, None));
        let new = to.iter().filter(|(key, value)| from.get(*key) != Some(*value));
        let all = gone.chain(new.map(|(key, value)| (key, Some(value.clone()))));
        all.map(|(key, value)| step(key.clone(), value)).collect()
    }
    let object = |key, value| Input::Object(Update { key, value });
    let mut steps = differences(&from.objects, &to.objects, object);
    steps.extend(differences(&from.interfaces, &to.interfaces, Input::Interface));
    steps.extend(differences(&from.slices, &to.slices, Input::Slice));
    steps
}

fn endpoint(name: &str, address: &str, labels: &[(&str, &str)], profiles: &[&str]) -> Update {
    let interface = format!("cali{name}");
    let spec = WorkloadEndpointSpec {
        node: HOST.into(),
        ip_networks: vec![address.parse().unwrap()],
        profiles: profiles.iter().map(|name| (*name).into()).collect(),
        interface_name: Some(interface.parse().unwrap()),
        ..WorkloadEndpointSpec::default()
    };
    let labels = labels.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    let metadata = Metadata { name: name.into(), labels, ..Metadata::default() };
    Update {
        key: ResourceKey::namespaced(Kind::WorkloadEndpoint, "one", name),
        value: Some(Arc::new(Resource::WorkloadEndpoint(Object { metadata, spec }))),
    }
}

fn policy(name: &str, spec: NetworkPolicySpec) -> Update {
    let metadata = Metadata { name: name.into(), ..Metadata::default() };
    Update {
        key: ResourceKey::namespaced(Kind::NetworkPolicy, "one", name),
        value: Some(Arc::new(Resource::NetworkPolicy(Object { metadata, spec }))),
    }
}

fn tier(name: &str, order: Option<f64>, default_action: Option<DefaultAction>) -> Update {
    let spec = TierSpec { order, default_action };
    Update {
        key: ResourceKey::cluster(Kind::Tier, name),
        value: Some(Arc::new(Resource::Tier(Tier::new(Metadata::default(), spec)))),
    }
}

#[test]
fn a_node_with_as_0_is_told_of_until_it_has_another() {
    let node = |number: u32| {
        let document = serde_json::json!({"spec": {"bgp": {"asNumber": number}}});
        Some(Arc::new(Resource::decode(Kind::Node, &document).unwrap()))
    };
    let mut graph = Graph::new(HOST);
    for (value, told) in [(node(1), 0), (node(0), 1), (node(1), 0), (node(0), 1), (None, 0)] {
        graph.handle_update(&Update { key: ResourceKey::cluster(Kind::Node, "b"), value });
        assert_eq!(graph.diagnostics().filter(|(_, problem)| problem.to_string().contains("RFC 7607")).count(), told);
    }
}

fn rule_from(selector: &str) -> Rule {
    Rule { source: EntityRule { selector: selector.into(), ..EntityRule::default() }, ..Rule::default() }
}

/// `tier[policy policy]:default …` of the ingress stack of an endpoint.
fn ingress(rig: &Rig, name: &str) -> String {
    let id = EndpointId(ResourceKey::namespaced(Kind::WorkloadEndpoint, "one", name));
    let tiers = rig.state.endpoints[&id].ingress.tiers.iter().map(|tier| {
        let policies: Vec<_> = tier.policies.iter().filter_map(|policy| policy.0.name()).collect();
        format!("{}[{}]:{:?}", tier.name, policies.join(" "), tier.default_action)
    });
    tiers.collect::<Vec<_>>().join(" ")
}

#[test]
fn tiers_and_policies_stand_in_order() {
    let mut rig = Rig::new();
    rig.update(endpoint("a", "10.0.0.1/32", &[], &[]));
    let in_tier = |tier: &str, order| NetworkPolicySpec { tier: tier.into(), order, ..NetworkPolicySpec::default() };
    rig.update(policy("z", in_tier("", Some(1.0))));
    rig.update(policy("b", in_tier("default", None)));
    rig.update(policy("a", in_tier("default", None)));
    rig.update(policy("a-b", in_tier("default", None)));
    rig.update(policy("m", in_tier("missing", Some(-5.0))));
    rig.update(policy("e", in_tier("early", None)));
    rig.update(policy("n", in_tier("no-order", None)));
    rig.update(policy(
        "egress-only",
        NetworkPolicySpec { types: vec![PolicyType::Egress], ..in_tier("early", Some(0.0)) },
    ));
    rig.update(tier("default", Some(1_000_000.0), None));
    rig.update(tier("early", Some(5.0), Some(DefaultAction::Pass)));
    rig.update(tier("no-order", None, None));
    rig.flush();
    // `a-b/…` sorts before `a/…`: the tie-break compares name and separator as one text.
    let expected = "early[e]:Pass default[z a-b a b]:Deny no-order[n]:Deny missing[m]:Deny";
    assert_eq!(ingress(&rig, "a"), expected);
    assert_eq!(rig.problems().len(), 1, "{:?}", rig.problems());
    rig.update(Update { key: ResourceKey::cluster(Kind::Tier, "early"), value: None });
    rig.flush();
    // A deleted Pass tier denies from then on.
    assert_eq!(ingress(&rig, "a"), "default[z a-b a b]:Deny no-order[n]:Deny early[e]:Deny missing[m]:Deny");
}

#[test]
fn a_change_of_one_member_is_one_event() {
    let mut rig = Rig::new();
    rig.update(endpoint("a", "10.0.0.1/32", &[("app", "web")], &[]));
    rig.update(endpoint("b", "10.0.0.2/32", &[("app", "client")], &[]));
    rig.update(tier("default", None, None));
    rig.update(policy(
        "p",
        NetworkPolicySpec {
            selector: "app == 'web'".into(),
            ingress: vec![rule_from("app == 'client'")],
            ..NetworkPolicySpec::default()
        },
    ));
    rig.flush();
    rig.update(endpoint("c", "10.0.0.3/32", &[("app", "client")], &[]));
    let events = rig.flush();
    assert!(
        matches!(&events[..], [Event::SetChanged { added, removed, .. }, Event::EndpointSet { .. }]
        if added == &[Member::Net("10.0.0.3/32".parse().unwrap())] && removed.is_empty()),
        "{events:?}"
    );
    // The same address moves to another endpoint with the same labels: the set does not flap.
    rig.update(Update { key: ResourceKey::namespaced(Kind::WorkloadEndpoint, "one", "c"), value: None });
    rig.update(endpoint("d", "10.0.0.3/32", &[("app", "client")], &[]));
    let events = rig.flush();
    assert!(matches!(&events[..], [Event::EndpointSet { .. }, Event::EndpointRemoved(_)]), "{events:?}");
}

fn gone(update: &Update) -> Update {
    Update { key: update.key.clone(), value: None }
}

fn edited(update: &Update, edit: impl FnOnce(&mut WorkloadEndpointSpec)) -> Update {
    let Some(Resource::WorkloadEndpoint(object)) = update.value.as_deref() else { panic!("an endpoint") };
    let mut object = object.clone();
    edit(&mut object.spec);
    Update { key: update.key.clone(), value: Some(Arc::new(Resource::WorkloadEndpoint(object))) }
}

#[test]
fn an_address_that_leaves_an_endpoint_of_this_host_has_departed() {
    let (one, two) = ("10.0.0.1/32", "10.0.0.2/32");
    let base = edited(&endpoint("a", one, &[], &[]), |spec| spec.ip_networks.push(two.parse().unwrap()));
    let floating = |internal: &str| {
        vec![crate::resource::IpNat { internal_ip: internal.into(), external_ip: "203.0.113.9".into() }]
    };
    let base = edited(&base, |spec| spec.ip_nats = floating("10.0.0.1"));
    let cases = [
        (gone(&base), "10.0.0.1 10.0.0.2 203.0.113.9"),
        (edited(&base, |spec| spec.ip_networks.truncate(1)), "10.0.0.2"),
        (edited(&base, |spec| spec.ip_nats.clear()), "203.0.113.9"),
        (edited(&base, |spec| spec.ip_nats = floating("10.0.0.2")), "203.0.113.9"),
        (edited(&base, |spec| spec.interface_name = Some("calinew".parse().unwrap())), "10.0.0.1 10.0.0.2 203.0.113.9"),
        (edited(&base, |spec| spec.node = "node-2".into()), "10.0.0.1 10.0.0.2 203.0.113.9"),
        (edited(&base, |spec| spec.ip_networks.reverse()), ""),
        (endpoint("b", one, &[], &[]), ""),
    ];
    for (change, expected) in cases {
        let mut rig = Rig::new();
        rig.update(base.clone());
        rig.flush();
        assert!(rig.graph.take_departed().is_empty());
        rig.update(change);
        rig.flush();
        assert_eq!(departed(&mut rig), expected);
        assert_eq!(departed(&mut rig), "", "told once");
    }
}

fn departed(rig: &mut Rig) -> String {
    rig.graph.take_departed().iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

#[test]
fn an_address_that_leaves_an_endpoint_of_another_host_has_departed_if_rules_can_tell() {
    let afar =
        |name, labels: &[_]| edited(&endpoint(name, "10.0.0.9/32", labels, &[]), |spec| spec.node = "node-2".into());
    let client = afar("c", &[("app", "client")]);
    let selected = |selector: &str| {
        let ingress = vec![rule_from("app == 'client'")];
        policy("p", NetworkPolicySpec { selector: selector.into(), ingress, ..NetworkPolicySpec::default() })
    };
    let twin = afar("d", &[("app", "client")]);
    let cases: [(&str, Vec<Update>, &str); 6] = [
        ("app == 'web'", vec![gone(&client)], "10.0.0.9"),
        ("app == 'web'", vec![gone(&client), afar("d", &[("app", "other")])], "10.0.0.9"),
        (
            "app == 'web'",
            vec![edited(&client, |spec| spec.ip_networks = vec!["10.0.0.8/32".parse().unwrap()])],
            "10.0.0.9",
        ),
        // It goes on elsewhere, or under another name.
        ("app == 'web'", vec![edited(&client, |spec| spec.node = "node-3".into())], ""),
        ("app == 'web'", vec![twin, gone(&client)], ""),
        // No rule of this host names it.
        ("app == 'none'", vec![gone(&client)], ""),
    ];
    for (selector, changes, expected) in cases {
        let mut rig = Rig::new();
        rig.update(endpoint("a", "10.0.0.1/32", &[("app", "web")], &[]));
        rig.update(client.clone());
        rig.update(selected(selector));
        rig.flush();
        assert!(rig.graph.take_departed().is_empty());
        for change in changes {
            // A twin counts once it was flushed.
            rig.update(change);
            rig.flush();
        }
        assert_eq!(departed(&mut rig), expected, "{selector}");
    }
}

#[test]
fn equal_stacks_are_one_value() {
    let mut rig = Rig::new();
    for number in 1..5 {
        rig.update(endpoint(&number.to_string(), &format!("10.0.0.{number}/32"), &[], &["x"]));
    }
    rig.update(policy("p", NetworkPolicySpec::default()));
    rig.flush();
    let mut stacks = rig.state.endpoints.values().map(|endpoint| &endpoint.ingress);
    let first = stacks.next().unwrap();
    assert!(stacks.all(|stack| Arc::ptr_eq(stack, first)));
}

#[test]
fn a_missing_profile_denies_and_is_reported() {
    let mut rig = Rig::new();
    rig.update(endpoint("a", "10.0.0.1/32", &[], &["x"]));
    rig.flush();
    let rules = &rig.state.profiles[&ProfileId("x".into())];
    assert_eq!((rules.ingress.len(), rules.egress.len()), (1, 1));
    assert_eq!((rules.ingress[0].action, rules.egress[0].action), (Action::Deny, Action::Deny));
    assert!(rig.problems()[0].starts_with("Profile(x): it does not exist"), "{:?}", rig.problems());
    let told = rig.graph.diagnostics_revision();
    rig.update(endpoint("b", "10.0.0.2/32", &[], &["x"]));
    rig.flush();
    assert_eq!(rig.graph.diagnostics_revision(), told, "nothing new is wrong");
    let profile = Object { metadata: Metadata::default(), spec: ProfileSpec::default() };
    rig.update(Update {
        key: ResourceKey::cluster(Kind::Profile, "x"),
        value: Some(Arc::new(Resource::Profile(profile))),
    });
    rig.flush();
    assert!(rig.state.profiles[&ProfileId("x".into())].ingress.is_empty());
    assert!(rig.graph.diagnostics_revision() > told);
    assert_eq!(rig.problems(), Vec::<String>::new());
}

#[test]
fn rules_that_cannot_be_carried_out_fail_closed() {
    let mut rig = Rig::new();
    rig.update(endpoint("a", "10.0.0.1/32", &[], &[]));
    rig.update(tier("default", None, None));
    let http = |action| Rule { action, http: Some(HttpMatch::default()), ..Rule::default() };
    let broken = |action| Rule { action, ..rule_from("a = 'b'") };
    let ingress = vec![http(Action::Allow), http(Action::Deny), broken(Action::Pass), broken(Action::Deny)];
    rig.update(policy("p", NetworkPolicySpec { ingress, ..NetworkPolicySpec::default() }));
    rig.flush();
    let rules = rig.state.policies.values().next().unwrap();
    let actions: Vec<_> = rules.ingress.iter().map(|rule| rule.action).collect();
    assert_eq!(actions, [Action::Deny; 3]);
    assert!(rules.ingress.iter().all(|rule| rule.source == super::event::ActiveEntity::default()));
    let problems = rig.problems();
    assert_eq!(problems.len(), 4);
    assert_eq!(
        problems[3],
        "NetworkPolicy(one/p): ingress rule 3: selector does not parse: at byte 2: expected '==', found \"=\"; \
         the rule denies without that condition"
    );
}

/// A newer version wrote a condition that this one does not know.
#[test]
fn a_condition_that_is_not_known_lets_nothing_through() {
    let mut rig = Rig::new();
    rig.update(endpoint("a", "10.0.0.1/32", &[], &[]));
    rig.update(tier("default", None, None));
    let rule = |action: &str| serde_json::json!({"action": action, "source": {"newer": "x"}});
    let ingress = ["Allow", "Deny", "Pass", "Log"].map(rule);
    let document = serde_json::json!({"metadata": {"name": "p", "namespace": "one"}, "spec": {"ingress": ingress}});
    let resource = Resource::decode(Kind::NetworkPolicy, &document).unwrap();
    rig.update(Update { key: resource.key().unwrap(), value: Some(Arc::new(resource)) });
    rig.flush();
    let rules = rig.state.policies.values().next().unwrap();
    assert_eq!(rules.ingress.iter().map(|rule| rule.action).collect::<Vec<_>>(), [Action::Deny; 2]);
    let problems = rig.problems();
    assert_eq!(problems.len(), 4);
    assert!(problems[0].starts_with("NetworkPolicy(one/p): ingress rule 0: ") && problems[0].contains("source.newer"));
    assert!(problems[0].ends_with("the rule is left out") && problems[3].ends_with("the rule is left out"));
    assert!(problems[1..3].iter().all(|problem| problem.ends_with("denies without that condition")));
}

#[test]
fn of_many_problems_of_a_policy_the_first_are_told() {
    let mut rig = Rig::new();
    rig.update(endpoint("a", "10.0.0.1/32", &[], &[]));
    rig.update(tier("default", None, None));
    let ingress = vec![Rule { http: Some(HttpMatch::default()), ..Rule::default() }; 3000];
    rig.update(policy("p", NetworkPolicySpec { ingress, ..NetworkPolicySpec::default() }));
    rig.flush();
    let problems = rig.problems();
    assert_eq!((problems.len(), &*problems[20]), (21, "NetworkPolicy(one/p): and 2980 more of its rules"));
}

/// What a rule excepts by port names is as wide as the selector beside it: wider than meant where that is lost.
#[test]
fn an_exception_by_port_names_goes_with_a_lost_condition() {
    let mut rig = Rig::new();
    rig.update(endpoint("a", "10.0.0.1/32", &[], &[]));
    let names = || vec![Port::Named("web".into())];
    let source = EntityRule { selector: "(".into(), ports: names(), not_ports: names(), ..EntityRule::default() };
    let ingress = vec![Rule { action: Action::Deny, source, ..Rule::default() }];
    rig.update(policy("p", NetworkPolicySpec { ingress, ..NetworkPolicySpec::default() }));
    rig.flush();
    let rules = rig.state.policies.values().next().unwrap();
    assert_eq!((rules.ingress[0].source.port_sets.len(), rules.ingress[0].source.not_port_sets.len()), (1, 0));
}

#[test]
fn a_policy_that_does_not_parse_is_absent_and_reported() {
    let mut rig = Rig::new();
    rig.update(endpoint("a", "10.0.0.1/32", &[], &[]));
    rig.update(policy("p", NetworkPolicySpec { selector: "a == b".into(), ..NetworkPolicySpec::default() }));
    rig.flush();
    assert_eq!(ingress(&rig, "a"), "");
    let (_, problem) = rig.graph.diagnostics().next().unwrap();
    assert!(matches!(problem, Problem::Selector { field: "spec.selector", error } if error.position() == 5));
}

#[test]
fn one_interface_one_endpoint() {
    let mut rig = Rig::new();
    let twin = |name: &str, address| {
        let mut update = endpoint("x", address, &[], &[]);
        update.key = ResourceKey::namespaced(Kind::WorkloadEndpoint, "one", name);
        update
    };
    let active = |rig: &Rig| rig.state.endpoints.keys().filter_map(|id| id.0.name()).collect::<Vec<_>>().join(" ");
    rig.update(twin("b", "10.0.0.2/32"));
    rig.flush();
    assert_eq!(active(&rig), "b");
    rig.update(twin("a", "10.0.0.1/32"));
    rig.flush();
    assert_eq!(active(&rig), "a");
    assert!(rig.problems()[0].contains("calix is taken by WorkloadEndpoint(one/a)"), "{:?}", rig.problems());
    rig.update(Update { key: twin("a", "10.0.0.1/32").key, value: None });
    rig.flush();
    assert_eq!(active(&rig), "b");
    assert_eq!(rig.problems(), Vec::<String>::new());
}

#[test]
fn one_address_one_route() {
    let (first, second, third) = (
        endpoint("a", "10.0.0.1/32", &[], &[]),
        endpoint("b", "10.0.0.1/32", &[], &[]),
        endpoint("c", "10.0.0.1/32", &[], &[]),
    );
    let expected = |name: &str, by: &str| {
        let text = "its address 10.0.0.1 is also that of";
        format!(
            "WorkloadEndpoint(one/{name}): {text} WorkloadEndpoint(one/{by}), whose interface cali{by} has the route"
        )
    };
    for order in [[&first, &second, &third], [&third, &second, &first], [&second, &third, &first]] {
        let mut rig = Rig::new();
        order.into_iter().for_each(|update| rig.update(update.clone()));
        rig.flush();
        assert_eq!(rig.problems(), [expected("b", "a"), expected("c", "a")]);
        assert_eq!(rig.state.endpoints.len(), 3, "each is policed all the same");
        rig.update(gone(&first));
        assert_eq!(rig.problems(), [expected("c", "b")]);
        rig.update(endpoint("b", "10.0.0.2/32", &[], &[]));
        assert_eq!(rig.problems(), Vec::<String>::new());
        rig.update(second.clone());
        rig.update(gone(&third));
        rig.flush();
        assert_eq!(rig.problems(), Vec::<String>::new());
    }
    // Who waits for an interface has no route to lose, nor takes one away.
    let mut rig = Rig::new();
    let mut waiting = endpoint("b", "10.0.0.1/32", &[], &[]);
    waiting.key = ResourceKey::namespaced(Kind::WorkloadEndpoint, "one", "x");
    [first, endpoint("b", "10.0.0.3/32", &[], &[]), waiting].into_iter().for_each(|update| rig.update(update));
    rig.flush();
    assert!(rig.problems().len() == 1 && rig.problems()[0].contains("is taken by"), "{:?}", rig.problems());
}

/// An endpoint that names the host's own interface must not have it policed, nor hold it against a workload.
#[test]
fn the_hosts_own_interfaces_are_nobodys() {
    let mut rig = Rig::new();
    let named = |name: &str, interface: &str| {
        let mut update = endpoint(name, "10.0.0.1/32", &[("role", "net")], &[]);
        if let Some(Resource::WorkloadEndpoint(object)) = update.value.as_mut().map(Arc::make_mut) {
            object.spec.interface_name = Some(interface.parse().unwrap());
        }
        update
    };
    for interface in ["eth0", "lo", "cal", "xcali1"] {
        rig.update(named("a", interface));
        rig.flush();
        assert_eq!(rig.state.endpoints.len(), 0, "{interface}");
        let problems = rig.problems();
        let expected = format!("WorkloadEndpoint(one/a): its interface {interface} is not called like a workload's");
        assert!(problems.len() == 1 && problems[0].starts_with(&expected), "{problems:?}");
    }
    // It is still a member of sets: the others know no better.
    rig.update(tier("default", None, None));
    rig.update(endpoint("b", "10.0.0.2/32", &[], &[]));
    let ingress = vec![rule_from("role == 'net'")];
    rig.update(policy("p", NetworkPolicySpec { ingress, ..NetworkPolicySpec::default() }));
    rig.flush();
    assert_eq!(rig.state.sets.values().next().unwrap().1.len(), 1);
    // Active, then not, then active again.
    for (interface, active) in [("calia", 2), ("eth0", 1), ("calia", 2)] {
        rig.update(named("a", interface));
        rig.flush();
        assert_eq!((rig.state.endpoints.len(), rig.problems().len()), (active, 2 - active), "{interface}");
    }
    rig.update(named("a", "eth0"));
    rig.update(Update { key: named("a", "eth0").key, value: None });
    rig.flush();
    assert_eq!(rig.problems(), Vec::<String>::new());

    let mut graph = Graph::new(HOST).with_workload_prefixes(vec!["tap".parse().unwrap(), "veth".parse().unwrap()]);
    graph.handle_update(&named("a", "tap1"));
    graph.handle_update(&named("b", "veth1"));
    graph.handle_update(&named("c", "cali1"));
    let active = graph.flush().into_iter().filter(|event| matches!(event, Event::EndpointSet { .. })).count();
    let foreign = graph.diagnostics().filter(|(_, problem)| matches!(problem, Problem::ForeignInterface { .. }));
    assert_eq!((active, foreign.count()), (2, 1));
}

#[test]
fn a_set_of_everything_is_in_halves_and_covers_the_rest() {
    let mut rig = Rig::new();
    rig.update(endpoint("a", "10.0.0.1/32", &[("role", "net")], &[]));
    rig.update(policy(
        "p",
        NetworkPolicySpec { ingress: vec![rule_from("role == 'net'")], ..NetworkPolicySpec::default() },
    ));
    let labels = [("role".into(), "net".into())].into();
    let set = Object {
        metadata: Metadata { labels, ..Metadata::default() },
        spec: NetworkSetSpec { nets: vec!["0.0.0.0/0".parse().unwrap(), "10.0.0.0/8".parse().unwrap()], unread: None },
    };
    rig.update(Update {
        key: ResourceKey::namespaced(Kind::NetworkSet, "one", "s"),
        value: Some(Arc::new(Resource::NetworkSet(set))),
    });
    rig.flush();
    let (_, members) = rig.state.sets.values().next().unwrap();
    let members: Vec<_> = members.iter().map(|member| format!("{member:?}")).collect();
    assert_eq!(members, ["Net(0.0.0.0/1)", "Net(128.0.0.0/1)"]);
}

/// However many names a list of ports has, it is one set, and so one kernel rule for each family.
#[test]
fn named_ports_of_one_list_are_one_set() {
    let mut rig = Rig::new();
    let mut pod = endpoint("a", "10.0.0.1/32", &[], &[]);
    if let Some(Resource::WorkloadEndpoint(object)) = pod.value.as_mut().map(Arc::make_mut) {
        let port = |name: &str, port| EndpointPort {
            name: name.into(),
            protocol: Protocol::TCP,
            port,
            host_port: 0,
            host_ip: crate::text::Text::default(),
        };
        object.spec.ports = vec![port("web", 80), port("dns", 53), port("other", 9)];
    }
    rig.update(pod);
    let ports = |names: &[&str]| names.iter().map(|name| Port::Named((*name).into())).collect();
    let rule = |source: &[&str], destination: &[&str]| Rule {
        source: EntityRule { ports: ports(source), ..EntityRule::default() },
        destination: EntityRule { ports: ports(destination), ..EntityRule::default() },
        ..Rule::default()
    };
    let ingress = vec![rule(&["web", "dns", "web"], &["dns"]), rule(&[], &["dns", "web"])];
    rig.update(policy("p", NetworkPolicySpec { ingress, ..NetworkPolicySpec::default() }));
    rig.flush();
    let rules = rig.state.policies.values().next().unwrap();
    let [first, second] = &rules.ingress[..] else { panic!("{rules:?}") };
    assert_eq!(first.source.port_sets, second.destination.port_sets, "the order of names does not matter");
    let members = |sets: &[SetId]| {
        let [set] = sets else { panic!("{sets:?}") };
        let (_, members) = &rig.state.sets[set];
        members.iter().map(|member| format!("{member:?}")).collect::<Vec<_>>().join(" ").matches("port: ").count()
    };
    assert_eq!((members(&first.source.port_sets), members(&first.destination.port_sets)), (2, 1));
}

#[test]
fn a_network_set_with_a_bad_entry_still_denies_the_others() {
    let mut rig = Rig::new();
    rig.update(endpoint("a", "10.0.0.1/32", &[], &[]));
    let deny = Rule { action: Action::Deny, ..rule_from("role == 'bad'") };
    rig.update(policy("p", NetworkPolicySpec { ingress: vec![deny], ..NetworkPolicySpec::default() }));
    let document = serde_json::json!({"metadata": {"name": "s", "namespace": "one", "labels": {"role": "bad"}},
                                      "spec": {"nets": ["192.0.2.0/24", "198.51.100/24"]}});
    let set = Resource::decode(Kind::NetworkSet, &document).unwrap();
    rig.update(Update { key: set.key().unwrap(), value: Some(Arc::new(set)) });
    rig.flush();
    let (_, members) = rig.state.sets.values().next().unwrap();
    assert_eq!(members.iter().collect::<Vec<_>>(), [&Member::Net("192.0.2.0/24".parse().unwrap())]);
    let told = rig.problems().into_iter().find(|problem| problem.starts_with("NetworkSet(one/s)")).unwrap();
    assert!(told.contains("spec.nets[1]") && told.ends_with("without what cannot be read"), "{told}");
}
