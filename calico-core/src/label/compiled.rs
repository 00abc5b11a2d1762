//! Selectors over symbols: the form that the index evaluates.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::interner::Symbol;
use super::projection::value_of;
use super::strings::{Label, Strings};
use crate::selector::{Node, Selector, Test};

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
    pub(super) fn new(selector: &Selector, strings: &mut Strings) -> Self {
        let condition = compile(selector.root(), strings);
        Self { condition, anchor: anchor(selector, strings), settled: false }
    }

    pub(super) fn matches(&self, labels: &[Label], strings: &Strings) -> bool {
        self.condition.matches(labels, strings)
    }

    pub(super) fn release(self, strings: &mut Strings) {
        self.condition.release(strings);
        self.anchor.name().into_iter().for_each(|name| strings.names.release(name));
        self.anchor.values().iter().for_each(|value| strings.values.release(*value));
    }

    /// Tells what it uses of labels, a thing as often as it does. Everything that its anchor names is among that.
    pub(super) fn visit(&self, tell: &mut impl FnMut(Use)) {
        self.condition.visit(tell);
    }
}

/// One thing that a selector uses of labels.
#[derive(Debug, Clone, Copy)]
pub(super) enum Use {
    /// Whether there is a label of that name.
    Name(Symbol),
    /// Whether it has that value.
    Value(Symbol, Symbol),
    /// The text of its value.
    Text(Symbol),
}

impl Use {
    pub(super) const fn name(self) -> Symbol {
        match self {
            Self::Name(name) | Self::Value(name, _) | Self::Text(name) => name,
        }
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

fn compile(node: &Node, strings: &mut Strings) -> Condition {
    match node {
        Node::All | Node::Global => Condition::Always,
        Node::Has(name) => Condition::Has(strings.names.acquire(name)),
        Node::Test(name, test) => {
            let name = strings.names.acquire(name);
            let mut set = |values: &[alloc::sync::Arc<str>]| {
                let mut symbols: Vec<Symbol> = values.iter().map(|value| strings.values.acquire(value)).collect();
                symbols.sort_unstable();
                Condition::In(name, symbols.into())
            };
            match test {
                Test::Equal(value) => Condition::Equal(name, strings.values.acquire(value)),
                Test::NotEqual(value) => {
                    Condition::Not(Box::new(Condition::Equal(name, strings.values.acquire(value))))
                }
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

/// The best of what a selector cannot do without: fewest values first, then presence of a label. `None` if it demands nothing.
fn demand(node: &Node) -> Option<Demand<'_>> {
    match node {
        Node::Has(name) => Some(Demand { name, values: None }),
        Node::Test(name, test) => match test {
            Test::Equal(value) => Some(Demand { name, values: Some(vec![value]) }),
            Test::In(values) => Some(Demand { name, values: Some(values.iter().map(|value| &**value).collect()) }),
            Test::Contains(_) | Test::StartsWith(_) | Test::EndsWith(_) => Some(Demand { name, values: None }),
            Test::NotEqual(_) | Test::NotIn(_) => None,
        },
        Node::And(operands) => operands.iter().filter_map(demand).min_by_key(Demand::width),
        // All branches must demand the same label.
        Node::Or(operands) => operands.iter().map(demand).reduce(|one, other| one?.or(other?)).flatten(),
        Node::Not(_) | Node::All | Node::Global => None,
    }
}

/// Labels of which a selector needs one, if it does; of none it can never match.
pub(crate) fn needed(selector: &Selector) -> Option<Vec<(&str, &str)>> {
    let Demand { name, values } = demand(selector.root())?;
    Some(values?.into_iter().map(|value| (name, value)).collect())
}

/// That a label is there, and perhaps has one of some values.
struct Demand<'a> {
    name: &'a str,
    values: Option<Vec<&'a str>>,
}

impl Demand<'_> {
    fn width(&self) -> usize {
        self.values.as_ref().map_or(usize::MAX, Vec::len)
    }

    /// What is left of it if something else will do as well.
    fn or(mut self, other: Self) -> Option<Self> {
        self.values = self.values.zip(other.values).map(|(mut values, others)| {
            values.extend(others);
            values.sort_unstable();
            values.dedup();
            values
        });
        (self.name == other.name).then_some(self)
    }
}

fn anchor(selector: &Selector, strings: &mut Strings) -> Anchor {
    let Some(demand) = demand(selector.root()) else { return Anchor::None };
    let name = match &demand.values {
        // No value at all is left.
        Some(values) if values.is_empty() => return Anchor::Never,
        _ => strings.names.acquire(demand.name),
    };
    match demand.values.as_deref() {
        None => Anchor::Present(name),
        Some([value]) => Anchor::Value(name, strings.values.acquire(value)),
        Some(values) => Anchor::Values(name, values.iter().map(|value| strings.values.acquire(value)).collect()),
    }
}

impl Condition {
    fn matches(&self, labels: &[Label], strings: &Strings) -> bool {
        match self {
            Self::Always => true,
            Self::Has(name) => value_of(labels, *name).is_some(),
            Self::Equal(name, operand) => value_of(labels, *name) == Some(*operand),
            Self::In(name, values) => value_of(labels, *name).is_some_and(|value| values.binary_search(&value).is_ok()),
            Self::Text(name, test) => test.matches(value_of(labels, *name).map(|value| strings.values.text(value))),
            Self::Not(operand) => !operand.matches(labels, strings),
            Self::And(operands) => operands.iter().all(|operand| operand.matches(labels, strings)),
            Self::Or(operands) => operands.iter().any(|operand| operand.matches(labels, strings)),
        }
    }

    fn visit(&self, tell: &mut impl FnMut(Use)) {
        match self {
            Self::Always => {}
            Self::Has(name) => tell(Use::Name(*name)),
            Self::Text(name, _) => tell(Use::Text(*name)),
            Self::Equal(name, value) => tell(Use::Value(*name, *value)),
            Self::In(name, values) => {
                tell(Use::Name(*name));
                values.iter().for_each(|value| tell(Use::Value(*name, *value)));
            }
            Self::Not(operand) => operand.visit(tell),
            Self::And(operands) | Self::Or(operands) => operands.iter().for_each(|operand| operand.visit(tell)),
        }
    }

    /// Gives up the symbols that it was compiled with.
    fn release(&self, strings: &mut Strings) {
        match self {
            Self::Always => {}
            Self::Has(name) | Self::Text(name, _) => strings.names.release(*name),
            Self::Equal(name, value) => strings.release((*name, *value)),
            Self::In(name, values) => {
                strings.names.release(*name);
                values.iter().for_each(|value| strings.values.release(*value));
            }
            Self::Not(operand) => operand.release(strings),
            Self::And(operands) | Self::Or(operands) => {
                operands.iter().for_each(|operand| operand.release(strings));
            }
        }
    }
}
