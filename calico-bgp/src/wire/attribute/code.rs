//! Attribute flags and registered type codes.

pub(super) const OPTIONAL: u8 = 0x80;
pub(super) const TRANSITIVE: u8 = 0x40;
pub(super) const PARTIAL: u8 = 0x20;
pub(super) const EXTENDED_LENGTH: u8 = 0x10;

pub(super) const ORIGIN: u8 = 1;
pub(super) const AS_PATH: u8 = 2;
pub(super) const NEXT_HOP: u8 = 3;
pub(super) const MULTI_EXIT_DISC: u8 = 4;
pub(super) const LOCAL_PREF: u8 = 5;
pub(super) const ATOMIC_AGGREGATE: u8 = 6;
pub(super) const AGGREGATOR: u8 = 7;
pub(super) const COMMUNITIES: u8 = 8;
pub(super) const ORIGINATOR_ID: u8 = 9;
pub(super) const CLUSTER_LIST: u8 = 10;
pub(super) const MP_REACH_NLRI: u8 = 14;
pub(super) const MP_UNREACH_NLRI: u8 = 15;
pub(super) const EXTENDED_COMMUNITIES: u8 = 16;
pub(super) const AS4_PATH: u8 = 17;
pub(super) const AS4_AGGREGATOR: u8 = 18;
pub(super) const IPV6_EXTENDED_COMMUNITIES: u8 = 25;
pub(super) const AIGP: u8 = 26;
pub(super) const LARGE_COMMUNITIES: u8 = 32;
pub(super) const ONLY_TO_CUSTOMER: u8 = 35;
