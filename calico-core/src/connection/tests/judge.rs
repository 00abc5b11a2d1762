//! What the judge says of connections of workloads, and whom a connection concerns.

use super::*;

#[test]
fn connections_are_judged_by_their_translated_destination_and_not_where_the_host_itself_began() {
    let mut state = ActiveState::default();
    let allow_web = ActiveRule {
        protocol: Some(6),
        destination: ActiveEntity { ports: vec![crate::net::PortRange::single(80)], ..ActiveEntity::default() },
        ..rule(Action::Allow, &[], &[])
    };
    [rules(vec![allow_web]), endpoint(1), endpoint(2)].iter().for_each(|event| state.apply(event));
    let (known, compiled) = (Known::of(&["192.0.2.1"]), Compiled::from(state));
    let mut judge = Judge::new(&compiled, known.host());
    assert!(!judge.denies(&connection(flow("10.65.0.2", "10.65.0.1", 80))));
    assert!(judge.denies(&connection(flow("10.65.0.2", "10.65.0.1", 81))));
    assert!(judge.denies(&connection(flow("198.51.100.9", "10.65.0.1", 81))));
    assert!(!judge.denies(&connection(flow("10.65.0.2", "198.51.100.9", 81))), "egress is free");
    assert!(!judge.denies(&connection(flow("192.0.2.1", "10.65.0.1", 81))), "from the host itself");
    assert!(!judge.denies(&connection(flow("127.0.0.1", "10.65.0.1", 81))));
    assert!(!judge.denies(&connection(flow("198.51.100.9", "198.51.100.8", 81))), "nobody's here");

    // To a service's address, port 443, translated to port 80 or 81 of the workload; masqueraded on the way.
    for (port, denied) in [(80, false), (81, true)] {
        let original = flow("198.51.100.9", "10.96.0.1", 443);
        let reply = back(&flow("192.0.2.1", "10.65.0.1", port));
        assert_eq!(judge.denies(&Connection { original, reply, master: None }), denied, "{port}");
    }
    let master = Some(flow("198.51.100.9", "10.65.0.1", 80));
    assert!(!judge.denies(&Connection { master, ..connection(flow("198.51.100.9", "10.65.0.1", 81)) }));
}

#[test]
fn further_sources_are_their_workloads_or_whoever_the_route_leads_to() {
    let Event::EndpointSet { id, endpoint: known } = endpoint(1) else { panic!("an endpoint is set") };
    let further =
        |endpoint: &ActiveEndpoint| Event::EndpointSet { id: id.clone(), endpoint: Arc::new(endpoint.clone()) };
    let (mut state, mut doubts) = (ActiveState::default(), Doubts::default());
    let with = ActiveEndpoint { allowed_sources: vec![net("203.0.113.0/24")], ..(*known).clone() };
    apply(&mut state, &mut doubts, [further(&with)]);
    let closed = ActiveEndpoint { egress: Arc::new(Stack::default()), ..with.clone() };
    let doubt = apply(&mut state, &mut doubts, [further(&closed)]).unwrap();
    let outward = connection(flow(FAR[0], FAR[1], 80));
    assert!(doubt.concerns(&outward));
    let mut known = between_uplinks();
    let compiled = Compiled::from(state.clone());
    assert!(!Judge::new(&compiled, known.host()).denies(&outward), "it may not use them, so others do");
    known.settings.host.allow_spoofed_sources = true;
    let mut judge = Judge::new(&compiled, known.host());
    assert!(Policed::of(&state, &known.settings).concerns(&outward) && judge.denies(&outward));
    assert!(!judge.denies(&connection(flow(FAR[1], FAR[0], 80))), "the other way it is nobody's");
    drop(judge);

    state.apply(&host_endpoint(HostInterfaces::Others, None));
    let compiled = Compiled::from(state.clone());
    assert!(!Judge::new(&compiled, known.host()).denies(&outward), "it may come by eth0, where its source is reached");
    known.route(None, FAR[0], &["cali1"]);
    assert!(Judge::new(&compiled, known.host()).denies(&outward), "its source is reached at the workload");
    let without = ActiveEndpoint { allowed_sources: Vec::new(), ..closed };
    assert!(apply(&mut state, &mut doubts, [further(&without)]).unwrap().concerns(&outward));
}

#[test]
fn no_connection_ends_that_no_policy_denies() {
    let mut known = between_uplinks();
    known.settings.host.prevent_service_loops = true;
    known.route(Some(OWN[0]), "203.0.113.77", &[]);
    let network = crate::calc::event::Network { services: vec![net("10.96.0.0/12")], ..Default::default() };
    let mut state = ActiveState::default();
    let open = rules(vec![rule(Action::Allow, &[], &[])]);
    [open, endpoint(1), Event::NetworkSet(Arc::new(network))].iter().for_each(|event| state.apply(event));
    let compiled = Compiled::from(state.clone());
    let circling = connection(flow("10.65.0.1", "10.96.0.1", 80));
    assert!(!Judge::new(&compiled, known.host()).denies(&circling), "it goes in circles, which is no policy");

    state.apply(&host_endpoint(eth0(), None));
    let compiled = Compiled::from(state.clone());
    let lost = connection(flow("203.0.113.77", OWN[0], 80));
    assert!(!Judge::new(&compiled, known.host()).denies(&lost), "no route leads there");

    // A workload of IPv6 that nothing may reach.
    let Event::EndpointSet { id, endpoint: one } = endpoint(1) else { panic!("an endpoint is set") };
    let (addresses, ingress) = (vec![net("fd65::1/128")], Arc::new(Stack::default()));
    let closed = ActiveEndpoint { addresses, ingress, ..(*one).clone() };
    let mut state = ActiveState::default();
    state.apply(&Event::EndpointSet { id, endpoint: Arc::new(closed) });
    let compiled = Compiled::from(state);
    for (icmp_type, denied) in [(128, true), (135, false), (136, false)] {
        let (source, destination) = ("fd65::9".parse().unwrap(), "fd65::1".parse().unwrap());
        let icmp = Some((icmp_type, 0));
        let flow = Flow { source, destination, protocol: 58, source_port: 0, destination_port: 0, icmp };
        let reply = Flow { source: destination, destination: source, ..flow };
        let one = Connection { original: flow, reply, master: None };
        assert_eq!(Judge::new(&compiled, known.host()).denies(&one), denied, "{icmp_type}");
    }
}

#[test]
fn policy_before_translation_sees_where_a_connection_was_sent() {
    let policy = PolicyId(ResourceKey::cluster(Kind::GlobalNetworkPolicy, "early"));
    let to = |port| ActiveRule {
        protocol: Some(6),
        destination: ActiveEntity { ports: vec![crate::net::PortRange::single(port)], ..ActiveEntity::default() },
        ..rule(Action::Deny, &[], &[])
    };
    for (port, denied) in [(443, true), (80, false)] {
        let rules_of = ActiveRules { tier: Some("default".into()), ingress: vec![to(port)], egress: Vec::new() };
        let Event::HostEndpointSet { id, endpoint: uplink } = host_endpoint(eth0(), Some(&policy)) else {
            panic!("a host endpoint is set")
        };
        let stack = Stack {
            tiers: uplink
                .forward
                .ingress
                .tiers
                .iter()
                .cloned()
                .map(|tier| StackTier { default_action: DefaultAction::Pass, ..tier })
                .collect(),
            profiles: Vec::new(),
        };
        let early =
            ActiveHostEndpoint { pre_dnat: Arc::new(stack), forward: Directions::default(), ..(*uplink).clone() };
        let mut state = ActiveState::default();
        let events = [
            Event::PolicySet { id: policy.clone(), rules: Arc::new(rules_of) },
            rules(vec![rule(Action::Allow, &[], &[])]),
            endpoint(1),
            Event::HostEndpointSet { id, endpoint: Arc::new(early) },
        ];
        events.iter().for_each(|event| state.apply(event));
        let (known, compiled) = (between_uplinks(), Compiled::from(state));
        let translated = Connection {
            original: flow(FAR[0], OWN[0], 443),
            reply: back(&flow(FAR[0], "10.65.0.1", 80)),
            master: None,
        };
        assert_eq!(Judge::new(&compiled, known.host()).denies(&translated), denied, "{port}");
    }
}

#[test]
fn a_connection_concerns_whoever_may_have_policy_for_it() {
    let Event::EndpointSet { id, endpoint: one } = endpoint(1) else { panic!("an endpoint is set") };
    let with = ActiveEndpoint { allowed_sources: vec![net("203.0.113.0/24")], ..(*one).clone() };
    let mut state = ActiveState::default();
    state.apply(&Event::EndpointSet { id, endpoint: Arc::new(with) });
    let without_hosts = state.clone();
    state.apply(&host_endpoint(eth0(), None));
    let with_hosts = state;
    let (pod, far, further) = ("10.65.0.1", FAR[1], FAR[0]);
    // Of each the ends, and whether it concerns anybody: usually, where further sources are allowed, and where host endpoints are.
    for (source, destination, expected) in [
        (pod, far, [true, true, true]),
        (far, pod, [true, true, true]),
        (further, far, [false, true, true]),
        (far, further, [false, false, true]),
        ("127.0.0.1", "127.0.0.1", [false, false, false]),
        ("127.0.0.1", pod, [true, true, true]),
    ] {
        let one = connection(flow(source, destination, 80));
        let mut lenient = Known::default();
        lenient.settings.host.allow_spoofed_sources = true;
        let strict = Known::default();
        let found = [(&without_hosts, &strict), (&without_hosts, &lenient), (&with_hosts, &strict)]
            .map(|(state, known)| Policed::of(state, &known.settings).concerns(&one));
        assert_eq!(found, expected, "{source} {destination}");
    }
}
