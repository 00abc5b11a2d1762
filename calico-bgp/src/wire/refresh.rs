//! ROUTE-REFRESH (RFC 2918), and the markers around its answer (RFC 7313).

use super::header::{HEADER_LENGTH, MessageKind, frame};
use super::reader::Reader;
use super::{AddressFamily, WireError};

/// What a ROUTE-REFRESH says about its family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the subtypes of RFC 7313; others are ignored")]
pub enum RefreshKind {
    /// Send all of it again.
    Request,
    /// BoRR: from here on all of it comes again.
    Begin,
    /// EoRR: what has not come again since is gone.
    End,
}

/// A family, and what is said about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the fields of RFC 7313 section 3.2")]
pub struct RouteRefresh {
    /// Which family.
    pub family: AddressFamily,
    /// What of it.
    pub kind: RefreshKind,
}

impl RouteRefresh {
    /// A plain request.
    pub const fn request(family: AddressFamily) -> Self {
        Self { family, kind: RefreshKind::Request }
    }

    /// Reads a body; `None` for an unknown subtype, which is to be ignored (RFC 7313 section 5). Longer requests carry outbound
    /// route filters (RFC 5291), which are not offered.
    pub fn decode(body: &[u8]) -> Result<Option<Self>, WireError> {
        let mut reader = Reader::new(body);
        let (Some(afi), Some(subtype), Some(safi)) = (reader.u16(), reader.u8(), reader.u8()) else {
            return Err(bad_length(body));
        };
        let kind = match subtype {
            0 => RefreshKind::Request,
            1 => RefreshKind::Begin,
            2 => RefreshKind::End,
            _ => return Ok(None),
        };
        if !reader.is_empty() {
            return Err(match kind {
                RefreshKind::Request => bad_length(body),
                RefreshKind::Begin | RefreshKind::End => {
                    WireError::BadRefreshLength { message: frame(MessageKind::RouteRefresh, body) }
                }
            });
        }
        Ok(Some(Self { family: AddressFamily { afi, safi }, kind }))
    }

    /// A whole message.
    pub fn encode(&self) -> Vec<u8> {
        let [high, low] = self.family.afi.to_be_bytes();
        let subtype = match self.kind {
            RefreshKind::Request => 0,
            RefreshKind::Begin => 1,
            RefreshKind::End => 2,
        };
        frame(MessageKind::RouteRefresh, &[high, low, subtype, self.family.safi])
    }
}

fn bad_length(body: &[u8]) -> WireError {
    let length = u16::try_from(body.len().saturating_add(HEADER_LENGTH)).unwrap_or(u16::MAX);
    WireError::BadMessageLength { length }
}
