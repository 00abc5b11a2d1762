//! For tests of this crate and of its users: a simulated network, and fuzz bodies.

mod fuzz;
mod simulation;

pub use fuzz::{fuzz_framer, fuzz_open, fuzz_speaker, fuzz_update};
pub use simulation::Simulation;
