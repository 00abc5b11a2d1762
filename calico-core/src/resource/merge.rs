//! Unknown fields survive a rewrite, or are named.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::iter;
use core::ops::Range;

use serde_json::{Map, Value};

use super::Kind;
use super::fault::{MAX_PATH, clipped};
use super::path::Path;
use super::shape::{Field, Shape};

/// `typed` plus whatever `base` (an older document of the same object) has that the typed view does not cover: fields of newer
/// versions and fields this model only carries.
///
/// What the typed view covers is taken from `typed` alone, deletions included; a value that says the same as the older one keeps the
/// older one's words (`FD00::1` stays, which the typed view writes as `fd00::1`). In lists, which have no identity, unknown fields
/// follow an element whose known part is unchanged, and stay where as many elements were changed as there were. Unknown members that
/// `typed` already has are never overwritten.
pub fn merge_unknown(kind: Kind, base: &Value, typed: Value) -> Value {
    over(kind.shape(), base, typed)
}

/// [`merge_unknown`] for a document of any shape.
pub(super) fn over(shape: &Shape, base: &Value, typed: Value) -> Value {
    let is_known = |field: &Field, _: &Path<'_>| !matches!(field.shape, Shape::Carried);
    Merge { is_known: &is_known, keeps_words: true, lost: Vec::new() }.value(shape, base, typed, &Path::Root)
}

/// What came of [`merge_newer`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Merged {
    /// The document to store.
    pub document: Value,
    /// Fields of the stored document that no part of the model knows and that are gone: paths from its root. What they belonged to was
    /// taken away, or nobody can say what became of it.
    pub lost: Vec<String>,
}

/// As [`merge_unknown`], for an operator's whole document: fields that this model knows of but only carries are the operator's too,
/// so their absence deletes them; only fields that no part of the model knows, and a status that the document does not have, are
/// carried over. What the operator says is stored in the operator's words.
pub fn merge_newer(kind: Kind, stored: &Value, given: Value) -> Merged {
    let has_status = given.get("status").is_some();
    let is_known =
        |field: &Field, place: &Path<'_>| has_status || field.name != "status" || !matches!(place, Path::Root);
    let mut merge = Merge { is_known: &is_known, keeps_words: false, lost: Vec::new() };
    let document = merge.value(kind.shape(), stored, given, &Path::Root);
    Merged { document, lost: merge.lost }
}

/// A merge under way. Paths are those of the older document.
struct Merge<'a> {
    /// Whether the typed view covers a field of the struct at a place.
    is_known: &'a dyn Fn(&Field, &Path<'_>) -> bool,
    /// Whether a value that says the same as the older one keeps the older one's words.
    keeps_words: bool,
    lost: Vec<String>,
}

impl Merge<'_> {
    fn value(&mut self, shape: &Shape, base: &Value, typed: Value, path: &Path<'_>) -> Value {
        match (shape, base, typed) {
            (Shape::Struct(fields), Value::Object(base), Value::Object(mut typed)) => {
                for (name, older) in base {
                    match fields.iter().find(|field| field.name == name).filter(|field| (self.is_known)(field, path)) {
                        Some(field) => {
                            let path = path.field(name);
                            if let Some(slot) = typed.get_mut(name) {
                                *slot = self.value(&field.shape, older, slot.take(), &path);
                            } else if let Some(rest) = self.unknown_rest(&field.shape, older, &path) {
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
            (Shape::List(shape), Value::Array(base), Value::Array(typed)) => self.list(shape, base, typed, path),
            (Shape::Leaf { .. }, base, typed) if self.keeps_words && shape.known_part(base) == typed => base.clone(),
            (shape, base, typed) => {
                self.lose(shape, base, path, &BTreeSet::new());
                typed
            }
        }
    }

    fn list(&mut self, shape: &Shape, base: &[Value], typed: Vec<Value>, path: &Path<'_>) -> Value {
        let known =
            |list: &[Value]| list.iter().map(|element| canonical(shape.known_part(element))).collect::<Vec<_>>();
        let pairs = pairs(&known(base), &known(&typed));
        let alone = typed.iter().zip(&pairs).filter(|(_, pair)| pair.is_none());
        let mentioned = alone.flat_map(|(element, _)| unknown_fields(shape, element, &Path::Root)).collect();
        let taken: BTreeSet<usize> = pairs.iter().copied().flatten().collect();
        for (index, older) in base.iter().enumerate().filter(|(index, _)| !taken.contains(index)) {
            self.lose(shape, older, &path.index(index), &mentioned);
        }
        let pair =
            |(element, pair): (Value, Option<usize>)| match pair.and_then(|index| Some((index, base.get(index)?))) {
                Some((index, older)) => self.value(shape, older, element, &path.index(index)),
                None => element,
            };
        Value::Array(typed.into_iter().zip(pairs).map(pair).collect())
    }

    /// The typed view leaves out a member that is empty to it. If it was empty to it in the older document too, then nobody deleted
    /// it, and what only the older document knows lives on.
    fn unknown_rest(&mut self, shape: &Shape, older: &Value, path: &Path<'_>) -> Option<Value> {
        if !matches!((shape, older), (Shape::Struct(_), Value::Object(_))) || !is_blank(&shape.known_part(older)) {
            self.lose(shape, older, path, &BTreeSet::new());
            return None;
        }
        let rest = self.value(shape, older, Value::Object(Map::new()), path);
        let is_empty = rest.as_object().is_some_and(Map::is_empty);
        (!is_empty).then_some(rest)
    }

    /// Notes what nobody knows in an older value that is not taken over, but what those in its place mention themselves.
    fn lose(&mut self, shape: &Shape, older: &Value, path: &Path<'_>, mentioned: &BTreeSet<String>) {
        let within = unknown_fields(shape, older, &Path::Root);
        let lost = unknown_fields(shape, older, path).zip(within).filter(|(_, within)| !mentioned.contains(within));
        self.lost.extend(lost.map(|(path, _)| path));
    }
}

/// Whether a value says nothing: it holds no element, and no scalar but the zero that typed counters leave out.
fn is_blank(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.values().all(is_blank),
        Value::Array(elements) => elements.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        _ => false,
    }
}

/// Paths of the fields that the model does not know.
fn unknown_fields(shape: &Shape, value: &Value, path: &Path<'_>) -> impl Iterator<Item = String> {
    let mut found = Vec::new();
    shape.unknown_fields(value, path, &mut |path, _, _| found.push(clipped(path.to_string(), MAX_PATH)));
    found.into_iter()
}

/// Text that is equal for equal values, and has an order.
fn canonical(mut value: Value) -> String {
    value.sort_all_objects();
    value.to_string()
}

/// For each element the older one that it was: an equal one, in the same order, and between two such pairs the one at the same place
/// if there are as many on both sides.
fn pairs<T: Ord>(older: &[T], newer: &[T]) -> Vec<Option<usize>> {
    let mut places: BTreeMap<&T, Vec<usize>> = BTreeMap::new();
    for (place, element) in older.iter().enumerate() {
        places.entry(element).or_default().push(place);
    }
    let mut pairs = Vec::with_capacity(newer.len());
    let mut from = 0;
    let mut alone = 0;
    for element in newer {
        let equal = places.get(element).and_then(|places| {
            // Ascending.
            places.get(places.partition_point(|place| *place < from)).copied()
        });
        match equal {
            Some(equal) => {
                pairs.extend(by_place(from..equal, alone));
                pairs.push(Some(equal));
                (from, alone) = (equal + 1, 0);
            }
            None => alone += 1,
        }
    }
    pairs.extend(by_place(from..older.len(), alone));
    pairs
}

/// Pairs for so many elements: those of the range if they are as many, else none.
fn by_place(older: Range<usize>, count: usize) -> impl Iterator<Item = Option<usize>> {
    let is_same = older.len() == count;
    older.map(Some).filter(move |_| is_same).chain(iter::repeat_n(None, if is_same { 0 } else { count }))
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// As the rule is told: the first equal pair cuts both lists in two.
    fn twin(older: &[u8], newer: &[u8]) -> Vec<Option<usize>> {
        let first =
            newer.iter().enumerate().find_map(|(at, one)| Some((older.iter().position(|other| other == one)?, at)));
        let (equal, at) = first.unwrap_or((older.len(), newer.len()));
        let mut pairs: Vec<_> = (0..at).map(|place| (equal == at).then_some(place)).collect();
        if first.is_some() {
            pairs.push(Some(equal));
            let rest = twin(&older[equal + 1..], &newer[at + 1..]);
            pairs.extend(rest.into_iter().map(|pair| pair.map(|place| place + equal + 1)));
        }
        pairs
    }

    proptest! {
        #[test]
        fn pairs_are_those_of_the_rule(older in prop::collection::vec(0..6_u8, 0..9), newer in prop::collection::vec(0..6_u8, 0..9)) {
            prop_assert_eq!(pairs(&older, &newer), twin(&older, &newer));
        }
    }

    /// Compared pair by pair this would not end.
    #[test]
    fn long_lists_of_different_elements_are_paired() {
        let older: Vec<usize> = (0..500_000).collect();
        let newer: Vec<usize> = (500_000..1_000_000).chain([499_999]).collect();
        let pairs = pairs(&older, &newer);
        assert_eq!((pairs[0], pairs[500_000]), (None, Some(499_999)));
    }

    #[test]
    fn what_is_not_changed_keeps_its_words() {
        let stored = json!({"spec": {"nets": ["FD00:0::1", "10.1.2.3/24", "10.0.0.1"], "later": 1}});
        let typed = json!({"spec": {"nets": ["fd00::1/128", "10.9.0.0/16", "10.0.0.1/32"]}});
        let merged = merge_unknown(Kind::GlobalNetworkSet, &stored, typed);
        assert_eq!(merged["spec"], json!({"nets": ["FD00:0::1", "10.9.0.0/16", "10.0.0.1"], "later": 1}));
        let typed = json!({"spec": {"nets": ["10.0.0.1/32", "fd00::1/128"]}});
        let merged = merge_unknown(Kind::GlobalNetworkSet, &stored, typed);
        assert_eq!(merged["spec"]["nets"], json!(["10.0.0.1", "fd00::1/128"]), "in another order");
    }

    #[test]
    fn an_operators_words_are_stored_as_they_are_written() {
        let stored = json!({"spec": {"nets": ["10.1.2.3/24", "FD00:0::1"], "later": 1}});
        for nets in [["10.1.2.0/24", "fd00::1/128"], ["10.1.2.9/24", "FD00:0::1/128"]] {
            let merged = merge_newer(Kind::GlobalNetworkSet, &stored, json!({"spec": {"nets": nets}}));
            assert_eq!(merged.document["spec"], json!({"nets": nets, "later": 1}));
        }
    }

    fn merged(stored: Value, given: Value) -> (Value, Vec<String>) {
        let document = |rules: Value| json!({"spec": {"ingress": rules}});
        let merged = merge_newer(Kind::GlobalNetworkPolicy, &document(stored), document(given));
        (merged.document["spec"]["ingress"].clone(), merged.lost)
    }

    #[test]
    fn what_nobody_knows_stays_with_a_changed_rule_or_is_named() {
        let deny = json!({"action": "Deny"});
        let (new, changed) = (json!({"action": "Allow", "later": 1}), json!({"action": "Pass"}));
        let nested = json!({"action": "Allow", "source": {"later": 2, "selector": "all()"}});
        let none: Vec<String> = vec![];

        let (rules, lost) = merged(json!([deny, new, deny]), json!([deny, changed, deny]));
        assert_eq!((&rules[1], lost), (&json!({"action": "Pass", "later": 1}), none.clone()), "changed");
        let (rules, lost) = merged(json!([new, deny]), json!([deny, changed, changed]));
        assert_eq!(
            (rules, lost),
            (json!([deny, changed, changed]), vec!["spec.ingress[0].later".into()]),
            "moved and changed"
        );
        let (_, lost) = merged(json!([deny, nested]), json!([deny]));
        assert_eq!(lost, ["spec.ingress[1].source.later"], "removed");
        let (_, lost) = merged(json!([deny, nested]), json!(null));
        assert_eq!(lost, ["spec.ingress[1].source.later"], "all removed");
        let (_, lost) = merged(json!([nested]), json!([{"action": "Allow"}]));
        assert_eq!(lost, ["spec.ingress[0].source.later"], "what it was part of removed");
        let own = json!({"action": "Log", "later": 3});
        let (rules, lost) = merged(json!([new, deny]), json!([own, changed, deny]));
        assert_eq!((rules, lost), (json!([own, changed, deny]), none), "the operator speaks of it");
    }
}
