//! The task that moves datagrams and time between the machine and the operating system.

use std::sync::Arc;

use super::Shared;
use super::receiver::{KINDS, Receiver};
use super::sender::Senders;

/// Datagrams taken from each socket before time is looked at: more than all sessions of a host send meanwhile, and little enough that a flood
/// does not stop the clock.
const BATCH: usize = 512;

/// Runs until it is aborted.
pub(super) async fn drive(shared: Arc<Shared>) {
    let mut senders = Senders::default();
    loop {
        let receivers = KINDS.map(|kind| shared.receivers().of(kind));
        turn(&shared, &receivers, &mut senders);
        let deadline = shared.bfd().poll_timeout();
        let [first, second, third, fourth] = &receivers;
        tokio::select! {
            () = shared.work.notified() => {}
            () = readable(first) => {}
            () = readable(second) => {}
            () = readable(third) => {}
            () = readable(fourth) => {}
            () = shared.clock.sleep_until(deadline) => {}
        }
    }
}

/// What came first, then what time it is: see [`Bfd`](crate::bfd::Bfd).
fn turn(shared: &Shared, receivers: &[Option<Receiver>], senders: &mut Senders) {
    let now = shared.clock.now();
    let mut bfd = shared.bfd();
    for receiver in receivers.iter().flatten() {
        receiver.drain(BATCH, |received| bfd.handle_packet(now, received));
    }
    bfd.handle_timeout(now);
    while let Some(session) = bfd.poll_closed() {
        senders.close(session);
    }
    while let Some(transmit) = bfd.poll_transmit() {
        if let Err(error) = senders.send(&transmit) {
            tracing::debug!(peer = %transmit.to, %error, "cannot send a BFD packet");
            bfd.handle_unsent(transmit.session);
        }
    }
    drop(bfd);
    shared.events.notify_one();
}

async fn readable(receiver: &Option<Receiver>) {
    match receiver {
        // An error is found again, and told, by whoever reads.
        Some(receiver) => drop(receiver.readable().await),
        None => core::future::pending().await,
    }
}
