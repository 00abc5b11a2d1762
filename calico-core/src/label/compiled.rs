//! Selectors over symbols: the form that the index evaluates.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::interner::{Interner, Symbol};
use crate::selector::{Node, Restriction, Selector, Test};

/// Labels as an index sees them: sorted by name.
pub(super) type Labels = [(Symbol, Symbol)];

/// The value of a label.
pub(super) fn value_of(pairs: &Labels, name: Symbol) -> Option<Symbol> {
    let position = pairs.binary_search_by_key(&name, |pair| pair.0).ok()?;
    pairs.get(position).map(|pair| pair.1)
}

/// A selector whose names and values are symbols. Negative comparisons are negated positive ones, which makes them true where
/// the label is absent, as the language demands.
#[derive(Debug)]
enum Condition {
    Always,
    Has(Symbol),
    Equal(Symbol, Symbol),
    In(Symbol, Box<[Symbol]>),
    Text(Symbol, Box<Test>),
    Not(Box<Self>),
    And(Box<[Self]>),
    Or(Box<[Self]>),
}

/// Where a selector is looked up: the one label that narrows the search most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Anchor {
    /// It demands that this label has this value.
    Value(Symbol, Symbol),
    /// It demands that this label has one of these values.
    Values(Symbol, Box<[Symbol]>),
    /// It demands that this label is set.
    Present(Symbol),
    /// It demands nothing that an index could use.
    None,
    /// It can never match.
    Never,
}

/// A selector ready for evaluation. It holds its symbols until [`Compiled::release`].
#[derive(Debug)]
pub(super) struct Compiled {
    condition: Condition,
    pub(super) anchor: Anchor,
    /// Whether its matches have been worked out.
    pub(super) settled: bool,
}

impl Compiled {
    pub(super) fn new(selector: &Selector, strings: &mut Interner) -> Self {
        let condition = compile(selector.root(), strings);
        Self { condition, anchor: anchor(selector, strings), settled: false }
    }

    pub(super) fn matches(&self, pairs: &Labels, strings: &Interner) -> bool {
        self.condition.matches(pairs, strings)
    }

    pub(super) fn release(self, strings: &mut Interner) {
        self.condition.release(strings);
        self.anchor
            .name()
            .into_iter()
            .chain(self.anchor.values().iter().copied())
            .for_each(|symbol| strings.release(symbol));
    }
}

impl Anchor {
    pub(super) const fn name(&self) -> Option<Symbol> {
        match self {
            Self::Value(name, _) | Self::Values(name, _) | Self::Present(name) => Some(*name),
            Self::None | Self::Never => None,
        }
    }

    pub(super) fn values(&self) -> &[Symbol] {
        match self {
            Self::Value(_, value) => core::slice::from_ref(value),
            Self::Values(_, values) => values,
            Self::Present(_) | Self::None | Self::Never => &[],
        }
    }
}

fn compile(node: &Node, strings: &mut Interner) -> Condition {
    match node {
        Node::All | Node::Global => Condition::Always,
        Node::Has(name) => Condition::Has(strings.acquire(name)),
        Node::Test(name, test) => {
            let name = strings.acquire(name);
            let mut set = |values: &[alloc::sync::Arc<str>]| {
                let mut symbols: Vec<Symbol> = values.iter().map(|value| strings.acquire(value)).collect();
                symbols.sort_unstable();
                Condition::In(name, symbols.into())
            };
            match test {
                Test::Equal(value) => Condition::Equal(name, strings.acquire(value)),
                Test::NotEqual(value) => Condition::Not(Box::new(Condition::Equal(name, strings.acquire(value)))),
                Test::In(values) => set(values),
                Test::NotIn(values) => Condition::Not(Box::new(set(values))),
                Test::Contains(_) | Test::StartsWith(_) | Test::EndsWith(_) => {
                    Condition::Text(name, Box::new(test.clone()))
                }
            }
        }
        Node::Not(operand) => Condition::Not(Box::new(compile(operand, strings))),
        Node::And(operands) => Condition::And(operands.iter().map(|operand| compile(operand, strings)).collect()),
        Node::Or(operands) => Condition::Or(operands.iter().map(|operand| compile(operand, strings)).collect()),
    }
}

/// Fewest values first, then presence of any label.
fn anchor(selector: &Selector, strings: &mut Interner) -> Anchor {
    let restrictions = selector.restrictions();
    if restrictions.values().any(Restriction::is_unsatisfiable) {
        return Anchor::Never;
    }
    let by_values = restrictions.iter().filter_map(|(name, restriction)| Some((name, restriction.values.as_ref()?)));
    if let Some((name, values)) = by_values.min_by_key(|(_, values)| values.len()) {
        let name = strings.acquire(name);
        return match &**values {
            [value] => Anchor::Value(name, strings.acquire(value)),
            values => Anchor::Values(name, values.iter().map(|value| strings.acquire(value)).collect()),
        };
    }
    match restrictions.iter().find(|(_, restriction)| restriction.present) {
        Some((name, _)) => Anchor::Present(strings.acquire(name)),
        None => Anchor::None,
    }
}

impl Condition {
    fn matches(&self, pairs: &Labels, strings: &Interner) -> bool {
        match self {
            Self::Always => true,
            Self::Has(name) => value_of(pairs, *name).is_some(),
            Self::Equal(name, operand) => value_of(pairs, *name) == Some(*operand),
            Self::In(name, values) => value_of(pairs, *name).is_some_and(|value| values.binary_search(&value).is_ok()),
            Self::Text(name, test) => test.matches(value_of(pairs, *name).map(|value| strings.text(value))),
            Self::Not(operand) => !operand.matches(pairs, strings),
            Self::And(operands) => operands.iter().all(|operand| operand.matches(pairs, strings)),
            Self::Or(operands) => operands.iter().any(|operand| operand.matches(pairs, strings)),
        }
    }

    fn release(&self, strings: &mut Interner) {
        match self {
            Self::Always => {}
            Self::Has(name) | Self::Text(name, _) => strings.release(*name),
            Self::Equal(name, value) => {
                strings.release(*name);
                strings.release(*value);
            }
            Self::In(name, values) => {
                strings.release(*name);
                values.iter().for_each(|value| strings.release(*value));
            }
            Self::Not(operand) => operand.release(strings),
            Self::And(operands) | Self::Or(operands) => {
                operands.iter().for_each(|operand| operand.release(strings));
            }
        }
    }
}
