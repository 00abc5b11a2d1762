//! Replacing what cannot be read, or not be written back.
//!
//! An update merges into what is stored, and keeps what this version does not know of it. Of what cannot be read nothing can be kept in
//! that way, so [`Client::update`] and [`Client::apply`] refuse it; who has seen it, and has a complete object to put in its
//! place, says so with [`Client::mend`]. The rules of a new object hold then: nobody knows whether what is stored kept them.

use std::sync::Arc;

use calico_core::net::Cidr;
use calico_core::resource::{DEFAULT_TIER, Fault, NAME_ANNOTATION, Resource, ResourceKey};
use calico_core::time::Timestamp;
use serde_json::Value;

use super::rehearsal::Made;
use super::{Client, ClientError, Prepared, attempts, keep_identity, pool, rules};
use crate::{BadObject, DatastoreError, Document, Entry, Precondition, Revision, Scope, Stored, Write, document};

/// An object that cannot be read, or not be written back.
#[derive(Debug)]
pub(super) struct Spoilt {
    key: ResourceKey,
    revision: Revision,
    /// What is wrong with it.
    pub(super) reason: String,
    /// Its document; null if it is no JSON.
    document: Value,
    /// The object, if it is in force.
    resource: Option<Arc<Resource>>,
}

impl Client {
    /// One object as users see it, whether it can be read or not.
    ///
    /// # Errors
    /// When there is none, or the store does not answer.
    pub async fn entry(&self, key: &ResourceKey) -> Result<Entry, ClientError> {
        let bad = match self.get(key).await {
            Ok(stored) => return Ok(Ok(stored)),
            Err(ClientError::Store(DatastoreError::Unreadable { key, .. })) => key,
            Err(error) => return Err(error),
        };
        let listing = self.store.list(&Scope::Key(bad.clone())).await?;
        let entry = listing.entries.into_iter().next().ok_or(DatastoreError::NotFound { key: bad })?;
        Ok(entry.map(super::shown))
    }

    /// Replaces an object that cannot be read, or not be written back ([`Document::inexact`]), as a whole: what is kept of it are its
    /// identity and time of creation, as far as they can be read. With a revision in the metadata, only that one.
    ///
    /// # Errors
    /// As of [`create`](Self::create), but that there must be one; a conflict if it can be read and written back (somebody mended it):
    /// then it is for [`update`](Self::update), or for nobody.
    pub async fn mend(&self, draft: impl Into<super::Draft> + Send) -> Result<Stored, ClientError> {
        let draft = Prepared::new(draft.into())?;
        let mut attempts = attempts(draft.revision);
        loop {
            let done = match self.spoilt(&draft.key).await? {
                Some(spoilt) => {
                    let write = self.mending(&draft, &spoilt, &Made::default()).await?;
                    self.write(spoilt.key, write).await
                }
                None => return Err(sound(draft.key)),
            };
            match done {
                Err(error) if error.is_conflict() && attempts.next().is_some() => {}
                other => return other,
            }
        }
    }

    /// What is under a key, if it needs mending.
    pub(super) async fn spoilt(&self, key: &ResourceKey) -> Result<Option<Spoilt>, ClientError> {
        if rules::is_built_in(key) {
            return Ok(None);
        }
        match self.entry(key).await? {
            Ok(stored) => super::not_anothers(key, &stored).map(|()| Spoilt::of_stored(&stored)),
            Err(bad) if bad.key == *key => match shown_key(&bad) {
                Some(shown) => Err(rules::taken(key, &shown)),
                None => Ok(Some(Spoilt::of_bad(bad))),
            },
            // It lies where an older version kept policies of the default tier, and nobody can say that it is the one that is meant.
            Err(BadObject { key, reason, .. }) => Err(DatastoreError::Unreadable { key, reason }.into()),
        }
    }

    /// The write that puts the draft in the place of what is spoilt.
    pub(super) async fn mending(&self, draft: &Prepared, spoilt: &Spoilt, made: &Made) -> Result<Write, ClientError> {
        let (key, store) = (&spoilt.key, &*self.store);
        if draft.revision.is_some_and(|wanted| wanted != spoilt.revision) {
            return Err(DatastoreError::Conflict { key: key.clone(), current: None }.into());
        }
        let super::Draft { mut resource, document } = draft.draft.clone();
        rules::before_presence(store, &resource, made).await?;
        spoilt.keep(&mut resource);
        if document.as_ref().is_some_and(|document| document.get("status").is_none())
            && let Some(old) = &spoilt.resource
        {
            resource.keep_status(old);
        }
        let precondition = match &resource {
            Resource::IpPool(new) => {
                spoilt.before_pool(new.spec.cidr)?;
                pool::before_mending(store, new, spoilt.revision, &made.pools).await?
            }
            _ => Precondition::At(spoilt.revision),
        };
        self.identify(&mut resource);
        Ok(Write::put(
            key.clone(),
            precondition,
            Arc::new(resource),
            document.map(|document| Arc::new(document.into())),
        ))
    }
}

impl Spoilt {
    fn of_stored(stored: &Stored) -> Option<Self> {
        let Stored { key, resource, raw, revision } = stored;
        let reason = raw.inexact()?.to_owned();
        let document = Value::clone(raw);
        Some(Self { key: key.clone(), revision: *revision, reason, document, resource: Some(Arc::clone(resource)) })
    }

    fn of_bad(bad: BadObject) -> Self {
        let document = bad.document().map(Document::into_value).unwrap_or_default();
        let BadObject { key, revision, reason, .. } = bad;
        Self { key, revision, reason, document, resource: None }
    }

    /// Keeps what tells the object from another of its name, as far as it can be read: of an object its uid and time of creation, of
    /// ClusterInformation the cluster's too.
    fn keep(&self, new: &mut Resource) {
        if let Some(old) = &self.resource {
            keep_identity(new, old);
        }
        let text =
            |pointer: &str| self.document.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
        if let Some(metadata) = new.metadata_mut() {
            let created = text("/metadata/creationTimestamp").filter(|text| Timestamp::parse_rfc3339(text).is_some());
            metadata.uid = text("/metadata/uid").map(str::to_owned).or_else(|| metadata.uid.take());
            metadata.creation_timestamp = created.map(str::to_owned).or_else(|| metadata.creation_timestamp.take());
        }
        if let (Resource::ClusterInformation(cluster), Some(identity)) = (new, text("/spec/clusterGUID"))
            && cluster.spec.cluster_guid.is_empty()
        {
            identity.clone_into(&mut cluster.spec.cluster_guid);
        }
    }

    /// A pool keeps its range, if that can be read.
    fn before_pool(&self, new: Cidr) -> Result<(), ClientError> {
        let old = self.document.pointer("/spec/cidr").and_then(|cidr| cidr.as_str()?.parse::<Cidr>().ok());
        match old {
            Some(old) if old != new => {
                Err(Fault::value("spec.cidr", Some(new.to_string()), "IPPool CIDR cannot be modified").into())
            }
            _ => Ok(()),
        }
    }
}

/// It can be read and written back, so whoever wanted to replace it whole did not see it.
pub(super) fn sound(key: ResourceKey) -> ClientError {
    DatastoreError::Conflict { key, current: None }.into()
}

/// The key under which users would see what cannot be read, if that is a policy under its former key and its document says so.
fn shown_key(bad: &BadObject) -> Option<ResourceKey> {
    let ResourceKey::Named { kind, namespace, name } = &bad.key else { return None };
    let bare = name.strip_prefix(DEFAULT_TIER)?.strip_prefix('.').filter(|_| kind.is_policy())?;
    let document = bad.document()?;
    let annotation = document.get("metadata")?.get("annotations")?.get(NAME_ANNOTATION)?.as_str()?;
    let own: Value = serde_json::from_str(annotation).ok()?;
    (own.get("name")?.as_str()? == bare).then(|| ResourceKey::Named {
        kind: *kind,
        namespace: namespace.clone(),
        name: bare.into(),
    })
}

/// What is stored after a write.
pub(super) fn stored_by(write: &Write) -> Value {
    match &write.change {
        crate::Change::Put { resource, base, .. } => document::encode(resource, base.as_deref()),
        crate::Change::Delete => Value::Null,
    }
}
