//! Some keys in order, in one piece: of each what it does not share with the one before it, and its value.
//!
//! What is said to be shared is all that is: so a search compares a byte once, and skips what cannot be meant without looking at it.

use alloc::vec::Vec;
use core::cmp::Ordering;
use core::marker::PhantomData;
use core::ops::Range;

use super::packed::Packed;
use crate::label::runs::Runs;

/// A longer block is split: to go through one must not take longer than to find it.
const MOST: usize = 1024;
/// Blocks have room for a multiple of so many bytes. They grow by one key at a time, among others that do: an allocation of its own for each
/// would leave holes everywhere.
const GRAIN: usize = 64;

/// Where the keys of a block stand in the room of all.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Block {
    place: u32,
    length: u32,
    room: u32,
}

impl Block {
    pub(super) fn new(bytes: &[u8], runs: &mut Runs) -> Self {
        let mut block = Self::default();
        block.put(bytes, runs);
        block
    }

    /// Its keys.
    pub(super) fn view<'a, V>(&self, runs: &'a Runs) -> View<'a, V> {
        View { bytes: runs.slice(self.place, self.length as usize), values: PhantomData }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.length == 0
    }

    #[cfg(test)]
    pub(super) const fn room(&self) -> usize {
        self.room as usize
    }

    /// Carries an edit of its keys out.
    pub(super) fn edit(&mut self, Edit { place, new }: &Edit, runs: &mut Runs) {
        let old = self.length as usize;
        let length = old - place.len() + new.len();
        if fitting(length) != self.room as usize {
            let mut bytes = runs.slice(self.place, old).to_vec();
            bytes.splice(place.clone(), new.iter().copied());
            return self.put(&bytes, runs);
        }
        let room = runs.slice_mut(self.place, self.room as usize);
        if old <= room.len() && length <= room.len() && place.end <= old {
            room.copy_within(place.end..old, place.start + new.len());
            let into = room.get_mut(place.start..place.start + new.len()).unwrap_or_default();
            into.copy_from_slice(new);
        }
        self.length = length as u32;
    }

    /// Replaces all.
    pub(super) fn put(&mut self, bytes: &[u8], runs: &mut Runs) {
        let fitting = fitting(bytes.len());
        if fitting != self.room as usize {
            runs.give_back(self.place, self.room as usize);
            self.place = runs.take(fitting);
            self.room = fitting as u32;
        }
        let room = runs.slice_mut(self.place, bytes.len());
        if room.len() == bytes.len() {
            room.copy_from_slice(bytes);
        }
        self.length = bytes.len() as u32;
    }
}

const fn fitting(bytes: usize) -> usize {
    bytes.next_multiple_of(GRAIN)
}

/// Bytes to stand in the place of others.
#[derive(Debug)]
pub(super) struct Edit {
    place: Range<usize>,
    new: Vec<u8>,
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

/// The keys of a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a, V> {
    bytes: &'a [u8],
    values: PhantomData<V>,
}

struct Entry<'a, V> {
    /// Bytes that it has of the one before it, and its further ones.
    shared: usize,
    further: &'a [u8],
    value: V,
    /// Where its value stands, which ends it.
    place: Range<usize>,
}

impl<'a, V: Packed> View<'a, V> {
    /// The first key.
    pub(super) fn first(&self) -> &'a [u8] {
        self.entry(0).map_or(&[], |entry| entry.further)
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

    /// A key comes where it would go.
    pub(super) fn insert(&self, Gap { at, before, behind }: Gap, key: &[u8], value: &V) -> Edit {
        let mut new = Vec::with_capacity(2 * GRAIN);
        write(&mut new, before, &[key.get(before..).unwrap_or_default()]);
        value.write(&mut new);
        let mut end = at;
        if let Some(next) = self.entry(at) {
            let saved = behind.saturating_sub(next.shared);
            write(&mut new, behind, &[next.further.get(saved..).unwrap_or_default()]);
            end = next.place.start;
        }
        Edit { place: at..end, new }
    }

    /// The key that is there goes.
    pub(super) fn remove(&self, at: usize) -> Option<(V, Edit)> {
        let Entry { shared, further, value, place } = self.entry(at)?;
        let mut new = Vec::new();
        let mut end = place.end;
        if let Some(next) = self.entry(end).filter(|next| next.shared > shared) {
            write(&mut new, shared, &[further.get(..next.shared - shared).unwrap_or_default(), next.further]);
            end = next.place.start;
        }
        Some((value, Edit { place: at..end, new }))
    }

    /// The key that is there gets another value.
    pub(super) fn set(&self, at: usize, value: &V) -> Option<Edit> {
        let place = self.entry(at)?.place;
        let mut new = Vec::new();
        value.write(&mut new);
        Some(Edit { place, new })
    }

    /// Its two halves, if it is too long.
    pub(super) fn halves(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        if self.bytes.len() <= MOST {
            return None;
        }
        let (mut at, mut key) = (0, Vec::new());
        while let Some(entry) = self.entry(at) {
            key.truncate(entry.shared);
            key.extend_from_slice(entry.further);
            if at >= MOST / 2 {
                let mut behind = Vec::with_capacity(MOST);
                write(&mut behind, 0, &[&key]);
                behind.extend_from_slice(self.bytes.get(entry.place.start..)?);
                return Some((self.bytes.get(..at)?.to_vec(), behind));
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

    /// What it is with other values.
    pub(super) fn changed(&self, change: &mut impl FnMut(&mut V)) -> Vec<u8> {
        let mut new = Vec::with_capacity(self.bytes.len());
        let mut at = 0;
        while let Some(mut entry) = self.entry(at) {
            change(&mut entry.value);
            write(&mut new, entry.shared, &[entry.further]);
            entry.value.write(&mut new);
            at = entry.place.end;
        }
        new
    }

    fn entry(&self, at: usize) -> Option<Entry<'a, V>> {
        let all = self.bytes;
        let mut rest = all.get(at..)?;
        let (shared, length) = (read_length(&mut rest)?, read_length(&mut rest)?);
        let (further, mut rest) = rest.split_at_checked(length)?;
        let start = all.len() - rest.len();
        let value = V::read(&mut rest)?;
        Some(Entry { shared, further, value, place: start..all.len() - rest.len() })
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
