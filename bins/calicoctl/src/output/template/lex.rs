//! Text to tokens: what stands between `{{` and `}}`, and the text around it.

use serde_json::{Number, Value};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Word(String),
    /// `.name`; glued if nothing separates it from the token before.
    Field {
        name: String,
        glued: bool,
    },
    Dot,
    Variable(String),
    Literal(Value),
    /// One of `( ) | , = :=`.
    Sign(&'static str),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Piece {
    Text(String),
    Action { line: usize, tokens: Vec<Token> },
}

/// Cuts a template.
pub(super) fn pieces(text: &str) -> Result<Vec<Piece>, (usize, String)> {
    let mut pieces = Vec::new();
    let (mut rest, mut line, mut trims) = (text, 1, false);
    loop {
        let (before, action) = match rest.split_once("{{") {
            Some((before, action)) => (before, Some(action)),
            None => (rest, None),
        };
        let mut shown = if trims { before.trim_start() } else { before };
        let trimmed =
            action.and_then(|action| action.strip_prefix('-').filter(|rest| rest.starts_with(char::is_whitespace)));
        if trimmed.is_some() {
            shown = shown.trim_end();
        }
        if !shown.is_empty() {
            pieces.push(Piece::Text(shown.to_owned()));
        }
        line += before.matches('\n').count();
        let Some(action) = trimmed.or(action) else { return Ok(pieces) };
        let at = |reason| (line, reason);
        let (tokens, after) = match action.trim_start().strip_prefix("/*") {
            Some(comment) => {
                let (_, after) = comment.split_once("*/").ok_or_else(|| at("comment without its end".into()))?;
                (None, end(after).ok_or_else(|| at("a comment stands alone between {{ and }}".into()))?)
            }
            None => {
                let (tokens, after) = tokens(action).map_err(at)?;
                (Some(tokens), after)
            }
        };
        if let Some(tokens) = tokens {
            pieces.push(Piece::Action { line, tokens });
        }
        let length = action.len().saturating_sub(after.0.len());
        line += action.get(..length).unwrap_or_default().matches('\n').count();
        (rest, trims) = after;
    }
}

/// What follows the end of an action, if that is next, and whether its blanks go.
fn end(text: &str) -> Option<(&str, bool)> {
    let blanks = text.trim_start();
    let trimmed = blanks.strip_prefix("-}}").filter(|_| blanks.len() < text.len());
    trimmed.map(|rest| (rest, true)).or_else(|| blanks.strip_prefix("}}").map(|rest| (rest, false)))
}

/// The tokens of an action and what follows its end.
fn tokens(action: &str) -> Result<(Vec<Token>, (&str, bool)), String> {
    let mut tokens = Vec::new();
    let mut rest = action;
    loop {
        if let Some(after) = end(rest) {
            return Ok((tokens, after));
        }
        let glued = !rest.starts_with(char::is_whitespace) && !tokens.is_empty();
        rest = rest.trim_start();
        let (token, after) = token(rest, glued)?;
        tokens.push(token);
        rest = after;
    }
}

fn token(text: &str, glued: bool) -> Result<(Token, &str), String> {
    for sign in ["(", ")", "|", ",", ":=", "="] {
        if let Some(rest) = text.strip_prefix(sign) {
            return Ok((Token::Sign(sign), rest));
        }
    }
    let name_of = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let after = |length: usize| text.get(length..).unwrap_or_default();
    let first = text.chars().next().ok_or("an action without its end }}")?;
    match first {
        '.' if !after(1).starts_with(|c: char| c.is_ascii_digit()) => {
            let name = name_of(after(1));
            let rest = after(1 + name.len());
            Ok((if name.is_empty() { Token::Dot } else { Token::Field { name, glued } }, rest))
        }
        '$' => {
            let name = name_of(after(1));
            let rest = after(1 + name.len());
            Ok((Token::Variable(name), rest))
        }
        '"' => quoted(text),
        '`' => {
            let (raw, rest) = after(1).split_once('`').ok_or("raw text without its end `")?;
            Ok((Token::Literal(raw.into()), rest))
        }
        '\'' => character(after(1)),
        '-' | '+' | '.' | '0'..='9' => {
            let length = text.find(|c: char| !c.is_ascii_alphanumeric() && !"+-._".contains(c)).unwrap_or(text.len());
            let written = text.get(..length).unwrap_or_default();
            let number = number(written).ok_or_else(|| format!("{written} is not a number"))?;
            Ok((Token::Literal(Value::Number(number)), after(length)))
        }
        _ => {
            let name = name_of(text);
            if name.is_empty() {
                return Err(format!("unexpected {first}"));
            }
            let rest = after(name.len());
            Ok(match name.as_str() {
                "true" | "false" => (Token::Literal(Value::Bool(name == "true")), rest),
                "nil" => (Token::Literal(Value::Null), rest),
                _ => (Token::Word(name), rest),
            })
        }
    }
}

/// A number as Go writes it: decimal, hexadecimal, octal (also with a mere zero before it), binary, or with a fraction or exponent.
fn number(written: &str) -> Option<Number> {
    let digits = written.strip_prefix(['+', '-']).unwrap_or(written);
    let is_outside = |place: Option<usize>| {
        let byte = place.and_then(|place| digits.as_bytes().get(place));
        !byte.is_some_and(u8::is_ascii_alphanumeric)
    };
    // An underscore stands between digits, or behind what says the base.
    if digits.match_indices('_').any(|(at, _)| is_outside(at.checked_sub(1)) || is_outside(at.checked_add(1))) {
        return None;
    }
    let digits = digits.replace('_', "");
    let (rest, radix) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (digits.get(2..)?, 16),
        [b'0', b'o' | b'O', ..] => (digits.get(2..)?, 8),
        [b'0', b'b' | b'B', ..] => (digits.get(2..)?, 2),
        [b'0', rest @ ..] if !rest.is_empty() && rest.iter().all(u8::is_ascii_digit) => (digits.get(1..)?, 8),
        _ => (digits.as_str(), 10),
    };
    let whole = Some(rest).filter(|rest| !rest.starts_with(['+', '-']));
    let whole = whole.and_then(|rest| u64::from_str_radix(rest, radix).ok());
    match (whole, written.starts_with('-')) {
        (Some(whole), false) => Some(whole.into()),
        (Some(whole), true) => 0_i64.checked_sub_unsigned(whole).map(Number::from),
        // Rust would take words such as "inf".
        (None, _) if radix == 10 && digits.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte)) => {
            let number = written.replace('_', "").parse::<f64>().ok()?;
            Number::from_f64(number).filter(|_| digits.contains(['.', 'e', 'E']))
        }
        (None, _) => None,
    }
}

/// A character in single quotes, behind the first: its number.
fn character(text: &str) -> Result<(Token, &str), String> {
    let malformed = "a character in single quotes is one, or an escape";
    let mut characters = text.char_indices();
    let one = match characters.next().ok_or(malformed)? {
        (_, '\'' | '\n') => return Err(malformed.into()),
        (_, '\\') => escaped(&mut characters, '\'')?,
        (_, one) => one,
    };
    match characters.next() {
        Some((at, '\'')) => {
            Ok((Token::Literal(u32::from(one).into()), text.get(at.saturating_add(1)..).unwrap_or_default()))
        }
        _ => Err(malformed.into()),
    }
}

/// What stands behind a backslash in text or in a character, which `quote` ends.
fn escaped(characters: &mut impl Iterator<Item = (usize, char)>, quote: char) -> Result<char, String> {
    let (_, first) = characters.next().ok_or("text in quotes without its end")?;
    let (length, radix) = match first {
        'a' => return Ok('\u{7}'),
        'b' => return Ok('\u{8}'),
        'f' => return Ok('\u{c}'),
        'n' => return Ok('\n'),
        'r' => return Ok('\r'),
        't' => return Ok('\t'),
        'v' => return Ok('\u{b}'),
        '\\' => return Ok('\\'),
        own if own == quote => return Ok(own),
        'x' => (2, 16),
        'u' => (4, 16),
        'U' => (8, 16),
        '0'..='7' => (2, 8),
        other => return Err(format!("unknown escape \\{other} in text")),
    };
    let mut digits: String = Some(first).filter(|_| radix == 8).into_iter().collect();
    digits.extend(characters.take(length).map(|(_, digit)| digit));
    let number = u32::from_str_radix(&digits, radix).ok().filter(|_| !digits.starts_with('+'));
    // Bytes beyond ASCII would be part of a character, or of none.
    let number = number.filter(|number| length > 2 || *number < 128);
    number.and_then(char::from_u32).ok_or_else(|| format!("\\{first}{digits} in text is no character"))
}

/// Text in double quotes, with Go's escapes.
fn quoted(text: &str) -> Result<(Token, &str), String> {
    let mut value = String::new();
    let mut characters = text.char_indices().skip(1);
    while let Some((at, next)) = characters.next() {
        match next {
            '"' => return Ok((Token::Literal(value.into()), text.get(at + 1..).unwrap_or_default())),
            '\n' => break,
            '\\' => value.push(escaped(&mut characters, '"')?),
            other => value.push(other),
        }
    }
    Err("text in quotes without its end".into())
}
