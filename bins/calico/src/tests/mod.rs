//! Tests of the plugin.

mod faults;
mod fixture;
mod kernel;
