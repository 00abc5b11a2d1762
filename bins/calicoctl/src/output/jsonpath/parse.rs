//! Text to templates.

use serde_json::{Number, Value};

use super::{Comparison, Filter, Node, Operand, Step};

/// Deepest nesting of ranges and filters: what is parsed by recursion must end.
const MAX_DEPTH: usize = 32;

/// Parses a template.
pub(super) fn template(text: &str) -> Result<Vec<Node>, String> {
    let mut parser = Parser { characters: text.chars().collect(), at: 0, depth: 0 };
    let nodes = parser.nodes(false);
    nodes.map_err(|reason| format!("{reason} (character {} of the template)", parser.at.saturating_add(1)))
}

struct Parser {
    characters: Vec<char>,
    at: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.characters.get(self.at).copied()
    }

    fn take(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += 1;
        Some(next)
    }

    /// Takes the text if it is next.
    fn accept(&mut self, text: &str) -> bool {
        let length = text.chars().count();
        let is_next = self.characters.iter().skip(self.at).take(length).copied().eq(text.chars());
        if is_next {
            self.at += length;
        }
        is_next
    }

    fn expect(&mut self, text: &str) -> Result<(), String> {
        if self.accept(text) { Ok(()) } else { Err(format!("expected {text}")) }
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.at += 1;
        }
    }

    fn deeper(&mut self) -> Result<(), String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err("nested too deeply".into()) } else { Ok(()) }
    }

    /// Text and expressions up to the end, which in a range is `{end}`.
    fn nodes(&mut self, in_range: bool) -> Result<Vec<Node>, String> {
        let mut nodes = Vec::new();
        let mut text = String::new();
        while let Some(next) = self.take() {
            if next != '{' {
                text.push(next);
                continue;
            }
            if !text.is_empty() {
                nodes.push(Node::Text(std::mem::take(&mut text)));
            }
            self.blanks();
            if self.word("end") {
                self.blanks();
                self.expect("}")?;
                return if in_range { Ok(nodes) } else { Err("end without range".into()) };
            }
            nodes.push(self.expression()?);
        }
        if in_range {
            return Err("range without {end}".into());
        }
        if !text.is_empty() {
            nodes.push(Node::Text(text));
        }
        Ok(nodes)
    }

    /// An expression after its `{`, with its `}`.
    fn expression(&mut self) -> Result<Node, String> {
        let node = if self.word("range") {
            self.blanks();
            let path = self.path()?;
            self.blanks();
            self.expect("}")?;
            self.deeper()?;
            let body = self.nodes(true)?;
            self.depth -= 1;
            return Ok(Node::Range(path, body));
        } else if matches!(self.peek(), Some('"' | '\'')) {
            Node::Text(self.quoted()?)
        } else {
            Node::Path(self.path()?)
        };
        self.blanks();
        self.expect("}")?;
        Ok(node)
    }

    /// Takes the word if it is next and ends there.
    fn word(&mut self, word: &str) -> bool {
        let start = self.at;
        let is_word = self.accept(word) && !self.peek().is_some_and(|next| next.is_alphanumeric() || next == '_');
        if !is_word {
            self.at = start;
        }
        is_word
    }

    fn path(&mut self) -> Result<Vec<Step>, String> {
        let mut steps = Vec::new();
        let start = self.at;
        if !self.accept("$") {
            self.accept("@");
        }
        if self.at == start && self.peek().is_some_and(|next| next.is_alphabetic() || next == '_') {
            let name = self.name()?;
            return Err(format!("unrecognized identifier {name}: a path begins with a dot"));
        }
        // Nothing at all is the document.
        if self.peek() == Some('}') {
            return Ok(steps);
        }
        loop {
            if self.accept("..") {
                steps.push(Step::Descend);
                if self.peek() != Some('[') {
                    steps.push(self.member()?);
                }
            } else if self.accept(".") {
                // A dot alone is the document.
                let ends = self.peek().is_none_or(|next| next == '}' || next == '[' || next.is_whitespace());
                if !ends {
                    steps.push(self.member()?);
                }
            } else if self.accept("[") {
                self.blanks();
                steps.push(self.bracket()?);
                self.blanks();
                self.expect("]")?;
            } else if self.at == start {
                return Err("expected a path such as .metadata.name, text in quotes, range or end".into());
            } else {
                return Ok(steps);
            }
        }
    }

    fn member(&mut self) -> Result<Step, String> {
        if self.accept("*") { Ok(Step::All) } else { Ok(Step::Names(vec![self.name()?])) }
    }

    /// A name after a dot; `\.` is a dot in it.
    fn name(&mut self) -> Result<String, String> {
        let mut name = String::new();
        while let Some(next) = self.peek() {
            match next {
                '\\' => {
                    self.at += 1;
                    name.extend(self.take());
                }
                '.' | '[' | ']' | '{' | '}' | '(' | ')' | '"' | '\'' | '=' | '!' | '<' | '>' | ',' | '|' | '&' => break,
                next if next.is_whitespace() => break,
                next => {
                    name.push(next);
                    self.at += 1;
                }
            }
        }
        if name.is_empty() { Err("expected a name".into()) } else { Ok(name) }
    }

    fn bracket(&mut self) -> Result<Step, String> {
        match self.peek() {
            Some('*') => {
                self.at += 1;
                Ok(Step::Slice { from: None, to: None, step: 1 })
            }
            Some('?') => {
                self.at += 1;
                self.deeper()?;
                let filter = self.filter()?;
                self.depth -= 1;
                Ok(Step::Filter(filter))
            }
            Some('"' | '\'') => self.several(Self::quoted).map(Step::Names),
            Some(':' | '-' | '0'..='9') => self.elements(),
            _ => Err("expected a number, *, a name in quotes, or a filter ?(…)".into()),
        }
    }

    fn several<T>(&mut self, one: fn(&mut Self) -> Result<T, String>) -> Result<Vec<T>, String> {
        let mut items = vec![one(self)?];
        loop {
            self.blanks();
            if !self.accept(",") {
                return Ok(items);
            }
            self.blanks();
            items.push(one(self)?);
        }
    }

    fn elements(&mut self) -> Result<Step, String> {
        let from = if self.peek() == Some(':') { None } else { Some(self.integer()?) };
        if !self.accept(":") {
            let mut places: Vec<i64> = from.into_iter().collect();
            self.blanks();
            if self.accept(",") {
                self.blanks();
                places.extend(self.several(Self::integer)?);
            }
            return Ok(Step::Elements(places));
        }
        let to = if matches!(self.peek(), Some('-' | '0'..='9')) { Some(self.integer()?) } else { None };
        let step = if self.accept(":") { self.integer()? } else { 1 };
        let step = usize::try_from(step).ok().filter(|step| *step > 0).ok_or("the step must be greater than zero")?;
        Ok(Step::Slice { from, to, step })
    }

    fn integer(&mut self) -> Result<i64, String> {
        let text = self.digits();
        text.parse().map_err(|_| format!("{text} is not a whole number"))
    }

    fn digits(&mut self) -> String {
        let mut text = String::new();
        while let Some(next) = self.peek().filter(|next| next.is_ascii_digit() || matches!(next, '-' | '.' | 'e' | '+'))
        {
            text.push(next);
            self.at += 1;
        }
        text
    }

    fn filter(&mut self) -> Result<Filter, String> {
        self.expect("(")?;
        self.blanks();
        let left = self.operand()?;
        self.blanks();
        let comparisons = [
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        let comparison = comparisons.into_iter().find(|(sign, _)| self.accept(sign)).map(|(_, comparison)| comparison);
        let test = match comparison {
            Some(comparison) => {
                self.blanks();
                let right = self.operand()?;
                self.blanks();
                Some((comparison, right))
            }
            None => None,
        };
        self.expect(")").map_err(|_| "expected ) or one comparison (==, !=, <, <=, >, >=) in the filter")?;
        Ok(Filter { left, test })
    }

    fn operand(&mut self) -> Result<Operand, String> {
        match self.peek() {
            Some('"' | '\'') => self.quoted().map(|text| Operand::Literal(Value::String(text))),
            Some('-' | '0'..='9') => {
                let text = self.digits();
                let number: Number = text.parse().map_err(|_| format!("{text} is not a number"))?;
                Ok(Operand::Literal(Value::Number(number)))
            }
            _ if self.word("true") => Ok(Operand::Literal(Value::Bool(true))),
            _ if self.word("false") => Ok(Operand::Literal(Value::Bool(false))),
            _ => self.path().map(Operand::Path),
        }
    }

    /// Text in quotes of either sort.
    fn quoted(&mut self) -> Result<String, String> {
        let quote = self.take().filter(|quote| matches!(quote, '"' | '\'')).ok_or("expected text in quotes")?;
        let mut text = String::new();
        loop {
            match self.take().ok_or("text in quotes without its end")? {
                '\\' => text.push(match self.take().ok_or("text in quotes without its end")? {
                    'n' => '\n',
                    't' => '\t',
                    other => other,
                }),
                end if end == quote => return Ok(text),
                other => text.push(other),
            }
        }
    }
}
