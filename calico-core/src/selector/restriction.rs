//! Conditions on single labels that a selector cannot do without.
//!
//! Indexes use them to find candidates: an item that misses one of them cannot match, whatever its other labels.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::ast::{Node, Test};

/// What must hold for one label.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Restriction {
    /// The label must be set.
    pub present: bool,
    /// The label must not be set.
    pub absent: bool,
    /// The label must have one of these values; an empty list cannot be satisfied.
    pub values: Option<Vec<Arc<str>>>,
}

impl Restriction {
    /// Whether no label can satisfy it, so that the whole selector matches nothing.
    pub fn is_unsatisfiable(&self) -> bool {
        (self.present && self.absent) || self.values.as_ref().is_some_and(Vec::is_empty)
    }

    fn present(values: Option<Vec<Arc<str>>>) -> Self {
        Self { present: true, absent: false, values }
    }

    fn and(&mut self, other: Self) {
        self.present |= other.present;
        self.absent |= other.absent;
        match (&mut self.values, other.values) {
            (Some(values), Some(others)) => values.retain(|value| others.contains(value)),
            (values @ None, others) => *values = others,
            (Some(_), None) => {}
        }
    }

    /// `None` when nothing is left to demand.
    fn or(mut self, other: &Self) -> Option<Self> {
        self.present &= other.present;
        self.absent &= other.absent;
        self.values = match (self.values.take(), &other.values) {
            (Some(mut values), Some(others)) if self.present => {
                values.extend(others.iter().cloned());
                values.sort_unstable();
                values.dedup();
                Some(values)
            }
            _ => None,
        };
        (self.present || self.absent).then_some(self)
    }
}

/// The restrictions of a tree, by label.
pub(super) fn restrictions(node: &Node) -> BTreeMap<Arc<str>, Restriction> {
    match node {
        Node::Has(label) => BTreeMap::from([(label.clone(), Restriction::present(None))]),
        Node::Test(label, test) => match test {
            Test::Equal(value) => BTreeMap::from([(label.clone(), Restriction::present(Some(vec![value.clone()])))]),
            Test::In(values) => BTreeMap::from([(label.clone(), Restriction::present(Some(values.clone())))]),
            Test::Contains(_) | Test::StartsWith(_) | Test::EndsWith(_) => {
                BTreeMap::from([(label.clone(), Restriction::present(None))])
            }
            Test::NotEqual(_) | Test::NotIn(_) => BTreeMap::new(),
        },
        Node::Not(operand) => match &**operand {
            Node::Has(label) => {
                BTreeMap::from([(label.clone(), Restriction { absent: true, ..Restriction::default() })])
            }
            _ => BTreeMap::new(),
        },
        Node::And(operands) => {
            let mut all = BTreeMap::<Arc<str>, Restriction>::new();
            for (label, restriction) in operands.iter().flat_map(restrictions) {
                all.entry(label).or_default().and(restriction);
            }
            all
        }
        Node::Or(operands) => {
            let mut branches = operands.iter().map(restrictions);
            let first = branches.next().unwrap_or_default();
            branches.fold(first, |common, branch| {
                let both = common.into_iter().filter_map(|(label, restriction)| {
                    let restriction = restriction.or(branch.get(&label)?)?;
                    Some((label, restriction))
                });
                both.collect()
            })
        }
        Node::All | Node::Global => BTreeMap::new(),
    }
}
