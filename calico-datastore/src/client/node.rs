//! Deleting a node: what ran on it goes first (upstream does this in the client, so that a deleted key leaks nothing).
//!
//! In order, as upstream: the addresses of its endpoints and tunnels, the endpoints, its claims on blocks, the BGP peers that are its
//! alone, its own FelixConfiguration and BGPConfiguration, its host endpoints, then the node itself. What is gone already is as good as
//! deleted. Each step can be repeated, so a deletion that stopped half-way is finished by the next. Unlike upstream, which forgets the
//! IPv6 tunnels, all five tunnel addresses are released.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use calico_core::ipam::{Release, ReleaseAddresses};
use calico_core::net::Cidr;
use calico_core::resource::{AffinityOwner, Kind, Resource, ResourceKey};

use super::{ATTEMPTS, Client, ClientError, claims};
use crate::ipam::{Ipam, StoreIpam};
use crate::{DatastoreError, MAX_BATCH, Precondition, Scope, Stored, Write};

/// Addresses released at a time: each may write its block, the block's claim and its handle, and all of them are one batch.
const RELEASED_AT_ONCE: usize = MAX_BATCH / 3;

impl Client {
    /// Removes what belongs to a node.
    pub(super) async fn retire_node(&self, node: &ResourceKey) -> Result<(), ClientError> {
        let Some(name) = node.name() else { return Ok(()) };
        let mut tunnels = BTreeSet::new();
        match self.store.get(node).await {
            Ok(stored) => tunnels = tunnel_addresses(&stored.resource),
            // Without the node there may still be what was its own.
            Err(DatastoreError::NotFound { .. } | DatastoreError::Unreadable { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        self.release_addresses(&tunnels.into_iter().collect::<Vec<_>>()).await?;
        self.delete_belonging(Kind::WorkloadEndpoint, name).await?;
        claims::release(&*self.store, &Scope::AffinitiesOf(AffinityOwner::Host(name.into())), |_| true).await?;
        self.delete_belonging(Kind::BgpPeer, name).await?;
        let own = format!("node.{name}");
        for kind in [Kind::FelixConfiguration, Kind::BgpConfiguration] {
            let write = Write::delete(ResourceKey::cluster(kind, &own), Precondition::None);
            self.store.commit(write.into()).await?;
        }
        self.delete_belonging(Kind::HostEndpoint, name).await
    }

    /// Deletes the objects of a kind whose specification names the node, after releasing the addresses that they hold. What others
    /// change meanwhile is looked at anew: it may have moved to another node.
    async fn delete_belonging(&self, kind: Kind, node: &str) -> Result<(), ClientError> {
        let mut left = ATTEMPTS;
        loop {
            left -= 1;
            let found = self.belonging(kind, node).await?;
            let addresses: Vec<IpAddr> = found.iter().flat_map(|stored| workload_addresses(&stored.resource)).collect();
            self.release_addresses(&addresses).await?;
            let mut changed = None;
            for Stored { key, revision, .. } in found {
                match self.store.commit(Write::delete(key, Precondition::At(revision)).into()).await {
                    Ok(_) | Err(DatastoreError::NotFound { .. }) => {}
                    Err(error) if error.is_conflict() => changed = Some(error),
                    Err(error) => return Err(error.into()),
                }
            }
            match changed {
                None => return Ok(()),
                Some(error) if left == 0 => return Err(error.into()),
                Some(_) => {}
            }
        }
    }

    /// The objects of a kind whose specification names the node.
    async fn belonging(&self, kind: Kind, node: &str) -> Result<Vec<Stored>, ClientError> {
        let listing = self.store.list(&Scope::Kind(kind)).await?;
        let belongs = |stored: &Stored| match &*stored.resource {
            Resource::WorkloadEndpoint(endpoint) => endpoint.spec.node == node,
            Resource::HostEndpoint(endpoint) => endpoint.spec.node == node,
            Resource::BgpPeer(peer) => peer.spec.node == node,
            _ => false,
        };
        Ok(listing.entries.into_iter().flatten().filter(belongs).collect())
    }

    async fn release_addresses(&self, addresses: &[IpAddr]) -> Result<(), ClientError> {
        // Whoever holds them: the endpoint's own record is all that is left of its handle.
        let release = |address: &IpAddr| Release { address: *address, handle: None, sequence: None };
        // The seed only spreads pauses.
        let [seed, ..] = self.ids.draw().to_ne_bytes();
        let ipam = StoreIpam::new(Arc::clone(&self.store), seed.into());
        for addresses in addresses.chunks(RELEASED_AT_ONCE) {
            let releases = addresses.iter().map(release).collect();
            ipam.release_addresses(ReleaseAddresses { releases, now: self.clock.now() }).await?;
        }
        Ok(())
    }
}

fn workload_addresses(resource: &Resource) -> Vec<IpAddr> {
    match resource {
        Resource::WorkloadEndpoint(endpoint) => endpoint.spec.ip_networks.iter().map(|net| net.address()).collect(),
        _ => Vec::new(),
    }
}

/// Those that can be read, each once.
fn tunnel_addresses(resource: &Resource) -> BTreeSet<IpAddr> {
    let Resource::Node(node) = resource else { return BTreeSet::new() };
    let spec = &node.spec;
    let wireguard = spec.wireguard.iter();
    let texts = [&spec.ipv4_vxlan_tunnel_addr, &spec.ipv6_vxlan_tunnel_addr]
        .into_iter()
        .chain(spec.bgp.iter().map(|bgp| &bgp.ipv4_ipip_tunnel_addr))
        .chain(wireguard.flat_map(|tunnel| [&tunnel.interface_ipv4_address, &tunnel.interface_ipv6_address]));
    texts.filter_map(|text| text.parse::<Cidr>().ok()).map(|net| net.address()).collect()
}
