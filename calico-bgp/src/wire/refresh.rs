//! ROUTE-REFRESH (RFC 2918): send a family again.

use super::header::{MessageKind, frame};
use super::reader::Reader;
use super::{AddressFamily, WireError};

/// A plain request. The markers of RFC 7313 are not offered, so they are ignored when received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the fields of RFC 2918")]
pub struct RouteRefresh {
    /// What to send again.
    pub family: AddressFamily,
}

impl RouteRefresh {
    /// Reads a body; `None` for a subtype other than 0.
    pub fn decode(body: &[u8]) -> Result<Option<Self>, WireError> {
        let mut reader = Reader::new(body);
        let (Some(afi), Some(subtype), Some(safi), true) = (reader.u16(), reader.u8(), reader.u8(), reader.is_empty())
        else {
            return Err(WireError::BadRefreshLength);
        };
        Ok((subtype == 0).then_some(Self { family: AddressFamily { afi, safi } }))
    }

    /// A whole message.
    pub fn encode(&self) -> Vec<u8> {
        let [high, low] = self.family.afi.to_be_bytes();
        frame(MessageKind::RouteRefresh, &[high, low, 0, self.family.safi])
    }
}
