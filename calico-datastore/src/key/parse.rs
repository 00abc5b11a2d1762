//! Paths back to keys, for stores that keep paths.

use std::sync::Arc;

use calico_core::net::Cidr;
use calico_core::resource::{self, AffinityOwner, Kind, ResourceKey};

use super::{ASSIGNMENT, CONFIG, HANDLE, HOST, V3, VIRTUAL, block_path, segment, version};

/// The key at a path; `None` for what this version does not know.
pub(crate) fn parse(path: &str) -> Option<ResourceKey> {
    if let Some(rest) = path.strip_prefix(V3) {
        return parse_v3(rest);
    }
    if let Some(rest) = path.strip_prefix(ASSIGNMENT) {
        return parse_block(rest).map(ResourceKey::Block);
    }
    if let Some(rest) = path.strip_prefix(HOST) {
        return parse_affinity(rest, AffinityOwner::Host);
    }
    if let Some(rest) = path.strip_prefix(VIRTUAL) {
        return parse_affinity(rest, AffinityOwner::Virtual);
    }
    if let Some(id) = path.strip_prefix(HANDLE) {
        return (!id.is_empty()).then(|| ResourceKey::Handle(id.into()));
    }
    (path == CONFIG).then_some(ResourceKey::IpamConfig)
}

fn parse_v3(rest: &str) -> Option<ResourceKey> {
    let (plural, rest) = rest.split_once('/')?;
    let kind = Kind::V3.iter().copied().find(|kind| kind.plural() == plural)?;
    match kind.scope() {
        resource::Scope::Cluster => segment(rest).is_ok().then(|| ResourceKey::cluster(kind, rest)),
        resource::Scope::Namespaced => {
            let (namespace, name) = rest.split_once('/')?;
            (segment(namespace).is_ok() && segment(name).is_ok())
                .then(|| ResourceKey::namespaced(kind, namespace, name))
        }
    }
}

fn parse_affinity(rest: &str, owner: impl FnOnce(Arc<str>) -> AffinityOwner) -> Option<ResourceKey> {
    let (name, block) = rest.split_once('/')?;
    segment(name).ok()?;
    Some(ResourceKey::Affinity { owner: owner(name.into()), block: parse_block(block)? })
}

fn parse_block(text: &str) -> Option<Cidr> {
    let (family, rest) = text.split_once('/')?;
    let (address, length) = rest.strip_prefix("block/")?.split_once('-')?;
    let block = Cidr::new(address.parse().ok()?, length.parse().ok()?)?;
    // Only the canonical text counts: an alias would be a second path of the same key.
    (version(block.family()) == family && block_path(&block) == text).then_some(block)
}
