//! What a field's value must satisfy beyond its type, as data: the bounds and patterns of upstream's schema and struct tags.
//!
//! Manifests are held to them. Stored data is not, as upstream's readers are not: whoever uses a value decides what a strange one
//! means. Rules between fields are functions in `check`.

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::Deserialize;
use serde_json::Value;

use super::Fault;
use super::path::Path;
use super::shape::shown;
use crate::net::AsNumber;

/// One condition on a field. Those on scalars hold for each element of a list.
#[derive(Debug, Clone, Copy)]
pub(super) enum Limit {
    /// A whole number, bounds included.
    Range(i64, i64),
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// One of these words, in any case.
    AnyCase(&'static [&'static str]),
    /// Text of at most so many characters.
    Length(usize),
    /// Text of a form.
    Text(&'static Format),
    /// An AS number that somebody may have, as a number or as text.
    SomeAs,
    /// A list with so many entries, bounds included.
    Items(usize, usize),
    /// A list of scalars in which nothing occurs twice.
    Unique,
    /// A list of mappings in which no two say the same in this field.
    UniqueIn(&'static str),
}

/// A form of text.
#[derive(Debug)]
pub(super) struct Format {
    /// What is expected, for messages and documentation.
    pub(super) words: &'static str,
    /// Why text is not of the form.
    pub(super) check: fn(&str) -> Result<(), Flaw>,
    /// Texts of the form, for documents made by tests.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests make documents of them"))]
    pub(super) samples: &'static [&'static str],
}

/// Why text is refused.
#[derive(Debug, Default)]
pub(super) struct Flaw {
    /// More than the format's own words, if there is more to say.
    pub(super) reason: Option<String>,
    /// Where in the text.
    pub(super) offset: Option<usize>,
}

impl Limit {
    /// Adds what is wrong with `value`. Empty text says the same as an absent field, unless it is the element of a list.
    pub(super) fn faults(&self, value: &Value, path: &Path<'_>, faults: &mut Vec<Fault>) {
        match (self, value) {
            (Self::Items(least, most), Value::Array(items)) if !(*least..=*most).contains(&items.len()) => {
                let reason = alloc::format!("{} entries; {least} to {most} are allowed", items.len());
                faults.push(Fault::value(path, None, reason));
            }
            (Self::Unique, Value::Array(items)) => {
                for (index, item) in twice(items.iter().map(Some)) {
                    faults.push(Fault::value(path.index(index), shown(item), "given twice"));
                }
            }
            (Self::UniqueIn(name), Value::Array(items)) => {
                for (index, item) in twice(items.iter().map(|item| item.get(name))) {
                    faults.push(Fault::value(path.index(index).field(name), shown(item), "given twice"));
                }
            }
            (Self::Items(..) | Self::Unique | Self::UniqueIn(_), _) => {}
            (_, Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    self.scalar(item, &path.index(index), faults);
                }
            }
            (_, Value::String(text)) if text.is_empty() => {}
            (_, value) => self.scalar(value, path, faults),
        }
    }

    fn scalar(&self, value: &Value, path: &Path<'_>, faults: &mut Vec<Fault>) {
        let mut refuse = |reason: String| faults.push(Fault::value(path, shown(value), reason));
        match (self, value) {
            (Self::Range(least, most), Value::Number(number))
                if !number.as_i64().is_some_and(|number| (*least..=*most).contains(&number)) =>
            {
                refuse(alloc::format!("expected a whole number from {least} to {most}"));
            }
            (Self::SomeAs, value) if AsNumber::deserialize(value).is_ok_and(AsNumber::is_nobodys) => {
                refuse("AS 0 is nobody's (RFC 7607): give 1 to 4294967295, or leave the field out".into());
            }
            (Self::OneOf(words), Value::String(text)) if !words.contains(&text.as_str()) => {
                refuse(alloc::format!("expected one of {}", words.join(", ")));
            }
            (Self::AnyCase(words), Value::String(text))
                if !words.iter().any(|word| word.eq_ignore_ascii_case(text)) =>
            {
                refuse(alloc::format!("expected one of {}, in any case", words.join(", ")));
            }
            (Self::Length(most), Value::String(text)) if text.chars().count() > *most => {
                refuse(alloc::format!("{} characters; the limit is {most}", text.chars().count()));
            }
            (Self::Text(format), Value::String(text)) => {
                if let Err(flaw) = (format.check)(text) {
                    let reason = flaw.reason.unwrap_or_else(|| alloc::format!("expected {}", format.words));
                    let fault = Fault::value(path, shown(value), reason);
                    faults.push(match flaw.offset {
                        Some(offset) => fault.at_offset(offset),
                        None => fault,
                    });
                }
            }
            _ => {}
        }
    }
}

/// Those that are there already, with their positions.
fn twice<'a>(items: impl Iterator<Item = Option<&'a Value>>) -> impl Iterator<Item = (usize, &'a Value)> {
    let mut earlier = BTreeSet::new();
    let indexed = items.enumerate().filter_map(|(index, item)| Some((index, item?)));
    indexed.filter(move |(_, item)| !earlier.insert(item.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn paths(limit: Limit, value: Value) -> Vec<String> {
        let mut faults = Vec::new();
        limit.faults(&value, &Path::Root.field("x"), &mut faults);
        faults.into_iter().map(|fault| fault.path).collect()
    }

    #[test]
    fn scalars_and_elements_are_held_to_the_limit() {
        assert_eq!(paths(Limit::Range(1, 3), json!(0)), ["x"]);
        assert_eq!(paths(Limit::Range(1, 3), json!(u64::MAX)), ["x"]);
        assert!(paths(Limit::Range(1, 3), json!([1, 3])).is_empty());
        assert_eq!(paths(Limit::Range(1, 3), json!([1, 4])), ["x[1]"]);
        assert_eq!(paths(Limit::OneOf(&["A", "B"]), json!("a")), ["x"]);
        assert!(paths(Limit::AnyCase(&["A", "B"]), json!("a")).is_empty());
        assert_eq!(paths(Limit::AnyCase(&["A", "B"]), json!("c")), ["x"]);
        assert_eq!(paths(Limit::Length(2), json!("äöü")), ["x"]);
        assert!(paths(Limit::Length(2), json!("äö")).is_empty());
        for nobody in [json!(0), json!("0"), json!("0.0")] {
            assert_eq!(paths(Limit::SomeAs, nobody), ["x"]);
        }
        for somebody in [json!(1), json!("1.0"), json!(u32::MAX)] {
            assert!(paths(Limit::SomeAs, somebody).is_empty());
        }
    }

    #[test]
    fn empty_text_is_absence_but_not_in_a_list() {
        assert!(paths(Limit::OneOf(&["A"]), json!("")).is_empty());
        assert_eq!(paths(Limit::OneOf(&["A"]), json!([""])), ["x[0]"]);
    }

    #[test]
    fn lists_are_counted_and_compared() {
        assert_eq!(paths(Limit::Items(1, 2), json!([])), ["x"]);
        assert_eq!(paths(Limit::Items(1, 2), json!([1, 2, 3])), ["x"]);
        assert_eq!(paths(Limit::Unique, json!([1, 2, 1, 1])), ["x[2]", "x[3]"]);
        assert!(paths(Limit::Unique, json!([1, 2])).is_empty());
        assert!(paths(Limit::Unique, json!([1, "1"])).is_empty());
        // Compared pair by pair this would not end.
        let mut many: Vec<Value> = (0..500_000).map(Value::from).collect();
        many.push(7.into());
        assert_eq!(paths(Limit::Unique, Value::Array(many)), ["x[500000]"]);
        let keyed = |second: Value| paths(Limit::UniqueIn("k"), json!([{"k": "a", "v": 1}, {"v": 1}, {}, second]));
        assert_eq!(keyed(json!({"k": "a", "v": 2})), ["x[3].k"]);
        assert!(keyed(json!({"k": "b", "v": 1})).is_empty());
    }
}
