//! Templates carried out, as far as that is worth while.

use serde_json::Value;

use super::{Base, Command, MAIN, Node, Operand, Part, Pipeline, Templates, Variable, functions};

/// What a template may cost, in about bytes that are copied: seconds, and more than 100 000 resources with dozens of fields take.
pub(super) const BUDGET: usize = 1 << 30;
/// What a step costs beside its values.
const STEP: usize = 64;

/// Most blocks within blocks, those of templates that call each other included: what is carried out by recursion must end.
const MAX_NESTING: usize = 150;

/// The text of a template over a list of documents.
pub(super) fn render(
    templates: &Templates,
    documents: &Value,
    as_number: &str,
    budget: usize,
) -> Result<String, String> {
    let variables = vec![(String::new(), documents.clone())];
    let mut run = Run { templates, variables, text: String::new(), as_number, budget, nesting: 0 };
    run.nodes(templates.get(MAIN).map_or(&[], Vec::as_slice), documents)?;
    Ok(run.text)
}

/// How it goes on after a node.
#[derive(Clone, Copy, PartialEq)]
enum Flow {
    On,
    /// Behind the innermost range.
    Break,
    /// With the next element of the innermost range.
    Continue,
}

struct Run<'a> {
    templates: &'a Templates,
    /// The innermost last; the unnamed one is `$`.
    variables: Vec<(String, Value)>,
    text: String,
    as_number: &'a str,
    /// What is left of it.
    budget: usize,
    nesting: usize,
}

impl Run<'_> {
    /// Ranges within ranges multiply, and text that is joined with itself doubles: each step is paid for.
    fn pay(&mut self, bytes: usize) -> Result<(), String> {
        let left = self.budget.checked_sub(bytes.saturating_add(STEP));
        self.budget = left.ok_or("it does not come to an end: use fewer ranges within ranges, or fewer resources")?;
        Ok(())
    }

    /// A block: its variables end with it.
    fn nodes(&mut self, nodes: &[Node], dot: &Value) -> Result<Flow, String> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return Err(format!("more than {MAX_NESTING} blocks and templates within each other"));
        }
        let outer = self.variables.len();
        let mut flow = Flow::On;
        for node in nodes {
            flow = self.part(&node.part, dot).map_err(|reason| match reason.starts_with("template: ") {
                true => reason,
                false => format!("template: line {}: {reason}", node.line),
            })?;
            if flow != Flow::On {
                break;
            }
        }
        self.variables.truncate(outer);
        self.nesting -= 1;
        Ok(flow)
    }

    fn part(&mut self, part: &Part, dot: &Value) -> Result<Flow, String> {
        match part {
            Part::Text(text) => {
                self.pay(text.len())?;
                self.text.push_str(text);
            }
            Part::Print(pipeline) => {
                let value = self.pipeline(pipeline, dot)?;
                self.text += &functions::text(&value);
            }
            Part::Set { variable, value } => {
                let value = self.pipeline(value, dot)?;
                self.set(Some(variable), &value)?;
            }
            Part::When { is_with, variable, value, then, otherwise } => {
                let value = self.pipeline(value, dot)?;
                let outer = self.variables.len();
                self.set(variable.as_ref(), &value)?;
                let flow = match (functions::is_true(&value), is_with) {
                    (true, true) => self.nodes(then, &value)?,
                    (true, false) => self.nodes(then, dot)?,
                    (false, _) => self.nodes(otherwise, dot)?,
                };
                self.variables.truncate(outer);
                return Ok(flow);
            }
            Part::Range { key, element, over, body, otherwise } => {
                let over = self.pipeline(over, dot)?;
                let variables = [key.as_ref(), element.as_ref()];
                if let Some(count) = count(&over) {
                    return self.count(count, variables, (body, otherwise), dot);
                }
                return self.range(elements(over)?, variables, (body, otherwise), dot);
            }
            Part::Call { name, value } => self.template(name, value.as_ref(), dot)?,
            Part::Break => return Ok(Flow::Break),
            Part::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::On)
    }

    /// Gives a variable, if there is one, a value.
    fn set(&mut self, variable: Option<&Variable>, value: &Value) -> Result<(), String> {
        match variable {
            None => {}
            Some(Variable { name, is_new: true }) => self.variables.push((name.clone(), value.clone())),
            Some(Variable { name, is_new: false }) => {
                let known = self.variables.iter_mut().rev().find(|(known, _)| known == name);
                known.ok_or_else(|| format!("undefined variable ${name}"))?.1 = value.clone();
            }
        }
        Ok(())
    }

    fn range(
        &mut self,
        elements: impl IntoIterator<Item = (Value, Value)>,
        [key, element]: [Option<&Variable>; 2],
        (body, otherwise): (&[Node], &[Node]),
        dot: &Value,
    ) -> Result<Flow, String> {
        let mut is_empty = true;
        for (place, value) in elements {
            is_empty = false;
            self.pay(0)?;
            let outer = self.variables.len();
            self.set(key, &place)?;
            self.set(element, &value)?;
            let flow = self.nodes(body, &value)?;
            self.variables.truncate(outer);
            if flow == Flow::Break {
                break;
            }
        }
        let flow = if is_empty { self.nodes(otherwise, dot)? } else { Flow::On };
        // As in Go, a break there ends this range alone, and a `continue` is one of the range around.
        Ok(if flow == Flow::Break { Flow::On } else { flow })
    }

    /// A range over the numbers below one.
    fn count(
        &mut self,
        count: u64,
        variables: [Option<&Variable>; 2],
        nodes: (&[Node], &[Node]),
        dot: &Value,
    ) -> Result<Flow, String> {
        if variables[0].is_some() {
            return Err(format!("can't use {count} to iterate over more than one variable"));
        }
        self.range((0..count).map(|number| (Value::Null, number.into())), variables, nodes, dot)
    }

    /// Another template: of what is around it only the value is known there.
    fn template(&mut self, name: &str, value: Option<&Pipeline>, dot: &Value) -> Result<(), String> {
        let body = self.templates.get(name).ok_or_else(|| format!("template {name:?} not defined"))?;
        let value = value.map(|value| self.pipeline(value, dot)).transpose()?.unwrap_or_default();
        self.pay(0)?;
        let around = std::mem::replace(&mut self.variables, vec![(String::new(), value.clone())]);
        self.nodes(body, &value)?;
        self.variables = around;
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

/// How often a range over a number is carried out.
fn count(value: &Value) -> Option<u64> {
    let is_whole = value.is_i64() || value.is_u64();
    is_whole.then(|| value.as_u64().unwrap_or(0))
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
