//! AGGREGATOR (RFC 4271 section 5.1.7), and AS4_AGGREGATOR beside it (RFC 6793).

use core::net::Ipv4Addr;

use calico_core::net::AsNumber;

use super::as_path::two_octets;
use crate::wire::AS_TRANS;
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
    pub(super) fn decode(value: &[u8], four_octet_as: bool) -> Option<Self> {
        let mut reader = Reader::new(value);
        let number = if four_octet_as { reader.u32()? } else { reader.u16()?.into() };
        let address = Ipv4Addr::from(reader.u32()?);
        // Zero is no AS (RFC 7607).
        (number != 0 && reader.is_empty()).then_some(Self { as_number: AsNumber::new(number), address })
    }

    pub(super) fn encode(self, four_octet_as: bool, into: &mut Vec<u8>) {
        if four_octet_as {
            into.extend_from_slice(&self.as_number.value().to_be_bytes());
        } else {
            into.extend_from_slice(&two_octets(self.as_number).to_be_bytes());
        }
        into.extend_from_slice(&self.address.octets());
    }

    /// Whether its system stands in the attribute that old speakers do not understand.
    pub(super) fn is_placeholder(self) -> bool {
        self.as_number.value() == u32::from(AS_TRANS)
    }
}
