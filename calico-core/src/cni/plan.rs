//! The steps of an ADD, in order, and what each leaves to undo.
//!
//! The plugin carries the steps out and tells [`Plan::done`] of each that may have left something. If a later one fails, [`Plan::undo`]
//! names what to take back, last first: no veth, no endpoint and no address outlive a failed ADD, unless they were there before.

use alloc::vec::Vec;

/// A step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "every step must be carried out, and taken back")]
pub enum Step {
    /// Have addresses assigned. Back: release the handle.
    Assign,
    /// Make the interfaces. Back: delete them.
    Attach,
    /// Write the endpoint. Back: delete it.
    Publish,
    /// Wait until its policy is in the kernel. Nothing to take back.
    Await,
}

/// Progress of an ADD.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    done: Vec<Step>,
}

impl Plan {
    /// The steps, in order.
    pub const STEPS: [Step; 4] = [Step::Assign, Step::Attach, Step::Publish, Step::Await];

    /// The step may have left something, whether or not it succeeded.
    pub fn done(&mut self, step: Step) {
        self.done.push(step);
    }

    /// What to take back, in order. An address goes last: one that is free while its interface still exists could be given to
    /// another workload of the host.
    pub fn undo(&self) -> impl Iterator<Item = Step> + use<'_> {
        self.done.iter().rev().copied().filter(|step| *step != Step::Await)
    }
}
