use super::*;
use proptest::prelude::*;
use serde_json::json;

fn document() -> Value {
    json!({
        "kind": "List",
        "items": [
            {"metadata": {"name": "a", "labels": {"app.io/x": "1"}}, "spec": {"order": 10, "on": true, "nets": ["n1", "n2", "n3"]}},
            {"metadata": {"name": "b"}, "spec": {"order": 2.5, "on": false}},
        ],
    })
}

fn rendered(template: &str) -> Result<String, String> {
    JsonPath::parse(template)?.render(&document())
}

/// What Kubernetes' own tools print.
#[test]
fn expressions() {
    for (template, expected) in [
        ("plain", "plain"),
        ("", ""),
        ("{.kind}", "List"),
        ("{$.kind} {@.kind}", "List List"),
        ("{range .items[*]}{$.kind}{$.metadata.name}{end}", "ab"),
        ("{.items[0].spec.nets[2:2]}{.items[0].spec.nets[9:9]}", ""),
        ("{.items[0].metadata.labels}{.items[0].metadata.labels.*}", "{\"app.io/x\":\"1\"}1"),
        ("{.items[*].metadata.name}", "a b"),
        ("{.items[0].metadata.name}-{.items[-1].metadata.name}", "a-b"),
        ("{.items[0,1].metadata['name']}", "a b"),
        ("{.items[0].spec.nets[1:]}", "n2 n3"),
        ("{.items[0].spec.nets[:-1]}", "n1 n2"),
        ("{.items[0].spec.nets[0:3:2]}", "n1 n3"),
        ("{.items[0].spec.nets}", r#"["n1","n2","n3"]"#),
        (r"{.items[0].metadata.labels.app\.io/x}", "1"),
        ("{.items[0].metadata.labels['app.io/x']}", "1"),
        ("{range .items[*]}{.metadata.name}{\"\\t\"}{.spec.order}{'\\n'}{end}", "a\t10\nb\t2.5\n"),
        ("{range .items[*]}[{range .spec.nets[*]}{@},{end}]{end}", "[n1,n2,n3,][]"),
        ("{..name}", "a b"),
        ("{.items[*]['metadata','spec']['name','order']}", "a 10 b 2.5"),
        ("{.items[?(@.spec.order>5)].metadata.name}", "a"),
        ("{.items[?(@.metadata.name==\"b\")].spec.order}", "2.5"),
        ("{.items[?( @.spec.on != true )].metadata.name}", "b"),
        ("{.items[?(@.spec.nets)].metadata.name}", "a"),
        ("{.items[?(@.spec.nets[0]=='n1')].metadata.name}", "a"),
        ("{.absent.further[3].still}", ""),
        ("{.items[*].spec.*}", "10 true [\"n1\",\"n2\",\"n3\"] 2.5 false"),
    ] {
        assert_eq!(rendered(template), Ok(expected.to_owned()), "{template}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    for (template, told) in [
        ("{.kind", "expected } (character 7 of the template)"),
        ("{end}", "end without range (character 6 of the template)"),
        ("{range .items[*]}x", "range without {end} (character 19 of the template)"),
        ("{#}", "expected a path such as .metadata.name, text in quotes, range or end (character 2 of the template)"),
        ("{kind}", "unrecognized identifier kind: a path begins with a dot (character 6 of the template)"),
        ("{.items[5:]}", "array index out of bounds: index 5, length 2"),
        ("{.items[:3]}", "no elements from 0 to 3 of an array of 2"),
        ("{.items[1:0]}", "no elements from 1 to 0 of an array of 2"),
        ("{.items[-9]}", "array index out of bounds: index -7, length 2"),
        ("{.kind[*]}", "List is not an array"),
        ("{.items[0].metadata[0]}", "{\"name\":\"a\",\"labels\":{\"app.io/x\":\"1\"}} is not an array"),
        ("{.items[x]}", "expected a number, *, a name in quotes, or a filter ?(…) (character 9 of the template)"),
        ("{.items[0.5]}", "0.5 is not a whole number (character 12 of the template)"),
        ("{.items[::0]}", "the step must be greater than zero (character 12 of the template)"),
        (
            "{.items[?(@.a && @.b)]}",
            "expected ) or one comparison (==, !=, <, <=, >, >=) in the filter (character 15 of the template)",
        ),
        ("{\"x}", "text in quotes without its end (character 5 of the template)"),
        ("{.items[7]}", "array index out of bounds: index 7, length 2"),
    ] {
        assert_eq!(rendered(template), Err(told.to_owned()), "{template}");
    }
    assert_eq!(rendered("{}"), rendered("{@}"));
    assert!(rendered(&"{range .items[*]}".repeat(100_000)).is_err());
    assert!(rendered(&format!("{{{}", ".a[?(@".repeat(100_000))).is_err());
}

proptest! {
    /// Random walks over the words of the language: any answer, but an answer.
    #[test]
    fn any_text_has_an_answer(words in prop::collection::vec(prop::sample::select(vec![
        "{", "}", ".items", ".", "..", "[", "]", "*", "0", "-1", ":", ",", "'a'", "\"", "'", "?(", ")", "@", "$", "==", "<", "range ",
        "end", "name", "\\", " ", "true", "1e", "é", "-9223372036854775808",
    ]), 0..20)) {
        let _answer = rendered(&words.concat());
    }

    /// Paths of names against the naive way.
    #[test]
    fn paths_of_names_are_followed(names in prop::collection::vec("kind|items|metadata|x", 0..4)) {
        let mut naive = Some(&document()).cloned();
        for name in &names {
            naive = naive.and_then(|value| value.get(name).cloned());
        }
        let template: String = names.iter().map(|name| format!(".{name}")).collect();
        let expected = naive.as_ref().map(shown).unwrap_or_default();
        prop_assert_eq!(rendered(&format!("{{${template}}}")).unwrap(), expected);
    }
}
