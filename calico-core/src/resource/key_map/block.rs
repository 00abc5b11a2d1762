//! Some keys in order, in one piece: of each what it does not share with the one before it, and its value.
//!
//! What is said to be shared is all that is: so a search compares a byte once, and skips what cannot be meant without looking at it.

use alloc::vec::Vec;
use core::cmp::Ordering;
use core::marker::PhantomData;
use core::ops::Range;

use super::packed::Packed;

/// A longer block is split.
const MOST: usize = 2048;
/// What is allocated is a multiple of this: blocks grow by one key at a time, and half-empty ones would cost what front coding saves.
const GRAIN: usize = 64;

/// The keys.
#[derive(Debug)]
pub(super) struct Block<V> {
    bytes: Vec<u8>,
    values: PhantomData<V>,
}

impl<V> Default for Block<V> {
    fn default() -> Self {
        Self { bytes: Vec::new(), values: PhantomData }
    }
}

/// Where a key would go.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Gap {
    at: usize,
    /// How many bytes it shares with the one before it.
    before: usize,
    /// How many it shares with the one behind it.
    behind: usize,
}

struct Entry<'a, V> {
    /// Bytes that it has of the one before it, and its further ones.
    shared: usize,
    further: &'a [u8],
    value: V,
    /// Where its value stands, which ends it.
    place: Range<usize>,
}

impl<V: Packed> Block<V> {
    /// The first key.
    pub(super) fn first(&self) -> &[u8] {
        self.entry(0).map_or(&[], |entry| entry.further)
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    #[cfg(test)]
    pub(super) const fn bytes(&self) -> usize {
        self.bytes.capacity()
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<V> {
        self.value(self.search(key).ok()?)
    }

    pub(super) fn value(&self, at: usize) -> Option<V> {
        self.entry(at).map(|entry| entry.value)
    }

    /// Where a key is, or would go.
    pub(super) fn search(&self, key: &[u8]) -> Result<usize, Gap> {
        let (mut at, mut before) = (0, 0);
        while let Some(Entry { shared, further, place, .. }) = self.entry(at) {
            // The one before it is smaller, and so is what shares more with that than the key does.
            match shared.cmp(&before) {
                Ordering::Less => return Err(Gap { at, before, behind: shared }),
                Ordering::Greater => {}
                Ordering::Equal => {
                    let rest = key.get(before..).unwrap_or_default();
                    let more = rest.iter().zip(further).take_while(|(one, other)| one == other).count();
                    match rest.get(more).cmp(&further.get(more)) {
                        Ordering::Equal => return Ok(at),
                        Ordering::Less => return Err(Gap { at, before, behind: before + more }),
                        Ordering::Greater => before += more,
                    }
                }
            }
            at = place.end;
        }
        Err(Gap { at, before, behind: 0 })
    }

    /// Puts a key in where it would go.
    pub(super) fn insert(&mut self, Gap { at, before, behind }: Gap, key: &[u8], value: &V) {
        let mut new = Vec::new();
        write(&mut new, before, &[key.get(before..).unwrap_or_default()]);
        value.write(&mut new);
        let mut end = at;
        if let Some(next) = self.entry(at) {
            let saved = behind.saturating_sub(next.shared);
            write(&mut new, behind, &[next.further.get(saved..).unwrap_or_default()]);
            end = next.place.start;
        }
        self.replace(at..end, &new);
    }

    /// Takes the key out that is there.
    pub(super) fn remove(&mut self, at: usize) -> Option<V> {
        let Entry { shared, further, value, place } = self.entry(at)?;
        let mut new = Vec::new();
        let mut end = place.end;
        if let Some(next) = self.entry(end).filter(|next| next.shared > shared) {
            write(&mut new, shared, &[further.get(..next.shared - shared).unwrap_or_default(), next.further]);
            end = next.place.start;
        }
        self.replace(at..end, &new);
        Some(value)
    }

    /// Sets the value of the key that is there.
    pub(super) fn set(&mut self, at: usize, value: &V) {
        let Some(entry) = self.entry(at) else { return };
        let (place, mut new) = (entry.place, Vec::new());
        value.write(&mut new);
        self.replace(place, &new);
    }

    /// Gives its second half away if it is too long.
    pub(super) fn split(&mut self) -> Option<Self> {
        if self.bytes.len() <= MOST {
            return None;
        }
        let (mut at, mut key) = (0, Vec::new());
        while let Some(entry) = self.entry(at) {
            key.truncate(entry.shared);
            key.extend_from_slice(entry.further);
            if at > 0 && at >= MOST / 2 {
                let mut behind = Self::default();
                write(&mut behind.bytes, 0, &[&key]);
                behind.bytes.extend_from_slice(self.bytes.get(entry.place.start..).unwrap_or_default());
                behind.bytes.shrink_to_fit();
                self.bytes.truncate(at);
                self.bytes.shrink_to_fit();
                return Some(behind);
            }
            at = entry.place.end;
        }
        None
    }

    /// All keys and values, in order.
    pub(super) fn for_each(&self, mut tell: impl FnMut(&[u8], V)) {
        let (mut at, mut key) = (0, Vec::new());
        while let Some(entry) = self.entry(at) {
            key.truncate(entry.shared);
            key.extend_from_slice(entry.further);
            tell(&key, entry.value);
            at = entry.place.end;
        }
    }

    pub(super) fn change_all(&mut self, change: &mut impl FnMut(&mut V)) {
        let mut new = Vec::with_capacity(self.bytes.len());
        let mut at = 0;
        while let Some(mut entry) = self.entry(at) {
            change(&mut entry.value);
            write(&mut new, entry.shared, &[entry.further]);
            entry.value.write(&mut new);
            at = entry.place.end;
        }
        self.bytes = new;
    }

    fn entry(&self, at: usize) -> Option<Entry<'_, V>> {
        let all = self.bytes.as_slice();
        let mut rest = all.get(at..)?;
        let (shared, length) = (read_length(&mut rest)?, read_length(&mut rest)?);
        let (further, mut rest) = rest.split_at_checked(length)?;
        let start = all.len() - rest.len();
        let value = V::read(&mut rest)?;
        Some(Entry { shared, further, value, place: start..all.len() - rest.len() })
    }

    fn replace(&mut self, place: Range<usize>, new: &[u8]) {
        let more = new.len().saturating_sub(place.len());
        if self.bytes.capacity() - self.bytes.len() < more {
            self.bytes.reserve_exact(more.next_multiple_of(GRAIN));
        }
        self.bytes.splice(place, new.iter().copied());
    }
}

/// Appends a key as far as its value.
fn write(out: &mut Vec<u8>, shared: usize, further: &[&[u8]]) {
    let length: usize = further.iter().map(|part| part.len()).sum();
    (shared as u64).write(out);
    (length as u64).write(out);
    further.iter().for_each(|part| out.extend_from_slice(part));
}

fn read_length(bytes: &mut &[u8]) -> Option<usize> {
    usize::try_from(u64::read(bytes)?).ok()
}
