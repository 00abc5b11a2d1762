//! Medians with their spread, and the machine they were measured on.

use std::fmt;
use std::fs;
use std::process::Command;

use serde::Serialize;

/// Repeated measurements in short.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Spread {
    /// Half are below, half above.
    pub(super) median: f64,
    /// Least.
    pub(super) least: f64,
    /// Most.
    pub(super) most: f64,
    /// How many.
    pub(super) samples: usize,
}

impl Spread {
    /// None of nothing.
    pub(super) fn of(mut samples: Vec<f64>) -> Option<Self> {
        samples.sort_by(f64::total_cmp);
        let (least, most) = (*samples.first()?, *samples.last()?);
        Some(Self { median: *samples.get(samples.len() / 2)?, least, most, samples: samples.len() })
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = if self.median < 100.0 { 2 } else { 0 };
        write!(f, "{:.digits$} ({:.digits$} to {:.digits$}, n={})", self.median, self.least, self.most, self.samples)
    }
}

/// Where a measurement was taken.
#[derive(Debug, Serialize)]
pub(super) struct Machine {
    kernel: String,
    processors: usize,
    memory_mib: u64,
    load: String,
    build: &'static str,
    version: &'static str,
}

impl Machine {
    /// This machine, now.
    pub(super) fn look() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let memory = read("/proc/meminfo");
        let total = memory.split_ascii_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok());
        Self {
            kernel: read("/proc/sys/kernel/osrelease"),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mib: total.unwrap_or(0) / 1024,
            load: read("/proc/loadavg"),
            build: if cfg!(debug_assertions) { "debug" } else { "release" },
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "machine: kernel {}, {} processors, {} MiB, load {}; {} build of {}",
            self.kernel, self.processors, self.memory_mib, self.load, self.build, self.version
        )
    }
}

/// The first line of what a program says about its version.
pub(super) fn version_of(program: &str, argument: &str) -> String {
    let output = Command::new(program).arg(argument).output();
    let text = output.map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().next().unwrap_or(program).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(Spread::of(Vec::new()), None);
        let spread = Spread::of(vec![5.0, 1.0, 9.0, 2.0, 3.0]).unwrap();
        assert_eq!((spread.median, spread.least, spread.most), (3.0, 1.0, 9.0));
        assert_eq!(spread.to_string(), "3.00 (1.00 to 9.00, n=5)");
    }
}
