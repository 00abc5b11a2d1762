//! Randomness by seed (SplitMix64): equal seeds give equal runs.

use core::num::NonZeroU8;
use core::time::Duration;

use super::Discriminator;

#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// An interval reduced by up to a quarter, and with a multiplier of 1 by at least a tenth: then one packet that is on time must not
    /// be late (RFC 5880 section 6.8.7).
    pub(super) fn jitter(&mut self, interval: Duration, multiplier: NonZeroU8) -> Duration {
        let spread = if multiplier.get() == 1 { 151 } else { 251 };
        let thousandths = 750 + u32::try_from(self.next() % spread).unwrap_or(0);
        interval.saturating_mul(thousandths) / 1000
    }

    /// A discriminator, not to be guessed from the number of sessions.
    pub(super) fn discriminator(&mut self) -> Discriminator {
        loop {
            if let Some(number) = Discriminator::new((self.next() >> 32) as u32) {
                return number;
            }
        }
    }

    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_spans_what_rfc_5880_allows() {
        let mut random = Random::new(1);
        let interval = Duration::from_secs(1000);
        for (multiplier, longest) in [(1, 900), (2, 1000), (3, 1000), (255, 1000)] {
            let multiplier = NonZeroU8::new(multiplier).unwrap();
            let drawn: Vec<_> = (0..5000).map(|_| random.jitter(interval, multiplier).as_secs()).collect();
            assert_eq!(drawn.iter().min(), Some(&750));
            assert_eq!(drawn.iter().max(), Some(&longest), "multiplier {multiplier}");
        }
    }
}
