//! The functions that templates may call: Go's, and upstream's `join`, `joinAndTruncate` and `config`.

use std::cmp::Ordering;

use calico_core::resource::shown_number;
use serde_json::Value;

pub(super) const NAMES: [&str; 21] = [
    "and",
    "or",
    "not",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "len",
    "index",
    "print",
    "println",
    "printf",
    "join",
    "joinAndTruncate",
    "config",
    "slice",
    "html",
    "js",
    "urlquery",
];

/// Widest field that `printf` fills.
const MAX_WIDTH: usize = 1000;

pub(super) fn call(name: &str, values: &[Value], as_number: &str) -> Result<Value, String> {
    match (name, values) {
        ("and" | "or", [.., last]) => Ok(last.clone()),
        ("not", [value]) => Ok((!is_true(value)).into()),
        ("eq", [first, others @ ..]) if !others.is_empty() => {
            let mut equal = false;
            for other in others {
                equal |= compare(first, other)? == Ordering::Equal;
            }
            Ok(equal.into())
        }
        ("ne", [left, right]) => Ok((compare(left, right)? != Ordering::Equal).into()),
        ("lt", [left, right]) => Ok(compare(left, right)?.is_lt().into()),
        ("le", [left, right]) => Ok(compare(left, right)?.is_le().into()),
        ("gt", [left, right]) => Ok(compare(left, right)?.is_gt().into()),
        ("ge", [left, right]) => Ok(compare(left, right)?.is_ge().into()),
        ("len", [value]) => length(value).map(Value::from),
        ("index", [value, places @ ..]) => places.iter().try_fold(value.clone(), |value, place| index(&value, place)),
        ("slice", [value, from]) => slice(value, from, None),
        ("slice", [value, from, to]) => slice(value, from, Some(to)),
        ("print", values) => Ok(print(values).into()),
        ("html", values) => Ok(print(values).chars().map(html).collect::<String>().into()),
        ("js", values) => Ok(print(values).chars().map(js).collect::<String>().into()),
        ("urlquery", values) => Ok(print(values).bytes().map(url).collect::<String>().into()),
        ("println", values) => Ok((values.iter().map(text).collect::<Vec<_>>().join(" ") + "\n").into()),
        ("printf", [Value::String(format), values @ ..]) => printf(format, values).map(Value::from),
        ("join", [items, Value::String(separator)]) => Ok(parts(items).join(separator).into()),
        ("joinAndTruncate", [items, Value::String(separator), limit]) => {
            let limit = limit.as_u64().and_then(|limit| usize::try_from(limit).ok()).ok_or("the limit is no number")?;
            let joined = parts(items).join(separator);
            if limit == 0 || joined.chars().count() <= limit {
                return Ok(joined.into());
            }
            Ok((joined.chars().take(limit.saturating_sub(3)).collect::<String>() + "...").into())
        }
        ("config", [Value::String(name)]) if name.eq_ignore_ascii_case("asnumber") => Ok(as_number.into()),
        ("config", [_]) => Err("the only setting is \"asnumber\"".into()),
        (_, values) => Err(format!("{} arguments of this form are not what it takes", values.len())),
    }
}

/// As Go prints it; what is absent prints nothing.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(text).collect::<Vec<_>>().join(" ")),
        Value::Object(_) => format!("map[{}]", pairs(value, ":").join(" ")),
        Value::Number(number) if number.is_f64() => shown_number(number.as_f64().unwrap_or(0.0)),
        other => other.to_string(),
    }
}

/// A character in HTML, as Go's package escapes it.
fn html(character: char) -> String {
    match character {
        '\0' => "\u{fffd}".into(),
        '"' | '\'' => format!("&#{};", u32::from(character)),
        '&' => "&amp;".into(),
        '<' => "&lt;".into(),
        '>' => "&gt;".into(),
        other => other.into(),
    }
}

/// A character in text of JavaScript.
fn js(character: char) -> String {
    match character {
        '\\' | '\'' | '"' => format!("\\{character}"),
        '<' | '>' | '&' | '=' | '\0'..' ' => format!("\\u{:04X}", u32::from(character)),
        other if other.is_control() && !other.is_ascii() => format!("\\u{:04X}", u32::from(other)),
        other => other.into(),
    }
}

/// A byte in the query of a URL.
fn url(byte: u8) -> String {
    match byte {
        b' ' => "+".into(),
        byte if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) => char::from(byte).into(),
        byte => format!("%{byte:02X}"),
    }
}

pub(super) fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}

/// Members in order, each as one text.
fn pairs(value: &Value, between: &str) -> Vec<String> {
    let members = value.as_object().into_iter().flatten();
    let mut pairs: Vec<_> = members.map(|(name, member)| format!("{name}{between}{}", text(member))).collect();
    pairs.sort();
    pairs
}

fn parts(items: &Value) -> Vec<String> {
    match items {
        Value::Null => Vec::new(),
        Value::Array(items) => items.iter().map(text).collect(),
        Value::Object(_) => pairs(items, "="),
        other => vec![text(other)],
    }
}

/// How values compare; what is absent is the zero of whatever it is compared with.
fn compare(left: &Value, right: &Value) -> Result<Ordering, String> {
    let (left, right) = match (left, right) {
        (Value::Null, other) => (&zero(other), other),
        (other, Value::Null) => (other, &zero(other)),
        both => both,
    };
    match (left, right) {
        (Value::String(left), Value::String(right)) => Ok(left.cmp(right)),
        (Value::Bool(left), Value::Bool(right)) => Ok(left.cmp(right)),
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => Ok(a.cmp(&b)),
            _ => a.as_f64().zip(b.as_f64()).and_then(|(a, b)| a.partial_cmp(&b)).ok_or_else(|| "not a number".into()),
        },
        (left, right) if left == right => Ok(Ordering::Equal),
        _ => Err(format!("incompatible types for comparison: {} and {}", text(left), text(right))),
    }
}

fn zero(of: &Value) -> Value {
    match of {
        Value::Null => Value::Null,
        Value::Bool(_) => false.into(),
        Value::Number(_) => 0.into(),
        Value::String(_) => "".into(),
        Value::Array(_) => Value::Array(Vec::new()),
        Value::Object(_) => Value::Object(serde_json::Map::new()),
    }
}

fn length(value: &Value) -> Result<usize, String> {
    match value {
        Value::Null => Ok(0),
        Value::String(text) => Ok(text.len()),
        Value::Array(items) => Ok(items.len()),
        Value::Object(members) => Ok(members.len()),
        other => Err(format!("{other} has no length")),
    }
}

fn place(value: &Value) -> Result<usize, String> {
    let place = value.as_u64().and_then(|place| usize::try_from(place).ok());
    place.ok_or_else(|| format!("cannot index with {}", text(value)))
}

fn index(value: &Value, at: &Value) -> Result<Value, String> {
    match (value, at) {
        (Value::Null, _) => Ok(Value::Null),
        (Value::Object(members), Value::String(name)) => Ok(members.get(name).cloned().unwrap_or_default()),
        (Value::Array(items), at) => {
            let at = place(at)?;
            items.get(at).cloned().ok_or_else(|| format!("index out of range: {at} of {}", items.len()))
        }
        (value, at) => Err(format!("cannot index {} with {}", text(value), text(at))),
    }
}

fn slice(value: &Value, from: &Value, to: Option<&Value>) -> Result<Value, String> {
    let from = place(from)?;
    let to = to.map_or_else(|| length(value), place)?;
    let cut = match value {
        Value::String(text) => text.get(from..to).map(Value::from),
        Value::Array(items) => items.get(from..to).map(|items| Value::Array(items.to_vec())),
        _ => None,
    };
    cut.ok_or_else(|| format!("cannot slice {} from {from} to {to}", text(value)))
}

/// As Go: a space between two values neither of which is text.
fn print(values: &[Value]) -> String {
    let mut printed = String::new();
    let mut after_text = true;
    for value in values {
        if !after_text && !value.is_string() {
            printed.push(' ');
        }
        printed += &text(value);
        after_text = value.is_string();
    }
    printed
}

/// Go's verbs, flags `-`, `0` and `+`, width and precision. What a number in a document is in Go may be text there, so `%s` takes all.
fn printf(format: &str, values: &[Value]) -> Result<String, String> {
    let mut printed = String::new();
    let mut values = values.iter();
    let mut rest = format;
    while let Some((before, after)) = rest.split_once('%') {
        printed += before;
        let flags = after.len() - after.trim_start_matches(['-', '0', '+', ' ', '#']).len();
        let (flags, after) = after.split_at_checked(flags).unwrap_or_default();
        let (width, after) = digits(after)?;
        let (precision, after) = match after.strip_prefix('.') {
            Some(after) => digits(after).map(|(precision, after)| (Some(precision.unwrap_or(0)), after))?,
            None => (None, after),
        };
        let verb = after.chars().next().ok_or("printf: % without a verb")?;
        rest = after.get(verb.len_utf8()..).unwrap_or_default();
        if verb == '%' {
            printed.push('%');
            continue;
        }
        let Some(value) = values.next() else {
            printed += &format!("%!{verb}(MISSING)");
            continue;
        };
        let shown = verb_text(verb, precision, value);
        let plus = flags.contains('+') && value.is_number() && !shown.starts_with(['-', '%']);
        let shown = if plus { format!("+{shown}") } else { shown };
        printed += &padded(shown, flags, width.unwrap_or(0), value.is_number());
    }
    printed += rest;
    let extra: Vec<_> = values.map(typed).collect();
    if !extra.is_empty() {
        printed += &format!("%!(EXTRA {})", extra.join(", "));
    }
    Ok(printed)
}

fn padded(shown: String, flags: &str, width: usize, is_number: bool) -> String {
    let missing = width.saturating_sub(shown.chars().count());
    if flags.contains('-') {
        return shown + &" ".repeat(missing);
    }
    if !flags.contains('0') {
        return " ".repeat(missing) + &shown;
    }
    // Zeros stand behind the sign.
    let sign = shown.chars().next().filter(|first| is_number && matches!(first, '+' | '-'));
    let rest = sign.and_then(|sign| shown.strip_prefix(sign)).unwrap_or(&shown);
    sign.into_iter().collect::<String>() + &"0".repeat(missing) + rest
}

/// A value with Go's name of its type, as `printf` shows what does not fit.
fn typed(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        value => format!("{}={}", type_of(value), text(value)),
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn digits(text: &str) -> Result<(Option<usize>, &str), String> {
    let length = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, rest) = text.split_at_checked(length).unwrap_or_default();
    if number.is_empty() {
        return Ok((None, rest));
    }
    let number = number.parse().ok().filter(|number| *number <= MAX_WIDTH);
    number.map(|number| (Some(number), rest)).ok_or_else(|| format!("wider than {MAX_WIDTH}"))
}

fn verb_text(verb: char, precision: Option<usize>, value: &Value) -> String {
    match (verb, value) {
        ('s', value) => text(value).chars().take(precision.unwrap_or(usize::MAX)).collect(),
        ('v', value) => text(value),
        ('q', Value::String(text)) => format!("{text:?}"),
        ('x' | 'X', Value::String(text)) => text.bytes().map(|byte| in_case(verb, format!("{byte:02x}"))).collect(),
        ('t', Value::Bool(value)) => value.to_string(),
        ('T', value) => type_of(value).into(),
        (_, Value::Number(number)) => {
            let whole = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
            let shown = whole.and_then(|whole| whole_text(verb, whole));
            let shown = shown.or_else(|| float_text(verb, precision, number.as_f64()?));
            shown.unwrap_or_else(|| format!("%!{verb}({})", typed(value)))
        }
        (_, value) => format!("%!{verb}({})", typed(value)),
    }
}

fn in_case(verb: char, text: String) -> String {
    if verb.is_ascii_uppercase() { text.to_ascii_uppercase() } else { text }
}

/// A whole number by the verbs that whole numbers have.
fn whole_text(verb: char, number: i128) -> Option<String> {
    let sign = if number < 0 { "-" } else { "" };
    let magnitude = number.unsigned_abs();
    Some(match verb {
        'd' => number.to_string(),
        'x' | 'X' => in_case(verb, format!("{sign}{magnitude:x}")),
        'o' => format!("{sign}{magnitude:o}"),
        'b' => format!("{sign}{magnitude:b}"),
        'c' => u32::try_from(number).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER).into(),
        _ => return None,
    })
}

/// A number by the verbs of those with a fraction. (Go has them for such only; a document does not tell which number is one.)
fn float_text(verb: char, precision: Option<usize>, number: f64) -> Option<String> {
    Some(match (verb, precision) {
        ('f' | 'F', precision) => format!("{number:.*}", precision.unwrap_or(6)),
        ('e' | 'E', precision) => {
            let text = format!("{number:.*e}", precision.unwrap_or(6));
            let (mantissa, exponent) = text.split_once('e')?;
            let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
            in_case(verb, format!("{mantissa}e{sign}{exponent:0>2}"))
        }
        ('g' | 'G', None) => in_case(verb, shown_number(number)),
        _ => return None,
    })
}
