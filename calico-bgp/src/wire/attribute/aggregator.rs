//! AGGREGATOR with a four-octet AS number (RFC 6793).

use core::net::Ipv4Addr;

use calico_core::net::AsNumber;

use crate::wire::reader::Reader;

/// Who made an aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "the fields of RFC 4271 section 5.1.7")]
pub struct Aggregator {
    /// Its system.
    pub as_number: AsNumber,
    /// Its address.
    pub address: Ipv4Addr,
}

impl Aggregator {
    pub(super) fn decode(value: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(value);
        // Zero is no AS (RFC 7607).
        let as_number = AsNumber::new(reader.u32().filter(|number| *number != 0)?);
        let address = Ipv4Addr::from(reader.u32()?);
        reader.is_empty().then_some(Self { as_number, address })
    }

    pub(super) fn encode(self) -> Vec<u8> {
        let mut value = self.as_number.value().to_be_bytes().to_vec();
        value.extend_from_slice(&self.address.octets());
        value
    }
}
