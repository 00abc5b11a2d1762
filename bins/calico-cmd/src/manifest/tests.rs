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
    assert_eq!(values(text), [json!({"a": 1}), json!({"b": 2}), json!({"c": 3}), json!({"d": 4})]);
    let documents = read("f.yaml", text).unwrap();
    let places: Vec<_> = documents.iter().map(|document| (document.number, document.item)).collect();
    assert_eq!(places, [(1, None), (3, Some(0)), (3, Some(1)), (4, Some(0))]);
    assert!(values("").is_empty() && values("---\n---\n").is_empty());
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
fn hostile_documents_are_bounded() {
    error(&"[".repeat(100_000));
    assert!(error(&("[".repeat(70) + &"]".repeat(70))).reason.contains("nested deeper"));
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb += &format!("a{level}: &a{level} [{aliases}]\n");
    }
    assert!(error(&bomb).reason.contains("aliases expand"));
    assert!(error("a: &a [*a]\n").reason.contains("part of what it refers to"));
    error("a: *nowhere\n");
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
    assert_eq!(place.excerpt.to_string(), "   |\n10 |       selector: 'a =='\n   |                      ^");
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
