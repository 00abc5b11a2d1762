//! AS_PATH, and AS4_PATH beside it on sessions with two-octet AS numbers (RFC 6793).
//!
//! Only AS_SEQUENCE segments are accepted: AS_SET is deprecated and treated as withdraw (RFC 9774), and confederation segments
//! may not come from a neighbour that is in no confederation with us (RFC 5065 section 5). A path is thus a plain list.

use calico_core::net::AsNumber;

use super::FaultReason;
use crate::wire::AS_TRANS;
use crate::wire::reader::Reader;

const AS_SET: u8 = 1;
const AS_SEQUENCE: u8 = 2;
const AS_CONFED_SEQUENCE: u8 = 3;
const AS_CONFED_SET: u8 = 4;
/// Most numbers that the count octet of a segment can express.
const SEGMENT: usize = 255;
/// Longest path that is believed: an extended message has room for sixteen thousand, and the longest of the Internet are below a
/// hundred.
pub(super) const MAX_HOPS: usize = 1024;

/// The systems a route has passed, nearest first.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct AsPath(Box<[AsNumber]>);

impl AsPath {
    /// The systems, nearest first.
    pub const fn systems(&self) -> &[AsNumber] {
        &self.0
    }

    /// Number of systems.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the route never left its system.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The neighbouring system.
    pub fn first(&self) -> Option<AsNumber> {
        self.0.first().copied()
    }

    /// Whether the route has passed `system`.
    pub fn contains(&self, system: AsNumber) -> bool {
        self.0.contains(&system)
    }

    /// How often `system` stands in it.
    pub fn count(&self, system: AsNumber) -> usize {
        self.0.iter().filter(|known| **known == system).count()
    }

    /// The path as `system` sends it on.
    pub fn prepended(&self, system: AsNumber) -> Self {
        core::iter::once(system).chain(self.0.iter().copied()).collect()
    }

    pub(super) fn decode(value: &[u8], four_octet_as: bool) -> Result<Self, FaultReason> {
        // Paths of one segment are nearly all there are.
        let mut systems = Vec::with_capacity(value.len().checked_div(if four_octet_as { 4 } else { 2 }).unwrap_or(0));
        for_each_segment(value, four_octet_as, |kind, number| {
            // Zero is no AS (RFC 7607).
            if kind == AS_SEQUENCE && number != 0 {
                systems.push(AsNumber::new(number));
                return Ok(());
            }
            Err(FaultReason::Value)
        })?;
        if systems.len() > MAX_HOPS { Err(FaultReason::PathTooLong) } else { Ok(Self(systems.into())) }
    }

    /// The value of an AS4_PATH. Confederation sequences, which do not belong there, are left out (RFC 6793 section 6); sets ask
    /// for more than to discard it (RFC 9774 section 3).
    pub(super) fn decode_as4(value: &[u8]) -> Result<Self, As4Fault> {
        let mut systems = Vec::new();
        let mut has_set = false;
        let whole = for_each_segment(value, true, |kind, number| {
            has_set |= matches!(kind, AS_SET | AS_CONFED_SET);
            if kind == AS_SEQUENCE {
                systems.push(AsNumber::new(number));
            }
            let is_known = matches!(kind, AS_SET | AS_SEQUENCE | AS_CONFED_SEQUENCE | AS_CONFED_SET);
            if is_known && number != 0 { Ok(()) } else { Err(FaultReason::Value) }
        });
        match whole {
            Ok(()) if has_set => Err(As4Fault::Set),
            Ok(()) if !systems.is_empty() => Ok(Self(systems.into())),
            _ => Err(As4Fault::Malformed),
        }
    }

    /// The whole path, from what an old speaker passed on and what it did not understand (RFC 6793 section 4.2.3): where the
    /// former is shorter, somebody in between shortened it and the latter says nothing.
    pub(super) fn merged(self, as4: &Self) -> Self {
        match self.len().checked_sub(as4.len()) {
            Some(ahead) => self.0.iter().take(ahead).chain(&as4.0).copied().collect(),
            None => self,
        }
    }

    /// Octets of its value.
    pub(super) fn encoded_length(&self, four_octet_as: bool) -> usize {
        let numbers = self.len().saturating_mul(if four_octet_as { 4 } else { 2 });
        self.len().div_ceil(SEGMENT).saturating_mul(2).saturating_add(numbers)
    }

    pub(super) fn encode(&self, four_octet_as: bool, into: &mut Vec<u8>) {
        for segment in self.0.chunks(SEGMENT) {
            into.extend_from_slice(&[AS_SEQUENCE, u8::try_from(segment.len()).unwrap_or(u8::MAX)]);
            for system in segment {
                if four_octet_as {
                    into.extend_from_slice(&system.value().to_be_bytes());
                } else {
                    into.extend_from_slice(&two_octets(*system).to_be_bytes());
                }
            }
        }
    }

    /// Whether two octets do not hold all of it, so that an old speaker needs an AS4_PATH beside it.
    pub(super) fn needs_as4(&self) -> bool {
        self.0.iter().any(|system| needs_as4(*system))
    }
}

/// What is wrong with an AS4_PATH.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum As4Fault {
    /// Nothing can be made of it.
    Malformed,
    /// Sets are in it.
    Set,
}

/// Walks over all numbers with the type of their segment.
fn for_each_segment(
    value: &[u8],
    four_octet_as: bool,
    mut take: impl FnMut(u8, u32) -> Result<(), FaultReason>,
) -> Result<(), FaultReason> {
    let mut reader = Reader::new(value);
    while !reader.is_empty() {
        let (Some(kind), Some(count)) = (reader.u8(), reader.u8().filter(|count| *count > 0)) else {
            return Err(FaultReason::Value);
        };
        for _ in 0..count {
            let number = if four_octet_as { reader.u32() } else { reader.u16().map(u32::from) };
            take(kind, number.ok_or(FaultReason::Value)?)?;
        }
    }
    Ok(())
}

/// Whether a number does not fit in two octets.
pub(super) fn needs_as4(system: AsNumber) -> bool {
    u16::try_from(system.value()).is_err()
}

/// The number as an old speaker gets it.
pub(super) fn two_octets(system: AsNumber) -> u16 {
    u16::try_from(system.value()).unwrap_or(AS_TRANS)
}

impl FromIterator<AsNumber> for AsPath {
    fn from_iter<I: IntoIterator<Item = AsNumber>>(systems: I) -> Self {
        Self(systems.into_iter().collect())
    }
}
