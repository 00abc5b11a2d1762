//! JSON that `serde_json` refuses or rounds, read as Go's `encoding/json` reads it for upstream.
//!
//! A document that upstream reads must not be absent here: its Deny would be gone. Upstream's reader puts U+FFFD in the place of
//! bytes that are no UTF-8 (one for each) and of halves of surrogate pairs. It only checks the syntax of fields that it does not know,
//! so there a number of any size is in order, and nesting too, down to 10 000 levels. Here a number beyond the range of a
//! float is the largest one: it is refused where a smaller number is wanted, and else the nearest that there is. What lies
//! deeper than [`MAX_DEPTH`] is U+FFFD; no field that is known is as deep.
//!
//! What comes out remembers what of it is not as it is stored, so that nobody writes it back. That is also for numbers that a
//! float rounds, but where upstream reads a float, too: then it rounds alike, and would write what we write. Nothing here recurses.

use calico_core::resource::Kind;
use serde_json::{Map, Number, Value};

use crate::Document;

/// Deepest nesting that is kept: that of `serde_json`.
const MAX_DEPTH: usize = 127;
/// Most characters of a number, or of the way to one, that a message shows.
const MAX_SHOWN: usize = 200;

/// Reads a document of a kind; none if it is not JSON.
pub(crate) fn read(kind: Kind, bytes: &[u8]) -> Option<Document> {
    let mut reader = Reader { kind, bytes, at: 0, open: Vec::new(), inexact: None };
    let value = reader.document().ok()?;
    Some(match reader.inexact {
        Some(reason) => Document::rounded(value, reason, bytes),
        None => value.into(),
    })
}

struct Malformed;

struct Reader<'a> {
    kind: Kind,
    bytes: &'a [u8],
    at: usize,
    open: Vec<Open>,
    /// The first that is not as it is stored.
    inexact: Option<String>,
}

/// A collection whose end has not been seen.
enum Open {
    List(Vec<Value>),
    /// With the name of the member whose value comes next.
    Map(Map<String, Value>, String),
    /// One that is too deep to be kept.
    Skipped {
        is_map: bool,
    },
}

impl Reader<'_> {
    fn document(&mut self) -> Result<Value, Malformed> {
        loop {
            let Some(value) = self.begin()? else { continue };
            if let Some(value) = self.complete(value)? {
                self.blanks();
                return if self.at == self.bytes.len() { Ok(value) } else { Err(Malformed) };
            }
        }
    }

    /// Puts a value where it belongs; answers with the outermost if it ends there.
    fn complete(&mut self, mut value: Value) -> Result<Option<Value>, Malformed> {
        while let Some(open) = self.open.pop() {
            match self.put(open, value)? {
                Some(collection) => value = collection,
                None => return Ok(None),
            }
        }
        Ok(Some(value))
    }

    /// The value that begins here; none if it is a collection, which is open then.
    fn begin(&mut self) -> Result<Option<Value>, Malformed> {
        self.blanks();
        Ok(Some(match self.next()? {
            b'[' => {
                self.blanks();
                if !self.eat(b"]") {
                    self.open(Open::List(Vec::new()));
                    return Ok(None);
                }
                Value::Array(Vec::new())
            }
            b'{' => {
                self.blanks();
                if !self.eat(b"}") {
                    let name = self.name()?;
                    self.open(Open::Map(Map::new(), name));
                    return Ok(None);
                }
                Value::Object(Map::new())
            }
            b'"' => Value::String(self.string()?),
            b'n' if self.eat(b"ull") => Value::Null,
            b't' if self.eat(b"rue") => Value::Bool(true),
            b'f' if self.eat(b"alse") => Value::Bool(false),
            b'-' | b'0'..=b'9' => Value::Number(self.number()?),
            _ => return Err(Malformed),
        }))
    }

    fn open(&mut self, open: Open) {
        let is_map = matches!(open, Open::Map(..));
        if self.open.len() < MAX_DEPTH {
            self.open.push(open);
        } else {
            self.note("it is nested too deep to be kept");
            self.open.push(Open::Skipped { is_map });
        }
    }

    /// Puts a value into its collection; answers with that if it is complete.
    fn put(&mut self, open: Open, value: Value) -> Result<Option<Value>, Malformed> {
        self.blanks();
        let goes_on = self.eat(b",");
        let open = match open {
            Open::List(mut items) => {
                items.push(value);
                Open::List(items)
            }
            Open::Map(mut members, name) => {
                members.insert(name, value);
                Open::Map(members, if goes_on { self.name()? } else { String::new() })
            }
            Open::Skipped { is_map } => {
                if is_map && goes_on {
                    self.name()?;
                }
                Open::Skipped { is_map }
            }
        };
        if goes_on {
            self.open.push(open);
            return Ok(None);
        }
        let (end, collection) = match open {
            Open::List(items) => (b"]", Value::Array(items)),
            Open::Map(members, _) => (b"}", Value::Object(members)),
            Open::Skipped { is_map } => (if is_map { b"}" } else { b"]" }, replacement()),
        };
        if self.eat(end) { Ok(Some(collection)) } else { Err(Malformed) }
    }

    /// A member's name, and the colon behind it.
    fn name(&mut self) -> Result<String, Malformed> {
        self.blanks();
        if !self.eat(b"\"") {
            return Err(Malformed);
        }
        let name = self.string()?;
        self.blanks();
        if self.eat(b":") { Ok(name) } else { Err(Malformed) }
    }

    /// Text, behind its first quote.
    fn string(&mut self) -> Result<String, Malformed> {
        let mut text = String::new();
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            let length = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20)).ok_or(Malformed)?;
            for chunk in rest.get(..length).unwrap_or_default().utf8_chunks() {
                text.push_str(chunk.valid());
                for _ in chunk.invalid() {
                    text.push(char::REPLACEMENT_CHARACTER);
                    self.note("its text is no UTF-8");
                }
            }
            self.at += length;
            match self.next()? {
                b'"' => return Ok(text),
                b'\\' => text.push(self.escaped()?),
                _ => return Err(Malformed),
            }
        }
    }

    fn escaped(&mut self) -> Result<char, Malformed> {
        Ok(match self.next()? {
            plain @ (b'"' | b'\\' | b'/') => char::from(plain),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let unit = self.unit()?;
                if let Some(character) = char::from_u32(u32::from(unit)) {
                    return Ok(character);
                }
                let behind = self.at;
                let second = if self.eat(b"\\u") { Some(self.unit()?) } else { None };
                let pair = char::decode_utf16([Some(unit), second].into_iter().flatten()).next();
                pair.and_then(Result::ok).unwrap_or_else(|| {
                    self.at = behind;
                    self.note("its text has half a surrogate pair");
                    char::REPLACEMENT_CHARACTER
                })
            }
            _ => return Err(Malformed),
        })
    }

    /// Four hexadecimal digits.
    fn unit(&mut self) -> Result<u16, Malformed> {
        let digits = self.bytes.get(self.at..self.at.saturating_add(4)).ok_or(Malformed)?;
        self.at += digits.len();
        digits.iter().try_fold(0, |unit, digit| {
            let digit = char::from(*digit).to_digit(16).and_then(|digit| u16::try_from(digit).ok());
            digit.map(|digit| unit << 4 | digit).ok_or(Malformed)
        })
    }

    /// A number, whose first character has been read.
    fn number(&mut self) -> Result<Number, Malformed> {
        self.at -= 1;
        let begin = self.at;
        let _minus = self.eat(b"-");
        let has_leading_zero = self.eat(b"0");
        if has_leading_zero == (self.digits() > 0) {
            return Err(Malformed);
        }
        let fraction = self.eat(b".").then(|| self.digits());
        let exponent = (self.eat(b"e") || self.eat(b"E")).then(|| {
            let _sign = self.eat(b"+") || self.eat(b"-");
            self.digits()
        });
        let written = self.bytes.get(begin..self.at).unwrap_or_default();
        let written = str::from_utf8(written).map_err(|_| Malformed)?;
        match (fraction, exponent) {
            (Some(0), _) | (_, Some(0)) => return Err(Malformed),
            (None, None) if written != "-0" => {
                let whole = written.parse().map(|whole: u64| whole.into());
                if let Ok(whole) = whole.or_else(|_| written.parse().map(|whole: i64| whole.into())) {
                    return Ok(whole);
                }
            }
            _ => {}
        }
        let nearest = written.parse::<f64>().map_err(|_| Malformed)?;
        let number = Number::from_f64(nearest.clamp(f64::MIN, f64::MAX)).ok_or(Malformed)?;
        let is_rounded_alike = nearest.is_finite() && self.is_fraction_here();
        if !is_rounded_alike && decimal(written) != decimal(&number.to_string()) {
            let shown: String = written.chars().take(MAX_SHOWN).collect();
            self.note(&format!("the number {shown} cannot be kept exactly"));
        }
        Ok(number)
    }

    /// Whether upstream, too, reads a float where we are.
    fn is_fraction_here(&self) -> bool {
        let name = |open| match open {
            &Open::List(_) => None,
            Open::Map(_, name) => Some(Some(name.as_str())),
            Open::Skipped { .. } => Some(None),
        };
        let names: Option<Vec<_>> = self.open.iter().filter_map(name).collect();
        names.is_some_and(|names| self.kind.has_fraction_at(&names))
    }

    /// Reads digits; answers how many.
    fn digits(&mut self) -> usize {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        count
    }

    fn blanks(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn next(&mut self) -> Result<u8, Malformed> {
        let byte = self.bytes.get(self.at).ok_or(Malformed)?;
        self.at += 1;
        Ok(*byte)
    }

    fn eat(&mut self, expected: &[u8]) -> bool {
        let is_there = self.bytes.get(self.at..).is_some_and(|rest| rest.starts_with(expected));
        if is_there {
            self.at += expected.len();
        }
        is_there
    }

    /// Notes what is not as it is stored, and where.
    fn note(&mut self, what: &str) {
        if self.inexact.is_some() {
            return;
        }
        let mut path = String::new();
        for open in &self.open {
            match open {
                Open::List(items) => path += &format!("[{}]", items.len()),
                Open::Map(_, name) if path.is_empty() => path += name,
                Open::Map(_, name) => path += &format!(".{name}"),
                Open::Skipped { .. } => {}
            }
        }
        let path = calico_core::resource::clipped(path, MAX_SHOWN);
        self.inexact = Some(if path.is_empty() { what.to_owned() } else { format!("{path}: {what}") });
    }
}

fn replacement() -> Value {
    char::REPLACEMENT_CHARACTER.to_string().into()
}

/// A decimal number by its value: sign, digits without zeros at either end, and the power of ten of the last one.
fn decimal(number: &str) -> (bool, String, i64) {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let beyond = if exponent.starts_with('-') { i64::MIN } else { i64::MAX };
    let exponent: i64 = exponent.parse().unwrap_or(beyond);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole.trim_start_matches('-'), fraction].concat();
    let significant = digits.trim_end_matches('0');
    let zeros = digits.len() - significant.len();
    let significant = significant.trim_start_matches('0');
    if significant.is_empty() {
        return (false, String::new(), 0);
    }
    let shift = |length: usize| i64::try_from(length).unwrap_or(i64::MAX);
    let exponent = exponent.saturating_sub(shift(fraction.len())).saturating_add(shift(zeros));
    (whole.starts_with('-'), significant.to_owned(), exponent)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn exact(text: &str) -> Value {
        let document = read(Kind::Node, text.as_bytes()).unwrap();
        assert_eq!(document.inexact(), None, "{text}");
        document.into_value()
    }

    fn inexact(bytes: &[u8]) -> (Value, String) {
        let document = read(Kind::Node, bytes).unwrap();
        let reason = document.inexact().unwrap().to_owned();
        (document.into_value(), reason)
    }

    #[test]
    fn what_cannot_be_kept_is_replaced_and_noted() {
        for (bytes, value, reason) in [
            (&b"{\"a\": [1, 1e999]}"[..], json!({"a": [1, f64::MAX]}), "a[1]: the number 1e999 cannot be kept exactly"),
            (b"-1e999", json!(f64::MIN), "the number -1e999 cannot be kept exactly"),
            (b"1e-999", json!(0.0), "the number 1e-999 cannot be kept exactly"),
            (b"18446744073709551616", json!(18_446_744_073_709_551_616_f64), "the number 184467"),
            (b"0.12345678901234567890", json!(0.123_456_789_012_345_68), "the number 0.1234"),
            (b"1.00000000000000000000001", json!(1.0), "the number 1.000"),
            (
                br#"{"a": {"b": "x\ud800y\udc00\ud800\ud800"}}"#,
                json!({"a": {"b": "x\u{fffd}y\u{fffd}\u{fffd}\u{fffd}"}}),
                "a.b: its text has half",
            ),
            (b"[\"\xff\xe2\x82x\"]", json!(["\u{fffd}\u{fffd}\u{fffd}x"]), "[0]: its text is no UTF-8"),
        ] {
            let (found, why) = inexact(bytes);
            assert_eq!(found, value);
            assert!(why.starts_with(reason), "{why}");
        }
    }

    /// Go takes the nearest float for an order, and refuses what is beyond all of them.
    #[test]
    fn where_upstream_rounds_a_rounded_number_is_as_good() {
        for (text, order) in [
            ("9007199254740993", 9_007_199_254_740_992.0),
            ("0.1234567890123456789", 0.123_456_789_012_345_68),
            ("123456789012345678901234567890", 1.234_567_890_123_456_8e29),
        ] {
            let text = format!(r#"{{"spec": {{"order": {text}}}, "later": [1]}}"#);
            let document = read(Kind::Tier, text.as_bytes()).unwrap();
            assert_eq!((document.inexact(), document["spec"]["order"].as_f64()), (None, Some(order)));
        }
        for text in [r#"{"spec": {"order": 1e999}}"#, r#"{"spec": {"later": 1.00000000000000000001}}"#] {
            assert!(read(Kind::Tier, text.as_bytes()).unwrap().inexact().is_some(), "{text}");
        }
        let deep = format!(r#"{{"spec": {}{{"order": 1.00000000000000000001}}{}}}"#, "[".repeat(200), "]".repeat(200));
        assert!(read(Kind::Tier, deep.as_bytes()).unwrap().inexact().is_some());
    }

    #[test]
    fn what_can_be_kept_is_exact() {
        for number in ["0", "-0", "0.1", "0.10", "1e3", "1E+3", "100e-2", "0.30000000000000004", "1e22", "-2.5e-3"] {
            assert_eq!(exact(number).as_f64(), number.parse().ok(), "{number}");
        }
        assert_eq!(exact("18446744073709551615"), json!(u64::MAX));
        assert_eq!(exact("-9223372036854775808"), json!(i64::MIN));
        assert_eq!(exact(r#""\u00e9\ud83d\ude00\/\b\f\n\r\t\\\"""#), json!("é😀/\u{8}\u{c}\n\r\t\\\""));
        assert_eq!(exact(" [ ] "), json!([]));
        assert_eq!(exact("{\"a\": {}, \"b\": [{}, null], \"a\": true}"), json!({"a": true, "b": [{}, null]}));
    }

    #[test]
    fn what_is_too_deep_is_skipped() {
        for (open, close) in [("[", "]"), ("{\"a\": ", "}"), ("[{\"b\": 1, \"a\": [2, ", "]}, 3]")] {
            let nested = |depth: usize| format!("{{\"x\": {}1{}, \"y\": 2}}", open.repeat(depth), close.repeat(depth));
            assert_eq!(exact(&nested(20))["y"], 2);
            let (value, reason) = inexact(nested(50_000).as_bytes());
            assert_eq!(value["y"], 2);
            assert!(reason.ends_with("nested too deep to be kept"), "{reason}");
            assert!(serde_json::from_str::<Value>(&value.to_string()).is_ok());
            let text = nested(50_000);
            assert!(read(Kind::Node, &text.as_bytes()[..text.len() / 2]).is_none());
        }
    }

    #[test]
    fn what_is_not_json_is_refused() {
        for text in [
            "",
            " ",
            "{",
            "[",
            "[1,]",
            "[,1]",
            "{,}",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{1:2}",
            "01",
            "-",
            "1.",
            ".5",
            "1e",
            "+1",
            "--1",
            "nul",
            "truex",
            "1 2",
            "[1}",
            "{\"a\":1]",
            "\"",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\u12g4\"",
            "\"\n\"",
            "\u{feff}1",
            "NaN",
        ] {
            assert!(read(Kind::Node, text.as_bytes()).is_none(), "{text}");
            assert!(serde_json::from_str::<Value>(text).is_err(), "{text}");
        }
    }

    proptest! {
        /// Whatever `serde_json` reads is read alike, and whatever it refuses for its syntax is refused.
        #[test]
        fn reads_as_serde_json(words in prop::collection::vec(prop::sample::select(vec![
            "{", "}", "[", "]", ",", ":", " ", "\"a\"", "\"b\":", "\"\\u0041\"", "\"é\"", "1", "-2.5", "1e3", "0", "null", "true", "false", "\\", "\"",
        ]), 0..12)) {
            let text = words.concat();
            let expected = serde_json::from_str::<Value>(&text).ok();
            let found = read(Kind::Node, text.as_bytes()).filter(|found| found.inexact().is_none()).map(Document::into_value);
            prop_assert_eq!(found, expected, "{}", text);
        }

        #[test]
        fn any_bytes_have_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _answer = read(Kind::Node, &bytes);
        }
    }
}
