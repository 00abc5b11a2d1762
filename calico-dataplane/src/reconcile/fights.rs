//! Objects that somebody else changes again and again.
//!
//! In come objects that were right and are not any more; out goes when each may be made right again. The first repairs of an episode are
//! immediate, the next wait ever longer, so that two programs that fight over an object do not take all of the host's time. An episode
//! is over when the object was left alone for [`CALM`].
//!
//! Chains and sets are counted and named, but never wait: until they are right again, the host may let through what policy denies.

use std::collections::BTreeMap;
use std::time::Duration;

use super::retry::Object;

/// So many repairs of an object are made at once.
const FREE: u32 = 3;
/// The first pause before a repair; it doubles each time.
const FIRST: Duration = Duration::from_millis(100);
/// The longest such pause.
const LONGEST: Duration = Duration::from_secs(4);
/// An object that was left alone for so long is not fought over any more. Longer than the longest pause, or no episode would last.
const CALM: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Fights(BTreeMap<Object, Fight>);

#[derive(Debug)]
struct Fight {
    /// How often our work was undone in this episode.
    undone: u32,
    last: Duration,
    /// No repair before.
    until: Duration,
}

impl Fight {
    const fn is_over(&self, now: Duration) -> bool {
        now.saturating_sub(self.last).as_nanos() >= CALM.as_nanos()
    }
}

impl Fights {
    /// An object that was right is not any more.
    pub(super) fn undone(&mut self, object: Object, now: Duration) {
        let waits = matches!(object, Object::Route(_) | Object::Neighbor(..) | Object::Shaper(_));
        let fight = self.0.entry(object).or_insert(Fight { undone: 0, last: now, until: Duration::ZERO });
        fight.undone = fight.undone.saturating_add(1);
        fight.last = now;
        if let Some(doublings) = fight.undone.checked_sub(FREE + 1).filter(|_| waits) {
            let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
            fight.until = now + FIRST.saturating_mul(factor).min(LONGEST);
        }
    }

    /// Forgets episodes that are over.
    pub(super) fn end_over(&mut self, now: Duration) {
        self.0.retain(|_, fight| !fight.is_over(now));
    }

    /// Something else is wanted of the object: that need not wait for what others did.
    pub(super) fn expedite(&mut self, object: &Object) {
        if let Some(fight) = self.0.get_mut(object) {
            fight.until = Duration::ZERO;
        }
    }

    pub(super) fn may_repair(&self, object: &Object, now: Duration) -> bool {
        self.0.get(object).is_none_or(|fight| fight.until <= now)
    }

    /// When the next pause is over.
    pub(super) fn next_due(&self, now: Duration) -> Option<Duration> {
        self.0.values().map(|fight| fight.until).filter(|until| *until > now).min()
    }

    /// What is fought over.
    pub(super) fn objects(&self, now: Duration) -> impl Iterator<Item = &Object> {
        self.0.iter().filter(move |(_, fight)| fight.undone > FREE && !fight.is_over(now)).map(|(object, _)| object)
    }

    /// What happened to these had another reason.
    pub(super) fn forget_if(&mut self, mut condition: impl FnMut(&Object) -> bool) {
        self.0.retain(|object, _| !condition(object));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::sample::chain_name;

    fn neighbor() -> Object {
        Object::Neighbor("cali1".parse().unwrap(), [10, 65, 0, 1].into())
    }

    /// How long each of so many repairs waits, each being undone as soon as it was made; and from which on it is named.
    fn waits(object: &Object, count: usize) -> (Vec<u128>, usize, Fights, Duration) {
        let (mut fights, mut now) = (Fights::default(), Duration::from_secs(100));
        let (mut waits, mut unnamed) = (Vec::new(), 0);
        for _ in 0..count {
            fights.undone(object.clone(), now);
            let due = fights.next_due(now).unwrap_or(now);
            waits.push((due - now).as_millis());
            assert_eq!(fights.may_repair(object, now), due == now);
            assert!(fights.may_repair(object, due) && fights.next_due(due).is_none());
            unnamed += usize::from(fights.objects(now).next().is_none());
            now = due;
        }
        (waits, unnamed, fights, now)
    }

    #[test]
    fn repairs_wait_ever_longer_up_to_a_bound_until_the_object_is_left_alone() {
        let object = neighbor();
        let (found, unnamed, mut fights, now) = waits(&object, 12);
        assert_eq!(found, [0, 0, 0, 100, 200, 400, 800, 1600, 3200, 4000, 4000, 4000]);
        assert_eq!(unnamed, 3);
        let last = now - LONGEST;
        let calm = last + CALM;
        let before = calm - Duration::from_nanos(1);
        fights.end_over(before);
        assert_eq!(fights.objects(before).collect::<Vec<_>>(), [&object]);
        assert_eq!(fights.objects(calm).count(), 0, "though nobody has looked since");
        fights.end_over(calm);
        fights.undone(object.clone(), calm);
        assert!(fights.may_repair(&object, calm) && fights.objects(calm).next().is_none(), "another episode");
    }

    #[test]
    fn policy_never_waits_but_is_named() {
        let (found, unnamed, ..) = waits(&Object::Chain(chain_name("a")), 6);
        assert_eq!((found, unnamed), (vec![0; 6], 3));
    }

    #[test]
    fn what_is_expedited_or_forgotten_waits_no_longer() {
        let object = neighbor();
        let (_, _, mut fights, _) = waits(&object, 6);
        let start = Duration::from_secs(100);
        assert!(!fights.may_repair(&object, start));
        fights.forget_if(|other| *other != object);
        assert!(!fights.may_repair(&object, start));
        fights.expedite(&object);
        assert!(fights.may_repair(&object, start) && fights.objects(start).next().is_some());
        fights.forget_if(|other| *other == object);
        assert!(fights.objects(start).next().is_none());
    }
}
