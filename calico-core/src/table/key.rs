//! The key of an element.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::ops::Deref;

use super::Datum;

/// What an element is found by: one datum for each part. It compares, sorts and hashes as the slice does.
///
/// Nearly all have one part, and there may be hundreds of thousands, each in several places at once: that part lies in the key itself, and to
/// clone a longer one allocates nothing.
#[derive(Clone)]
pub struct Key(Parts);

#[derive(Clone)]
enum Parts {
    One(Datum),
    /// None, or several.
    Any(Arc<[Datum]>),
}

impl Deref for Key {
    type Target = [Datum];

    fn deref(&self) -> &[Datum] {
        match &self.0 {
            Parts::One(datum) => core::slice::from_ref(datum),
            Parts::Any(parts) => parts,
        }
    }
}

impl From<&[Datum]> for Key {
    fn from(parts: &[Datum]) -> Self {
        Self(match parts {
            [datum] => Parts::One(*datum),
            _ => Parts::Any(parts.into()),
        })
    }
}

impl<const N: usize> From<[Datum; N]> for Key {
    fn from(parts: [Datum; N]) -> Self {
        parts.as_slice().into()
    }
}

impl From<Vec<Datum>> for Key {
    fn from(parts: Vec<Datum>) -> Self {
        parts.as_slice().into()
    }
}

impl From<Box<[Datum]>> for Key {
    fn from(parts: Box<[Datum]>) -> Self {
        (&*parts).into()
    }
}

impl FromIterator<Datum> for Key {
    fn from_iter<I: IntoIterator<Item = Datum>>(parts: I) -> Self {
        parts.into_iter().collect::<Vec<_>>().into()
    }
}

impl Borrow<[Datum]> for Key {
    fn borrow(&self) -> &[Datum] {
        self
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Parts::One(one), Parts::One(other)) => one.cmp(other),
            _ => (**self).cmp(&**other),
        }
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maps are asked by slices.
    #[test]
    fn a_key_compares_as_its_slice_does() {
        let (port, proto) = (Datum::Port(80), Datum::Proto(6));
        let all: [&[Datum]; 5] = [&[], &[proto], &[port], &[proto, port], &[port, proto]];
        for one in all {
            let key = Key::from(one);
            assert_eq!(&*key, one);
            assert_eq!(Key::from(Vec::from(one)), key);
            for other in all {
                assert_eq!(key.cmp(&other.into()), one.cmp(other));
                assert_eq!(key == other.into(), one == other);
            }
        }
    }
}
