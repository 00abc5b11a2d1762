//! What the agent learns beside the datastore: facts that somebody else watches.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use super::{Agent, DRAIN};

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
}

impl Default for Facts {
    fn default() -> Self {
        let (sender, receiver) = mpsc::channel(64);
        Self { sender, receiver, wanted_secrets: watch::channel(BTreeSet::new()).0 }
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
        let changes = self.pipeline.handle_facts(facts);
        self.take_changes(changes);
        self.apply_bgp().await;
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
