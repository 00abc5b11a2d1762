//! What the agent knows of itself: contact with the datastore, what cannot be used, how endpoints stand.

use std::collections::{BTreeMap, BTreeSet};

use calico_bgp::{BgpBackend, BgpStatus, PeerStatus, SessionState};
use calico_cmd::control::{Attachment, DatastoreState, NodeStatus};
use calico_core::calc::event::{ActiveEndpoint, EndpointId};
use calico_core::resource::{Kind, ResourceKey};
use calico_core::update::{SyncStatus, Update};
use calico_dataplane::reconcile::{Object, Reconciler, WorkloadState};
use calico_datastore::sync::Diagnostic;
use calico_datastore::{Clock, SystemClock};
use tokio::time::{Duration, Instant};
use tracing::{debug, info, warn};

use super::bgp_reports;
use super::pipeline::Pipeline;
use super::waits::Standing;

/// What the datastore has of this host's own Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OwnNode {
    /// Nobody knows: the datastore has not been in sync yet, or is locked.
    Unknown,
    /// It is there.
    Present,
    /// It is not there: the other nodes do not know this host.
    Absent,
    /// It is there and cannot be read, which is the same for the other nodes.
    Unreadable,
}

/// See the module.
#[derive(Debug)]
pub(super) struct State {
    node: String,
    own_key: ResourceKey,
    /// Whether the datastore has this host's Node, in a form that can be read.
    has_own_node: bool,
    pub(super) start: Instant,
    pub(super) sync: SyncStatus,
    /// Set with the first in-sync and never reset: from then on the picture is enforced, contact or not.
    pub(super) seen_in_sync: bool,
    seen_enforced: bool,
    faults: BTreeMap<ResourceKey, String>,
    unavailable: Option<Unavailable>,
    /// The datastore is locked; so many objects have changed since.
    locked: Option<usize>,
    /// What somebody else keeps changing: a few objects by name, and how many others.
    fought_over: (BTreeSet<Object>, usize),
    /// What the kernel holds is being read since then.
    pub(super) looking_since: Option<Instant>,
    /// When the speaker took a configuration last, in seconds since 1970.
    pub(super) bgp_configured: Option<u64>,
}

/// The datastore does not answer, or does not say what changes.
#[derive(Debug)]
struct Unavailable {
    reason: String,
    /// In sync, it counts until then unless it is said again. A store that can be listed and not watched stays in sync, and nobody
    /// says when it can be watched again.
    until: Instant,
}

/// How long a try that follows the pause may take before it says that it failed too.
const TRY: Duration = Duration::from_secs(15);

impl State {
    pub(super) fn new(node: String, start: Instant) -> Self {
        Self {
            own_key: ResourceKey::cluster(Kind::Node, &node),
            has_own_node: false,
            node,
            start,
            sync: SyncStatus::WaitForDatastore,
            seen_in_sync: false,
            seen_enforced: false,
            faults: BTreeMap::new(),
            unavailable: None,
            locked: None,
            fought_over: (BTreeSet::new(), 0),
            looking_since: None,
            bgp_configured: None,
        }
    }

    /// Takes note of how far the datastore's picture is complete.
    pub(super) fn note_status(&mut self, status: SyncStatus) {
        if status == SyncStatus::InSync && self.sync != SyncStatus::InSync {
            self.unavailable = None;
        }
        self.sync = status;
    }

    /// Takes note of whether the datastore is locked, and how many changed objects wait for its end.
    pub(super) fn note_lock(&mut self, locked: Option<usize>) {
        match (self.locked, locked) {
            (None, Some(_)) => {
                warn!("{LOCKED}: what is enforced stays enforced, and no change is taken until it is unlocked")
            }
            (Some(_), None) => info!("datastore unlocked"),
            _ => {}
        }
        self.locked = locked;
    }

    /// Takes note of this host's own Node.
    pub(super) fn note_own_node(&mut self, updates: &[Update]) {
        if let Some(update) = updates.iter().rfind(|update| update.key == self.own_key) {
            self.has_own_node = update.value.is_some();
        }
    }

    pub(super) fn own_node(&self) -> OwnNode {
        match (self.seen_in_sync && self.locked.is_none(), self.faults.contains_key(&self.own_key), self.has_own_node) {
            (false, ..) => OwnNode::Unknown,
            (true, true, _) => OwnNode::Unreadable,
            (true, false, true) => OwnNode::Present,
            (true, false, false) => OwnNode::Absent,
        }
    }

    fn unavailable(&self, now: Instant) -> Option<&String> {
        let counts = |unavailable: &&Unavailable| self.sync != SyncStatus::InSync || now < unavailable.until;
        self.unavailable.as_ref().filter(counts).map(|unavailable| &unavailable.reason)
    }

    pub(super) fn note_diagnostic(&mut self, diagnostic: Diagnostic, now: Instant) {
        match diagnostic {
            Diagnostic::BadObject(bad) => {
                warn!(object = %bad.key, reason = %bad.reason, "stored object cannot be used and counts as absent");
                self.faults.insert(bad.key, bad.reason);
            }
            Diagnostic::Mended(key) => {
                info!(object = %key, "stored object can be used again, or is gone");
                self.faults.remove(&key);
            }
            Diagnostic::Unavailable { reason, retry_in } => {
                // Every scope says so at every try; once is enough until it is another reason, or contact again.
                let known = self.unavailable(now).is_some_and(|known| *known == reason);
                if known {
                    debug!(%reason, ?retry_in, "datastore still does not answer");
                } else {
                    warn!(%reason, ?retry_in, "datastore does not answer; what is enforced stays enforced");
                }
                self.unavailable = Some(Unavailable { reason, until: now + retry_in + TRY });
            }
            other => warn!(?other, "datastore"),
        }
    }

    /// Takes note of how far the host is.
    pub(super) fn follow(&mut self, host: &Reconciler, now: Instant) {
        let mut objects = host.fought_over(now.duration_since(self.start));
        let named: BTreeSet<Object> = objects.by_ref().take(NAMED).cloned().collect();
        let others = objects.count();
        for object in named.difference(&self.fought_over.0) {
            warn!(%object, others, "somebody else keeps changing this in the kernel, and we keep making it right: find out who");
        }
        if named.is_empty() && self.is_fighting() {
            info!("nobody else keeps changing what is ours in the kernel any more");
        }
        self.fought_over = (named, others);
        self.seen_enforced |= host.is_carried_out();
    }

    /// Ready once the datastore has been in sync and the kernel has got all that it takes; what is missing, otherwise. One endpoint
    /// without its interface, or one object that the kernel refuses, does not keep the host from being ready.
    pub(super) fn readiness(&self) -> (bool, String) {
        let missing = match (self.seen_in_sync, self.seen_enforced) {
            (false, _) if self.locked.is_some() => format!("{LOCKED}: nothing is changed until it is unlocked"),
            (false, _) => self
                .unavailable
                .as_ref()
                .map_or_else(|| "the datastore is not in sync yet".into(), |known| known.reason.clone()),
            (true, false) => "the kernel does not hold everything yet".into(),
            (true, true) => String::new(),
        };
        (missing.is_empty(), missing)
    }

    /// An attachment, if one is given, is the one that must stand.
    pub(super) fn standing(
        &self,
        endpoint: &EndpointId,
        attachment: Option<&Attachment>,
        pipeline: &Pipeline,
        host: &Reconciler,
    ) -> Standing {
        let Some(active) = pipeline.active().endpoints.get(endpoint) else {
            return match (self.seen_in_sync, host.is_rid_of_the_unwanted()) {
                (true, true) => Standing::Gone,
                (true, false) => {
                    Standing::Between("the kernel still holds something that is not wanted any more".into())
                }
                (false, _) => Standing::Between("the agent is not in sync with the datastore yet".into()),
            };
        };
        if !self.seen_in_sync {
            return Standing::Between("the agent is not in sync with the datastore yet".into());
        }
        if attachment.is_some_and(|attachment| !is_attached(active, attachment)) {
            return Standing::Between("this node has seen an earlier attachment of it only".into());
        }
        match host.workload_state(active.interface) {
            WorkloadState::Programmed => Standing::Enforced,
            WorkloadState::Waiting { reasons } => Standing::Between(reasons.join("; ")),
            _ => Standing::Between("its policy is not in the kernel yet".into()),
        }
    }

    pub(super) fn report(
        &self,
        pipeline: &Pipeline,
        host: &Reconciler,
        bgp: Option<&dyn BgpBackend>,
        now: Instant,
    ) -> NodeStatus {
        let faults = self.faults.iter().map(|(key, reason)| format!("{key}: {reason}"));
        let failures = host.failures().map(|(object, reason)| format!("{object}: {reason}"));
        let wall = SystemClock.now();
        let (endpoint_problems, endpoints_with_problems) = pipeline.endpoint_problems(&self.faults);
        NodeStatus {
            node: self.node.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            uptime_ms: u64::try_from(now.duration_since(self.start).as_millis()).unwrap_or(u64::MAX),
            datastore: match self.sync {
                SyncStatus::WaitForDatastore => DatastoreState::Waiting,
                SyncStatus::Resync => DatastoreState::Resync,
                SyncStatus::InSync => DatastoreState::InSync,
            },
            endpoints: pipeline.active().endpoints.len(),
            host_endpoints: pipeline.active().host_endpoints.len(),
            policies: pipeline.policies(),
            ip_sets: pipeline.active().sets.len(),
            dataplane_in_sync: host.is_settled(),
            dataplane_error: Some(failures.collect::<Vec<_>>().join("\n")).filter(|text| !text.is_empty()),
            datastore_error: self.unavailable(now).cloned(),
            diagnostics: faults.chain(pipeline.diagnostics()).collect(),
            endpoint_problems,
            endpoints_with_problems,
            notices: self.notices(host, bgp).into_iter().chain(self.look(now)).collect(),
            bgp_backend: bgp.map(|bgp| bgp.name().to_owned()),
            bgp_identifier: pipeline.bgp_identifier(),
            bgp_configured: self.bgp_configured,
            bgp: bgp
                .map(|bgp| bgp.status().peers.iter().map(|status| bgp_reports::peer(status, wall)).collect())
                .unwrap_or_default(),
            bgp_routes: pipeline.bgp_routes(),
        }
    }

    /// That what the kernel holds is being read: nothing is written meanwhile.
    fn look(&self, now: Instant) -> Option<String> {
        let seconds = now.duration_since(self.looking_since?).as_secs();
        Some(format!(
            "reading what the kernel holds, for {seconds} s now: what was enforced stays so, and changes wait for it"
        ))
    }

    /// Whether somebody else keeps changing what is ours.
    pub(super) fn is_fighting(&self) -> bool {
        !self.fought_over.0.is_empty()
    }

    fn notices(&self, host: &Reconciler, bgp: Option<&dyn BgpBackend>) -> Vec<String> {
        let stale = if self.seen_in_sync { host.stale_routes() } else { 0 };
        let BgpStatus { peers, problem, .. } = bgp.map(BgpBackend::status).unwrap_or_default();
        let lacking = problem.map(|problem| format!("BGP: {problem}; sessions that do not need it are up"));
        let (named, others) = &self.fought_over;
        let fights = named.iter().map(|object| {
            format!("{object}: somebody else keeps changing it, and it is made right again each time; find out who")
        });
        let more = (*others > 0).then(|| format!("{others} other objects: as above"));
        let locked = self.locked.map(|changed| {
            format!("{LOCKED}: what is enforced stays enforced; {changed} changed objects wait for it to be unlocked")
        });
        let stale = (stale > 0).then(|| stale_routes(stale, &peers));
        let unpoliced = self.faults.keys().filter(|key| key.kind() == Kind::HostEndpoint).map(|key| {
            format!(
                "{key} cannot be read: if it is this host's, the interface that it means is open until it is mended"
            )
        });
        let whole = locked.into_iter().chain(self.unknown_to_others()).chain(unpoliced);
        whole.chain(lacking).chain(stale).chain(fights).chain(more).collect()
    }

    /// What it means that this host's own Node is missing.
    fn unknown_to_others(&self) -> Option<String> {
        let what = match self.own_node() {
            OwnNode::Absent => "is not stored",
            OwnNode::Unreadable => "cannot be read (mend it where it was written, or delete it: it is made anew)",
            OwnNode::Present | OwnNode::Unknown => return None,
        };
        let key = &self.own_key;
        Some(format!(
            "{key}, this host's own, {what}: no other node knows it, and BGP has no address; policy is enforced"
        ))
    }
}

/// Why routes that nobody announces are still there: graceful restart, and for whom it waits.
fn stale_routes(stale: usize, peers: &[PeerStatus]) -> String {
    let away = peers.iter().filter(|peer| peer.state != SessionState::Established);
    let names: Vec<&str> = away.map(|peer| peer.peer.name.as_str()).collect();
    let whom = match names.as_slice() {
        [] => "its peers have announced theirs".into(),
        [names @ .., last] if names.len() < NAMED => {
            let names = names.iter().map(|name| format!("{name}, ")).collect::<String>();
            format!("{names}{last} can be reached")
        }
        [first, ..] => format!("{first} and {} other peers can be reached", names.len() - 1),
    };
    format!("BGP: {stale} learned routes of an earlier life stay in use until {whom}, or their restart time is over")
}

/// What is going on, and who did it.
const LOCKED: &str = "datastore locked (calicoctl datastore migrate lock)";
/// Most things of a kind to name one by one.
const NAMED: usize = 3;

fn is_attached(active: &ActiveEndpoint, attachment: &Attachment) -> bool {
    active.interface == attachment.interface
        && active.addresses == attachment.addresses
        && (attachment.mac.is_none() || active.mac == attachment.mac)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn unavailable(reason: &str) -> Diagnostic {
        Diagnostic::Unavailable { reason: reason.into(), retry_in: Duration::from_secs(1) }
    }

    /// Listings go on, so the state stays in sync; each try to watch says that it failed.
    #[test]
    fn a_store_that_cannot_be_watched_shows_until_it_can() {
        let start = Instant::now();
        let mut state = State::new("a".into(), start);
        state.note_status(SyncStatus::InSync);
        for second in 0..60 {
            let now = start + Duration::from_secs(second);
            state.note_diagnostic(unavailable("no watch"), now);
            state.note_status(SyncStatus::InSync);
            assert_eq!(state.unavailable(now).map(String::as_str), Some("no watch"));
        }
        assert_eq!(state.unavailable(start + Duration::from_secs(120)), None, "nobody says so any more");
    }

    #[test]
    fn a_store_that_is_away_shows_until_it_answers() {
        let start = Instant::now();
        let mut state = State::new("a".into(), start);
        state.note_diagnostic(unavailable("away"), start);
        assert!(state.unavailable(start + Duration::from_secs(3600)).is_some());
        state.note_status(SyncStatus::InSync);
        assert_eq!(state.unavailable(start), None);
    }
    /// What it means may be open, so it is not only listed among all else that is at fault.
    #[test]
    fn a_host_endpoint_that_cannot_be_read_is_told_apart() {
        let start = Instant::now();
        let mut state = State::new("a".into(), start);
        let host = Reconciler::new(
            calico_core::table::Delta::default(),
            calico_dataplane::reconcile::ReconcileConfig::default(),
        );
        let bad = |kind| calico_datastore::BadObject {
            key: ResourceKey::cluster(kind, "uplink"),
            revision: calico_datastore::Revision::from_raw(1),
            reason: "spec: no mapping".into(),
            remains: None,
            text: Arc::default(),
        };
        state.note_diagnostic(Diagnostic::BadObject(bad(Kind::IpPool)), start);
        assert!(state.notices(&host, None).is_empty());
        state.note_diagnostic(Diagnostic::BadObject(bad(Kind::HostEndpoint)), start);
        let told = state.notices(&host, None);
        assert!(told.len() == 1 && told[0].starts_with("HostEndpoint(uplink) cannot be read"), "{told:?}");
        state.note_diagnostic(Diagnostic::Mended(ResourceKey::cluster(Kind::HostEndpoint, "uplink")), start);
        assert!(state.notices(&host, None).is_empty());
    }
}
