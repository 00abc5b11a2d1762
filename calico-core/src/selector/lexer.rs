//! Text to tokens.
//!
//! The language is context-sensitive in one place: operator words (`contains`, `in` …) exist only right after a label, everywhere
//! else the same letters are a label. So the lexer remembers whether its last token was a label.

use alloc::format;
use alloc::string::String;

use super::error::{Problem, SelectorError};

/// Most bytes of a label name (upstream's `LabelKeyMatcher`).
pub(super) const MAX_LABEL: usize = 512;

/// An operator between a label and its operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    NotEqual,
    Contains,
    StartsWith,
    EndsWith,
    In,
    NotIn,
}

/// One token; text is borrowed from the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'a> {
    OpenParenthesis,
    CloseParenthesis,
    OpenBrace,
    CloseBrace,
    Comma,
    And,
    Or,
    Not,
    All,
    Global,
    Has(&'a str),
    Label(&'a str),
    Text(&'a str),
    Operator(Operator),
    End,
}

impl Token<'_> {
    /// How an error message calls it.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::OpenParenthesis => "'('".into(),
            Self::CloseParenthesis => "')'".into(),
            Self::OpenBrace => "'{'".into(),
            Self::CloseBrace => "'}'".into(),
            Self::Comma => "','".into(),
            Self::And => "'&&'".into(),
            Self::Or => "'||'".into(),
            Self::Not => "'!'".into(),
            Self::All => "all()".into(),
            Self::Global => "global()".into(),
            Self::Has(label) => format!("has({})", shorten(label)),
            Self::Label(label) => format!("the label {}", shorten(label)),
            Self::Text(text) => format!("the string {:?}", shorten(text)),
            Self::Operator(_) => "an operator".into(),
            Self::End => "the end".into(),
        }
    }
}

/// Splits text into tokens, one call each.
#[derive(Debug)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    position: usize,
    after_label: bool,
}

impl<'a> Lexer<'a> {
    pub(super) const fn new(text: &'a str) -> Self {
        Self { text, position: 0, after_label: false }
    }

    /// The next token and where it starts. At the end it returns [`Token::End`] as often as it is asked.
    pub(super) fn next(&mut self) -> Result<(usize, Token<'a>), SelectorError> {
        self.skip_blanks();
        let start = self.position;
        let after_label = core::mem::take(&mut self.after_label);
        let token = match self.rest().bytes().next() {
            None => Token::End,
            Some(b'(') => self.take(1, Token::OpenParenthesis),
            Some(b')') => self.take(1, Token::CloseParenthesis),
            Some(b'{') => self.take(1, Token::OpenBrace),
            Some(b'}') => self.take(1, Token::CloseBrace),
            Some(b',') => self.take(1, Token::Comma),
            Some(b'"') => self.string('"')?,
            Some(b'\'') => self.string('\'')?,
            Some(b'!') if self.rest().starts_with("!=") => self.take(2, Token::Operator(Operator::NotEqual)),
            Some(b'!') => self.take(1, Token::Not),
            Some(b'=') => self.pair("==", "'=='", Token::Operator(Operator::Equal))?,
            Some(b'&') => self.pair("&&", "'&&'", Token::And)?,
            Some(b'|') => self.pair("||", "'||'", Token::Or)?,
            Some(_) if after_label => self.operator_word()?,
            Some(_) => self.word()?,
        };
        self.after_label = matches!(token, Token::Label(_));
        Ok((start, token))
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.position..).unwrap_or_default()
    }

    fn skip_blanks(&mut self) {
        let rest = self.rest();
        self.position += rest.len() - rest.trim_start_matches([' ', '\t']).len();
    }

    fn take(&mut self, length: usize, token: Token<'a>) -> Token<'a> {
        self.position += length;
        token
    }

    fn pair(&mut self, pair: &str, name: &'static str, token: Token<'a>) -> Result<Token<'a>, SelectorError> {
        if self.rest().starts_with(pair) {
            return Ok(self.take(pair.len(), token));
        }
        Err(SelectorError::syntax(self.position, name, self.describe_rest()))
    }

    /// A string has no escapes: it ends at the next quote of the kind that opened it.
    fn string(&mut self, quote: char) -> Result<Token<'a>, SelectorError> {
        let body = self.rest().get(1..).unwrap_or_default();
        match body.split_once(quote) {
            Some((text, _)) => Ok(self.take(text.len() + 2, Token::Text(text))),
            None => Err(SelectorError::syntax(
                self.text.len(),
                if quote == '"' { "a closing '\"'" } else { "a closing \"'\"" },
                "the end",
            )),
        }
    }

    fn word(&mut self) -> Result<Token<'a>, SelectorError> {
        for (word, token) in [("all(", Token::All), ("global(", Token::Global)] {
            if self.eat(word) {
                self.skip_blanks();
                return self.close(token);
            }
        }
        if self.eat("has(") {
            self.skip_blanks();
            let label = self.label("a label name")?;
            self.skip_blanks();
            return self.close(Token::Has(label));
        }
        self.label("a label, '!', '(', has(), all() or global()").map(Token::Label)
    }

    fn close(&mut self, token: Token<'a>) -> Result<Token<'a>, SelectorError> {
        if self.eat(")") {
            return Ok(token);
        }
        Err(SelectorError::syntax(self.position, "')'", self.describe_rest()))
    }

    fn label(&mut self, expected: &'static str) -> Result<&'a str, SelectorError> {
        let rest = self.rest();
        let length = rest.bytes().take_while(|byte| is_label_byte(*byte)).count();
        if length == 0 {
            return Err(SelectorError::syntax(self.position, expected, self.describe_rest()));
        }
        if length > MAX_LABEL {
            return Err(SelectorError::new(self.position, Problem::LabelTooLong { limit: MAX_LABEL }));
        }
        self.position += length;
        Ok(rest.get(..length).unwrap_or_default())
    }

    /// Two-word operators may be written together or with blanks between; only after the last word must a label byte not follow.
    fn operator_word(&mut self) -> Result<Token<'a>, SelectorError> {
        const EXPECTED: &str = "an operator (==, !=, in, not in, contains, starts with, ends with)";
        let start = self.position;
        let words: [(&[&str], Operator); 5] = [
            (&["contains"], Operator::Contains),
            (&["starts", "with"], Operator::StartsWith),
            (&["ends", "with"], Operator::EndsWith),
            (&["not", "in"], Operator::NotIn),
            (&["in"], Operator::In),
        ];
        for (words, operator) in words {
            self.position = start;
            let complete = words.iter().all(|word| {
                self.skip_blanks();
                self.eat(word)
            });
            if complete && !self.rest().bytes().next().is_some_and(is_label_byte) {
                return Ok(Token::Operator(operator));
            }
        }
        self.position = start;
        Err(SelectorError::syntax(start, EXPECTED, self.describe_rest()))
    }

    fn eat(&mut self, word: &str) -> bool {
        let found = self.rest().starts_with(word);
        if found {
            self.position += word.len();
        }
        found
    }

    fn describe_rest(&self) -> String {
        let rest = self.rest();
        let word = rest.bytes().take_while(|byte| is_label_byte(*byte)).count();
        match rest.chars().next() {
            None => "the end".into(),
            Some(_) if word > 0 => format!("{:?}", shorten(rest.get(..word).unwrap_or_default())),
            Some(character) => format!("{:?}", String::from(character)),
        }
    }
}

const fn is_label_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'/' | b'-')
}

/// Keeps messages readable when the input is hostile.
fn shorten(text: &str) -> String {
    const MOST: usize = 40;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.into(),
    }
}
