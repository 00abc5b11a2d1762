//! Where rules stand that share a condition.

use alloc::vec::Vec;

/// Where one rule stands in the rule space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Which word.
    pub(super) word: u32,
    /// Which bit of it, alone.
    pub(super) bit: u64,
}

/// Rules that share a condition: words of the rule space with a bit for each, in order of words, none empty.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Postings(Vec<(u32, u64)>);

impl Postings {
    /// A rule gains or loses the condition.
    pub(super) fn set(&mut self, place: Place, present: bool) {
        // A snapshot fills the space from its start.
        let at = match self.0.last() {
            Some((last, _)) if *last < place.word => Err(self.0.len()),
            _ => self.0.binary_search_by_key(&place.word, |(word, _)| *word),
        };
        match (at, present) {
            (Ok(index), true) => {
                if let Some((_, bits)) = self.0.get_mut(index) {
                    *bits |= place.bit;
                }
            }
            (Err(index), true) => self.0.insert(index, (place.word, place.bit)),
            (Ok(index), false) => {
                if let Some((_, bits)) = self.0.get_mut(index) {
                    *bits &= !place.bit;
                    if *bits == 0 {
                        self.0.remove(index);
                    }
                }
            }
            (Err(_), false) => {}
        }
    }

    pub(super) fn words(&self) -> &[(u32, u64)] {
        &self.0
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
