//! Evaluation against labels.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;

use super::ast::{Node, Test};
use crate::text::{Text, TextMap};

/// Where a selector looks values up.
pub trait Labels {
    /// The value of a label, if it is set.
    fn value(&self, key: &str) -> Option<&str>;
}

impl Labels for BTreeMap<String, String> {
    fn value(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

impl Labels for TextMap {
    fn value(&self, key: &str) -> Option<&str> {
        self.get(key).map(Text::as_str)
    }
}

impl<L: Labels + ?Sized> Labels for &L {
    fn value(&self, key: &str) -> Option<&str> {
        (**self).value(key)
    }
}

/// An item's own labels, then those of its parents (profiles) in order: the first that has the key decides.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals: own labels and parents, nothing else")]
pub struct Inherited<'a, L> {
    /// The item's own labels.
    pub own: &'a L,
    /// Its parents' labels, in the order in which the item names them.
    pub parents: &'a [&'a L],
}

impl<L: Labels> Labels for Inherited<'_, L> {
    fn value(&self, key: &str) -> Option<&str> {
        self.own.value(key).or_else(|| self.parents.iter().find_map(|parent| parent.value(key)))
    }
}

pub(super) fn matches(node: &Node, labels: &(impl Labels + ?Sized)) -> bool {
    match node {
        Node::All | Node::Global => true,
        Node::Has(label) => labels.value(label).is_some(),
        Node::Test(label, test) => test.matches(labels.value(label)),
        Node::Not(operand) => !matches(operand, labels),
        Node::And(operands) => operands.iter().all(|operand| matches(operand, labels)),
        Node::Or(operands) => operands.iter().any(|operand| matches(operand, labels)),
    }
}

impl Test {
    /// Whether a label with this value (or no value, where it is absent) passes.
    pub fn matches(&self, value: Option<&str>) -> bool {
        let listed = |values: &[Arc<str>], value: &str| values.binary_search_by(|item| (**item).cmp(value)).is_ok();
        match (self, value) {
            (Self::NotEqual(_) | Self::NotIn(_), None) => true,
            (_, None) => false,
            (Self::Equal(operand), Some(value)) => **operand == *value,
            (Self::NotEqual(operand), Some(value)) => **operand != *value,
            (Self::Contains(operand), Some(value)) => value.contains(&**operand),
            (Self::StartsWith(operand), Some(value)) => value.starts_with(&**operand),
            (Self::EndsWith(operand), Some(value)) => value.ends_with(&**operand),
            (Self::In(values), Some(value)) => listed(values, value),
            (Self::NotIn(values), Some(value)) => !listed(values, value),
        }
    }
}
