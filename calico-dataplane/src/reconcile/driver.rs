//! The async shell: carries the machine's wishes to a [`Dataplane`]. It owns no task and no timer.

use std::collections::BTreeSet;
use std::time::Duration;

use calico_core::connection::RouteQuery;
use calico_core::net::InterfaceName;
use calico_core::table::Delta;

use super::Reconciler;
use crate::{ApplyReport, Dataplane, DataplaneError, HostChange, Listing, Pick, Removal, TrackedName, Ways};

/// A [`Reconciler`] with the [`Dataplane`] that it works on.
///
/// Its owner runs one loop: put changes into [`machine`](Self::machine), call [`step`](Self::step) until it gives
/// [`Step::Idle`], then wait for whichever comes first of an input of its own, [`next_change`](Self::next_change), and the time
/// that the machine's `poll_timeout` names.
pub struct Driver {
    machine: Reconciler,
    dataplane: Box<dyn Dataplane>,
}

/// What a step did.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "the loop that drives it must handle every outcome")]
pub enum Step {
    /// There is nothing to do now.
    Idle,
    /// Looked at the host.
    Looked,
    /// Looking at the host failed; it is tried again later.
    LookFailed(DataplaneError),
    /// Carried out a change; the report says what failed. The machine has taken it in.
    Applied {
        /// What was written.
        delta: Box<Delta>,
        /// How it went.
        report: ApplyReport,
    },
}

impl Driver {
    /// Brings the two together.
    pub fn new(machine: Reconciler, dataplane: Box<dyn Dataplane>) -> Self {
        Self { machine, dataplane }
    }

    /// The machine, for input.
    pub const fn machine(&mut self) -> &mut Reconciler {
        &mut self.machine
    }

    /// The machine, for questions.
    pub const fn state(&self) -> &Reconciler {
        &self.machine
    }

    /// Does one thing that the machine wants done, if there is one. Cancel safe while the machine wants a look (which may take long), and not
    /// otherwise: a change that was begun must be reported.
    ///
    /// `clock` counts from any fixed moment.
    pub async fn step(&mut self, clock: &(dyn Fn() -> Duration + Send + Sync)) -> Step {
        if self.machine.wants_look(clock()) {
            return match self.dataplane.observe().await {
                Ok(seen) => {
                    self.machine.observed(seen);
                    Step::Looked
                }
                Err(error) => {
                    self.machine.look_failed(&error, clock());
                    Step::LookFailed(error)
                }
            };
        }
        let Some(delta) = self.machine.poll(clock()) else { return Step::Idle };
        let report = self.dataplane.apply(&delta).await;
        self.machine.report(&delta, &report, clock());
        Step::Applied { delta: Box::new(delta), report }
    }

    /// Waits for a change that somebody else made, gives it to the machine, and says what it was. Cancel safe.
    pub async fn next_change(&mut self) -> Result<HostChange, DataplaneError> {
        let change = self.dataplane.next_change().await?;
        self.machine.host_change(change.clone());
        Ok(change)
    }

    /// Begins to remove a workload's interface; see [`Dataplane::remove_workload`]. The machine hears of it like of any other change.
    pub fn remove_workload(&mut self, interface: InterfaceName) -> Removal {
        self.dataplane.remove_workload(interface)
    }

    /// Whether the host forwards IPv6 packets, if that can be told.
    pub fn forwards_ipv6(&self) -> Option<bool> {
        self.dataplane.forwards_ipv6()
    }

    /// Begins to list connections; see [`Dataplane::connections`].
    pub fn connections(&mut self, pick: Pick) -> Listing {
        self.dataplane.connections(pick)
    }

    /// Begins to look routes up; see [`Dataplane::ways`].
    pub fn ways(&mut self, asked: BTreeSet<RouteQuery>) -> Ways {
        self.dataplane.ways(asked)
    }

    /// Begins to end connections; see [`Dataplane::end_connections`].
    pub fn end_connections(&mut self, names: Vec<TrackedName>) -> Removal {
        self.dataplane.end_connections(names)
    }
}
