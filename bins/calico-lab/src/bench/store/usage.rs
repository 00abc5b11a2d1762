//! What a process has used so far.

use std::fs;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// Seconds of processor time of this process, all threads.
pub(in crate::bench) fn processor_seconds() -> f64 {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return 0.0 };
    let micros = usage.user_time().num_microseconds().saturating_add(usage.system_time().num_microseconds());
    micros as f64 / 1e6
}

/// Seconds of processor time of another process, all threads; `proc(5)` counts them in hundredths.
pub(super) fn processor_seconds_of(pid: i32) -> f64 {
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

/// A line of `/proc/self/status`, which are in KiB.
fn status(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
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
