//! Tokens to templates.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::vec::IntoIter;

use serde_json::Value;

use super::functions;
use super::lex::{Piece, Token, pieces};
use super::{Base, Command, MAIN, Node, Operand, Part, Pipeline, Templates, Variable};

/// Deepest nesting of blocks and parentheses: what is parsed and carried out by recursion must end.
const MAX_DEPTH: usize = 50;

/// Parses a template, and those that it defines.
pub(super) fn template(text: &str) -> Result<Templates, String> {
    let told = |(line, reason): (usize, String)| format!("template: line {line}: {reason}");
    let pieces = pieces(text).map_err(told)?.into_iter();
    let mut parser = Parser { pieces, templates: BTreeMap::new(), ranges: 0 };
    let (nodes, end) = parser.block(1, 0).map_err(told)?;
    match end {
        Stop::Text => {}
        Stop::Else { line, .. } => return Err(told((line, "else without if, range or with".into()))),
        Stop::End { line } => return Err(told((line, "end without if, range or with".into()))),
    }
    parser.define(MAIN.to_owned(), nodes).map_err(|reason| told((1, reason)))?;
    Ok(parser.templates)
}

type Located<T> = Result<T, (usize, String)>;

/// What ended a block.
enum Stop {
    Text,
    End { line: usize },
    Else { line: usize, tokens: Tokens },
}

struct Parser {
    pieces: IntoIter<Piece>,
    templates: Templates,
    /// How many ranges are open in the present template.
    ranges: usize,
}

impl Parser {
    /// Nodes up to the end of the block that was opened on a line.
    fn block(&mut self, opened: usize, depth: usize) -> Located<(Vec<Node>, Stop)> {
        if depth > MAX_DEPTH {
            return Err((opened, "nested too deeply".into()));
        }
        let mut nodes = Vec::new();
        while let Some(piece) = self.pieces.next() {
            let (line, tokens) = match piece {
                Piece::Text(text) => {
                    nodes.push(Node { line: opened, part: Part::Text(text) });
                    continue;
                }
                Piece::Action { line, tokens } => (line, tokens),
            };
            let mut tokens = Tokens { tokens: tokens.into_iter().peekable(), depth };
            let at = |reason: String| (line, reason);
            let part = match tokens.keyword().as_deref() {
                Some("end") => {
                    tokens.finish().map_err(at)?;
                    return Ok((nodes, Stop::End { line }));
                }
                Some("else") => return Ok((nodes, Stop::Else { line, tokens })),
                Some(word @ ("if" | "with")) => self.when(word == "with", tokens, line, depth)?,
                Some("range") => self.range(tokens, line, depth)?,
                Some("define") if depth > 0 => return Err(at("define stands in no other block".into())),
                Some("define") => {
                    self.definition(tokens, line)?;
                    continue;
                }
                Some("template") => call(tokens).map_err(at)?,
                Some("block") => self.own_block(tokens, line, depth)?,
                Some(word @ ("break" | "continue")) => {
                    tokens.finish().map_err(at)?;
                    if self.ranges == 0 {
                        return Err(at(format!("{word} outside of range")));
                    }
                    if word == "break" { Part::Break } else { Part::Continue }
                }
                Some(_) | None => simple(tokens).map_err(at)?,
            };
            nodes.push(Node { line, part });
        }
        Ok((nodes, Stop::Text))
    }

    fn when(&mut self, is_with: bool, mut tokens: Tokens, line: usize, depth: usize) -> Located<Part> {
        let at = |reason: String| (line, reason);
        let (mut variables, value) = tokens.assignment().map_err(at)?;
        tokens.finish().map_err(at)?;
        if variables.len() > 1 {
            return Err(at(TWO_VARIABLES.into()));
        }
        let (then, end) = self.block(line, depth + 1)?;
        let otherwise = self.otherwise(end, line, depth, Some(if is_with { "with" } else { "if" }))?;
        Ok(Part::When { is_with, variable: variables.pop(), value, then, otherwise })
    }

    fn range(&mut self, mut tokens: Tokens, line: usize, depth: usize) -> Located<Part> {
        let at = |reason: String| (line, reason);
        let (mut variables, over) = tokens.assignment().map_err(at)?;
        tokens.finish().map_err(at)?;
        let element = variables.pop();
        let key = variables.pop();
        self.ranges += 1;
        let (body, end) = self.block(line, depth + 1)?;
        self.ranges -= 1;
        let otherwise = self.otherwise(end, line, depth, None)?;
        Ok(Part::Range { key, element, over, body, otherwise })
    }

    /// What is done instead, up to the end of the whole. Behind `else`, the word that may go on with another block.
    fn otherwise(&mut self, end: Stop, opened: usize, depth: usize, chain: Option<&str>) -> Located<Vec<Node>> {
        let (line, mut tokens) = match end {
            Stop::End { .. } => return Ok(Vec::new()),
            Stop::Text => return Err((opened, UNENDED.into())),
            Stop::Else { line, tokens } => (line, tokens),
        };
        let word = tokens.keyword();
        match word.as_deref() {
            // An end ends the whole chain, so it is the end of the inner block.
            Some(word) if chain == Some(word) => {
                let part = self.when(word == "with", tokens, line, depth + 1)?;
                Ok(vec![Node { line, part }])
            }
            Some(word) => Err((line, format!("unexpected {word} after else"))),
            None => {
                tokens.finish().map_err(|reason| (line, reason))?;
                match self.block(line, depth + 1)? {
                    (nodes, Stop::End { .. }) => Ok(nodes),
                    (_, Stop::Else { line, .. }) => Err((line, "a second else".into())),
                    (_, Stop::Text) => Err((line, UNENDED.into())),
                }
            }
        }
    }

    /// A template of its own, which is not part of the one around.
    fn definition(&mut self, mut tokens: Tokens, line: usize) -> Located<()> {
        let at = |reason: String| (line, reason);
        let name = tokens.name().map_err(at)?;
        tokens.finish().map_err(at)?;
        self.body(name, line, 0)
    }

    /// As a definition, and then that template.
    fn own_block(&mut self, mut tokens: Tokens, line: usize, depth: usize) -> Located<Part> {
        let at = |reason: String| (line, reason);
        let name = tokens.name().map_err(at)?;
        let value = tokens.pipeline().map_err(at)?;
        tokens.finish().map_err(at)?;
        self.body(name.clone(), line, depth)?;
        Ok(Part::Call { name, value: Some(value) })
    }

    fn body(&mut self, name: String, line: usize, depth: usize) -> Located<()> {
        let ranges = std::mem::take(&mut self.ranges);
        let body = match self.block(line, depth + 1)? {
            (nodes, Stop::End { .. }) => nodes,
            (_, Stop::Else { line, .. }) => return Err((line, "else without if, range or with".into())),
            (_, Stop::Text) => return Err((line, UNENDED.into())),
        };
        self.ranges = ranges;
        self.define(name, body).map_err(|reason| (line, reason))
    }

    /// As in Go, one that is empty gives way to one that is not, whichever comes first.
    fn define(&mut self, name: String, nodes: Vec<Node>) -> Result<(), String> {
        let is_empty = |nodes: &[Node]| {
            nodes.iter().all(|node| matches!(&node.part, Part::Text(text) if text.trim_ascii().is_empty()))
        };
        match self.templates.get(&name) {
            Some(earlier) if !is_empty(earlier) && !is_empty(&nodes) => {
                Err(format!("multiple definition of template {name:?}"))
            }
            Some(earlier) if !is_empty(earlier) => Ok(()),
            _ => {
                self.templates.insert(name, nodes);
                Ok(())
            }
        }
    }
}

const UNENDED: &str = "a block without its end";
const TWO_VARIABLES: &str = "two variables are for range only";

fn simple(mut tokens: Tokens) -> Result<Part, String> {
    let (mut variables, value) = tokens.assignment()?;
    tokens.finish()?;
    match (variables.pop(), variables.is_empty()) {
        (None, _) => Ok(Part::Print(value)),
        (Some(variable), true) => Ok(Part::Set { variable, value }),
        (Some(_), false) => Err(TWO_VARIABLES.into()),
    }
}

fn call(mut tokens: Tokens) -> Result<Part, String> {
    let name = tokens.name()?;
    let value = if tokens.is_at_end() { None } else { Some(tokens.pipeline()?) };
    tokens.finish()?;
    Ok(Part::Call { name, value })
}

const KEYWORDS: [&str; 10] = ["if", "else", "end", "range", "with", "define", "template", "block", "break", "continue"];

struct Tokens {
    tokens: Peekable<IntoIter<Token>>,
    depth: usize,
}

impl Tokens {
    fn keyword(&mut self) -> Option<String> {
        let is_keyword = |token: &Token| matches!(token, Token::Word(word) if KEYWORDS.contains(&word.as_str()));
        match self.tokens.next_if(is_keyword) {
            Some(Token::Word(word)) => Some(word),
            _ => None,
        }
    }

    fn finish(&mut self) -> Result<(), String> {
        self.tokens.next().map_or(Ok(()), |token| Err(format!("unexpected {}", shown(&token))))
    }

    fn is_at_end(&mut self) -> bool {
        self.tokens.peek().is_none()
    }

    /// The name of a template, which is text.
    fn name(&mut self) -> Result<String, String> {
        match self.tokens.next() {
            Some(Token::Literal(Value::String(name))) => Ok(name),
            Some(token) => Err(format!("expected the name of a template in quotes, not {}", shown(&token))),
            None => Err("expected the name of a template in quotes".into()),
        }
    }

    fn accept(&mut self, sign: &'static str) -> bool {
        self.tokens.next_if_eq(&Token::Sign(sign)).is_some()
    }

    /// A pipeline, with the variables that it is given to.
    fn assignment(&mut self) -> Result<(Vec<Variable>, Pipeline), String> {
        let mut ahead = self.tokens.clone();
        let mut variables = Vec::new();
        while let Some(Token::Variable(name)) = ahead.next() {
            variables.push(name);
            match ahead.next() {
                Some(Token::Sign(",")) if variables.len() < 2 => {}
                Some(Token::Sign(sign @ (":=" | "="))) if variables.iter().all(|name| !name.is_empty()) => {
                    self.tokens = ahead;
                    let is_new = sign == ":=";
                    let variables = variables.into_iter().map(|name| Variable { name, is_new }).collect();
                    return Ok((variables, self.pipeline()?));
                }
                _ => break,
            }
        }
        Ok((Vec::new(), self.pipeline()?))
    }

    fn pipeline(&mut self) -> Result<Pipeline, String> {
        let mut commands = vec![self.command(true)?];
        while self.accept("|") {
            commands.push(self.command(false)?);
        }
        Ok(commands)
    }

    fn command(&mut self, is_first: bool) -> Result<Command, String> {
        if let Some(Token::Word(name)) = self.tokens.next_if(|token| matches!(token, Token::Word(_))) {
            let name = function(name)?;
            let mut operands = Vec::new();
            while !matches!(self.tokens.peek(), None | Some(Token::Sign(")" | "|"))) {
                operands.push(self.operand()?);
            }
            return Ok(Command::Call(name, operands));
        }
        let operand = self.operand()?;
        match self.tokens.peek() {
            Some(Token::Sign(")" | "|")) | None if is_first => Ok(Command::Value(operand)),
            None | Some(_) if !is_first => Err("only a function can stand behind |".into()),
            _ => Err("only a function takes arguments".into()),
        }
    }

    fn operand(&mut self) -> Result<Operand, String> {
        let mut fields = Vec::new();
        let base = match self.tokens.next() {
            None => return Err("expected a value".into()),
            Some(Token::Dot) => return Ok(Operand { base: Base::Dot, fields }),
            Some(Token::Field { name, .. }) => {
                fields.push(name);
                Base::Dot
            }
            Some(Token::Variable(name)) => Base::Variable(name),
            Some(Token::Literal(value)) => return Ok(Operand { base: Base::Literal(value), fields }),
            Some(Token::Word(name)) => Base::Call(function(name)?),
            Some(Token::Sign("(")) => {
                self.depth += 1;
                if self.depth > MAX_DEPTH {
                    return Err("nested too deeply".into());
                }
                let inner = self.pipeline()?;
                self.depth -= 1;
                if !self.accept(")") {
                    return Err("expected )".into());
                }
                Base::Group(inner)
            }
            Some(token) => return Err(format!("unexpected {}", shown(&token))),
        };
        while let Some(Token::Field { name, .. }) =
            self.tokens.next_if(|token| matches!(token, Token::Field { glued: true, .. }))
        {
            fields.push(name);
        }
        Ok(Operand { base, fields })
    }
}

fn function(name: String) -> Result<String, String> {
    if functions::NAMES.contains(&name.as_str()) {
        return Ok(name);
    }
    Err(format!("function {name} is not supported; there are: {}", functions::NAMES.join(", ")))
}

fn shown(token: &Token) -> String {
    match token {
        Token::Word(word) => word.clone(),
        Token::Field { name, .. } => format!(".{name}"),
        Token::Dot => ".".into(),
        Token::Variable(name) => format!("${name}"),
        Token::Literal(Value::String(text)) => format!("{text:?}"),
        Token::Literal(value) => value.to_string(),
        Token::Sign(sign) => (*sign).to_owned(),
    }
}
