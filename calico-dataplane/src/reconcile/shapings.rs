//! Limits on bandwidth: what is wanted of a device follows from the limit and from the largest packet of the workload's interface.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use calico_core::net::InterfaceName;
use calico_core::table::{Delta, Shaper, Shaping};

use super::machine::{Reconciler, chain_of};
use super::retry::Object;
use crate::{ApplyReport, Shaped, TokenBucket};

/// Something is there, or may be, and it is not known to be right.
const fn doubtful(source: Option<InterfaceName>) -> Shaped {
    Shaped { source, bucket: None }
}

impl Reconciler {
    /// What failed last may have been carried out in part: see `desire_host_objects`.
    pub(super) fn desire_shapings(&mut self, change: &Delta) {
        for shaper in &change.shapings_removed {
            let (device, object) = (shaper.device, Object::Shaper(shaper.device));
            self.fights.expedite(&object);
            if self.limits.remove(&device).is_some() && self.retries.error(&object).is_some() {
                self.shapings.set_observed(device, Some(doubtful(shaper.source)));
            }
            self.shapings.remove_desired(device);
        }
        for shaping in &change.shapings_set {
            let (device, object) = (shaping.shaper.device, Object::Shaper(shaping.shaper.device));
            if self.retries.error(&object).is_some() && self.shapings.observed(&device).is_some() {
                self.shapings.set_observed(device, Some(doubtful(shaping.shaper.source)));
            }
            self.retries.forget(&object);
            self.fights.expedite(&object);
            self.limits.insert(device, *shaping);
            self.shapings.set_desired(device, self.as_written(shaping));
        }
    }

    fn as_written(&self, shaping: &Shaping) -> Shaped {
        let mtu = self.links.get(&shaping.shaper.workload()).map_or(USUAL_MTU, |link| link.mtu);
        Shaped { source: shaping.shaper.source, bucket: Some(TokenBucket::of(shaping, mtu)) }
    }

    /// An interface came, went or changed. What was done to it is gone with it; the device that what it sent was led through is not.
    pub(super) fn change_link_of_shapings(&mut self, name: InterfaceName, replaced: bool) {
        for shaper in shapers_of(name) {
            let device = shaper.device;
            let seen = self.shapings.observed(&device).copied();
            if replaced && seen.is_some_and(|seen| device == name || seen.source == Some(name)) {
                self.shapings.set_observed(device, shaper.source.map(|_| doubtful(None)));
            }
            let limit = self.limits.get(&device).filter(|limit| limit.shaper.workload() == name).copied();
            if let Some(limit) = limit {
                self.shapings.set_desired(device, self.as_written(&limit));
            }
        }
    }

    /// Somebody touched it, or what stands in its place.
    pub(super) fn doubt_shaping(&mut self, device: InterfaceName) {
        let seen = self.shapings.observed(&device).copied();
        let wanted = self.shapings.desired(&device).copied();
        // What others do where nothing is limited is theirs.
        if let Some(known) = seen.or(wanted) {
            self.shapings.set_observed(device, Some(doubtful(known.source)));
        }
    }

    /// What can be written now.
    pub(super) fn plan_shapings(&self, now: Duration, delta: &mut Delta) {
        for difference in self.shapings.pending() {
            let device = *difference.key;
            let object = Object::Shaper(device);
            if !self.retries.may_try(&object, now) || !self.fights.may_repair(&object, now) {
                continue;
            }
            let source = difference.observed.and_then(|seen| seen.source);
            match self.limits.get(&device) {
                None => delta.shapings_removed.push(Shaper { device, source }),
                Some(limit) if self.links.contains_key(&limit.shaper.workload()) => {
                    let other = source.filter(|_| source != limit.shaper.source);
                    delta.shapings_removed.extend(other.map(|other| Shaper { device, source: Some(other) }));
                    delta.shapings_set.push(*limit);
                }
                Some(_) => {}
            }
        }
    }

    pub(super) fn shapings_took_effect(&mut self, delta: &Delta, outcome: &ApplyReport, now: Duration) {
        let failed: BTreeMap<_, _> = outcome.shapings.iter().map(|(shaper, error)| (shaper.device, error)).collect();
        let gone = delta.shapings_removed.iter().map(|shaper| (shaper.device, None));
        let written = delta.shapings_set.iter().map(|shaping| (shaping.shaper.device, Some(self.as_written(shaping))));
        for (device, now_there) in gone.chain(written).collect::<Vec<_>>() {
            let object = Object::Shaper(device);
            match failed.get(&device) {
                Some(error) => self.retries.failed(object, chain_of(error), now),
                None => {
                    self.retries.forget(&object);
                    self.shapings.set_observed(device, now_there);
                }
            }
        }
    }

    /// Those of a workload's interface that are not as they should be.
    pub(super) fn unsettled_shapings(&self, workload: InterfaceName) -> BTreeSet<Object> {
        let devices = shapers_of(workload).map(|shaper| shaper.device);
        let unsettled = devices.into_iter().filter(|device| !self.shapings.is_settled(device));
        unsettled.map(Object::Shaper).collect()
    }
}

/// Where an interface can be limited.
pub(super) fn shapers_of(workload: InterfaceName) -> [Shaper; 2] {
    [Shaper::of_received(workload), Shaper::of_sent(workload)]
}

/// Of an interface that is not there yet.
const USUAL_MTU: u32 = 1500;
