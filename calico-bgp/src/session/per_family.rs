//! One of something for each of the two families.

use calico_core::net::Family;

/// A value per family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PerFamily<T> {
    v4: T,
    v6: T,
}

impl<T> PerFamily<T> {
    pub(crate) const fn of(&self, family: Family) -> &T {
        match family {
            Family::V4 => &self.v4,
            Family::V6 => &self.v6,
        }
    }

    pub(crate) const fn of_mut(&mut self, family: Family) -> &mut T {
        match family {
            Family::V4 => &mut self.v4,
            Family::V6 => &mut self.v6,
        }
    }
}
