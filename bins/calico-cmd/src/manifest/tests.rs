use super::*;
use proptest::prelude::*;
use serde_json::json;

fn values(text: &str) -> Vec<Value> {
    read("f.yaml", text).unwrap().into_iter().map(|document| document.value).collect()
}

fn error(text: &str) -> SyntaxError {
    read("f.yaml", text).unwrap_err()
}

#[test]
fn documents_lists_and_list_kinds_become_objects_in_order() {
    let text = "---\na: 1\n---\n# nothing\n---\n- b: 2\n- c: 3\n---\nkind: NodeList\nitems:\n- d: 4\n";
    assert_eq!(values(text), [json!({"a": 1}), json!({"b": 2}), json!({"c": 3}), json!({"d": 4, "kind": "Node"})]);
    let documents = read("f.yaml", text).unwrap();
    let places: Vec<_> = documents.iter().map(|document| (document.number, document.item)).collect();
    assert_eq!(places, [(1, None), (3, Some(0)), (3, Some(1)), (4, Some(0))]);
    assert!(values("").is_empty() && values("---\n---\n").is_empty());
}

#[test]
fn lists_may_hold_lists() {
    let text = "- kind: NodeList\n  apiVersion: v\n  items:\n  - a: 1\n  - {kind: K, b: 2}\n- - c: 3\n- kind: List\n  items:\n  - kind: TierList\n    items: null\n  - d: 4\n- kind: BlackList\n- e: 5\n";
    let documents = read("f.yaml", text).unwrap();
    let found: Vec<_> = documents.iter().map(|document| (document.item, document.value.clone())).collect();
    assert_eq!(
        found,
        [
            (Some(0), json!({"a": 1, "kind": "Node", "apiVersion": "v"})),
            (Some(1), json!({"kind": "K", "b": 2})),
            (Some(2), json!({"c": 3})),
            (Some(3), json!({"d": 4})),
            (Some(4), json!({"kind": "BlackList"})),
            (Some(5), json!({"e": 5})),
        ]
    );
    let at = |index: usize, path: &str| documents[index].position(&Fault::value(path, None, "")).line;
    assert_eq!([at(0, "a"), at(2, "c"), at(3, "d"), at(5, "e")], [4, 6, 11, 13]);
}

#[test]
fn json_is_read_too() {
    let text = "{\n\t\"a\": [1, \"x\\u00e9\\/\", null, true],\n\t\"b\": {\"c\": 1.5}\n}\n";
    assert_eq!(values(text), [json!({"a": [1, "xé/", null, true], "b": {"c": 1.5}})]);
}

#[test]
fn quotes_make_text_and_block_scalars_keep_lines() {
    let text = "a: '1'\nb: \"true\"\nc: |\n  x\n  y\nd: >-\n  x\n  y\ne: !!str 5\n";
    assert_eq!(values(text), [json!({"a": "1", "b": "true", "c": "x\ny\n", "d": "x y", "e": "5"})]);
}

#[test]
fn syntax_errors_name_file_document_line_and_column() {
    let fault = error("a: 1\n---\nb: [1, 2\nc: 3\n");
    assert_eq!((fault.document, &*fault.source_name), (2, "f.yaml"));
    assert!(fault.position.line >= 3);
    assert!(fault.to_string().starts_with("f.yaml, document 2, line "));
}

#[test]
fn duplicate_keys_tags_and_odd_keys_are_refused() {
    let fault = error("spec:\n  a: 1\n  a: 2\n");
    assert_eq!(fault.position, Position { line: 3, column: 3 });
    assert!(fault.reason.contains("twice"));
    for text in ["a: !ruby/object:Foo {}\n", "? [a]\n: b\n", "? {a: b}\n: c\n", "a: !x 1\n", ": a\n"] {
        error(text);
    }
}

#[test]
fn tags_are_those_of_the_core_schema_and_are_true() {
    let text = "a: !!int 5\nb: !!bool true\nc: !!null ~\nd: !!float 5\ne: !!seq [!!str 1]\nf: !!map {x: !!int '7'}\n";
    assert_eq!(values(text), [json!({"a": 5, "b": true, "c": null, "d": 5, "e": ["1"], "f": {"x": 7}})]);
    for (text, reason) in [
        ("a: !!python/object:os.system x\n", "is not supported"),
        ("a: !!python/object/apply:os.system [x]\n", "is not supported"),
        ("a: !!set {x: ~}\n", "is not supported"),
        ("a: !!binary aGk=\n", "is not supported"),
        ("a: !!seq {x: 1}\n", "is not supported"),
        ("a: !!int x\n", "\"x\" is no int"),
        ("a: !!bool 1\n", "\"1\" is no bool"),
    ] {
        let fault = error(text);
        assert!(fault.reason.contains(reason), "{text}: {}", fault.reason);
    }
}

/// Upstream's reader, in its strict form, answers alike; but keys it renames, and so they are refused here.
#[test]
fn merges_are_upstreams_and_keys_are_text() {
    for (text, value) in [
        ("a: {<<: {b: 1}, c: 2}", json!({"a": {"b": 1, "c": 2}})),
        ("a: {<<: [{b: 1}, {c: 2}]}", json!({"a": {"b": 1, "c": 2}})),
        ("x: &x {b: 1}\na:\n  <<: *x\n  c: 2", json!({"x": {"b": 1}, "a": {"b": 1, "c": 2}})),
        ("a: {<<: {b: 1}, <<: {c: 2}}", json!({"a": {"b": 1, "c": 2}})),
        ("a: {<<: {<<: {d: 1}, b: 2}}", json!({"a": {"b": 2, "d": 1}})),
        ("a: {!!merge <<: {b: 1}}", json!({"a": {"b": 1}})),
        ("a: {!!str <<: {b: 1}}", json!({"a": {"<<": {"b": 1}}})),
        ("a: {'<<': {b: 1}}", json!({"a": {"<<": {"b": 1}}})),
        ("a: {<<: {}}", json!({"a": {}})),
        ("a: {<<: []}", json!({"a": {}})),
        ("a: <<", json!({"a": "<<"})),
        ("443: 1", json!({"443": 1})),
        ("'yes': 1", json!({"yes": 1})),
        ("2001-01-01: x", json!({"2001-01-01": "x"})),
        ("1.5: x", json!({"1.5": "x"})),
    ] {
        assert_eq!(values(text), [value], "{text}");
    }
    for (text, reason) in [
        ("a: {b: 1, <<: {b: 2}}", "key \"b\" appears twice"),
        ("a: {<<: {b: 2}, b: 1}", "key \"b\" appears twice"),
        ("a: {<<: [{b: 1}, {b: 2}]}", "key \"b\" appears twice"),
        ("a: {<<: 5}", "<< stands for"),
        ("a: {<<: [5]}", "<< stands for"),
        ("a: {<<: [[{b: 1}]]}", "<< stands for"),
        ("a: {<<: }", "<< stands for"),
        ("on: x", "the key on means true"),
        ("0443: 1", "the key 0443 means 291"),
        ("1.0: 1", "the key 1.0 means 1"),
        ("~: 1", "a key is missing"),
        (".inf: 1", "no number that an object can hold"),
        ("a: -.inf", "no number that an object can hold"),
        ("a: !!float .nan", "no number that an object can hold"),
    ] {
        let fault = error(text);
        assert!(fault.reason.contains(reason), "{text}: {}", fault.reason);
    }
    let document = &read("f", "x: &x\n  b: 1\na:\n  <<: *x\n").unwrap()[0];
    assert_eq!(document.position(&Fault::value("a.b", None, "")), Position { line: 2, column: 6 });
}

/// What is read may be told apart from text; nothing that is read as one number is stored as another.
#[test]
fn a_port_in_octal_is_what_upstream_makes_of_it() {
    assert_eq!(values("ports: [0443, '0443', 443, 1_000]"), [json!({"ports": [291, "0443", 443, 1000]})]);
}

#[test]
fn a_version_directive_changes_nothing() {
    assert_eq!(values("%YAML 9.9\n---\na: yes\n"), [json!({"a": true})]);
}

#[test]
fn hostile_documents_are_bounded() {
    error(&"[".repeat(100_000));
    assert!(error(&("[".repeat(70) + &"]".repeat(70))).reason.contains("nested deeper"));
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb += &format!("a{level}: &a{level} [{aliases}]\n");
    }
    assert!(error(&bomb).reason.contains("aliases expand"));
    // A few nodes, but each of them large.
    let text = format!("a: &a \"{}\"\nb: [{}]\n", "x".repeat(1 << 20), vec!["*a"; 90_000].join(", "));
    assert!(error(&text).reason.contains("aliases expand"));
    assert_eq!(values(&text.replace(", *a", "")).len(), 1);
    // Each anchor keeps what is inside it, the anchors there included.
    let nested = |count: usize| (0..count).map(|index| format!("&n{index} [")).collect::<String>();
    let text = format!("{}\"{}\"{}", nested(60), "x".repeat(1 << 20), "]".repeat(60));
    assert!(error(&text).reason.contains("aliases expand"));
    // Each alias is as deep as allowed, in the depth of another.
    let deep = (1..60).fold("a0: &a0 []\n".to_owned(), |text, level| {
        format!("{text}a{level}: &a{level} {}*a{}{}\n", "[".repeat(10), level - 1, "]".repeat(10))
    });
    assert!(error(&deep).reason.contains("nested deeper"));
    assert!(error("a: &a [*a]\n").reason.contains("part of what it refers to"));
    error("a: *nowhere\n");
    let name = "n".repeat(100_000);
    assert!(error(&format!("{name}: 1\n{name}: 2\n")).to_string().len() < 500);
    assert!(error(&" ".repeat(MAX_BYTES + 1)).reason.contains("larger"));
    assert_eq!(values("a: &x {b: 1}\nc: *x\n"), [json!({"a": {"b": 1}, "c": {"b": 1}})]);
}

#[test]
fn faults_are_found_in_the_text() {
    let text = "---\nkind: X\nmetadata:\n  labels:\n    a.b/c: 5\nspec:\n  ingress:\n  - action: Allow\n    source:\n      selector: 'a =='\n";
    let document = &read("f.yaml", text).unwrap()[0];
    let at = |path: &str, offset: Option<usize>| {
        let mut fault = Fault::value(path, None, "x");
        fault.offset = offset;
        let Position { line, column } = document.position(&fault);
        (line, column)
    };
    assert_eq!(at("spec.ingress[0].source.selector", None), (10, 18));
    assert_eq!(at("spec.ingress[0].source.selector", Some(4)), (10, 22));
    assert_eq!(at("metadata.labels.a.b/c", None), (5, 12));
    assert_eq!(at("spec.ingress[0].missing", None), (8, 5));
    assert_eq!(at("spec.missing", None), (6, 1));
    assert_eq!(at("spec.ingress", None), (7, 3));
    assert_eq!(at("", None), (2, 1));
    let place = document.place(&Fault::value("spec.ingress[0].source.selector", None, "x").at_offset(4));
    assert_eq!(place.to_string(), "f.yaml, document 1, line 10, column 22");
    assert_eq!(place.excerpt().to_string(), "   |\n10 |       selector: 'a =='\n   |                      ^");
}

#[test]
fn of_a_long_line_only_what_is_around_the_fault_is_shown() {
    let text = format!("selector: {}!{}\n", "é".repeat(100_000), "b".repeat(100_000));
    for column in [1, 5, 81, 82, 100_011, 200_000, 200_011, 900_000] {
        let shown = Excerpt::new(&text, Position { line: 1, column }).to_string();
        let lines: Vec<&str> = shown.lines().collect();
        let [_, line, caret] = lines[..] else { panic!("{shown}") };
        assert!(line.chars().count() <= MAX_SHOWN + 6 && caret.chars().count() <= line.chars().count() + 1, "{shown}");
        if column == 100_011 {
            assert_eq!(line.chars().nth(caret.chars().count() - 1), Some('!'), "{shown}");
        }
        let (head, tail) = (line.contains("| …"), line.ends_with('…'));
        assert_eq!((head, tail), (column > 81, column < 200_000), "{shown}");
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,200}") {
        let _ = read("f", &text);
    }

    #[test]
    fn no_structure_panics(text in "[-\\[\\]{}:,&*!|>'\"#%@ \\na1]{0,120}") {
        let _ = read("f", &text);
    }
}
