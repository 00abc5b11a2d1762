//! Connections that policy denies now end.
//!
//! [`DeniedConnections`] is the pure machine. In come the graph's events, what the kernel has taken, lists of tracked connections, and
//! the time; out comes [`Work`] for a [`Dataplane`](crate::Dataplane) that goes on beside the caller's loop. What is denied says
//! [`calico_core::connection`].
//!
//! Rules that it keeps:
//! - A connection is looked for only after the kernel holds the policy that denies it: until then it would begin anew. If the kernel
//!   holds a part, what can be ended is, and all is looked at again once more is written.
//! - Lists are asked for when something can have been denied, and never take more than a tenth of the time: the first at once.
//! - A list is judged in slices, by what is active then. Where host endpoints are, routes are asked for first, slice by slice.
//! - A connection that was ended can come back by itself: what its other end was still sending makes a connection the other
//!   way, which policy may allow, and of which the denied one's packets would be replies. So before it is ended, what comes out of the middle
//!   of a TCP connection the other way is barred ([`Work::Bar`]), for as long as TCP sends again or until policy allows it. Of other
//!   protocols nobody knows what a beginning is: for the same time, what comes back is looked for, ever less often, and ended.

mod phase;
mod room;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use calico_core::calc::event::Event;
use calico_core::connection::{Connection, Doubt, Doubts, Host, Judge, Policed, RouteQuery, Routes};
use calico_core::flow::Flow;
use calico_core::net::InterfaceName;
use calico_core::verdict::{ActiveState, Compiled, Settings};

use self::phase::{Judging, Phase, Slice};
pub use crate::reconcile::Holding;
use crate::{DataplaneError, Pick, Tracked, TrackedName, Tracking};

/// Shortest and longest time between two lists.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// Part of the time that lists may take: one in so many.
const SHARE: u32 = 10;
/// Pause after a failure; it doubles up to the longest.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// So long a TCP sends again what nobody acknowledges (`tcp_retries2`), and its other end may come back.
const WATCH: Duration = Duration::from_secs(16 * 60);
/// What was ended that long ago is looked for again after one part in so many of that time.
const WATCH_SHARE: u32 = 8;
const TCP: u8 = 6;
/// Most ended connections to look for and to bar: 4 MB.
const MOST_WATCHED: usize = 16_384;

/// Ends connections that policy denies now. See the module for its rules.
///
/// Calls, in any order: [`handle`](Self::handle), [`doubt_all`](Self::doubt_all) and [`wrote`](Self::wrote) when something happened. Then do what
/// [`poll`](Self::poll) gives until it gives nothing, and answer with [`listed`](Self::listed),
/// [`routed`](Self::routed) or [`ended`](Self::ended). Come back at [`poll_timeout`](Self::poll_timeout) at the latest. Times are counted from any fixed moment.
#[derive(Debug, Default)]
pub struct DeniedConnections {
    settings: Settings,
    /// The host's own interfaces with their addresses.
    interfaces: BTreeMap<InterfaceName, Vec<IpAddr>>,
    doubts: Doubts,
    /// Doubted while the kernel did not hold all of the policy.
    held: Option<Doubt>,
    /// The kernel held nothing yet when it was last asked for.
    waits_for_kernel: bool,
    phase: Phase,
    /// No list before.
    earliest: Duration,
    retry: Duration,
    watch: Option<Watch>,
    /// What was ended, or is about to be, by what would bring it back.
    watched: Arc<HashMap<Flow, Ended>>,
    /// What need not be barred any more.
    over: Vec<Flow>,
    /// What is active changed since it was last asked whether what was ended is denied still.
    changed: bool,
    /// The host's addresses as of the last list.
    host: BTreeSet<IpAddr>,
}

/// What a dataplane is to do.
#[expect(clippy::exhaustive_enums, reason = "whoever carries it out must handle every work")]
pub enum Work {
    /// List connections.
    List(Pick),
    /// Look up routes.
    Route(BTreeSet<RouteQuery>),
    /// Have the host drop these packets of TCP, unless they begin a connection. To be written before anything more is asked for.
    Bar {
        /// From now on.
        ended: Vec<Flow>,
        /// No more.
        over: Vec<Flow>,
    },
    /// End these.
    End(Vec<TrackedName>),
}

/// A connection that was ended, and when.
#[derive(Debug, Clone, Copy)]
struct Ended {
    connection: Connection,
    at: Duration,
}

/// The look for what comes back.
#[derive(Debug, Clone, Copy)]
struct Watch {
    /// When something was ended last.
    since: Duration,
    next: Duration,
}

impl DeniedConnections {
    /// On a host with these settings.
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Takes in what is known of an interface of this host: its addresses, or none if it is gone.
    pub fn set_interface(&mut self, name: InterfaceName, addresses: Option<&[IpAddr]>) {
        match addresses {
            Some(addresses) => self.interfaces.insert(name, addresses.to_vec()),
            None => self.interfaces.remove(&name),
        };
    }

    /// Takes an event in, before the state does.
    pub fn handle(&mut self, before: &ActiveState, event: &Event) {
        self.changed = true;
        self.doubts.handle(before, event);
    }

    /// Doubts everything: at the start, and when somebody else changed what policy made of the kernel.
    pub fn doubt_all(&mut self) {
        self.doubts.doubt_all();
    }

    /// The kernel took a change of chains, sets or elements.
    pub fn wrote(&mut self) {
        if let Some(doubt) = self.held.take() {
            self.doubts.doubt(doubt);
        }
    }

    /// What to do now. Nothing more is given until it is answered.
    pub fn poll(&mut self, active: &Compiled, holding: Holding, now: Duration) -> Option<Work> {
        match core::mem::take(&mut self.phase) {
            Phase::Idle => self.begin(active, holding, now),
            Phase::Judging(judging) => self.judge(active, judging, now),
            Phase::Barring { doubt, names, is_new } => {
                self.phase = Phase::Ending { doubt, count: names.len(), is_new };
                Some(Work::End(names))
            }
            phase => {
                self.phase = phase;
                None
            }
        }
    }

    /// When to come back at the latest, if nothing else happens; what is past means at once.
    pub fn poll_timeout(&self) -> Option<Duration> {
        match self.phase {
            Phase::Idle if !self.over.is_empty() => Some(Duration::ZERO),
            Phase::Idle if self.has_news() && !self.waits_for_kernel => Some(self.earliest),
            Phase::Idle => self.watch.map(|watch| watch.next.max(self.earliest)),
            Phase::Judging(_) | Phase::Barring { .. } => Some(Duration::ZERO),
            _ => None,
        }
    }

    /// The list that was asked for, or why there is none.
    pub fn listed(&mut self, outcome: Result<Tracking, DataplaneError>, now: Duration) -> Result<(), DataplaneError> {
        let Phase::Listing { began, doubt } = core::mem::take(&mut self.phase) else { return Ok(()) };
        match outcome {
            Ok(tracking) => {
                let pause = (now.saturating_sub(began) * SHARE).clamp(PAUSE.0, PAUSE.1);
                self.earliest = now + pause;
                self.host.clone_from(&tracking.host);
                self.changed = false;
                self.phase = Phase::Judging(self.judging(doubt, tracking));
                Ok(())
            }
            Err(error) => Err(self.failed(doubt, error, now)),
        }
    }

    /// The routes that were asked for, or why there are none.
    pub fn routed(&mut self, outcome: Result<Routes, DataplaneError>, now: Duration) -> Result<(), DataplaneError> {
        let Phase::Routing(mut judging) = core::mem::take(&mut self.phase) else { return Ok(()) };
        match outcome {
            Ok(routes) => {
                judging.routes = Some(routes);
                self.phase = Phase::Judging(judging);
                Ok(())
            }
            Err(error) => Err(self.failed(judging.doubt, error, now)),
        }
    }

    /// How ending them went. Answers how many have ended.
    pub fn ended(&mut self, outcome: Result<(), DataplaneError>, now: Duration) -> Result<usize, DataplaneError> {
        let Phase::Ending { doubt, count, is_new } = core::mem::take(&mut self.phase) else { return Ok(0) };
        if let Err(error) = outcome {
            return Err(self.failed(doubt, error, now));
        }
        self.retry = Duration::ZERO;
        if is_new || self.watch.is_none() && !self.watched.is_empty() {
            self.watch = Some(Watch { since: now, next: now + PAUSE.0 });
        }
        Ok(count)
    }

    fn failed(&mut self, doubt: Option<Doubt>, error: DataplaneError, now: Duration) -> DataplaneError {
        if let Some(doubt) = doubt {
            self.doubts.doubt(doubt);
        }
        self.retry = (self.retry * 2).clamp(RETRY.0, RETRY.1);
        self.earliest = now + self.retry;
        error
    }

    fn begin(&mut self, active: &Compiled, holding: Holding, now: Duration) -> Option<Work> {
        if !self.over.is_empty() {
            return Some(Work::Bar { ended: Vec::new(), over: core::mem::take(&mut self.over) });
        }
        self.waits_for_kernel = holding == Holding::Nothing;
        if now < self.earliest {
            return None;
        }
        let doubt = if self.waits_for_kernel { None } else { self.doubts.take() };
        let is_watching = self.watch(now);
        if doubt.is_none() && !is_watching {
            return if self.waits_for_kernel { None } else { self.ask_again(active, now) };
        }
        if let (Some(doubt), Holding::Part) = (&doubt, holding) {
            self.held = Some(if self.held.is_some() { Doubt::All } else { doubt.clone() });
        }
        let pick = self.pick(active.state(), doubt.clone());
        self.phase = Phase::Listing { began: now, doubt };
        Some(Work::List(pick))
    }

    /// Whether something happened that calls for a look at connections, or at what was ended.
    fn has_news(&self) -> bool {
        self.doubts.is_some() || self.changed && !self.watched.is_empty()
    }

    /// Finds what was ended and is allowed again.
    fn ask_again(&mut self, active: &Compiled, now: Duration) -> Option<Work> {
        if !core::mem::take(&mut self.changed) || self.watched.is_empty() {
            return None;
        }
        self.earliest = now + PAUSE.0;
        let tracking = Tracking { host: self.host.clone(), connections: Vec::new() };
        let judging = self.judging(None, tracking);
        self.judge(active, judging, now)
    }

    fn judging(&self, doubt: Option<Doubt>, tracking: Tracking) -> Judging {
        let former = self.watched.values().map(|ended| ended.connection).collect();
        Judging { doubt, tracking, next: 0, routes: None, denied: Vec::new(), children: Vec::new(), former }
    }

    /// Whether it is time to look for what was ended, and when it will be next.
    fn watch(&mut self, now: Duration) -> bool {
        let Some(watch) = self.watch.as_mut().filter(|watch| watch.next <= now) else { return false };
        watch.next = now + (now.saturating_sub(watch.since) / WATCH_SHARE).max(PAUSE.0);
        let is_over = |ended: &Ended| now.saturating_sub(ended.at) >= WATCH;
        let over: Vec<Flow> = self.watched.iter().filter(|(_, ended)| is_over(ended)).map(|(flow, _)| *flow).collect();
        self.forget(over);
        true
    }

    fn pick(&self, state: &ActiveState, doubt: Option<Doubt>) -> Pick {
        let policed = Policed::of(state, &self.settings);
        let watched = Arc::clone(&self.watched);
        Box::new(move |connection| {
            let is_doubtful = || doubt.as_ref().is_some_and(|doubt| doubt.concerns(connection));
            let is_back = || watched.contains_key(&connection.original);
            policed.concerns(connection) && (is_doubtful() || is_back())
        })
    }

    /// What must be known before the next slice is judged.
    fn routes(&self, judge: &Judge<'_>, (slice, former): Slice<'_>) -> BTreeSet<RouteQuery> {
        let of_slice = slice.iter().flat_map(|tracked| {
            let back = self.watched.get(&tracked.connection.original).map(|ended| ended.connection);
            [Some(tracked.connection), back]
        });
        let judged = of_slice.flatten().chain(former.iter().copied());
        judged.flat_map(|connection| judge.routes(&connection)).collect()
    }

    fn judge(&mut self, active: &Compiled, mut judging: Judging, now: Duration) -> Option<Work> {
        let asked = judging.routes.take();
        let (slice, former) = judging.slice();
        let (addresses, nothing) = (&judging.tracking.host, Routes::new());
        let routes = asked.as_ref().unwrap_or(&nothing);
        let (settings, interfaces) = (&self.settings, &self.interfaces);
        let mut judge = Judge::new(active, Host { settings, addresses, interfaces, routes });
        if asked.is_none() {
            let wanted = self.routes(&judge, (slice, former));
            if !wanted.is_empty() {
                drop(judge);
                self.phase = Phase::Routing(judging);
                return Some(Work::Route(wanted));
            }
        }
        let (mut denied, mut children) = (Vec::new(), Vec::new());
        for (place, tracked) in (judging.next..).zip(slice) {
            let connection = &tracked.connection;
            let back = self.watched.get(&connection.original);
            if back.is_some_and(|former| judge.denies(&former.connection)) || judge.denies(connection) {
                denied.push(tracked.clone());
            } else if connection.master.is_some() {
                children.push(place);
            }
        }
        let allowed: Vec<Flow> =
            former.iter().filter(|former| !judge.denies(former)).map(|former| former.reply).collect();
        drop(judge);
        let done = slice.len() + former.len();
        judging.next += done;
        judging.denied.extend(denied);
        judging.children.extend(children);
        self.forget(allowed);
        if judging.next < judging.tracking.connections.len() + judging.former.len() {
            self.phase = Phase::Judging(judging);
            return None;
        }
        self.end(judging, now)
    }

    /// What is allowed again, or was ended long ago, is neither looked for nor barred any more.
    fn forget(&mut self, flows: Vec<Flow>) {
        if flows.is_empty() {
            return;
        }
        let watched = Arc::make_mut(&mut self.watched);
        for flow in flows {
            if watched.remove(&flow).is_some() && flow.protocol == TCP {
                self.over.push(flow);
            }
        }
        if self.watched.is_empty() {
            self.watch = None;
        }
    }

    fn make_room(&mut self, first: &mut Vec<Connection>) {
        if self.watched.len() + first.len() <= MOST_WATCHED {
            return;
        }
        let mut former: Vec<(Duration, Flow)> = self.watched.iter().map(|(flow, ended)| (ended.at, *flow)).collect();
        former.sort_unstable_by_key(|(at, _)| Reverse(*at));
        let former: Vec<Flow> = former.into_iter().map(|(_, flow)| flow).collect();
        let new: Vec<Flow> = first.iter().map(|connection| connection.reply).collect();
        let out = room::too_many(&new, &former, MOST_WATCHED);
        first.retain(|connection| !out.contains(&connection.reply));
        self.forget(former.into_iter().filter(|flow| out.contains(flow)).collect());
    }

    fn end(&mut self, judging: Judging, now: Duration) -> Option<Work> {
        let Judging { doubt, tracking, mut denied, children, .. } = judging;
        let masters: HashSet<Flow> = denied.iter().map(|tracked| tracked.connection.original).collect();
        let children = children.into_iter().filter_map(|place| tracking.connections.get(place));
        let falls = |child: &&Tracked| child.connection.master.is_some_and(|master| masters.contains(&master));
        denied.extend(children.filter(falls).cloned());
        if denied.is_empty() {
            self.retry = Duration::ZERO;
            return None;
        }
        let names: Vec<TrackedName> = denied.iter().map(|tracked| tracked.name.clone()).collect();
        // Without those that had come back. Alone, each is what policy says of itself.
        let first = denied.into_iter().map(|tracked| Connection { master: None, ..tracked.connection });
        let mut first: Vec<Connection> = first.filter(|one| !self.watched.contains_key(&one.original)).collect();
        self.make_room(&mut first);
        let watched = Arc::make_mut(&mut self.watched);
        let (mut is_new, mut ended) = (false, Vec::new());
        for connection in first {
            if watched.insert(connection.reply, Ended { connection, at: now }).is_none() {
                is_new = true;
                ended.extend(Some(connection.reply).filter(|flow| flow.protocol == TCP));
            }
        }
        if ended.is_empty() {
            self.phase = Phase::Ending { doubt, count: names.len(), is_new };
            return Some(Work::End(names));
        }
        self.phase = Phase::Barring { doubt, names, is_new };
        Some(Work::Bar { ended, over: core::mem::take(&mut self.over) })
    }
}
