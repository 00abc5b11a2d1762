//! Capabilities (RFC 5492).
//!
//! A capability of unknown code, or of known code but impossible length, is kept as [`Capability::Other`]: capabilities are
//! offers, and an offer one does not understand is declined, not punished.

use calico_core::net::AsNumber;

use super::AddressFamily;
use super::reader::Reader;

/// One capability.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Capability {
    /// Multiprotocol extensions for a family (RFC 4760).
    Multiprotocol(AddressFamily),
    /// Route refresh (RFC 2918).
    RouteRefresh,
    /// Graceful restart (RFC 4724).
    GracefulRestart(GracefulRestart),
    /// Four-octet AS number (RFC 6793).
    FourOctetAs(AsNumber),
    /// Anything else, as received.
    Other {
        /// Its code.
        code: u8,
        /// Its value.
        value: Vec<u8>,
    },
}

/// What a speaker says about its restarts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "the fields of RFC 4724 section 3")]
pub struct GracefulRestart {
    /// R: this connection follows a restart of the speaker.
    pub restarting: bool,
    /// N: NOTIFICATION and hold timer expiry are restarts too (RFC 8538).
    pub notification: bool,
    /// Seconds to wait for the speaker to come back; 12 bits.
    pub restart_time: u16,
    /// Families whose forwarding it may preserve.
    pub families: Vec<GracefulRestartFamily>,
}

/// One family of [`GracefulRestart`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the fields of RFC 4724 section 3")]
pub struct GracefulRestartFamily {
    /// Which.
    pub family: AddressFamily,
    /// F: forwarding went on during the restart.
    pub forwarding_preserved: bool,
}

const MULTIPROTOCOL: u8 = 1;
const ROUTE_REFRESH: u8 = 2;
const GRACEFUL_RESTART: u8 = 64;
const FOUR_OCTET_AS: u8 = 65;

const RESTARTING: u16 = 0x8000;
const NOTIFICATION: u16 = 0x4000;
const RESTART_TIME: u16 = 0x0fff;
const FORWARDING: u8 = 0x80;

impl Capability {
    /// Reads one capability of `code`.
    pub fn decode(code: u8, value: &[u8]) -> Self {
        let known = match code {
            MULTIPROTOCOL => decode_multiprotocol(value),
            ROUTE_REFRESH => value.is_empty().then_some(Self::RouteRefresh),
            GRACEFUL_RESTART => GracefulRestart::decode(value).map(Self::GracefulRestart),
            FOUR_OCTET_AS => decode_as(value),
            _ => None,
        };
        known.unwrap_or_else(|| Self::Other { code, value: value.to_vec() })
    }

    /// Code, length and value. A value of more than 255 bytes cannot be expressed and is left out whole.
    pub fn encode(&self) -> Vec<u8> {
        let (code, value) = match self {
            Self::Multiprotocol(family) => {
                let [high, low] = family.afi.to_be_bytes();
                (MULTIPROTOCOL, vec![high, low, 0, family.safi])
            }
            Self::RouteRefresh => (ROUTE_REFRESH, Vec::new()),
            Self::GracefulRestart(restart) => (GRACEFUL_RESTART, restart.encode()),
            Self::FourOctetAs(number) => (FOUR_OCTET_AS, number.value().to_be_bytes().to_vec()),
            Self::Other { code, value } => (*code, value.clone()),
        };
        let Ok(length) = u8::try_from(value.len()) else {
            return Vec::new();
        };
        let mut encoded = vec![code, length];
        encoded.extend_from_slice(&value);
        encoded
    }
}

fn decode_multiprotocol(value: &[u8]) -> Option<Capability> {
    let mut reader = Reader::new(value);
    let afi = reader.u16()?;
    let _reserved = reader.u8()?;
    let safi = reader.u8()?;
    reader.is_empty().then_some(Capability::Multiprotocol(AddressFamily { afi, safi }))
}

fn decode_as(value: &[u8]) -> Option<Capability> {
    let mut reader = Reader::new(value);
    let number = reader.u32()?;
    reader.is_empty().then_some(Capability::FourOctetAs(AsNumber::new(number)))
}

impl GracefulRestart {
    /// What it says about a family.
    pub fn family(&self, family: AddressFamily) -> Option<GracefulRestartFamily> {
        self.families.iter().copied().find(|known| known.family == family)
    }

    fn decode(value: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(value);
        let head = reader.u16()?;
        let mut families = Vec::new();
        while !reader.is_empty() {
            let family = AddressFamily { afi: reader.u16()?, safi: reader.u8()? };
            families.push(GracefulRestartFamily { family, forwarding_preserved: reader.u8()? & FORWARDING != 0 });
        }
        Some(Self {
            restarting: head & RESTARTING != 0,
            notification: head & NOTIFICATION != 0,
            restart_time: head & RESTART_TIME,
            families,
        })
    }

    fn encode(&self) -> Vec<u8> {
        let mut head = self.restart_time.min(RESTART_TIME);
        if self.restarting {
            head |= RESTARTING;
        }
        if self.notification {
            head |= NOTIFICATION;
        }
        let mut value = head.to_be_bytes().to_vec();
        for GracefulRestartFamily { family, forwarding_preserved } in &self.families {
            value.extend_from_slice(&family.afi.to_be_bytes());
            value.push(family.safi);
            value.push(if *forwarding_preserved { FORWARDING } else { 0 });
        }
        value
    }
}
