//! Short pieces of bytes in few large allocations.
//!
//! A quarter of a million names, each allocated alone, cost 24 bytes each beside what they say, and lie between whatever came and
//! went while they were read. The room of a piece that is given up is used again for one of that length.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::num::NonZeroU32;

use crate::resource::Packed as _;

/// Bytes that are allocated at once. A longer piece is alone.
const CHUNK: usize = 1 << 16;
/// Pieces begin at multiples of this.
const GRAIN: usize = 4;
const GRAINS: usize = CHUNK / GRAIN;

/// The pieces.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    chunks: Vec<Vec<u8>>,
    /// Places that were given up, by the grains that they have.
    free: BTreeMap<u32, Vec<u32>>,
}

/// A piece of [`Runs`]: one more than its place, in grains. Its length stands there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run(NonZeroU32);

impl Runs {
    /// Keeps a piece. There is room for 16 GiB, which is far more than 32 bits number endpoints.
    pub(crate) fn keep(&mut self, piece: &[u8]) -> Run {
        let mut length = Vec::new();
        (piece.len() as u64).write(&mut length);
        let bytes = length.len() + piece.len();
        let place = self.take(bytes);
        let mut room = self.slice_mut(place, bytes);
        for part in [&length[..], piece] {
            let Some((to, behind)) = room.split_at_mut_checked(part.len()) else { break };
            to.copy_from_slice(part);
            room = behind;
        }
        Run(NonZeroU32::MIN.saturating_add(place))
    }

    /// What a piece says.
    pub(crate) fn get(&self, run: Run) -> &[u8] {
        self.read(run).map_or(&[], |(_, piece)| piece)
    }

    /// Gives a piece up.
    pub(crate) fn forget(&mut self, run: Run) {
        if let Some((bytes, _)) = self.read(run) {
            self.give_back(run.place(), bytes);
        }
    }

    /// The place of so many bytes, to be [given back](Self::give_back).
    pub(crate) fn take(&mut self, bytes: usize) -> u32 {
        let grains = grains(bytes);
        if grains == 0 {
            return 0;
        }
        self.free.get_mut(&grains).and_then(Vec::pop).unwrap_or_else(|| self.extend(grains as usize * GRAIN))
    }

    /// Gives a place up that has so many bytes.
    pub(crate) fn give_back(&mut self, place: u32, bytes: usize) {
        if bytes > 0 {
            self.free.entry(grains(bytes)).or_default().push(place);
        }
    }

    /// Bytes from a place on.
    pub(crate) fn slice(&self, place: u32, bytes: usize) -> &[u8] {
        let (chunk, at) = locate(place);
        self.chunks.get(chunk).and_then(|chunk| chunk.get(at..at + bytes)).unwrap_or_default()
    }

    /// The same to be written.
    pub(crate) fn slice_mut(&mut self, place: u32, bytes: usize) -> &mut [u8] {
        let (chunk, at) = locate(place);
        self.chunks.get_mut(chunk).and_then(|chunk| chunk.get_mut(at..at + bytes)).unwrap_or_default()
    }

    /// The bytes of a piece with its length, and what it says.
    fn read(&self, run: Run) -> Option<(usize, &[u8])> {
        let (chunk, at) = locate(run.place());
        let room = self.chunks.get(chunk)?.get(at..)?;
        let mut rest = room;
        let length = usize::try_from(u64::read(&mut rest)?).ok()?;
        let piece = rest.get(..length)?;
        Some((room.len() - rest.len() + length, piece))
    }

    /// Bytes that pieces have, with what lies behind their ends.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        let all: usize = self.chunks.iter().map(Vec::len).sum();
        all - self.free.iter().map(|(grains, places)| *grains as usize * GRAIN * places.len()).sum::<usize>()
    }

    /// The place of so many more bytes.
    fn extend(&mut self, bytes: usize) -> u32 {
        if self.chunks.last().is_none_or(|last| last.len() + bytes > CHUNK) {
            // The first chunk grows by need: most are small.
            let capacity = if self.chunks.is_empty() { 0 } else { bytes.max(CHUNK) };
            self.chunks.push(Vec::with_capacity(capacity));
        }
        let chunk = self.chunks.len() - 1;
        let at = self.chunks.last().map_or(0, Vec::len);
        if let Some(last) = self.chunks.last_mut() {
            last.resize(at + bytes, 0);
        }
        u32::try_from(chunk * GRAINS + at / GRAIN).unwrap_or(u32::MAX)
    }
}

impl Run {
    const fn place(self) -> u32 {
        self.0.get() - 1
    }
}

/// Grains of so many bytes.
fn grains(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(GRAIN)).unwrap_or(u32::MAX)
}

const fn locate(place: u32) -> (usize, usize) {
    (place as usize / GRAINS, place as usize % GRAINS * GRAIN)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn say_what_was_kept(steps in prop::collection::vec((0..20_u8, 0..40_usize, any::<bool>()), 0..100)) {
            let (mut runs, mut twin) = (Runs::default(), BTreeMap::new());
            for (number, length, present) in steps {
                if let Some((_, run)) = twin.remove(&number) {
                    runs.forget(run);
                }
                if present {
                    // Some are longer than a chunk.
                    let piece = alloc::vec![number; length * length * 50];
                    let run = runs.keep(&piece);
                    twin.insert(number, (piece, run));
                }
                for (piece, run) in twin.values() {
                    prop_assert!(runs.get(*run) == &piece[..]);
                }
            }
        }
    }

    #[test]
    fn room_that_was_given_up_is_used_again() {
        let mut runs = Runs::default();
        let size = |runs: &Runs| runs.chunks.iter().map(Vec::len).sum::<usize>();
        for round in 0..2 {
            let before = size(&runs);
            let kept: Vec<_> = (0..100_000_u32).map(|number| runs.keep(&number.to_le_bytes())).collect();
            assert_eq!(size(&runs), if round == 0 { 800_000 } else { before });
            assert!((0..).zip(&kept).all(|(number, run): (u32, _)| runs.get(*run) == number.to_le_bytes()));
            kept.into_iter().for_each(|run| runs.forget(run));
            assert_eq!(runs.held(), 0);
        }
    }
}
