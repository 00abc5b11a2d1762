//! What an agent cannot carry out, its status says.

use calico_core::resource::{EntityRule, GlobalNetworkPolicySpec, IpNat, ServiceMatch};

use super::*;

#[tokio::test(start_paused = true)]
async fn what_the_host_does_not_do_is_named() {
    let world = World::start(MemoryStore::new());
    populate(&world).await;
    let tells = |words: &'static str| {
        move |status: &NodeStatus| {
            status.diagnostics.iter().any(|text| text.contains("default/pod") && text.contains(words))
        }
    };
    let Resource::WorkloadEndpoint(mut pod) = endpoint("a", "cali1", "10.1.0.5/32") else { unreachable!() };
    pod.spec.ip_nats = vec![IpNat { internal_ip: "10.1.0.5".into(), external_ip: "203.0.113.1".into() }];
    pod.spec.allow_spoofed_source_prefixes = vec!["10.9.0.0/16".parse().unwrap()];
    world.put(endpoint_key("pod"), Resource::WorkloadEndpoint(pod)).await;
    world.until("switched off by default", tells("FloatingIPs")).await;
    world.until("switched off by default", tells("WorkloadSourceSpoofing")).await;
    world.put(endpoint_key("pod"), endpoint("a", "cali1", "10.1.0.5/32")).await;
    world.until("asks for nothing", |status| status.diagnostics.is_empty()).await;
}

/// Agents have no source of endpoint slices.
#[tokio::test(start_paused = true)]
async fn a_rule_about_services_is_named() {
    let world = World::start(MemoryStore::new());
    populate(&world).await;
    world.put(endpoint_key("pod"), endpoint("a", "cali1", "10.1.0.5/32")).await;
    let services = Some(ServiceMatch { name: "web".into(), namespace: "default".into() });
    let rule = Rule { source: EntityRule { services, ..EntityRule::default() }, ..Rule::default() };
    let spec = GlobalNetworkPolicySpec { ingress: vec![rule], ..GlobalNetworkPolicySpec::default() };
    let policy = Resource::GlobalNetworkPolicy(Object { spec, ..Object::default() });
    let key = ResourceKey::cluster(Kind::GlobalNetworkPolicy, "services");
    world.put(key.clone(), policy).await;
    let named = |status: &NodeStatus| {
        let words = ["GlobalNetworkPolicy(services)", "not told what stands behind services"];
        status.diagnostics.iter().any(|text| words.iter().all(|part| text.contains(part)))
    };
    world.until("named", named).await;
    world.write(key, Change::Delete).await;
    world.until("forgotten", |status| !named(status)).await;
}
