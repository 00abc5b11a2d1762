//! Making this host known: its Node, the cluster's first pool and tiers (upstream's start-up, `node-ctl-controllers` 1.8).
//!
//! Every step may race with other hosts that start at the same time, and may be repeated: what exists already is left as it is, a lost
//! compare-and-swap is read again.

use calico_core::net::{AsNumber, Family};
use calico_core::resource::{
    IpPool, IpPoolSpec, Kind, NodeAddress, NodeBgpSpec, NodeSpec, NodeStatus, ReportedObject, Resource, ResourceKey,
};
use calico_datastore::client::{Client, ClientError};
use calico_datastore::{DatastoreError, Scope};
use tracing::{info, warn};

use super::address::{InterfaceAddress, Method};
use crate::cli::PoolCidr;

/// Tries of one compare-and-swap before the trouble counts as more than a race.
const TRIES: usize = 20;

/// Name of the pool that is made when there is none; upstream's.
const DEFAULT_POOL: &str = "default-ipv4-ippool";

/// What is to be made known.
#[derive(Debug, Clone)]
#[expect(clippy::exhaustive_structs, reason = "built with a literal")]
pub struct Registration {
    /// Node name.
    pub node: String,
    /// How the IPv4 address is chosen.
    pub ip: IpChoice,
    /// How the IPv6 address is chosen.
    pub ip6: IpChoice,
    /// AS number, if it is this node's own.
    pub as_number: Option<AsNumber>,
    /// Whether the node takes part in BGP and so needs an address.
    pub needs_address: bool,
    /// The pool to make when there is none.
    pub pool: PoolCidr,
    /// Prefix length of its blocks.
    pub pool_block_size: u8,
    /// What the cluster is made of, words separated by commas.
    pub cluster_type: String,
    /// This host's addresses, in the kernel's order.
    pub addresses: Vec<InterfaceAddress>,
}

/// What a [`Registration`] came to.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "the host itself, and the rest")]
pub struct Outcome {
    /// Whether the host's Node was missing, or why the host is not known.
    pub node: Result<bool, RegisterError>,
    /// What the cluster needs besides.
    pub cluster: Result<(), RegisterError>,
}

/// How the node's address is chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the settings of `IP` are these")]
pub enum IpChoice {
    /// The stored one; where there is none, as the method finds.
    Keep(Method),
    /// As the method finds; where it finds none, the stored one.
    Autodetect(Method),
    /// This one.
    Address(NodeAddress),
    /// The stored one, if any.
    None,
}

/// Why the host cannot be made known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// No address, although BGP needs one.
    #[error(
        "no address for node {node}: set IP or IP6, or IP_AUTODETECTION_METHOD or IP6_AUTODETECTION_METHOD to what finds one"
    )]
    NoAddress {
        /// The node.
        node: String,
    },
    /// Another node has the address.
    #[error(
        "node {other} has the address {address} already: node {node} stays as it was; give each node an address of its own"
    )]
    Duplicate {
        /// This node.
        node: String,
        /// The other one.
        other: String,
        /// The address.
        address: String,
    },
    /// The datastore fails.
    #[error("cannot {step}")]
    Store {
        /// What was tried.
        step: &'static str,
        /// Why.
        #[source]
        source: ClientError,
    },
}

impl RegisterError {
    /// Whether the same may succeed later without anybody's help.
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Store { source, .. } if source.is_retryable() || source.is_conflict())
    }

    /// Whether it is for whoever set this host up: its settings, or credentials that the datastore refuses. All else is about single
    /// objects, which are mended where they are stored.
    pub const fn is_ours(&self) -> bool {
        match self {
            Self::NoAddress { .. } | Self::Duplicate { .. } => true,
            Self::Store { source, .. } => matches!(source, ClientError::Store(DatastoreError::Refused { .. })),
        }
    }
}

impl Registration {
    /// Makes the host known. What keeps the cluster from being prepared, and another try cannot mend, does not keep the host from being
    /// known.
    pub async fn carry_out(&self, client: &Client) -> Outcome {
        // First, since who sees the node may attach workloads to it.
        match bearable(self.prepare(client).await) {
            Ok(cluster) => Outcome { node: self.register_node(client).await, cluster },
            Err(error) => Outcome { node: Err(error), cluster: Ok(()) },
        }
    }

    /// Makes what the cluster needs besides this host's Node: its information, tiers and a pool.
    ///
    /// # Errors
    /// The first that a step met. Where another try cannot mend it the step that follows is done all the same.
    pub async fn prepare(&self, client: &Client) -> Result<(), RegisterError> {
        let begun = client.initialise_as(&self.cluster_type).await;
        let begun = bearable(begun.map_err(|source| RegisterError::Store { step: "prepare the datastore", source }))?;
        let pooled = bearable(self.ensure_pool(client).await)?;
        begun.and(pooled)
    }

    async fn register_node(&self, client: &Client) -> Result<bool, RegisterError> {
        let fail = |source| RegisterError::Store { step: "register this node", source };
        let key = ResourceKey::cluster(Kind::Node, &self.node);
        let mut tries = 0;
        loop {
            let stored = match client.get(&key).await {
                Ok(stored) => Some(stored),
                Err(error) if error.is_not_found() => None,
                Err(error) => return Err(fail(error)),
            };
            let old = stored.as_ref().and_then(|stored| match &*stored.resource {
                Resource::Node(node) => Some(&**node),
                _ => None,
            });
            let node = self.wanted_node(old)?;
            if old == Some(&node) {
                return Ok(false);
            }
            self.refuse_duplicate(client, &node).await?;
            // An update carries the revision that was read, in the object's metadata.
            let outcome = match &stored {
                Some(_) => client.update(Resource::Node(node.into())).await,
                None => client.create(Resource::Node(node.into())).await,
            };
            tries += 1;
            match outcome {
                Ok(_) => {
                    info!(node = self.node, "registered");
                    return Ok(stored.is_none());
                }
                Err(error) if error.is_conflict() && tries < TRIES => {}
                Err(error) => return Err(fail(error)),
            }
        }
    }

    /// The Node as it should be: what is stored, with our address and AS number.
    fn wanted_node(
        &self,
        old: Option<&ReportedObject<NodeSpec, NodeStatus>>,
    ) -> Result<ReportedObject<NodeSpec, NodeStatus>, RegisterError> {
        let mut node = old.cloned().unwrap_or_default();
        node.metadata.name.clone_from(&self.node);
        if !self.needs_address {
            return Ok(node);
        }
        let bgp = node.spec.bgp.get_or_insert_with(NodeBgpSpec::default);
        bgp.ipv4_address = self.choose_address(Family::V4, bgp.ipv4_address);
        bgp.ipv6_address = self.choose_address(Family::V6, bgp.ipv6_address);
        bgp.as_number = self.as_number.or(bgp.as_number);
        if bgp.ipv4_address.is_none() && bgp.ipv6_address.is_none() {
            return Err(RegisterError::NoAddress { node: self.node.clone() });
        }
        Ok(node)
    }

    fn choose_address(&self, family: Family, stored: Option<NodeAddress>) -> Option<NodeAddress> {
        let choice = match family {
            Family::V4 => &self.ip,
            Family::V6 => &self.ip6,
        };
        match choice {
            IpChoice::None => stored,
            IpChoice::Keep(method) => stored.or_else(|| method.choose(family, &self.addresses)),
            IpChoice::Autodetect(method) => method.choose(family, &self.addresses).or_else(|| {
                warn!(?family, "no address found by the given method; the stored one, if any, is kept");
                stored
            }),
            IpChoice::Address(address) => Some(self.widen(*address)),
        }
    }

    /// An address given without its subnet gets that of the interface that carries it. (Upstream widens IPv4 only; without its subnet an
    /// IPv6 address has no neighbours.)
    fn widen(&self, address: NodeAddress) -> NodeAddress {
        if !address.network().is_host() {
            return address;
        }
        let own = self.addresses.iter().find(|own| own.address.address() == address.address());
        if own.is_none() {
            warn!(%address, "no interface of this host carries the given address");
        }
        own.map_or(address, |own| own.address)
    }

    async fn refuse_duplicate(
        &self,
        client: &Client,
        node: &ReportedObject<NodeSpec, NodeStatus>,
    ) -> Result<(), RegisterError> {
        let of = |node: &ReportedObject<NodeSpec, NodeStatus>| {
            node.spec.bgp.as_ref().map(|bgp| [bgp.ipv4_address, bgp.ipv6_address]).unwrap_or_default()
        };
        let own = of(node);
        if own == [None, None] {
            return Ok(());
        }
        let listing = client
            .list(&Scope::Kind(Kind::Node))
            .await
            .map_err(|source| RegisterError::Store { step: "read the other nodes", source })?;
        for stored in listing.entries.iter().flatten() {
            let Resource::Node(other) = &*stored.resource else { continue };
            if other.metadata.name == self.node {
                continue;
            }
            let same = own.into_iter().zip(of(other)).find_map(|pair| match pair {
                (Some(own), Some(theirs)) if own.address() == theirs.address() => Some(own.address()),
                _ => None,
            });
            if let Some(address) = same {
                return Err(RegisterError::Duplicate {
                    node: self.node.clone(),
                    other: other.metadata.name.clone(),
                    address: address.to_string(),
                });
            }
        }
        Ok(())
    }

    /// A pool is made only when the cluster has none at all for IPv4, enabled or not.
    async fn ensure_pool(&self, client: &Client) -> Result<(), RegisterError> {
        let PoolCidr::Range(cidr) = self.pool else { return Ok(()) };
        let fail = |source| RegisterError::Store { step: "make the default pool", source };
        let listing = client.list(&Scope::Kind(Kind::IpPool)).await.map_err(fail)?;
        let taken = listing.entries.iter().any(|entry| match entry {
            Ok(stored) => {
                matches!(&*stored.resource, Resource::IpPool(pool) if pool.spec.cidr.family() == cidr.family())
            }
            // A pool that cannot be read is a pool all the same.
            Err(_) => true,
        });
        if taken {
            return Ok(());
        }
        let spec =
            IpPoolSpec { cidr, nat_outgoing: true, block_size: Some(self.pool_block_size), ..IpPoolSpec::default() };
        match client.create(Resource::IpPool(IpPool::named(DEFAULT_POOL, spec))).await {
            Ok(_) => info!(%cidr, "made the default pool"),
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(fail(error)),
        }
        Ok(())
    }
}

/// What a step met, to be told when the others are done; what may pass by itself ends the round.
fn bearable(step: Result<(), RegisterError>) -> Result<Result<(), RegisterError>, RegisterError> {
    match step {
        Err(error) if error.is_retryable() => Err(error),
        other => Ok(other),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use calico_datastore::memory::MemoryStore;
    use calico_datastore::{SystemClock, SystemIds};

    use super::*;

    /// As upstream, the cluster's information tells what it is made of; its version is left to whoever names one.
    #[tokio::test]
    async fn the_cluster_is_told_what_it_is_made_of() {
        let client =
            Client::new(Arc::new(MemoryStore::new()), Arc::new(SystemClock), Arc::new(SystemIds::open().unwrap()));
        for words in ["k8s,bgp", "bgp,kubeadm", ""] {
            let registration = Registration {
                node: "host-1".into(),
                ip: IpChoice::None,
                ip6: IpChoice::None,
                as_number: None,
                needs_address: false,
                pool: PoolCidr::None,
                pool_block_size: 26,
                cluster_type: words.into(),
                addresses: Vec::new(),
            };
            let Outcome { node, cluster } = registration.carry_out(&client).await;
            node.unwrap();
            cluster.unwrap();
        }
        let stored = client.get(&ResourceKey::cluster(Kind::ClusterInformation, "default")).await.unwrap();
        let Resource::ClusterInformation(cluster) = &*stored.resource else { panic!("{stored:?}") };
        assert_eq!((cluster.spec.cluster_type.as_str(), cluster.spec.calico_version.as_str()), ("k8s,bgp,kubeadm", ""));
    }

    fn addressed(node: &str, ip: IpChoice, ip6: IpChoice) -> Registration {
        let address = |interface: &str, address: &str| InterfaceAddress {
            interface: interface.into(),
            address: address.parse().unwrap(),
        };
        Registration {
            node: node.into(),
            ip,
            ip6,
            as_number: None,
            needs_address: true,
            pool: PoolCidr::None,
            pool_block_size: 26,
            cluster_type: String::new(),
            addresses: vec![address("eth0", "10.0.0.1/24"), address("eth0", "fd00::1/64")],
        }
    }

    /// Each family by itself; one is enough; neither may be another node's.
    #[tokio::test]
    async fn a_node_has_an_address_of_either_family() {
        let client =
            Client::new(Arc::new(MemoryStore::new()), Arc::new(SystemClock), Arc::new(SystemIds::open().unwrap()));
        let found = || IpChoice::Autodetect(Method::FirstFound);
        let given = |text: &str| IpChoice::Address(text.parse().unwrap());
        let rows = [
            ("both", found(), found(), ["10.0.0.1/24", "fd00::1/64"]),
            ("six", IpChoice::None, given("fd00::6/64"), ["", "fd00::6/64"]),
            ("four", given("10.0.0.4/24"), IpChoice::None, ["10.0.0.4/24", ""]),
        ];
        for (name, ip, ip6, expected) in rows {
            addressed(name, ip, ip6).carry_out(&client).await.node.unwrap();
            let stored = client.get(&ResourceKey::cluster(Kind::Node, name)).await.unwrap();
            let Resource::Node(node) = &*stored.resource else { panic!("{stored:?}") };
            let bgp = node.spec.bgp.as_ref().unwrap();
            let text = |address: Option<NodeAddress>| address.map(|address| address.to_string()).unwrap_or_default();
            assert_eq!([text(bgp.ipv4_address), text(bgp.ipv6_address)], expected, "{name}");
        }
        let none = addressed("none", IpChoice::None, IpChoice::None).carry_out(&client).await.node;
        assert!(matches!(none, Err(RegisterError::NoAddress { .. })), "{none:?}");
        let same = addressed("same", IpChoice::None, given("fd00::1")).carry_out(&client).await.node;
        assert!(matches!(&same, Err(RegisterError::Duplicate { other, .. }) if other == "both"), "{same:?}");
    }
}
