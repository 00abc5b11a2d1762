//! Values that stand between keys, in as many bytes as they need.

use alloc::vec::Vec;

/// What a [`KeyMap`](super::KeyMap) can hold.
pub trait Packed: Copy {
    /// Appends it.
    fn write(&self, out: &mut Vec<u8>);

    /// Reads what [`write`](Self::write) wrote, and leaves what is behind it.
    fn read(bytes: &mut &[u8]) -> Option<Self>;
}

/// In groups of seven bits, the lowest first.
impl Packed for u64 {
    fn write(&self, out: &mut Vec<u8>) {
        let mut rest = *self;
        while rest > 0x7f {
            out.push((rest & 0x7f) as u8 | 0x80);
            rest >>= 7;
        }
        out.push((rest & 0x7f) as u8);
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        // Nearly all are small.
        if let Some((byte, behind)) = bytes.split_first().filter(|(byte, _)| **byte < 0x80) {
            *bytes = behind;
            return Some(Self::from(*byte));
        }
        let mut number = 0;
        for shift in (0..Self::BITS).step_by(7) {
            let (byte, behind) = bytes.split_first()?;
            *bytes = behind;
            number |= Self::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }
}

impl Packed for u32 {
    fn write(&self, out: &mut Vec<u8>) {
        u64::from(*self).write(out);
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        u64::read(bytes)?.try_into().ok()
    }
}

impl Packed for u8 {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let (byte, behind) = bytes.split_first()?;
        *bytes = behind;
        Some(*byte)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn are_read_as_written(numbers in prop::collection::vec((any::<u64>(), 0..64u32), 0..20)) {
            let numbers: Vec<u64> = numbers.into_iter().map(|(number, shift)| number >> shift).collect();
            let mut bytes = Vec::new();
            for number in &numbers {
                number.write(&mut bytes);
                (*number as u32).write(&mut bytes);
                (*number as u8).write(&mut bytes);
            }
            let mut rest = &bytes[..];
            for number in numbers {
                let read = (u64::read(&mut rest), u32::read(&mut rest), u8::read(&mut rest));
                prop_assert_eq!(read, (Some(number), Some(number as u32), Some(number as u8)));
            }
            prop_assert!(rest.is_empty());
        }
    }
}
