//! Tests of the whole speaker.

mod faults;
mod protocol;
