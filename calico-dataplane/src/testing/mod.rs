//! Fixtures for tests of this crate and of programs built on it.

pub mod conformance;
/// Planted faults of netlink, for tests of what comes after, and a record of what is listed.
#[cfg(feature = "linux")]
pub mod faults {
    pub use crate::netlink::faults::{Fault, plan, record_listed, requests};
}
#[cfg(feature = "linux")]
pub mod fuzz;
#[cfg(feature = "linux")]
pub mod netns;
pub mod renderer;
pub mod sample;
