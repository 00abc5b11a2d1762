//! The evaluators of what is active: what the graph's output does to one flow, and why.
//!
//! In come the graph's events, out come verdicts with the steps that led to them. They run on stacks, rules and sets only; that these say
//! the same as the resources is proved by comparing it with the spec evaluator, and that the kernel does the same by packets.
//!
//! Two questions are asked: what one direction of one endpoint says to a flow ([`ActiveState::judge`]), and what a host does with a packet
//! that passes through it ([`ActiveState::passage`]), where up to both ends have a say. The answers are [`Verdict`] and
//! [`PassageVerdict`]. [`Compiled`] gives the same answers, fast; [`Matrix`] asks it who may
//! reach whom.

mod compiled;
mod matrix;
mod mismatch;
mod passage;
mod rule;
mod state;
mod step;
mod way;

pub use compiled::{Asker, Compiled};
pub use matrix::{Block, Cell, Host, Matrix, Node, Service};
pub use mismatch::{Lack, Mismatch};
pub use passage::{End, PassageVerdict, Settings, Stage};
pub use state::ActiveState;
pub use step::{Encapsulation, Matched, Owner, RuleStep, Side, Step, Verdict};

#[cfg(test)]
mod tests;
