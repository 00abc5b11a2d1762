//! A sparse array by prefix number: pages that are allocated when used.
//!
//! A mesh tells its peers of four prefixes out of thousands, a reflector of all: neither should pay for the other.

use super::table::PrefixId;

const PAGE: usize = 64;

/// Values by prefix number.
#[derive(Debug)]
pub(crate) struct Paged<T> {
    pages: Vec<Option<Box<Page<T>>>>,
    len: usize,
}

#[derive(Debug)]
struct Page<T> {
    used: usize,
    slots: [Option<T>; PAGE],
}

impl<T> Default for Paged<T> {
    fn default() -> Self {
        Self { pages: Vec::new(), len: 0 }
    }
}

const fn split(id: PrefixId) -> (usize, usize) {
    (id.index() / PAGE, id.index() % PAGE)
}

impl<T> Paged<T> {
    pub(crate) fn get(&self, id: PrefixId) -> Option<&T> {
        let (page, slot) = split(id);
        self.pages.get(page)?.as_ref()?.slots.get(slot)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: PrefixId) -> Option<&mut T> {
        let (page, slot) = split(id);
        self.pages.get_mut(page)?.as_mut()?.slots.get_mut(slot)?.as_mut()
    }

    /// Puts a value where there is none.
    pub(crate) fn insert(&mut self, id: PrefixId, value: T) {
        let (page, slot) = split(id);
        if self.pages.len() <= page {
            self.pages.resize_with(page.saturating_add(1), || None);
        }
        let Some(page) = self.pages.get_mut(page) else { return };
        let page = page.get_or_insert_with(|| Box::new(Page { used: 0, slots: [const { None }; PAGE] }));
        if let Some(slot) = page.slots.get_mut(slot)
            && slot.replace(value).is_none()
        {
            page.used = page.used.saturating_add(1);
            self.len = self.len.saturating_add(1);
        }
    }

    pub(crate) fn remove(&mut self, id: PrefixId) -> Option<T> {
        let (number, slot) = split(id);
        let page = self.pages.get_mut(number)?;
        let known = page.as_mut()?;
        let removed = known.slots.get_mut(slot)?.take()?;
        known.used = known.used.saturating_sub(1);
        self.len = self.len.saturating_sub(1);
        if known.used == 0 {
            *page = None;
        }
        while matches!(self.pages.last(), Some(None)) {
            self.pages.pop();
        }
        Some(removed)
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// All, in the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (PrefixId, &T)> {
        (0_u32..).step_by(PAGE).zip(&self.pages).flat_map(|(first, page)| {
            let slots = page.iter().flat_map(|page| &page.slots);
            (first..).zip(slots).filter_map(|(id, slot)| Some((PrefixId(id), slot.as_ref()?)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_is_there_until_it_is_taken_out() {
        let mut paged = Paged::default();
        for id in [3, 64, 700, 63] {
            paged.insert(PrefixId(id), id);
        }
        assert_eq!((paged.len(), paged.get(PrefixId(700)), paged.get(PrefixId(701))), (4, Some(&700), None));
        assert_eq!(
            paged.iter().map(|(id, value)| (id.0, *value)).collect::<Vec<_>>(),
            [(3, 3), (63, 63), (64, 64), (700, 700)]
        );
        assert_eq!((paged.remove(PrefixId(700)), paged.remove(PrefixId(700))), (Some(700), None));
        assert_eq!((paged.len(), paged.pages.len()), (3, 2), "pages that nobody uses go");
    }
}
