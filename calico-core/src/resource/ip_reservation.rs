//! `IPReservation`: addresses that are not handed out.

use alloc::string::String;
use alloc::vec::Vec;

use super::formats::PREFIX;
use super::limit::Limit;
use super::model::model;

model! {
    /// Specification of an `IPReservation`. Addresses that are already in use stay in use.
    pub struct IpReservationSpec: specification {
        /// The ranges.
        "reservedCIDRs" reserved_cidrs: Vec<String> where [Limit::Text(&PREFIX), Limit::Unique];
    }
}
