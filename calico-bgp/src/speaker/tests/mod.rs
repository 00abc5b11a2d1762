//! Tests of the whole speaker.

mod bench;
mod changes;
mod faults;
mod protocol;
mod session;
