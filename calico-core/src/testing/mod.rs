//! Generators and fuzz bodies for tests of this and other crates. Adds nothing to what the library does.

mod selector;

pub use selector::fuzz_selector;
