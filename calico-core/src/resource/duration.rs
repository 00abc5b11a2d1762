//! Durations as Go writes them (`1m30s`), which is how the API has them.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

/// A duration in nanoseconds. Written in Go's canonical form, whatever form it was read in, as upstream's types do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GoDuration(i64);

/// Text that is no duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a duration: give numbers with units, such as 90s, 1m30s or 500ms")]
pub struct GoDurationError(String);

/// Units from the longest, in nanoseconds; `ms`, `us` and `ns` come before the units that they end in.
const UNITS: [(&str, i64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

impl GoDuration {
    /// From nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds.
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// As the standard library has it; none if negative.
    pub fn duration(self) -> Option<core::time::Duration> {
        u64::try_from(self.0).ok().map(core::time::Duration::from_nanos)
    }
}

impl FromStr for GoDuration {
    type Err = GoDurationError;

    /// Go's `time.ParseDuration`: an optional sign, then numbers with a unit each; `0` alone needs none.
    fn from_str(text: &str) -> Result<Self, GoDurationError> {
        parse(text).map(Self).ok_or_else(|| GoDurationError(super::clipped(text.into(), 60)))
    }
}

fn parse(text: &str) -> Option<i64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i64 = 0;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => digits(after),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let (unit, after) = UNITS.iter().find_map(|(name, unit)| Some((*unit, after.strip_prefix(name)?)))?;
        let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        total = total.checked_add(whole.checked_mul(unit)?)?.checked_add(part_of(unit, fraction))?;
        rest = after;
    }
    total.checked_mul(sign)
}

fn digits(text: &str) -> (&str, &str) {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

/// A decimal fraction of a unit; what is below a nanosecond is cut off.
fn part_of(unit: i64, fraction: &str) -> i64 {
    let mut scale = unit;
    fraction.bytes().fold(0, |sum: i64, digit| {
        // A tenth of a tenth …: exact as long as the unit can be divided, and then there is nothing left to add.
        let tenth = scale / 10;
        let rest = scale % 10;
        let value = i64::from(digit - b'0');
        scale = tenth;
        sum.saturating_add(tenth * value).saturating_add(rest * value / 10)
    })
}

impl fmt::Display for GoDuration {
    /// Go's `Duration.String`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        match nanos {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{nanos}ns"),
            1_000..1_000_000 => decimal(f, nanos, 1_000, "µs"),
            1_000_000..1_000_000_000 => decimal(f, nanos, 1_000_000, "ms"),
            _ => {
                let (hours, minutes) = (nanos / 3_600_000_000_000, nanos / 60_000_000_000 % 60);
                if hours > 0 {
                    write!(f, "{hours}h")?;
                }
                if hours > 0 || minutes > 0 {
                    write!(f, "{minutes}m")?;
                }
                decimal(f, nanos % 60_000_000_000, 1_000_000_000, "s")
            }
        }
    }
}

fn decimal(f: &mut fmt::Formatter<'_>, value: u64, unit: u64, name: &str) -> fmt::Result {
    write!(f, "{}", value / unit)?;
    let mut rest = value % unit;
    if rest > 0 {
        f.write_str(".")?;
        let mut place = unit;
        while rest > 0 {
            place /= 10;
            write!(f, "{}", rest / place)?;
            rest %= place;
        }
    }
    f.write_str(name)
}

crate::net::json_as_text!(GoDuration);
super::model::scalars!(GoDuration);

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use proptest::prelude::*;

    #[test]
    fn reads_and_writes_as_go_does() {
        for (given, written) in [
            ("90s", "1m30s"),
            ("1m30s", "1m30s"),
            ("0", "0s"),
            ("0s", "0s"),
            ("1.5s", "1.5s"),
            ("500ms", "500ms"),
            ("1500us", "1.5ms"),
            ("15µs", "15µs"),
            ("86400s", "24h0m0s"),
            ("2h45m", "2h45m0s"),
            (".5h", "30m0s"),
            ("-5m", "-5m0s"),
            ("1h0.001s", "1h0m0.001s"),
        ] {
            assert_eq!(given.parse::<GoDuration>().unwrap().to_string(), written, "{given}");
        }
        for text in ["", "5", "s", "5 s", "5x", "1m-5s", "-", ".s", "9999999999h", "1e3s"] {
            assert!(text.parse::<GoDuration>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(nanos in any::<i64>().prop_filter("has an absolute value", |n| *n != i64::MIN)) {
            let duration = GoDuration::from_nanos(nanos);
            prop_assert_eq!(duration.to_string().parse::<GoDuration>().unwrap(), duration);
        }

        #[test]
        fn no_text_panics(text in "[-+0-9.hmsnuµ]{0,24}") {
            let _ = text.parse::<GoDuration>();
        }
    }
}
