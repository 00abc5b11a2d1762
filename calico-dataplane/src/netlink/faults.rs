//! Planted faults of netlink, for tests of what comes after: one plan for each thread.

use std::cell::Cell;
use std::io;

use nix::errno::Errno;

/// What goes wrong, at a request counted from zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "tests go through all of them")]
pub enum Fault {
    /// The kernel does not take the request.
    Refused(usize),
    /// It does, and its answers are lost.
    Unanswered(usize),
    /// Neither this request nor any later one is made.
    Dead(usize),
}

thread_local! {
    static PLAN: Cell<Option<Fault>> = const { Cell::new(None) };
    static REQUESTS: Cell<usize> = const { Cell::new(0) };
}

/// Plans for the calling thread, and counts its requests anew.
pub fn plan(fault: Option<Fault>) {
    PLAN.set(fault);
    REQUESTS.set(0);
}

/// Requests of the calling thread since its last plan.
pub fn requests() -> usize {
    REQUESTS.get()
}

/// To be asked before each request; whether its answers are lost.
pub(crate) fn next() -> io::Result<bool> {
    let number = REQUESTS.replace(REQUESTS.get() + 1);
    match PLAN.get() {
        Some(Fault::Refused(at)) if at == number => Err(Errno::ENOMEM.into()),
        Some(Fault::Dead(at)) if at <= number => Err(Errno::ESHUTDOWN.into()),
        Some(Fault::Unanswered(at)) => Ok(at == number),
        _ => Ok(false),
    }
}
