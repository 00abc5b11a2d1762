//! How far long work is, for whoever looks at it.

use std::io::Write;
use std::time::{Duration, Instant};

use crate::context::Context;

/// How long work may take before anything is said of it, and how often it is said.
const PAUSE: Duration = Duration::from_millis(500);

/// A line on standard error that changes as work goes on. Only terminals see it, wherever standard output goes.
pub(super) struct Progress<'a> {
    output: Option<&'a mut dyn Write>,
    told: Instant,
    is_shown: bool,
}

impl<'a> Progress<'a> {
    pub(super) fn new(context: &'a mut Context<'_>) -> Self {
        let output: Option<&'a mut dyn Write> = if context.is_watched { Some(&mut *context.stderr) } else { None };
        Self { output, told: Instant::now(), is_shown: false }
    }

    /// So much is done.
    pub(super) fn tell(&mut self, done: usize, all: usize) {
        let Some(output) = &mut self.output else { return };
        if self.told.elapsed() < PAUSE || all == 0 {
            return;
        }
        self.told = Instant::now();
        self.is_shown = true;
        let _closed = write!(output, "\r{:>3} % of {all} sources", done * 100 / all).and_then(|()| output.flush());
    }

    /// All is done.
    pub(super) fn end(&mut self) {
        let Some(output) = self.output.as_mut().filter(|_| self.is_shown) else { return };
        let _closed = write!(output, "\r\u{1b}[K").and_then(|()| output.flush());
        self.is_shown = false;
    }
}
