//! Manifests: YAML or JSON text to documents that know where each of their fields was written.
//!
//! In comes the text of a file; out come documents in order, each with a JSON value and the positions of its nodes, or the first
//! syntax error with its place. A file may hold several documents, a document may be a list of objects, and a `…List` object is
//! replaced by its items.
//!
//! Scalars follow the core schema of YAML 1.2: `true`, `null`, numbers. What YAML 1.1 adds (`yes`, `on`, `0o`-less octal, sexagesimal
//! numbers, dates) stays text, so that no value changes silently; a number where text is wanted is refused by the typed reader.
//! Hostile input is bounded: size, nesting and what aliases expand to. Duplicate keys and foreign tags are refused.

mod build;
mod mark;
mod scalar;

use std::fmt;
use std::sync::Arc;

use calico_core::resource::{Fault, FaultSort};
use serde_json::Value;

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
    /// Replaces lists by what they hold.
    fn expand(mut self, documents: &mut Vec<Self>) {
        let kind = self.value.get("kind").and_then(Value::as_str).unwrap_or_default();
        let is_list = kind.ends_with("List") && self.value.get("items").is_some_and(Value::is_array);
        let (value, marks) = if is_list {
            let items = self.value.get_mut("items").map(Value::take).unwrap_or_default();
            (items, self.marks.take_member("items"))
        } else {
            (self.value.take(), std::mem::take(&mut self.marks))
        };
        match value {
            Value::Null => {}
            Value::Array(items) => {
                for (index, (value, marks)) in items.into_iter().zip(marks.into_elements()).enumerate() {
                    documents.push(Self { item: Some(index), value, marks, ..self.clone() });
                }
            }
            value => documents.push(Self { value, marks, ..self }),
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

    /// The place of a fault, with the line it stands on.
    pub fn place(&self, fault: &Fault) -> Place {
        let position = self.position(fault);
        Place {
            source: Arc::clone(&self.source),
            document: self.number,
            item: self.item,
            position,
            excerpt: Excerpt::new(&self.text, position),
        }
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
    /// The line itself.
    pub excerpt: Excerpt,
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

/// A line of the text with a caret below one of its columns; `Display` prints it over three lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    line: String,
    position: Position,
}

/// Longest line that is shown whole.
const MAX_SHOWN: usize = 160;

impl Excerpt {
    fn new(text: &str, position: Position) -> Self {
        let line = text.lines().nth(position.line.saturating_sub(1)).unwrap_or_default();
        let printable = |c: char| if c.is_control() { ' ' } else { c };
        Self { line: line.chars().take(MAX_SHOWN).map(printable).collect(), position }
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.position.line.to_string();
        let margin = " ".repeat(number.len());
        let indent = " ".repeat(self.position.column.saturating_sub(1).min(MAX_SHOWN));
        write!(f, "{margin} |\n{number} | {}\n{margin} | {indent}^", self.line)
    }
}

#[cfg(test)]
mod tests;
