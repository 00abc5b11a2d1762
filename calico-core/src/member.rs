//! Endpoints and network sets as they are written: who has an address, and what selectors find.
//!
//! In come resources, out comes what of them a plain evaluator ([`spec`](crate::spec)) scans; nothing is looked up and nothing decided. The
//! graph reads the same resources on its own.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::net::Cidr;
use crate::resource::{
    BgpConfigurationSpec, HostEndpointSpec, NAMESPACE_LABEL, NetworkSetSpec, Object, ResourceKey, WorkloadEndpointSpec,
};
use crate::text::{Text, TextMap};

/// The label that says under which service account a workload runs.
pub(crate) const SERVICE_ACCOUNT: &str = "projectcalico.org/serviceaccount";

/// An endpoint of a workload or a host.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) key: ResourceKey,
    pub(crate) node: String,
    /// Its interface; of a host endpoint also `*` for all that are left, and empty for those that have one of its addresses.
    pub(crate) interface: String,
    /// Prefixes that a workload may send from beside its addresses.
    pub(crate) further_sources: Vec<Cidr>,
    pub(crate) member: Member,
}

/// What a selector can select: addresses with labels, and names of ports.
#[derive(Debug, Default)]
pub(crate) struct Member {
    pub(crate) labels: TextMap,
    /// Profiles, whose labels it inherits.
    pub(crate) profiles: Vec<Text>,
    pub(crate) nets: Vec<Cidr>,
    /// Name, protocol number and port.
    pub(crate) ports: Vec<(String, u8, u16)>,
}

impl Endpoint {
    /// Without an address or an interface it takes no part.
    pub(crate) fn workload(key: Option<ResourceKey>, object: &Object<WorkloadEndpointSpec>) -> Option<Self> {
        let (metadata, spec) = (&object.metadata, &object.spec);
        // Nobody may claim to be of another namespace or service account.
        let own = metadata.labels.iter().filter(|(key, _)| !key.starts_with("pcns.") && !key.starts_with("pcsa."));
        let mut labels: TextMap = own.map(|(key, value)| (key.clone(), value.clone())).collect();
        labels.extend(metadata.namespace.as_ref().map(|namespace| (NAMESPACE_LABEL.into(), namespace.as_str().into())));
        if !spec.service_account_name.is_empty() {
            labels.insert(SERVICE_ACCOUNT.into(), spec.service_account_name.clone());
        }
        let ports = spec.ports.iter().map(|port| (port.name.to_string(), port.protocol.number(), port.port)).collect();
        let nets: Vec<Cidr> = spec.addresses().collect();
        (!nets.is_empty()).then_some(Self {
            key: key?,
            node: spec.node.to_string(),
            interface: spec.interface_name?.as_str().to_string(),
            further_sources: spec.allow_spoofed_source_prefixes.clone(),
            member: Member { labels, profiles: spec.profiles.clone(), nets, ports },
        })
    }

    pub(crate) fn host(key: Option<ResourceKey>, object: &Object<HostEndpointSpec>) -> Option<Self> {
        let spec = &object.spec;
        let ports = spec.ports.iter().filter_map(|port| Some((port.name.clone(), port.protocol?.number(), port.port?)));
        Some(Self {
            key: key?,
            node: spec.node.clone(),
            interface: spec.interface_name.clone(),
            further_sources: Vec::new(),
            member: Member {
                labels: object.metadata.labels.clone(),
                profiles: spec.profiles.iter().map(|name| name.as_str().into()).collect(),
                nets: spec.expected_ips.iter().copied().map(Cidr::host).collect(),
                ports: ports.collect(),
            },
        })
    }
}

impl Member {
    pub(crate) fn network_set(object: &Object<NetworkSetSpec>) -> Self {
        let namespace = object.metadata.namespace.as_deref();
        let mut labels = object.metadata.labels.clone();
        labels.extend(namespace.map(|namespace| (NAMESPACE_LABEL.into(), namespace.into())));
        let profiles = namespace.map(|namespace| ["kns.", namespace].concat().into());
        let nets = object.spec.nets.clone();
        Self { labels, profiles: profiles.into_iter().collect(), nets, ports: Vec::new() }
    }
}

/// Addresses of services, as they are written.
pub(crate) fn service_ranges(spec: &BgpConfigurationSpec) -> Vec<Cidr> {
    let lists = [&spec.service_cluster_ips, &spec.service_external_ips, &spec.service_load_balancer_ips];
    lists.into_iter().flatten().filter_map(|range| range.cidr.parse().ok()).collect()
}
