//! Templates carried out, as far as that is worth while.

use serde_json::Value;

use super::{Base, Command, Node, Operand, Part, Pipeline, functions};

/// What a template may cost, in about bytes that are copied: seconds, and more than 100 000 resources with dozens of fields take.
pub(super) const BUDGET: usize = 1 << 30;
/// What a step costs beside its values.
const STEP: usize = 64;

/// The text of a template over a list of documents.
pub(super) fn render(nodes: &[Node], documents: &Value, as_number: &str, budget: usize) -> Result<String, String> {
    let variables = vec![(String::new(), documents.clone())];
    let mut run = Run { variables, text: String::new(), as_number, budget };
    run.nodes(nodes, documents)?;
    Ok(run.text)
}

struct Run<'a> {
    /// The innermost last; the unnamed one is `$`.
    variables: Vec<(String, Value)>,
    text: String,
    as_number: &'a str,
    /// What is left of it.
    budget: usize,
}

impl Run<'_> {
    /// Ranges within ranges multiply, and text that is joined with itself doubles: each step is paid for.
    fn pay(&mut self, bytes: usize) -> Result<(), String> {
        let left = self.budget.checked_sub(bytes.saturating_add(STEP));
        self.budget = left.ok_or("it does not come to an end: use fewer ranges within ranges, or fewer resources")?;
        Ok(())
    }

    /// A block: its variables end with it.
    fn nodes(&mut self, nodes: &[Node], dot: &Value) -> Result<(), String> {
        let outer = self.variables.len();
        for node in nodes {
            self.part(&node.part, dot).map_err(|reason| match reason.starts_with("template: ") {
                true => reason,
                false => format!("template: line {}: {reason}", node.line),
            })?;
        }
        self.variables.truncate(outer);
        Ok(())
    }

    fn part(&mut self, part: &Part, dot: &Value) -> Result<(), String> {
        match part {
            Part::Text(text) => {
                self.pay(text.len())?;
                self.text.push_str(text);
            }
            Part::Print(pipeline) => {
                let value = self.pipeline(pipeline, dot)?;
                self.text += &functions::text(&value);
            }
            Part::Set { variable, is_new, value } => {
                let value = self.pipeline(value, dot)?;
                if *is_new {
                    self.variables.push((variable.clone(), value));
                } else {
                    let known = self.variables.iter_mut().rev().find(|(name, _)| name == variable);
                    known.ok_or_else(|| format!("undefined variable ${variable}"))?.1 = value;
                }
            }
            Part::When { is_with, variable, value, then, otherwise } => {
                let value = self.pipeline(value, dot)?;
                let outer = self.variables.len();
                self.variables.extend(variable.iter().map(|name| (name.clone(), value.clone())));
                match (functions::is_true(&value), is_with) {
                    (true, true) => self.nodes(then, &value)?,
                    (true, false) => self.nodes(then, dot)?,
                    (false, _) => self.nodes(otherwise, dot)?,
                }
                self.variables.truncate(outer);
            }
            Part::Range { key, element, over, body, otherwise } => {
                let elements = elements(self.pipeline(over, dot)?)?;
                if elements.is_empty() {
                    return self.nodes(otherwise, dot);
                }
                for (place, value) in elements {
                    self.pay(0)?;
                    let outer = self.variables.len();
                    self.variables.extend(key.iter().map(|name| (name.clone(), place.clone())));
                    self.variables.extend(element.iter().map(|name| (name.clone(), value.clone())));
                    self.nodes(body, &value)?;
                    self.variables.truncate(outer);
                }
            }
        }
        Ok(())
    }

    fn pipeline(&mut self, pipeline: &Pipeline, dot: &Value) -> Result<Value, String> {
        let mut last = None;
        for command in pipeline {
            last = Some(match command {
                Command::Value(operand) => self.operand(operand, dot)?,
                Command::Call(name, operands) => self.call(name, operands, last, dot)?,
            });
        }
        Ok(last.unwrap_or_default())
    }

    fn call(&mut self, name: &str, operands: &[Operand], piped: Option<Value>, dot: &Value) -> Result<Value, String> {
        let mut values = Vec::with_capacity(operands.len() + 1);
        for operand in operands {
            let value = self.operand(operand, dot)?;
            // As in Go, what comes after the deciding argument is not looked at.
            if (name == "or") == functions::is_true(&value) && matches!(name, "and" | "or") {
                return Ok(value);
            }
            values.push(value);
        }
        values.extend(piped);
        let value = functions::call(name, &values, self.as_number).map_err(|reason| format!("{name}: {reason}"))?;
        self.pay(weight(&value))?;
        Ok(value)
    }

    fn operand(&mut self, operand: &Operand, dot: &Value) -> Result<Value, String> {
        let value = self.found(operand, dot)?;
        self.pay(weight(&value))?;
        Ok(value)
    }

    fn found(&mut self, operand: &Operand, dot: &Value) -> Result<Value, String> {
        let fields = &operand.fields;
        match &operand.base {
            Base::Dot => follow(dot, fields),
            Base::Literal(value) => Ok(value.clone()),
            Base::Group(pipeline) => follow(&self.pipeline(pipeline, dot)?, fields),
            Base::Call(name) => follow(&self.call(name, &[], None, dot)?, fields),
            Base::Variable(variable) => {
                let known = self.variables.iter().rev().find(|(name, _)| name == variable);
                follow(&known.ok_or_else(|| format!("undefined variable ${variable}"))?.1, fields)
            }
        }
    }
}

/// About the bytes of a value.
fn weight(value: &Value) -> usize {
    STEP + match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(members) => members.iter().map(|(name, member)| name.len() + weight(member)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// Keys or places, and values, in order.
fn elements(value: Value) -> Result<Vec<(Value, Value)>, String> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) => Ok(items.into_iter().enumerate().map(|(place, item)| (place.into(), item)).collect()),
        Value::Object(members) => {
            let mut members: Vec<_> = members.into_iter().collect();
            members.sort_by(|(left, _), (right, _)| left.cmp(right));
            Ok(members.into_iter().map(|(name, member)| (name.into(), member)).collect())
        }
        other => Err(format!("range can't iterate over {}", functions::text(&other))),
    }
}

fn follow(value: &Value, fields: &[String]) -> Result<Value, String> {
    let mut value = value;
    for name in fields {
        value = field(value, name)?;
    }
    Ok(value.clone())
}

/// A field by its name in Go or in the document.
fn field<'v>(value: &'v Value, name: &str) -> Result<&'v Value, String> {
    let members = match value {
        Value::Object(members) => members,
        Value::Null => return Ok(&Value::Null),
        other => {
            let form = if other.is_array() { "a list: use range or index" } else { "no object" };
            return Err(format!("can't evaluate field {name}: the value is {form}"));
        }
    };
    let named = |members: &'v serde_json::Map<String, Value>| {
        let similar = || members.iter().find(|(member, _)| member.eq_ignore_ascii_case(name)).map(|(_, value)| value);
        members.get(name).or_else(similar)
    };
    let metadata = members.get("metadata").and_then(Value::as_object);
    Ok(match (name, named(members)) {
        (_, Some(value)) => value,
        ("ObjectMeta" | "ListMeta", None) => members.get("metadata").unwrap_or(&Value::Null),
        ("TypeMeta", None) => value,
        (_, None) => metadata.and_then(named).unwrap_or(&Value::Null),
    })
}
