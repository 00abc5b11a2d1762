//! Tokens to templates.

use std::iter::Peekable;
use std::vec::IntoIter;

use serde_json::Value;

use super::functions;
use super::lex::{Piece, Token, pieces};
use super::{Base, Command, Node, Operand, Part, Pipeline};

/// Deepest nesting of blocks and parentheses: what is parsed and carried out by recursion must end.
const MAX_DEPTH: usize = 50;

/// Parses a template.
pub(super) fn template(text: &str) -> Result<Vec<Node>, String> {
    let told = |(line, reason): (usize, String)| format!("template: line {line}: {reason}");
    let mut pieces = pieces(text).map_err(told)?.into_iter();
    let (nodes, end) = block(&mut pieces, 1, 0).map_err(told)?;
    match end {
        Stop::Text => Ok(nodes),
        Stop::Else { line, .. } => Err(told((line, "else without if, range or with".into()))),
        Stop::End { line } => Err(told((line, "end without if, range or with".into()))),
    }
}

type Located<T> = Result<T, (usize, String)>;

/// What ended a block.
enum Stop {
    Text,
    End { line: usize },
    Else { line: usize, tokens: Tokens },
}

/// Nodes up to the end of the block that was opened on a line.
fn block(pieces: &mut IntoIter<Piece>, opened: usize, depth: usize) -> Located<(Vec<Node>, Stop)> {
    if depth > MAX_DEPTH {
        return Err((opened, "nested too deeply".into()));
    }
    let mut nodes = Vec::new();
    while let Some(piece) = pieces.next() {
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
            Some(word @ ("if" | "with")) => when(word == "with", tokens, pieces, line, depth)?,
            Some("range") => range(tokens, pieces, line, depth)?,
            Some(word) => return Err(at(format!("{word} is not supported"))),
            None => simple(tokens).map_err(at)?,
        };
        nodes.push(Node { line, part });
    }
    Ok((nodes, Stop::Text))
}

fn simple(mut tokens: Tokens) -> Result<Part, String> {
    let (mut variables, is_new, value) = tokens.assignment()?;
    tokens.finish()?;
    match (variables.pop(), variables.is_empty()) {
        (None, _) => Ok(Part::Print(value)),
        (Some(variable), true) => Ok(Part::Set { variable, is_new, value }),
        (Some(_), false) => Err("two variables are for range only".into()),
    }
}

fn when(is_with: bool, mut tokens: Tokens, pieces: &mut IntoIter<Piece>, line: usize, depth: usize) -> Located<Part> {
    let at = |reason: String| (line, reason);
    let (mut variables, _, value) = tokens.assignment().map_err(at)?;
    tokens.finish().map_err(at)?;
    let variable = variables.pop();
    let (then, end) = block(pieces, line, depth + 1)?;
    let otherwise = otherwise(end, pieces, line, depth, true)?;
    Ok(Part::When { is_with, variable, value, then, otherwise })
}

fn range(mut tokens: Tokens, pieces: &mut IntoIter<Piece>, line: usize, depth: usize) -> Located<Part> {
    let at = |reason: String| (line, reason);
    let (mut variables, _, over) = tokens.assignment().map_err(at)?;
    tokens.finish().map_err(at)?;
    let element = variables.pop();
    let key = variables.pop();
    let (body, end) = block(pieces, line, depth + 1)?;
    let otherwise = otherwise(end, pieces, line, depth, false)?;
    Ok(Part::Range { key, element, over, body, otherwise })
}

/// What is done instead, up to the end of the whole.
fn otherwise(end: Stop, pieces: &mut IntoIter<Piece>, opened: usize, depth: usize, chains: bool) -> Located<Vec<Node>> {
    let (line, mut tokens) = match end {
        Stop::End { .. } => return Ok(Vec::new()),
        Stop::Text => return Err((opened, "a block without its end".into())),
        Stop::Else { line, tokens } => (line, tokens),
    };
    let word = tokens.keyword();
    match word.as_deref() {
        // An end ends the whole chain, so it is the end of the inner block.
        Some(word @ ("if" | "with")) if chains => {
            let part = when(word == "with", tokens, pieces, line, depth + 1)?;
            Ok(vec![Node { line, part }])
        }
        Some(word) => Err((line, format!("unexpected {word} after else"))),
        None => {
            tokens.finish().map_err(|reason| (line, reason))?;
            match block(pieces, line, depth + 1)? {
                (nodes, Stop::End { .. }) => Ok(nodes),
                (_, Stop::Else { line, .. }) => Err((line, "a second else".into())),
                (_, Stop::Text) => Err((line, "a block without its end".into())),
            }
        }
    }
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

    fn accept(&mut self, sign: &'static str) -> bool {
        self.tokens.next_if_eq(&Token::Sign(sign)).is_some()
    }

    /// A pipeline, with the variables that it is given to: whether these are new.
    fn assignment(&mut self) -> Result<(Vec<String>, bool, Pipeline), String> {
        let mut ahead = self.tokens.clone();
        let mut variables = Vec::new();
        while let Some(Token::Variable(name)) = ahead.next() {
            variables.push(name);
            match ahead.next() {
                Some(Token::Sign(",")) if variables.len() < 2 => {}
                Some(Token::Sign(sign @ (":=" | "="))) if variables.iter().all(|name| !name.is_empty()) => {
                    self.tokens = ahead;
                    return Ok((variables, sign == ":=", self.pipeline()?));
                }
                _ => break,
            }
        }
        Ok((Vec::new(), false, self.pipeline()?))
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
