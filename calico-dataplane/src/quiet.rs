//! Large nf_tables transactions without notifications.
//!
//! While anybody, in whatever network namespace, is subscribed, the kernel makes a notification of 8 KiB for each rule and each
//! element that a transaction writes, and keeps all of them until the commit ends: gigabytes for some hundred thousands. Our
//! filter drops them, but only then. So for a large transaction the monitor leaves the group. Every transaction raises the
//! generation by one; where it rose by ours alone, nobody else wrote meanwhile and nothing was missed. Where that is not proven,
//! the monitor says [`HostChange::Overrun`](crate::HostChange::Overrun), as for any notification that is lost.

use calico_core::table::Delta;

use crate::DataplaneError;
use crate::netlink::monitor::Monitor;
use crate::nftables::Ruleset;

/// Rules and elements from which on a transaction is large: of fewer, the notifications need less than 8 MiB.
const LARGE: usize = 1024;

/// Carries out the nf_tables part of a delta.
pub(crate) fn apply(ruleset: &mut Ruleset, monitor: &mut Monitor, delta: &Delta) -> Result<(), DataplaneError> {
    if is_large(delta) { muted(ruleset, monitor, |ruleset| ruleset.apply(delta)) } else { ruleset.apply(delta) }
}

fn is_large(delta: &Delta) -> bool {
    let rules = delta.chains_set.iter().map(|chain| chain.rules.len());
    let elements = delta.elements.iter().map(|change| change.added.len() + change.removed.len());
    rules.chain(elements).sum::<usize>() >= LARGE
}

/// Lets `write`, which carries out one transaction if it succeeds and none if it fails, happen without notifications.
fn muted<T>(
    ruleset: &mut Ruleset,
    monitor: &mut Monitor,
    write: impl FnOnce(&mut Ruleset) -> Result<T, DataplaneError>,
) -> Result<T, DataplaneError> {
    // While still subscribed: of whatever was written until now, a notification is in the queue.
    let Ok(before) = ruleset.announced_generation() else { return write(ruleset) };
    monitor.mute();
    let outcome = write(ruleset);
    // First the subscription, then the question: what is written in between is told twice rather than never.
    let subscribed = monitor.unmute().is_ok();
    let expected = if outcome.is_ok() { following(before) } else { before };
    if !subscribed || ruleset.generation().ok() != Some(expected) {
        monitor.missed();
    }
    outcome
}

/// The generation after one more transaction; the kernel leaves out zero.
fn following(generation: u32) -> u32 {
    generation.wrapping_add(1).max(1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::netlink::monitor::News;
    use crate::testing::netns::scratch;
    use crate::testing::sample;
    use crate::{HostChange, LinuxConfig};

    /// What the monitor says after a muted write of ours with `before`, `during` and `after` it a write of somebody else's.
    fn heard(before: bool, during: bool, after: bool, succeeds: bool) -> Vec<HostChange> {
        let work = move || {
            let (mut ours, mut other) = (Ruleset::open().unwrap(), Ruleset::open().unwrap());
            let mut monitor = Monitor::open(LinuxConfig::default(), ours.port(), 0).unwrap();
            let mut foreign = |happens: bool| {
                if happens {
                    other.apply(&sample::delta()).unwrap();
                }
            };
            foreign(before);
            let outcome = muted(&mut ours, &mut monitor, |ours| {
                foreign(during);
                if succeeds { ours.apply(&sample::delta()) } else { Err(DataplaneError::Raced) }
            });
            assert_eq!(outcome.is_ok(), succeeds);
            foreign(after);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut heard = Vec::new();
                let quiet = Duration::from_millis(200);
                while let Ok(change) = tokio::time::timeout(quiet, monitor.next()).await {
                    // It says which objects, or that all may have changed: either way, of the same write.
                    let change = match change.unwrap() {
                        News::Change(change) => change,
                        News::Touched => HostChange::Ruleset,
                    };
                    monitor.forget_touched();
                    if heard.last() != Some(&change) {
                        heard.push(change);
                    }
                }
                heard
            })
        };
        scratch().run(work).unwrap()
    }

    #[test]
    fn nothing_is_said_of_a_write_of_ours() {
        assert_eq!(heard(false, false, false, true), []);
        assert_eq!(heard(false, false, false, false), []);
    }

    #[test]
    fn a_foreign_write_before_or_after_is_heard() {
        for succeeds in [true, false] {
            assert_eq!(heard(true, false, false, succeeds), [HostChange::Ruleset]);
            assert_eq!(heard(false, false, true, succeeds), [HostChange::Ruleset]);
        }
    }

    #[test]
    fn a_foreign_write_meanwhile_is_an_overrun() {
        assert_eq!(heard(false, true, false, true), [HostChange::Overrun]);
        assert_eq!(heard(false, true, false, false), [HostChange::Overrun]);
    }

    #[test]
    fn the_generation_leaves_out_zero() {
        assert_eq!([following(1), following(u32::MAX)], [2, 1]);
    }
}
