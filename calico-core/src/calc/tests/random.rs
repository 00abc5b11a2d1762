//! Random states of everything that the graph is told, and ways between them.

use std::println;

use super::*;
use crate::calc::event::Network;
use crate::resource::{
    AllowedUse, BgpConfigurationSpec, HostEndpointSpec, HostPort, IpPool, IpPoolSpec, KubernetesIngressRule,
    LabelSelector, ListedAddress, NodeSpec, ORCHESTRATOR_LABEL, ServiceMatch, ServiceRange, StagedAction,
    StagedGlobalNetworkPolicySpec, StagedKubernetesNetworkPolicySpec, StagedNetworkPolicySpec,
};
use crate::testing::{Generator, Random};

const INTERFACES: [&str; 5] = ["eth0", "eth1", "lo", "kube-ipvs0", "cali00"];

/// Makes changes of all kinds.
struct Wide {
    generator: Generator,
}

impl Wide {
    fn new(seed: u64) -> Self {
        Self { generator: Generator::with_faults(seed) }
    }

    fn random(&mut self) -> &mut Random {
        &mut self.generator.random
    }

    fn input(&mut self) -> Input {
        match self.random().below(20) {
            0..=9 => {
                let update = self.generator.update();
                Input::Object(self.varied(update))
            }
            10..=11 => Input::Object(self.staged()),
            12..=14 => self.some(10, |own| {
                let key = ResourceKey::cluster(Kind::HostEndpoint, own.random().pick(&["a", "b", "c", "d"]));
                (key, Resource::HostEndpoint(own.host_endpoint()))
            }),
            15..=16 => {
                let name = self.random().pick(&INTERFACES).parse().unwrap();
                let addresses = (!self.random().chance(25)).then(|| self.host_addresses());
                Input::Interface(name, addresses)
            }
            17..=18 => self.slice(),
            _ => self.network(),
        }
    }

    fn inputs(&mut self, count: usize) -> Inputs {
        let mut inputs = Inputs::default();
        for _ in 0..count {
            match self.input() {
                Input::Object(update) => note(&mut inputs.objects, update.key, update.value),
                Input::Interface(name, addresses) => note(&mut inputs.interfaces, name, addresses),
                Input::Slice(key, slice) => note(&mut inputs.slices, key, slice),
            }
        }
        inputs
    }

    fn some(&mut self, absent: usize, make: impl FnOnce(&mut Self) -> (ResourceKey, Resource)) -> Input {
        let (key, resource) = make(self);
        let value = (!self.random().chance(absent)).then(|| Arc::new(resource));
        Input::Object(Update { key, value })
    }

    /// Some of the flags, hints and services that the generator of clusters leaves out.
    fn varied(&mut self, mut update: Update) -> Update {
        let hints = self.hints();
        let random = self.random();
        match update.value.as_mut().map(Arc::make_mut) {
            Some(Resource::GlobalNetworkPolicy(object)) => {
                let spec = &mut object.spec;
                spec.apply_on_forward = random.chance(40);
                spec.do_not_track = random.chance(15);
                spec.pre_dnat = random.chance(15);
                spec.performance_hints = hints;
                with_service(random, &mut spec.ingress, &mut spec.egress);
            }
            Some(Resource::NetworkPolicy(object)) => {
                object.spec.performance_hints = hints;
                with_service(random, &mut object.spec.ingress, &mut object.spec.egress);
            }
            Some(Resource::WorkloadEndpoint(object)) => {
                if random.chance(50) {
                    object.metadata.labels.insert(ORCHESTRATOR_LABEL.into(), "k8s".into());
                }
                float(random, &mut object.spec);
            }
            _ => {}
        }
        update
    }

    fn hints(&mut self) -> Vec<String> {
        self.random().pick(&[vec![], vec![], vec![], vec!["AssumeNeededOnEveryNode".to_string()], vec!["Other".into()]])
    }

    /// A staged policy of the same sort as one of the cluster's.
    fn staged(&mut self) -> Update {
        loop {
            let update = self.generator.update();
            let Update { key, value } = self.varied(update);
            let staged_action = self.random().pick(&[
                None,
                Some(StagedAction::Set),
                Some(StagedAction::Learn),
                Some(StagedAction::Delete),
            ]);
            let (namespace, name) = (key.namespace(), key.name().unwrap());
            let resource = match value.as_deref() {
                Some(Resource::NetworkPolicy(object)) if self.random().chance(50) => {
                    let spec = StagedNetworkPolicySpec { staged_action, policy: object.spec.clone() };
                    Resource::StagedNetworkPolicy(Object { metadata: object.metadata.clone(), spec }.into())
                }
                Some(Resource::NetworkPolicy(object)) => {
                    let spec = self.kubernetes(staged_action);
                    let object = Object { metadata: object.metadata.clone(), spec };
                    Resource::StagedKubernetesNetworkPolicy(object.into())
                }
                Some(Resource::GlobalNetworkPolicy(object)) => {
                    let spec = StagedGlobalNetworkPolicySpec { staged_action, policy: object.spec.clone() };
                    Resource::StagedGlobalNetworkPolicy(Object { metadata: object.metadata.clone(), spec }.into())
                }
                _ => continue,
            };
            let kind = resource.kind();
            let key = match namespace {
                Some(namespace) => ResourceKey::namespaced(kind, namespace, name),
                None => ResourceKey::cluster(kind, name),
            };
            let value = (!self.random().chance(20)).then(|| Arc::new(resource));
            return Update { key, value };
        }
    }

    fn kubernetes(&mut self, staged_action: Option<StagedAction>) -> StagedKubernetesNetworkPolicySpec {
        let block = self.random().pick(&["10.0.0.0/24", "nonsense"]);
        let peer = serde_json::json!({"ipBlock": {"cidr": block}});
        let rule = KubernetesIngressRule { from: vec![serde_json::from_value(peer).unwrap()], ..Default::default() };
        StagedKubernetesNetworkPolicySpec {
            staged_action,
            pod_selector: LabelSelector::default(),
            ingress: vec![rule],
            ..Default::default()
        }
    }

    fn host_endpoint(&mut self) -> Object<HostEndpointSpec> {
        let expected_ips = self.host_addresses();
        let random = self.random();
        let spec = HostEndpointSpec {
            node: random.pick(&[HOST, HOST, HOST, "node-2"]).into(),
            interface_name: random.pick(&["", "", "eth0", "eth1", "*", "cali00", "no such name"]).into(),
            expected_ips,
            profiles: random.pick(&[vec![], vec!["extra".to_string()], vec!["kns.one".into(), "missing".into()]]),
            ports: vec![HostPort {
                name: "web".into(),
                protocol: Some(Protocol::TCP),
                port: random.pick(&[Some(80), None]),
            }],
        };
        let labels = [("app".into(), random.pick(&["web", "db"]).into())].into();
        Object { metadata: Metadata { labels, ..Metadata::default() }, spec }
    }

    fn host_addresses(&mut self) -> Vec<IpAddr> {
        let all = ["192.0.2.1", "192.0.2.2", "2001:db8::1", "::ffff:192.0.2.2"];
        all.iter().filter(|_| self.random().chance(35)).map(|text| text.parse().unwrap()).collect()
    }

    fn slice(&mut self) -> Input {
        let random = self.random();
        let namespace: Arc<str> = random.pick(&["one", "two"]).into();
        let key = EndpointSliceKey { namespace: namespace.clone(), name: random.pick(&["x", "y"]).into() };
        let slice = EndpointSlice {
            namespace,
            service: random.pick(&["web", "web", "dns", ""]).into(),
            addresses: random
                .pick(&[vec![], vec!["10.0.0.1"], vec!["10.0.0.1", "10.0.0.2", "fd00::1"]])
                .iter()
                .map(|text| text.parse().unwrap())
                .collect(),
            ports: random.pick(&[vec![], vec![(6, 80)], vec![(6, 80), (17, 53)]]),
        };
        Input::Slice(key, (!random.chance(25)).then(|| Arc::new(slice)))
    }

    fn network(&mut self) -> Input {
        self.some(20, |own| {
            let name = own.random().pick(&["default", "b"]);
            let cidr = own.random().pick(&["10.0.0.0/16", "10.0.0.0/24", "fd00::/64", "0.0.0.0/0"]);
            let address = own.random().pick(&["192.0.2.1", "192.0.2.2/24", "2001:db8::1"]);
            let kind = own.random().pick(&[Kind::IpPool, Kind::Node, Kind::BgpConfiguration]);
            let resource = match kind {
                Kind::IpPool => {
                    let uses = own.random().pick(&[vec![AllowedUse::Workload], vec![AllowedUse::LoadBalancer]]);
                    let nat_outgoing = own.random().chance(50);
                    let spec = IpPoolSpec {
                        cidr: cidr.parse().unwrap(),
                        nat_outgoing,
                        allowed_uses: uses,
                        ..Default::default()
                    };
                    Resource::IpPool(IpPool::new(Metadata::default(), spec))
                }
                Kind::Node => {
                    let listed = ListedAddress { address: address.into(), address_type: "InternalIP".into() };
                    let spec = NodeSpec { addresses: vec![listed], ..NodeSpec::default() };
                    let document = serde_json::json!({"spec": serde_json::to_value(spec).unwrap()});
                    Resource::decode(Kind::Node, &document).unwrap()
                }
                _ => {
                    let ranges = vec![ServiceRange { cidr: cidr.into() }];
                    let spec = BgpConfigurationSpec { service_cluster_ips: ranges, ..Default::default() };
                    Resource::BgpConfiguration(Object { metadata: Metadata::default(), spec }.into())
                }
            };
            (ResourceKey::cluster(kind, name), resource)
        })
    }
}

fn with_service(random: &mut Random, ingress: &mut [Rule], egress: &mut [Rule]) {
    let mut service = || {
        let namespace = random.pick(&["", "one", "two"]).into();
        random.chance(20).then(|| ServiceMatch { name: random.pick(&["web", "dns", ""]).into(), namespace })
    };
    ingress.iter_mut().for_each(|rule| rule.source.services = service());
    egress.iter_mut().for_each(|rule| rule.destination.services = service());
}

#[test]
fn incremental_equals_from_scratch() {
    for seed in 0..60 {
        println!("seed {seed}");
        let mut wide = Wide::new(seed);
        let mut rig = Rig::new();
        for _ in 0..wide.random().pick(&[30, 90]) {
            for _ in 0..=wide.random().below(6) {
                rig.take(wide.input());
            }
            rig.flush();
            if wide.random().chance(15) {
                assert_eq!((rig.state.clone(), rig.problems()), from_scratch(&rig.inputs));
            }
        }
        assert_eq!((rig.state.clone(), rig.problems()), from_scratch(&rig.inputs));
        for step in steps(&rig.inputs, &Inputs::default()) {
            rig.take(step);
        }
        rig.flush();
        assert_eq!(rig.state, ActiveState::default());
        assert_eq!(rig.problems(), Vec::<String>::new());
    }
}

/// Walks through states in the given order and compares each with its own from-scratch word.
fn walk(states: &[Inputs], random: &mut Random, each: bool) {
    let mut rig = Rig::new();
    for state in states {
        let mut steps = steps(&rig.inputs, state);
        random.shuffle(&mut steps);
        for step in steps {
            rig.take(step);
            if each {
                rig.flush();
            }
        }
        rig.flush();
        assert_eq!((rig.state.clone(), rig.problems()), from_scratch(state));
    }
}

#[test]
fn output_depends_on_the_state_and_not_on_the_way() {
    for seed in 1000..1010 {
        println!("seed {seed}");
        let mut wide = Wide::new(seed);
        let states: Vec<Inputs> = (0..4).map(|_| wide.inputs(80)).collect();
        let reversed: Vec<_> = states.iter().rev().cloned().collect();
        let mut with_empties = Vec::new();
        for state in &states {
            with_empties.extend([state.clone(), Inputs::default()]);
        }
        for order in [states, reversed, with_empties] {
            walk(&order, wide.random(), false);
            walk(&order, wide.random(), true);
        }
    }
}

/// The random states reach what they are for.
#[test]
fn random_states_have_everything() {
    let mut seen = BTreeSet::new();
    let mut wide = Wide::new(7);
    for _ in 0..40 {
        let (state, problems) = from_scratch(&wide.inputs(120));
        for endpoint in state.host_endpoints.values() {
            seen.insert(if endpoint.interfaces == HostInterfaces::Others { "others" } else { "named" });
            let both = [&endpoint.untracked, &endpoint.forward, &endpoint.normal];
            let has = both.map(|both| !both.ingress.tiers.is_empty());
            seen.extend(
                ["untracked", "forward", "normal"].into_iter().zip(has).filter(|(_, has)| *has).map(|(name, _)| name),
            );
            seen.extend((!endpoint.pre_dnat.tiers.is_empty()).then_some("pre-dnat"));
        }
        for policy in referenced_policies(&state) {
            seen.insert(policy.0.kind().name());
        }
        let entities = state.policies.values().flat_map(|rules| rules.ingress.iter().chain(&rules.egress));
        seen.extend(entities.flat_map(|rule| &rule.source.sets).find(|_| true).map(|_| "sets"));
        seen.extend((*state.network != Network::default()).then_some("network"));
        for problem in ["is taken by", "no interface of this host", "services need a name", "exclude each other"] {
            seen.extend(problems.iter().any(|told| told.contains(problem)).then_some(problem));
        }
    }
    assert_eq!(seen.len(), 17, "{seen:?}");
}

/// Perhaps a floating address, which may be somebody's own.
fn float(random: &mut Random, spec: &mut WorkloadEndpointSpec) {
    let Some(own) = spec.addresses().next() else { return };
    if random.chance(30) {
        let external_ip = random.pick(&["10.0.0.1", "10.0.0.2", "192.0.2.1", "203.0.113.1", "fd00::1"]).into();
        spec.ip_nats = vec![crate::resource::IpNat { internal_ip: own.address().to_string(), external_ip }];
    }
}
