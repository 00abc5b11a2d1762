//! Keeps this host registered for as long as its agent runs.
//!
//! In come what a [`Registration`] meets at the datastore and what the agent sees of the host's own Node; out go tries to register, and
//! what is in the way of them, for the log and the status.
//!
//! A datastore that is away and a record that cannot be read are waited for: the agent goes on enforcing, and each change of the record
//! is a reason to try at once. Settings that cannot work end the agent at its start, where somebody looks; later they are told. A Node
//! that somebody deletes is made again. Whoever means it may take the host out of service by stopping the agent; if not, two programs
//! disagree, so each time that it is deleted again we wait longer before we contradict. What the cluster lacks besides the Node is tried
//! again by itself.

use std::time::Duration;

use calico_cmd::output::chain;
use calico_datastore::client::Client;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tracing::{debug, info, warn};

use super::register::{Outcome, RegisterError, Registration};
use crate::agent::OwnNode;

/// First pause after registering failed; it doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// Longest pause between two tries where the datastore did not answer.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// The same where it answered: somebody has to mend an object, and if that is our Node we are told.
const LONGEST_BAD: Duration = Duration::from_secs(60);
/// Between the first deletion of our Node and our making it again; it doubles up to the longest.
const FIRST_AGAIN: Duration = Duration::from_secs(10);
/// Longest such pause.
const LONGEST_AGAIN: Duration = Duration::from_secs(3600);
/// A Node that stood for so long was deleted for a new reason.
const STOOD: Duration = Duration::from_secs(3600);
/// How long the datastore may take to tell of a Node that we have just written.
const ECHO: Duration = Duration::from_secs(30);

/// See the module.
pub(crate) struct Registrar {
    registration: Registration,
    client: Client,
    own_node: watch::Receiver<OwnNode>,
    /// What is in the way, for the status.
    remark: watch::Sender<Option<String>>,
    /// What became of the rest of the registration at the last try.
    cluster: Result<(), RegisterError>,
}

impl Registrar {
    /// With what an [`Agent`](crate::agent::Agent) sees of its Node, and where it is told what is in the way.
    pub(crate) const fn new(
        registration: Registration,
        client: Client,
        own_node: watch::Receiver<OwnNode>,
        remark: watch::Sender<Option<String>>,
    ) -> Self {
        Self { registration, client, own_node, remark, cluster: Ok(()) }
    }

    /// Registers, and registers again, for ever. Ends only at the first time, with what is for whoever set this host up.
    pub(crate) async fn run(mut self) -> RegisterError {
        if let Err(error) = self.register(RegisterError::is_ours).await {
            return error;
        }
        let mut contradiction = Contradiction::default();
        loop {
            let made_after = match self.stand().await {
                OwnNode::Absent => self.make_again(&contradiction).await,
                _ => self.complete().await.then_some(FIRST_AGAIN),
            };
            if let Some(pause) = made_after {
                contradiction.made(Instant::now(), pause);
            }
        }
    }

    /// Until our Node is gone, or is back after it could not be read: whoever mended it need not know its address. Meanwhile what else
    /// could not be done is tried again, and only that: a Node that somebody deletes is not made again by the way.
    async fn stand(&mut self) -> OwnNode {
        let mut was_unreadable = false;
        let mut is_over = |node| {
            was_unreadable |= node == OwnNode::Unreadable;
            node == OwnNode::Absent || was_unreadable && node == OwnNode::Present
        };
        let (mut pause, mut told) = (FIRST_PAUSE, String::new());
        while let Err(error) = &self.cluster {
            let text = format!("this host is registered, but: {}", chain(error));
            let longest = longest(error);
            self.tell(&mut told, text, longest);
            if let Ok(node) = timeout(pause, seen(&mut self.own_node, &mut is_over)).await {
                return node;
            }
            pause = (pause * 2).min(longest);
            if *self.own_node.borrow() != OwnNode::Unknown {
                self.cluster = self.registration.prepare(&self.client).await;
            }
        }
        self.remark.send_replace(None);
        seen(&mut self.own_node, is_over).await
    }

    /// Makes our Node again after a pause, unless it is there by then; answers with the pause if it was made.
    async fn make_again(&mut self, contradiction: &Contradiction) -> Option<Duration> {
        let pause = contradiction.pause(Instant::now());
        let node = &self.registration.node;
        warn!(node, again_in = ?pause, "somebody deleted this host's Node: it is registered again, unless it is there by then");
        self.remark.send_replace(Some(format!(
            "somebody deleted Node({node}): it is made again {} s after that, and later each time; to take the host out of service, \
             stop its agent first",
            pause.as_secs()
        )));
        let is_back = timeout(pause, seen(&mut self.own_node, |node| node != OwnNode::Absent)).await.is_ok();
        (!is_back && self.register(|_| false).await.is_ok_and(|is_new| is_new)).then_some(pause)
    }

    /// Gives our Node what it lacks. One that is deleted before that is not made here, for there is no pause.
    async fn complete(&mut self) -> bool {
        let mut own_node = self.own_node.clone();
        tokio::select! {
            biased;
            _ = seen(&mut own_node, |node| node == OwnNode::Absent) => false,
            is_new = self.register(|_| false) => is_new.is_ok_and(|is_new| is_new),
        }
    }

    /// Registers this host, however long that takes; answers whether its Node was missing. Fails with what is `fatal`.
    async fn register(&mut self, fatal: fn(&RegisterError) -> bool) -> Result<bool, RegisterError> {
        let mut pause = FIRST_PAUSE;
        let mut told = String::new();
        loop {
            let error = match self.registration.carry_out(&self.client).await {
                Outcome { node: Err(error), .. } | Outcome { cluster: Err(error), .. } if fatal(&error) => {
                    return Err(error);
                }
                Outcome { node: Err(error), cluster } => {
                    self.cluster = cluster;
                    error
                }
                Outcome { node: Ok(is_new), cluster } => {
                    self.cluster = cluster;
                    if !told.is_empty() {
                        info!("this host is registered now");
                    }
                    self.remark.send_replace(None);
                    // Our own picture of it may be older than what was just read or written.
                    let _late = timeout(ECHO, seen(&mut self.own_node, |node| node != OwnNode::Absent)).await;
                    return Ok(is_new);
                }
            };
            let besides = self.cluster.as_ref().err().map(|besides| format!(", and: {}", chain(besides)));
            let text = format!("this host is not registered: {}{}", chain(&error), besides.unwrap_or_default());
            let longest = longest(&error);
            self.tell(&mut told, text, longest);
            let _changed = timeout(pause, self.change()).await;
            pause = (pause * 2).min(longest);
        }
    }

    /// Says what is in the way, and in the log only once that it is so.
    fn tell(&self, told: &mut String, text: String, longest: Duration) {
        if *told == text {
            debug!(text, "as before");
            return;
        }
        warn!("{text}; what can be enforced is");
        self.remark.send_replace(Some(format!("{text}; tried again every {} s", longest.as_secs())));
        *told = text;
    }

    async fn change(&mut self) {
        if self.own_node.changed().await.is_err() {
            std::future::pending().await
        }
    }
}

/// Longest pause before the next try after an error.
const fn longest(error: &RegisterError) -> Duration {
    if error.is_retryable() { LONGEST_PAUSE } else { LONGEST_BAD }
}

/// Waits until our Node is seen so.
async fn seen(own_node: &mut watch::Receiver<OwnNode>, mut wanted: impl FnMut(OwnNode) -> bool) -> OwnNode {
    let known = own_node.wait_for(|node| wanted(*node)).await.map(|node| *node);
    match known {
        Ok(node) => node,
        // The agent is stopping.
        Err(_) => std::future::pending().await,
    }
}

/// How long to wait before contradicting whoever deletes our Node.
#[derive(Debug, Default)]
struct Contradiction {
    /// The last time, and the pause before it.
    last: Option<(Instant, Duration)>,
}

impl Contradiction {
    /// The pause after a deletion that was just seen.
    fn pause(&self, now: Instant) -> Duration {
        match self.last {
            Some((made, pause)) if now.duration_since(made) < STOOD => (pause * 2).min(LONGEST_AGAIN),
            _ => FIRST_AGAIN,
        }
    }

    /// The Node was made again, after that pause.
    const fn made(&mut self, now: Instant, pause: Duration) {
        self.last = Some((now, pause));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_contradiction_comes_later_than_the_last_unless_the_node_stood() {
        let mut contradiction = Contradiction::default();
        let mut now = Instant::now();
        let mut pauses = Vec::new();
        for _ in 0..12 {
            let pause = contradiction.pause(now);
            pauses.push(pause.as_secs());
            now += pause;
            contradiction.made(now, pause);
            now += Duration::from_secs(5);
        }
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600, 3600]);
        assert_eq!(contradiction.pause(now + STOOD), FIRST_AGAIN);
    }
}
