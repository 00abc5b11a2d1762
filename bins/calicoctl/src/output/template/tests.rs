use super::*;
use proptest::prelude::*;
use serde_json::json;

fn documents() -> Value {
    json!([{
        "kind": "IPPoolList",
        "metadata": {"resourceVersion": "7"},
        "items": [
            {"kind": "IPPool", "metadata": {"name": "a", "labels": {"zone": "x", "area": "1"}}, "spec": {"cidr": "10.0.0.0/8", "natOutgoing": true, "nets": ["n1", "n2"], "order": 12.5}},
            {"kind": "IPPool", "metadata": {"name": "b", "namespace": "shop"}, "spec": {"cidr": "10.1.0.0/16", "blockSize": 26}},
        ],
    }])
}

fn rendered(template: &str) -> Result<String, String> {
    Template::parse(template)?.render(&documents(), "64512")
}

/// A template over each of the two items.
fn each(template: &str) -> String {
    rendered(&format!("{{{{range .}}}}{{{{range .Items}}}}{template};{{{{end}}}}{{{{end}}}}")).unwrap()
}

#[test]
fn fields_by_their_names_in_go() {
    assert_eq!(each("{{.ObjectMeta.Name}} {{.Spec.CIDR}} {{.Spec.NATOutgoing}}"), "a 10.0.0.0/8 true;b 10.1.0.0/16 ;");
    assert_eq!(each("{{.Name}}/{{.Namespace}}/{{.Kind}}/{{.TypeMeta.Kind}}"), "a//IPPool/IPPool;b/shop/IPPool/IPPool;");
    assert_eq!(each("{{.metadata.name}} {{.Absent.Further}}"), "a ;b ;");
    assert_eq!(rendered("{{range .}}{{.ListMeta.ResourceVersion}} {{len .Items}}{{end}}"), Ok("7 2".into()));
    assert_eq!(
        rendered("{{(index . 0).Kind}} {{$.Kind}}"),
        Err("template: line 1: can't evaluate field Kind: the value is a list: use range or index".into())
    );
}

#[test]
fn blocks_variables_and_pipelines() {
    for (template, expected) in [
        ("{{if .Spec.NATOutgoing}}nat{{else if eq .Name `b`}}b{{else}}-{{end}}", "nat;b;"),
        ("{{with .Namespace}}in {{.}}{{else}}global{{end}}", "global;in shop;"),
        ("{{range $i, $net := .Spec.Nets}}{{$i}}={{$net}} {{else}}none{{end}}", "0=n1 1=n2 ;none;"),
        ("{{range $key, $value := .Labels}}{{$key}}:{{$value}} {{end}}", "area:1 zone:x ;;"),
        ("{{$n := .Name}}{{range .Spec.Nets}}{{$n}}{{.}} {{end}}", "an1 an2 ;b;".replace("b;", ";").as_str()),
        ("{{$x := 1}}{{if true}}{{$x = 2}}{{end}}{{$x}}", "2;2;"),
        ("{{with $x := .Name}}{{$x}}{{end}}", "a;b;"),
        ("a {{- .Name -}} \n b", "aab;abb;"),
        ("{{/* nothing */}}{{- /* nor here */ -}} x", "x;x;"),
        ("{{.Name | printf \"%s-%s\" \"n\"}}", "n-a;n-b;"),
        ("{{len (index $ 0).Items}}", "2;2;"),
        ("{{.Spec.Nets}} {{.Labels}}", "[n1 n2] map[area:1 zone:x]; ;"),
    ] {
        assert_eq!(each(template), expected, "{template}");
    }
}

#[test]
fn functions_answer_as_gos() {
    for (template, expected) in [
        ("{{join .Spec.Nets \",\"}}{{join .Labels \",\"}}", "n1,n2area=1,zone=x;;"),
        ("{{joinAndTruncate .Spec.Nets \",\" 4}}", "n...;;"),
        ("{{config \"asnumber\"}}", "64512;64512;"),
        ("{{eq .Name \"x\" \"b\"}} {{ne .Name \"a\"}} {{eq .Namespace ``}}", "false false true;true true false;"),
        ("{{gt .Spec.Order 12}} {{lt 1 2}} {{le 2 2}} {{ge 1 2}}", "true true true false;false true true false;"),
        ("{{and .Spec.NATOutgoing .Name}} {{or .Namespace \"-\"}} {{not .Namespace}}", "a - true; shop false;"),
        ("{{index .Labels \"zone\"}} {{slice .Name 0 1}}", "x a; b;"),
        (
            "{{printf \"%-4s|%4s|%q|%d|%.1f|%04d|%v|%%\" .Name .Name .Name 5 1.25 7 true}}",
            "a   |   a|\"a\"|5|1.2|0007|true|%;b   |   b|\"b\"|5|1.2|0007|true|%;",
        ),
        (
            "{{printf \"%d %s\" .Name}}{{print 1 2}}{{println \"x\"}}",
            "%!d(string=a) %!s(MISSING)1 2x\n;%!d(string=b) %!s(MISSING)1 2x\n;",
        ),
        ("{{print 1 \"b\" 2 3}} {{println 1 2}}", "1b2 3 1 2\n;1b2 3 1 2\n;"),
        ("{{printf \"%s\" \"x\" \"y\" 3}}", "x%!(EXTRA string=y, int=3);x%!(EXTRA string=y, int=3);"),
        ("{{printf \"%5.2f|%x|%t|%.2s\" 3.14159 255 true \"abc\"}}", " 3.14|ff|true|ab; 3.14|ff|true|ab;"),
        (
            "{{printf \"%05s|%+d|%-05d|%05.1f|%05d\" \"x\" 5 7 2.5 -3}}",
            "0000x|+5|7    |002.5|-0003;0000x|+5|7    |002.5|-0003;",
        ),
        ("{{not 1}} {{or 0 1}} {{and 1 0 2}}", "false 1 0;false 1 0;"),
    ] {
        assert_eq!(each(template), expected, "{template}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    for (template, told) in [
        ("a\n{{if .}}x", "line 2: a block without its end"),
        ("{{end}}", "line 1: end without if, range or with"),
        ("{{else}}", "line 1: else without if, range or with"),
        ("{{if .}}{{else}}{{else}}{{end}}", "line 1: a second else"),
        ("{{if 1}}\n{{define \"x\"}}{{end}}{{end}}", "line 2: define stands in no other block"),
        ("{{define x}}{{end}}", "line 1: expected the name of a template in quotes, not x"),
        ("\n{{template \"x\"}}", "line 2: template \"x\" not defined"),
        ("{{define \"x\"}}\n{{index . 5}}{{end}}{{template \"x\" .}}", "line 2: index: index out of range: 5 of 1"),
        ("{{break}}", "line 1: break outside of range"),
        ("{{ call . }}", "line 1: function call is not supported; there are: and, or,"),
        ("{{.A", "line 1: an action without its end }}"),
        ("{{\"a}}", "line 1: text in quotes without its end"),
        ("{{.A .B}}", "line 1: only a function takes arguments"),
        ("{{.A | .B}}", "line 1: only a function can stand behind |"),
        ("{{$x}}", "line 1: undefined variable $x"),
        ("\n\n{{index . 5}}", "line 3: index: index out of range: 5 of 1"),
        ("{{eq 1 \"a\"}}", "line 1: eq: incompatible types for comparison: 1 and a"),
        ("{{range 5.5}}{{end}}", "line 1: range can't iterate over 5.5"),
        ("{{printf \"%5000d\" 1}}", "line 1: printf: wider than 1000"),
        ("{{(1}}", "line 1: expected )"),
        ("{{}}", "line 1: expected a value"),
        ("{{1x}}", "line 1: 1x is not a number"),
    ] {
        let error = rendered(template).unwrap_err();
        assert!(error.starts_with(&format!("template: {told}")), "{template}: {error}");
    }
    assert!(rendered(&"{{if 1}}".repeat(100_000)).is_err());
    assert!(rendered(&format!("{{{{{}", "(".repeat(100_000))).is_err());
    assert!(rendered(&format!("{{{{if 0}}}}{}{{{{end}}}}", "{{else if 0}}".repeat(100_000))).is_err());
}

#[test]
fn a_template_without_an_end_is_stopped() {
    let items: Value = (0..100).collect();
    let cheap = |template: &str| evaluate::render(&Template::parse(template).unwrap().0, &items, "", 1 << 20);
    let ranges = format!("{}x{}", "{{range $}}".repeat(50), "{{end}}".repeat(50));
    let doubling = format!("{{{{$x := \"ab\"}}}}{}", "{{$x = print $x $x}}".repeat(60));
    let count = "{{range 9223372036854775807}}{{end}}".to_owned();
    let tree = "{{define \"t\"}}{{range 2}}{{range 9999999999}}{{template \"t\"}}{{end}}{{end}}{{end}}{{range 9999999999}}{{end}}".to_owned();
    let long = format!("{{{{range .}}}}{{{{range $}}}}{}{{{{end}}}}{{{{end}}}}", "x".repeat(1000));
    for template in [ranges, doubling, count, tree, long] {
        let error = cheap(&template).unwrap_err();
        assert!(error.starts_with("template: line 1: it does not come to an end"), "{error}");
    }
    assert_eq!(cheap("{{range .}}{{.}}{{end}}").unwrap().len(), 190);
}

/// Calls of templates by each other go no deeper than the stack allows, whatever is around them.
#[test]
fn templates_that_call_themselves_are_stopped() {
    let deep = format!("{}{{{{template \"x\" .}}}}{}", "{{with 1}}".repeat(40), "{{end}}".repeat(40));
    for body in ["{{template \"x\" .}}", "{{if 1}}{{template \"y\" .}}{{end}}", &deep] {
        let template = format!(
            "{{{{define \"x\"}}}}{body}{{{{end}}}}{{{{define \"y\"}}}}{body}{{{{end}}}}{{{{template \"x\" .}}}}"
        );
        let error = rendered(&template).unwrap_err();
        assert!(error.contains("blocks and templates within each other"), "{error}");
    }
    let counted =
        "{{define \"x\"}}{{len .}}{{if .}}{{template \"x\" (slice . 1)}}{{end}}{{end}}{{template \"x\" \"abcdefghi\"}}";
    assert_eq!(rendered(counted).unwrap(), "9876543210");
}

/// Each template with what Go's `text/template` makes of it, over the same documents; null where it refuses it.
#[test]
fn templates_answer_as_gos() {
    let documents = json!([{"kind": "IPPoolList", "metadata": {"resourceVersion": "7"}, "items": [
        {
            "kind": "IPPool",
            "metadata": {"name": "a", "labels": {"zone": "x", "area": "1"}},
            "spec": {
                "cidr": "10.0.0.0/8", "natOutgoing": true, "nets": ["n1", "n2", "n3"], "order": 12.5,
                "depth": {"depth": {"depth": {"leaf": "end"}}},
            },
        },
        {
            "kind": "IPPool",
            "metadata": {"name": "b", "namespace": "shop"},
            "spec": {"cidr": "10.1.0.0/16", "blockSize": 26, "nets": [], "natOutgoing": false},
        },
    ]}]);
    let facts: Vec<(String, Option<String>)> = serde_json::from_str(include_str!("go.json")).unwrap();
    assert!(facts.iter().filter(|(_, text)| text.is_some()).count() > 80 && facts.len() > 140);
    for (template, expected) in facts {
        let found = Template::parse(&template).and_then(|template| template.render(&documents, ""));
        assert_eq!(found.as_ref().ok(), expected.as_ref(), "{template}: {found:?}");
    }
}

proptest! {
    /// Random walks over the words of the language: any answer, but an answer.
    #[test]
    fn any_text_has_an_answer(words in prop::collection::vec(prop::sample::select(vec![
        "{{", "}}", "{{-", "-}}", " ", "if ", "else ", "end ", "range ", "with ", ".", ".Items", ".Name", "$", "$x", ":=", "=", ",", "|",
        "(", ")", "\"%s%d\"", "`", "\"", "1", "-1", "1e999", "index ", "printf ", "slice ", "join ", "len ",
        "define ", "template ", "block ", "break", "continue", "\"x\"", "'", "/*", "*/", "é", "\n", "%",
    ]), 0..25)) {
        let _answer = rendered(&words.concat());
    }

    #[test]
    fn text_is_text(text in "[^{]{0,40}") {
        prop_assert_eq!(rendered(&text).unwrap(), text);
    }
}
