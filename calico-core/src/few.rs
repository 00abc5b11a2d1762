//! Of what may be very many, the first few.

use alloc::vec::Vec;

/// How many are kept. A hostile document has millions of faults, and nobody reads beyond a screenful.
const MAX: usize = 20;

/// The first of what was added, and how many there are beyond.
#[derive(Debug, Clone)]
pub struct Few<T> {
    kept: Vec<T>,
    more: usize,
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self { kept: Vec::new(), more: 0 }
    }
}

impl<T> Few<T> {
    /// Adds one, which is made only if it is kept.
    pub fn add(&mut self, make: impl FnOnce() -> T) {
        if self.kept.len() < MAX {
            self.kept.push(make());
        } else {
            self.more += 1;
        }
    }

    /// Whether nothing was added.
    pub const fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Those that were kept.
    pub fn kept(&self) -> &[T] {
        &self.kept
    }

    /// How many there are beyond.
    pub const fn more(&self) -> usize {
        self.more
    }

    /// Those that were kept, and what stands for the others.
    pub fn finish(self, rest: impl FnOnce(usize) -> T) -> Vec<T> {
        let Self { mut kept, more } = self;
        if more > 0 {
            kept.push(rest(more));
        }
        kept
    }
}

impl<T> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut few = Self::default();
        items.into_iter().for_each(|item| few.add(|| item));
        few
    }
}
