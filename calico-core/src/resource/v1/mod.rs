//! Documents of older encodings as parsers into the v3 model: Calico's `apiVersion: v1`, and Kubernetes' `NetworkPolicy`.
//!
//! In comes a document, out comes the [`Resource`] that upstream's converter (removed in 3.32) made of it, not yet checked by the rules of
//! its kind: names are made lower case and given a suffix where that changed them, tags become labels without value, and conditions on tags
//! selectors. Four things differ. A policy of the default tier keeps its name (its prefix `default.` is gone since 3.32). A rule with both
//! `notTag` and `notSelector` denies either, as version 1 did (upstream's conversion let through what has only one of them); an IP
//! block of Kubernetes beside selectors is refused; and a policy of Kubernetes without types governs what Kubernetes says it does. Namespaces,
//! labels and annotations that no field of v3 takes are left out, as upstream does.

mod endpoints;
mod kubernetes;
mod names;
mod policies;
mod routing;
mod rules;
#[cfg(test)]
mod tests;

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use serde::de::DeserializeOwned;
use serde_json::Value;

pub use endpoints::{
    EndpointPort, HostEndpoint, HostEndpointMetadata, HostEndpointSpec, WorkloadEndpoint, WorkloadEndpointMetadata,
    WorkloadEndpointSpec,
};
pub(super) use kubernetes::enforced;
pub use kubernetes::{NetworkPolicy, NetworkPolicySpec, RuleOrigins, convert_kubernetes_policy};
pub use policies::{
    Policy, PolicyMetadata, PolicySpec, Profile, ProfileMetadata, ProfileSpec, Tier, TierMetadata, TierSpec,
};
pub use routing::{
    BgpPeer, BgpPeerMetadata, BgpPeerSpec, IpPool, IpPoolMetadata, IpPoolSpec, Ipip, Node, NodeBgpSpec, NodeMetadata,
    NodeSpec,
};
pub use rules::{EntityRule, IcmpFields, Rule, RuleProtocol};

use super::model::Shaped;
use super::path::Path;
use super::shape::Reading;
use super::{API_VERSION, Fault, Resource};

/// Version of Calico's older documents.
const VERSION_1: &str = "v1";
/// Group and version of Kubernetes' policies.
const KUBERNETES: &str = "networking.k8s.io/v1";

/// A document of an older encoding.
trait Older: Shaped + DeserializeOwned {
    /// What it says, in the v3 model.
    fn convert(self) -> Result<Resource, Fault>;
}

/// Whether it is a document that [`convert`] reads, or would if it had no fault.
pub fn is_older(value: &Value) -> bool {
    reader(value).is_ok()
}

/// The v3 resource that an older document describes.
///
/// # Errors
/// At least one fault: a kind that has no older form, or what is wrong with the document.
pub fn convert(value: &Value) -> Result<Resource, Vec<Fault>> {
    reader(value).map_err(|fault| vec![fault])?(value)
}

type Reader = fn(&Value) -> Result<Resource, Vec<Fault>>;

fn reader(value: &Value) -> Result<Reader, Fault> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    match (version, kind.to_ascii_lowercase().as_str()) {
        (VERSION_1, "ippool") => Ok(read::<IpPool>),
        (VERSION_1, "bgppeer") => Ok(read::<BgpPeer>),
        (VERSION_1, "node") => Ok(read::<Node>),
        (VERSION_1, "hostendpoint") => Ok(read::<HostEndpoint>),
        (VERSION_1, "workloadendpoint") => Ok(read::<WorkloadEndpoint>),
        (VERSION_1, "policy") => Ok(read::<Policy>),
        (VERSION_1, "profile") => Ok(read::<Profile>),
        (VERSION_1, "tier") => Ok(read::<Tier>),
        (KUBERNETES, "networkpolicy") => Ok(read::<NetworkPolicy>),
        (VERSION_1 | KUBERNETES, _) => {
            let reason = "conversion for this resource type is not supported: ipPool, bgpPeer, node, hostEndpoint, workloadEndpoint, \
                          policy, profile and tier of v1 can be converted, and NetworkPolicy of networking.k8s.io/v1";
            Err(Fault::value("kind", Some(kind.to_string()), reason))
        }
        (API_VERSION, _) => {
            Err(Fault::value("apiVersion", Some(version.to_string()), "the document is of version 3 already"))
        }
        _ => {
            let reason = "only v1 (Calico) and networking.k8s.io/v1 (Kubernetes) can be converted";
            Err(Fault::value("apiVersion", Some(version.to_string()), reason))
        }
    }
}

fn read<T: Older>(value: &Value) -> Result<Resource, Vec<Fault>> {
    document::<T>(value)?.convert().map_err(|fault| vec![fault])
}

fn document<T: Older>(value: &Value) -> Result<T, Vec<Fault>> {
    let mut faults = Vec::new();
    T::SHAPE.faults(value, &Path::Root, Reading::Manifest { stored: None }, &mut faults);
    if !faults.is_empty() {
        return Err(faults);
    }
    T::deserialize(T::SHAPE.without_nulls(value)).map_err(|error| vec![Fault::value("", None, error)])
}
