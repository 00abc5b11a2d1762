//! The parsed form.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// One node of a parsed selector.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "indexes compile every form; a new one must break them")]
pub enum Node {
    /// `all()`: everything.
    All,
    /// `global()`: evaluates as `all()`; as a rule's whole namespace selector it means "in no namespace".
    Global,
    /// `has(label)`.
    Has(Arc<str>),
    /// `label <operator> value`.
    Test(Arc<str>, Test),
    /// `!operand`.
    Not(Box<Self>),
    /// `a && b …`, at least two operands.
    And(Vec<Self>),
    /// `a || b …`, at least two operands.
    Or(Vec<Self>),
}

/// A comparison of a label's value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "indexes compile every form; a new one must break them")]
pub enum Test {
    /// `==`.
    Equal(Arc<str>),
    /// `!=`; true where the label is absent.
    NotEqual(Arc<str>),
    /// `contains`.
    Contains(Arc<str>),
    /// `starts with`.
    StartsWith(Arc<str>),
    /// `ends with`.
    EndsWith(Arc<str>),
    /// `in {…}`; sorted by bytes, no duplicates.
    In(Vec<Arc<str>>),
    /// `not in {…}`; sorted by bytes, no duplicates; true where the label is absent.
    NotIn(Vec<Arc<str>>),
}

impl Node {
    /// Calls `visit` with every label name, in order of appearance, repetitions included.
    pub fn for_each_label<'a>(&'a self, visit: &mut impl FnMut(&'a Arc<str>)) {
        match self {
            Self::All | Self::Global => {}
            Self::Has(label) | Self::Test(label, _) => visit(label),
            Self::Not(operand) => operand.for_each_label(visit),
            Self::And(operands) | Self::Or(operands) => {
                operands.iter().for_each(|operand| operand.for_each_label(visit));
            }
        }
    }

    /// Rebuilds the tree with `leaf` applied to every node that has no operands. Double negations vanish, because upstream does
    /// such rewriting on text and parses it again, which collapses them.
    pub(super) fn rewrite(&self, leaf: &impl Fn(&Self) -> Self) -> Self {
        match self {
            Self::Not(operand) => match operand.rewrite(leaf) {
                Self::Not(inner) => *inner,
                other => Self::Not(Box::new(other)),
            },
            Self::And(operands) => Self::And(operands.iter().map(|operand| operand.rewrite(leaf)).collect()),
            Self::Or(operands) => Self::Or(operands.iter().map(|operand| operand.rewrite(leaf)).collect()),
            other => leaf(other),
        }
    }
}
