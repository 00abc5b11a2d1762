//! The shapes of every kind's document.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::Deserialize;
use serde_json::Value;

use super::shape::{Field, Shape, field, leaf, of, required};
use super::{
    Action, AffinityState, AllocationAttribute, AllowedUse, AssignmentMode, DefaultAction, EncapMode, Kind,
    NodeAddress, PolicyType,
};
use crate::net::{AsNumber, Cidr, InterfaceName, Mac, Port, Protocol};

impl Kind {
    /// The shape of this kind's document.
    pub(super) const fn shape(self) -> &'static Shape {
        match self {
            Self::Node => &NODE,
            Self::IpPool => &IP_POOL,
            Self::WorkloadEndpoint => &WORKLOAD_ENDPOINT,
            Self::Profile => &PROFILE,
            Self::Tier => &TIER,
            Self::NetworkPolicy => &NETWORK_POLICY,
            Self::GlobalNetworkPolicy => &GLOBAL_NETWORK_POLICY,
            Self::NetworkSet | Self::GlobalNetworkSet => &NETWORK_SET,
            Self::IpamBlock => &IPAM_BLOCK,
            Self::BlockAffinity => &BLOCK_AFFINITY,
            Self::IpamHandle => &IPAM_HANDLE,
            Self::IpamConfig => &IPAM_CONFIG,
        }
    }
}

const TEXT: Shape = leaf(of::<String>);
const FLAG: Shape = leaf(of::<bool>);
const NUMBER: Shape = leaf(of::<f64>);
const CIDR: Shape = leaf(of::<Cidr>);
const TEXTS: Shape = Shape::List(&TEXT);
const CIDRS: Shape = Shape::List(&CIDR);

/// A rule's prefix: stored data may have host bits (they are cleared), an operator's may not.
const RULE_NETS: Shape = Shape::List(&Shape::Leaf { stored: of::<Cidr>, manifest: strict_cidr });

fn strict_cidr(value: &Value) -> Result<Value, String> {
    let text = value.as_str().ok_or_else(|| "expected text such as 10.0.0.0/24".to_string())?;
    let cidr = Cidr::parse_strict(text).map_err(|error| error.to_string())?;
    own_family(cidr).map(|cidr| cidr.to_string().into())
}

fn own_family_cidr(value: &Value) -> Result<Value, String> {
    let canonical = of::<Cidr>(value)?;
    Cidr::deserialize(value).map_err(|error| error.to_string()).and_then(own_family).map(|_| canonical)
}

/// An IPv4 address in IPv6's clothes stands in no packet, so a rule with one would never match.
fn own_family(cidr: Cidr) -> Result<Cidr, String> {
    match cidr.address() {
        IpAddr::V6(address) if cidr.length() >= 96 => address.to_ipv4_mapped().map_or(Ok(cidr), |mapped| {
            let length = cidr.length() - 96;
            Err(alloc::format!("no packet has an IPv4-mapped IPv6 address: write {mapped}/{length}"))
        }),
        _ => Ok(cidr),
    }
}

/// Zero says the same as absence, and is always written.
fn host_port(value: &Value) -> Result<Value, String> {
    of::<u16>(value).map(|port| if port == 0 { Value::Null } else { port })
}

const METADATA: Shape = Shape::Struct(&[
    field("name", TEXT),
    field("namespace", TEXT),
    field("uid", TEXT),
    field("resourceVersion", TEXT),
    field("creationTimestamp", TEXT),
    field("labels", Shape::TextMap),
    field("annotations", Shape::TextMap),
    field("generateName", Shape::Carried),
    field("selfLink", Shape::Carried),
    field("generation", Shape::Carried),
    field("deletionTimestamp", Shape::Carried),
    field("deletionGracePeriodSeconds", Shape::Carried),
    field("finalizers", Shape::Carried),
    field("ownerReferences", Shape::Carried),
    field("managedFields", Shape::Carried),
]);

macro_rules! document {
    ($($spec:expr),+ $(,)?) => {
        Shape::Struct(&[
            field("kind", TEXT),
            field("apiVersion", TEXT),
            field("metadata", METADATA),
            field("spec", Shape::Struct(&[$($spec),+])),
            field("status", Shape::Carried),
        ])
    };
}

static NODE: Shape = document![
    field(
        "bgp",
        Shape::Struct(&[
            field("asNumber", leaf(of::<AsNumber>)),
            field("ipv4Address", leaf(of::<NodeAddress>)),
            field("ipv6Address", leaf(of::<NodeAddress>)),
            field("routeReflectorClusterID", TEXT),
            field("ipv4IPIPTunnelAddr", Shape::Carried),
        ])
    ),
    field("ipv4VXLANTunnelAddr", Shape::Carried),
    field("ipv6VXLANTunnelAddr", Shape::Carried),
    field("vxlanTunnelMACAddr", Shape::Carried),
    field("vxlanTunnelMACAddrV6", Shape::Carried),
    field("wireguard", Shape::Carried),
    field("orchRefs", Shape::Carried),
    field("addresses", Shape::Carried),
    field("interfaces", Shape::Carried),
];

static IP_POOL: Shape = document![
    required("cidr", Shape::Leaf { stored: of::<Cidr>, manifest: strict_cidr }),
    field("vxlanMode", leaf(of::<EncapMode>)),
    field("ipipMode", leaf(of::<EncapMode>)),
    field("natOutgoing", FLAG),
    field("disabled", FLAG),
    field("disableBGPExport", FLAG),
    field("blockSize", leaf(of::<u8>)),
    field("nodeSelector", TEXT),
    field("namespaceSelector", TEXT),
    field("allowedUses", Shape::List(&leaf(of::<AllowedUse>))),
    field("assignmentMode", leaf(of::<AssignmentMode>)),
];

static WORKLOAD_ENDPOINT: Shape = document![
    field("orchestrator", TEXT),
    field("workload", TEXT),
    field("node", TEXT),
    field("containerID", TEXT),
    field("pod", TEXT),
    field("endpoint", TEXT),
    field("serviceAccountName", TEXT),
    field("ipNetworks", CIDRS),
    field("ipv4Gateway", leaf(of::<Ipv4Addr>)),
    field("ipv6Gateway", leaf(of::<Ipv6Addr>)),
    field("profiles", TEXTS),
    required("interfaceName", leaf(of::<InterfaceName>)),
    field("mac", leaf(of::<Mac>)),
    field(
        "ports",
        Shape::List(&Shape::Struct(&[
            field("name", TEXT),
            required("protocol", leaf(of::<Protocol>)),
            required("port", leaf(of::<u16>)),
            field("hostPort", leaf(host_port)),
            field("hostIP", TEXT),
        ]))
    ),
    field("allowSpoofedSourcePrefixes", CIDRS),
    field("ipNATs", Shape::Carried),
    field("qosControls", Shape::Carried),
];

static PROFILE: Shape =
    document![field("ingress", RULES), field("egress", RULES), field("labelsToApply", Shape::TextMap)];

static TIER: Shape = document![field("order", NUMBER), field("defaultAction", leaf(of::<DefaultAction>))];

static NETWORK_POLICY: Shape = document![
    field("tier", TEXT),
    field("order", NUMBER),
    field("ingress", RULES),
    field("egress", RULES),
    field("selector", TEXT),
    field("types", Shape::List(&leaf(of::<PolicyType>))),
    field("serviceAccountSelector", TEXT),
    field("performanceHints", Shape::Carried),
];

static GLOBAL_NETWORK_POLICY: Shape = document![
    field("tier", TEXT),
    field("order", NUMBER),
    field("ingress", RULES),
    field("egress", RULES),
    field("selector", TEXT),
    field("types", Shape::List(&leaf(of::<PolicyType>))),
    field("doNotTrack", FLAG),
    field("preDNAT", FLAG),
    field("applyOnForward", FLAG),
    field("serviceAccountSelector", TEXT),
    field("namespaceSelector", TEXT),
    field("performanceHints", Shape::Carried),
];

static NETWORK_SET: Shape =
    document![field("nets", Shape::List(&Shape::Leaf { stored: of::<Cidr>, manifest: own_family_cidr }))];

const RULES: Shape = Shape::List(&RULE);

const RULE: Shape = Shape::Struct(&[
    required("action", leaf(of::<Action>)),
    field("ipVersion", leaf(of::<u8>)),
    field("protocol", leaf(of::<Protocol>)),
    field("notProtocol", leaf(of::<Protocol>)),
    field("icmp", ICMP),
    field("notICMP", ICMP),
    field("source", ENTITY),
    field("destination", ENTITY),
    field("http", leaf(of::<Value>)),
    field("metadata", leaf(of::<Value>)),
]);

const ICMP: Shape = Shape::Struct(&[field("type", leaf(of::<u8>)), field("code", leaf(of::<u8>))]);

const ENTITY: Shape = Shape::Struct(&[
    field("nets", RULE_NETS),
    field("notNets", RULE_NETS),
    field("selector", TEXT),
    field("notSelector", TEXT),
    field("namespaceSelector", TEXT),
    field("ports", Shape::List(&leaf(of::<Port>))),
    field("notPorts", Shape::List(&leaf(of::<Port>))),
    field("serviceAccounts", Shape::Struct(&[field("names", TEXTS), field("selector", TEXT)])),
    field("services", Shape::Struct(&[field("name", TEXT), field("namespace", TEXT)])),
]);

static IPAM_BLOCK: Shape = Shape::Struct(&[
    required("cidr", CIDR),
    field("affinity", TEXT),
    field("affinity_claim_time", TEXT),
    required("allocations", leaf(of::<Vec<Option<usize>>>)),
    required("unallocated", leaf(of::<Vec<u32>>)),
    field("attributes", leaf(of::<Vec<AllocationAttribute>>)),
    field("sequenceNumber", leaf(of::<u64>)),
    field("sequenceNumberForAllocation", leaf(of::<alloc::collections::BTreeMap<String, u64>>)),
    field("deleted", FLAG),
    field("hostAffinity", TEXT),
]);

static BLOCK_AFFINITY: Shape = Shape::Struct(&[field("state", leaf(of::<AffinityState>)), field("deleted", FLAG)]);

static IPAM_HANDLE: Shape =
    Shape::Struct(&[field("block", leaf(of::<alloc::collections::BTreeMap<Cidr, u32>>)), field("deleted", FLAG)]);

static IPAM_CONFIG: Shape = Shape::Struct(IPAM_CONFIG_FIELDS);

const IPAM_CONFIG_FIELDS: &[Field] = &[
    field("strict_affinity", FLAG),
    field("auto_allocate_blocks", FLAG),
    field("maxBlocksPerHost", leaf(of::<u32>)),
    field("kubeVirtVMAddressPersistence", TEXT),
    field("ipCooldownSeconds", leaf(of::<u32>)),
];
