//! The task that moves bytes, time and connections between the speaker and the operating system.

use core::net::{IpAddr, SocketAddr};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use super::connection::{Inbound, Link, Reports, link};
use crate::clock::Clock;
use crate::speaker::{Action, ConnectionId, Speaker};
use crate::time::Timestamp;

/// Reports taken before the speaker's output is looked at: bounds the time that KEEPALIVEs wait behind UPDATEs.
const BATCH: usize = 32;

/// What driver and backend share.
#[derive(Debug)]
pub(super) struct Shared {
    speaker: Mutex<Speaker>,
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
}

/// The transport.
#[derive(Debug)]
pub(super) struct Driver {
    shared: Arc<Shared>,
    accepted: mpsc::Receiver<(TcpStream, IpAddr)>,
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
    pub(super) fn new(shared: Arc<Shared>, accepted: mpsc::Receiver<(TcpStream, IpAddr)>, tasks: JoinSet<()>) -> Self {
        let (reports, inbound) = mpsc::channel(2 * BATCH);
        Self { shared, accepted, inbound, reports, links: HashMap::new(), tasks }
    }

    /// Runs until it is told to quit or aborted: a speaker that stops says nothing. Told to, it ends after its sockets are closed.
    pub(super) async fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        loop {
            let deadline = self.turn();
            tokio::select! {
                Some((stream, from)) = self.accepted.recv() => self.accept(stream, from),
                Some((connection, report)) = self.inbound.recv() => self.take(connection, report),
                Some(_) = self.tasks.join_next() => {}
                () = shared.work.notified() => {}
                () = shared.quit.notified() => return self.tasks.shutdown().await,
                () = shared.clock.sleep_until(deadline) => {}
            }
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

    fn accept(&mut self, stream: TcpStream, from: IpAddr) {
        let now = self.shared.clock.now();
        let Some(connection) = self.shared.speaker().handle_accepted(now, from.into()) else {
            tracing::debug!(peer = %from, "refused a BGP connection: not a configured peer, or held down");
            return;
        };
        let (link, task) = link(connection, self.reports.clone());
        self.links.insert(connection, link);
        self.tasks.spawn(task.run(stream));
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
            Action::Connect { connection, peer, port, source } => {
                let (link, task) = link(connection, self.reports.clone());
                self.links.insert(connection, link);
                self.tasks.spawn(task.connect(source, SocketAddr::new(peer.address, port)));
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
