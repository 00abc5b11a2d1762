//! Stacks of workload endpoints, remembered while a flush works out many: those that the same policies select, with the same profiles, have the
//! same, and to sort policies and put a stack together is most of what an endpoint costs.

use alloc::boxed::Box;
use alloc::vec::Vec;

use hashbrown::HashMap;

use super::diagnostic::Problem;
use super::event::{Directions, ProfileId};

/// Places that are remembered, a megabyte of them; more are forgotten together. What is remembered must not grow with a cluster.
const MOST: usize = 1 << 18;
/// What an answer weighs beside its places.
const ANSWER: usize = 64;

/// What was worked out, by the policies' places in the index.
#[derive(Debug, Default)]
pub(super) struct Orders {
    known: HashMap<Box<[u32]>, Vec<Answer>>,
    weight: usize,
}

/// For these profiles.
type Answer = (Vec<ProfileId>, Ordered);

/// What policies and profiles make of an endpoint.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ordered {
    pub(super) stacks: Directions,
    /// Tiers that are missing.
    pub(super) problems: Vec<Problem>,
}

impl Orders {
    /// What was remembered of these.
    pub(super) fn find(&self, policies: &[u32], profiles: &[ProfileId]) -> Option<Ordered> {
        let known = self.known.get(policies)?;
        known.iter().find(|(of, _)| of == profiles).map(|(_, ordered)| ordered.clone())
    }

    /// Remembers what was worked out for the first time.
    pub(super) fn remember(&mut self, policies: &[u32], profiles: Vec<ProfileId>, ordered: Ordered) {
        let weight = policies.len() + ANSWER;
        if self.weight + weight > MOST {
            *self = Self::default();
        }
        self.weight += weight;
        match self.known.get_mut(policies) {
            Some(known) => known.push((profiles, ordered)),
            None => drop(self.known.insert(policies.into(), [(profiles, ordered)].into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;
    use alloc::{format, vec};

    use super::*;
    use crate::calc::event::Stack;

    fn ordered(name: &str) -> Ordered {
        let stack = Arc::new(Stack { tiers: Vec::new(), profiles: vec![ProfileId(name.into())] });
        let stacks = Directions { ingress: stack.clone(), egress: stack };
        Ordered { stacks, problems: Vec::new() }
    }

    #[test]
    fn policies_and_profiles_tell_apart() {
        let mut orders = Orders::default();
        let profiles = |name: &str| vec![ProfileId(name.into())];
        for (policies, name) in [(&[1, 2][..], "a"), (&[1, 2], "b"), (&[1], "c"), (&[], "d")] {
            assert_eq!(orders.find(policies, &profiles(name)), None);
            orders.remember(policies, profiles(name), ordered(name));
        }
        for (policies, name) in [(&[1, 2][..], "a"), (&[1, 2], "b"), (&[1], "c"), (&[], "d")] {
            assert_eq!(orders.find(policies, &profiles(name)), Some(ordered(name)));
        }
        assert_eq!(orders.find(&[1], &profiles("a")), None);
        assert_eq!(orders.find(&[2], &profiles("c")), None);
    }

    #[test]
    fn only_so_many_are_remembered() {
        let mut orders = Orders::default();
        for number in 0..2000_u32 {
            let name = format!("{number}");
            let policies: Vec<u32> = (number % 7..1000).collect();
            orders.remember(&policies, vec![ProfileId(name.as_str().into())], ordered(&name));
            let answers = orders.known.values().map(Vec::len).sum::<usize>();
            assert!(answers * ANSWER <= MOST && orders.known.keys().map(|key| key.len()).sum::<usize>() <= MOST);
            assert_eq!(orders.find(&policies, &[ProfileId(name.as_str().into())]), Some(ordered(&name)));
        }
    }
}
