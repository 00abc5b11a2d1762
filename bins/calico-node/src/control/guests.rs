//! Who holds a connection to the control socket, and who must leave when a newcomer needs the place.
//!
//! In come newcomers and who has nothing to ask at this moment; out go places, and the word to leave. Whoever waits for an answer is
//! never sent away.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};

/// The connections of one socket.
#[derive(Debug)]
pub(super) struct Guests {
    places: Arc<Semaphore>,
    idle: Mutex<Queue>,
    /// Somebody became idle.
    news: Notify,
}

/// The idle ones in the order in which they became so.
#[derive(Debug, Default)]
struct Queue {
    next: u64,
    waiting: BTreeMap<u64, oneshot::Sender<()>>,
}

/// Being idle; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Idle<'a> {
    guests: &'a Guests,
    number: u64,
    leave: oneshot::Receiver<()>,
}

impl Guests {
    pub(super) fn new(places: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(places)), idle: Mutex::default(), news: Notify::new() }
    }

    /// A place for a newcomer. When there is none, the longest idle makes room, be it at once or when there is one.
    pub(super) async fn admit(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Some(place);
        }
        let place = Arc::clone(&self.places).acquire_owned();
        tokio::pin!(place);
        let mut sent_away = false;
        loop {
            // One newcomer needs one place, however long the other takes to leave.
            sent_away = sent_away || self.send_longest_idle_away();
            tokio::select! {
                biased;
                place = &mut place => return place.ok(),
                () = self.news.notified() => {}
            }
        }
    }

    /// To be held while there is nothing to ask.
    pub(super) fn idle(&self) -> Idle<'_> {
        let (sender, leave) = oneshot::channel();
        let mut queue = self.queue();
        let number = queue.next;
        queue.next += 1;
        queue.waiting.insert(number, sender);
        drop(queue);
        self.news.notify_one();
        Idle { guests: self, number, leave }
    }

    fn send_longest_idle_away(&self) -> bool {
        let longest = self.queue().waiting.pop_first();
        longest.is_some_and(|(_, leave)| leave.send(()).is_ok())
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Idle<'_> {
    /// Ready when somebody else needs the place.
    pub(super) async fn sent_away(&mut self) {
        // The other end is dropped together with this one only.
        let _ = (&mut self.leave).await;
    }
}

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        self.guests.queue().waiting.remove(&self.number);
    }
}
