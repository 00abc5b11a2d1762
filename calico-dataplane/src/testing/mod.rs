//! Fixtures for tests of this crate and of programs built on it.

pub mod conformance;
#[cfg(feature = "linux")]
pub mod fuzz;
#[cfg(feature = "linux")]
pub mod netns;
pub mod renderer;
pub mod sample;
