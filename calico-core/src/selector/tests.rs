use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use std::{format, vec};

use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Selector {
    Selector::parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

#[test]
fn ids_are_upstreams() {
    for (text, canonical, id) in [
        ("", "all()", "s:5y5I3VdRZfDU01O--xXAPx2yxCQQqMf0M6IWug"),
        (" \t", "all()", "s:5y5I3VdRZfDU01O--xXAPx2yxCQQqMf0M6IWug"),
        ("all( )", "all()", "s:5y5I3VdRZfDU01O--xXAPx2yxCQQqMf0M6IWug"),
        ("!all()", "!all()", "s:Z9zLaL1EHxF9kgXz1JwBD_e-AJbeJyFDpG-oKw"),
        ("global()", "global()", "s:fiJDJdBoaP_zQxty70sMjIrxwAb5lgM6LYCAow"),
        ("!(has(b) || !has(a))", "!(has(b) || !has(a))", "s:Iss0uCleLYv1GSv_pNm7hAO58kE9jAx1NKyG3Q"),
        ("!(a == 'b' && !!!c != 'd')", r#"!(a == "b" && !c != "d")"#, "s:lh3haoY1ikTRkd4UZu0nWSaIBknYLPJLX16d-w"),
        ("(((a=='b')))", r#"a == "b""#, "s:flMh0m0X_BowkAK_W3j3MgH8oQOsj3WxGDoXCQ"),
        ("a=='b'&&has( c )", r#"(a == "b" && has(c))"#, "s:a7YG9G3XyFzmdwcUzkbtw0ffcKn8o5bm1xsGyQ"),
        (r#"a in{"d",'b',"a","b",}"#, r#"a in {"a", "b", "d"}"#, "s:47Z8J8dfSg-rF2l7gb0UoCWC8HcdwnHgIX8-wA"),
        ("a notin{'x'}", r#"a not in {"x"}"#, "s:o55trVv8oSERfABEy8xjWS5DI--NFJK_2dUo8Q"),
        (r#"a == '"'"#, r#"a == '"'"#, "s:tH-c1ZFXVeeAlRGTRujlHHcHICA5pytOxPgPFQ"),
        (
            "projectcalico.org/namespace == 'default'",
            r#"projectcalico.org/namespace == "default""#,
            "s:4g010_DunYvItGg3dv2MxnaJYxWEVRwn0exiaA",
        ),
        ("app == 'web'", r#"app == "web""#, "s:oy593DLyi5BRwxLRqXScOfE9YMyW5S4KAhmzFg"),
        ("app == 'web' && has(tier)", r#"(app == "web" && has(tier))"#, "s:10upYlec2FRXACSiwq3BhmBqKeHkdBHBb_9QQw"),
        (
            "projectcalico.org/namespace == 'default' && app == 'web'",
            r#"(projectcalico.org/namespace == "default" && app == "web")"#,
            "s:cttW8MqAIeVWez-m8dwR9b3uQqpCzqFehCdHqQ",
        ),
    ] {
        let selector = parse(text);
        assert_eq!((selector.canonical(), selector.id().as_str()), (canonical, id), "{text:?}");
    }
}

#[test]
fn ids_of_named_ports_and_services_are_upstreams() {
    let all = Selector::all().id();
    let port = unique_id("n", &format!("{all},tcp,http"));
    assert_eq!(port, "n:cl9_Kgeu4H0OGLbhovVR3NBLUOZscKeMK1Mu4A");
    assert_eq!(unique_id("svc", "default/web"), "svc:-B0RxVUwdW1aFEcXPP4q2GF3e68JsTwIe-pf7w");
    assert_eq!(unique_id("svcnoport", "default/web"), "svcnoport:b_Odath8L_-pMWpLC_tua_hO2jguw5ajClao3w");
}

#[test]
fn refuses_what_upstream_refuses() {
    for text in [
        "b == b",
        "b contains b",
        "'b1' == b",
        "b",
        "a b",
        "!",
        "foo == \"bar\" &",
        "foo == \"bar\" |",
        "foo != ||",
        "foo in {\"\", ||",
        "foo in \"\"",
        "\"FOO",
        "\"FOO'",
        "(",
        "(a == \"foo\"",
        ")",
        "()",
        "%",
        "a == \"b\" && %",
        "a ",
        "has(foo) &&",
        "all(",
        "has()",
        "has(foo",
        "label = \"v\"",
        "label inf \"v\"",
        "label ends withs \"v\"",
        "has (a)",
        "a ==\n'b'",
        "a == 'b' c == 'd'",
        "a in {'b' 'c'}",
        "a in {,}",
        "é == 'a'",
    ] {
        assert!(Selector::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn says_where_and_what() {
    for (text, position, message) in [
        ("a == b", 5, "at byte 5: expected a quoted string, found the label b"),
        ("a == 'b' && ", 12, "at byte 12: expected a label, '!', '(', has(), all() or global(), found the end"),
        ("(a == 'b'", 9, "at byte 9: expected '&&', '||' or ')', found the end"),
        ("a == \"b", 7, "at byte 7: expected a closing '\"', found the end"),
        (
            "label inf 'v'",
            6,
            "at byte 6: expected an operator (==, !=, in, not in, contains, starts with, ends with), found \"inf\"",
        ),
        ("has()", 4, "at byte 4: expected a label name, found \")\""),
        ("a == 'x' | b == 'y'", 9, "at byte 9: expected '||', found \"|\""),
    ] {
        let error = Selector::parse(text).unwrap_err();
        assert_eq!((error.position(), error.to_string().as_str()), (position, message), "{text:?}");
    }
}

#[test]
fn keyword_corners() {
    for (text, canonical) in [
        ("contains contains 'x'", r#"contains contains "x""#),
        ("has == 'x'", r#"has == "x""#),
        ("a startswith 'x'", r#"a starts with "x""#),
        ("a ends  \t with'x'", r#"a ends with "x""#),
        ("a not in {}", "a not in {}"),
        ("-/.. == ''", r#"-/.. == """#),
        ("a && b == 'c'", ""),
        ("a == 'b' && (c == 'd' && has(e))", r#"(a == "b" && (c == "d" && has(e)))"#),
        ("has(a) || has(b) && has(c)", "(has(a) || (has(b) && has(c)))"),
        ("!a in {'x'}", r#"!a in {"x"}"#),
        ("!(!has(a))", "!!has(a)"),
    ] {
        match Selector::parse(text) {
            Ok(selector) => assert_eq!(selector.canonical(), canonical, "{text:?}"),
            Err(error) => assert_eq!(canonical, "", "{text:?}: {error}"),
        }
    }
}

#[test]
fn evaluates_presence_and_absence() {
    let both = labels(&[("a", "bar"), ("b", "")]);
    for (text, expected) in [
        ("a == 'bar'", true),
        ("a == 'ba'", false),
        ("c == ''", false),
        ("c != 'x'", true),
        ("a != 'bar'", false),
        ("a in {'foo', 'bar'}", true),
        ("a in {}", false),
        ("a not in {}", true),
        ("c not in {'x'}", true),
        ("a not in {'bar'}", false),
        ("a contains ''", true),
        ("c contains ''", false),
        ("a starts with 'ba'", true),
        ("a ends with 'ar'", true),
        ("a ends with 'ba'", false),
        ("has(b)", true),
        ("!has(c)", true),
        ("global()", true),
        ("!a in {'bar'}", false),
        ("has(c) || a == 'bar' && has(b)", true),
    ] {
        assert_eq!(parse(text).matches(&both), expected, "{text}");
    }
}

#[test]
fn own_labels_hide_inherited_ones_and_earlier_parents_hide_later() {
    let own = labels(&[("a", "own")]);
    let first = labels(&[("a", "first"), ("b", "first")]);
    let second = labels(&[("b", "second"), ("c", "second")]);
    let all = Inherited { own: &own, parents: &[&first, &second] };
    assert!(parse("a == 'own' && b == 'first' && c == 'second' && !has(d)").matches(&all));
}

#[test]
fn hostile_sizes_are_errors() {
    let label = |length| format!("{} == 'x'", "a".repeat(length));
    assert!(Selector::parse(&label(512)).is_ok());
    assert_eq!(Selector::parse(&label(513)).unwrap_err().problem(), &Problem::LabelTooLong { limit: 512 });
    let nested = |depth| format!("{}all(){}", "(".repeat(depth), ")".repeat(depth));
    assert!(Selector::parse(&nested(200)).is_ok());
    assert!(matches!(Selector::parse(&nested(30_000)).unwrap_err().problem(), Problem::TooDeep { .. }));
    let alternating = |depth: usize| {
        (0..depth).fold(String::from("has(a)"), |inner, level| {
            format!("has(b) {} ({inner})", if level % 2 == 0 { "&&" } else { "||" })
        })
    };
    let deepest = parse(&alternating(100));
    assert_eq!(parse(deepest.canonical()), deepest);
    assert!(matches!(Selector::parse(&alternating(101)).unwrap_err().problem(), Problem::TooDeep { .. }));
    assert!(Selector::parse(&format!("{}has(a)", "!".repeat(60_000))).is_ok());
    let long = format!("a == '{}'", "x".repeat(70_000));
    assert!(matches!(Selector::parse(&long).unwrap_err().problem(), Problem::TooLong { .. }));
}

#[test]
fn rewriting() {
    let selector = parse("a == 'b' && !(all() || global()) && has(c)").with_prefix("pcns.");
    assert_eq!(selector.canonical(), r#"(pcns.a == "b" && !(all() || global()) && has(pcns.c))"#);
    let namespaced = Selector::has("projectcalico.org/namespace");
    assert_eq!(parse("!all()").replace_all(&namespaced).canonical(), "!has(projectcalico.org/namespace)");
    let replaced = parse("!global()").replace_global(&namespaced.negated());
    assert_eq!(replaced.canonical(), "has(projectcalico.org/namespace)");
    let both = parse("has(a) && has(b)").and(&Selector::equal("c", "d"));
    assert_eq!(both.canonical(), r#"((has(a) && has(b)) && c == "d")"#);
    assert_eq!(Selector::any_of("a", ["y", "x", "y"]).canonical(), r#"a in {"x", "y"}"#);
}

#[test]
fn normalises_also_what_does_not_parse() {
    assert_eq!(normalise("\n a=='b'\u{a0}"), r#"a == "b""#);
    assert_eq!(normalise(" a = 'b' "), "a = 'b'");
}

#[test]
fn restrictions_of_each_form() {
    let describe = |text: &str| {
        let restrictions = parse(text).restrictions();
        let one = |(label, r): (&Arc<str>, &Restriction)| {
            let values: Option<Vec<_>> = r.values.as_ref().map(|v| v.iter().map(|v| v.to_string()).collect());
            let values = values.map_or_else(String::new, |values| format!("={}", values.join("|")));
            format!("{}{}{label}{values}", if r.present { "+" } else { "" }, if r.absent { "-" } else { "" })
        };
        restrictions.iter().map(one).collect::<Vec<_>>().join(" ")
    };
    for (text, expected) in [
        ("a == 'x'", "+a=x"),
        ("a in {'x','y'} && a in {'y','z'} && has(b)", "+a=y +b"),
        ("a == 'x' || a == 'y'", "+a=x|y"),
        ("a == 'x' || has(a)", "+a"),
        ("a == 'x' || has(b)", ""),
        ("!has(a)", "-a"),
        ("!has(a) || !has(a)", "-a"),
        ("a != 'x' && b not in {'y'}", ""),
        ("a starts with 'x' && !b == 'x'", "+a"),
        ("all()", ""),
    ] {
        assert_eq!(describe(text), expected, "{text}");
    }
    let unsatisfiable = |text: &str| parse(text).restrictions().values().any(Restriction::is_unsatisfiable);
    assert!(unsatisfiable("has(a) && !has(a)"));
    assert!(unsatisfiable("a == 'x' && a == 'y'"));
    assert!(unsatisfiable("a in {}"));
    assert!(!unsatisfiable("a == 'x' || b == 'y'"));
}

/// A tree that keeps nothing but the meaning, with its own evaluator and its own, deliberately untidy, printer.
#[derive(Debug, Clone)]
enum Twin {
    All,
    Has(String),
    Test(String, &'static str, String),
    Set(String, bool, Vec<String>),
    Not(Box<Self>),
    And(Vec<Self>),
    Or(Vec<Self>),
}

impl Twin {
    fn print(&self) -> String {
        let join = |operands: &[Self], separator: &str| {
            operands.iter().map(|operand| format!("({})", operand.print())).collect::<Vec<_>>().join(separator)
        };
        match self {
            Self::All => "all()".into(),
            Self::Has(label) => format!("has( {label})"),
            Self::Test(label, operator, value) => format!("{label} {operator}'{value}'"),
            Self::Set(label, inside, values) => {
                let values: Vec<_> = values.iter().map(|value| format!("\"{value}\"")).collect();
                format!("{label} {}{{{}}}", if *inside { "in " } else { "notin" }, values.join(","))
            }
            Self::Not(operand) => format!("!({})", operand.print()),
            Self::And(operands) => join(operands, "&&"),
            Self::Or(operands) => join(operands, " ||\t"),
        }
    }

    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        match self {
            Self::All => true,
            Self::Has(label) => labels.contains_key(label),
            Self::Test(label, operator, operand) => match (labels.get(label), *operator) {
                (None, operator) => operator == "!=",
                (Some(value), "==") => value == operand,
                (Some(value), "!=") => value != operand,
                (Some(value), "contains") => value.contains(operand.as_str()),
                (Some(value), "starts with") => value.starts_with(operand.as_str()),
                (Some(value), _) => value.ends_with(operand.as_str()),
            },
            Self::Set(label, inside, values) => {
                labels.get(label).is_some_and(|value| values.contains(value)) == *inside
            }
            Self::Not(operand) => !operand.matches(labels),
            Self::And(operands) => operands.iter().all(|operand| operand.matches(labels)),
            Self::Or(operands) => operands.iter().any(|operand| operand.matches(labels)),
        }
    }
}

fn twin() -> impl Strategy<Value = Twin> {
    let label = || prop::sample::select(vec!["a", "b", "in", "x.y/z-1"]).prop_map(String::from);
    let value = || prop::sample::select(vec!["", "x", "xy", "zx y", "é"]).prop_map(String::from);
    let operator = prop::sample::select(vec!["==", "!=", "contains", "starts with", "ends with"]);
    let leaf = prop_oneof![
        Just(Twin::All),
        label().prop_map(Twin::Has),
        (label(), operator, value()).prop_map(|(label, operator, value)| Twin::Test(label, operator, value)),
        (label(), any::<bool>(), prop::collection::vec(value(), 0..4))
            .prop_map(|(label, inside, values)| Twin::Set(label, inside, values)),
    ];
    leaf.prop_recursive(5, 40, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|operand| Twin::Not(Box::new(operand))),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Twin::And),
            prop::collection::vec(inner, 2..4).prop_map(Twin::Or),
        ]
    })
}

fn label_map() -> impl Strategy<Value = BTreeMap<String, String>> {
    let label = prop::sample::select(vec!["a", "b", "in", "x.y/z-1", "other"]).prop_map(String::from);
    let value = prop::sample::select(vec!["", "x", "xy", "zx y", "é", "q"]).prop_map(String::from);
    prop::collection::btree_map(label, value, 0..5)
}

proptest! {
    #[test]
    fn agrees_with_a_naive_evaluator(twin in twin(), maps in prop::collection::vec(label_map(), 1..8)) {
        let selector = parse(&twin.print());
        let again = parse(selector.canonical());
        if !selector.canonical().contains("!!") {
            prop_assert_eq!(again.root(), selector.root());
        }
        let restrictions = selector.restrictions();
        for labels in maps {
            let expected = twin.matches(&labels);
            prop_assert_eq!(selector.matches(&labels), expected, "{}", selector);
            prop_assert_eq!(again.matches(&labels), expected, "{}", again);
            for (label, restriction) in &restrictions {
                let value = labels.get(&**label);
                let violated = (restriction.present && value.is_none())
                    || (restriction.absent && value.is_some())
                    || restriction.values.as_ref().is_some_and(|values| {
                        !value.is_some_and(|value| values.iter().any(|item| **item == **value))
                    });
                prop_assert!(!(violated && expected), "{} over {:?}", selector, labels);
            }
        }
    }
}

#[test]
fn replays_the_corpus() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus/selector");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        crate::testing::fuzz_selector(&std::fs::read(entry.unwrap().path()).unwrap());
        seen += 1;
    }
    assert!(seen >= 20, "{folder} holds {seen} inputs");
}
