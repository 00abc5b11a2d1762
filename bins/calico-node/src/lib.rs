//! The node agent: start-up, policy and routes, BGP, in one process.

pub mod cli;
pub mod control;
pub mod startup;
