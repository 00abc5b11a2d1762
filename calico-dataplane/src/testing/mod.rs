//! Fixtures for tests of this crate and of programs built on it.

pub mod conformance;
/// Planted faults of netlink, for tests of what comes after.
#[cfg(feature = "linux")]
pub mod faults {
    pub use crate::netlink::faults::{Fault, plan, requests};
}
#[cfg(feature = "linux")]
pub mod fuzz;
#[cfg(feature = "linux")]
pub mod netns;
pub mod renderer;
pub mod sample;
