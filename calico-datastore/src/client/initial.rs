//! What every cluster has: an identity and three tiers (upstream's `EnsureInitialized`).

use std::sync::Arc;

use calico_core::resource::{ClusterInformationSpec, Object, Resource, SINGLE_NAME};

use super::{ATTEMPTS, Client, ClientError, key_of, uuid_digits};
use crate::{DatastoreError, Write};

impl Client {
    /// Makes what every cluster has, where it is missing: the object that tells who it is, and upstream's three tiers. Doing it again
    /// changes nothing.
    pub async fn initialise(&self) -> Result<(), ClientError> {
        self.initialise_as("").await
    }

    /// As [`initialise`](Self::initialise), and notes what the cluster is made of: words separated by commas, which are added to
    /// those that are there.
    ///
    /// (Upstream's nodes note their version, too. Its `calicoctl` refuses to work with a cluster of any version but its own, and
    /// with one that names none it works.)
    ///
    /// # Errors
    /// The first that a step met: the others are carried out all the same, since who may not do one may do the next. Once two in a
    /// row did not reach the store, each further one would only wait for it again.
    pub async fn initialise_as(&self, cluster_type: &str) -> Result<(), ClientError> {
        let is_lost = |step: &Result<(), ClientError>| step.as_ref().is_err_and(ClientError::is_retryable);
        let mut outcome = self.ensure_cluster_information(cluster_type).await;
        let mut was_lost = is_lost(&outcome);
        for tier in Resource::initial_tiers() {
            let step = self.ensure_tier(tier).await;
            let is_lost = is_lost(&step);
            outcome = outcome.and(step);
            if was_lost && is_lost {
                break;
            }
            was_lost = is_lost;
        }
        outcome
    }

    async fn ensure_cluster_information(&self, cluster_type: &str) -> Result<(), ClientError> {
        let fresh = cluster_information();
        let key = key_of(&fresh)?;
        let mut attempts = 0..ATTEMPTS;
        loop {
            let write = match self.store.get(&key).await {
                Ok(stored) if stored.raw.inexact().is_none() => {
                    let mut resource = (*stored.resource).clone();
                    if !self.complete(&mut resource, cluster_type) {
                        return Ok(());
                    }
                    Write::update(&stored, Arc::new(resource))
                }
                Err(DatastoreError::NotFound { .. }) => {
                    let mut resource = fresh.clone();
                    self.complete(&mut resource, cluster_type);
                    self.identify(&mut resource);
                    Write::create(key.clone(), Arc::new(resource))
                }
                // It is there; what it should say is for whoever wrote it.
                Ok(_) | Err(DatastoreError::Unreadable { .. }) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            match self.store.commit(write.into()).await {
                Ok(_) => return Ok(()),
                // Another got there first: most likely nothing is left to do.
                Err(error) if (error.is_conflict() || error.is_not_found()) && attempts.next().is_some() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Adds what the cluster's information lacks; answers whether that is anything.
    fn complete(&self, resource: &mut Resource, cluster_type: &str) -> bool {
        let Resource::ClusterInformation(information) = resource else { return false };
        let before = information.spec.clone();
        let spec = &mut information.spec;
        if spec.cluster_guid.is_empty() {
            spec.cluster_guid = uuid_digits(self.ids.draw());
        }
        // False is an operator's: the datastore is locked.
        spec.datastore_ready.get_or_insert(true);
        add_words(&mut spec.cluster_type, cluster_type);
        information.spec != before
    }

    async fn ensure_tier(&self, mut tier: Resource) -> Result<(), ClientError> {
        let key = key_of(&tier)?;
        match self.store.get(&key).await {
            Ok(_) | Err(DatastoreError::Unreadable { .. }) => return Ok(()),
            Err(DatastoreError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        self.identify(&mut tier);
        match self.store.commit(Write::create(key, Arc::new(tier)).into()).await {
            Ok(_) | Err(DatastoreError::AlreadyExists { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The objects that [`Client::initialise`] makes, as far as they are the same in every cluster.
pub(super) fn objects() -> Vec<Resource> {
    let mut objects = Resource::initial_tiers();
    objects.push(cluster_information());
    objects
}

fn cluster_information() -> Resource {
    let mut object = Object::<ClusterInformationSpec>::default();
    SINGLE_NAME.clone_into(&mut object.metadata.name);
    Resource::ClusterInformation(Box::new(object))
}

/// Appends the words that are not there yet.
fn add_words(words: &mut String, further: &str) {
    for word in further.split(',').filter(|word| !word.is_empty()) {
        if words.split(',').any(|known| known == word) {
            continue;
        }
        if !words.is_empty() {
            words.push(',');
        }
        words.push_str(word);
    }
}
