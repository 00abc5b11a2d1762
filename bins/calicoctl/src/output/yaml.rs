//! JSON values as YAML, in the layout that Go's writer has: two spaces, lists not indented below their key.
//!
//! Text is written plain only where every reader, by YAML 1.1 or 1.2, takes it for text; else in double quotes as JSON writes it
//! (which is YAML too), or as a literal block when it has lines.

use calico_core::resource::{json_number, shown_number};
use serde_json::{Number, Value};

/// The value as a YAML document.
pub(super) fn render(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(members) if !members.is_empty() => block(value, 0, false, &mut text),
        Value::Array(items) if !items.is_empty() => block(value, 0, false, &mut text),
        _ => {
            text += &flow(value);
            text.push('\n');
        }
    }
    text
}

/// A collection that is not empty. With `inline`, the first line continues the present one (after `- `).
fn block(value: &Value, indent: usize, mut inline: bool, text: &mut String) {
    let mut begin = |text: &mut String| {
        if !std::mem::take(&mut inline) {
            text.extend(std::iter::repeat_n(' ', indent));
        }
    };
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                begin(text);
                *text += &scalar(name);
                text.push(':');
                entry(member, indent, text);
            }
        }
        Value::Array(items) => {
            for item in items {
                begin(text);
                text.push('-');
                match item {
                    Value::Object(members) if !members.is_empty() => {
                        text.push(' ');
                        block(item, indent + 2, true, text);
                    }
                    Value::Array(items) if !items.is_empty() => {
                        text.push(' ');
                        block(item, indent + 2, true, text);
                    }
                    _ => entry(item, indent, text),
                }
            }
        }
        _ => {}
    }
}

/// What follows a key or a dash on its line, and below.
fn entry(value: &Value, indent: usize, text: &mut String) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            text.push('\n');
            block(value, indent + 2, false, text);
        }
        Value::Array(items) if !items.is_empty() => {
            text.push('\n');
            block(value, indent, false, text);
        }
        Value::String(lines) if is_literal(lines) => {
            *text += if lines.ends_with('\n') { " |\n" } else { " |-\n" };
            for line in lines.lines() {
                if !line.is_empty() {
                    text.extend(std::iter::repeat_n(' ', indent + 2));
                    *text += line;
                }
                text.push('\n');
            }
        }
        _ => {
            text.push(' ');
            *text += &flow(value);
            text.push('\n');
        }
    }
}

/// Whether text has lines and a literal block keeps them exactly.
fn is_literal(text: &str) -> bool {
    let printable = |c: char| c == '\n' || (!c.is_control() && !matches!(c, '\u{feff}' | '\u{2028}' | '\u{2029}'));
    text.trim_end_matches('\n').contains('\n')
        && !text.starts_with([' ', '\n'])
        && !text.ends_with("\n\n")
        && text.chars().all(printable)
        && text.lines().all(|line| !line.ends_with(' '))
}

fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        Value::Array(_) => "[]".into(),
        Value::Object(_) => "{}".into(),
        Value::Number(number) => numeral(number),
        other => other.to_string(),
    }
}

/// As Go's writer has it: what is no whole number as for people.
fn numeral(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() && json_number(float).parse::<i64>().is_err() => shown_number(float),
        Some(float) if number.is_f64() => json_number(float),
        _ => number.to_string(),
    }
}

fn scalar(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { quoted(text) }
}

/// As JSON writes it, and what moves a terminal's cursor escaped too.
fn quoted(text: &str) -> String {
    let mut escaped = String::new();
    for c in Value::from(text).to_string().chars() {
        if c.is_control() {
            escaped += &format!("\\u{:04x}", u32::from(c));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Whether the text, without quotes, is text to every reader.
fn is_plain(text: &str) -> bool {
    let ordinary = |c: char| c.is_ascii_alphanumeric() || "_-./()=!&|<>'\"{}[], :@+*;$?^~%".contains(c);
    let Some(first) = text.chars().next() else { return false };
    let begins = first.is_ascii_alphabetic() || matches!(first, '/' | '_' | '(');
    (begins || is_plain_address(text))
        && text.chars().all(ordinary)
        && !text.contains(": ")
        && !text.ends_with([':', ' '])
        && !text.contains(" #")
        && !is_reserved(text)
}

/// Addresses and prefixes: they begin with a digit, and no reader takes them for a number or a time of day.
fn is_plain_address(text: &str) -> bool {
    let address = text.split_once('/').map_or(text, |(address, _)| address);
    address.parse::<std::net::IpAddr>().is_ok() && (text.contains('/') || address.contains('.'))
}

/// Words that some version of YAML reads as a boolean or null, or could.
fn is_reserved(text: &str) -> bool {
    let words = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];
    words.iter().any(|word| word.eq_ignore_ascii_case(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn layout_is_that_of_gos_writer() {
        let value = json!({
            "apiVersion": "projectcalico.org/v3",
            "spec": {"ingress": [{"action": "Allow", "ports": [80, "1:2"]}, {}], "nets": [], "order": 1.5, "selector": "a == 'b'"},
            "text": "x\ny\n", "yes": "no", "empty": "", "net": "10.0.0.0/8", "nested": [[1], []], "n": null,
        });
        assert_eq!(
            render(&value),
            "apiVersion: projectcalico.org/v3\nspec:\n  ingress:\n  - action: Allow\n    ports:\n    - 80\n    - \"1:2\"\n  - {}\n  \
             nets: []\n  order: 1.5\n  selector: a == 'b'\ntext: |\n  x\n  y\n\"yes\": \"no\"\nempty: \"\"\nnet: 10.0.0.0/8\nnested:\n- - 1\n- []\n\
             \"n\": null\n"
        );
    }

    #[test]
    fn nothing_that_is_stored_moves_the_cursor() {
        let text = render(&json!({"a\u{1b}": "\u{1b}[2J\u{7f}\u{9b}x", "b": "x\ny\u{9b}\n"}));
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
        assert_eq!(text, "\"a\\u001b\": \"\\u001b[2J\\u007f\\u009bx\"\nb: \"x\\ny\\u009b\\n\"\n");
    }

    fn value() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            "[ -~]{0,12}",
            "\\PC{0,8}",
            "[ \\n\\tab#:-]{0,10}",
            "yes|no|on|null|~|true|1e3|0x1|010|1:2|2026-01-01|<<|=|\\.inf|a: b|a #b|[-&*!|>%@`]x"
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u32>().prop_map(|n| Value::from(f64::from(n) / 8.0 + 0.0625)),
            text.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::vec((text.clone(), inner), 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(value in value()) {
            // As a member, since lists at the root would be taken apart and null would be no document.
            let value = json!({ "root": value });
            let text = render(&value);
            let read = calico_cmd::manifest::read("f", &text);
            prop_assert!(read.is_ok(), "{text}: {read:?}");
            let read = read.unwrap();
            prop_assert_eq!(read.len(), 1, "{}", text);
            prop_assert_eq!(&read[0].value, &value, "{}", text);
        }
    }
}
