//! Go's template language, for `-o go-template=`: upstream's scripts use it.
//!
//! In comes a template, parsed once, and the documents that were found; out comes text. The language is that of Go's `text/template`,
//! with these differences:
//!
//! - There is no `call`, since documents hold no functions, no complex number, and no hexadecimal fraction.
//! - Upstream's templates run over its Go values, ours over documents: fields are found by their name in the document in any case
//!   (`.Spec.CIDR` is `cidr`), `.ObjectMeta` and `.ListMeta` are `metadata`, whose fields need not be preceded by it. There are no
//!   methods. A whole number is one, also where Go has a `float64` (of an order of a million Go prints `1e+06`).
//! - What is absent is nothing: it prints nothing, is false, has no length, and equals zero and the empty text.
//! - `printf` knows the verbs `v s q d x X o b c e E f F g G t T %`, the flags `-`, `0`, `+`, width and precision as digits; no
//!   indexes of arguments.
//! - No template makes this program panic, run for ever or fill the memory: one that costs more than any output is worth is stopped,
//!   and templates call each other some dozens deep, not 100 000.

mod evaluate;
mod functions;
mod lex;
mod parse;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::Value;

/// A template: itself, under the name that upstream gives it, and those that it defines.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Template(Templates);

type Templates = BTreeMap<String, Vec<Node>>;

/// Name of the template that is carried out.
const MAIN: &str = "get";

/// Part of a template, and the line it stands on.
#[derive(Debug, Clone, PartialEq)]
struct Node {
    line: usize,
    part: Part,
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Text(String),
    Print(Pipeline),
    /// A new variable, or another value for one.
    Set {
        variable: Variable,
        value: Pipeline,
    },
    /// `if`, or `with`, which makes the value the dot.
    When {
        is_with: bool,
        variable: Option<Variable>,
        value: Pipeline,
        then: Vec<Node>,
        otherwise: Vec<Node>,
    },
    Range {
        key: Option<Variable>,
        element: Option<Variable>,
        over: Pipeline,
        body: Vec<Node>,
        otherwise: Vec<Node>,
    },
    /// Another template, over a value, or over nothing.
    Call {
        name: String,
        value: Option<Pipeline>,
    },
    Break,
    Continue,
}

/// A variable that a value goes to.
#[derive(Debug, Clone, PartialEq)]
struct Variable {
    name: String,
    is_new: bool,
}

/// Commands, each given the result of the one before as its last argument.
type Pipeline = Vec<Command>;

#[derive(Debug, Clone, PartialEq)]
enum Command {
    Call(String, Vec<Operand>),
    Value(Operand),
}

/// A value and the fields that are followed from it.
#[derive(Debug, Clone, PartialEq)]
struct Operand {
    base: Base,
    fields: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
enum Base {
    Dot,
    Variable(String),
    Literal(Value),
    Group(Pipeline),
    /// A function that takes no argument.
    Call(String),
}

impl Template {
    /// Parses a template; an error says what is wrong and on which line.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        parse::template(text).map(Self)
    }

    /// The text for a list of documents. `as_number` is what `config "asnumber"` gives.
    pub(crate) fn render(&self, documents: &Value, as_number: &str) -> Result<String, String> {
        evaluate::render(&self.0, documents, as_number, evaluate::BUDGET)
    }
}
