//! Connections that policy denies now end, beside the loop.

use calico_cmd::output::chain;
use calico_core::connection::Routes;
use calico_core::table::Delta;
use calico_dataplane::denied::Work;
use calico_dataplane::reconcile::Object;
use calico_dataplane::{ApplyReport, DataplaneError, Listing, Removal, Tracking, Ways};
use tracing::{info, warn};

use super::Agent;

/// What the dataplane does just now.
pub(super) enum Job {
    None,
    List(Listing),
    Route(Ways),
    End(Removal),
}

/// How it went.
pub(super) enum Done {
    Listed(Result<Tracking, DataplaneError>),
    Routed(Result<Routes, DataplaneError>),
    Ended(Result<(), DataplaneError>),
}

impl Job {
    /// Waits for its end. Cancel safe.
    pub(super) async fn done(&mut self) -> Done {
        let done = match self {
            Self::None => std::future::pending().await,
            Self::List(listing) => Done::Listed(listing.await),
            Self::Route(ways) => Done::Routed(ways.await),
            Self::End(removal) => Done::Ended(removal.await),
        };
        *self = Self::None;
        done
    }
}

impl Agent {
    /// Begins what is to be done about connections, to be called when nothing is left to be written. Answers whether something is now.
    pub(super) fn end_denied(&mut self) -> bool {
        let holding = self.driver.state().holding();
        match self.pipeline.poll_denied(holding, self.state.start.elapsed()) {
            Some(Work::List(pick)) => self.job = Job::List(self.driver.connections(pick)),
            Some(Work::Route(asked)) => self.job = Job::Route(self.driver.ways(asked)),
            Some(Work::Bar { ended, over }) => {
                let delta = self.pipeline.bar(&ended, &over);
                self.driver.machine().desire(&delta);
                return true;
            }
            Some(Work::End(names)) => self.job = Job::End(self.driver.end_connections(names)),
            None => {}
        }
        false
    }

    pub(super) fn handle_done(&mut self, done: Done) {
        let now = self.state.start.elapsed();
        let Some(denied) = self.pipeline.denied() else { return };
        let outcome = match done {
            Done::Listed(outcome) => denied.listed(outcome, now).map(|()| 0),
            Done::Routed(outcome) => denied.routed(outcome, now).map(|()| 0),
            Done::Ended(outcome) => denied.ended(outcome, now),
        };
        match outcome {
            Ok(0) => {}
            Ok(connections) => {
                info!(connections, "ended connections that policy denies now");
                self.metrics.connections_ended.inc_by(u64::try_from(connections).unwrap_or(u64::MAX));
            }
            Err(error) => {
                warn!(error = %chain(&error), "cannot end connections that policy denies now; it is tried again")
            }
        }
    }

    /// Tells whoever ends connections what the kernel has taken.
    pub(super) fn note_written(&mut self, delta: &Delta, report: &ApplyReport) {
        let has_ruleset = !delta.chains_set.is_empty() || !delta.sets_added.is_empty() || !delta.elements.is_empty();
        if let (true, None, Some(denied)) = (has_ruleset, &report.ruleset, self.pipeline.denied()) {
            denied.wrote();
        }
    }
}

/// Whether an object has a say about packets.
pub(super) const fn decides(object: &Object) -> bool {
    matches!(object, Object::Ruleset | Object::Set(_) | Object::Chain(_) | Object::Entry(..))
}
