//! What a document must satisfy beyond the form of its fields.
//!
//! Upstream spreads these rules over struct tags, schema and CEL (`libcalico-go/lib/validator`, the CRDs); here each is one
//! function. Stored data is held to those that decide traffic: an object that breaks one could only be widened or guessed at.
//! Manifests are held to all.

mod bgp;
mod hosts;
mod metadata;
mod rules;
mod settings;
mod specs;
mod staged;

use alloc::string::ToString;
use alloc::vec::Vec;
use core::fmt;

use serde_json::Value;

pub use self::metadata::{SUBDOMAIN, is_subdomain};
use super::path::Path;
use super::{API_VERSION, Fault, Kind, Resource, Scope};

/// Which rules apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strictness {
    /// Those that decide traffic.
    Stored,
    /// All.
    Manifest,
}

/// Collects faults.
pub(super) struct Checker {
    strictness: Strictness,
    faults: Vec<Fault>,
}

impl Checker {
    fn is_manifest(&self) -> bool {
        self.strictness == Strictness::Manifest
    }

    fn refuse(&mut self, path: impl fmt::Display, value: impl fmt::Display, reason: impl fmt::Display) {
        self.faults.push(Fault::value(path, Some(value.to_string()), reason));
    }

    fn refuse_field(&mut self, path: impl fmt::Display, reason: impl fmt::Display) {
        self.faults.push(Fault::value(path, None, reason));
    }

    fn missing(&mut self, path: impl fmt::Display) {
        self.faults.push(Fault::missing(path));
    }
}

/// Kind and version of a manifest, as written.
pub(super) fn header(kind: Kind, value: &Value, faults: &mut Vec<Fault>) {
    if !kind.is_v3() {
        return;
    }
    for (name, wanted) in [("kind", kind.name()), ("apiVersion", API_VERSION)] {
        match value.get(name).and_then(Value::as_str) {
            Some(given) if given == wanted => {}
            Some(given) => faults.push(Fault::value(name, Some(given.into()), alloc::format!("expected {wanted}"))),
            None => faults.push(Fault::missing(name)),
        }
    }
}

/// Every rule for the object.
pub(super) fn all(resource: &Resource, strictness: Strictness) -> Result<(), Vec<Fault>> {
    let mut checker = Checker { strictness, faults: Vec::new() };
    if let Some(metadata) = resource.metadata() {
        checker.metadata(resource.kind(), metadata);
    }
    let root = Path::Root;
    let spec = root.field("spec");
    match resource {
        Resource::Node(node) => checker.node(&node.spec, &spec),
        Resource::IpPool(pool) => checker.ip_pool(&pool.spec, &spec),
        Resource::WorkloadEndpoint(endpoint) => checker.workload_endpoint(&endpoint.spec, &spec),
        Resource::Profile(profile) => checker.profile(&profile.spec, &spec),
        Resource::Tier(tier) => checker.tier(&tier.metadata.name, &tier.spec, &spec),
        Resource::NetworkPolicy(policy) => checker.network_policy(&policy.spec, &spec),
        Resource::GlobalNetworkPolicy(policy) => checker.global_network_policy(&policy.spec, &spec),
        Resource::StagedNetworkPolicy(policy) => checker.staged_network_policy(&policy.spec, &spec),
        Resource::StagedGlobalNetworkPolicy(policy) => checker.staged_global_network_policy(&policy.spec, &spec),
        Resource::IpamBlock(block) => checker.ipam_block(block, &root),
        _ => {}
    }
    if strictness == Strictness::Manifest {
        checker.manifest_only(resource, &spec);
    }
    if checker.faults.is_empty() { Ok(()) } else { Err(checker.faults) }
}

impl Checker {
    /// Kinds to whose rules only manifests are held.
    fn manifest_only(&mut self, resource: &Resource, spec: &Path<'_>) {
        match resource {
            Resource::StagedKubernetesNetworkPolicy(policy) => self.staged_kubernetes_policy(&policy.spec, spec),
            Resource::HostEndpoint(endpoint) => self.host_endpoint(&endpoint.spec, spec),
            Resource::BgpConfiguration(object) => self.bgp_configuration(&object.metadata.name, &object.spec, spec),
            Resource::BgpPeer(peer) => self.bgp_peer(&peer.spec, spec),
            Resource::BgpFilter(filter) => self.bgp_filter(&filter.spec, spec),
            Resource::FelixConfiguration(object) => self.felix_configuration(&object.metadata.name, &object.spec, spec),
            Resource::KubeControllersConfiguration(object) => self.kube_controllers(&object.spec, spec),
            Resource::LiveMigration(migration) => self.live_migration(&migration.spec, spec),
            Resource::ApiBlockAffinity(claim) => self.faults.extend(claim.spec.refusal()),
            _ => {}
        }
    }
}

/// Whether a kind's objects need a namespace.
pub(super) fn is_namespaced(kind: Kind) -> bool {
    kind.scope() == Scope::Namespaced
}
