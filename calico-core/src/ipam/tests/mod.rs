//! Tests of the machines over a model store.

mod blocks;
mod faults;
mod model;
mod rules;
mod stored;
