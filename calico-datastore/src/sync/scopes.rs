//! What each of upstream's consumers follows, with etcd or an embedded store: `Vec<Scope>`s for a [`Syncer`](super::Syncer).
//!
//! | | [`felix`] | [`felix_follower`] | [`bgp`] | [`node_status`] | [`tunnel_address`] |
//! |---|---|---|---|---|---|
//! | ClusterInformation, FelixConfiguration | ✓ | ✓ | | | |
//! | policies (also staged), tiers, sets, profiles, endpoints, LiveMigration, IPAM blocks | ✓ | | | | |
//! | BGPConfiguration, BGPPeer | ✓ | | ✓ | | |
//! | IPPool, Node | ✓ | | ✓ | | ✓ |
//! | BGPFilter, block affinities | | | ✓ | | |
//! | CalicoNodeStatus | | | | ✓ | |
//!
//! Kinds that only Kubernetes stores (its own policies, services and endpoint slices) belong to a datastore that is not here. This
//! agent follows less than Felix: see its own list.
//!
//! For embedders: whoever feeds one of upstream's programs, or does its work, from any of the stores.
//!
//! ```
//! use std::sync::Arc;
//!
//! use calico_core::update::SyncStatus;
//! use calico_datastore::memory::MemoryStore;
//! use calico_datastore::sync::{SyncEvent, SyncOptions, Syncer, scopes};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let store = Arc::new(MemoryStore::new());
//! let mut syncer = Syncer::start(store, scopes::bgp(Some("host-a")), SyncOptions::default());
//! loop {
//!     match syncer.next().await {
//!         Some(SyncEvent::Updates(updates)) => println!("{} pools, peers, nodes and blocks", updates.len()),
//!         Some(SyncEvent::Status(SyncStatus::InSync)) | None => break,
//!         Some(_) => {}
//!     }
//! }
//! # });
//! # Ok::<(), std::io::Error>(())
//! ```

use calico_core::resource::{AffinityOwner, Kind, ResourceKey};

use crate::Scope;

/// Felix, or whoever feeds several of them.
pub fn felix() -> Vec<Scope> {
    of(&[
        Kind::ClusterInformation,
        Kind::FelixConfiguration,
        Kind::GlobalNetworkPolicy,
        Kind::StagedGlobalNetworkPolicy,
        Kind::GlobalNetworkSet,
        Kind::IpPool,
        Kind::Node,
        Kind::Profile,
        Kind::WorkloadEndpoint,
        Kind::NetworkPolicy,
        Kind::StagedNetworkPolicy,
        Kind::StagedKubernetesNetworkPolicy,
        Kind::NetworkSet,
        Kind::Tier,
        Kind::HostEndpoint,
        Kind::BgpConfiguration,
        Kind::BgpPeer,
        Kind::LiveMigration,
        Kind::IpamBlock,
    ])
}

/// Felix while another one leads: its configuration alone.
pub fn felix_follower() -> Vec<Scope> {
    of(&[Kind::ClusterInformation, Kind::FelixConfiguration])
}

/// What BGP is configured with: confd's set. With a node, the blocks of that node; without, those of all hosts (and of virtual owners,
/// which have no routes and are to be left out).
pub fn bgp(node: Option<&str>) -> Vec<Scope> {
    let mut scopes = of(&[Kind::IpPool, Kind::BgpConfiguration, Kind::Node, Kind::BgpPeer, Kind::BgpFilter]);
    scopes.push(
        node.map_or(Scope::Kind(Kind::BlockAffinity), |node| Scope::AffinitiesOf(AffinityOwner::Host(node.into()))),
    );
    scopes
}

/// Who reports the state of nodes.
pub fn node_status() -> Vec<Scope> {
    of(&[Kind::CalicoNodeStatus])
}

/// Who keeps the addresses of tunnels: of one node, or of all.
pub fn tunnel_address(node: Option<&str>) -> Vec<Scope> {
    let nodes = node.map_or(Scope::Kind(Kind::Node), |node| Scope::Key(ResourceKey::cluster(Kind::Node, node)));
    vec![Scope::Kind(Kind::IpPool), nodes]
}

fn of(kinds: &[Kind]) -> Vec<Scope> {
    kinds.iter().copied().map(Scope::Kind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(scopes: &[Scope], kind: Kind) -> usize {
        scopes.iter().filter(|scope| **scope == Scope::Kind(kind)).count()
    }

    /// Column by column of upstream's table, without what only Kubernetes stores.
    #[test]
    fn each_consumer_follows_what_upstreams_does() {
        use Kind::{
            BgpConfiguration, BgpFilter, BgpPeer, BlockAffinity, CalicoNodeStatus, ClusterInformation,
            FelixConfiguration, IpPool, IpReservation, IpamBlock, IpamHandle, KubeControllersConfiguration, Node,
        };
        let sets = [felix(), felix_follower(), bgp(None), node_status(), tunnel_address(None)];
        for (kind, expected) in [
            (ClusterInformation, [1, 1, 0, 0, 0]),
            (FelixConfiguration, [1, 1, 0, 0, 0]),
            (IpPool, [1, 0, 1, 0, 1]),
            (Node, [1, 0, 1, 0, 1]),
            (BgpConfiguration, [1, 0, 1, 0, 0]),
            (BgpPeer, [1, 0, 1, 0, 0]),
            (BgpFilter, [0, 0, 1, 0, 0]),
            (IpamBlock, [1, 0, 0, 0, 0]),
            (BlockAffinity, [0, 0, 1, 0, 0]),
            (CalicoNodeStatus, [0, 0, 0, 1, 0]),
            (IpReservation, [0; 5]),
            (IpamHandle, [0; 5]),
            (KubeControllersConfiguration, [0; 5]),
        ] {
            let found: Vec<_> = sets.iter().map(|set| count(set, kind)).collect();
            assert_eq!(found, expected, "{kind}");
        }
        assert_eq!(sets.map(|set| set.len()), [19, 2, 6, 1, 2]);
    }

    #[test]
    fn a_node_narrows_what_is_its_own() {
        let host = Scope::AffinitiesOf(AffinityOwner::Host("n".into()));
        assert_eq!(bgp(Some("n")).last(), Some(&host));
        assert_eq!(count(&bgp(Some("n")), Kind::BlockAffinity), 0);
        assert_eq!(tunnel_address(Some("n")).last(), Some(&Scope::Key(ResourceKey::cluster(Kind::Node, "n"))));
    }
}
