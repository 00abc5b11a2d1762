//! Parser events to values and marks.

use std::borrow::Cow;
use std::collections::HashMap;

use calico_core::resource::clipped;
use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, Tag};
use serde_json::{Map, Value};

use super::mark::{Children, Marked, Position};
use super::{MAX_BYTES, scalar};

/// Deepest nesting; upstream's kinds need eight.
const MAX_DEPTH: usize = 64;
/// Most bytes of all copies that anchors and aliases of a file ask for: the node that an anchor keeps, and one for each alias.
const MAX_COPIED: usize = 32 * 1024 * 1024;
/// What a node takes beside its text: value, position, its place in the collection.
const NODE: usize = 128;
/// The key whose value is not a member, but has further members.
const MERGE: &str = "<<";
/// Most characters of a message, which may quote the text.
const MAX_REASON: usize = 300;

/// A syntax error.
#[derive(Debug)]
pub(super) struct BuildError {
    pub(super) document: usize,
    pub(super) position: Position,
    pub(super) reason: String,
}

type Node = (Value, Marked);

/// Every document of the text, the empty ones included.
pub(super) fn documents(text: &str) -> Result<Vec<Node>, BuildError> {
    let mut builder = Builder { documents: Vec::new(), open: Vec::new(), anchors: HashMap::new(), copied: 0 };
    if text.len() > MAX_BYTES {
        return Err(builder.error(
            Position { line: 1, column: 1 },
            format!("larger than {MAX_BYTES} bytes: split it into several files, which -f takes as a directory"),
        ));
    }
    let mut parser = Parser::new_from_str(text.strip_prefix('\u{feff}').unwrap_or(text));
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| builder.scan_error(&error))?;
        builder.take(event, span)?;
    }
    Ok(builder.documents)
}

struct Builder {
    documents: Vec<Node>,
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    copied: usize,
}

/// A collection whose end has not been seen.
struct Open {
    anchor: usize,
    start: Position,
    content: Content,
}

enum Content {
    List(Vec<Value>, Vec<Marked>),
    Map { members: Map<String, Value>, marks: Vec<(String, Position, Marked)>, key: Option<Key> },
}

/// A key whose value has not been seen.
struct Key {
    name: String,
    at: Position,
    /// Whether the members of its value belong to the mapping itself (`<<`).
    is_merge: bool,
}

impl Builder {
    fn error(&self, position: Position, reason: impl Into<String>) -> BuildError {
        BuildError { document: self.documents.len() + 1, position, reason: clipped(reason.into(), MAX_REASON) }
    }

    fn scan_error(&self, error: &ScanError) -> BuildError {
        let marker = error.marker();
        let position = Position { line: marker.line().max(1), column: marker.col() + 1 };
        self.error(position, error.info())
    }

    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), BuildError> {
        let start = Position { line: span.start.line(), column: span.start.col() + 1 };
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let value = self.scalar(&text, style, tag.as_deref(), start)?;
                let is_quoted = matches!(style, ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted);
                let is_flat = span.start.line() == span.end.line() && value.is_string();
                let column = start.column + usize::from(is_quoted);
                let marks = Marked { value: Position { column, ..start }, is_flat, children: Children::None };
                if let Some(Open { content: Content::Map { key: None, .. }, .. }) = self.open.last() {
                    let is_plain = tag.map_or(style == ScalarStyle::Plain, |tag| core_suffix(&tag) == "merge");
                    return self.key(&text, &value, is_plain, start);
                }
                self.finish(anchor, (value, marks), start)
            }
            Event::Alias(anchor) => {
                let Some((value, mark)) = self.anchors.remove(&anchor) else {
                    return Err(self.error(start, "the alias is part of what it refers to"));
                };
                let node = self.copy(&value, &mark, start)?;
                self.anchors.insert(anchor, (value, mark));
                self.finish(0, node, start)
            }
            Event::SequenceStart(anchor, tag) => self.open(anchor, tag, start, Content::List(Vec::new(), Vec::new())),
            Event::MappingStart(anchor, tag) => {
                self.open(anchor, tag, start, Content::Map { members: Map::new(), marks: Vec::new(), key: None })
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(start),
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) | Event::DocumentEnd => {
                Ok(())
            }
        }
    }

    /// A key that upstream's reader takes for something else would be another one there (`0443` is `291`).
    fn key(&mut self, text: &str, value: &Value, is_plain: bool, at: Position) -> Result<(), BuildError> {
        match scalar::name(value) {
            None => return Err(self.error(at, "a key is missing")),
            Some(name) if name != text => {
                return Err(self.error(at, format!("unquoted, the key {text} means {name}: put it in quotes")));
            }
            Some(_) => {}
        }
        if let Some(Open { content: Content::Map { key, .. }, .. }) = self.open.last_mut() {
            *key = Some(Key { name: text.to_owned(), at, is_merge: is_plain && text == MERGE });
        }
        Ok(())
    }

    fn scalar(&self, text: &str, style: ScalarStyle, tag: Option<&Tag>, at: Position) -> Result<Value, BuildError> {
        let suffix = tag.map(core_suffix);
        if suffix == Some("str") || (suffix == Some("merge") && text == MERGE) {
            return Ok(text.into());
        }
        if tag.is_none() && style != ScalarStyle::Plain {
            return Ok(text.into());
        }
        let value = scalar::resolve(text).map_err(|scalar::NotFinite| {
            self.error(at, format!("{text} is no number that an object can hold; as text, put it in quotes"))
        })?;
        let Some(tag) = tag else { return Ok(value) };
        let is_so = match core_suffix(tag) {
            "null" => value.is_null(),
            "bool" => value.is_boolean(),
            "int" => value.is_i64() || value.is_u64(),
            "float" => value.is_number(),
            _ => return Err(self.unsupported(tag, at)),
        };
        if is_so { Ok(value) } else { Err(self.error(at, format!("{text:?} is no {}", tag.suffix))) }
    }

    fn unsupported(&self, tag: &Tag, at: Position) -> BuildError {
        self.error(at, format!("tag {tag} is not supported"))
    }

    fn open(
        &mut self,
        anchor: usize,
        tag: Option<Cow<'_, Tag>>,
        start: Position,
        content: Content,
    ) -> Result<(), BuildError> {
        let own = match content {
            Content::List(..) => "seq",
            Content::Map { .. } => "map",
        };
        if let Some(tag) = tag.filter(|tag| core_suffix(tag) != own) {
            return Err(self.unsupported(&tag, start));
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(self.error(start, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        if let Some(Open { content: Content::Map { key: None, .. }, .. }) = self.open.last() {
            return Err(self.error(start, "a key must be plain text, not a list or mapping"));
        }
        self.open.push(Open { anchor, start, content });
        Ok(())
    }

    fn close(&mut self, at: Position) -> Result<(), BuildError> {
        let Some(open) = self.open.pop() else { return Err(self.error(at, "unbalanced end of a collection")) };
        let (value, children) = match open.content {
            Content::List(items, marks) => (Value::Array(items), Children::List(marks)),
            Content::Map { members, marks, .. } => (Value::Object(members), Children::Map(marks)),
        };
        self.finish(open.anchor, (value, Marked { value: open.start, is_flat: false, children }), open.start)
    }

    /// A copy of a node, if it may be as large and as deep.
    fn copy(&mut self, value: &Value, mark: &Marked, at: Position) -> Result<Node, BuildError> {
        let Extent { bytes, depth } = extent(value);
        self.copied = self.copied.saturating_add(bytes);
        if self.copied > MAX_COPIED {
            return Err(self.error(at, format!("anchors and aliases expand to more than {MAX_COPIED} bytes")));
        }
        if self.open.len() + depth > MAX_DEPTH {
            return Err(self.error(at, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        Ok((value.clone(), mark.clone()))
    }

    /// Puts a finished node where it belongs.
    fn finish(&mut self, anchor: usize, (value, mark): Node, at: Position) -> Result<(), BuildError> {
        if anchor != 0 {
            let kept = self.copy(&value, &mark, at)?;
            self.anchors.insert(anchor, kept);
        }
        let Some(parent) = self.open.last_mut() else {
            self.documents.push((value, mark));
            self.anchors.clear();
            return Ok(());
        };
        match &mut parent.content {
            Content::List(items, marks) => {
                items.push(value);
                marks.push(mark);
            }
            Content::Map { members, marks, key } => {
                let Some(key) = key.take() else {
                    return Err(self.error(at, "a key must be plain text, not an alias"));
                };
                let added = match key.is_merge {
                    true => merged(value, mark),
                    false => Ok(vec![(key.name, key.at, value, mark)]),
                };
                let added = match added {
                    Ok(added) => added,
                    Err(reason) => return Err(self.error(key.at, reason)),
                };
                for (name, name_at, value, mark) in added {
                    if members.insert(name.clone(), value).is_some() {
                        return Err(self.error(key.at, format!("key {name:?} appears twice in one mapping")));
                    }
                    marks.push((name, name_at, mark));
                }
            }
        }
        Ok(())
    }
}

/// A member of a mapping, and where its name stands.
type Member = (String, Position, Value, Marked);

/// The members of what `<<` refers to: a mapping, or several in a list. Strict as upstream is, none of them may be there already.
fn merged(value: Value, mark: Marked) -> Result<Vec<Member>, &'static str> {
    match (value, mark.children) {
        (Value::Object(members), Children::Map(marks)) => {
            let together = members.into_iter().zip(marks);
            Ok(together.map(|((name, value), (_, at, mark))| (name, at, value, mark)).collect())
        }
        (Value::Array(items), Children::List(marks)) => {
            let mut members = Vec::new();
            for (item, mark) in items.into_iter().zip(marks) {
                members.extend(if item.is_object() { merged(item, mark)? } else { return Err(NO_MAPPING) });
            }
            Ok(members)
        }
        (Value::Array(items), _) if items.is_empty() => Ok(Vec::new()),
        _ => Err(NO_MAPPING),
    }
}

const NO_MAPPING: &str = "<< stands for the members of a mapping, or of a list of mappings";

/// The name of a tag of YAML's own (`!!int`); empty for any other. Which of them there are, the core schema says: the parser takes all
/// that are written like them (`!!python/object:…`).
fn core_suffix(tag: &Tag) -> &str {
    if tag.is_yaml_core_schema() { &tag.suffix } else { "" }
}

/// How much a node takes, and how many collections lie in one another there.
struct Extent {
    bytes: usize,
    depth: usize,
}

fn extent(value: &Value) -> Extent {
    let around = |parts: &mut dyn Iterator<Item = (usize, &Value)>| {
        parts.fold(Extent { bytes: NODE, depth: 1 }, |sum, (name, value)| {
            let Extent { bytes, depth } = extent(value);
            Extent { bytes: sum.bytes + name + bytes, depth: sum.depth.max(depth + 1) }
        })
    };
    match value {
        Value::Array(items) => around(&mut items.iter().map(|item| (0, item))),
        // The name stands in the value and in the positions.
        Value::Object(members) => around(&mut members.iter().map(|(name, member)| (2 * name.len(), member))),
        Value::String(text) => Extent { bytes: NODE + text.len(), depth: 0 },
        _ => Extent { bytes: NODE, depth: 0 },
    }
}
