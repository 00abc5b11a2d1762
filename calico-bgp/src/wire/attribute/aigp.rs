//! AIGP, the accumulated interior metric (RFC 7311): a list of TLVs, passed on as it is.

use crate::wire::reader::Reader;

const METRIC: u8 = 1;

/// A well-formed AIGP attribute.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Aigp(Box<[u8]>);

impl Aigp {
    /// One that says a metric.
    pub fn new(metric: u64) -> Self {
        let mut value = vec![METRIC, 0, 11];
        value.extend_from_slice(&metric.to_be_bytes());
        Self(value.into())
    }

    /// The metric: the first one counts.
    pub fn metric(&self) -> Option<u64> {
        let mut reader = Reader::new(&self.0);
        while let Some((kind, value)) = next(&mut reader) {
            if kind == METRIC {
                return value.try_into().ok().map(u64::from_be_bytes);
            }
        }
        None
    }

    pub(super) fn value(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn decode(value: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(value);
        while !reader.is_empty() {
            let (kind, value) = next(&mut reader)?;
            if kind == METRIC && value.len() != 8 {
                return None;
            }
        }
        (!value.is_empty()).then(|| Self(value.into()))
    }
}

/// The length of a TLV counts its type and itself.
fn next<'a>(reader: &mut Reader<'a>) -> Option<(u8, &'a [u8])> {
    let (kind, length) = (reader.u8()?, reader.u16()?);
    Some((kind, reader.take(usize::from(length).checked_sub(3)?)?))
}
