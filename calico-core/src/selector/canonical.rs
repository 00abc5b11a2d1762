//! The canonical text, upstream's to the byte: ids are hashes of it, so every host and every version must print the same.

use alloc::string::String;
use alloc::sync::Arc;

use super::ast::{Node, Test};

/// Prints a tree.
pub(super) fn print(node: &Node) -> String {
    let mut out = String::new();
    write(node, &mut out);
    out
}

fn write(node: &Node, out: &mut String) {
    match node {
        Node::All => out.push_str("all()"),
        Node::Global => out.push_str("global()"),
        Node::Has(label) => {
            out.push_str("has(");
            out.push_str(label);
            out.push(')');
        }
        Node::Test(label, test) => {
            out.push_str(label);
            write_test(test, out);
        }
        Node::Not(operand) => {
            out.push('!');
            write(operand, out);
        }
        Node::And(operands) => write_chain(operands, " && ", out),
        Node::Or(operands) => write_chain(operands, " || ", out),
    }
}

fn write_chain(operands: &[Node], separator: &str, out: &mut String) {
    out.push('(');
    for (index, operand) in operands.iter().enumerate() {
        if index > 0 {
            out.push_str(separator);
        }
        write(operand, out);
    }
    out.push(')');
}

fn write_test(test: &Test, out: &mut String) {
    let (operator, operand) = match test {
        Test::Equal(operand) => (" == ", operand),
        Test::NotEqual(operand) => (" != ", operand),
        Test::Contains(operand) => (" contains ", operand),
        Test::StartsWith(operand) => (" starts with ", operand),
        Test::EndsWith(operand) => (" ends with ", operand),
        Test::In(values) => return write_set(" in {", values, out),
        Test::NotIn(values) => return write_set(" not in {", values, out),
    };
    out.push_str(operator);
    write_quoted(operand, out);
}

fn write_set(operator: &str, values: &[Arc<str>], out: &mut String) {
    out.push_str(operator);
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        write_quoted(value, out);
    }
    out.push('}');
}

/// The language has no escapes, so a value never holds both kinds of quote.
fn write_quoted(value: &str, out: &mut String) {
    let quote = if value.contains('"') { '\'' } else { '"' };
    out.push(quote);
    out.push_str(value);
    out.push(quote);
}
