//! Rendered rulesets as text files that a person can review: `tests/golden/*.nft`. `BLESS=1` writes them anew.
#![expect(clippy::unwrap_used, reason = "a test: what is wrong must stop it")]

use std::path::PathBuf;
use std::sync::Arc;

use calico_core::calc::event::{
    ActiveEndpoint, ActiveEntity, ActiveHostEndpoint, ActiveRule, ActiveRules, Directions, EndpointId, Event,
    HostInterfaces, IpSetKind, Member, Network, PolicyId, ProfileId, SetId, Stack, StackTier,
};
use calico_core::net::{Cidr, Family, PortRange};
use calico_core::render::{
    DenyAction, EndpointToHost, NatConfig, PolicyRenderer, RenderConfig, Renderer, ServiceLoops,
};
use calico_core::resource::{Action, DefaultAction, Icmp, Kind, QosControls, ResourceKey};
use calico_core::table::{Chain, Delta, Statement, Verdict};

#[test]
fn skeleton() {
    golden("skeleton", &Renderer::new(RenderConfig::default()).skeleton());
    let lenient = RenderConfig {
        workload_prefixes: vec!["cali".parse().unwrap(), "tap".parse().unwrap()],
        endpoint_to_host: EndpointToHost::Return,
        drop_invalid: false,
        allow_vxlan_from_workloads: true,
        allow_ipip_from_workloads: true,
        ..RenderConfig::default()
    };
    golden("skeleton-lenient", &Renderer::new(lenient).skeleton());
}

#[test]
fn endpoints_sets_and_stacks() {
    let mut renderer = Renderer::new(RenderConfig::default());
    let events = [
        Event::SetAdded {
            id: set(1),
            kind: IpSetKind::Net,
            members: ["10.0.0.1/32", "10.1.0.0/16", "fd00::1/128", "fd01::/64"].map(net).map(Member::Net).into(),
        },
        Event::SetAdded {
            id: set(2),
            kind: IpSetKind::AddrPort,
            members: vec![Member::AddrPort { address: "10.0.0.1".parse().unwrap(), protocol: 6, port: 80 }],
        },
        Event::PolicySet { id: policy("first"), rules: rules(vec![rule(Action::Pass)]) },
        Event::PolicySet { id: policy("second"), rules: rules(vec![from_set(Action::Allow, set(1))]) },
        Event::PolicySet { id: policy("unused"), rules: rules(vec![rule(Action::Allow)]) },
        Event::ProfileSet { id: ProfileId("kns.default".into()), rules: rules(vec![rule(Action::Allow)]) },
        endpoint("a", "calia", &["10.0.0.1/32", "fd00::1/128"], &stack(&["first", "second"])),
        endpoint("b", "calib", &["10.0.0.2/32"], &stack(&["first", "second"])),
    ];
    golden("endpoints", &handle(&mut renderer, &events));
    let moved = [
        Event::SetChanged {
            id: set(1),
            added: vec![Member::Net(net("10.0.0.3/32"))],
            removed: vec![Member::Net(net("10.1.0.0/16"))],
        },
        Event::EndpointRemoved(endpoint_id("a")),
        endpoint("b", "calib", &["10.0.0.3/32"], &stack(&["first"])),
        Event::PolicyRemoved(policy("second")),
        Event::SetRemoved(set(2)),
    ];
    golden("endpoints-changed", &handle(&mut renderer, &moved));
}

#[test]
fn rules_of_every_shape() {
    let entity = ActiveEntity::default;
    let nets = |nets: &[&str]| nets.iter().map(|text| net(text)).collect::<Vec<_>>();
    let shapes = vec![
        rule(Action::Log),
        ActiveRule { protocol: Some(6), ..rule(Action::Deny) },
        ActiveRule { not_protocol: Some(17), family: Some(Family::V6), ..rule(Action::Allow) },
        ActiveRule { icmp: Some(Icmp { icmp_type: Some(8), code: Some(0) }), protocol: Some(1), ..rule(Action::Allow) },
        ActiveRule { not_icmp: Some(Icmp { icmp_type: Some(8), code: Some(0) }), ..rule(Action::Deny) },
        ActiveRule { source: ActiveEntity { nets: nets(&["10.0.0.0/8"]), ..entity() }, ..rule(Action::Allow) },
        ActiveRule {
            source: ActiveEntity { nets: nets(&["10.1.0.0/16", "10.0.0.0/8", "11.0.0.0/8", "fd00::/8"]), ..entity() },
            destination: ActiveEntity { not_nets: nets(&["12.0.0.0/8", "fd01::/16"]), ..entity() },
            ..rule(Action::Allow)
        },
        // Left out of IPv6 by the negated list, out of IPv4 by nothing.
        ActiveRule { source: ActiveEntity { not_nets: nets(&["10.0.0.0/8"]), ..entity() }, ..rule(Action::Allow) },
        // Never matches, in either family.
        ActiveRule { source: ActiveEntity { not_nets: nets(&["0.0.0.0/0"]), ..entity() }, ..rule(Action::Allow) },
        ActiveRule { source: ActiveEntity { nets: nets(&["0.0.0.0/0"]), ..entity() }, ..rule(Action::Pass) },
        ActiveRule {
            source: ActiveEntity { sets: vec![set(1)], not_sets: vec![set(2)], ..entity() },
            family: Some(Family::V4),
            ..rule(Action::Allow)
        },
        ActiveRule {
            protocol: Some(17),
            source: ActiveEntity { not_ports: vec![ports(1, 1023)], ..entity() },
            destination: ActiveEntity { ports: vec![ports(80, 80), ports(90, 95), ports(85, 90)], ..entity() },
            ..rule(Action::Allow)
        },
        // Numbers and names are alternatives; without a protocol numbers mean those that have ports.
        ActiveRule {
            destination: ActiveEntity { ports: vec![ports(80, 80)], port_sets: vec![set(3)], ..entity() },
            family: Some(Family::V4),
            ..rule(Action::Allow)
        },
        ActiveRule { destination: ActiveEntity { port_sets: vec![set(3)], ..entity() }, ..rule(Action::Allow) },
        ActiveRule { destination: ActiveEntity { not_port_sets: vec![set(3)], ..entity() }, ..rule(Action::Allow) },
        // ICMP has no ports.
        ActiveRule {
            protocol: Some(1),
            destination: ActiveEntity { ports: vec![ports(80, 80)], ..entity() },
            ..rule(Action::Deny)
        },
    ];
    let mut renderer = Renderer::new(RenderConfig { counters: true, ..RenderConfig::default() });
    let events = [
        Event::PolicySet { id: policy("shapes"), rules: rules(shapes) },
        endpoint("a", "calia", &["10.0.0.1/32"], &stack(&["shapes"])),
    ];
    let mut delta = handle(&mut renderer, &events);
    delta.chains_set.retain(|chain| chain.name.as_str() == "policy-in/gnp/shapes");
    golden("rules", &Delta { chains_set: delta.chains_set, ..Delta::default() });
}

/// Neighbours of one action that differ in one list are one rule, where nobody counts them apart; the verdicts keep their order.
#[test]
fn folded_rules() {
    let web = |action, from: &str, port| ActiveRule {
        protocol: Some(6),
        source: ActiveEntity { nets: vec![net(from)], ..ActiveEntity::default() },
        destination: ActiveEntity { ports: vec![ports(port, port)], ..ActiveEntity::default() },
        ..rule(action)
    };
    let (a, b, c) = ("10.0.0.0/8", "11.0.0.0/8", "fd00::/8");
    let list = vec![
        web(Action::Allow, a, 80),
        web(Action::Allow, b, 8080),
        web(Action::Allow, a, 443),
        web(Action::Deny, b, 80),
        web(Action::Deny, c, 80),
        web(Action::Log, a, 90),
        web(Action::Log, b, 90),
        web(Action::Allow, a, 81),
    ];
    let events = [
        Event::PolicySet { id: policy("folds"), rules: rules(list) },
        endpoint("a", "calia", &["10.0.0.1/32"], &stack(&["folds"])),
    ];
    let mut renderer = Renderer::new(RenderConfig { counters: false, ..RenderConfig::default() });
    let mut delta = handle(&mut renderer, &events);
    delta.chains_set.retain(|chain| chain.name.as_str() == "policy-in/gnp/folds");
    golden("rules-folded", &Delta { chains_set: delta.chains_set, ..Delta::default() });
}

/// Policies by the dozen: single ports by one look-up, ranges, other protocols, some about everything; then one changes its port.
#[test]
fn segments() {
    let about = |number: u16| {
        let destination = ActiveEntity { ports: vec![ports(8000 + number, 8000 + number)], ..ActiveEntity::default() };
        match number {
            3 => rule(Action::Pass),
            5 => ActiveRule { protocol: Some(6), ..rule(Action::Deny) },
            7 => ActiveRule { protocol: Some(1), ..rule(Action::Allow) },
            8 => ActiveRule { protocol: Some(17), destination, ..rule(Action::Deny) },
            _ => ActiveRule { protocol: Some(6), destination, ..rule(Action::Allow) },
        }
    };
    let names: Vec<String> = (0..12).map(|number| format!("p{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let told = |(number, name): (u16, &&str)| Event::PolicySet { id: policy(name), rules: rules(vec![about(number)]) };
    let mut events: Vec<Event> = (0..).zip(&names).map(told).collect();
    events.push(endpoint("a", "calia", &["10.0.0.1/32"], &stack(&names)));
    let mut renderer = Renderer::new(RenderConfig { counters: false, ..RenderConfig::default() });
    let delta = handle(&mut renderer, &events);
    golden("segments", &Delta { chains_set: delta.chains_set, ..Delta::default() });
    let moved = Event::PolicySet { id: policy("p4"), rules: rules(vec![about(99)]) };
    golden("segments-changed", &handle(&mut renderer, &[moved]));
}

/// However many endpoints and stacks have it, a policy that changes is one chain more, and a few where it speaks of other ports.
#[test]
fn a_change_of_a_policy_stays_small() {
    let about = |action, port| {
        let destination = ActiveEntity { ports: vec![ports(port, port)], ..ActiveEntity::default() };
        rules(vec![ActiveRule { protocol: Some(6), destination, ..rule(action) }])
    };
    let names: Vec<String> = (0..200).map(|number| format!("common-{number:03}")).collect();
    let mut renderer = Renderer::new(RenderConfig::default());
    let own = |number: usize| format!("own-{number}");
    let policies = (0..).zip(names.iter().cloned().chain((0..50).map(own)));
    let mut events: Vec<Event> = policies
        .map(|(port, name)| Event::PolicySet { id: policy(&name), rules: about(Action::Allow, port) })
        .collect();
    // Fifty stacks that have all but one of their policies in common.
    for number in 0..50 {
        let own = own(number);
        let stack = stack(&names.iter().map(String::as_str).chain([own.as_str()]).collect::<Vec<_>>());
        events.push(endpoint(&own, &format!("cali{number}"), &[], &stack));
    }
    let before = handle(&mut renderer, &events);
    let count = |start: &str| before.chains_set.iter().filter(|chain| chain.name.as_str().starts_with(start)).count();
    assert!((1..60).contains(&count("segment-")), "{} segments", count("segment-"));
    let change = |renderer: &mut Renderer, event| {
        let delta = handle(renderer, &[event]);
        delta.chains_set.len() + delta.chains_removed.len()
    };
    let set = |action, port| Event::PolicySet { id: policy("common-100"), rules: about(action, port) };
    assert_eq!(change(&mut renderer, set(Action::Deny, 100)), 1, "the same port");
    assert_eq!(change(&mut renderer, set(Action::Deny, 9999)), 2, "another port: the policy and its segment");
    assert!(change(&mut renderer, set(Action::Deny, 101)) <= 4, "one that another policy has");
}

#[test]
fn further_sources_share_a_chain() {
    let mut renderer = Renderer::new(RenderConfig { allow_spoofed_sources: true, ..RenderConfig::default() });
    let spoofing = |name: &str| {
        let Event::EndpointSet { id, endpoint } = endpoint(name, &format!("cali{name}"), &["10.0.0.1/32"], &stack(&[]))
        else {
            unreachable!("an endpoint event")
        };
        let allowed_sources = vec![net("192.0.2.0/24"), net("fd00::/8")];
        Event::EndpointSet { id, endpoint: Arc::new(ActiveEndpoint { allowed_sources, ..(*endpoint).clone() }) }
    };
    let delta = handle(&mut renderer, &[spoofing("a"), spoofing("b")]);
    let chains = delta.chains_set.iter().filter(|chain| chain.name.as_str().starts_with("sources-"));
    assert_eq!(chains.count(), 1);
    golden("spoofed-sources", &delta);
}

/// All that host endpoints make of it: named and all others, each kind of policy.
#[test]
fn host_endpoints() {
    let mut renderer = Renderer::new(RenderConfig::default());
    let named = ActiveHostEndpoint {
        dscp: Vec::new(),
        interfaces: HostInterfaces::Named(vec!["eth0".parse().unwrap(), "eth1".parse().unwrap()]),
        untracked: Directions { ingress: tier(&["raw"]), egress: Arc::default() },
        pre_dnat: Arc::default(),
        normal: Directions { ingress: stack(&["normal"]), egress: stack(&[]) },
        forward: Directions { ingress: tier(&["normal"]), egress: Arc::default() },
    };
    let others = ActiveHostEndpoint {
        dscp: Vec::new(),
        interfaces: HostInterfaces::Others,
        untracked: Directions { ingress: tier(&["ignored"]), egress: Arc::default() },
        pre_dnat: tier(&["early"]),
        normal: Directions { ingress: stack(&[]), egress: stack(&["normal"]) },
        forward: Directions::default(),
    };
    let policies = ["raw", "early", "normal"].map(|name| Event::PolicySet {
        id: policy(name),
        rules: Arc::new(ActiveRules {
            egress: vec![rule(Action::Allow)],
            ..(*rules(vec![rule(Action::Deny)])).clone()
        }),
    });
    let mut events = Vec::from(policies);
    events.extend([host_endpoint("uplinks", named.clone()), host_endpoint("others", others)]);
    golden("host-endpoints", &handle(&mut renderer, &events));

    // Less is left when a policy goes, and nothing when the endpoints go.
    let named = ActiveHostEndpoint { untracked: Directions::default(), ..named };
    let changed = [host_endpoint("uplinks", named), Event::HostEndpointRemoved(host_endpoint_id("others"))];
    golden("host-endpoints-changed", &handle(&mut renderer, &changed));
    handle(&mut renderer, &[Event::HostEndpointRemoved(host_endpoint_id("uplinks"))]);
    assert_eq!(handle(&mut renderer, &[Event::HostEndpointRemoved(host_endpoint_id("uplinks"))]), Delta::default());
}

/// Packets of host endpoints are told by their addresses; of two that claim one the first by name says how they are marked.
#[test]
fn marks_of_host_endpoints() {
    let mut renderer = Renderer::new(RenderConfig::default());
    let marked = |name: &str, interface: &str, marks: &[(&str, u8)]| {
        let endpoint = ActiveHostEndpoint {
            interfaces: HostInterfaces::Named(vec![interface.parse().unwrap()]),
            dscp: marks.iter().map(|(address, mark)| (address.parse().unwrap(), *mark)).collect(),
            untracked: Directions::default(),
            pre_dnat: Arc::default(),
            normal: Directions::default(),
            forward: Directions::default(),
        };
        host_endpoint(name, endpoint)
    };
    let ours = |name: &str| name.starts_with("dscp");
    let shown = |delta: Delta| Delta {
        chains_set: delta.chains_set.into_iter().filter(|chain| ours(chain.name.as_str())).collect(),
        elements: delta.elements.into_iter().filter(|change| ours(change.set.as_str())).collect(),
        chains_removed: delta.chains_removed.into_iter().filter(|name| ours(name.as_str())).collect(),
        ..Delta::default()
    };
    let both = [("192.0.2.1", 46), ("2001:db8::1", 46)];
    golden("host-marks", &shown(handle(&mut renderer, &[marked("b", "eth0", &both)])));
    let rival = marked("a", "eth1", &[("192.0.2.1", 10)]);
    golden("host-marks-rival", &shown(handle(&mut renderer, &[rival])));
    let gone = |name| Event::HostEndpointRemoved(host_endpoint_id(name));
    golden("host-marks-gone", &shown(handle(&mut renderer, &[gone("a"), gone("b")])));
}

/// Pools, hosts and services; then with every setting otherwise; then nothing is known any more.
#[test]
fn network() {
    let nets = |nets: &[&str]| nets.iter().map(|text| net(text)).collect::<Vec<_>>();
    let network = Network {
        pools: nets(&["10.0.0.0/16", "fd00::/64"]),
        masqueraded: nets(&["10.0.0.0/16"]),
        hosts: nets(&["192.0.2.1/32", "2001:db8::1/128"]),
        services: nets(&["10.96.0.0/12", "198.51.100.0/24", "fd01::/112"]),
    };
    let told = |network: &Network| [Event::NetworkSet(Arc::new(network.clone()))];
    let mut renderer = Renderer::new(RenderConfig::default());
    golden("network", &handle(&mut renderer, &told(&network)));
    assert_eq!(handle(&mut renderer, &told(&network)), Delta::default());
    golden("network-gone", &handle(&mut renderer, &told(&Network::default())));

    let nat = NatConfig {
        ports: Some(ports(32768, 60999)),
        address: Some("203.0.113.7".parse().unwrap()),
        interfaces: Some("eth+".parse().unwrap()),
        spare_hosts: true,
        random: false,
    };
    let config = RenderConfig { nat, service_loops: ServiceLoops::Reject, ..RenderConfig::default() };
    let mut delta = handle(&mut Renderer::new(config), &told(&network));
    delta.elements.clear();
    golden("network-otherwise", &delta);
    let config = RenderConfig { service_loops: ServiceLoops::Allow, ..RenderConfig::default() };
    let services = Network { services: network.services, ..Network::default() };
    assert_eq!(handle(&mut Renderer::new(config), &told(&services)), Delta::default());
}

/// Limits are an endpoint's own and do not change with its policy; the hooks are there while anybody is limited.
#[test]
fn limits_and_marks() {
    let mut renderer = Renderer::new(RenderConfig::default());
    let limited = |name: &str, qos: QosControls, ingress: &Arc<Stack>| {
        let Event::EndpointSet { id, endpoint } = endpoint(name, &format!("cali{name}"), &["10.0.0.1/32"], ingress)
        else {
            unreachable!("an endpoint event")
        };
        let endpoint = ActiveEndpoint { qos: Some(Arc::new(qos)), ..(*endpoint).clone() };
        Event::EndpointSet { id, endpoint: Arc::new(endpoint) }
    };
    let all = QosControls {
        ingress_packet_rate: Some(100),
        ingress_packet_burst: Some(20),
        egress_packet_rate: Some(50),
        egress_max_connections: Some(3),
        dscp: Some("EF".parse().unwrap()),
        ..QosControls::default()
    };
    let some = QosControls { ingress_max_connections: Some(4_294_967_295), ..QosControls::default() };
    let delta = handle(&mut renderer, &[limited("a", all.clone(), &stack(&[])), limited("b", some, &stack(&[]))]);
    let ours = |name: &str| ["limits", "connections", "discovery", "dscp"].iter().any(|start| name.starts_with(start));
    let mut shown = Delta::default();
    shown.chains_set.extend(delta.chains_set.iter().filter(|chain| ours(chain.name.as_str())).cloned());
    shown.elements.extend(delta.elements.iter().filter(|change| ours(change.set.as_str())).cloned());
    golden("limits", &shown);

    let other_policy = handle(&mut renderer, &[limited("a", all, &stack(&["other"]))]);
    assert!(other_policy.chains_set.iter().all(|chain| !ours(chain.name.as_str())), "{other_policy}");
    assert!(other_policy.elements.iter().all(|change| !ours(change.set.as_str())), "{other_policy}");
    let mut removed = |name: &str| -> Vec<String> {
        let delta = handle(&mut renderer, &[Event::EndpointRemoved(endpoint_id(name))]);
        let bases = ["limits-forward", "limits-input", "dscp", "connections-forward", "connections-input"];
        bases
            .into_iter()
            .filter(|base| delta.chains_removed.iter().any(|name| name.as_str() == *base))
            .map(Into::into)
            .collect()
    };
    assert_eq!(removed("a"), ["limits-forward", "limits-input", "dscp"]);
    assert_eq!(removed("b"), ["connections-forward", "connections-input"]);
}

/// A limit that becomes another one is written, though its chain keeps its name; one that stays is not, or it would count anew.
#[test]
fn limits_change() {
    let mut renderer = Renderer::new(RenderConfig::default());
    let limited = |name: &str, qos: QosControls| {
        let Event::EndpointSet { id, endpoint } = endpoint(name, "calia", &["10.0.0.1/32"], &stack(&[])) else {
            unreachable!("an endpoint event")
        };
        let endpoint = ActiveEndpoint { qos: Some(Arc::new(qos)), ..(*endpoint).clone() };
        Event::EndpointSet { id, endpoint: Arc::new(endpoint) }
    };
    let rates = |rate| QosControls { ingress_packet_rate: Some(rate), ..QosControls::default() };
    let connections = |most| QosControls { egress_max_connections: Some(most), ..QosControls::default() };
    let mut told = |event: Event| -> Vec<String> {
        let delta = handle(&mut renderer, &[event]);
        let own = delta.chains_set.iter().filter(|chain| chain.name.as_str().ends_with("/calia"));
        let mut told: Vec<String> = own.map(|chain| format!("{}: {}", chain.name.as_str(), chain.rules[0])).collect();
        told.sort();
        told
    };
    assert!(told(limited("b", rates(1_000)))[0].contains("1000/second"));
    assert_eq!(told(limited("b", rates(1_000))), Vec::<String>::new());
    let marked = QosControls { dscp: calico_core::net::Dscp::new(46), ..rates(1_000) };
    assert_eq!(told(limited("b", marked)), Vec::<String>::new());
    assert!(told(limited("b", rates(10)))[0].contains("10/second"));
    assert!(told(limited("b", connections(7)))[0].contains("over 7"));
    assert!(told(limited("b", connections(3)))[0].contains("over 3"));
    // Another endpoint gets the interface, and with it the chain's name.
    assert!(told(limited("a", connections(5)))[0].contains("over 5"));
    assert!(told(Event::EndpointRemoved(endpoint_id("a")))[0].contains("over 3"));
    // A change of the packet rate leaves the count of connections alone, as does that there is none any more.
    let both = |rate| QosControls { egress_packet_rate: rate, ..connections(3) };
    for rate in [Some(10), Some(20), None, Some(5)] {
        let told = told(limited("b", both(rate)));
        let starts = told.iter().map(|chain| chain.split('/').next().unwrap_or_default());
        let packets: &[&str] = if rate.is_some() { &["discovery-out", "limits-out"] } else { &[] };
        assert_eq!(starts.collect::<Vec<_>>(), packets, "{told:?}");
    }
    let fewer = told(limited("b", QosControls { egress_packet_rate: Some(5), ..connections(2) }));
    assert!(fewer.len() == 1 && fewer[0].starts_with("connections-out/") && fewer[0].contains("over 2"), "{fewer:?}");
    // The next one to have the interface inherits no limit, neither of its own kind nor of another.
    let other = QosControls { ingress_packet_rate: Some(7), ..QosControls::default() };
    let taken = handle(&mut renderer, &[limited("a", other)]);
    let removed: Vec<_> = taken.chains_removed.iter().map(|name| name.as_str()).collect();
    assert!(["connections-out/calia", "limits-out/calia"].iter().all(|name| removed.contains(name)), "{taken}");
    assert!(taken.to_string().contains("delete element @limits-from calia"), "{taken}");
    let plain = handle(&mut renderer, &[limited("0", QosControls::default())]);
    assert!(plain.chains_removed.iter().any(|name| name.as_str() == "limits-in/calia"), "{plain}");
    assert!(plain.to_string().contains("delete element @limits-to calia"), "{plain}");
}

/// What an endpoint receives is limited at its interface, what it sends at a device; either goes with what was asked.
#[test]
fn bandwidth() {
    let mut renderer = Renderer::new(RenderConfig::default());
    let limited = |qos: QosControls| {
        let Event::EndpointSet { id, endpoint } = endpoint("a", "calia", &["10.0.0.1/32"], &stack(&[])) else {
            unreachable!("an endpoint event")
        };
        Event::EndpointSet {
            id,
            endpoint: Arc::new(ActiveEndpoint { qos: Some(Arc::new(qos)), ..(*endpoint).clone() }),
        }
    };
    let both = QosControls {
        ingress_bandwidth: Some(8_000_000),
        ingress_burst: Some(80_000),
        ingress_peakrate: Some(16_000_000),
        ingress_minburst: Some(3_000),
        egress_bandwidth: Some(1_000_000),
        ..QosControls::default()
    };
    let lines = |delta: Delta| -> Vec<String> {
        let shown =
            Delta { shapings_set: delta.shapings_set, shapings_removed: delta.shapings_removed, ..Delta::default() };
        shown.to_string().lines().map(str::to_owned).collect()
    };
    let mut told = |event: Event| lines(handle(&mut renderer, &[event]));
    let device = calico_core::table::Shaper::of_sent("calia".parse().unwrap()).device;
    let received = "set limit dev calia rate 1000000 burst 10000 peak 2000000 burst 3000".to_owned();
    let sent = format!("set limit dev {device} from calia rate 125000 burst 536870912");
    let mut expected = vec![sent, received];
    let mut found = told(limited(both.clone()));
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, expected);
    assert!(told(limited(both.clone())).is_empty());
    let slower = QosControls { egress_bandwidth: Some(8_000), ..both.clone() };
    assert_eq!(told(limited(slower)), [format!("set limit dev {device} from calia rate 1000 burst 536870912")]);
    let received_only = QosControls { egress_bandwidth: None, ..both };
    assert_eq!(told(limited(received_only)), [format!("delete limit dev {device} from calia")]);
    assert_eq!(told(Event::EndpointRemoved(endpoint_id("a"))), ["delete limit dev calia"]);
}

/// Of two workloads that claim a floating address the smaller address has it; the chains go with the last.
#[test]
fn floating_addresses() {
    let config = RenderConfig { floating_addresses: true, ..RenderConfig::default() };
    let mut renderer = Renderer::new(config);
    let floating = |name: &str, pairs: &[(&str, &str)]| {
        let Event::EndpointSet { id, endpoint } = endpoint(name, &format!("cali{name}"), &["10.0.0.1/32"], &stack(&[]))
        else {
            unreachable!("an endpoint event")
        };
        let pair = |(outside, inside): &(&str, &str)| (outside.parse().unwrap(), inside.parse().unwrap());
        let floating = pairs.iter().map(pair).collect();
        Event::EndpointSet { id, endpoint: Arc::new(ActiveEndpoint { floating, ..(*endpoint).clone() }) }
    };
    let shown = |delta: Delta| Delta {
        chains_set: delta.chains_set.into_iter().filter(|chain| chain.name.as_str().starts_with("floating")).collect(),
        elements: delta.elements.into_iter().filter(|change| change.set.as_str().starts_with("floating")).collect(),
        routes_set: delta.routes_set,
        ..Delta::default()
    };
    let both = [("192.0.2.9", "10.0.0.2"), ("192.0.2.8", "10.0.0.2"), ("2001:db8::8", "fd00::2")];
    golden("floating", &shown(handle(&mut renderer, &[floating("b", &both)])));
    let rival = handle(&mut renderer, &[floating("a", &[("192.0.2.8", "10.0.0.1")])]);
    golden("floating-rival", &shown(rival));
    assert_eq!(handle(&mut renderer, &[floating("b", &both)]), Delta::default());
    handle(&mut renderer, &[Event::EndpointRemoved(endpoint_id("b"))]);
    let gone = handle(&mut renderer, &[Event::EndpointRemoved(endpoint_id("a"))]);
    assert!(
        ["floating-in", "floating-out", "floating-hairpin"]
            .iter()
            .all(|name| { gone.chains_removed.iter().any(|removed| removed.as_str() == *name) })
    );
    let off = handle(&mut Renderer::new(RenderConfig::default()), &[floating("b", &both)]);
    assert_eq!(shown(off).elements, []);
}

/// What is refused in the filter is dropped where no refusal is possible, so those places have chains of their own.
#[test]
fn refusals() {
    let config = RenderConfig { deny_action: DenyAction::Reject, flow_logs: true, ..RenderConfig::default() };
    let mut renderer = Renderer::new(config);
    let endpoint = ActiveHostEndpoint {
        dscp: Vec::new(),
        interfaces: HostInterfaces::Named(vec!["eth0".parse().unwrap()]),
        untracked: Directions { ingress: tier(&["raw"]), egress: Arc::default() },
        pre_dnat: Arc::default(),
        normal: Directions { ingress: stack(&[]), egress: stack(&["normal"]) },
        forward: Directions::default(),
    };
    let events = [
        Event::PolicySet { id: policy("raw"), rules: rules(vec![rule(Action::Deny)]) },
        Event::PolicySet { id: policy("normal"), rules: egress_rules(vec![rule(Action::Deny), rule(Action::Pass)]) },
        host_endpoint("uplink", endpoint),
    ];
    let delta = handle(&mut renderer, &events);
    let refuses = |chain: &Chain| chain.rules.iter().any(|rule| matches!(rule.verdict, Some(Verdict::Reject(_))));
    for chain in delta.chains_set.iter().filter(|chain| refuses(chain)) {
        let name = chain.name.as_str();
        assert!(!name.starts_with("mangle-") && !name.starts_with("raw-"), "{chain} cannot refuse");
    }
    golden("refusals", &delta);
}

/// Staged policies count and decide nothing; a tier of nothing else lets all through.
#[test]
fn staged_policies() {
    let mut renderer = Renderer::new(RenderConfig { counters: false, flow_logs: true, ..RenderConfig::default() });
    let staged = PolicyId(ResourceKey::cluster(Kind::StagedGlobalNetworkPolicy, "tried"));
    let all = [Action::Log, Action::Pass, Action::Deny, Action::Allow].map(rule).to_vec();
    let mut tiers = tier(&["first", "last"]);
    let tiers = &mut Arc::make_mut(&mut tiers).tiers;
    tiers[0].policies.insert(1, staged.clone());
    let only_staged =
        StackTier { name: "trial".into(), policies: vec![staged.clone()], default_action: DefaultAction::Pass };
    tiers.insert(0, only_staged);
    let stack = Arc::new(Stack { tiers: tiers.clone(), profiles: Vec::new() });
    let events = [
        Event::PolicySet { id: staged, rules: rules(all) },
        Event::PolicySet { id: policy("first"), rules: rules(vec![rule(Action::Pass)]) },
        Event::PolicySet { id: policy("last"), rules: rules(vec![rule(Action::Deny)]) },
        endpoint("a", "calia", &["10.0.0.1/32"], &stack),
    ];
    let mut delta = handle(&mut renderer, &events);
    delta.chains_set.retain(|chain| !chain.name.as_str().contains("out") && !chain.name.as_str().contains("egress"));
    golden("staged", &Delta { chains_set: delta.chains_set, ..Delta::default() });
}

/// Log rules say who they are, and no more often than they may.
#[test]
fn log_prefixes() {
    let prefix = |log_prefix: &str, owner: &str| {
        let log_rate = Some("10/minute".parse().unwrap());
        let mut renderer =
            Renderer::new(RenderConfig { log_prefix: log_prefix.into(), log_rate, ..RenderConfig::default() });
        let id = PolicyId(ResourceKey::namespaced(Kind::NetworkPolicy, "shop", "front"));
        let rules = Arc::new(ActiveRules { tier: Some("audit".into()), ..(*rules(vec![rule(Action::Log)])).clone() });
        let mut stack = stack(&["x"]);
        Arc::make_mut(&mut stack).tiers[0].policies = vec![id.clone()];
        let events = [
            Event::PolicySet { id, rules: rules.clone() },
            Event::ProfileSet { id: ProfileId("kns.default".into()), rules },
            endpoint("a", "calia", &["10.0.0.1/32"], &stack),
        ];
        let delta = handle(&mut renderer, &events);
        let chain = delta.chains_set.iter().find(|chain| chain.name.as_str() == owner).unwrap();
        let [rule] = &chain.rules[..] else { panic!("one rule, one line: {chain}") };
        let Some(Statement::Log { prefix }) = rule.statements.last() else { panic!("it logs: {chain}") };
        assert!(rule.to_string().contains("limit rate 10/minute burst 5 packets"), "{rule}");
        prefix.clone()
    };
    let (policy, profile) = ("policy-in/np/shop/front", "profile-in/kns.default");
    assert_eq!(prefix("calico %t %k %n %p %x %", policy), "calico audit np front shop/front %x %: ");
    assert_eq!(prefix("%k:%p", profile), "pro:kns.default: ");
    assert_eq!(prefix("", policy), ": ");
    let long = prefix(&"é".repeat(200), policy);
    assert!(long.len() <= 127 && long.ends_with("é: "), "{long}");
}

/// Of two endpoints that claim one interface the smaller is active; of two interfaces that claim one address one has the route.
#[test]
fn rival_claims_have_one_winner_and_the_other_waits() {
    let mut renderer = Renderer::new(RenderConfig::default());
    let none = stack(&[]);
    handle(&mut renderer, &[endpoint("b", "calix", &["10.0.0.2/32"], &none)]);
    let taken_over = handle(&mut renderer, &[endpoint("a", "calix", &["10.0.0.1/32"], &none)]);
    assert_eq!(taken_over.routes_set[0].key.dest, net("10.0.0.1/32"));
    assert_eq!(taken_over.routes_removed[0].dest, net("10.0.0.2/32"));
    assert_eq!(handle(&mut renderer, &[endpoint("b", "calix", &["10.0.0.9/32"], &none)]), Delta::default());
    let given_back = handle(&mut renderer, &[Event::EndpointRemoved(endpoint_id("a"))]);
    assert_eq!(given_back.routes_set[0].key.dest, net("10.0.0.9/32"));

    let rival = handle(&mut renderer, &[endpoint("c", "caliy", &["10.0.0.9/32"], &none)]);
    assert!(rival.routes_set.is_empty(), "calix had it first in order");
    let heir = handle(&mut renderer, &[Event::EndpointRemoved(endpoint_id("b"))]);
    assert!(heir.routes_removed.is_empty());
    assert_eq!(heir.routes_set.len(), 1);
}

/// The base chains send packets of workload interfaces to their policy; any other interface would be reachable without one.
#[test]
fn an_interface_that_is_not_policed_gets_nothing() {
    let mut renderer = Renderer::new(RenderConfig::default());
    let none = stack(&[]);
    assert_eq!(handle(&mut renderer, &[endpoint("a", "tap0", &["10.0.0.1/32"], &none)]), Delta::default());
    assert!(!handle(&mut renderer, &[endpoint("a", "cali0", &["10.0.0.1/32"], &none)]).routes_set.is_empty());
    let renamed = handle(&mut renderer, &[endpoint("a", "tap0", &["10.0.0.1/32"], &none)]);
    assert_eq!((renamed.routes_set.len(), renamed.routes_removed.len()), (0, 1));
    assert_eq!(handle(&mut renderer, &[Event::EndpointRemoved(endpoint_id("a"))]), Delta::default());
}

/// Whatever happened in between, what remains when everything went is nothing.
#[test]
fn everything_that_came_goes() {
    let mut renderer = Renderer::new(RenderConfig::default());
    let stack = stack(&["one"]);
    let came = handle(
        &mut renderer,
        &[
            Event::PolicySet { id: policy("one"), rules: rules(vec![rule(Action::Allow)]) },
            endpoint("a", "calia", &["10.0.0.1/32"], &stack),
            endpoint("b", "calib", &["10.0.0.2/32"], &stack),
        ],
    );
    let gone = handle(
        &mut renderer,
        &[
            Event::EndpointRemoved(endpoint_id("a")),
            Event::EndpointRemoved(endpoint_id("b")),
            Event::PolicyRemoved(policy("one")),
        ],
    );
    let mut names: Vec<_> = came.chains_set.iter().map(|chain| chain.name.clone()).collect();
    let mut removed = gone.chains_removed.clone();
    names.sort();
    removed.sort();
    assert_eq!(names, removed);
    let count = |delta: &Delta| {
        let elements = delta.elements.iter();
        elements.fold((0, 0), |(added, removed), change| (added + change.added.len(), removed + change.removed.len()))
    };
    assert_eq!(count(&came), (8, 0));
    assert_eq!(count(&gone), (0, 8));
    assert_eq!(came.routes_set.len(), gone.routes_removed.len());
}

/// One delta may see things come, go and come back: what it then says of them is the last word, and nothing is there twice.
#[test]
fn what_a_delta_gathered_is_taken_back() {
    let mut renderer = Renderer::new(RenderConfig::default());
    let pods = |range: std::ops::Range<u8>| -> Vec<Event> {
        let pod = |n: u8| {
            let stack = stack(&[&format!("policy-{n}")]);
            let set =
                Event::SetAdded { id: set(n), kind: IpSetKind::Net, members: vec![Member::Net(net("10.9.0.1/32"))] };
            let change = Event::SetChanged {
                id: SetId::new([n; 16]),
                added: vec![],
                removed: vec![Member::Net(net("10.9.0.1/32"))],
            };
            [set, change, endpoint(&format!("pod-{n}"), &format!("cali{n}"), &[&format!("10.0.0.{n}/32")], &stack)]
        };
        range.flat_map(pod).collect()
    };
    let gone = |n: u8| [Event::EndpointRemoved(endpoint_id(&format!("pod-{n}"))), Event::SetRemoved(set(n))];
    let mut delta = Delta::default();
    let mut gather = |events: &[Event]| events.iter().for_each(|event| renderer.handle(event, &mut delta));
    gather(&pods(1..5));
    gather(&[gone(2), gone(1), gone(4)].concat());
    gather(&pods(4..5));
    let mut interfaces: Vec<_> = delta.neighbors_set.iter().map(|found| found.interface.to_string()).collect();
    interfaces.sort();
    assert_eq!(interfaces, ["cali3", "cali4"]);
    assert_eq!((delta.routes_set.len(), delta.settings.len()), (2, 16));
    let chains: std::collections::BTreeSet<_> = delta.chains_set.iter().map(|chain| &chain.name).collect();
    assert_eq!((chains.len(), delta.chains_set.len()), (7, 7), "two policies, two profiles, three stacks: {delta}");
    assert_eq!(delta.sets_added.len(), 2, "of each set the part that always exists");
    let changed = delta.elements.iter().filter(|change| change.set.as_str().ends_with(&set(2).to_string()));
    assert_eq!(changed.map(|change| change.added.len() + change.removed.len()).sum::<usize>(), 0);
}

/// A reference into the void fails closed, and opens as soon as what it refers to is known.
#[test]
fn what_is_not_known_denies() {
    let mut renderer = Renderer::new(RenderConfig::default());
    let chain = |delta: &Delta| {
        let mut chains = delta.chains_set.iter().filter(|chain| chain.name.as_str() == "policy-in/gnp/one");
        chains.next().unwrap().rules.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let early = handle(&mut renderer, &[endpoint("a", "calia", &["10.0.0.1/32"], &stack(&["one"]))]);
    assert_eq!(chain(&early), ["drop"]);
    let known = Event::PolicySet { id: policy("one"), rules: rules(vec![rule(Action::Allow)]) };
    assert_eq!(chain(&handle(&mut renderer, &[known])), ["counter accept"]);
    assert_eq!(chain(&handle(&mut renderer, &[Event::PolicyRemoved(policy("one"))])), ["drop"]);
    let stray = Event::SetChanged { id: set(9), added: vec![Member::Net(net("10.0.0.1/32"))], removed: Vec::new() };
    assert_eq!(handle(&mut renderer, &[stray]), Delta::default());
}

fn handle(renderer: &mut Renderer, events: &[Event]) -> Delta {
    let mut delta = Delta::default();
    events.iter().for_each(|event| renderer.handle(event, &mut delta));
    delta
}

fn golden(name: &str, delta: &Delta) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.nft"));
    let rendered = delta.to_string();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &rendered).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(rendered, expected, "{} differs; BLESS=1 writes it anew", path.display());
}

fn rule(action: Action) -> ActiveRule {
    ActiveRule::all(action)
}

fn from_set(action: Action, id: SetId) -> ActiveRule {
    ActiveRule { source: ActiveEntity { sets: vec![id], ..ActiveEntity::default() }, ..rule(action) }
}

fn rules(ingress: Vec<ActiveRule>) -> Arc<ActiveRules> {
    Arc::new(ActiveRules { tier: None, ingress, egress: Vec::new() })
}

fn egress_rules(egress: Vec<ActiveRule>) -> Arc<ActiveRules> {
    Arc::new(ActiveRules { tier: None, ingress: Vec::new(), egress })
}

/// A stack without profiles whose tier passes on what its policies leave.
fn tier(policies: &[&str]) -> Arc<Stack> {
    let mut stack = (*stack(policies)).clone();
    stack.profiles.clear();
    stack.tiers.iter_mut().for_each(|tier| tier.default_action = DefaultAction::Pass);
    Arc::new(stack)
}

fn host_endpoint(name: &str, endpoint: ActiveHostEndpoint) -> Event {
    Event::HostEndpointSet { id: host_endpoint_id(name), endpoint: Arc::new(endpoint) }
}

fn host_endpoint_id(name: &str) -> EndpointId {
    EndpointId(ResourceKey::cluster(Kind::HostEndpoint, name))
}

fn stack(policies: &[&str]) -> Arc<Stack> {
    let tier = StackTier {
        name: "default".into(),
        policies: policies.iter().map(|name| policy(name)).collect(),
        default_action: DefaultAction::Deny,
    };
    let tiers = if policies.is_empty() { Vec::new() } else { vec![tier] };
    Arc::new(Stack { tiers, profiles: vec![ProfileId("kns.default".into())] })
}

fn endpoint(name: &str, interface: &str, addresses: &[&str], ingress: &Arc<Stack>) -> Event {
    let endpoint = ActiveEndpoint {
        interface: interface.parse().unwrap(),
        mac: Some("ee:00:00:00:00:01".parse().unwrap()),
        addresses: addresses.iter().map(|text| net(text)).collect(),
        allowed_sources: Vec::new(),
        floating: Vec::new(),
        qos: None,
        ingress: Arc::clone(ingress),
        egress: stack(&[]),
    };
    Event::EndpointSet { id: endpoint_id(name), endpoint: Arc::new(endpoint) }
}

fn endpoint_id(name: &str) -> EndpointId {
    EndpointId(ResourceKey::namespaced(Kind::WorkloadEndpoint, "default", name))
}

fn policy(name: &str) -> PolicyId {
    PolicyId(ResourceKey::cluster(Kind::GlobalNetworkPolicy, name))
}

const fn set(number: u8) -> SetId {
    SetId::new([number; 16])
}

fn ports(min: u16, max: u16) -> PortRange {
    PortRange::new(min, max).unwrap()
}

fn net(text: &str) -> Cidr {
    text.parse().unwrap()
}
