//! Plain scalars by the core schema of YAML 1.2.

use serde_json::{Number, Value};

/// What a plain (unquoted) scalar means.
pub(super) fn resolve(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => number(text).map_or_else(|| Value::String(text.into()), Value::Number),
    }
}

/// A number, if the text is one. Leading zeros (octal in YAML 1.1, decimal in 1.2), infinities and what a float cannot hold stay text.
fn number(text: &str) -> Option<Number> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if let Some(hex) = digits.strip_prefix("0x") {
        return (digits.len() == text.len()).then(|| u64::from_str_radix(hex, 16).ok().map(Number::from)).flatten();
    }
    if let Some(octal) = digits.strip_prefix("0o") {
        return (digits.len() == text.len()).then(|| u64::from_str_radix(octal, 8).ok().map(Number::from)).flatten();
    }
    let begins = digits.bytes().next()?;
    let in_form = (begins.is_ascii_digit() || begins == b'.') && digits.bytes().any(|byte| byte.is_ascii_digit());
    let has_leading_zero = begins == b'0' && digits.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
    let only = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-');
    if !in_form || has_leading_zero || !digits.bytes().all(only) {
        return None;
    }
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let signed = text.strip_prefix('+').unwrap_or(text);
        if let Ok(whole) = signed.parse::<u64>() {
            return Some(whole.into());
        }
        if let Ok(whole) = signed.parse::<i64>() {
            return Some(whole.into());
        }
    }
    text.parse().ok().and_then(Number::from_f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn core_schema() {
        for (text, value) in [
            ("~", json!(null)),
            ("True", json!(true)),
            ("10", json!(10)),
            ("-3", json!(-3)),
            ("+3", json!(3)),
            ("0x1f", json!(31)),
            ("0o17", json!(15)),
            ("1.5", json!(1.5)),
            ("1e3", json!(1000.0)),
            (".5", json!(0.5)),
            ("0", json!(0)),
            ("18446744073709551615", json!(u64::MAX)),
        ] {
            assert_eq!(resolve(text), value, "{text}");
        }
        for text in [
            "yes",
            "on",
            "No",
            "010",
            "10.0.0.0/8",
            "1:30",
            "12:34:56",
            "2026-08-22",
            ".inf",
            ".nan",
            "1_000",
            "e3",
            ".",
            "-",
            "+",
            "0x",
            "-0x1",
            "1e999",
            "::1",
            "0x1g",
            "1-2",
            "..",
        ] {
            assert_eq!(resolve(text), json!(text));
        }
    }
}
