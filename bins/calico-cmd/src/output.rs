//! Standard output and standard error, without the panics of `println!` and `eprintln!`.
//!
//! A reader may leave (`| head`), a disk may be full. Results that cannot be written are a failure, which the caller tells; remarks
//! that cannot be written have nobody to be told to.

use std::error::Error;
use std::fmt::Display;
use std::io::{self, Write};

/// Writes `text` on standard output, to the last byte.
///
/// # Errors
/// It cannot be written: the reader has gone ([`io::ErrorKind::BrokenPipe`]), or the disk is full.
pub fn print(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes())?;
    output.flush()
}

/// Writes a line on standard error, if that can be written.
pub fn remark(line: impl Display) {
    // In one piece, so that lines of several processes do not mix.
    let _nobody_reads = io::stderr().lock().write_all(format!("{line}\n").as_bytes());
}

/// Text of others on one line: it must not move the cursor of whoever reads it, forge a line, or be shown in another order than it has.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if is_printable(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}

fn is_printable(c: char) -> bool {
    // Besides controls: line and paragraph separators, and what turns the direction of writing.
    !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// An error with all its causes, on one line.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot write")]
    struct Outer(#[source] io::Error);

    #[test]
    fn text_of_others_stays_on_its_line() {
        assert_eq!(
            printable("Größe\u{1b}[2J\nKernel: fine\0\u{202e}\u{9b}"),
            "Größe\u{fffd}[2J\u{fffd}Kernel: fine\u{fffd}\u{fffd}\u{fffd}"
        );
    }

    #[test]
    fn a_chain_tells_every_cause() {
        assert_eq!(chain(&Outer(io::Error::other("disk full"))), "cannot write: disk full");
    }
}
