//! For tests of this crate and of its users: the conformance suite of [`BgpBackend`](crate::BgpBackend), a simulated network,
//! fuzz bodies, and the RIB to be measured.

mod conformance;
mod fuzz;
mod rib;
mod simulation;

pub use conformance::{Side, backends_converse};
pub use fuzz::{codec_variants, fuzz_bird, fuzz_framer, fuzz_message, fuzz_open, fuzz_speaker, fuzz_update};
pub use rib::RibBench;
pub use simulation::Simulation;
