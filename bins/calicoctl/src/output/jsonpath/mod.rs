//! Kubernetes' dialect of JSONPath, as `-o jsonpath=` of its tools: text with expressions in braces.
//!
//! In comes a template, parsed once, and a document; out comes text. An expression is a path (`.a.b`, `['a.b']`, `.*`, `[0]`, `[-1]`, `[0:2]`,
//! `[0,2]`, `[*]`, `..name`, `[?(@.a=="b")]`), quoted text (`"\n"`), or `range PATH` … `end`. Paths begin at the document, in a range at
//! its element; `$` and `@` both mean that, as there. Names that are absent print nothing. What a path finds is separated by spaces.

mod parse;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use calico_core::resource::clipped;
use serde_json::Value;

/// Most characters of a value that a message shows.
const MAX_SHOWN: usize = 80;

/// A template.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JsonPath(Vec<Node>);

#[derive(Debug, Clone, PartialEq)]
enum Node {
    Text(String),
    Path(Vec<Step>),
    Range(Vec<Step>, Vec<Self>),
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    /// Members by name.
    Names(Vec<String>),
    /// Elements by number, from the end where negative.
    Elements(Vec<i64>),
    Slice {
        from: Option<i64>,
        to: Option<i64>,
        step: usize,
    },
    All,
    /// The value and all within it.
    Descend,
    Filter(Filter),
}

/// Which elements are meant.
#[derive(Debug, Clone, PartialEq)]
struct Filter {
    left: Operand,
    test: Option<(Comparison, Operand)>,
}

#[derive(Debug, Clone, PartialEq)]
enum Operand {
    /// From the element.
    Path(Vec<Step>),
    Literal(Value),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    /// Parses a template; an error says what is wrong and at which character.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        parse::template(text).map(Self)
    }

    /// The text for a document.
    pub(crate) fn render(&self, document: &Value) -> Result<String, String> {
        let mut text = String::new();
        render(&self.0, document, &mut text)?;
        Ok(text)
    }
}

fn render(nodes: &[Node], current: &Value, text: &mut String) -> Result<(), String> {
    for node in nodes {
        match node {
            Node::Text(fixed) => text.push_str(fixed),
            Node::Path(path) => {
                let found: Vec<String> = follow(path, current)?.into_iter().map(shown).collect();
                *text += &found.join(" ");
            }
            Node::Range(path, body) => {
                for element in follow(path, current)? {
                    render(body, element, text)?;
                }
            }
        }
    }
    Ok(())
}

/// Text as it is, everything else as JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Everything that a path leads to.
fn follow<'v>(path: &[Step], from: &'v Value) -> Result<Vec<&'v Value>, String> {
    let mut found = vec![from];
    for step in path {
        let mut next = Vec::new();
        for value in found {
            take(step, value, &mut next)?;
        }
        found = next;
    }
    Ok(found)
}

fn take<'v>(step: &Step, value: &'v Value, next: &mut Vec<&'v Value>) -> Result<(), String> {
    match (step, value) {
        (Step::Names(names), Value::Object(members)) => next.extend(names.iter().filter_map(|name| members.get(name))),
        (Step::Elements(places), Value::Array(items)) => {
            for place in places {
                let place = from_start(*place, items.len());
                let item = usize::try_from(place).ok().and_then(|place| items.get(place));
                next.push(item.ok_or_else(|| out_of_bounds(place, items.len()))?);
            }
        }
        (Step::Slice { from, to, step }, Value::Array(items)) => {
            next.extend(cut(items, *from, *to)?.iter().step_by(*step))
        }
        (Step::All, Value::Array(items)) => next.extend(items),
        (Step::All, Value::Object(members)) => next.extend(members.values()),
        (Step::Descend, value) => descend(value, next),
        (Step::Filter(filter), Value::Array(items)) => {
            for item in items {
                if filter.accepts(item)? {
                    next.push(item);
                }
            }
        }
        (Step::Elements(_) | Step::Slice { .. } | Step::Filter(_), value) if !value.is_null() => {
            return Err(format!("{} is not an array", clipped(shown(value), MAX_SHOWN)));
        }
        // Of a value of another form there is nothing: fields may be absent, and so what is in them.
        _ => {}
    }
    Ok(())
}

/// Elements from one place to before another; as there, places beyond the end are errors, unless nothing is asked for.
fn cut(items: &[Value], from: Option<i64>, to: Option<i64>) -> Result<&[Value], String> {
    let length = items.len();
    let bound = |place: i64| usize::try_from(from_start(place, length)).map_err(|_| out_of_bounds(place, length));
    let (from, to) = (from.map_or(Ok(0), bound)?, to.map_or(Ok(length), bound)?);
    if from == to {
        return Ok(&[]);
    }
    items.get(from..to).ok_or_else(|| match from < length {
        true => format!("no elements from {from} to {to} of an array of {length}"),
        false => out_of_bounds(i64::try_from(from).unwrap_or(i64::MAX), length),
    })
}

fn out_of_bounds(place: i64, length: usize) -> String {
    format!("array index out of bounds: index {place}, length {length}")
}

fn from_start(place: i64, length: usize) -> i64 {
    if place < 0 { place.saturating_add(i64::try_from(length).unwrap_or(i64::MAX)) } else { place }
}

fn descend<'v>(value: &'v Value, next: &mut Vec<&'v Value>) {
    next.push(value);
    match value {
        Value::Array(items) => items.iter().for_each(|item| descend(item, next)),
        Value::Object(members) => members.values().for_each(|member| descend(member, next)),
        _ => {}
    }
}

impl Filter {
    fn accepts(&self, element: &Value) -> Result<bool, String> {
        let left = self.left.values(element)?;
        let Some((comparison, right)) = &self.test else { return Ok(!left.is_empty()) };
        let right = right.values(element)?;
        let (Some(left), Some(right)) = (left.first(), right.first()) else { return Ok(false) };
        Ok(match comparison {
            Comparison::Equal => order(left, right) == Some(Ordering::Equal),
            Comparison::NotEqual => order(left, right) != Some(Ordering::Equal),
            Comparison::Less => order(left, right) == Some(Ordering::Less),
            Comparison::LessOrEqual => order(left, right).is_some_and(Ordering::is_le),
            Comparison::Greater => order(left, right) == Some(Ordering::Greater),
            Comparison::GreaterOrEqual => order(left, right).is_some_and(Ordering::is_ge),
        })
    }
}

impl Operand {
    fn values<'v>(&'v self, element: &'v Value) -> Result<Vec<&'v Value>, String> {
        match self {
            Self::Path(path) => follow(path, element),
            Self::Literal(value) => Ok(vec![value]),
        }
    }
}

/// How two values compare; not at all if they are of different forms.
fn order(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.as_f64()?.partial_cmp(&right.as_f64()?),
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        (left, right) => (left == right).then_some(Ordering::Equal),
    }
}
