//! What is known of a packet, as the check of a rule asks it.

use super::conditions::{Asked, Wanted};
use super::holders::ConditionId;
use crate::verdict::rule::Answers;
use crate::verdict::step::Side;

/// What is known of a packet, by numbers.
#[derive(Debug)]
pub(in crate::verdict) struct Facts<'s> {
    pub(in crate::verdict) source: Held<'s>,
    pub(in crate::verdict) destination: Held<'s>,
}

/// Conditions that hold an address, and those that have its port; each in order.
#[derive(Debug, Clone, Copy)]
pub(in crate::verdict) struct Held<'s> {
    pub(in crate::verdict) address: &'s [ConditionId],
    pub(in crate::verdict) port: &'s [ConditionId],
}

/// What the sets of one rule say to it.
pub(super) struct Known<'s> {
    pub(super) facts: &'s Facts<'s>,
    pub(super) asked: &'s Asked,
}

impl Known<'_> {
    const fn side(&self, side: Side) -> (&Held<'_>, &Wanted) {
        match side {
            Side::Source => (&self.facts.source, &self.asked.source),
            Side::Destination => (&self.facts.destination, &self.asked.destination),
        }
    }
}

impl Answers for Known<'_> {
    fn in_each(&self, side: Side) -> bool {
        let (held, wanted) = self.side(side);
        wanted.sets.iter().all(|id| holds(held.address, *id))
    }

    fn in_one_unwanted(&self, side: Side) -> bool {
        let (held, wanted) = self.side(side);
        wanted.not_sets.iter().any(|id| holds(held.address, *id))
    }

    fn port_in_one(&self, side: Side) -> bool {
        let (held, wanted) = self.side(side);
        wanted.port_sets.iter().any(|id| holds(held.port, *id))
    }

    fn port_in_one_unwanted(&self, side: Side) -> bool {
        let (held, wanted) = self.side(side);
        wanted.not_port_sets.iter().any(|id| holds(held.port, *id))
    }
}

fn holds(conditions: &[ConditionId], id: ConditionId) -> bool {
    conditions.binary_search(&id).is_ok()
}
