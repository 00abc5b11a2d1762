//! Tests of the plugin.

mod fixture;
mod kernel;
