//! Fixtures for tests of this crate and of programs built on it.

#[cfg(feature = "linux")]
pub mod netns;
