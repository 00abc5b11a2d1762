use alloc::vec;

use super::*;

const PATH: [AsNumber; 2] = [AsNumber::new(1), AsNumber::new(2)];
const REVERSED: [AsNumber; 2] = [AsNumber::new(2), AsNumber::new(1)];

fn route(prefix: &str) -> RouteView<'static> {
    RouteView {
        prefix: prefix.parse().unwrap(),
        learned: true,
        interface: Some("eth0".parse().unwrap()),
        session: SessionKind::External,
        communities: &[6_553_601],
        large_communities: &[[1, 2, 3]],
        as_path: &PATH,
        local_pref: Some(PRIORITY_SUM - 512),
    }
}

fn prefix(cidr: &str, operator: PrefixOperator, lengths: Option<(u8, u8)>) -> PrefixMatch {
    PrefixMatch { cidr: cidr.parse().unwrap(), operator, lengths }
}

#[test]
fn prefixes_as_bird_compares_them() {
    use PrefixOperator::{Equal, In, NotEqual, NotIn};
    let cases = [
        (Equal, None, "10.1.0.0/16", true),
        (Equal, None, "10.1.2.0/24", false),
        (NotEqual, None, "10.1.0.0/16", false),
        (NotEqual, None, "10.1.2.0/24", true),
        (In, None, "10.1.0.0/16", true),
        (In, None, "10.1.2.0/24", true),
        (In, None, "10.0.0.0/8", false),
        (NotIn, None, "10.1.2.0/24", false),
        (NotIn, None, "10.2.0.0/24", true),
        (In, Some((24, 26)), "10.1.0.0/16", false),
        (In, Some((24, 26)), "10.1.2.0/24", true),
        (In, Some((24, 26)), "10.1.2.0/26", true),
        (In, Some((24, 26)), "10.1.2.0/27", false),
        (In, Some((26, 24)), "10.1.2.0/25", false),
        (NotIn, Some((26, 24)), "10.1.2.0/25", true),
        (In, Some((0, 15)), "10.1.0.0/16", false),
        (In, Some((0, 128)), "10.1.0.0/16", true),
        (In, Some((0, 128)), "10.0.0.0/8", false),
        (Equal, Some((16, 16)), "10.1.0.0/16", false),
        (NotEqual, Some((16, 16)), "10.1.0.0/16", true),
    ];
    for (operator, lengths, text, expected) in cases {
        let matched = prefix("10.1.0.0/16", operator, lengths).matches(text.parse().unwrap());
        assert_eq!(matched, expected, "{operator:?} {lengths:?} {text}");
    }
}

#[test]
fn each_condition_counts() {
    let rule = FilterRule {
        prefix: Some(prefix("10.0.0.0/8", PrefixOperator::In, None)),
        learned: true,
        interface: Some(InterfaceMatch { pattern: "e*0".into() }),
        session: Some(SessionKind::External),
        community: Some(Community::Large([1, 2, 3])),
        as_path: vec![AsNumber::new(1)],
        priority: Some(512),
        accept: true,
        ..FilterRule::default()
    };
    let good = route("10.1.0.0/16");
    assert!(rule.matches(&good));
    let wrong = [
        RouteView { prefix: "11.0.0.0/8".parse().unwrap(), ..good },
        RouteView { learned: false, ..good },
        RouteView { interface: None, ..good },
        RouteView { interface: Some("eth1".parse().unwrap()), ..good },
        RouteView { session: SessionKind::Internal, ..good },
        RouteView { large_communities: &[[1, 2, 4]], ..good },
        RouteView { as_path: &[], ..good },
        RouteView { as_path: &REVERSED, ..good },
        RouteView { local_pref: None, ..good },
        RouteView { local_pref: Some(100), ..good },
    ];
    for route in wrong {
        assert!(!rule.matches(&route), "{route:?}");
    }
    assert!(FilterRule::default().matches(&good), "a rule without conditions decides about all");
}

#[test]
fn what_is_not_understood_lets_nothing_through() {
    let rule = |accept| FilterRule { unknown: true, accept, ..FilterRule::default() };
    assert!(!rule(true).matches(&route("10.1.0.0/16")));
    assert!(rule(false).matches(&route("10.1.0.0/16")));
}

#[test]
fn the_first_match_decides_and_filters_follow_each_other() {
    let rule = |cidr: &str, accept| FilterRule {
        prefix: Some(prefix(cidr, PrefixOperator::In, None)),
        accept,
        ..FilterRule::default()
    };
    let filter = |name: &str, ipv4| {
        Arc::new(Filter { name: name.into(), import: ByFamily { ipv4, ipv6: vec![] }, ..Filter::default() })
    };
    let filters = [
        filter("a", vec![rule("10.0.0.0/8", false)]),
        filter("b", vec![rule("11.0.0.0/8", true), rule("0.0.0.0/0", false)]),
    ];
    let found = |direction, text: &str| {
        first_match(&filters, direction, &route(text)).map(|(filter, place, rule)| (&*filter.name, place, rule.accept))
    };
    assert_eq!(found(RouteDirection::Import, "10.0.0.0/16"), Some(("a", 0, false)));
    assert_eq!(found(RouteDirection::Import, "11.0.0.0/16"), Some(("b", 0, true)));
    assert_eq!(found(RouteDirection::Import, "12.0.0.0/16"), Some(("b", 1, false)));
    assert_eq!(found(RouteDirection::Import, "fd00::/64"), None);
    assert_eq!(found(RouteDirection::Export, "10.0.0.0/16"), None);
}

#[test]
fn patterns_of_interfaces() {
    for (pattern, name, expected) in [
        ("eth0", "eth0", true),
        ("eth0", "eth01", false),
        ("*", "eth0", true),
        ("eth*", "eth", true),
        ("*.cali", "vxlan.cali", true),
        ("*.cali", "cali1", false),
        ("e*h*", "eth0", true),
        ("", "eth0", false),
    ] {
        assert_eq!(InterfaceMatch { pattern: pattern.into() }.matches(name.parse().ok()), expected, "{pattern} {name}");
    }
}
