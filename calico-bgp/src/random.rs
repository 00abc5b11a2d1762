//! Randomness by seed (SplitMix64): equal seeds give equal runs.

use core::time::Duration;

#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Between three quarters and so many thousandths of a delay.
    pub(crate) fn spread(&mut self, delay: Duration, most: u32) -> Duration {
        let choices = u64::from(most.saturating_sub(750)) + 1;
        let drawn = u32::try_from(self.next().checked_rem(choices).unwrap_or(0)).unwrap_or(0);
        delay.saturating_mul(750 + drawn) / 1000
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
