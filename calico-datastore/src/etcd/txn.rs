//! Batches as transactions, in upstream's form: compare, then put or delete, else read what is there.

use std::sync::Arc;
use std::time::Duration;

use calico_core::resource::ResourceKey;
use etcd_client::{
    Client, Compare, CompareOp, DeleteOptions, GetOptions, KeyValue, PutOptions, Txn, TxnOp, TxnOpResponse, TxnResponse,
};

use super::error::unavailable;
use super::{LARGEST_MESSAGE, decode, from_etcd, to_etcd, within};
use crate::key::{self, PathRange};
use crate::{Batch, Change, Committed, DatastoreError, Precondition, Revision, Scope, Write, document};

/// A batch, encoded.
pub(super) struct Plan {
    steps: Vec<Step>,
}

struct Step {
    key: ResourceKey,
    path: String,
    precondition: Precondition,
    /// Where nothing may be newer, and than what.
    guard: Option<(PathRange, Revision)>,
    /// Value and life time; `None` deletes.
    put: Option<(Vec<u8>, Option<Duration>)>,
}

impl Plan {
    pub(super) fn new(batch: &Batch) -> Result<Self, DatastoreError> {
        Ok(Self { steps: batch.writes.iter().map(Step::new).collect::<Result<_, _>>()? })
    }

    /// The transaction; `leases` has one entry per step.
    fn txn(&self, leases: &[Option<i64>]) -> Txn {
        let compares: Vec<_> = self.steps.iter().filter_map(Step::compare).collect();
        let guards = self.steps.iter().filter_map(Step::look_for_newer);
        let then: Vec<_> = self.steps.iter().zip(leases).map(|(step, lease)| step.then(*lease)).collect();
        let or_else: Vec<_> =
            self.steps.iter().map(|step| TxnOp::get(step.path.as_str(), None)).chain(guards).collect();
        Txn::new().when(compares).and_then(then).or_else(or_else)
    }

    fn committed(&self, answer: &TxnResponse) -> Vec<Committed> {
        let revision = from_etcd(answer.header().map_or(0, etcd_client::ResponseHeader::revision));
        let committed = |(step, one): (&Step, TxnOpResponse)| {
            let previous = match one {
                TxnOpResponse::Delete(deleted) => deleted.prev_kvs().first().and_then(|pair| step.readable(pair)),
                _ => None,
            };
            Committed { revision, previous: previous.map(Box::new) }
        };
        self.steps.iter().zip(answer.op_responses()).map(committed).collect()
    }

    /// Which precondition failed first.
    fn refusal(&self, answer: &TxnResponse) -> DatastoreError {
        let mut answers = answer.op_responses();
        let mut guards = answers.split_off(self.steps.len().min(answers.len())).into_iter();
        for (step, one) in self.steps.iter().zip(answers) {
            let is_newer = step.guard.is_some()
                && matches!(guards.next(), Some(TxnOpResponse::Get(newer)) if !newer.kvs().is_empty());
            let TxnOpResponse::Get(found) = one else { continue };
            let pair = found.kvs().first();
            let present = pair.map(|pair| from_etcd(pair.mod_revision()));
            if let Err(refusal) = step.precondition.admit(present, is_newer) {
                return refusal.into_error(&step.key, pair.and_then(|pair| step.readable(pair)));
            }
        }
        // The comparison and the reads are one transaction, so this needs a server that contradicts itself.
        unavailable("commit".to_owned(), Some("it refused without a reason".into()))
    }
}

impl Step {
    fn new(write: &Write) -> Result<Self, DatastoreError> {
        let put = match &write.change {
            Change::Delete => None,
            Change::Put { resource, base, ttl } => {
                Some((document::to_bytes(&document::encode(resource, base.as_deref())), *ttl))
            }
        };
        let path = key::path(&write.key)?;
        let guard = match write.precondition.guard() {
            Some((kind, than)) => Some((key::range(&Scope::Kind(kind))?, than)),
            None => None,
        };
        Ok(Self { key: write.key.clone(), path, precondition: write.precondition, guard, put })
    }

    fn compare(&self) -> Option<Compare> {
        let path = self.path.as_str();
        match self.precondition {
            Precondition::Absent => Some(Compare::version(path, CompareOp::Equal, 0)),
            // etcd says that an absent key was changed at revision zero; nothing that is there was.
            Precondition::At(revision) if revision.raw() == 0 => Some(Compare::version(path, CompareOp::Less, 0)),
            Precondition::At(revision) => Some(Compare::mod_revision(path, CompareOp::Equal, to_etcd(revision))),
            Precondition::Present => Some(Compare::version(path, CompareOp::Greater, 0)),
            // etcd compares every key of the range; none is as good as one of revision zero.
            Precondition::NothingNewerIn(..) => self.guard.as_ref().map(|(range, than)| {
                let newest = to_etcd(*than).saturating_add(1);
                Compare::mod_revision(range.start.as_str(), CompareOp::Less, newest).with_range(range.end.as_str())
            }),
            Precondition::None => None,
        }
    }

    /// Reads one key that is newer than the guard allows, if there is one.
    fn look_for_newer(&self) -> Option<TxnOp> {
        let (range, than) = self.guard.as_ref()?;
        let options = GetOptions::new()
            .with_range(range.end.as_str())
            .with_min_mod_revision(to_etcd(*than).saturating_add(1))
            .with_limit(1)
            .with_keys_only();
        Some(TxnOp::get(range.start.as_str(), Some(options)))
    }

    fn then(&self, lease: Option<i64>) -> TxnOp {
        match &self.put {
            Some((value, _)) => {
                let options = lease.map(|lease| PutOptions::new().with_lease(lease));
                TxnOp::put(self.path.as_str(), value.as_slice(), options)
            }
            None => TxnOp::delete(self.path.as_str(), Some(DeleteOptions::new().with_prev_key())),
        }
    }

    fn readable(&self, pair: &KeyValue) -> Option<crate::Stored> {
        decode(self.key.clone(), pair).ok()
    }

    /// Whole seconds of life, at least one: etcd's unit.
    fn life(&self) -> Option<i64> {
        let (_, ttl) = self.put.as_ref()?;
        ttl.map(|ttl| i64::try_from(ttl.as_secs().max(1)).unwrap_or(i64::MAX))
    }
}

/// Carries out a batch: leases first, then everything in one transaction.
pub(super) async fn carry_out(client: Client, plan: Arc<Plan>) -> Result<Vec<Committed>, DatastoreError> {
    let mut lease_client = client.lease_client();
    let mut leases = Vec::with_capacity(plan.steps.len());
    for step in &plan.steps {
        leases.push(match step.life() {
            // One lease for each write, as upstream: it is never kept alive, so sharing would couple what is not.
            Some(seconds) => Some(within("grant a lease", lease_client.grant(seconds, None)).await?.id()),
            None => None,
        });
    }
    let mut kv = client.kv_client().max_decoding_message_size(LARGEST_MESSAGE);
    let answer = within("commit", kv.txn(plan.txn(&leases))).await?;
    if answer.succeeded() {
        return Ok(plan.committed(&answer));
    }
    for lease in leases.into_iter().flatten() {
        // Unused, it ends by itself: revoking only tidies up.
        let _ = within("revoke a lease", lease_client.revoke(lease)).await;
    }
    Err(plan.refusal(&answer))
}
