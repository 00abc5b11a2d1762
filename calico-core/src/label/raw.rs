//! Labels as they came, in one piece: what an index keeps of labels that no selector asks for, and reads when one does.
//!
//! Each label is the symbol of its name, the length of its value (both [`Packed`]), and its value. Text
//! stands in place: most values are nobody else's, and a table would cost more than it saves.

use alloc::vec::Vec;

use super::interner::{Interner, Symbol};
use crate::resource::Packed;

/// Appends a label.
pub(super) fn write(out: &mut Vec<u8>, name: Symbol, value: &str) {
    name.raw().write(out);
    (value.len() as u64).write(out);
    out.extend_from_slice(value.as_bytes());
}

/// The labels of a piece, in the order in which they were written.
pub(super) fn read(raw: &[u8]) -> impl Iterator<Item = (Symbol, &str)> {
    read_bytes(raw).map(|(name, value)| (name, core::str::from_utf8(value).unwrap_or_default()))
}

/// As [`read`], without looking into the values.
fn read_bytes(raw: &[u8]) -> impl Iterator<Item = (Symbol, &[u8])> {
    let mut rest = raw;
    core::iter::from_fn(move || {
        let name = u32::read(&mut rest)?;
        let length = usize::try_from(u64::read(&mut rest)?).ok()?;
        let (value, behind) = rest.split_at_checked(length)?;
        rest = behind;
        Some((Symbol::from_raw(name), value))
    })
}

/// Holds the names of a piece.
pub(super) fn retain(raw: &[u8], names: &mut Interner) {
    read_bytes(raw).for_each(|(name, _)| names.retain(name));
}

/// Gives up the names of a piece.
pub(super) fn release(raw: &[u8], names: &mut Interner) {
    read_bytes(raw).for_each(|(name, _)| names.release(name));
}

/// Appends what items of one kin have in common: labels, and keys of parents in order.
pub(super) fn write_kin(out: &mut Vec<u8>, labels: &[u8], parents: &[u32]) {
    (labels.len() as u64).write(out);
    out.extend_from_slice(labels);
    parents.iter().for_each(|parent| out.extend_from_slice(&parent.to_le_bytes()));
}

/// The two parts of what [`write_kin`] wrote.
pub(super) fn read_kin(raw: &[u8]) -> (&[u8], impl Iterator<Item = u32> + Clone) {
    let mut rest = raw;
    let length = u64::read(&mut rest).and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
    let (labels, parents) = rest.split_at_checked(length).unwrap_or_default();
    (labels, parents.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn labels_and_parents_are_read_as_written(
            labels in prop::collection::vec(("[a-c]{0,2}", ".{0,200}"), 0..8),
            parents in prop::collection::vec(any::<u32>(), 0..3),
        ) {
            let (mut raw, mut names, mut kin) = (Vec::new(), Interner::default(), Vec::new());
            labels.iter().for_each(|(name, value)| write(&mut raw, names.acquire(name), value));
            write_kin(&mut kin, &raw, &parents);
            let (known, keys) = read_kin(&kin);
            prop_assert_eq!(known, &raw[..]);
            prop_assert_eq!(keys.collect::<Vec<_>>(), parents);
            let back: Vec<(String, String)> =
                read(&raw).map(|(name, value)| (names.text(name).into(), value.into())).collect();
            prop_assert_eq!(back, labels);
            release(&raw, &mut names);
            prop_assert_eq!(names.len(), 0);
        }
    }
}
