//! Manifests: YAML or JSON text to documents that know where each of their fields was written.
//!
//! In comes the text of a file; out come documents in order, each with a JSON value and the positions of its nodes, or the first
//! syntax error with its place. A file may hold several documents, a document may be a list of objects, and a `…List` object is
//! replaced by its items, wherever it stands among them.
//!
//! Scalars mean what they mean to upstream's reader, which is mostly YAML 1.1: `yes` and `off` are truth values, `0443` and `0o443` are
//! octal, `1_000` and `0b11` numbers, whole numbers may be written `26.0` or `1e3`; dates and `1:30` are text. Upstream makes text of
//! a truth value or number where text is wanted (`on` becomes `true`); here the typed reader refuses it, so that nothing changes
//! silently, and so are keys refused that upstream would rename. `.inf` and `.nan` are refused, as upstream does. `<<` merges mappings
//! that have no member in common with theirs.
//!
//! Hostile input is bounded: size, nesting and what aliases expand to. Duplicate keys are refused, and so are tags other than those of the
//! core schema (`!!str`, `!!int`, …) and values that are not what their tag says. A `%YAML` directive changes nothing: whatever version it
//! names, the text is read alike.

mod build;
mod mark;
mod scalar;

use std::fmt;
use std::sync::Arc;

use calico_core::resource::{Fault, FaultSort};
use serde_json::{Map, Value};

use mark::Marked;
pub use mark::Position;

/// Largest file that is read.
pub const MAX_BYTES: usize = 10 * 1024 * 1024;

/// One object of a manifest.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Document {
    /// What it was read from, as given to [`read`].
    pub source: Arc<str>,
    /// Number of the document in the file, from 1.
    pub number: usize,
    /// Position in the document's list, from 0, if it is one of a list.
    pub item: Option<usize>,
    /// The object.
    pub value: Value,
    marks: Marked,
    text: Arc<str>,
}

/// Text that cannot be read as documents.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{source_name}, document {document}, line {}, column {}: {reason}", position.line, position.column)]
#[non_exhaustive]
pub struct SyntaxError {
    /// What it was read from, as given to [`read`].
    pub source_name: Arc<str>,
    /// Number of the document in the file, from 1.
    pub document: usize,
    /// Where.
    pub position: Position,
    /// What is wrong.
    pub reason: String,
    /// The line, and a caret under the place.
    pub excerpt: Excerpt,
}

/// Reads every object of a file. Empty documents are left out.
///
/// # Errors
/// The first syntax error.
pub fn read(source: &str, text: &str) -> Result<Vec<Document>, SyntaxError> {
    let source: Arc<str> = source.into();
    let text: Arc<str> = text.into();
    let built = build::documents(&text).map_err(|fault| SyntaxError {
        source_name: Arc::clone(&source),
        document: fault.document,
        position: fault.position,
        excerpt: Excerpt::new(&text, fault.position),
        reason: fault.reason,
    })?;
    let mut documents = Vec::new();
    for (index, (value, marks)) in built.into_iter().enumerate() {
        let document = Document {
            source: Arc::clone(&source),
            number: index + 1,
            item: None,
            value,
            marks,
            text: Arc::clone(&text),
        };
        document.expand(&mut documents);
    }
    Ok(documents)
}

impl Document {
    /// Replaces lists by what they hold, lists in lists too: a listing of several kinds is an array of list objects.
    fn expand(mut self, documents: &mut Vec<Self>) {
        let before = documents.len();
        let (value, marks) = (self.value.take(), std::mem::take(&mut self.marks));
        if value.is_null() {
            return;
        }
        let is_listing = value.is_array() || is_list_object(&value);
        self.flatten(value, marks, documents);
        if is_listing {
            for (index, document) in documents.iter_mut().skip(before).enumerate() {
                document.item = Some(index);
            }
        }
    }

    /// The parser's limit on nesting bounds the recursion.
    fn flatten(&self, value: Value, mut marks: Marked, documents: &mut Vec<Self>) {
        match value {
            Value::Array(items) => {
                for (value, marks) in items.into_iter().zip(marks.into_elements()) {
                    self.flatten(value, marks, documents);
                }
            }
            Value::Object(mut list) if is_list_object_of(&list) => {
                let mut items = list.get_mut("items").map(Value::take).unwrap_or_default();
                for item in items.as_array_mut().into_iter().flatten() {
                    inherit_kind(&list, item);
                }
                if items.is_array() {
                    self.flatten(items, marks.take_member("items"), documents);
                }
            }
            value => documents.push(Self { value, marks, ..self.clone() }),
        }
    }

    /// The object's `kind`, if it is text.
    pub fn kind(&self) -> Option<&str> {
        self.value.get("kind").and_then(Value::as_str)
    }

    /// Where a fault was written: a value at the value, an unknown field at its name, an absent field at its parent.
    pub fn position(&self, fault: &Fault) -> Position {
        match fault.sort {
            FaultSort::Value => self.marks.locate_value(&fault.path, fault.offset),
            _ => self.marks.locate_name(&fault.path),
        }
    }

    /// The place of a fault.
    pub fn place(&self, fault: &Fault) -> Place {
        Place {
            source: Arc::clone(&self.source),
            document: self.number,
            item: self.item,
            position: self.position(fault),
            text: Arc::clone(&self.text),
        }
    }
}

fn is_list_object(value: &Value) -> bool {
    value.as_object().is_some_and(is_list_object_of)
}

/// Whether it is a `List` or a list of one kind (`NodeList`). Go writes `null` for the items of an empty one.
fn is_list_object_of(members: &Map<String, Value>) -> bool {
    members.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with(LIST))
        && members.get("items").is_some_and(|items| items.is_array() || items.is_null())
}

/// The ending of the kind of a list.
const LIST: &str = "List";

/// The API leaves kind and version out of the items of a list of one kind.
fn inherit_kind(list: &Map<String, Value>, item: &mut Value) {
    let kind = list.get("kind").and_then(Value::as_str).and_then(|kind| kind.strip_suffix(LIST));
    let (Some(kind), Some(item)) = (kind.filter(|kind| !kind.is_empty()), item.as_object_mut()) else { return };
    if item.contains_key("kind") || item.contains_key("apiVersion") {
        return;
    }
    item.insert("kind".into(), kind.into());
    if let Some(version) = list.get("apiVersion") {
        item.insert("apiVersion".into(), version.clone());
    }
}

/// Where in a manifest something stands.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// What it was read from, as given to [`read`].
    pub source: Arc<str>,
    /// Number of the document in the file, from 1.
    pub document: usize,
    /// Position in the document's list, from 0, if it is one of a list.
    pub item: Option<usize>,
    /// Line and column.
    pub position: Position,
    text: Arc<str>,
}

impl Place {
    /// The line it stands on. It is looked for in the whole text, so only when it is shown: of many faults most are not.
    pub fn excerpt(&self) -> Excerpt {
        Excerpt::new(&self.text, self.position)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, document, item, position, .. } = self;
        write!(f, "{source}, document {document}")?;
        if let Some(item) = item {
            write!(f, ", item {item}")?;
        }
        write!(f, ", line {}, column {}", position.line, position.column)
    }
}

/// A line of the text with a caret below one of its columns; `Display` prints it over three lines. Of a long line only what is
/// around the caret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    number: usize,
    line: String,
    /// Characters of `line` before the caret.
    indent: usize,
}

/// Longest line that is shown whole.
const MAX_SHOWN: usize = 160;
/// What stands for text that is left out.
const OMISSION: char = '…';

impl Excerpt {
    fn new(text: &str, position: Position) -> Self {
        let line = text.lines().nth(position.line.saturating_sub(1)).unwrap_or_default();
        let length = line.chars().count();
        let caret = position.column.saturating_sub(1).min(length);
        let begin = if length > MAX_SHOWN { caret.saturating_sub(MAX_SHOWN / 2) } else { 0 };
        let printable = |c: char| if c.is_control() { ' ' } else { c };
        let before = (begin > 0).then_some(OMISSION);
        let after = (length > begin.saturating_add(MAX_SHOWN)).then_some(OMISSION);
        let shown = line.chars().skip(begin).take(MAX_SHOWN).map(printable);
        Self {
            number: position.line,
            indent: caret - begin + before.iter().count(),
            line: before.into_iter().chain(shown).chain(after).collect(),
        }
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.number.to_string();
        let margin = " ".repeat(number.len());
        let indent = " ".repeat(self.indent);
        write!(f, "{margin} |\n{number} | {}\n{margin} | {indent}^", self.line)
    }
}

#[cfg(test)]
mod tests;
