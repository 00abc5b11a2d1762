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

/// A host that takes long to be looked at, and does not forward IPv6.
struct Slow(Recording, watch::Receiver<bool>);

#[async_trait::async_trait]
impl Dataplane for Slow {
    async fn observe(&mut self) -> Result<calico_dataplane::Observed, DataplaneError> {
        self.1.wait_for(|is_done| *is_done).await.unwrap();
        self.0.observe().await
    }

    async fn apply(&mut self, delta: &calico_core::table::Delta) -> calico_dataplane::ApplyReport {
        self.0.apply(delta).await
    }

    async fn next_change(&mut self) -> Result<HostChange, DataplaneError> {
        self.0.next_change().await
    }

    fn connections(&mut self, pick: calico_dataplane::Pick) -> calico_dataplane::Listing {
        self.0.connections(pick)
    }

    fn end_connections(&mut self, names: Vec<calico_dataplane::TrackedName>) -> calico_dataplane::Removal {
        self.0.end_connections(names)
    }

    fn remove_workload(&mut self, interface: InterfaceName) -> calico_dataplane::Removal {
        self.0.remove_workload(interface)
    }

    fn forwards_ipv6(&self) -> Option<bool> {
        Some(false)
    }
}

#[tokio::test(start_paused = true)]
async fn callers_are_answered_while_the_host_is_looked_at() {
    let (done, is_done) = watch::channel(false);
    let kernel = Recording::new();
    let world = World::start_with(MemoryStore::new(), Box::new(Slow(kernel.clone(), is_done)), kernel);
    populate(&world).await;
    world.link("cali1", 7);
    world.put(endpoint_key("pod"), endpoint("a", "cali1", "10.1.0.5/32")).await;
    let tells = |status: &NodeStatus, words: &str| status.notices.iter().any(|text| text.contains(words));
    world.until("told of", |status| tells(status, "reading what the kernel holds, for 3 s")).await;
    assert!(matches!(world.wait("pod", 2_000).await, Answer::Error(_)), "a wait ends though the look goes on");
    assert_eq!(world.kernel.take_applied(), Vec::new(), "nothing is written blindly");
    done.send_replace(true);
    assert_eq!(world.wait("pod", 60_000).await, Answer::Ok(Success::Enforced));
    let status = world.until("settled", |status| status.dataplane_in_sync).await;
    assert!(!tells(&status, "reading"), "{status:?}");
}

#[tokio::test(start_paused = true)]
async fn a_host_that_does_not_forward_ipv6_says_so_while_it_has_ipv6_workloads() {
    let kernel = Recording::new();
    let is_done = watch::channel(true).1;
    let world = World::start_with(MemoryStore::new(), Box::new(Slow(kernel.clone(), is_done)), kernel);
    populate(&world).await;
    let tells = |status: &NodeStatus| status.notices.iter().any(|text| text.contains("does not forward IPv6"));
    world.put(endpoint_key("pod"), endpoint("a", "cali1", "10.1.0.5/32")).await;
    world.until("seen", |status| status.endpoints == 1 && !tells(status)).await;
    world.put(endpoint_key("six"), endpoint("a", "cali2", "fd00::5/128")).await;
    world.until("told of", tells).await;
    world.write(endpoint_key("six"), Change::Delete).await;
    world.until("gone", |status| !tells(status)).await;
}
