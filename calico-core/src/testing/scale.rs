//! Clusters of the size that benchmarks need, made from a seed; the shapes are those of upstream's benchmarks of its calculation
//! graph (`felix/calc/calc_graph_bench_test.go`).
//!
//! Updates come as the syncer hands them over: in the order of upstream's benchmarks, words shared.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

use super::cluster::HOST;
use crate::net::{Cidr, Port, PortRange, Protocol};
use crate::resource::{
    EntityRule, GlobalNetworkPolicySpec, Kind, Metadata, NetworkPolicySpec, Object, PolicyType, ProfileSpec, Resource,
    ResourceKey, Rule, WorkloadEndpointSpec,
};
use crate::text::{Text, TextMap, Words};
use crate::update::Update;

/// Node of all endpoints that are not on [`HOST`].
const ELSEWHERE: &str = "remotehost";

/// Labels that only say that they are there. Each endpoint has one; policies select and allow by them. Two stand twice, as upstream's do.
const MARKERS: [&str; 31] = [
    "FOO_BAR",
    "FOO_BAR",
    "BIFF_BOP",
    "calico/FizzBuzz",
    "calico/BoffBip",
    "calico/Bazzle",
    "calico/Razzle",
    "calico/DoopDeeDoo",
    "calico/SOME_LABEL",
    "calico/BORED_NOW",
    "MyMarkerLabel",
    "xFOO_BAR",
    "xBIFF_BOP",
    "xcalico/FizzBuzz",
    "xcalico/BoffBip",
    "xcalico/Bazzle",
    "xcalico/Razzle",
    "xcalico/DoopDeeDoo",
    "xcalico/SOME_LABEL",
    "xcalico/BORED_NOW",
    "yxMyMarkerLabel",
    "yxFOO_BAR",
    "yxBIFF_BOP",
    "yxcalico/FizzBuzz",
    "yxcalico/BoffBip",
    "yxcalico/Bazzle",
    "yxcalico/Razzle",
    "yxcalico/DoopDeeDoo",
    "yxcalico/SOME_LABEL",
    "yxcalico/BORED_NOW",
    "yxMyMarkerLabel",
];

const TAG_NAMESPACES: u32 = 100;
const TAG_RULES: usize = 5;

/// Policies that select endpoints by a marker label and allow five of them: 29 sets in all, whose members are all endpoints.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals")]
pub struct TagPolicies {
    /// Endpoints of other hosts.
    pub remote: u32,
    /// Endpoints of [`HOST`].
    pub local: u32,
    /// Policies.
    pub policies: u32,
    /// Where the labels begin to count.
    pub seed: u64,
}

impl TagPolicies {
    /// Policies, profiles, remote endpoints, local endpoints.
    pub fn updates(&self) -> Vec<Update> {
        let mut words = Words::default();
        let mut updates: Vec<Update> = (0..self.policies).map(tag_policy).collect();
        updates.extend((0..TAG_NAMESPACES).map(|number| {
            let name = format!("namespace-{number}");
            profile(&name, [(NAMESPACE_NAME.into(), name.as_str().into())].into())
        }));
        updates.extend((0..self.remote + self.local).map(|number| self.endpoint(number, number, number, &mut words)));
        updates
    }

    /// The endpoint of a number as it would be with the labels or the address of another number.
    pub fn endpoint(&self, number: u32, labels: u32, address: u32, words: &mut Words) -> Update {
        let labelled = self.seed + u64::from(labels) + 1;
        let value = |modulus: u64| -> Text { format!("value-{}", labelled % modulus).into() };
        let mut pairs: Vec<(Text, Text)> =
            [10, 11, 20, 30, 40].into_iter().map(|n| (format!("one-in-{n}").into(), value(n))).collect();
        let marker = MARKERS.iter().cycle().nth((labelled % MARKERS.len() as u64) as usize).unwrap_or(&"");
        pairs.push(((*marker).into(), "true".into()));
        let (node, within) = match number.checked_sub(self.remote) {
            Some(within) => (HOST, within),
            None => (ELSEWHERE, number),
        };
        let namespace = format!("namespace-{}", within % TAG_NAMESPACES);
        let pod = format!("wep-{within}");
        Workload { namespace: &namespace, node, pod: &pod, number, address }.update(pairs.into_iter().collect(), words)
    }
}

/// Namespaces whose pods may only talk to each other and to DNS, with much that no selector mentions on each pod: fifteen labels, five of
/// which no other pod has.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals")]
pub struct IsolatedCustomers {
    /// Namespaces; each has one endpoint.
    pub namespaces: u32,
    /// Endpoints on [`HOST`], from namespaces evenly apart.
    pub local: u32,
    /// Where the text of labels begins to count.
    pub seed: u64,
}

impl IsolatedCustomers {
    /// Policies, profiles, remote endpoints, local endpoints.
    pub fn updates(&self) -> Vec<Update> {
        let mut words = Words::default();
        let customer = |number| format!("customer-{number}");
        let mut updates: Vec<Update> =
            (0..self.namespaces).map(|number| isolation_policy(&customer(number), &mut words)).collect();
        updates.extend((0..self.namespaces).map(|number| {
            let name = customer(number);
            let labels = [
                (NAMESPACE_NAME.into(), name.as_str().into()),
                ("pcns.namespace-id".into(), self.text(u64::from(number), 20)),
                ("pcns.production".into(), Text::from(if number % 2 == 0 { "true" } else { "false" })),
            ];
            profile(&name, labels.into())
        }));
        let stride = (self.namespaces / self.local.max(1)).max(1);
        let is_local = |number: &u32| number.is_multiple_of(stride) && number / stride < self.local;
        let (local, remote): (Vec<u32>, Vec<u32>) = (0..self.namespaces).partition(is_local);
        for (node, numbers) in [(ELSEWHERE, remote), (HOST, local)] {
            updates.extend(numbers.into_iter().map(|number| {
                let pod = format!("app-{:09x}-{:05x}", number * 7 + 3, (number * 17 + 5) & 0xffff);
                let namespace = customer(number);
                let workload = Workload { namespace: &namespace, node, pod: &pod, number, address: number };
                workload.update(self.pod_labels(u64::from(number)), &mut words)
            }));
        }
        updates
    }

    fn pod_labels(&self, pod: u64) -> TextMap {
        let bit = |shift: u32| Text::from(if pod >> shift & 1 == 0 { "0" } else { "1" });
        let one_of = |choice: &[&str]| {
            let mut values = choice.iter().cycle();
            Text::from(*values.nth((pod % choice.len() as u64) as usize).unwrap_or(&""))
        };
        [
            ("pod-id", self.text(pod * 5, 20)),
            ("instance-id", self.text(pod * 5 + 1, 20)),
            ("short-id", self.text(pod * 5 + 2, 10)),
            ("config-hash", self.text(pod * 5 + 3, 20)),
            ("version-tag", self.text(pod * 5 + 4, 8)),
            ("enabled", bit(0)),
            ("debug", bit(1)),
            ("canary", bit(2)),
            ("managed", bit(3)),
            ("environment", one_of(&["dev", "staging", "prod"])),
            ("tier", one_of(&["frontend", "backend", "middleware", "data"])),
            ("region", one_of(&["us-east", "us-west", "eu-west", "ap-south"])),
            ("team", one_of(&["platform", "payments", "identity", "growth", "infra"])),
            ("managed-by", "saas-controller".into()),
            ("tenant-id", self.text(pod % 5000, 10)),
        ]
        .into_iter()
        .map(|(name, value)| (Text::from(name), value))
        .collect()
    }

    /// Text of hexadecimal letters that a number decides.
    fn text(&self, number: u64, length: usize) -> Text {
        let mut state = (self.seed + number).wrapping_mul(2_654_435_761).wrapping_add(1);
        let mut next = || {
            let digit = b"abcdef0123456789".get((state % 16) as usize).copied().unwrap_or(b'0');
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(digit)
        };
        (0..length).map(|_| next()).collect::<String>().into()
    }
}

/// Label of a namespace's name, as its profile hands it down.
const NAMESPACE_NAME: &str = "pcns.projectcalico.org/name";

fn tag_policy(number: u32) -> Update {
    let marker = |at: usize| format!("has({})", MARKERS.iter().cycle().nth(at % MARKERS.len()).unwrap_or(&""));
    let first = number as usize;
    let allow = |at: usize| Rule {
        source: EntityRule { selector: marker(first + at), ..EntityRule::default() },
        ..Rule::default()
    };
    let spec = GlobalNetworkPolicySpec {
        selector: marker(first),
        ingress: (0..TAG_RULES).map(allow).collect(),
        ..GlobalNetworkPolicySpec::default()
    };
    let name = format!("tag-pol-{number}");
    let metadata = Metadata::named(&name);
    Update {
        key: ResourceKey::cluster(Kind::GlobalNetworkPolicy, &name),
        value: Some(Arc::new(Resource::GlobalNetworkPolicy(Object { metadata, spec }))),
    }
}

fn isolation_policy(namespace: &str, words: &mut Words) -> Update {
    let own = || EntityRule {
        namespace_selector: format!("projectcalico.org/name == '{namespace}'"),
        ..EntityRule::default()
    };
    let dns = EntityRule {
        nets: Cidr::new(IpAddr::from([10, 96, 0, 10]), 32).into_iter().collect(),
        ports: vec![Port::Range(PortRange::single(53))],
        ..EntityRule::default()
    };
    let spec = NetworkPolicySpec {
        selector: format!("{NAMESPACE_NAME} == '{namespace}'"),
        types: vec![PolicyType::Ingress, PolicyType::Egress],
        ingress: vec![Rule { source: own(), ..Rule::default() }],
        egress: vec![
            Rule { destination: own(), ..Rule::default() },
            Rule { protocol: Some(Protocol::UDP), destination: dns, ..Rule::default() },
        ],
        ..NetworkPolicySpec::default()
    };
    let metadata = Metadata { namespace: Some(namespace.into()), ..Metadata::named("isolation") };
    let mut key = ResourceKey::namespaced(Kind::NetworkPolicy, namespace, "isolation");
    key.share(words);
    Update { key, value: Some(Arc::new(Resource::NetworkPolicy(Object { metadata, spec }))) }
}

fn profile(namespace: &str, labels: TextMap) -> Update {
    let name = format!("kns.{namespace}");
    let spec = ProfileSpec { labels_to_apply: labels.into_iter().collect(), ..ProfileSpec::default() };
    let metadata = Metadata::named(&name);
    Update {
        key: ResourceKey::cluster(Kind::Profile, &name),
        value: Some(Arc::new(Resource::Profile(Object { metadata, spec }))),
    }
}

struct Workload<'a> {
    namespace: &'a str,
    node: &'a str,
    pod: &'a str,
    number: u32,
    address: u32,
}

impl Workload<'_> {
    fn update(self, labels: TextMap, words: &mut Words) -> Update {
        let Self { namespace, node, pod, number, address } = self;
        let name = format!("{node}-k8s-{pod}-eth0");
        let spec = WorkloadEndpointSpec {
            orchestrator: "k8s".into(),
            node: node.into(),
            pod: pod.into(),
            endpoint: "eth0".into(),
            ip_networks: vec![Cidr::host(Ipv4Addr::from(0x0a00_0001 + address).into())],
            profiles: vec![format!("kns.{namespace}").into()],
            interface_name: format!("cali{number:x}").parse().ok(),
            ..WorkloadEndpointSpec::default()
        };
        let metadata = Metadata { namespace: Some(namespace.into()), labels, ..Metadata::named(&name) };
        let mut key = ResourceKey::namespaced(Kind::WorkloadEndpoint, namespace, &name);
        key.share(words);
        let mut resource = Resource::WorkloadEndpoint(Object { metadata, spec });
        resource.share(words);
        Update { key, value: Some(Arc::new(resource)) }
    }
}
