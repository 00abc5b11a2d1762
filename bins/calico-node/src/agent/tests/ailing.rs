//! What is not carried out stands at each endpoint that it is about, and at no other.

use calico_cmd::control::EndpointProblems;
use serde_json::{Value, json};

use super::*;

fn labelled(interface: &str, address: &str, role: &str) -> Resource {
    let Resource::WorkloadEndpoint(mut pod) = endpoint("a", interface, address) else { unreachable!() };
    pod.metadata.labels = [("role".into(), role.into())].into_iter().collect();
    Resource::WorkloadEndpoint(pod)
}

async fn put_host(world: &World) {
    let spec = HostEndpointSpec {
        node: "a".into(),
        interface_name: "eth0".into(),
        profiles: vec!["open".into()],
        ..HostEndpointSpec::default()
    };
    let metadata = Metadata { labels: [("role".into(), "web".into())].into_iter().collect(), ..Metadata::default() };
    world
        .put(ResourceKey::cluster(Kind::HostEndpoint, "uplink"), Resource::HostEndpoint(Object { metadata, spec }))
        .await;
    world.link("eth0", 2);
}

/// Two workloads and a host endpoint, one of the workloads apart.
async fn populated() -> World {
    let world = World::start(MemoryStore::new());
    populate(&world).await;
    put_host(&world).await;
    world.put(endpoint_key("web"), labelled("cali1", "10.1.0.5/32", "web")).await;
    world.put(endpoint_key("other"), labelled("cali2", "10.1.0.6/32", "other")).await;
    inject(&world, &ResourceKey::cluster(Kind::Tier, "default"), json!({"spec": {}}));
    world.until("endpoints", |status| (status.endpoints, status.host_endpoints) == (2, 1)).await;
    world
}

/// Stores a document as somebody else wrote it, what we do not know included.
fn inject(world: &World, key: &ResourceKey, mut document: Value) {
    document["kind"] = key.kind().name().into();
    document["apiVersion"] = "projectcalico.org/v3".into();
    document["metadata"] = json!({"name": key.name()});
    world.store.inject(key.clone(), document.to_string().as_bytes());
}

/// A policy of what has the role `web`.
fn policy(spec: &Value) -> Value {
    let mut document = json!({"spec": {"selector": "role == 'web'", "types": ["Ingress"]}});
    document["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    document
}

const WEB: &str = "WorkloadEndpoint(default/web)";
const HOST: &str = "HostEndpoint(uplink)";

fn told<'a>(status: &'a NodeStatus, endpoint: &str) -> Option<&'a EndpointProblems> {
    status.endpoint_problems.iter().find(|told| told.endpoint == endpoint)
}

fn names(status: &NodeStatus) -> Vec<&str> {
    status.endpoint_problems.iter().map(|told| told.endpoint.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_has_the_problems_of_its_policies_while_it_has_the_policies() {
    let world = populated().await;
    let key = ResourceKey::cluster(Kind::GlobalNetworkPolicy, "p");
    let rule = |rule: Value| json!({"ingress": [rule]});
    let services = json!({"action": "Allow", "source": {"services": {"name": "web", "namespace": "default"}}});
    let cases = [
        (rule(json!({"action": "Allow", "http": {"methods": ["GET"]}})), "http"),
        (rule(services), "services"),
        (rule(json!({"action": "Allow", "weather": "fine"})), "weather"),
        (json!({"weather": "fine"}), "weather"),
        (json!({"doNotTrack": true, "preDNAT": true, "applyOnForward": true}), "exclude each other"),
        (json!({"preDNAT": true, "applyOnForward": true, "types": ["Egress"]}), "cannot have type Egress"),
    ];
    for (spec, word) in cases {
        inject(&world, &key, policy(&spec));
        let status = world.until(word, |status| told(status, HOST).is_some()).await;
        // What is not tracked, or comes before DNAT, is no concern of workloads.
        let is_of_hosts = spec.get("preDNAT").is_some();
        let expected = if is_of_hosts { vec![HOST] } else { vec![HOST, WEB] };
        let mut found = names(&status);
        found.sort_unstable();
        assert_eq!((found, status.endpoints_with_problems), (expected.clone(), expected.len()), "{spec}");
        for endpoint in expected {
            let told = told(&status, endpoint).unwrap();
            let is_named = |text: &String| text.starts_with("GlobalNetworkPolicy(p): ") && text.contains(word);
            assert!(told.count == told.first.len() && told.first.iter().any(is_named), "{told:?}");
        }
        world.write(key.clone(), Change::Delete).await;
        world.until("forgotten", |status| status.endpoint_problems.is_empty()).await;
    }
    // It is about none of these.
    let elsewhere = json!({"selector": "role == 'none'", "weather": "fine"});
    inject(&world, &key, policy(&elsewhere));
    let status = world.until("told of the policy", |status| !status.diagnostics.is_empty()).await;
    assert_eq!((names(&status), status.endpoints_with_problems), (vec![], 0));
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_has_the_problems_of_its_tiers_and_profiles() {
    let world = populated().await;
    let tier = ResourceKey::cluster(Kind::Tier, "default");
    inject(&world, &tier, json!({"spec": {"weather": "fine"}}));
    let status = world.until("told of the tier", |status| !status.diagnostics.is_empty()).await;
    assert!(status.endpoint_problems.is_empty(), "nobody has a policy in it: {status:?}");
    inject(&world, &ResourceKey::cluster(Kind::GlobalNetworkPolicy, "p"), policy(&json!({})));
    let status = world.until("it has a policy", |status| !status.endpoint_problems.is_empty()).await;
    assert!(told(&status, WEB).unwrap().first[0].starts_with("Tier(default): "), "{status:?}");
    assert_eq!(status.endpoints_with_problems, 2, "{status:?}");
    world.write(tier, Change::Delete).await;
    let says = |words: &'static str| {
        move |status: &NodeStatus| {
            told(status, WEB).is_some_and(|told| told.first.iter().any(|text| text.contains(words)))
        }
    };
    world.until("its tier is gone", says("tier default, which does not exist")).await;

    let profile = ResourceKey::cluster(Kind::Profile, "open");
    world.write(profile.clone(), Change::Delete).await;
    let status = world.until("its profile is gone", says("Profile(open): it does not exist")).await;
    assert_eq!(status.endpoints_with_problems, 3, "all name it: {status:?}");
}

#[tokio::test(start_paused = true)]
async fn many_problems_are_counted_and_each_object_is_named_before_one_is_named_twice() {
    let world = populated().await;
    let rules: Vec<Value> = (0..100).map(|_| json!({"action": "Allow", "http": {"methods": ["GET"]}})).collect();
    inject(&world, &ResourceKey::cluster(Kind::GlobalNetworkPolicy, "p"), policy(&json!({ "ingress": rules })));
    let name = "x".repeat(5000);
    let long = json!({ (name): 1 });
    inject(&world, &ResourceKey::cluster(Kind::GlobalNetworkPolicy, "q"), policy(&long));
    let status = world.until("both", |status| told(status, WEB).is_some_and(|told| told.count > 100)).await;
    let told = told(&status, WEB).unwrap();
    assert_eq!((told.count, told.first.len()), (101, 4), "{told:?}");
    assert!(told.first[1].starts_with("GlobalNetworkPolicy(q): "), "{told:?}");
    assert!(told.first.iter().all(|text| text.len() < 200), "{told:?}");
}
