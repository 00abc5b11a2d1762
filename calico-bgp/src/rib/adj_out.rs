//! What one peer has been told, and what is still to be told.
//!
//! Pending work is a set of prefixes: however often a prefix changes while the peer does not read, it costs one entry and one
//! message in the end.

use core::net::Ipv4Addr;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use calico_core::net::{Cidr, Family};

use crate::wire::PathAttributes;

/// What was last announced for a prefix.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) attributes: Arc<PathAttributes>,
    pub(crate) next_hop: Ipv4Addr,
}

impl PartialEq for Sent {
    /// Sets are interned, so the pointer is the identity.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.attributes, &other.attributes) && self.next_hop == other.next_hop
    }
}

/// One peer's outbound view.
#[derive(Debug, Default)]
pub(crate) struct AdjOut {
    sent: HashMap<Cidr, Sent>,
    pending: BTreeSet<Cidr>,
    /// Prefixes to announce even if the peer was told the same before.
    again: BTreeSet<Cidr>,
    end_of_rib: bool,
}

/// A step to bring the peer's picture up to date.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    Announce(Cidr, Sent),
    Withdraw(Cidr),
    EndOfRib,
}

impl AdjOut {
    /// Looks at a prefix again when the peer next has room.
    pub(crate) fn touch(&mut self, prefix: Cidr) {
        self.pending.insert(prefix);
    }

    /// Sends everything again: the peer has asked for it.
    pub(crate) fn refresh(&mut self, family: Family) {
        let all = self.sent.keys().filter(|prefix| prefix.family() == family);
        self.again.extend(all.clone());
        self.pending.extend(all);
    }

    /// Sends the end-of-RIB marker once everything pending is out.
    pub(crate) const fn finish(&mut self) {
        self.end_of_rib = true;
    }

    pub(crate) fn has_pending(&self) -> bool {
        self.end_of_rib || !self.pending.is_empty()
    }

    /// Takes up to `limit` prefixes. `export` says what the peer should hear about one.
    pub(crate) fn take(&mut self, limit: usize, mut export: impl FnMut(&Cidr) -> Option<Sent>) -> Vec<Step> {
        let mut steps = Vec::new();
        for _ in 0..limit {
            let Some(prefix) = self.pending.pop_first() else {
                break;
            };
            let again = self.again.remove(&prefix);
            match export(&prefix) {
                Some(wanted) if again || self.sent.get(&prefix) != Some(&wanted) => {
                    self.sent.insert(prefix, wanted.clone());
                    steps.push(Step::Announce(prefix, wanted));
                }
                Some(_) => {}
                None if self.sent.remove(&prefix).is_some() => steps.push(Step::Withdraw(prefix)),
                None => {}
            }
        }
        if self.pending.is_empty() && core::mem::take(&mut self.end_of_rib) {
            steps.push(Step::EndOfRib);
        }
        steps
    }

    /// Number of prefixes that the peer knows.
    pub(crate) fn len(&self) -> usize {
        self.sent.len()
    }

    #[cfg(test)]
    fn sent(&self) -> impl Iterator<Item = Cidr> + '_ {
        self.sent.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(number: u8) -> Cidr {
        format!("10.0.{number}.0/24").parse().unwrap()
    }

    #[test]
    fn many_changes_of_one_prefix_are_one_step_and_the_marker_comes_last() {
        let attributes = Arc::new(PathAttributes::default());
        let sent = Sent { attributes, next_hop: Ipv4Addr::LOCALHOST };
        let mut out = AdjOut::default();
        for _ in 0..100 {
            out.touch(prefix(1));
        }
        out.touch(prefix(2));
        out.finish();
        let first = out.take(1, |_| Some(sent.clone()));
        assert_eq!(first, [Step::Announce(prefix(1), sent.clone())]);
        let second = out.take(10, |_| Some(sent.clone()));
        assert_eq!(second, [Step::Announce(prefix(2), sent.clone()), Step::EndOfRib]);
        out.touch(prefix(1));
        assert_eq!(out.take(10, |_| Some(sent.clone())), [], "the peer knows");
        out.touch(prefix(1));
        assert_eq!(out.take(10, |_| None), [Step::Withdraw(prefix(1))]);
        out.touch(prefix(3));
        assert_eq!(out.take(10, |_| None), [], "the peer never heard of it");
        out.refresh(Family::V4);
        assert_eq!(out.take(10, |_| Some(sent.clone())), [Step::Announce(prefix(2), sent.clone())]);
        assert_eq!(out.sent().collect::<Vec<_>>(), [prefix(2)]);
    }
}
