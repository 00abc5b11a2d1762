//! Staged policies, and policies that are needed everywhere.

use super::*;
use crate::resource::{StagedAction, StagedKubernetesNetworkPolicySpec, StagedNetworkPolicySpec};

fn staged(name: &str, tier: &str, order: f64, staged_action: Option<StagedAction>) -> Update {
    let policy = NetworkPolicySpec { tier: tier.into(), order: Some(order), ..NetworkPolicySpec::default() };
    let spec = StagedNetworkPolicySpec { staged_action, policy };
    Update {
        key: ResourceKey::namespaced(Kind::StagedNetworkPolicy, "one", name),
        value: Some(Arc::new(Resource::StagedNetworkPolicy(Object { metadata: Metadata::default(), spec }.into()))),
    }
}

#[test]
fn they_stand_at_their_place_and_give_a_tier_no_end() {
    let mut rig = Rig::new();
    rig.update(endpoint("a", "10.0.0.1/32", &[(crate::resource::ORCHESTRATOR_LABEL, "k8s")], &[]));
    rig.update(tier("default", Some(1_000_000.0), None));
    rig.update(tier("early", Some(1.0), None));
    rig.update(staged("s", "", 5.0, None));
    rig.update(staged("learned", "early", 1.0, Some(StagedAction::Learn)));
    rig.update(staged("gone", "early", 2.0, Some(StagedAction::Delete)));
    let spec = StagedKubernetesNetworkPolicySpec::default();
    let kubernetes = Object { metadata: Metadata::default(), spec };
    rig.update(Update {
        key: ResourceKey::namespaced(Kind::StagedKubernetesNetworkPolicy, "one", "k"),
        value: Some(Arc::new(Resource::StagedKubernetesNetworkPolicy(kubernetes.into()))),
    });
    rig.flush();
    assert_eq!(ingress(&rig, "a"), "early[learned]:Pass default[s k]:Pass");
    rig.update(policy("p", NetworkPolicySpec { order: Some(10.0), ..NetworkPolicySpec::default() }));
    rig.flush();
    assert_eq!(ingress(&rig, "a"), "early[learned]:Pass default[s p k]:Deny");
    assert!(rig.state.policies.keys().filter(|id| id.is_staged()).count() == 3, "their rules are there");
    rig.update(gone(&policy("p", NetworkPolicySpec::default())));
    rig.update(staged("learned", "early", 1.0, Some(StagedAction::Delete)));
    rig.flush();
    assert_eq!(ingress(&rig, "a"), "default[s k]:Pass");
}

#[test]
fn a_policy_that_is_needed_everywhere_is_there_before_its_endpoints() {
    let mut rig = Rig::new();
    rig.update(tier("default", None, None));
    let hinted = |hint: bool| {
        let ingress = vec![rule_from("app == 'client'")];
        let performance_hints = if hint { vec!["AssumeNeededOnEveryNode".into()] } else { vec![] };
        policy(
            "p",
            NetworkPolicySpec { selector: "app == 'web'".into(), ingress, performance_hints, ..Default::default() },
        )
    };
    let counts = |rig: &mut Rig| {
        rig.flush();
        (rig.state.policies.len(), rig.state.sets.len())
    };
    rig.update(hinted(false));
    assert_eq!(counts(&mut rig), (0, 0));
    rig.update(hinted(true));
    assert_eq!(counts(&mut rig), (1, 1));
    rig.update(endpoint("a", "10.0.0.1/32", &[("app", "web")], &[]));
    let events = rig.flush();
    assert!(matches!(&events[..], [Event::EndpointSet { .. }]), "{events:?}");
    rig.update(gone(&endpoint("a", "10.0.0.1/32", &[], &[])));
    assert_eq!(counts(&mut rig), (1, 1));
    rig.update(hinted(false));
    assert_eq!(counts(&mut rig), (0, 0));
    rig.update(hinted(true));
    assert_eq!(counts(&mut rig), (1, 1));
    rig.update(gone(&hinted(true)));
    assert_eq!(counts(&mut rig), (0, 0));
}

#[test]
fn rules_say_their_tier() {
    let mut rig = Rig::new();
    rig.update(endpoint("a", "10.0.0.1/32", &[], &["x"]));
    rig.update(policy("p", NetworkPolicySpec { tier: "early".into(), ..NetworkPolicySpec::default() }));
    rig.update(policy("q", NetworkPolicySpec::default()));
    rig.flush();
    let tiers: Vec<_> = rig.state.policies.values().map(|rules| rules.tier.as_deref().unwrap()).collect();
    assert_eq!(tiers, ["early", "default"]);
    assert_eq!(rig.state.profiles.values().next().unwrap().tier, None);
}

#[test]
fn floating_addresses_and_limits_go_with_their_endpoint() {
    let mut rig = Rig::new();
    let nat = |external: &str, internal: &str| crate::resource::IpNat {
        external_ip: external.into(),
        internal_ip: internal.into(),
    };
    rig.update(edited(&endpoint("a", "10.0.0.1/32", &[], &[]), |spec| {
        spec.ip_networks.push("fd00::1/128".parse().unwrap());
        spec.ip_nats = vec![
            nat("203.0.113.9", "10.0.0.1"),
            nat("2001:db8::9", "fd00::1"),
            nat("203.0.113.9", "10.0.0.1"),
            nat("203.0.113.8", "10.0.0.2"),
            nat("203.0.113.7", "fd00::1"),
            nat("127.0.0.1", "10.0.0.1"),
            nat("nonsense", "10.0.0.1"),
        ];
        let qos = crate::resource::QosControls { ingress_max_connections: Some(3), ..Default::default() };
        spec.qos_controls = Some(qos.into());
    }));
    rig.flush();
    let endpoint = rig.state.endpoints.values().next().unwrap();
    let floating: Vec<_> = endpoint.floating.iter().map(|(outside, own)| format!("{outside} {own}")).collect();
    assert_eq!(floating, ["203.0.113.9 10.0.0.1", "2001:db8::9 fd00::1"]);
    assert_eq!(endpoint.qos.as_ref().unwrap().ingress_max_connections, Some(3));
    let reasons = ["given twice", "no such address", "not of one family", "nobody's address", "cannot be read"];
    let told = rig.problems();
    assert_eq!(told.len(), reasons.len());
    assert!(told.iter().zip(reasons).all(|(told, reason)| told.contains(reason)), "{told:?}");
}
