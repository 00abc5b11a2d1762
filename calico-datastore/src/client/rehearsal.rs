//! Finding out, before anything is written, what a series of writes would be refused for.
//!
//! In come the writes in order; out comes for each what [`Client`] would answer, given that those before it were carried out. After a
//! rehearsal without an error only another writer or the store itself can make one of the writes fail. Nothing is written.

use std::collections::BTreeSet;
use std::sync::Arc;

use calico_core::resource::{IpPool, Kind, Resource, ResourceKey};

use serde_json::Value;

use super::{
    Client, ClientError, Draft, Prepared, Replacement, conflict_unless, initial, key_of, mend, refuse_revision, rules,
};
use crate::{DatastoreError, Document, Revision, Stored, document};

/// What a write is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "an object is made, changed, whichever fits, or replaced whole")]
pub enum Intent {
    /// [`Client::create`].
    Create,
    /// [`Client::update`].
    Update,
    /// [`Client::apply`].
    Apply,
    /// [`Client::mend`].
    Mend,
}

/// What is to be known of a write that would be carried out.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Rehearsed {
    /// Whether it must be made without the revision that the object names: only [`Client::initialise`] will make what is stored under
    /// its key, so that the revision is another store's.
    pub without_revision: bool,
    /// Fields of the stored object, by path, that no part of the model knows and that the write removes: what they belonged to is
    /// gone, or cannot be told from what is new.
    pub lost: Vec<String>,
    /// What is stored, if anything is.
    pub before: Option<Stored>,
    /// What would be stored: the document as given, fields of newer versions kept, defaults filled in. A new object still lacks its
    /// identity and time of creation.
    pub after: Value,
    /// Why what is stored is replaced as a whole, if it is.
    pub mends: Option<String>,
}

/// What the writes rehearsed so far would have made.
#[derive(Debug, Clone, Default)]
pub(super) struct Made {
    /// Tiers that are there, as far as is known.
    pub(super) tiers: BTreeSet<String>,
    /// BGP filters that are not stored yet.
    pub(super) filters: BTreeSet<String>,
    /// Pools that are not stored yet.
    pub(super) pools: Vec<IpPool>,
}

/// A series of writes that are not carried out.
#[derive(Debug)]
pub struct Rehearsal<'a> {
    client: &'a Client,
    made: Made,
    /// What is taken for stored where it is not: what [`Client::initialise`] would make.
    initial: Vec<Stored>,
    /// What the deletions rehearsed so far would have taken away.
    gone: BTreeSet<ResourceKey>,
}

impl<'a> Rehearsal<'a> {
    /// A series whose first write comes next.
    pub fn new(client: &'a Client) -> Self {
        Self { client, made: Made::default(), initial: Vec::new(), gone: BTreeSet::new() }
    }

    /// A series before whose first write [`Client::initialise`] is to be carried out.
    pub fn after_initialising(client: &'a Client) -> Self {
        let stored = |resource: Resource| {
            let raw = Arc::new(resource.encode().into());
            Some(Stored::new(resource.key()?, Arc::new(resource), raw, Revision::from_raw(0)))
        };
        let initial: Vec<_> = initial::objects().into_iter().filter_map(stored).collect();
        let tiers = initial.iter().filter(|stored| stored.key.kind() == Kind::Tier);
        let tiers = tiers.filter_map(|tier| tier.key.name()).map(str::to_owned).collect();
        Self { client, made: Made { tiers, ..Made::default() }, initial, gone: BTreeSet::new() }
    }

    /// What is under a key, or would be.
    async fn read(&self, key: &ResourceKey) -> Result<Stored, ClientError> {
        let read = self.client.read_for_update(key).await;
        let initial = || self.initial.iter().find(|initial| initial.key == *key).cloned();
        match read {
            Err(error) if error.is_not_found() => initial().ok_or(error),
            other => other,
        }
    }

    /// Rehearses a write of an object that has not been part of this rehearsal before.
    ///
    /// # Errors
    /// What the write would be refused for, or what keeps the store from answering.
    pub async fn write(&mut self, intent: Intent, draft: impl Into<Draft> + Send) -> Result<Rehearsed, ClientError> {
        let mut draft = draft.into();
        draft.resource.fill_defaults()?;
        match intent {
            Intent::Create => self.create(&draft.resource).await?,
            Intent::Update => return self.update(draft).await,
            Intent::Apply => match self.update(draft.clone()).await {
                Err(error) if error.is_not_found() => self.create_absent(&draft.resource).await?,
                other => return other,
            },
            Intent::Mend => return self.mend(draft).await,
        }
        let after = document::encode(&draft.resource, draft.document.map(Document::from).as_ref());
        Ok(Rehearsed { after, ..Rehearsed::default() })
    }

    /// Rehearses a deletion, at a revision or of whatever is there.
    ///
    /// # Errors
    /// What the deletion would be refused for, or what keeps the store from answering.
    pub async fn delete(&mut self, key: &ResourceKey, revision: Option<Revision>) -> Result<(), ClientError> {
        let store = &*self.client.store;
        rules::before_delete(store, key, &self.gone).await?;
        let key = self.client.place(key).await?;
        match store.get(&key).await {
            Ok(stored) => conflict_unless(revision, &stored)?,
            Err(DatastoreError::Unreadable { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        self.gone.insert(key);
        Ok(())
    }

    async fn create(&mut self, resource: &Resource) -> Result<(), ClientError> {
        refuse_revision(resource)?;
        let key = key_of(resource)?;
        if rules::is_built_in(&key) {
            return Err(DatastoreError::AlreadyExists { key, current: None }.into());
        }
        match self.read(&key).await {
            Ok(current) => Err(DatastoreError::AlreadyExists { key, current: Some(Box::new(current)) }.into()),
            Err(ClientError::Store(DatastoreError::Unreadable { key, .. })) => {
                Err(DatastoreError::AlreadyExists { key, current: None }.into())
            }
            Err(error) if error.is_not_found() => self.create_absent(resource).await,
            Err(error) => Err(error),
        }
    }

    async fn create_absent(&mut self, resource: &Resource) -> Result<(), ClientError> {
        rules::before_create(&*self.client.store, resource, &self.made).await?;
        match resource {
            Resource::IpPool(pool) => self.made.pools.push(pool.clone()),
            Resource::Tier(tier) => {
                self.made.tiers.insert(tier.metadata.name.clone());
            }
            Resource::BgpFilter(filter) => {
                self.made.filters.insert(filter.metadata.name.clone());
            }
            _ => {}
        }
        // It is there, or the policy would have been refused.
        self.made.tiers.extend(resource.tier().map(str::to_owned));
        Ok(())
    }

    async fn update(&self, draft: Draft) -> Result<Rehearsed, ClientError> {
        let mut draft = Prepared::new(draft)?;
        let read = self.read(&draft.key).await?;
        let without_revision = self.initial.contains(&read);
        if without_revision {
            draft.revision = None;
        }
        rules::before_write(&*self.client.store, &draft.draft.resource, &self.made).await?;
        let Replacement { after, lost, .. } = draft.replacement(&read)?;
        // What is only taken for stored is not there to be seen.
        let before = Some(read).filter(|_| !without_revision);
        Ok(Rehearsed { without_revision, lost, before, after, mends: None })
    }

    async fn mend(&mut self, draft: Draft) -> Result<Rehearsed, ClientError> {
        let prepared = Prepared::new(draft)?;
        let Some(spoilt) = self.client.spoilt(&prepared.key).await? else {
            return Err(mend::sound(prepared.key));
        };
        let write = self.client.mending(&prepared, &spoilt, &self.made).await?;
        if let Resource::IpPool(pool) = &prepared.draft.resource {
            self.made.pools.push(pool.clone());
        }
        Ok(Rehearsed { after: mend::stored_by(&write), mends: Some(spoilt.reason), ..Rehearsed::default() })
    }
}
