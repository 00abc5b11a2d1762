//! GC: what of a network belongs to no attachment that the runtime knows.
//!
//! Only what certainly is of this network and this node is told of. What somebody else wrote, or what another network might have, is
//! left: a leak costs an address, a wrong guess a running workload its network.

use alloc::string::String;

use serde::Deserialize;

use crate::resource::{IpamBlock, WorkloadEndpointSpec};

/// An attachment that the runtime knows.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct ValidAttachment {
    /// Container.
    #[serde(rename = "containerID")]
    pub container_id: String,
    /// Interface inside it.
    pub ifname: String,
}

/// Whether an endpoint was made for an attachment that is not known any more. Endpoints of a network have its profile; one that has
/// lost it is not known by its network any more, and is left.
pub fn is_stale_endpoint(
    endpoint: &WorkloadEndpointSpec,
    network: &str,
    node: &str,
    valid: &[ValidAttachment],
) -> bool {
    let is_known = |attachment: &ValidAttachment| {
        attachment.container_id == endpoint.container_id && attachment.ifname == endpoint.endpoint
    };
    !node.is_empty()
        && endpoint.node == node
        && matches!(endpoint.orchestrator.as_str(), "cni" | "k8s")
        && !endpoint.container_id.is_empty()
        && endpoint.profiles.iter().any(|profile| profile == network)
        && !valid.iter().any(is_known)
}

/// The containers that hold addresses of a block for a network and a node, and are not known any more.
///
/// The handle is `<network>.<container id>`, and both may hold dots: `a.b.c` may be of network `a` or `a.b`. So ids with a dot are left.
pub fn stale_containers<'a>(
    block: &'a IpamBlock,
    network: &str,
    node: &str,
    valid: &[ValidAttachment],
) -> impl Iterator<Item = &'a str> {
    let of_node = move |attributes: &alloc::collections::BTreeMap<String, String>| {
        !node.is_empty() && attributes.get("node").is_some_and(|holder| holder == node)
    };
    let held = block.attributes.iter().filter(move |held| held.released_at.is_none() && of_node(&held.secondary));
    let containers = held.filter_map(move |held| {
        let handle = held.handle_id.as_deref()?.split('\r').next()?;
        handle.strip_prefix(network)?.strip_prefix('.')
    });
    containers.filter(move |container| {
        !container.is_empty()
            && !container.contains('.')
            && !valid.iter().any(|attachment| attachment.container_id == *container)
    })
}
