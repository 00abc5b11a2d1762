//! Time and identity, the two things a store needs from outside.
//!
//! Libraries never read a clock or a random source by themselves: whoever builds a store or a client hands one in. The
//! implementations here are what programs pass; tests pass their own.

use std::io::Read;
use std::time::{SystemTime, UNIX_EPOCH};

use calico_core::time::Timestamp;

/// Wall-clock time.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;
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
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_ids_differ() {
        let ids = SystemIds::open().unwrap();
        assert_ne!(ids.draw(), ids.draw());
    }
}
