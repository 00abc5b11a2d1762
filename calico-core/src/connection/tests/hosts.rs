//! What the judge says where host endpoints are, and which routes it asks for.

use super::*;

#[test]
fn host_endpoints_are_asked_about_every_possible_way() {
    let (mut state, mut doubts, known) = (ActiveState::default(), Doubts::default(), between_uplinks());
    assert_eq!(apply(&mut state, &mut doubts, [endpoint(1), host_endpoint(eth0(), None)]), Some(Doubt::All));
    assert_eq!(apply(&mut state, &mut doubts, [host_endpoint(eth0(), None)]), None, "nothing is new");
    let compiled = Compiled::from(state);
    let mut judge = Judge::new(&compiled, known.host());
    let mut denies = |source, destination, port| {
        let connection = connection(flow(source, destination, port));
        for query in judge.routes(&connection) {
            assert!(known.routes.contains_key(&query), "{query:?} is asked for {connection:?}");
        }
        judge.denies(&connection)
    };
    assert!(denies(FAR[0], OWN[0], 80), "by eth0");
    assert!(!denies(FAR[0], OWN[0], 22), "to a fail-safe port");
    assert!(!denies(FAR[0], OWN[1], 80), "it may come by eth1, which has the address");
    assert!(!denies(FAR[1], OWN[1], 80), "by eth1, which nobody polices");
    assert!(!denies(FAR[2], OWN[0], 80), "by either");
    assert!(denies(OWN[0], FAR[0], 80));
    assert!(!denies(OWN[0], FAR[1], 80) && !denies(OWN[0], FAR[2], 80) && !denies(OWN[0], OWN[1], 80));
    assert!(!denies(FAR[0], FAR[1], 80), "no policy is about what is forwarded");
    assert!(!judge.denies(&connection(flow("203.0.113.77", OWN[0], 80))), "whence, nobody knows");
    let local = connection(flow("127.0.0.1", "127.0.0.1", 80));
    let policed = Policed::of(compiled.state(), &known.settings);
    assert!(!policed.concerns(&local) && policed.concerns(&connection(flow(FAR[0], OWN[0], 80))));
}

#[test]
fn host_endpoints_are_asked_about_what_goes_through() {
    let policy = PolicyId(ResourceKey::cluster(Kind::GlobalNetworkPolicy, "web"));
    let web = ActiveRule {
        protocol: Some(6),
        destination: ActiveEntity { ports: vec![crate::net::PortRange::single(80)], ..ActiveEntity::default() },
        ..rule(Action::Allow, &[], &[])
    };
    let rules_of = ActiveRules { tier: Some("default".into()), ingress: vec![web.clone()], egress: vec![web] };
    let set = Event::PolicySet { id: policy.clone(), rules: Arc::new(rules_of) };
    let denied = |interfaces, source: &str, destination: &str, port| {
        let (mut state, mut known) = (ActiveState::default(), between_uplinks());
        known.route(None, "10.65.0.1", &["cali1"]);
        let open = rules(vec![rule(Action::Allow, &[], &[])]);
        let events = [set.clone(), open, endpoint(1), host_endpoint(interfaces, Some(&policy))];
        events.iter().for_each(|event| state.apply(event));
        let compiled = Compiled::from(state);
        Judge::new(&compiled, known.host()).denies(&connection(flow(source, destination, port)))
    };
    for (source, destination) in [(FAR[0], FAR[1]), (FAR[1], FAR[0]), (FAR[0], "10.65.0.1"), ("10.65.0.1", FAR[0])] {
        assert!(denied(eth0(), source, destination, 81) && !denied(eth0(), source, destination, 80), "{source}");
    }
    assert!(!denied(eth0(), FAR[1], "10.65.0.1", 81) && !denied(eth0(), FAR[2], "10.65.0.1", 81));
    assert!(denied(HostInterfaces::Others, FAR[1], "10.65.0.1", 81), "whichever it is");
    assert!(denied(HostInterfaces::Others, FAR[2], "10.65.0.1", 81), "whichever it is");
}

fn query(from: Option<&str>, to: &str) -> RouteQuery {
    RouteQuery { from: from.map(|from| from.parse().unwrap()), to: to.parse().unwrap() }
}

#[test]
fn routes_are_asked_for_by_the_hosts_own_address_and_only_where_somebody_polices_them() {
    let pod = "10.65.0.1";
    let cases = [
        (FAR[0], OWN[0], vec![query(Some(OWN[0]), FAR[0])]),
        (OWN[1], FAR[0], vec![query(Some(OWN[1]), FAR[0])]),
        (FAR[0], FAR[1], vec![query(None, FAR[0]), query(None, FAR[1])]),
        (FAR[0], pod, vec![query(None, FAR[0])]),
        (pod, FAR[0], vec![query(None, FAR[0])]),
        (pod, OWN[0], vec![]),
        ("127.0.0.1", OWN[0], vec![]),
    ];
    let known = Known::of(&OWN);
    let mut state = ActiveState::default();
    state.apply(&endpoint(1));
    let without = Compiled::from(state.clone());
    state.apply(&host_endpoint(eth0(), None));
    let with = Compiled::from(state);
    for (source, destination, expected) in cases {
        let one = connection(flow(source, destination, 80));
        let asked = |compiled, one: &Connection| Judge::new(compiled, known.host()).routes(one).collect::<Vec<_>>();
        assert_eq!(asked(&with, &one), expected, "{source} {destination}");
        assert_eq!(asked(&without, &one), [], "{source} {destination}");
        let child = Connection { master: Some(one.original), ..one };
        assert_eq!(asked(&with, &child), [], "it passes with its master");
    }
}

#[test]
fn what_is_for_many_reaches_the_host_itself_unless_the_host_sends_it() {
    let mut state = ActiveState::default();
    state.apply(&host_endpoint(eth0(), None));
    let compiled = Compiled::from(state);
    let far6 = "2001:db8::9";
    for (far, own, many) in
        [(FAR[0], OWN[0], "224.0.0.5"), (FAR[0], OWN[0], "255.255.255.255"), (far6, "2001:db8::1", "ff02::5")]
    {
        let mut known = Known::of(&[OWN[0], "2001:db8::1"]);
        known.route(None, far, &["eth0"]);
        let came = connection(flow(far, many, 80));
        let mut judge = Judge::new(&compiled, known.host());
        assert_eq!(judge.routes(&came).collect::<Vec<_>>(), [query(None, far)]);
        assert!(judge.denies(&came), "{many}");
        for (interface, denied) in [("eth0", true), ("eth1", false)] {
            let mut known = Known::of(&[OWN[0], "2001:db8::1"]);
            known.route(Some(own), many, &[interface]);
            let sent = connection(flow(own, many, 80));
            assert_eq!(Judge::new(&compiled, known.host()).denies(&sent), denied, "{many} by {interface}");
        }
    }
}
