//! The shape of documents as data: which fields a place has and how each leaf is read.
//!
//! serde builds the typed view and stops at the first fault without saying where. The tables here answer what serde cannot:
//! where *all* the faults are, which fields are unknown, and which parts of a raw document the typed view does not cover. They
//! are consulted only when serde failed, when a manifest is checked, and when a document is written over an older one.
//! A test holds tables and structs together.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::Fault;
use super::fault::MAX_VALUE;
use super::limit::Limit;
use super::path::Path;

/// Reads a leaf and writes it in its canonical form.
pub(super) type Leaf = fn(&Value) -> Result<Value, String>;

/// What may stand at a place.
pub(super) enum Shape {
    /// Known upstream, not to us: accepted and carried along untouched.
    Carried,
    /// A value that is read as a whole; manifests may be held to a stricter reading than stored data.
    Leaf { stored: Leaf, manifest: Leaf },
    /// Any number of one shape.
    List(&'static Self),
    /// Free keys, text values.
    TextMap,
    /// Named fields.
    Struct(&'static [Field]),
}

/// A named field.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    pub(super) required: bool,
    /// What manifests are held to beyond the shape.
    pub(super) limits: &'static [Limit],
    /// What is filled in where it is absent and its parent is there: JSON, or else text.
    pub(super) default: Option<&'static str>,
}

pub(super) const fn field(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, required: false, limits: &[], default: None }
}

pub(super) const fn required(name: &'static str, shape: Shape) -> Field {
    field(name, shape).required()
}

impl Field {
    /// A document without it is refused.
    pub(super) const fn required(self) -> Self {
        let Self { name, shape, limits, default, .. } = self;
        Self { name, shape, required: true, limits, default }
    }

    /// Manifests are held to these.
    pub(super) const fn limits(self, limits: &'static [Limit]) -> Self {
        let Self { name, shape, required, default, .. } = self;
        Self { name, shape, required, limits, default }
    }

    /// This is filled in where it is absent.
    pub(super) const fn filled_with(self, default: &'static str) -> Self {
        let Self { name, shape, required, limits, .. } = self;
        Self { name, shape, required, limits, default: Some(default) }
    }

    fn default_value(&self) -> Option<Value> {
        self.default.map(|text| serde_json::from_str(text).unwrap_or_else(|_| text.into()))
    }

    fn faults(&self, value: &Value, path: &Path<'_>, reading: Reading<'_>, faults: &mut Vec<Fault>) {
        let before = faults.len();
        self.shape.faults(value, path, reading.at_field(self.name), faults);
        if reading.is_manifest() && faults.len() == before {
            self.limits.iter().for_each(|limit| limit.faults(value, path, faults));
        }
    }
}

/// A leaf that is read alike everywhere.
pub(super) const fn leaf(read: Leaf) -> Shape {
    Shape::Leaf { stored: read, manifest: read }
}

/// Reads a leaf of type `T`.
pub(super) fn of<T: DeserializeOwned + Serialize>(value: &Value) -> Result<Value, String> {
    let typed = T::deserialize(value).map_err(|error| plain(&error.to_string()))?;
    serde_json::to_value(typed).map_err(|error| error.to_string())
}

/// serde's messages in an operator's words: without what was found (it is shown beside) and without names of Rust types.
fn plain(message: &str) -> String {
    let is_serdes = ["invalid type", "invalid value", "unknown variant"].iter().any(|begin| message.starts_with(begin));
    let Some((_, expected)) = message.split_once(", expected ").filter(|_| is_serdes) else { return message.into() };
    let expected = match expected {
        "f64" => "a number",
        "a boolean" => "true or false",
        "a string" => "text: put it in quotes",
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" | "u64" | "usize" => "a whole number, not negative",
        other => other,
    };
    alloc::format!("expected {}", expected.replace('`', ""))
}

/// How closely a document is looked at.
#[derive(Debug, Clone, Copy)]
pub(super) enum Reading<'a> {
    /// From a datastore: unknown fields are somebody else's.
    Stored,
    /// From an operator: unknown fields are refused, except those that the stored object has at the same place, and values are held
    /// closer, except those that the stored object has there.
    Manifest { stored: Option<&'a Known<'a>> },
}

/// The names that the mappings of an object have, and its texts, by place. Elements of a list have no identity, so what any of them has
/// is known for all: they are one place.
#[derive(Debug, Default)]
pub(super) struct Known<'a> {
    members: BTreeMap<&'a str, Self>,
    texts: BTreeSet<&'a str>,
}

impl<'a> Known<'a> {
    pub(super) fn of(value: &'a Value) -> Self {
        let mut known = Self::default();
        known.add(value);
        known
    }

    fn add(&mut self, value: &'a Value) {
        match value {
            Value::Object(members) => {
                members.iter().for_each(|(name, member)| self.members.entry(name.as_str()).or_default().add(member));
            }
            Value::Array(items) => items.iter().for_each(|item| self.add(item)),
            Value::String(text) => {
                self.texts.insert(text);
            }
            _ => {}
        }
    }
}

impl Reading<'_> {
    fn at_field(self, name: &str) -> Self {
        match self {
            Self::Stored => Self::Stored,
            Self::Manifest { stored } => Self::Manifest { stored: stored.and_then(|known| known.members.get(name)) },
        }
    }

    /// Whether a field that the model does not know is to be refused.
    fn refuses(self, name: &str) -> bool {
        match self {
            Self::Stored => false,
            Self::Manifest { stored } => stored.is_none_or(|known| !known.members.contains_key(name)),
        }
    }

    /// Whether the leaf is held to what manifests are held to: not if the stored object has it so. Whoever edits the rest of that
    /// object is not to answer for it.
    fn is_strict_of(self, value: &Value) -> bool {
        match self {
            Self::Stored => false,
            Self::Manifest { stored } => {
                !stored.zip(value.as_str()).is_some_and(|(known, text)| known.texts.contains(text))
            }
        }
    }

    const fn is_manifest(self) -> bool {
        matches!(self, Self::Manifest { .. })
    }
}

impl Shape {
    /// Every fault of `value`, in document order.
    pub(super) fn faults(&self, value: &Value, path: &Path<'_>, reading: Reading<'_>, faults: &mut Vec<Fault>) {
        match (self, value) {
            (Self::Carried, _) => {}
            (Self::Leaf { stored, manifest }, value) => {
                let read = if reading.is_strict_of(value) { manifest } else { stored };
                if let Err(reason) = read(value) {
                    faults.push(Fault::value(path, shown(value), reason));
                }
            }
            (Self::List(shape), Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    shape.faults(item, &path.index(index), reading, faults);
                }
            }
            (Self::TextMap, Value::Object(members)) => {
                for (name, member) in members.iter().filter(|(_, member)| !member.is_string()) {
                    let reason = "the value must be text: put it in quotes";
                    faults.push(Fault::value(path.field(name), shown(member), reason));
                }
            }
            (Self::Struct(fields), Value::Object(members)) => {
                Self::struct_faults(fields, members, path, reading, faults)
            }
            (Self::List(_), other) => faults.push(mismatch(path, other, "a list")),
            (Self::TextMap | Self::Struct(_), other) => faults.push(mismatch(path, other, "a mapping")),
        }
    }

    fn struct_faults(
        fields: &[Field],
        members: &Map<String, Value>,
        path: &Path<'_>,
        reading: Reading<'_>,
        faults: &mut Vec<Fault>,
    ) {
        for (name, member) in members {
            match fields.iter().find(|field| field.name == name) {
                Some(_) if member.is_null() => {}
                Some(field) => field.faults(member, &path.field(name), reading, faults),
                None if reading.refuses(name) => faults.push(unknown_field(&path.field(name), name, fields)),
                None => {}
            }
        }
        // Text that is empty is left out when written: where a field is mandatory, it says nothing.
        let says_nothing = |value: &Value| value.is_null() || (reading.is_manifest() && value.as_str() == Some(""));
        let absent = |name: &str| members.get(name).is_none_or(says_nothing);
        for field in fields.iter().filter(|field| field.required && absent(field.name)) {
            faults.push(Fault::missing(path.field(field.name)));
        }
    }

    /// Whether something is filled in anywhere.
    pub(super) fn has_defaults(&self) -> bool {
        match self {
            Self::List(shape) => shape.has_defaults(),
            Self::Struct(fields) => fields.iter().any(|field| field.default.is_some() || field.shape.has_defaults()),
            _ => false,
        }
    }

    /// Fills defaults in. Those of a part that is absent stay absent with it.
    pub(super) fn fill(&self, value: &mut Value) {
        match (self, value) {
            (Self::List(shape), Value::Array(items)) => items.iter_mut().for_each(|item| shape.fill(item)),
            (Self::Struct(fields), Value::Object(members)) => {
                for field in *fields {
                    match members.get_mut(field.name).filter(|member| !member.is_null()) {
                        Some(member) => field.shape.fill(member),
                        None => drop(field.default_value().map(|value| members.insert(field.name.into(), value))),
                    }
                }
            }
            _ => {}
        }
    }

    /// Whether structs are mappings all the way down; lists and leaves are for whoever reads them.
    pub(super) fn fits(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Struct(fields), Value::Object(members)) => fields
                .iter()
                .filter(|field| !matches!(field.shape, Self::Leaf { .. } | Self::Carried | Self::TextMap))
                .all(|field| members.get(field.name).is_none_or(|member| member.is_null() || field.shape.fits(member))),
            (Self::Struct(_), _) => false,
            (Self::List(shape @ Self::Struct(_)), Value::Array(items)) => items.iter().all(|item| shape.fits(item)),
            _ => true,
        }
    }

    /// The shape of a list's elements, or the shape itself.
    pub(super) const fn elements(&self) -> &Self {
        match self {
            Self::List(element) => element.elements(),
            shape => shape,
        }
    }

    /// Whether numbers with a fraction are read here, and nothing but numbers.
    pub(super) fn reads_fractions(&self) -> bool {
        matches!(self, Self::Leaf { stored, .. } if stored(&Value::from(0.5)).is_ok() && stored(&Value::Bool(true)).is_err())
    }

    /// The shape of a member of this name.
    pub(super) fn member(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Struct(fields) => fields.iter().find(|field| field.name == name).map(|field| &field.shape),
            _ => None,
        }
    }

    /// Tells of every field of `value` that the model does not know and that says something: where it is, its name, and the fields
    /// that are known there.
    pub(super) fn unknown_fields(
        &self,
        value: &Value,
        path: &Path<'_>,
        found: &mut impl FnMut(&Path<'_>, &str, &'static [Field]),
    ) {
        match (self, value) {
            (Self::List(shape), Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    shape.unknown_fields(item, &path.index(index), found);
                }
            }
            (Self::Struct(fields), Value::Object(members)) => {
                for (name, member) in members.iter().filter(|(_, member)| !member.is_null()) {
                    match self.member(name) {
                        Some(shape) => shape.unknown_fields(member, &path.field(name), found),
                        None => found(&path.field(name), name, fields),
                    }
                }
            }
            _ => {}
        }
    }

    /// The value without null members: Go writes `null` for what is empty, and an operator's empty YAML field is one.
    pub(super) fn without_nulls(&self, value: &Value) -> Value {
        match (self, value) {
            (Self::List(shape), Value::Array(items)) => items.iter().map(|item| shape.without_nulls(item)).collect(),
            (Self::Struct(fields), Value::Object(members)) => {
                let present = members.iter().filter(|(_, member)| !member.is_null());
                let pruned = present.map(|(name, member)| {
                    let known = fields.iter().find(|field| field.name == name);
                    (name.clone(), known.map_or_else(|| member.clone(), |field| field.shape.without_nulls(member)))
                });
                Value::Object(pruned.collect())
            }
            (_, other) => other.clone(),
        }
    }

    /// The part of `value` that the typed view covers, leaves in canonical form: equal results mean equal meaning.
    pub(super) fn known_part(&self, value: &Value) -> Value {
        match (self, value) {
            (Self::Leaf { stored, .. }, value) => stored(value).unwrap_or_else(|_| value.clone()),
            (Self::List(shape), Value::Array(items)) => items.iter().map(|item| shape.known_part(item)).collect(),
            (Self::Struct(fields), Value::Object(members)) => {
                let known = fields.iter().filter(|field| !matches!(field.shape, Self::Carried)).filter_map(|field| {
                    let member = members.get(field.name).filter(|member| !member.is_null())?;
                    Some((field.name.to_string(), field.shape.known_part(member)))
                });
                Value::Object(known.filter(|(_, member)| !is_empty(member)).collect())
            }
            (_, other) => other.clone(),
        }
    }
}

/// The fault of a field that is not among those that are known.
pub(super) fn unknown_field(path: &Path<'_>, name: &str, known: &[Field]) -> Fault {
    Fault::unknown_field(path, name, known.iter().map(|field| field.name))
}

/// Whether a member says as much as its absence: serialisation leaves these out.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

fn mismatch(path: &Path<'_>, value: &Value, wanted: &str) -> Fault {
    Fault::value(path, shown(value), alloc::format!("expected {wanted}, found {}", sort_of(value)))
}

/// What sort of value it is, in an operator's words.
pub(super) const fn sort_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

/// Scalars as an operator wrote them; long text is cut.
pub(super) fn shown(value: &Value) -> Option<String> {
    match value {
        // Not the whole of what may be megabytes; the fault cuts to the limit.
        Value::String(text) => Some(text.chars().take(MAX_VALUE + 1).collect()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}
