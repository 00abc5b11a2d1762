//! The text, line by line, and what may stand in it.
//!
//! BIRD reads a string from one quotation mark to the next one, on one line, and knows no escapes. So a string is either fit to be written as it is or
//! cannot be written: [`quoted`] is the only way for text of others into the configuration.

use core::fmt;
use core::fmt::Write as _;

/// Characters of a description: BIRD has a buffer.
const DESCRIPTION: usize = 100;

/// A configuration in the making.
#[derive(Debug, Default)]
pub(super) struct Text {
    text: String,
    depth: usize,
}

impl Text {
    /// One line.
    pub(super) fn line(&mut self, line: impl fmt::Display) {
        (0..self.depth).for_each(|_| self.text.push_str("    "));
        // A string takes everything.
        let _ = writeln!(self.text, "{line}");
    }

    /// Begins a block; ends it with [`close`](Self::close).
    pub(super) fn open(&mut self, head: impl fmt::Display) {
        self.line(format_args!("{head} {{"));
        self.depth += 1;
    }

    /// The end of a function or a protocol.
    pub(super) fn close(&mut self) {
        self.end("}");
    }

    /// The end of a block within a protocol.
    pub(super) fn close_item(&mut self) {
        self.end("};");
    }

    fn end(&mut self, end: &str) {
        self.depth = self.depth.saturating_sub(1);
        self.line(end);
        if self.depth == 0 {
            self.text.push('\n');
        }
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}

/// A text as BIRD reads it; none if there is no way to write it.
pub(super) fn quoted(text: &str) -> Option<String> {
    let fits = !text.contains(['"', '\n', '\0']);
    fits.then(|| format!("\"{text}\""))
}

/// A pattern of interfaces in which only `*` means something else than itself.
pub(super) fn pattern(text: &str) -> Option<String> {
    let literal = text.chars().all(|c| !c.is_control() && !matches!(c, '?' | '\\'));
    quoted(text).filter(|_| literal)
}

/// A text for people, in which every character that could mean something is replaced.
pub(super) fn description(text: &str) -> String {
    let harmless = |c: char| if c.is_ascii_graphic() && c != '"' && c != '\\' || c == ' ' { c } else { '?' };
    text.chars().take(DESCRIPTION).map(harmless).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_is_not() {
        assert_eq!(quoted("it's 100% \\ \t fine;").as_deref(), Some("\"it's 100% \\ \t fine;\""));
        for bad in ["a\"b", "a\nb", "a\0b"] {
            assert_eq!(quoted(bad), None, "{bad:?}");
        }
        assert_eq!(pattern("eth*.1").as_deref(), Some("\"eth*.1\""));
        for bad in ["a?", "a\\", "a\"", "a\tb", "a\r"] {
            assert_eq!(pattern(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn descriptions_are_harmless_whatever_they_were() {
        assert_eq!(description("node-1 \"\n}; é\\"), "node-1 ??}; ??");
        assert_eq!(description(&"x".repeat(5000)).len(), DESCRIPTION);
    }
}
