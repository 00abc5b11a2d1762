//! Planted faults of netlink, for tests of what comes after, and a record of what is listed: one of each for each thread.

use std::cell::{Cell, RefCell};
use std::io;

use nix::errno::Errno;

use super::wire::{find, read_text};
use crate::nftables::uapi::{GET_ELEMENT, GET_RULE};

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
    static LISTED: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
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

/// From now on it is recorded of which objects of nf_tables the calling thread lists rules or elements. Gives what was recorded so far.
pub fn record_listed() -> Vec<String> {
    LISTED.replace(Some(Vec::new())).unwrap_or_default()
}

/// All of a thread's, to go on in another one.
#[derive(Debug)]
pub(crate) struct Planted {
    plan: Option<Fault>,
    requests: usize,
    listed: Option<Vec<String>>,
}

impl Planted {
    pub(crate) fn take() -> Self {
        Self { plan: PLAN.take(), requests: REQUESTS.take(), listed: LISTED.take() }
    }

    pub(crate) fn put(self) {
        PLAN.set(self.plan);
        REQUESTS.set(self.requests);
        LISTED.set(self.listed);
    }
}

/// Takes note of a request for a list.
pub(crate) fn listed(kind: u16, body: &[u8]) {
    let of_nf_tables = [GET_RULE, GET_ELEMENT].contains(&kind);
    let object = body.get(4..).filter(|_| of_nf_tables).and_then(|attributes| find(attributes, 2)).and_then(read_text);
    LISTED.with_borrow_mut(|listed| listed.iter_mut().for_each(|all| all.extend(object.map(str::to_owned))));
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
