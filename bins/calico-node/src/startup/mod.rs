//! start
pub mod address;
