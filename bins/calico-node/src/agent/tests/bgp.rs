//! From what the datastore says of BGP to what the speaker is to do, and back.

use calico_core::bgp::Password;
use calico_core::resource::{BgpConfigurationSpec, BgpPassword, BgpPeerSpec, SecretKeyRef, ServiceRange};

use super::*;

fn tor(filters: Vec<String>) -> Resource {
    let spec = BgpPeerSpec {
        peer_ip: "192.0.2.1".into(),
        as_number: Some("65000".parse().unwrap()),
        filters,
        ..BgpPeerSpec::default()
    };
    Resource::BgpPeer(Object { spec, ..Object::default() }.into())
}

#[tokio::test(start_paused = true)]
async fn a_peer_of_the_datastore_reaches_the_speaker() {
    let world = World::start(MemoryStore::new());
    populate(&world).await;
    let key = || ResourceKey::cluster(Kind::BgpPeer, "tor");
    world.put(key(), tor(vec!["no-such-filter".into()])).await;
    let names = |status: &NodeStatus| status.diagnostics.iter().any(|text| text.contains("no-such-filter"));
    world.until("the filter that is not there is told of", names).await;
    let peers = world.bgp.applied().last().unwrap().peers.clone();
    let [peer] = peers.as_slice() else { panic!("{peers:?}") };
    assert_eq!((peer.id.to_string(), peer.as_number.value(), &*peer.name), ("192.0.2.1".into(), 65000, "tor"));
    world.write(key(), Change::Delete).await;
    world.until("forgotten", |status| !names(status)).await;
    assert!(world.bgp.applied().last().unwrap().peers.is_empty());
}

#[tokio::test(start_paused = true)]
async fn ranges_of_services_are_announced_and_not_learned() {
    let world = World::start(MemoryStore::new());
    populate(&world).await;
    let learned = |prefix: &str| {
        let next_hop = "10.0.0.2".parse().unwrap();
        BgpEvent::RouteSet(LearnedRoute::new(prefix.parse().unwrap(), next_hop, next_hop.into()))
    };
    world.bgp.script(learned("10.96.0.0/12"));
    world.bgp.script(learned("10.2.0.0/26"));
    world.until("programmed", |_| world.route("10.96.0.0/12").is_some() && world.route("10.2.0.0/26").is_some()).await;
    let services = vec![ServiceRange { cidr: "10.96.0.0/12".into() }];
    let spec = BgpConfigurationSpec { service_cluster_ips: services, ..BgpConfigurationSpec::default() };
    let configuration = Resource::BgpConfiguration(Object { spec, ..Object::default() }.into());
    world.put(ResourceKey::cluster(Kind::BgpConfiguration, "default"), configuration).await;
    world.until("gone", |_| world.route("10.96.0.0/12").is_none()).await;
    assert!(world.route("10.2.0.0/26").is_some());
    let originated = world.bgp.applied().last().unwrap().originated.clone();
    assert!(originated.iter().any(|one| one.prefix.to_string() == "10.96.0.0/12"), "{originated:?}");
}

/// Until somebody tells of the secret the session has a reason to be down; then it has the password, and with a new one a new password.
#[tokio::test(start_paused = true)]
async fn a_password_comes_from_who_reads_secrets() {
    let mut world = World::start(MemoryStore::new());
    populate(&world).await;
    let reference = SecretKeyRef { name: "bgp".into(), key: "tor".into(), ..SecretKeyRef::default() };
    let Resource::BgpPeer(mut peer) = tor(Vec::new()) else { panic!("no peer") };
    peer.spec.password = Some(BgpPassword { secret_key_ref: Some(reference) });
    world.put(ResourceKey::cluster(Kind::BgpPeer, "tor"), Resource::BgpPeer(peer)).await;
    let wanted = world.wanted_secrets.wait_for(|wanted| !wanted.is_empty()).await.unwrap().clone();
    assert_eq!(wanted, BTreeSet::from(["bgp".into()]));
    world.until("the secret is waited for", |status| !status.diagnostics.is_empty()).await;
    assert!(world.bgp.applied().is_empty(), "nothing is configured while it may still be told");
    let password = |world: &World| world.bgp.applied().last().map(|desired| desired.peers[0].session.password.clone());
    world.until("kept down", |_| matches!(password(&world), Some(Password::Missing(_)))).await;
    for key in ["one", "two"] {
        let value = Some([("tor".to_owned(), key.to_owned())].into());
        world.facts.send(Fact::Secret { name: "bgp".into(), value }).await.unwrap();
        let is_set = |_: &NodeStatus| matches!(password(&world), Some(Password::Key(secret)) if secret.expose() == key);
        world.until("the password is known", is_set).await;
    }
    world.facts.send(Fact::Secret { name: "bgp".into(), value: None }).await.unwrap();
    world.until("kept down", |_| matches!(password(&world), Some(Password::Missing(_)))).await;
}
