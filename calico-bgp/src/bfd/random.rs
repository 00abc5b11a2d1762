//! What is drawn at random: pauses and discriminators.

use core::num::NonZeroU8;
use core::time::Duration;

use super::Discriminator;
use crate::random::Random;

/// An interval reduced by up to a quarter, and with a multiplier of 1 by at least a tenth: then one packet that is on time must not
/// be late (RFC 5880 section 6.8.7).
pub(super) fn jitter(random: &mut Random, interval: Duration, multiplier: NonZeroU8) -> Duration {
    random.spread(interval, if multiplier.get() == 1 { 900 } else { 1000 })
}

/// A discriminator, not to be guessed from the number of sessions.
pub(super) fn discriminator(random: &mut Random) -> Discriminator {
    loop {
        if let Some(number) = Discriminator::new((random.next() >> 32) as u32) {
            return number;
        }
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
            let drawn: Vec<_> = (0..5000).map(|_| jitter(&mut random, interval, multiplier).as_secs()).collect();
            assert_eq!(drawn.iter().min(), Some(&750));
            assert_eq!(drawn.iter().max(), Some(&longest), "multiplier {multiplier}");
        }
    }
}
