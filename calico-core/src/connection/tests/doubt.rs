//! Which changes raise doubt, and of whom.

use super::*;

/// Sets 1 and 2, which hold 192.0.2.0/24 and nothing.
fn sets() -> [Event; 2] {
    [(1, vec![Member::Net(net("192.0.2.0/24"))]), (2, Vec::new())].map(|(number, members)| Event::SetAdded {
        id: set(number),
        kind: IpSetKind::Net,
        members,
    })
}

fn changed(number: u8, added: &[&str], removed: &[&str]) -> [Event; 1] {
    let members = |texts: &[&str]| texts.iter().map(|text| Member::Net(net(text))).collect();
    [Event::SetChanged { id: set(number), added: members(added), removed: members(removed) }]
}

#[test]
fn members_raise_doubt_by_what_rules_make_of_them() {
    let (allow, deny) = (rule(Action::Allow, &[set(1)], &[]), rule(Action::Deny, &[], &[set(2)]));
    let (mut state, mut doubts) = (ActiveState::default(), Doubts::default());
    let start = sets().into_iter().chain([rules(vec![deny, allow]), endpoint(1)]);
    assert_eq!(apply(&mut state, &mut doubts, start), None, "nobody had connections");

    assert_eq!(apply(&mut state, &mut doubts, changed(1, &["198.51.100.0/24"], &[])), None);
    assert_eq!(apply(&mut state, &mut doubts, changed(2, &["198.51.100.1/32"], &[])), None);
    let doubt = apply(&mut state, &mut doubts, changed(1, &["203.0.113.0/24"], &["192.0.2.0/24"])).unwrap();
    assert_eq!(doubt, Doubt::Of { hosts: BTreeSet::new(), nets: vec![net("192.0.2.0/24")] });
    let doubt = apply(&mut state, &mut doubts, changed(2, &[], &["198.51.100.1/32"])).unwrap();
    assert_eq!(doubt, Doubt::Of { hosts: ["198.51.100.1".parse().unwrap()].into(), nets: Vec::new() });

    // The same sets, used the other way round.
    let swapped = [rules(vec![rule(Action::Deny, &[set(1)], &[]), rule(Action::Allow, &[], &[set(2)])])];
    assert_eq!(apply(&mut state, &mut doubts, swapped), Some(Doubt::All));
    assert_eq!(apply(&mut state, &mut doubts, changed(1, &[], &["198.51.100.0/24"])), None);
    assert!(apply(&mut state, &mut doubts, changed(1, &["192.0.2.0/24"], &[])).is_some());
    assert!(apply(&mut state, &mut doubts, changed(2, &["198.51.100.1/32"], &[])).is_some());
    assert_eq!(apply(&mut state, &mut doubts, changed(2, &[], &["198.51.100.1/32"])), None);

    let many: Vec<std::string::String> = (0..=64).map(|number| std::format!("100.64.{number}.0/24")).collect();
    let many: Vec<&str> = many.iter().map(std::string::String::as_str).collect();
    assert_eq!(
        apply(&mut state, &mut doubts, changed(1, &many, &[])),
        Some(Doubt::All),
        "more prefixes than are compared"
    );
}

#[test]
fn a_stack_raises_doubt_of_its_own_endpoint_only() {
    let (mut state, mut doubts) = (ActiveState::default(), Doubts::default());
    let start = [rules(vec![rule(Action::Allow, &[], &[])]), endpoint(1), endpoint(2)];
    assert_eq!(apply(&mut state, &mut doubts, start), None);
    assert_eq!(apply(&mut state, &mut doubts, [endpoint(1)]), None, "nothing is new");
    let Event::EndpointSet { id, endpoint: known } = endpoint(1) else { panic!("an endpoint is set") };
    let bare = ActiveEndpoint { ingress: Arc::new(Stack::default()), ..(*known).clone() };
    let doubt = apply(&mut state, &mut doubts, [Event::EndpointSet { id, endpoint: Arc::new(bare) }]).unwrap();
    assert_eq!(doubt, Doubt::Of { hosts: ["10.65.0.1".parse().unwrap()].into(), nets: Vec::new() });
    assert_eq!(apply(&mut state, &mut doubts, [Event::EndpointRemoved(pod(2))]), None, "they end with it");
}

#[test]
fn a_lost_address_is_in_doubt_where_another_endpoint_has_it() {
    let (mut state, mut doubts) = (ActiveState::default(), Doubts::default());
    let at = |number: u8, addresses: &[u8]| {
        let Event::EndpointSet { id, endpoint } = endpoint(number) else { panic!("an endpoint is set") };
        let addresses = addresses.iter().map(|last| Cidr::host([10, 65, 0, *last].into())).collect();
        Event::EndpointSet { id, endpoint: Arc::new(ActiveEndpoint { addresses, ..(*endpoint).clone() }) }
    };
    let of = |last: u8| Some(Doubt::Of { hosts: [IpAddr::from([10, 65, 0, last])].into(), nets: Vec::new() });
    // One may be given an address twice, and be told again.
    let start = [at(1, &[1, 9, 9]), at(1, &[1, 9, 9]), at(2, &[9]), at(3, &[9, 8])];
    assert_eq!(apply(&mut state, &mut doubts, start), None);
    assert_eq!(apply(&mut state, &mut doubts, [at(1, &[9])]), None, "nobody else has it");
    assert_eq!(apply(&mut state, &mut doubts, [at(1, &[1])]), of(9), "two others have it");
    assert_eq!(apply(&mut state, &mut doubts, [Event::EndpointRemoved(pod(3))]), of(9), "another has it");
    assert_eq!(apply(&mut state, &mut doubts, [Event::EndpointRemoved(pod(2))]), None, "it was the last");
    assert_eq!(apply(&mut state, &mut doubts, [Event::EndpointRemoved(pod(2))]), None, "it is gone already");
}

/// Four lists of two sides of rules in two directions: whether a new member, and the loss of one, can deny. When all have gone, nothing is
/// remembered.
#[test]
fn a_set_raises_doubt_by_where_rules_name_it() {
    type List = fn(&mut ActiveEntity) -> &mut Vec<SetId>;
    let lists: [(bool, List); 4] = [
        (true, |side| &mut side.sets),
        (true, |side| &mut side.port_sets),
        (false, |side| &mut side.not_sets),
        (false, |side| &mut side.not_port_sets),
    ];
    let actions = [
        (Action::Allow, [false, true]),
        (Action::Deny, [true, false]),
        (Action::Pass, [true, true]),
        (Action::Log, [false, false]),
    ];
    for (action, [by_match, by_miss]) in actions {
        for (place, (is_wanted, list)) in lists.into_iter().enumerate() {
            for (is_source, is_ingress) in [(true, true), (true, false), (false, true), (false, false)] {
                let mut named = rule(action, &[], &[]);
                list(if is_source { &mut named.source } else { &mut named.destination }).push(set(1));
                let (mut ingress, mut egress) = (vec![named], Vec::new());
                if !is_ingress {
                    core::mem::swap(&mut ingress, &mut egress);
                }
                let rules = Arc::new(ActiveRules { tier: None, ingress, egress });
                let start = sets().into_iter().chain([Event::ProfileSet { id: profile(), rules }, endpoint(1)]);
                let (mut state, mut doubts) = (ActiveState::default(), Doubts::default());
                assert_eq!(apply(&mut state, &mut doubts, start), None);
                let told = [changed(1, &["198.51.100.1/32"], &[]), changed(1, &[], &["192.0.2.0/24"])]
                    .map(|event| apply(&mut state, &mut doubts, event).is_some());
                let expected = if is_wanted { [by_match, by_miss] } else { [by_miss, by_match] };
                assert_eq!(told, expected, "{action:?}, list {place}, source: {is_source}, ingress: {is_ingress}");
                let end = [Event::EndpointRemoved(pod(1)), Event::ProfileRemoved(profile())];
                assert_eq!(apply(&mut state, &mut doubts, end), None);
                assert_eq!(std::format!("{doubts:?}"), std::format!("{:?}", Doubts::default()));
            }
        }
    }
}

#[test]
fn further_sources_are_in_doubt_when_their_workload_goes() {
    let Event::EndpointSet { id, endpoint: known } = endpoint(1) else { panic!("an endpoint is set") };
    let with = ActiveEndpoint { allowed_sources: vec![net("203.0.113.0/24")], ..(*known).clone() };
    let (mut state, mut doubts) = (ActiveState::default(), Doubts::default());
    assert_eq!(apply(&mut state, &mut doubts, [Event::EndpointSet { id, endpoint: Arc::new(with) }]), None);
    let doubt = apply(&mut state, &mut doubts, [Event::EndpointRemoved(pod(1))]);
    assert_eq!(doubt, Some(Doubt::Of { hosts: BTreeSet::new(), nets: vec![net("203.0.113.0/24")] }));
}

#[test]
fn rules_that_are_told_again_raise_no_doubt() {
    let open = || rules(vec![rule(Action::Allow, &[set(1)], &[])]);
    let (mut state, mut doubts) = (ActiveState::default(), Doubts::default());
    let start = sets().into_iter().chain([open(), endpoint(1)]);
    assert_eq!(apply(&mut state, &mut doubts, start), None);
    assert_eq!(apply(&mut state, &mut doubts, [open()]), None);
    assert!(apply(&mut state, &mut doubts, changed(1, &[], &["192.0.2.0/24"])).is_some(), "the set is in use");
    assert_eq!(apply(&mut state, &mut doubts, [rules(Vec::new())]), Some(Doubt::All));
}
