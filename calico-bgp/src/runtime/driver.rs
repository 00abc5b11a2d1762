//! The task that moves bytes, time and connections between the speaker and the operating system.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use super::bfd::Watch;
use super::connection::{Inbound, Link, Reports, link};
use super::listeners::{Listeners, addresses};
use super::socket::caller;
use crate::bfd::BfdPeer;
use crate::clock::Clock;
use crate::session::transport::Listening;
use crate::speaker::{Action, ConnectionId, Speaker};
use crate::time::Timestamp;

/// Reports taken before the speaker's output is looked at: bounds the time that KEEPALIVEs wait behind UPDATEs.
const BATCH: usize = 32;
/// Pause before sockets that could not be had are asked for again.
const PAUSE: Duration = Duration::from_secs(5);

/// What driver and backend share.
#[derive(Debug)]
pub(super) struct Shared {
    speaker: Mutex<Speaker>,
    /// Which socket cannot be had, and why.
    problem: Mutex<Option<String>>,
    pub(super) clock: Clock,
    /// There is a new desired state.
    pub(super) work: Notify,
    /// There may be events.
    pub(super) events: Notify,
    /// The driver should end.
    pub(super) quit: Notify,
    pub(super) stopped: AtomicBool,
}

impl Shared {
    pub(super) fn new(speaker: Speaker) -> Self {
        Self {
            speaker: Mutex::new(speaker),
            problem: Mutex::new(None),
            clock: Clock::start(),
            work: Notify::new(),
            events: Notify::new(),
            quit: Notify::new(),
            stopped: AtomicBool::new(false),
        }
    }

    /// The speaker keeps its own invariants between calls, so a poisoned lock means nothing to it.
    pub(super) fn speaker(&self) -> MutexGuard<'_, Speaker> {
        self.speaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn problem(&self) -> MutexGuard<'_, Option<String>> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the speaker last said of the host's sockets, until all of it is so.
#[derive(Debug, Default)]
struct Wanted {
    listening: Listening,
    watched: Vec<BfdPeer>,
    /// When to try (again), if that is needed.
    due: Option<Timestamp>,
}

/// The transport.
#[derive(Debug)]
pub(super) struct Driver {
    shared: Arc<Shared>,
    accepted: mpsc::Receiver<(TcpStream, SocketAddr)>,
    listeners: Listeners,
    /// Where to listen, whatever the speaker says.
    fixed: Option<SocketAddr>,
    wanted: Wanted,
    watch: Watch,
    inbound: mpsc::Receiver<(ConnectionId, Inbound)>,
    reports: Reports,
    links: HashMap<ConnectionId, Link>,
    tasks: JoinSet<()>,
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Release);
        self.shared.events.notify_waiters();
    }
}

impl Driver {
    /// `listeners` hand what they accept to `accepted`.
    pub(super) fn new(
        shared: Arc<Shared>,
        accepted: mpsc::Receiver<(TcpStream, SocketAddr)>,
        listeners: Listeners,
        fixed: Option<SocketAddr>,
        seed: u64,
    ) -> Self {
        let (reports, inbound) = mpsc::channel(2 * BATCH);
        Self {
            shared,
            accepted,
            listeners,
            fixed,
            wanted: Wanted::default(),
            watch: Watch::new(seed),
            inbound,
            reports,
            links: HashMap::new(),
            tasks: JoinSet::new(),
        }
    }

    /// Runs until it is told to quit or aborted: a speaker that stops says nothing. Told to, it ends after its sockets are closed.
    pub(super) async fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        loop {
            let deadline = self.turn();
            self.prepare().await;
            let deadline = deadline.into_iter().chain(self.wanted.due).min();
            tokio::select! {
                Some((stream, from)) = self.accepted.recv() => self.accept(stream, from),
                Some((connection, report)) = self.inbound.recv() => self.take(connection, report),
                Some(_) = self.tasks.join_next() => {}
                event = self.watch.next_event() => shared.speaker().handle_bfd(shared.clock.now(), &event),
                () = shared.work.notified() => {}
                () = shared.quit.notified() => return self.stop().await,
                () = shared.clock.sleep_until(deadline) => {}
            }
        }
    }

    async fn stop(mut self) {
        self.tasks.shutdown().await;
        self.listeners.close_all().await;
        self.watch.stop().await;
    }

    /// Makes the host's sockets what the speaker wants. What fails is named in the status and tried again.
    async fn prepare(&mut self) {
        let now = self.shared.clock.now();
        if self.wanted.due.is_none_or(|due| due > now) {
            return;
        }
        let addresses = self.fixed.map_or_else(|| addresses(&self.wanted.listening), |fixed| vec![fixed]);
        let (is_new, listening) = self.listeners.set(&addresses, &self.wanted.listening.keys).await;
        if is_new {
            // Who waits here was let in before; each calls again.
            while self.accepted.try_recv().is_ok() {}
        }
        let watching = self.watch.set(&self.wanted.watched);
        let problems = [listening.err().map(|error| chain(&error)), watching.err().map(|error| chain(&error))];
        let problem = problems.into_iter().flatten().next();
        self.wanted.due = problem.as_ref().map(|_| now.after(PAUSE));
        let mut told = self.shared.problem();
        if problem != *told {
            match &problem {
                Some(problem) => tracing::error!(problem, retry_in = ?PAUSE, "BGP lacks a socket; the rest goes on"),
                None => tracing::info!("BGP has its sockets again"),
            }
            *told = problem;
        }
    }

    fn take(&mut self, connection: ConnectionId, report: Inbound) {
        let (shared, now) = (Arc::clone(&self.shared), self.shared.clock.now());
        let mut speaker = shared.speaker();
        self.handle(&mut speaker, now, connection, report);
        for _ in 1..BATCH {
            let Ok((connection, report)) = self.inbound.try_recv() else {
                return;
            };
            self.handle(&mut speaker, now, connection, report);
        }
    }

    fn handle(&mut self, speaker: &mut Speaker, now: Timestamp, connection: ConnectionId, report: Inbound) {
        match report {
            Inbound::Connected => speaker.handle_connected(now, connection),
            Inbound::Bytes(bytes) => speaker.handle_bytes(now, connection, &bytes),
            Inbound::Drained => self.fill(speaker, connection),
            Inbound::Closed => {
                self.links.remove(&connection);
                speaker.handle_closed(now, connection);
            }
        }
    }

    fn accept(&mut self, stream: TcpStream, from: SocketAddr) {
        let (now, from) = (self.shared.clock.now(), caller(from));
        let mut speaker = self.shared.speaker();
        let accepted = speaker.handle_accepted(now, from).and_then(|id| Some((id, speaker.transport(id)?)));
        drop(speaker);
        let Some((connection, transport)) = accepted else {
            tracing::debug!(peer = %from, "refused a BGP connection: not a configured peer, or held down");
            return;
        };
        let (link, task) = link(connection, self.reports.clone());
        self.links.insert(connection, link);
        self.tasks.spawn(task.take(stream, from, transport));
    }

    /// Carries out what the speaker wants. Says when it wants to be woken.
    fn turn(&mut self) -> Option<Timestamp> {
        let shared = Arc::clone(&self.shared);
        let mut speaker = shared.speaker();
        speaker.handle_timeout(shared.clock.now());
        while let Some(action) = speaker.poll_action() {
            self.carry_out(action);
        }
        while let Some(connection) = speaker.poll_ready() {
            self.fill(&mut speaker, connection);
        }
        shared.events.notify_one();
        speaker.poll_timeout()
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Connect { connection, peer, port, transport } => {
                let (link, task) = link(connection, self.reports.clone());
                self.links.insert(connection, link);
                self.tasks.spawn(task.connect(peer, port, transport));
            }
            Action::Listen(listening) => {
                self.wanted.listening = listening;
                self.wanted.due = Some(Timestamp::ZERO);
            }
            Action::Watch(peers) => {
                self.wanted.watched = peers;
                self.wanted.due = Some(Timestamp::ZERO);
            }
            Action::Disconnect { connection, last } => {
                if let Some(link) = self.links.remove(&connection)
                    && !last.is_empty()
                {
                    // A peer that does not read does not learn why either.
                    let _ = link.chunks.try_send(last);
                }
            }
        }
    }

    /// Moves what the speaker has for a connection into its slot, as long as there is room.
    fn fill(&self, speaker: &mut Speaker, connection: ConnectionId) {
        let Some(link) = self.links.get(&connection) else {
            return;
        };
        loop {
            let room = link.chunks.try_reserve().or_else(|_| {
                // The flag first, then a second look: the writer may have made room in between and seen no flag.
                link.blocked.store(true, Ordering::Release);
                link.chunks.try_reserve()
            });
            let Ok(room) = room else {
                return;
            };
            let mut chunk = Vec::new();
            speaker.poll_transmit(connection, &mut chunk);
            if chunk.is_empty() {
                return;
            }
            room.send(chunk);
        }
    }
}

/// An error with its causes.
fn chain(error: &dyn core::error::Error) -> String {
    let causes = core::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
