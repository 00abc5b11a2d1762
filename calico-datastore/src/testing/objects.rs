//! Small objects of several kinds, for tests of stores.

use std::sync::Arc;

use calico_core::net::Cidr;
use calico_core::resource::{
    AffinityOwner, AffinityState, BlockAffinity, IpamBlock, IpamHandle, Kind, Metadata, NetworkSetSpec, Object,
    Resource, ResourceKey, Tier, TierSpec,
};

/// A tier: its key and itself.
pub fn tier(name: &str, order: f64) -> (ResourceKey, Arc<Resource>) {
    let spec = TierSpec { order: Some(order), ..TierSpec::default() };
    (ResourceKey::cluster(Kind::Tier, name), Arc::new(Resource::Tier(Tier::named(name, spec))))
}

/// A network set in a namespace: its key and itself.
pub fn network_set(namespace: &str, name: &str) -> (ResourceKey, Arc<Resource>) {
    let metadata = Metadata { name: name.to_owned(), namespace: Some(namespace.to_owned()), ..Metadata::default() };
    let set = Object { metadata, spec: NetworkSetSpec::default() };
    (ResourceKey::namespaced(Kind::NetworkSet, namespace, name), Arc::new(Resource::NetworkSet(set)))
}

/// A host's claim of a block: its key and itself.
pub fn affinity(host: &str, block: &str) -> (ResourceKey, Arc<Resource>) {
    let key = ResourceKey::Affinity { owner: AffinityOwner::Host(host.into()), block: cidr(block) };
    let claim = BlockAffinity { state: AffinityState::Confirmed, deleted: false };
    (key, Arc::new(Resource::BlockAffinity(claim)))
}

/// An empty block: its key and itself.
pub fn block(text: &str) -> (ResourceKey, Arc<Resource>) {
    let cidr = cidr(text);
    let size = 1_u32 << (cidr.family().bits() - cidr.length());
    let block = IpamBlock {
        cidr,
        affinity: None,
        affinity_claim_time: None,
        allocations: vec![None; size as usize],
        unallocated: (0..size).collect(),
        attributes: Vec::new(),
        sequence_number: 0,
        sequence_number_for_allocation: std::collections::BTreeMap::new(),
        deleted: false,
        host_affinity: None,
    };
    (ResourceKey::Block(cidr), Arc::new(Resource::IpamBlock(block)))
}

/// An empty handle: its key and itself.
pub fn handle(id: &str) -> (ResourceKey, Arc<Resource>) {
    (ResourceKey::Handle(id.into()), Arc::new(Resource::IpamHandle(IpamHandle::default())))
}

fn cidr(text: &str) -> Cidr {
    text.parse().expect("a CIDR")
}
