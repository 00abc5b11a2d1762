//! Tests of the machines over a model store.

mod faults;
mod model;
mod rules;
mod stored;
