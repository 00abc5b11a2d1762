//! The host's side of the loop: what others changed in the kernel comes in, what the reconciler wants done is carried out.

use std::time::Duration;

use calico_cmd::output::chain;
use calico_core::net::Cidr;
use calico_dataplane::reconcile::{Driver, Step};
use calico_dataplane::{DataplaneError, HostChange};
use futures_util::FutureExt;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::denied::decides;
use super::{Agent, DRAIN};

/// First pause after the kernel's notifications failed to be read; it doubles up to the longest.
pub(super) const FIRST_DEAF: Duration = Duration::from_millis(200);
/// How often those who wait are looked after while the host is looked at.
const LOOK_ROUND: Duration = Duration::from_secs(1);
/// Longest such pause; at its end the whole host is looked at.
const LONGEST_DEAF: Duration = Duration::from_secs(30);

/// The kernel's notifications failed to be read; nothing else waits for the next try.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deaf {
    pause: Duration,
    until: Instant,
}

/// What somebody changes next, once it can be heard.
pub(super) async fn next_change(driver: &mut Driver, deaf: Option<Deaf>) -> Result<HostChange, DataplaneError> {
    if let Some(deaf) = deaf {
        tokio::time::sleep_until(deaf.until).await;
    }
    driver.next_change().await
}

impl Agent {
    pub(super) fn handle_change(&mut self, first: Result<HostChange, DataplaneError>) {
        let mut next = Some(first);
        for _ in 0..DRAIN {
            match next {
                // The machine has it already.
                Some(Ok(_)) => self.deaf = None,
                Some(Err(error)) => return self.go_deaf(&error),
                None => return,
            }
            next = self.driver.next_change().now_or_never();
        }
        match next {
            Some(Ok(_)) => self.deaf = None,
            Some(Err(error)) => self.go_deaf(&error),
            None => {}
        }
    }

    /// What happened while nothing is heard is found by looking at the whole host: now, and each time that hearing fails again.
    fn go_deaf(&mut self, error: &DataplaneError) {
        let pause = self.deaf.map_or(FIRST_DEAF, |deaf| (deaf.pause * 2).min(LONGEST_DEAF));
        warn!(error = %chain(error), retry_in = ?pause, "cannot hear of changes in the kernel; looking at all of it again");
        self.deaf = Some(Deaf { pause, until: Instant::now() + pause });
        self.driver.machine().host_change(HostChange::Overrun);
    }

    /// Whoever reads the log learns of what somebody else did to what is ours. A fight is told once, by its object.
    fn note_drift(&mut self) {
        let Some(object) = self.driver.state().undone().next() else { return };
        if let (true, Some(denied)) = (self.driver.state().undone().any(decides), self.pipeline.denied()) {
            denied.doubt_all();
        }
        if !self.drifted && !self.state.is_fighting() {
            warn!(%object, "somebody else changed what is ours in the kernel; making it right");
        }
        self.drifted = true;
    }

    /// Whose an interface of this host is follows from its name and addresses.
    fn note_interfaces(&mut self) {
        let interfaces = self.driver.machine().take_interfaces();
        if !interfaces.is_empty() {
            let delta = self.pipeline.handle_interfaces(&interfaces);
            self.driver.machine().desire(&delta);
        }
    }

    /// One step of the reconciler. While it looks at the host, which takes long where sets are very large, callers are answered.
    async fn step(&mut self, clock: &(dyn Fn() -> Duration + Send + Sync)) -> Step {
        if !self.driver.state().wants_look(clock()) {
            return self.driver.step(clock).await;
        }
        self.state.looking_since.get_or_insert_with(Instant::now);
        let step = loop {
            tokio::select! {
                biased;
                step = self.driver.step(clock) => break step,
                Some(call) = self.calls.recv() => self.handle_call(call),
                () = tokio::time::sleep(LOOK_ROUND) => self.look_round(),
            }
        };
        self.state.looking_since = None;
        step
    }

    /// Does what the reconciler wants done.
    pub(super) async fn carry_out(&mut self) {
        let start = self.state.start;
        let clock = move || start.elapsed();
        self.note_drift();
        loop {
            self.note_interfaces();
            match self.step(&clock).await {
                Step::Idle => {
                    while let Some(object) = self.driver.machine().take_drift() {
                        self.metrics.count_drift(&object);
                    }
                    // What is fought over waits, and is told by its object.
                    self.drifted = false;
                    return;
                }
                Step::Looked => {
                    debug!("looked at the host");
                    self.note_drift();
                }
                Step::LookFailed(error) => warn!(error = %chain(&error), "cannot look at the host"),
                Step::Applied { delta, report } => {
                    self.metrics.applies.inc();
                    self.note_written(&delta, &report);
                    if core::mem::take(&mut self.drifted) && !self.state.is_fighting() {
                        info!(
                            chains = delta.chains_set.len(),
                            sets = delta.elements.len(),
                            routes = delta.routes_set.len() + delta.routes_removed.len(),
                            neighbors = delta.neighbors_set.len(),
                            "made right in the kernel what somebody else had changed"
                        );
                    }
                    debug!(
                        chains = delta.chains_set.len(),
                        sets = delta.elements.len(),
                        routes = delta.routes_set.len(),
                        "wrote to the kernel"
                    );
                    if !report.is_complete() {
                        self.metrics.apply_failures.inc();
                    }
                    log_failures(&report);
                }
            }
        }
    }
}

fn log_failures(report: &calico_dataplane::ApplyReport) {
    if let Some(error) = &report.ruleset {
        warn!(error = %chain(error), "the kernel refused a change of the ruleset");
    }
    if let Some(error) = &report.connections {
        warn!(error = %chain(error), "the kernel refused to end connections of addresses that left their workload");
    }
    for failure in &report.routes {
        let dest: Cidr = failure.key.dest;
        warn!(%dest, error = %chain(&failure.error), "the kernel refused a route");
    }
    for (neighbor, error) in &report.neighbors {
        warn!(address = %neighbor.address, interface = %neighbor.interface, error = %chain(error), "the kernel refused a neighbour");
    }
    for (shaper, error) in &report.shapings {
        warn!(interface = %shaper.workload(), error = %chain(error), "the kernel refused a limit on bandwidth");
    }
    for (setting, error) in &report.settings {
        warn!(path = setting.path, interface = %setting.interface, error = %chain(error), "the kernel refused a setting");
    }
}
