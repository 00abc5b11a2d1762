//! Several paths to one prefix (RFC 7911).

use crate::wire::AddressFamily;
use crate::wire::reader::Reader;

/// One row of the capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the fields of RFC 7911 section 4")]
pub struct AddPath {
    /// For which family.
    pub family: AddressFamily,
    /// What the speaker can do.
    pub mode: AddPathMode,
}

/// What a speaker can do with several paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the values of RFC 7911 section 4")]
pub enum AddPathMode {
    /// Receive them.
    Receive,
    /// Send them.
    Send,
    /// Both.
    Both,
}

impl AddPathMode {
    /// Whether it wants to receive them.
    pub const fn receives(self) -> bool {
        matches!(self, Self::Receive | Self::Both)
    }

    /// Whether it wants to send them.
    pub const fn sends(self) -> bool {
        matches!(self, Self::Send | Self::Both)
    }
}

impl AddPath {
    /// A row with another mode makes the whole capability one to ignore.
    pub(super) fn decode_all(value: &[u8]) -> Option<Vec<Self>> {
        let mut reader = Reader::new(value);
        let mut rows = Vec::new();
        while !reader.is_empty() {
            let family = AddressFamily { afi: reader.u16()?, safi: reader.u8()? };
            let mode = match reader.u8()? {
                1 => AddPathMode::Receive,
                2 => AddPathMode::Send,
                3 => AddPathMode::Both,
                _ => return None,
            };
            rows.push(Self { family, mode });
        }
        Some(rows)
    }

    pub(super) fn encode_all(rows: &[Self]) -> Vec<u8> {
        let mut value = Vec::new();
        for Self { family, mode } in rows {
            value.extend_from_slice(&family.octets());
            value.push(match mode {
                AddPathMode::Receive => 1,
                AddPathMode::Send => 2,
                AddPathMode::Both => 3,
            });
        }
        value
    }
}
