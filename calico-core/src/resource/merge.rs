//! Unknown fields survive a rewrite.

use alloc::vec::Vec;

use serde_json::{Map, Value};

use super::Kind;
use super::shape::{Field, Shape};

/// `typed` plus whatever `base` (an older document of the same object) has that the typed view does not cover: fields of newer
/// versions and fields this model only carries.
///
/// What the typed view covers is taken from `typed` alone, deletions included. In lists, which have no identity, unknown fields
/// follow an element only if its known part is unchanged; the pairing keeps the order. Members that `typed` already has are never
/// overwritten.
pub fn merge_unknown(kind: Kind, base: &Value, typed: Value) -> Value {
    merge(kind.shape(), base, typed, &|field| !matches!(field.shape, Shape::Carried))
}

/// As [`merge_unknown`], for an operator's whole document: fields that this model knows of but only carries are the operator's too,
/// so their absence deletes them; only fields that no part of the model knows, and the status, are carried over.
pub fn merge_newer(kind: Kind, stored: &Value, given: Value) -> Value {
    merge(kind.shape(), stored, given, &|field| field.name != "status")
}

fn merge(shape: &Shape, base: &Value, typed: Value, is_known: &dyn Fn(&Field) -> bool) -> Value {
    match (shape, base, typed) {
        (Shape::Struct(fields), Value::Object(base), Value::Object(mut typed)) => {
            for (name, older) in base {
                match fields.iter().find(|field| field.name == name).filter(|field| is_known(field)) {
                    Some(field) => {
                        if let Some(slot) = typed.get_mut(name) {
                            *slot = merge(&field.shape, older, slot.take(), is_known);
                        } else if let Some(rest) = unknown_rest(&field.shape, older, is_known) {
                            typed.insert(name.clone(), rest);
                        }
                    }
                    None if typed.contains_key(name) => {}
                    None => {
                        typed.insert(name.clone(), older.clone());
                    }
                }
            }
            Value::Object(typed)
        }
        (Shape::List(shape), Value::Array(base), Value::Array(typed)) => merge_list(shape, base, typed, is_known),
        (_, _, typed) => typed,
    }
}

fn merge_list(shape: &Shape, base: &[Value], typed: Vec<Value>, is_known: &dyn Fn(&Field) -> bool) -> Value {
    if !matches!(shape, Shape::Struct(_)) {
        return Value::Array(typed);
    }
    let mut older = base.iter().map(|element| (shape.known_part(element), element)).peekable();
    let pair = |element: Value| {
        let known = shape.known_part(&element);
        let mut rest = older.clone();
        match rest.find(|(other, _)| *other == known) {
            Some((_, base)) => {
                older = rest;
                merge(shape, base, element, is_known)
            }
            None => element,
        }
    };
    Value::Array(typed.into_iter().map(pair).collect())
}

/// The typed view leaves out a member that is empty to it. If it was empty to it in the older document too, then nobody deleted it,
/// and what only the older document knows lives on.
fn unknown_rest(shape: &Shape, older: &Value, is_known: &dyn Fn(&Field) -> bool) -> Option<Value> {
    let (Shape::Struct(_), Value::Object(_)) = (shape, older) else { return None };
    let is_empty = |value: &Value| value.as_object().is_some_and(Map::is_empty);
    if !is_empty(&shape.known_part(older)) {
        return None;
    }
    let rest = merge(shape, older, Value::Object(Map::new()), is_known);
    (!is_empty(&rest)).then_some(rest)
}
