//! Standard output and standard error, without the panics of `println!` and `eprintln!`.
//!
//! A reader may leave (`| head`), a disk may be full. Results that cannot be written are a failure, which the caller tells; remarks
//! that cannot be written have nobody to be told to.

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
