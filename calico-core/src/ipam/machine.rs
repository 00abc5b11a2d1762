//! The sans-IO shell that all IPAM requests share.
//!
//! A request is a pure function of what it has seen of the store, its *picture*. Asked to decide, it names objects that it has
//! not seen yet, or the writes that carry it out, or its answer. The machine turns that into steps:
//!
//! 1. [`Machine::poll`] says what to do: an [`Op`], or the end. Polling again without an answer repeats the step.
//! 2. The driver carries the operation out and tells the outcome by [`Machine::handle_outcome`].
//!
//! After a conflict the picture is forgotten and the request decides anew, within a budget. Since every write is conditional on
//! what was seen, a machine may be abandoned, or run beside any number of others, at any step.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::op::{Fetched, Found, Op, Outcome, Query, Version, Write};
use super::{Block, IpamError};
use crate::net::Cidr;
use crate::resource::{Resource, ResourceKey};

/// Attempts per request, upstream's number.
const BUDGET: u32 = 100;

/// A request under way.
#[derive(Debug)]
pub struct Machine<R: Request> {
    request: R,
    picture: Picture,
    conflicts: u32,
    waiting: Option<Waiting<R::Output>>,
}

/// What to do next.
#[derive(Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a driver must handle both")]
pub enum Step<T> {
    /// Carry this out and report the outcome.
    Do(Op),
    /// The request is over. A failed request has written nothing.
    Done(Result<T, IpamError>),
}

/// A request that a [`Machine`] can carry out. Implemented by this module's request types only.
pub trait Request: sealed::Decide {}

impl<R: sealed::Decide> Request for R {}

pub(super) mod sealed {
    use super::{Halt, Picture, Verdict};

    /// The decision of a request, over what it has seen.
    pub trait Decide {
        /// What the caller gets.
        type Output: Clone + core::fmt::Debug;

        /// Decides, or says what is missing.
        fn decide(&self, picture: &Picture) -> Result<Verdict<Self::Output>, Halt>;
    }
}

/// A decision: the writes that make it true, none if it is so already, and the answer once they are done.
#[derive(Debug)]
pub struct Verdict<T> {
    pub(super) writes: Vec<Write>,
    pub(super) output: T,
}

/// Why there is no decision.
#[derive(Debug)]
pub enum Halt {
    /// These must be seen first.
    Need(Vec<Query>),
    /// There never will be one.
    Fail(IpamError),
}

impl From<IpamError> for Halt {
    fn from(error: IpamError) -> Self {
        Self::Fail(error)
    }
}

#[derive(Debug)]
struct Waiting<T> {
    op: Op,
    /// The answer once a commit took effect.
    output: Option<T>,
}

impl<R: Request> Machine<R> {
    /// Starts a request.
    pub const fn new(request: R) -> Self {
        Self { request, picture: Picture::EMPTY, conflicts: 0, waiting: None }
    }

    /// The next step.
    pub fn poll(&mut self) -> Step<R::Output> {
        if let Some(Waiting { op, .. }) = &self.waiting {
            return Step::Do(op.clone());
        }
        if self.conflicts >= BUDGET {
            return Step::Done(Err(IpamError::Contention { attempts: self.conflicts }));
        }
        let waiting = match self.request.decide(&self.picture) {
            Ok(Verdict { writes, output }) if writes.is_empty() => return Step::Done(Ok(output)),
            Ok(Verdict { writes, output }) => Waiting { op: Op::Commit(writes), output: Some(output) },
            Err(Halt::Need(queries)) => Waiting { op: Op::Fetch(queries), output: None },
            Err(Halt::Fail(error)) => return Step::Done(Err(error)),
        };
        let op = waiting.op.clone();
        self.waiting = Some(waiting);
        Step::Do(op)
    }

    /// Takes what came of the operation that [`poll`](Self::poll) asked for; answers with the result if that ends the request. An
    /// outcome that does not fit the operation is ignored: the next poll asks again.
    pub fn handle_outcome(&mut self, outcome: Outcome) -> Option<R::Output> {
        let waiting = self.waiting.take()?;
        match (outcome, waiting) {
            (Outcome::Fetched(answers), Waiting { op: Op::Fetch(_), .. }) => self.picture.add(answers),
            (Outcome::Committed, Waiting { op: Op::Commit(_), output }) => return output,
            (Outcome::Conflict, Waiting { op: Op::Commit(_), .. }) => {
                self.conflicts += 1;
                self.picture = Picture::EMPTY;
            }
            (_, waiting) => self.waiting = Some(waiting),
        }
        None
    }

    /// How often others wrote first, so far: a driver may pause before it goes on.
    pub const fn conflicts(&self) -> u32 {
        self.conflicts
    }
}

/// What a machine has seen of the store.
#[derive(Debug)]
pub struct Picture {
    objects: BTreeMap<ResourceKey, Found>,
    lists: BTreeMap<Query, BTreeSet<ResourceKey>>,
}

impl Picture {
    pub(super) const EMPTY: Self = Self { objects: BTreeMap::new(), lists: BTreeMap::new() };

    fn add(&mut self, answers: Vec<Fetched>) {
        for Fetched { query, found } in answers {
            match &query {
                // A driver that answers a read with no entry would be asked for ever.
                Query::Object(key) if found.is_empty() => drop(self.objects.insert(key.clone(), Found::Absent)),
                Query::Object(_) => {}
                _ => drop(self.lists.insert(query, found.iter().map(|(key, _)| key.clone()).collect())),
            }
            self.objects.extend(found);
        }
    }

    /// Makes sure that all of these have been seen, and asks for all that have not at once.
    pub(super) fn require(&self, queries: impl IntoIterator<Item = Query>) -> Result<(), Halt> {
        let unseen: Vec<_> = queries.into_iter().filter(|query| !self.has(query)).collect();
        if unseen.is_empty() { Ok(()) } else { Err(Halt::Need(unseen)) }
    }

    fn has(&self, query: &Query) -> bool {
        match query {
            Query::Object(key) => self.objects.contains_key(key) || self.listed(key),
            list => self.lists.contains_key(list),
        }
    }

    /// Whether a list that would hold the key was seen; then the key is absent unless seen.
    fn listed(&self, key: &ResourceKey) -> bool {
        let mut lists = self.lists.keys();
        match key {
            ResourceKey::Block(block) => {
                lists.any(|list| matches!(list, Query::Blocks(prefix) if prefix.covers(block)))
            }
            ResourceKey::Affinity { owner, .. } => {
                lists.any(|list| matches!(list, Query::Affinities(listed) if listed == owner))
            }
            _ => false,
        }
    }

    /// The object under a key.
    pub(super) fn object(&self, key: &ResourceKey) -> Result<&Found, Halt> {
        match self.objects.get(key) {
            Some(found) => Ok(found),
            None if self.listed(key) => Ok(&Found::Absent),
            None => Err(Halt::Need(alloc::vec![Query::Object(key.clone())])),
        }
    }

    /// The objects of a list, in key order.
    pub(super) fn list(&self, query: &Query) -> Result<impl Iterator<Item = (&ResourceKey, &Found)> + use<'_>, Halt> {
        let keys = self.lists.get(query).ok_or_else(|| Halt::Need(alloc::vec![query.clone()]))?;
        Ok(keys.iter().filter_map(|key| self.objects.get_key_value(key)))
    }

    /// The block under a prefix, checked.
    pub(super) fn block(&self, cidr: Cidr) -> Result<Seen<Block>, Halt> {
        Ok(match self.object(&ResourceKey::Block(cidr))? {
            Found::Present { resource, version } => match resource.as_ref() {
                Resource::IpamBlock(stored) => match Block::admit(cidr, stored) {
                    Ok(block) => Seen::Present(block, *version),
                    Err(reason) => Seen::Unusable(reason),
                },
                _ => Seen::Unusable("not an IPAMBlock".into()),
            },
            Found::Absent => Seen::Absent,
            Found::Unreadable { reason } => Seen::Unusable(reason.clone()),
        })
    }

    /// An object of a kind that `view` picks out.
    pub(super) fn typed<'a, T>(
        &'a self,
        key: &ResourceKey,
        view: impl FnOnce(&'a Resource) -> Option<&'a T>,
    ) -> Result<Seen<&'a T>, Halt> {
        Ok(match self.object(key)? {
            Found::Present { resource, version } => match view(Arc::as_ref(resource)) {
                Some(object) => Seen::Present(object, *version),
                None => Seen::Unusable("an object of another kind".into()),
            },
            Found::Absent => Seen::Absent,
            Found::Unreadable { reason } => Seen::Unusable(reason.clone()),
        })
    }
}

/// A typed look at one key.
#[derive(Debug)]
pub(super) enum Seen<T> {
    Absent,
    Present(T, Version),
    Unusable(String),
}
