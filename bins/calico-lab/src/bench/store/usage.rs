//! What a process has used so far.

use std::fs;
use std::path::Path;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// Seconds of processor time of this process, all threads.
pub(in crate::bench) fn processor_seconds() -> f64 {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return 0.0 };
    let micros = usage.user_time().num_microseconds().saturating_add(usage.system_time().num_microseconds());
    micros as f64 / 1e6
}

/// Those outside the kernel.
pub(in crate::bench) fn own_seconds() -> f64 {
    getrusage(UsageWho::RUSAGE_SELF).map_or(0.0, |usage| usage.user_time().num_microseconds() as f64 / 1e6)
}

/// Seconds of processor time of another process, all threads; `proc(5)` counts them in hundredths.
pub(in crate::bench) fn processor_seconds_of(pid: i32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The command, in parentheses, may hold anything; user and system time are the 14th and 15th field, the state is the third.
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields).split_ascii_whitespace();
    fields.skip(11).take(2).filter_map(|field| field.parse::<u32>().ok()).map(f64::from).sum::<f64>() / 100.0
}

/// Bytes of this process that are in memory now.
pub(in crate::bench) fn resident() -> u64 {
    status("VmRSS:")
}

/// The most bytes of this process that were in memory at once, as the kernel counts.
pub(in crate::bench) fn peak() -> u64 {
    status("VmHWM:")
}

fn status(name: &str) -> u64 {
    kibibytes("/proc/self/status", name).unwrap_or(0)
}

/// Bytes in a line of another process' `/proc/PID/status`.
pub(in crate::bench) fn memory_of(pid: i32, name: &str) -> u64 {
    kibibytes(&format!("/proc/{pid}/status"), name).unwrap_or(0)
}

/// Bytes of another process that no other one has.
pub(in crate::bench) fn private_of(pid: i32) -> u64 {
    let path = format!("/proc/{pid}/smaps_rollup");
    ["Private_Clean:", "Private_Dirty:"].iter().filter_map(|name| kibibytes(&path, name)).sum()
}

/// How often threads of another process have gone to sleep of their own accord, those that have ended not counted.
pub(in crate::bench) fn wake_ups_of(pid: i32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.filter_map(|thread| number(&thread.path().join("status"), "voluntary_ctxt_switches:")).sum()
}

/// Bytes in a line that is in KiB.
fn kibibytes(path: &str, name: &str) -> Option<u64> {
    number(path.as_ref(), name).map(|kib| kib * 1024)
}

/// The number in a line of a file.
fn number(path: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_was_given_back_still_counts_for_the_peak() {
        let before = resident();
        assert!(before > 0);
        drop(std::hint::black_box(vec![1_u8; 64 << 20]));
        assert!(peak() >= before + (48 << 20), "{} {before}", peak());
        assert!(processor_seconds() > 0.0);
    }
}
