//! Limits on the bandwidth of workloads.
//!
//! In comes what an endpoint says (`qosControls`), out go [`Shaping`]s. What is said follows upstream's reading of pods' annotations: a number out
//! of range counts as the nearest within, a burst is 4 Gibit unless given, a peak rate that is not above the bandwidth counts as none, and a
//! minimum burst means something beside a peak rate only. Manifests are held to the ranges, and
//! `calicoctl` tells of what has no effect.
//!
//! Two interfaces of one host share a device by an accident of 36 bits. The first has it; the other is not limited in what it sends.

use alloc::collections::{BTreeMap, BTreeSet};

use super::pending::Pending;
use crate::calc::event::ActiveEndpoint;
use crate::net::InterfaceName;
use crate::resource::{QosControls, QosRange};
use crate::table::{Delta, Peak, Shaper, Shaping};

/// Limits by the device that enforces them, and of those the workloads' interfaces.
#[derive(Debug, Default)]
pub(super) struct Bandwidths(BTreeMap<InterfaceName, BTreeMap<InterfaceName, Shaping>>);

impl Bandwidths {
    /// Changes the limits of one interface.
    pub(super) fn change(
        &mut self,
        before: &BTreeSet<Shaping>,
        after: &BTreeSet<Shaping>,
        pending: &mut Pending,
        delta: &mut Delta,
    ) {
        let devices: BTreeSet<_> = before.symmetric_difference(after).map(|shaping| shaping.shaper).collect();
        for shaper in devices {
            let claims = self.0.entry(shaper.device).or_default();
            let active = |claims: &BTreeMap<_, _>| claims.values().next().copied();
            let was = active(claims);
            match after.iter().find(|shaping| shaping.shaper == shaper) {
                Some(shaping) => claims.insert(shaper.workload(), *shaping),
                None => claims.remove(&shaper.workload()),
            };
            let is = active(claims);
            if claims.is_empty() {
                self.0.remove(&shaper.device);
            }
            match (was, is) {
                _ if was == is => {}
                (_, Some(shaping)) => pending.set_shaping(shaping, delta),
                (Some(gone), None) => pending.remove_shaping(gone.shaper, delta),
                (None, None) => {}
            }
        }
    }
}

/// The limits of an endpoint.
pub(super) fn shapings(endpoint: &ActiveEndpoint) -> BTreeSet<Shaping> {
    let Some(controls) = endpoint.qos.as_deref() else { return BTreeSet::new() };
    let received = Asked::of_ingress(controls).shaping(Shaper::of_received(endpoint.interface));
    let sent = Asked::of_egress(controls).shaping(Shaper::of_sent(endpoint.interface));
    [received, sent].into_iter().flatten().collect()
}

/// What is asked for in one direction, in bits but for the minimum burst.
struct Asked {
    bandwidth: Option<i64>,
    burst: Option<i64>,
    peak_rate: Option<i64>,
    least_burst: Option<i64>,
}

impl Asked {
    const fn of_ingress(controls: &QosControls) -> Self {
        Self {
            bandwidth: controls.ingress_bandwidth,
            burst: controls.ingress_burst,
            peak_rate: controls.ingress_peakrate,
            least_burst: controls.ingress_minburst,
        }
    }

    const fn of_egress(controls: &QosControls) -> Self {
        Self {
            bandwidth: controls.egress_bandwidth,
            burst: controls.egress_burst,
            peak_rate: controls.egress_peakrate,
            least_burst: controls.egress_minburst,
        }
    }

    fn shaping(&self, shaper: Shaper) -> Option<Shaping> {
        let bandwidth = within(self.bandwidth, QosRange::BANDWIDTH)?;
        let burst = within(self.burst, QosRange::BURST).unwrap_or(DEFAULT_BURST);
        let peak_rate = within(self.peak_rate, QosRange::PEAK_RATE).filter(|peak| *peak > bandwidth);
        let peak = peak_rate.map(|rate| Peak {
            rate: rate / 8,
            burst: octets(within(self.least_burst, QosRange::MIN_BURST).unwrap_or_default()),
        });
        Some(Shaping { shaper, rate: bandwidth / 8, burst: octets(burst / 8), peak })
    }
}

/// The nearest number in a range; zero, as a number below it, is none.
fn within(asked: Option<i64>, range: QosRange) -> Option<u64> {
    let asked = asked.filter(|number| *number > 0)?;
    u64::try_from(asked.clamp(range.least, range.most)).ok()
}

fn octets(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Upstream's.
const DEFAULT_BURST: u64 = 4 << 30;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// Rate and burst, of the limit and of its peak.
    type Numbers = (u64, u32, Option<(u64, u32)>);

    fn shaping(bandwidth: i64, burst: i64, peak_rate: i64, least_burst: i64) -> Option<Numbers> {
        let controls = QosControls {
            ingress_bandwidth: Some(bandwidth),
            ingress_burst: Some(burst),
            ingress_peakrate: Some(peak_rate),
            ingress_minburst: Some(least_burst),
            ..QosControls::default()
        };
        let shaper = Shaper::of_received("cali1".parse().unwrap());
        assert_eq!(Asked::of_egress(&controls).shaping(shaper), None);
        let found = Asked::of_ingress(&controls).shaping(shaper)?;
        assert_eq!(found.shaper, shaper);
        Some((found.rate, found.burst, found.peak.map(|peak| (peak.rate, peak.burst))))
    }

    #[test]
    fn what_is_asked_for_counts_as_upstream_reads_it() {
        let cases = [
            ((8_000_000, 80_000, 16_000_000, 3_000), Some((1_000_000, 10_000, Some((2_000_000, 3_000))))),
            // A burst unless given, one packet at a time unless given.
            ((8_000_000, 0, 16_000_000, 0), Some((1_000_000, 1 << 29, Some((2_000_000, 0))))),
            // A peak is above the rate, and a minimum burst is a peak's.
            ((8_000_000, 80_000, 8_000_000, 3_000), Some((1_000_000, 10_000, None))),
            ((8_000_000, 80_000, 0, 3_000), Some((1_000_000, 10_000, None))),
            // Nothing stands without a bandwidth.
            ((0, 80_000, 16_000_000, 3_000), None),
            ((-5, 80_000, 16_000_000, 3_000), None),
            // The nearest in range.
            ((1, 1, 1_009, 1), Some((125, 125, Some((126, 1_000))))),
            (
                (i64::MAX, i64::MAX, i64::MAX, i64::MAX),
                Some((125_000_000_000_000, u32::MAX, Some((126_250_000_000_000, 100_000_000)))),
            ),
            ((8_000_000, i64::MIN, i64::MIN, i64::MIN), Some((1_000_000, 1 << 29, None))),
        ];
        for ((bandwidth, burst, peak, least), expected) in cases {
            assert_eq!(shaping(bandwidth, burst, peak, least), expected, "{bandwidth} {burst} {peak} {least}");
        }
    }

    #[test]
    fn of_two_that_share_a_device_the_first_has_it() {
        let device = "bwcali000000000".parse().unwrap();
        let of = |name: &str, rate| {
            let shaper = Shaper { device, source: Some(name.parse().unwrap()) };
            BTreeSet::from([Shaping { shaper, rate, burst: 1, peak: None }])
        };
        let (mut bandwidths, mut pending, none) = (Bandwidths::default(), Pending::default(), BTreeSet::new());
        let mut change = |before: &BTreeSet<_>, after: &BTreeSet<_>| {
            let mut delta = Delta::default();
            bandwidths.change(before, after, &mut pending, &mut delta);
            (delta.shapings_set, delta.shapings_removed)
        };
        let list = |one: &BTreeSet<Shaping>| one.iter().copied().collect::<Vec<_>>();
        let (first, second, third) = (of("cali1", 1), of("cali2", 2), of("cali2", 3));
        assert_eq!(change(&none, &second), (list(&second), Vec::new()));
        assert_eq!(change(&none, &first), (list(&first), Vec::new()));
        assert_eq!(change(&second, &third), Default::default());
        assert_eq!(change(&third, &third), Default::default());
        assert_eq!(change(&first, &none), (list(&third), Vec::new()));
        assert_eq!(change(&third, &none), (Vec::new(), third.iter().map(|one| one.shaper).collect()));
    }
}
