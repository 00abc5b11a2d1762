//! Graceful restart (RFC 4724, 8538) and its long-lived form (RFC 9494).

use crate::wire::AddressFamily;
use crate::wire::reader::Reader;

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

/// For how long the speaker's routes may be kept beyond its restart time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "the capability is a list of families")]
pub struct LongLivedGracefulRestart {
    /// Families whose routes may be kept.
    pub families: Vec<LongLivedGracefulRestartFamily>,
}

/// One family of [`LongLivedGracefulRestart`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the fields of RFC 9494 section 4.1")]
pub struct LongLivedGracefulRestartFamily {
    /// Which.
    pub family: AddressFamily,
    /// F: forwarding went on during the restart.
    pub forwarding_preserved: bool,
    /// Seconds; 24 bits.
    pub stale_time: u32,
}

const RESTARTING: u16 = 0x8000;
const NOTIFICATION: u16 = 0x4000;
const RESTART_TIME: u16 = 0x0fff;
const FORWARDING: u8 = 0x80;
const STALE_TIME: u32 = 0x00ff_ffff;

impl GracefulRestart {
    /// What it says about a family.
    pub fn family(&self, family: AddressFamily) -> Option<GracefulRestartFamily> {
        self.families.iter().copied().find(|known| known.family == family)
    }

    pub(super) fn decode(value: &[u8]) -> Option<Self> {
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

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut head = self.restart_time.min(RESTART_TIME);
        if self.restarting {
            head |= RESTARTING;
        }
        if self.notification {
            head |= NOTIFICATION;
        }
        let mut value = head.to_be_bytes().to_vec();
        for GracefulRestartFamily { family, forwarding_preserved } in &self.families {
            value.extend_from_slice(&family.octets());
            value.push(if *forwarding_preserved { FORWARDING } else { 0 });
        }
        value
    }
}

impl LongLivedGracefulRestart {
    /// What it says about a family.
    pub fn family(&self, family: AddressFamily) -> Option<LongLivedGracefulRestartFamily> {
        self.families.iter().copied().find(|known| known.family == family)
    }

    pub(super) fn decode(value: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(value);
        let mut families = Vec::new();
        while !reader.is_empty() {
            let family = AddressFamily { afi: reader.u16()?, safi: reader.u8()? };
            let tail = reader.u32()?;
            let [flags, ..] = tail.to_be_bytes();
            families.push(LongLivedGracefulRestartFamily {
                family,
                forwarding_preserved: flags & FORWARDING != 0,
                stale_time: tail & STALE_TIME,
            });
        }
        Some(Self { families })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut value = Vec::new();
        for LongLivedGracefulRestartFamily { family, forwarding_preserved, stale_time } in &self.families {
            let flags = if *forwarding_preserved { u32::from_be_bytes([FORWARDING, 0, 0, 0]) } else { 0 };
            value.extend_from_slice(&family.octets());
            value.extend_from_slice(&(flags | *stale_time.min(&STALE_TIME)).to_be_bytes());
        }
        value
    }
}
