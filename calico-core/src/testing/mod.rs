//! Generators and fuzz bodies for tests of this and other crates. Adds nothing to what the library does.

mod cluster;
mod cni;
mod coverage;
mod crowd;
mod random;
mod scale;
mod selector;
mod world;

pub use cluster::{Generator, HOST};
pub use cni::fuzz_cni;
pub use coverage::Coverage;
pub use random::Random;
pub use scale::{IsolatedCustomers, TagPolicies};
pub use selector::fuzz_selector;
pub use world::{Change, World};
