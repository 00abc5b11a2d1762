//! From a limit in bytes to what the kernel's token bucket filter (`sch_tbf`) holds, and shows again, number by number.
//!
//! The kernel counts tokens in time: how long a full bucket lasts at its rate, in ticks of 64 ns. 32 bits of them are 275 s; a larger burst counts
//! as that. Of a rate so low that a packet takes more than 4.3 s (2.8 kbit/s for 1500 bytes) the kernel drops such packets.
//!
//! What may wait is the burst and what passes in 25 ms, as `tc` reckons for `latency 25ms`. Upstream means the same, but adds the burst in
//! ticks, so that up to 4 GiB of one workload's packets can wait. And where upstream lets a burst be less than one packet, so that none passes, one
//! packet passes here.

use calico_core::table::Shaping;

/// A limit as a kernel holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "backends build it with literals")]
pub struct TokenBucket {
    /// Bytes a second.
    pub rate: u64,
    /// How long a full bucket lasts, in ticks of 64 ns.
    pub depth: u32,
    /// Bytes that may wait.
    pub limit: u32,
    /// The bucket of peaks.
    pub peak: Option<PeakBucket>,
}

/// A bucket that limits how fast the other is emptied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "backends build it with literals")]
pub struct PeakBucket {
    /// Bytes a second.
    pub rate: u64,
    /// How long a full bucket lasts, in ticks of 64 ns.
    pub depth: u32,
}

impl TokenBucket {
    /// What a limit is at an interface whose largest packet is `mtu`.
    pub fn of(shaping: &Shaping, mtu: u32) -> Self {
        let packet = mtu.saturating_add(ETHERNET_HEADER);
        let burst = shaping.burst.max(packet);
        let peak = shaping.peak.map(|peak| (peak.rate, peak.burst.max(packet)));
        let limit = waiting(shaping.rate, burst);
        Self {
            rate: shaping.rate,
            depth: ticks(burst, shaping.rate),
            limit: peak.map_or(limit, |(rate, burst)| limit.min(waiting(rate, burst))),
            peak: peak.map(|(rate, burst)| PeakBucket { rate, depth: ticks(burst, rate) }),
        }
    }
}

/// How long so many bytes last; rounded up, or the last of them would not fit.
fn ticks(bytes: u32, rate: u64) -> u32 {
    let nanoseconds = u64::from(bytes) * 1_000_000_000;
    u32::try_from(nanoseconds.div_ceil(rate.saturating_mul(TICK).max(1))).unwrap_or(u32::MAX)
}

fn waiting(rate: u64, burst: u32) -> u32 {
    let bytes = rate / 1000 * LATENCY + rate % 1000 * LATENCY / 1000 + u64::from(burst);
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Upstream's, in milliseconds.
const LATENCY: u64 = 25;
/// In nanoseconds (`PSCHED_SHIFT`), of every kernel since 2.6.31; `/proc/net/psched` says the same.
const TICK: u64 = 64;
/// What a token bucket counts beside the packet.
const ETHERNET_HEADER: u32 = 14;

#[cfg(test)]
mod tests {
    use calico_core::table::{Peak, Shaper};

    use super::*;

    fn bucket(rate: u64, burst: u32, peak: Option<(u64, u32)>, mtu: u32) -> (u32, u32, Option<u32>) {
        let shaper = Shaper::of_received("cali1".parse().unwrap());
        let peak = peak.map(|(rate, burst)| Peak { rate, burst });
        let found = TokenBucket::of(&Shaping { shaper, rate, burst, peak }, mtu);
        assert_eq!((found.rate, found.peak.map(|found| found.rate)), (rate, peak.map(|peak| peak.rate)));
        (found.depth, found.limit, found.peak.map(|found| found.depth))
    }

    #[test]
    fn bytes_become_times() {
        // 10 ms; 25 ms and the burst.
        assert_eq!(bucket(1_000_000, 10_000, None, 1500), (156_250, 35_000, None));
        // One packet fits, and the last tick is a whole one.
        assert_eq!(bucket(1_000_000, 100, None, 1500), (23_657, 26_514, None));
        assert_eq!(bucket(1_000_000, 100_000, Some((2_000_000, 0)), 1500), (1_562_500, 51_514, Some(11_829)));
        assert_eq!(bucket(1_000_000, 1_000, Some((2_000_000, 3_000)), 1500), (23_657, 26_514, Some(23_438)));
        assert_eq!(bucket(1_999, 10_000, None, 1500).1, 10_049, "of 25 ms no byte is lost but the last");
    }

    #[test]
    fn the_largest_numbers_fit() {
        let (rate, peak) = (125_000_000_000_000, 126_250_000_000_000);
        assert_eq!(bucket(rate, u32::MAX, Some((peak, u32::MAX)), u32::MAX), (537, u32::MAX, Some(532)));
        assert_eq!(bucket(125, u32::MAX, None, 1500), (u32::MAX, u32::MAX, None));
        assert_eq!(bucket(0, 0, None, 0).0, u32::MAX);
        assert_eq!(bucket(u64::MAX, 0, None, 0).0, 1);
    }
}
