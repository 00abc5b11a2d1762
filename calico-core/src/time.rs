//! Points in time, handed in by whoever has a clock.
//!
//! Core never asks what time it is: a [`Timestamp`] comes in as an argument, and this module only converts between the texts
//! that stored objects carry (RFC 3339, and the printing form of Go's `time.Time`) and nanoseconds since the epoch.

use alloc::format;
use alloc::string::String;

/// Nanoseconds in a second.
const NANOS: u64 = 1_000_000_000;
/// Seconds in a day.
const DAY: u64 = 86_400;

/// A point in time: nanoseconds since 1970-01-01 00:00:00 UTC. Earlier times do not occur in a datastore.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// From nanoseconds since the epoch.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// From whole seconds since the epoch; saturates in the year 2554.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(NANOS))
    }

    /// Nanoseconds since the epoch.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Whole seconds since the epoch.
    pub const fn secs(self) -> u64 {
        self.0 / NANOS
    }

    /// This much later.
    #[must_use]
    pub const fn plus_secs(self, seconds: u64) -> Self {
        Self(self.0.saturating_add(seconds.saturating_mul(NANOS)))
    }

    /// `2026-08-22T10:11:12Z`: RFC 3339 in UTC with whole seconds, as metadata and IPAM store it.
    pub fn rfc3339(self) -> String {
        let (year, month, day) = civil(self.secs() / DAY);
        let (hour, minute, second) = clock(self.secs() % DAY);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }

    /// `2026-08-22 10:11:12.000000001 +0000 UTC`: how Go prints a time, without trailing zeros in the fraction. The
    /// `timestamp` attribute of an allocation has this form, and upstream's tools parse it.
    pub fn go_text(self) -> String {
        let (year, month, day) = civil(self.secs() / DAY);
        let (hour, minute, second) = clock(self.secs() % DAY);
        let fraction = format!(".{:09}", self.0 % NANOS);
        let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
        format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}{fraction} +0000 UTC")
    }

    /// Reads RFC 3339 with any offset and any fraction (digits beyond nanoseconds are cut).
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let number = |from: usize, to: usize| digits(bytes.get(from..to)?);
        let mark = |at: usize, wanted: &[u8]| bytes.get(at).filter(|byte| wanted.contains(byte)).map(|_| ());
        mark(4, b"-")?;
        mark(7, b"-")?;
        mark(10, b"Tt ")?;
        mark(13, b":")?;
        mark(16, b":")?;
        let days = days(number(0, 4)?, number(5, 7)?, number(8, 10)?)?;
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        if hour > 23 || minute > 59 || second > 60 {
            return None;
        }
        let (nanos, zone) = fraction(text.get(19..)?)?;
        let local = i64::try_from(days * DAY + hour * 3600 + minute * 60 + second).ok()?;
        let seconds = u64::try_from(local - offset(zone)?).ok()?;
        Some(Self(seconds.checked_mul(NANOS)?.checked_add(nanos)?))
    }
}

/// Splits `.123Z` into nanoseconds and the zone.
fn fraction(text: &str) -> Option<(u64, &str)> {
    let Some(rest) = text.strip_prefix('.') else { return Some((0, text)) };
    let count = rest.bytes().take_while(u8::is_ascii_digit).count();
    if count == 0 {
        return None;
    }
    let kept = rest.get(..count.min(9))?;
    let scale = (kept.len()..9).fold(1, |scale, _| scale * 10);
    Some((digits(kept.as_bytes())? * scale, rest.get(count..)?))
}

/// Seconds east of UTC.
fn offset(zone: &str) -> Option<i64> {
    if matches!(zone, "Z" | "z") {
        return Some(0);
    }
    let bytes = zone.as_bytes();
    let sign = match bytes.first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    if bytes.len() != 6 || bytes.get(3) != Some(&b':') {
        return None;
    }
    let (hours, minutes) = (digits(bytes.get(1..3)?)?, digits(bytes.get(4..6)?)?);
    let seconds = i64::try_from(hours * 3600 + minutes * 60).ok()?;
    (hours < 24 && minutes < 60).then_some(sign * seconds)
}

fn digits(bytes: &[u8]) -> Option<u64> {
    bytes.iter().try_fold(0_u64, |value, byte| byte.is_ascii_digit().then(|| value * 10 + u64::from(byte - b'0')))
}

fn clock(second: u64) -> (u64, u64, u64) {
    (second / 3600, second / 60 % 60, second % 60)
}

/// Year, month and day of a day number, in the proleptic Gregorian calendar. Years are counted from March, so that the leap day
/// is the last of a year.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

/// Day number of a date from 1970 on.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    if year < 1970 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year = if month <= 2 { year - 1 } else { year };
    let from_march = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * from_march + 2) / 5 + day - 1;
    let days = 365 * year + year / 4 - year / 100 + year / 400 + day_of_year;
    let number = days.checked_sub(719_468)?;
    // 31 April would be read as 1 May.
    (civil(number).2 == day).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn writes_the_two_stored_forms() {
        let time = Timestamp::from_nanos(1_787_393_472_123_456_700);
        assert_eq!(time.rfc3339(), "2026-08-22T10:11:12Z");
        assert_eq!(time.go_text(), "2026-08-22 10:11:12.1234567 +0000 UTC");
        assert_eq!(Timestamp::from_secs(0).go_text(), "1970-01-01 00:00:00 +0000 UTC");
    }

    #[test]
    fn reads_offsets_and_fractions() {
        let utc = Timestamp::parse_rfc3339("2024-02-29T23:30:00Z").unwrap();
        assert_eq!(Timestamp::parse_rfc3339("2024-03-01T00:30:00+01:00"), Some(utc));
        let nanos = Timestamp::parse_rfc3339("2024-02-29T23:30:00.0000000019Z").unwrap();
        assert_eq!(nanos.nanos() - utc.nanos(), 1);
        let bad = ["", "2024-02-30T00:00:00Z", "2024-02-29T24:00:00Z", "2024-02-29T00:00:00", "1969-12-31T23:59:59Z"];
        for text in bad.into_iter().chain(["2024-02-29T00:00:00.Z", "2024-02-29T00:00:00+1:00", "2024-00-10T00:00:00Z"])
        {
            assert_eq!(Timestamp::parse_rfc3339(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn whole_seconds_survive_the_round_trip(seconds in 0_u64..18_000_000_000) {
            let time = Timestamp::from_secs(seconds);
            prop_assert_eq!(Timestamp::parse_rfc3339(&time.rfc3339()), Some(time));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            let _ = Timestamp::parse_rfc3339(&text);
        }
    }
}
