//! AS_PATH with four-octet AS numbers (RFC 6793).
//!
//! Only AS_SEQUENCE segments are accepted: AS_SET is deprecated and treated as withdraw (RFC 9774), and confederation segments
//! may not come from a neighbour that is in no confederation with us (RFC 5065 section 5). A path is thus a plain list.

use calico_core::net::AsNumber;

use crate::wire::reader::Reader;

const AS_SEQUENCE: u8 = 2;
/// Most numbers that the count octet of a segment can express.
const SEGMENT: usize = 255;

/// The systems a route has passed, nearest first.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct AsPath(Vec<AsNumber>);

impl AsPath {
    /// The systems, nearest first.
    pub fn systems(&self) -> &[AsNumber] {
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

    /// The path as `system` sends it on.
    pub fn prepended(&self, system: AsNumber) -> Self {
        Self(core::iter::once(system).chain(self.0.iter().copied()).collect())
    }

    pub(super) fn decode(value: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(value);
        let mut systems = Vec::new();
        while !reader.is_empty() {
            let (kind, count) = (reader.u8()?, reader.u8()?);
            if kind != AS_SEQUENCE || count == 0 {
                return None;
            }
            for _ in 0..count {
                // Zero is no AS (RFC 7607).
                systems.push(AsNumber::new(reader.u32().filter(|number| *number != 0)?));
            }
        }
        Some(Self(systems))
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut value = Vec::new();
        for segment in self.0.chunks(SEGMENT) {
            value.extend_from_slice(&[AS_SEQUENCE, u8::try_from(segment.len()).unwrap_or(u8::MAX)]);
            value.extend(segment.iter().flat_map(|system| system.value().to_be_bytes()));
        }
        value
    }
}

impl FromIterator<AsNumber> for AsPath {
    fn from_iter<I: IntoIterator<Item = AsNumber>>(systems: I) -> Self {
        Self(systems.into_iter().collect())
    }
}
