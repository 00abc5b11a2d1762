//! A documented part of Go's template language, for `-o go-template=`: upstream's scripts use it.
//!
//! In comes a template, parsed once, and the documents that were found; out comes text. There are fields, variables, pipelines, `if`,
//! `range`, `with`, and the functions of [`functions`]; there is no `define`, `template`, `block`, `break` or `continue`. Upstream's
//! templates run over its Go values, ours over documents: fields are found by their name in the document in any case (`.Spec.CIDR` is
//! `cidr`), `.ObjectMeta` and `.ListMeta` are `metadata`, whose fields need not be preceded by it. What is absent is nothing: it prints
//! nothing, is false, has no length, and equals zero and the empty text. No template makes this program panic, run for ever or fill
//! the memory: one that costs more than any output is worth is stopped.

mod evaluate;
mod functions;
mod lex;
mod parse;
#[cfg(test)]
mod tests;

use serde_json::Value;

/// A template.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Template(Vec<Node>);

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
        variable: String,
        is_new: bool,
        value: Pipeline,
    },
    /// `if`, or `with`, which makes the value the dot.
    When {
        is_with: bool,
        variable: Option<String>,
        value: Pipeline,
        then: Vec<Node>,
        otherwise: Vec<Node>,
    },
    Range {
        key: Option<String>,
        element: Option<String>,
        over: Pipeline,
        body: Vec<Node>,
        otherwise: Vec<Node>,
    },
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
