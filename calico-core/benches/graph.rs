//! The calculation graph at cluster scale, with what it allocates. `calico-lab bench P1`, `P2` and `P3` are the same work with the
//! memory that the kernel sees.
//!
//! | Id | Work | Peer (published) | Limit | Target |
//! |---|---|---|---|---|
//! | P1 | snapshot of 250 000 remote and 200 local endpoints, 10 000 policies that select and allow by tag | upstream 3.39 s, 374 MB (calico#10272) | 0.1–0.25 s, 12–24 MB | ≤ 0.35 s, ≤ 40 MB |
//! | P2 | snapshot of 100 000 namespaces that isolate themselves, one endpoint each, 100 of them local | upstream 6.90 s, 402 MB (calico#11866) | – | ≤ 0.5 s, ≤ 60 MB |
//! | P3 | one endpoint's labels or address change after P1 | upstream 20–200 µs | 1 µs | p99 ≤ 20 µs |
//!
//! The peer's figures are its own; its programs do not run here. Memory is what the graph allocates beyond the updates themselves,
//! which the caller has. `tags_of_their_own` is P1 at its worst: no two endpoints have the same labels, and each tag has its policy.

use std::sync::Arc;

use calico_core::calc::Graph;
use calico_core::net::Cidr;
use calico_core::resource::{
    EntityRule, GlobalNetworkPolicySpec, Kind, Metadata, Object, Resource, ResourceKey, Rule, WorkloadEndpointSpec,
};
use calico_core::testing::{HOST, IsolatedCustomers, Random, TagPolicies};
use calico_core::text::{Text, Words};
use calico_core::update::Update;
use divan::{AllocProfiler, Bencher};

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

const TAGS: TagPolicies = TagPolicies { remote: 250_000, local: 200, policies: 10_000, seed: 0 };
const CUSTOMERS: IsolatedCustomers = IsolatedCustomers { namespaces: 100_000, local: 100, seed: 0 };

/// P1.
#[divan::bench(sample_count = 5, sample_size = 1)]
fn snapshot_of_tag_policies(bencher: Bencher<'_, '_>) {
    let updates = TAGS.updates();
    bencher.bench_local(|| load(&updates));
}

/// P2.
#[divan::bench(sample_count = 5, sample_size = 1)]
fn snapshot_of_isolated_customers(bencher: Bencher<'_, '_>) {
    let updates = CUSTOMERS.updates();
    bencher.bench_local(|| load(&updates));
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn snapshot_of_tags_of_their_own(bencher: Bencher<'_, '_>) {
    let updates = tags_of_their_own();
    bencher.bench_local(|| load(&updates));
}

/// P3, labels: a remote endpoint takes those of another.
#[divan::bench(sample_count = 1000, sample_size = 1)]
fn label_change(bencher: Bencher<'_, '_>) {
    change(bencher, |random, number, words| TAGS.endpoint(number, remote(random), number, words));
}

/// P3, address: a remote endpoint changes its address, which is a member of a set.
#[divan::bench(sample_count = 1000, sample_size = 1)]
fn address_change(bencher: Bencher<'_, '_>) {
    change(bencher, |_, number, words| TAGS.endpoint(number, number, number + 1_000_000, words));
}

fn change(bencher: Bencher<'_, '_>, next: impl Fn(&mut Random, u32, &mut Words) -> Update) {
    let mut graph = load(&TAGS.updates()).0;
    let (mut random, mut words) = (Random::new(2), Words::default());
    let updates: Vec<Update> = (0..4000)
        .map(|_| {
            let number = remote(&mut random);
            next(&mut random, number, &mut words)
        })
        .collect();
    let mut updates = updates.iter().cycle();
    bencher.bench_local(|| {
        if let Some(update) = updates.next() {
            graph.handle_update(update);
        }
        graph.flush().len()
    });
}

fn remote(random: &mut Random) -> u32 {
    u32::try_from(random.below(TAGS.remote as usize)).unwrap_or(0)
}

fn load(updates: &[Update]) -> (Graph, usize) {
    let mut graph = Graph::new(HOST);
    for update in updates {
        graph.handle_update(update);
    }
    let events = graph.flush().len();
    (graph, events)
}

fn tags_of_their_own() -> Vec<Update> {
    let mut random = Random::new(1);
    let mut updates: Vec<Update> = (0..TAGS.policies).map(tag_policy).collect();
    updates.extend((0..TAGS.remote).map(|number| endpoint(number, "remote", &mut random)));
    updates.extend((0..TAGS.local).map(|number| endpoint(TAGS.remote + number, HOST, &mut random)));
    updates
}

fn tag_policy(tag: u32) -> Update {
    let selector = format!("has(tag-{tag})");
    let peer = EntityRule { selector: selector.clone(), ..EntityRule::default() };
    let spec = GlobalNetworkPolicySpec {
        selector,
        ingress: vec![Rule { source: peer, ..Rule::default() }],
        ..GlobalNetworkPolicySpec::default()
    };
    let name = format!("tag-{tag}");
    let metadata = Metadata::named(&name);
    Update {
        key: ResourceKey::cluster(Kind::GlobalNetworkPolicy, &name),
        value: Some(Arc::new(Resource::GlobalNetworkPolicy(Object { metadata, spec }))),
    }
}

fn endpoint(number: u32, node: &str, random: &mut Random) -> Update {
    let namespace = format!("namespace-{}", number % 1000);
    let tags = (0..5).map(|_| (format!("tag-{}", random.below(TAGS.policies as usize)).into(), Text::default()));
    let name = format!("{node}-k8s-pod--{number}-eth0");
    let spec = WorkloadEndpointSpec {
        node: node.into(),
        ip_networks: vec![Cidr::host(std::net::Ipv4Addr::from(0x0a00_0000 + number).into())],
        profiles: vec![format!("kns.{namespace}").into(), format!("ksa.{namespace}.default").into()],
        interface_name: format!("cali{number:x}").parse().ok(),
        ..WorkloadEndpointSpec::default()
    };
    let metadata = Metadata { labels: tags.collect(), ..Metadata::named(&name) };
    Update {
        key: ResourceKey::namespaced(Kind::WorkloadEndpoint, &namespace, &name),
        value: Some(Arc::new(Resource::WorkloadEndpoint(Object { metadata, spec }))),
    }
}
