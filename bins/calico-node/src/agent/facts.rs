//! What the agent learns beside the datastore: facts that somebody else watches.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::{Agent, DRAIN};

/// How long BGP's first configuration waits for secrets, in case nobody tells of them.
const PATIENCE: Duration = Duration::from_secs(5);

/// Something that somebody watches for the agent. The last word about each thing counts.
#[derive(Clone)]
#[non_exhaustive]
pub enum Fact {
    /// What a secret holds, by key; none if it does not exist. Passwords of BGP sessions are in secrets; the agent says which it wants
    /// ([`Agent::wanted_secrets`]), and keeps sessions down whose secret nobody has told of.
    Secret {
        /// Its name.
        name: Arc<str>,
        /// Its keys.
        value: Option<BTreeMap<String, String>>,
    },
}

impl fmt::Debug for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Secret { name, value } => {
                let keys = value.as_ref().map(|value| value.keys().collect::<Vec<_>>());
                f.debug_struct("Secret").field("name", name).field("keys", &keys).finish()
            }
        }
    }
}

/// Where facts come in, and which are wanted.
pub(super) struct Facts {
    pub(super) sender: mpsc::Sender<Fact>,
    pub(super) receiver: mpsc::Receiver<Fact>,
    pub(super) wanted_secrets: watch::Sender<BTreeSet<Arc<str>>>,
    /// Of which secrets anybody has told.
    told: BTreeSet<Arc<str>>,
    /// Until when the first configuration of BGP waits for secrets.
    patience: Option<Instant>,
    gave_up: bool,
}

impl Default for Facts {
    fn default() -> Self {
        let (sender, receiver) = mpsc::channel(64);
        let wanted_secrets = watch::channel(BTreeSet::new()).0;
        Self { sender, receiver, wanted_secrets, told: BTreeSet::new(), patience: None, gave_up: false }
    }
}

impl Agent {
    /// Where facts are told.
    pub fn facts(&self) -> mpsc::Sender<Fact> {
        self.facts.sender.clone()
    }

    /// Names of the secrets that BGP sessions of this host need, from now on.
    pub fn wanted_secrets(&self) -> watch::Receiver<BTreeSet<Arc<str>>> {
        self.facts.wanted_secrets.subscribe()
    }

    pub(super) async fn handle_facts(&mut self, first: Fact) {
        let mut facts = vec![first];
        while facts.len() < DRAIN
            && let Ok(fact) = self.facts.receiver.try_recv()
        {
            facts.push(fact);
        }
        self.facts.told.extend(facts.iter().map(|Fact::Secret { name, .. }| Arc::clone(name)));
        let changes = self.pipeline.handle_facts(facts);
        self.take_changes(changes);
        self.apply_bgp().await;
    }

    /// Until when BGP's first configuration waits, if it does. Sessions whose passwords are not known yet would be awaited by nobody, and routes of
    /// an earlier life would go although their peers are there.
    pub(super) fn waits_for_secrets(&mut self) -> Option<Instant> {
        let is_over = self.state.bgp_configured.is_some() || self.facts.gave_up;
        if is_over || self.facts.wanted_secrets.borrow().is_subset(&self.facts.told) {
            return None;
        }
        let until = *self.facts.patience.get_or_insert_with(|| Instant::now() + PATIENCE);
        self.facts.gave_up = until <= Instant::now();
        (!self.facts.gave_up).then_some(until)
    }

    /// Ends the wait once it has lasted long enough; when to look again, if it goes on.
    pub(super) async fn follow_patience(&mut self) -> Option<Instant> {
        let had_given_up = self.facts.gave_up;
        let until = if self.waiting_bgp.is_some() { self.waits_for_secrets() } else { None };
        if self.facts.gave_up && !had_given_up {
            self.apply_bgp().await;
        }
        until
    }

    /// Says which secrets are wanted, if those are others now.
    pub(super) fn publish_wants(&self) {
        let wanted = self.pipeline.wanted_secrets();
        self.facts.wanted_secrets.send_if_modified(|known| {
            let is_new = *known != wanted;
            *known = wanted;
            is_new
        });
    }
}
