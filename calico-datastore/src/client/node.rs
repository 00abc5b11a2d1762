//! Deleting a node: what ran on it goes first (upstream does this in the client, so that a deleted key leaks nothing).
//!
//! In order: the addresses of its endpoints, the endpoints, its claims on blocks, then the node itself. Each step can be repeated, so a
//! deletion that stopped half-way is finished by the next.

use std::sync::Arc;

use calico_core::ipam::{Release, ReleaseAddresses};
use calico_core::resource::{AffinityOwner, Kind, Resource};

use super::{Client, ClientError, claims};
use crate::ipam::{Ipam, StoreIpam};
use crate::{DatastoreError, MAX_BATCH, Precondition, Scope, Stored, Write};

/// Addresses released at a time: each may write its block, the block's claim and its handle, and all of them are one batch.
const RELEASED_AT_ONCE: usize = MAX_BATCH / 3;

impl Client {
    /// Removes what belongs to a node.
    pub(super) async fn retire_node(&self, name: &str) -> Result<(), ClientError> {
        let store = &*self.store;
        let endpoints = self.endpoints_on(name).await?;
        self.release_addresses(&endpoints).await?;
        for endpoint in endpoints {
            match store.commit(Write::delete(endpoint.key, Precondition::Present).into()).await {
                Ok(_) | Err(DatastoreError::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        claims::release(store, &Scope::AffinitiesOf(AffinityOwner::Host(name.into())), |_| true).await
    }

    async fn endpoints_on(&self, node: &str) -> Result<Vec<Stored>, ClientError> {
        let listing = self.store.list(&Scope::Kind(Kind::WorkloadEndpoint)).await?;
        let on_node = |stored: &Stored| match &*stored.resource {
            Resource::WorkloadEndpoint(endpoint) => endpoint.spec.node == node,
            _ => false,
        };
        Ok(listing.entries.into_iter().flatten().filter(on_node).collect())
    }

    async fn release_addresses(&self, endpoints: &[Stored]) -> Result<(), ClientError> {
        let networks = endpoints.iter().filter_map(|stored| match &*stored.resource {
            Resource::WorkloadEndpoint(endpoint) => Some(&endpoint.spec.ip_networks),
            _ => None,
        });
        // Whoever holds them: the endpoint's own record is all that is left of its handle.
        let release = |address| Release { address, handle: None, sequence: None };
        let releases: Vec<_> = networks.flatten().map(|network| release(network.address())).collect();
        // The seed only spreads pauses.
        let [seed, ..] = self.ids.draw().to_ne_bytes();
        let ipam = StoreIpam::new(Arc::clone(&self.store), seed.into());
        for releases in releases.chunks(RELEASED_AT_ONCE) {
            ipam.release_addresses(ReleaseAddresses { releases: releases.to_vec(), now: self.clock.now() }).await?;
        }
        Ok(())
    }
}
