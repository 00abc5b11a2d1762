//! Time and identity, the two things a store needs from outside.
//!
//! Libraries never read a clock or a random source by themselves: whoever builds a store or a client hands one in. The
//! implementations here are what programs pass; tests pass their own.

use std::io::Read;
use std::time::{SystemTime, UNIX_EPOCH};

/// Wall-clock time.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> SystemTime;
}

/// Random bits for identities.
pub trait IdSource: Send + Sync {
    /// 128 bits that nobody else draws.
    fn draw(&self) -> u128;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::exhaustive_structs, reason = "a unit value that callers name")]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// The kernel's random source.
#[derive(Debug)]
pub struct SystemIds {
    source: std::fs::File,
}

impl SystemIds {
    /// Opens `/dev/urandom`.
    pub fn open() -> std::io::Result<Self> {
        std::fs::File::open("/dev/urandom").map(|source| Self { source })
    }
}

impl IdSource for SystemIds {
    fn draw(&self) -> u128 {
        let mut bits = [0; 16];
        loop {
            // The device never ends and never fails once it is open; an interrupted read is the only thing to repeat.
            if (&self.source).read_exact(&mut bits).is_ok() {
                return u128::from_ne_bytes(bits);
            }
        }
    }
}

/// `2026-08-22T06:33:20Z`: RFC 3339 in UTC with whole seconds, as metadata has it.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The date so many days after 1970-01-01: years counted from March, so that the leap day comes last.
const fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let march = (5 * day + 2) / 153;
    let month = if march < 10 { march + 3 } else { march - 9 };
    let year = year + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day - (153 * march + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn dates_are_right_around_leap_days() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_787_380_400, "2026-08-22T06:33:20Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn random_ids_differ() {
        let ids = SystemIds::open().unwrap();
        assert_ne!(ids.draw(), ids.draw());
    }
}
