//! Plain scalars as upstream reads them: YAML 1.1, in the form that `go.yaml.in/yaml/v2` gives it, then JSON by way of Go.

use calico_core::resource::json_number;
use serde_json::{Number, Value};

/// A number that JSON has no form for: upstream refuses it, too.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotFinite;

/// What a plain (unquoted) scalar means.
pub(super) fn resolve(text: &str) -> Result<Value, NotFinite> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "y" | "Y" | "on" | "On" | "ON" => Value::Bool(true),
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "n" | "N" | "off" | "Off" | "OFF" => Value::Bool(false),
        ".nan" | ".NaN" | ".NAN" => return Err(NotFinite),
        _ if matches!(text.strip_prefix(['+', '-']).unwrap_or(text), ".inf" | ".Inf" | ".INF") => {
            return Err(NotFinite);
        }
        _ => number(text).map_or_else(|| Value::String(text.into()), Value::Number),
    })
}

/// What a plain scalar is as the name of a member: JSON's names are text.
pub(super) fn name(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        _ => None,
    }
}

/// A number, if the text is one.
fn number(text: &str) -> Option<Number> {
    match text.bytes().next()? {
        b'.' => float(&separated(text)?),
        b'0'..=b'9' | b'+' | b'-' => {
            // Wherever they stand.
            let text = text.replace('_', "");
            whole(&text).or_else(|| float(&text))
        }
        _ => None,
    }
}

/// The text without its underscores, each of which must be between two digits.
fn separated(text: &str) -> Option<String> {
    let is_digit = |place: Option<usize>| place.and_then(|at| text.as_bytes().get(at)).is_some_and(u8::is_ascii_digit);
    let marks = text.match_indices('_').all(|(at, _)| is_digit(at.checked_sub(1)) && is_digit(at.checked_add(1)));
    marks.then(|| text.replace('_', ""))
}

/// A whole number of 64 bits: hexadecimal, octal (also with a mere zero before it), binary or decimal.
fn whole(text: &str) -> Option<Number> {
    let (is_negative, digits) = match text.strip_prefix(['+', '-']) {
        Some(digits) => (text.starts_with('-'), digits),
        None => (false, text),
    };
    let (digits, radix) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (digits.get(2..)?, 16),
        [b'0', b'o' | b'O', ..] => (digits.get(2..)?, 8),
        [b'0', b'b' | b'B', ..] => (digits.get(2..)?, 2),
        [b'0', _, ..] => (digits.get(1..)?, 8),
        _ => (digits, 10),
    };
    // Rust's parser takes another sign.
    let magnitude = Some(digits).filter(|digits| !digits.starts_with(['+', '-']))?;
    let magnitude = u64::from_str_radix(magnitude, radix).ok()?;
    if is_negative { 0_i64.checked_sub_unsigned(magnitude).map(Number::from) } else { Some(magnitude.into()) }
}

/// A number with a fraction or an exponent, or one too large for the above. In JSON it is whole if its value is.
fn float(text: &str) -> Option<Number> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let (before, after) = mantissa.split_once('.').map_or((mantissa, None), |(before, after)| (before, Some(after)));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let in_form = is_digits(before)
        && after.is_none_or(is_digits)
        && !(before.is_empty() && after.is_none_or(str::is_empty))
        && exponent.is_none_or(|exponent| !exponent.is_empty() && is_digits(exponent));
    let value = in_form.then(|| text.parse::<f64>().ok()).flatten().filter(|value| value.is_finite())?;
    serde_json::from_str(&json_number(value)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Numbers, and what JSON has for them.
    const NUMBERS: [(&str, &str); 52] = [
        ("10", "10"),
        ("-3", "-3"),
        ("+3", "3"),
        ("0x1f", "31"),
        ("0X1f", "31"),
        ("-0x1f", "-31"),
        ("+0x1f", "31"),
        ("0x1_f", "31"),
        ("0o17", "15"),
        ("0O17", "15"),
        ("-0o17", "-15"),
        ("0443", "291"),
        ("-0443", "-291"),
        ("089", "89"),
        ("0800", "800"),
        ("00", "0"),
        ("0", "0"),
        ("-0", "0"),
        ("010", "8"),
        ("0b101", "5"),
        ("0B11", "3"),
        ("-0b101", "-5"),
        ("+0b101", "5"),
        ("1_000", "1000"),
        ("1__0", "10"),
        ("1_", "1"),
        ("1_000.5", "1000.5"),
        ("0_7", "7"),
        ("+1_0", "10"),
        ("1e3", "1000"),
        ("1E3", "1000"),
        ("1e+3", "1000"),
        ("1_e3", "1000"),
        ("1.5", "1.5"),
        ("1.", "1"),
        (".5", "0.5"),
        (".5_0", "0.5"),
        ("-.5", "-0.5"),
        ("+.5", "0.5"),
        ("1e-999", "0"),
        ("5.0", "5"),
        ("26.0", "26"),
        ("1e20", "100000000000000000000"),
        ("1e21", "1e+21"),
        ("18446744073709551615", "18446744073709551615"),
        ("18446744073709551616", "18446744073709552000"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("-9223372036854775809", "-9223372036854775809"),
        ("9007199254740993", "9007199254740993"),
        ("0.1234567890123456789", "0.12345678901234568"),
        ("123456789012345678901234567890", "1.2345678901234568e+29"),
        ("0xffffffffffffffff", "18446744073709551615"),
    ];

    /// What only looks like something else than text.
    const TEXTS: [&str; 38] = [
        "yEs",
        "_1",
        "10:30",
        "190:20:30",
        "2026-08-22",
        "2026-08-22T06:33:20Z",
        "2001-12-14 21:59:43.10 -5",
        "1e",
        "1.5e",
        "1.5.2",
        "1e999",
        "0x",
        "0x10000000000000000",
        "0o",
        "0o8",
        "0b",
        "0b2",
        "0x1g",
        "0x-1",
        "0x1p4",
        "1p4",
        "1-2",
        "=",
        "10.0.0.0/8",
        "::1",
        "e3",
        ".",
        "+",
        "-",
        "+-1",
        "..",
        "._5",
        ".5_",
        "infinity",
        "Inf",
        "nan",
        "NaN",
        "inf",
    ];

    /// Each as `sigs.k8s.io/yaml` 1.6.0, upstream's reader, has it as JSON.
    #[test]
    fn scalars_are_what_upstream_takes_them_for() {
        for (words, value) in [
            ("~ null Null NULL", json!(null)),
            ("true True TRUE yes Yes YES y Y on On ON", json!(true)),
            ("false False FALSE no No NO n N off Off OFF", json!(false)),
        ] {
            for text in words.split(' ') {
                assert_eq!(resolve(text), Ok(value.clone()), "{text}");
            }
        }
        for (text, json) in NUMBERS {
            assert_eq!(resolve(text), Ok(serde_json::from_str(json).unwrap()), "{text}");
        }
        for text in TEXTS {
            assert_eq!(resolve(text), Ok(json!(text)));
        }
        for text in [".inf", "-.inf", "+.inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN"] {
            assert_eq!(resolve(text), Err(NotFinite), "{text}");
        }
    }
}
