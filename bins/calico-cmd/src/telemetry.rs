//! Logging: `tracing` events to standard error.

use std::io::{self, IsTerminal, Stderr, Write};
use std::str::FromStr;

use tracing_subscriber::EnvFilter;

use crate::output;

/// How much is logged; upstream's level names, any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum LogLevel {
    /// Nothing (upstream: panic, fatal).
    #[default]
    Off,
    /// Errors.
    Error,
    /// And warnings.
    Warn,
    /// And what happens.
    Info,
    /// And why.
    Debug,
    /// And everything else.
    Trace,
}

/// Text that is no level.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a log level: give panic, fatal, error, warn, info, debug or trace")]
pub struct LogLevelError(String);

impl FromStr for LogLevel {
    type Err = LogLevelError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.to_ascii_lowercase().as_str() {
            "panic" | "fatal" | "none" | "off" => Self::Off,
            "error" => Self::Error,
            "warn" | "warning" => Self::Warn,
            "info" => Self::Info,
            "debug" => Self::Debug,
            "trace" => Self::Trace,
            _ => return Err(LogLevelError(text.into())),
        })
    }
}

impl LogLevel {
    const fn directive(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// Sends events to standard error from now on, coloured if that is a terminal and `NO_COLOR` is unset or empty. `filter` (as in
/// `RUST_LOG`) refines the level per module. The first call of a process decides; further calls change nothing, so that a program
/// may be run as a library.
pub fn init(level: LogLevel, filter: Option<&str>) {
    let filter = filter.and_then(|filter| EnvFilter::try_new(filter).ok());
    let filter = filter.unwrap_or_else(|| EnvFilter::new(level.directive()));
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let ansi = io::stderr().is_terminal() && !no_color;
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || Lines { to: io::stderr(), ansi })
        .with_ansi(ansi)
        // Told of an event that cannot be written, it would panic writing that: a full disk would end the program.
        .log_internal_errors(false)
        .finish();
    let _already_set = tracing::subscriber::set_global_default(subscriber);
}

/// Writes each event as one line, whatever texts of others it tells: who may write the datastore must not write the log.
struct Lines<W = Stderr> {
    to: W,
    /// Whether colours are ours; those of others the subscriber takes out itself.
    ansi: bool,
}

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        self.write_all(event)?;
        Ok(event.len())
    }

    /// An event comes in one piece, its line end with it.
    fn write_all(&mut self, event: &[u8]) -> io::Result<()> {
        let text = String::from_utf8_lossy(event);
        let (line, end) = text.strip_suffix('\n').map_or((&*text, ""), |line| (line, "\n"));
        let pieces: Vec<String> = if self.ansi {
            line.split('\u{1b}').map(output::printable).collect()
        } else {
            vec![output::printable(line)]
        };
        self.to.write_all((pieces.join("\u{1b}") + end).as_bytes())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line() {
        let written = |ansi, event: &str| {
            let mut lines = Lines { to: Vec::new(), ansi };
            lines.write_all(event.as_bytes()).unwrap();
            String::from_utf8(lines.to).unwrap()
        };
        assert_eq!(written(false, "WARN a\u{1b}[31m\nINFO forged\n"), "WARN a\u{fffd}[31m\u{fffd}INFO forged\n");
        assert_eq!(written(true, "\u{1b}[33mWARN\u{1b}[0m a\nb\n"), "\u{1b}[33mWARN\u{1b}[0m a\u{fffd}b\n");
    }

    #[test]
    fn upstreams_names_are_known() {
        assert_eq!("PANIC".parse(), Ok(LogLevel::Off));
        assert_eq!("Warning".parse(), Ok(LogLevel::Warn));
        assert!("loud".parse::<LogLevel>().is_err());
    }
}
