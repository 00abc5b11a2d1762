//! Policies of the default tier under their former keys.
//!
//! Before 3.32 upstream stored them under `default.` and their name; users saw, and see, the name alone. A cluster has such keys until
//! somebody moves them, and older nodes look for policies nowhere else. So who names a policy that is not under its own key means the
//! one under the former key, which is read, written and deleted where it is. A second one beside it would leave the first in force.

use calico_core::resource::{DEFAULT_TIER, ResourceKey};

use super::Client;
use crate::{DatastoreError, Stored};

impl Client {
    /// The object that users see under a key.
    pub(super) async fn read(&self, key: &ResourceKey) -> Result<Stored, DatastoreError> {
        match self.store.get(key).await {
            Err(error) if error.is_not_found() => self.former(key).await?.ok_or(error),
            other => other,
        }
    }

    /// The policy that users see under a key and that lies under the former one.
    pub(super) async fn former(&self, key: &ResourceKey) -> Result<Option<Stored>, DatastoreError> {
        let Some(former) = former_key(key) else { return Ok(None) };
        match self.store.get(&former).await {
            Ok(stored) => Ok(Some(stored).filter(|stored| stored.resource.key().as_ref() == Some(key))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Under which key the object lies that users see under this one; whether there is any, who uses it finds out.
    pub(super) async fn place(&self, key: &ResourceKey) -> Result<ResourceKey, DatastoreError> {
        if former_key(key).is_some()
            && let Err(error) = self.store.get(key).await
            && error.is_not_found()
            && let Some(stored) = self.former(key).await?
        {
            return Ok(stored.key);
        }
        Ok(key.clone())
    }
}

fn former_key(key: &ResourceKey) -> Option<ResourceKey> {
    match key {
        ResourceKey::Named { kind, namespace, name } if kind.is_policy() => {
            let name = format!("{DEFAULT_TIER}.{name}").into();
            Some(ResourceKey::Named { kind: *kind, namespace: namespace.clone(), name })
        }
        _ => None,
    }
}
