//! The lock of the datastore: while ClusterInformation says `datastoreReady: false` (`calicoctl datastore migrate lock`), what is
//! enforced stays enforced and no change is taken.
//!
//! In come the syncer's updates, out come those that may be acted upon. Until the picture has been complete and unlocked once, updates
//! pass, since nothing is enforced before, and it is the completeness that is kept back. From then on the updates of a locked datastore are
//! held, the newest of each key, and pass together once it is unlocked. A cluster without a ClusterInformation is not locked.

use std::collections::BTreeMap;

use calico_core::resource::{Kind, Resource, ResourceKey};
use calico_core::update::Update;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Gate {
    is_locked: bool,
    /// The syncer's picture has been complete.
    is_complete: bool,
    /// Somebody has been told so.
    is_open: bool,
    held: BTreeMap<ResourceKey, Update>,
}

/// What may be acted upon.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Passed {
    /// No key twice.
    pub(super) updates: Vec<Update>,
    /// After these updates the picture is complete, for the first time.
    pub(super) is_complete: bool,
}

impl Gate {
    /// Takes a batch of updates.
    pub(super) fn updates(&mut self, updates: Vec<Update>) -> Passed {
        // Keys of one batch have no order: a lock among them is before all others.
        for update in updates.iter().filter(|update| update.key.kind() == Kind::ClusterInformation) {
            self.is_locked = is_locked(update);
        }
        let updates = match (self.is_open, self.is_locked) {
            (true, true) => {
                self.held.extend(updates.into_iter().map(|update| (update.key.clone(), update)));
                Vec::new()
            }
            _ if self.held.is_empty() => updates,
            _ => {
                let mut newest = std::mem::take(&mut self.held);
                newest.extend(updates.into_iter().map(|update| (update.key.clone(), update)));
                newest.into_values().collect()
            }
        };
        Passed { updates, is_complete: self.opens() }
    }

    /// The syncer's picture is complete. Answers whether it is so for whoever acts on it, for the first time.
    pub(super) fn complete(&mut self) -> bool {
        self.is_complete = true;
        self.opens()
    }

    /// While the datastore is locked: how many objects have changed that wait for its end.
    pub(super) fn locked(&self) -> Option<usize> {
        self.is_locked.then_some(self.held.len())
    }

    fn opens(&mut self) -> bool {
        let opens = self.is_complete && !self.is_locked && !self.is_open;
        self.is_open |= opens;
        opens
    }
}

fn is_locked(update: &Update) -> bool {
    match update.value.as_deref() {
        Some(Resource::ClusterInformation(information)) => information.spec.datastore_ready == Some(false),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use calico_core::resource::{ClusterInformationSpec, Object, Tier, TierSpec};

    use super::*;

    fn ready(datastore_ready: Option<bool>) -> Update {
        let spec = ClusterInformationSpec { datastore_ready, ..ClusterInformationSpec::default() };
        let information = Object { spec, ..Object::default() };
        let value = Some(Arc::new(Resource::ClusterInformation(Box::new(information))));
        Update { key: ResourceKey::cluster(Kind::ClusterInformation, "default"), value }
    }

    fn tier(name: &str, order: Option<f64>) -> Update {
        let tier = |order| Tier::named(name, TierSpec { order: Some(order), ..TierSpec::default() });
        let value = order.map(|order| Arc::new(Resource::Tier(tier(order))));
        Update { key: ResourceKey::cluster(Kind::Tier, name), value }
    }

    fn open() -> Gate {
        let mut gate = Gate::default();
        assert!(gate.complete());
        gate
    }

    #[test]
    fn an_unlocked_store_passes_everything_at_once() {
        let mut gate = Gate::default();
        for update in [tier("a", Some(1.0)), ready(Some(true)), ready(None)] {
            let passed = gate.updates(vec![update.clone()]);
            assert_eq!(passed, Passed { updates: vec![update], is_complete: false });
        }
        assert!(gate.complete());
        assert!(!gate.complete(), "a second snapshot is nothing new");
        let gone = Update { value: None, ..ready(None) };
        assert_eq!(gate.updates(vec![gone.clone()]).updates, [gone]);
        assert_eq!(gate.locked(), None);
    }

    #[test]
    fn a_locked_store_changes_nothing_until_it_is_unlocked() {
        let mut gate = open();
        assert_eq!(gate.updates(vec![tier("a", Some(1.0)), ready(Some(false))]), Passed::default());
        assert_eq!(gate.updates(vec![tier("b", Some(1.0)), tier("a", None)]), Passed::default());
        assert!(!gate.complete());
        assert_eq!(gate.updates(vec![tier("b", Some(2.0))]), Passed::default());
        assert_eq!(gate.locked(), Some(3));
        let passed = gate.updates(vec![ready(Some(true)), tier("c", None)]);
        let newest = vec![tier("a", None), tier("b", Some(2.0)), tier("c", None), ready(Some(true))];
        assert_eq!(passed, Passed { updates: newest, is_complete: false });
        assert_eq!(gate.locked(), None);
    }

    #[test]
    fn a_store_that_is_locked_from_the_start_is_complete_only_when_it_is_unlocked() {
        let mut gate = Gate::default();
        let snapshot = vec![ready(Some(false)), tier("a", Some(1.0))];
        assert_eq!(gate.updates(snapshot.clone()), Passed { updates: snapshot, is_complete: false });
        assert!(!gate.complete());
        let more = vec![tier("b", Some(1.0))];
        assert_eq!(gate.updates(more.clone()), Passed { updates: more, is_complete: false });
        let unlocked = vec![ready(Some(true))];
        assert_eq!(gate.updates(unlocked.clone()), Passed { updates: unlocked, is_complete: true });
    }

    /// Whatever comes in whatever order, what passed in the end is the newest of all.
    #[test]
    fn nothing_is_lost_whenever_the_lock_comes_and_goes() {
        let mut dice: u64 = 7;
        let mut roll = |sides: u64| {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (dice >> 33) % sides
        };
        for _ in 0..300 {
            let (mut gate, mut newest, mut seen) = (Gate::default(), BTreeMap::new(), BTreeMap::new());
            let mut is_complete = false;
            for _ in 0..roll(20) {
                let mut batch = vec![tier(&format!("t{}", roll(4)), [None, Some(1.0), Some(2.0)][roll(3) as usize])];
                if roll(3) == 0 {
                    batch.push(ready(Some(roll(2) == 0)));
                }
                newest.extend(batch.iter().map(|update| (update.key.clone(), update.clone())));
                let passed = gate.updates(batch);
                assert!(gate.locked().is_none() || !is_complete || passed.updates.is_empty());
                is_complete |= passed.is_complete;
                seen.extend(passed.updates.into_iter().map(|update| (update.key.clone(), update)));
                is_complete |= roll(4) == 0 && gate.complete();
            }
            let last = gate.updates(vec![ready(Some(true))]);
            seen.extend(last.updates.into_iter().map(|update| (update.key.clone(), update)));
            let unlocked = ready(Some(true));
            newest.insert(unlocked.key.clone(), unlocked);
            assert_eq!(seen, newest);
            assert!(is_complete || last.is_complete || gate.complete());
        }
    }
}
