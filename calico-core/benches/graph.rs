//! The calculation graph at cluster scale.
//!
//! | Id | Work | Peer (published) | Limit | Target |
//! |---|---|---|---|---|
//! | P1 | snapshot of 250 000 remote and 200 local endpoints, 10 000 policies that select and allow by tag | upstream 3.39 s, 374 MB (calico#10272) | 0.1–0.25 s, 12–24 MB | ≤ 0.35 s, ≤ 40 MB |
//! | P2 | snapshot of 100 000 namespaces that isolate themselves, one remote endpoint each | upstream 6.90 s, 402 MB (calico#11866) | – | ≤ 0.5 s, ≤ 60 MB |
//! | P3 | one endpoint's labels or address change after P1 | upstream 20–200 µs | 1 µs | p99 ≤ 20 µs |
//!
//! The peer's figures are its own; its programs do not run here. Inputs come from a seed. Memory is what the graph allocates beyond
//! the updates themselves, which the caller shares with its cache.

use std::sync::Arc;

use calico_core::calc::Graph;
use calico_core::net::Cidr;
use calico_core::resource::{
    EntityRule, GlobalNetworkPolicySpec, Kind, Metadata, NetworkPolicySpec, Object, ProfileSpec, Resource, ResourceKey,
    Rule, WorkloadEndpointSpec,
};
use calico_core::testing::{HOST, Random};
use calico_core::text::{Text, TextMap};
use calico_core::update::Update;
use divan::{AllocProfiler, Bencher};

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

const TAGS: usize = 10_000;
const REMOTE: u32 = 250_000;
const LOCAL: u32 = 200;
const NAMESPACES: u32 = 100_000;

/// P1.
#[divan::bench(sample_count = 5, sample_size = 1)]
fn snapshot_of_tag_policies(bencher: Bencher<'_, '_>) {
    let updates = tagged_cluster();
    bencher.bench_local(|| load(&updates));
}

/// P2.
#[divan::bench(sample_count = 5, sample_size = 1)]
fn snapshot_of_isolated_namespaces(bencher: Bencher<'_, '_>) {
    let updates = isolated_namespaces();
    bencher.bench_local(|| load(&updates));
}

/// P3, labels: a remote endpoint changes its tags.
#[divan::bench(sample_count = 1000, sample_size = 1)]
fn label_change(bencher: Bencher<'_, '_>) {
    change(bencher, |random, number| endpoint(number, "remote", number, &tags(random)));
}

/// P3, address: a remote endpoint changes its address, among its labels one that an active set selects.
#[divan::bench(sample_count = 1000, sample_size = 1)]
fn address_change(bencher: Bencher<'_, '_>) {
    change(bencher, |random, number| endpoint(number, "remote", number + 1_000_000, &tags(random)));
}

fn change(bencher: Bencher<'_, '_>, next: impl Fn(&mut Random, u32) -> Update) {
    let mut graph = load(&tagged_cluster()).0;
    let mut random = Random::new(2);
    let mut updates = (0..4000).map(|_| {
        let number = u32::try_from(random.below(REMOTE as usize)).unwrap_or(0);
        next(&mut random, number)
    });
    let updates: Vec<Update> = updates.by_ref().collect();
    let mut updates = updates.iter().cycle();
    bencher.bench_local(|| {
        if let Some(update) = updates.next() {
            graph.handle_update(update);
        }
        graph.flush().len()
    });
}

fn load(updates: &[Update]) -> (Graph, usize) {
    let mut graph = Graph::new(HOST);
    for update in updates {
        graph.handle_update(update);
    }
    let events = graph.flush().len();
    (graph, events)
}

fn tagged_cluster() -> Vec<Update> {
    let mut random = Random::new(1);
    let mut updates: Vec<Update> = (0..TAGS).map(tag_policy).collect();
    updates.extend((0..REMOTE).map(|number| endpoint(number, "remote", number, &tags(&mut random))));
    updates.extend((0..LOCAL).map(|number| endpoint(REMOTE + number, HOST, REMOTE + number, &tags(&mut random))));
    updates
}

fn tags(random: &mut Random) -> Vec<String> {
    (0..5).map(|_| format!("tag-{}", random.below(TAGS))).collect()
}

fn tag_policy(tag: usize) -> Update {
    let selector = format!("has(tag-{tag})");
    let peer = EntityRule { selector: selector.clone(), ..EntityRule::default() };
    let spec = GlobalNetworkPolicySpec {
        selector,
        ingress: vec![Rule { source: peer, ..Rule::default() }],
        ..GlobalNetworkPolicySpec::default()
    };
    let name = format!("tag-{tag}");
    let metadata = Metadata { name: name.clone(), ..Metadata::default() };
    Update {
        key: ResourceKey::cluster(Kind::GlobalNetworkPolicy, &name),
        value: Some(Arc::new(Resource::GlobalNetworkPolicy(Object { metadata, spec }))),
    }
}

fn endpoint(number: u32, node: &str, address: u32, tags: &[String]) -> Update {
    let namespace = format!("namespace-{}", number % 1000);
    let labels = tags.iter().map(|tag| (tag.into(), Text::default())).collect();
    workload(number, &namespace, node, address, labels)
}

fn workload(number: u32, namespace: &str, node: &str, address: u32, labels: TextMap) -> Update {
    let name = format!("{node}-k8s-pod--{number}-eth0");
    let spec = WorkloadEndpointSpec {
        node: node.into(),
        ip_networks: vec![Cidr::host(std::net::Ipv4Addr::from(0x0a00_0000 + address).into())],
        profiles: vec![format!("kns.{namespace}").into(), format!("ksa.{namespace}.default").into()],
        interface_name: format!("cali{number:x}").parse().ok(),
        ..WorkloadEndpointSpec::default()
    };
    let metadata = Metadata { name: name.clone(), labels, ..Metadata::default() };
    Update {
        key: ResourceKey::namespaced(Kind::WorkloadEndpoint, namespace, &name),
        value: Some(Arc::new(Resource::WorkloadEndpoint(Object { metadata, spec }))),
    }
}

/// Each namespace has its profile, an endpoint, and a policy that admits only the namespace itself; two endpoints are local.
fn isolated_namespaces() -> Vec<Update> {
    let mut updates = Vec::new();
    for number in 0..NAMESPACES {
        let namespace = format!("namespace-{number}");
        let name = format!("kns.{namespace}");
        let labels = [("pcns.projectcalico.org/name".into(), namespace.as_str().into())].into();
        let profile =
            ProfileSpec { labels_to_apply: labels, ingress: vec![Rule::default()], egress: vec![Rule::default()] };
        let metadata = Metadata { name: name.clone(), ..Metadata::default() };
        updates.push(Update {
            key: ResourceKey::cluster(Kind::Profile, &name),
            value: Some(Arc::new(Resource::Profile(Object { metadata, spec: profile }))),
        });
        let peer = EntityRule { selector: "all()".into(), ..EntityRule::default() };
        let spec = NetworkPolicySpec {
            ingress: vec![Rule { source: peer, ..Rule::default() }],
            ..NetworkPolicySpec::default()
        };
        let metadata = Metadata { name: "isolate".into(), namespace: Some(namespace.clone()), ..Metadata::default() };
        updates.push(Update {
            key: ResourceKey::namespaced(Kind::NetworkPolicy, &namespace, "isolate"),
            value: Some(Arc::new(Resource::NetworkPolicy(Object { metadata, spec }))),
        });
        let labels = [("app".into(), "web".into())].into();
        let node = if number % 50_000 == 0 { HOST } else { "remote" };
        updates.push(workload(number, &namespace, node, number, labels));
    }
    updates
}
