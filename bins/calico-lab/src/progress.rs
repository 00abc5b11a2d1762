//! What the user sees while the lab works: one live line on a terminal, plain lines elsewhere. Always on standard error, so that
//! standard output holds results only. When nobody listens (any more), the work goes on all the same.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use calico_cmd::output;
use indicatif::{ProgressBar, ProgressStyle};

/// Tells what is going on.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    started: Instant,
}

impl Progress {
    /// Starts telling.
    pub(crate) fn start() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner:.cyan} {msg} {elapsed:.dim}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        Self { bar, started: Instant::now() }
    }

    /// What is being done now.
    pub(crate) fn step(&self, text: impl Into<String>) {
        let text = text.into();
        match &self.bar {
            Some(bar) => bar.set_message(text),
            None => self.line(&text),
        }
    }

    /// What is being waited for: a detail that would only repeat itself as plain lines.
    pub(crate) fn step_quietly(&self, text: impl Into<String>) {
        if let Some(bar) = &self.bar {
            bar.set_message(text.into());
        }
    }

    /// What has been done, and stays to be read.
    pub(crate) fn done(&self, text: impl AsRef<str>) {
        match &self.bar {
            Some(bar) => bar.println(format!("✓ {}", text.as_ref())),
            None => self.line(text.as_ref()),
        }
    }

    /// Leaves the terminal to results.
    pub(crate) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn line(&self, text: &str) {
        output::remark(format_args!("[{:6.2} s] {text}", self.started.elapsed().as_secs_f64()));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}
