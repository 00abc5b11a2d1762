//! The shapes of every kind's document.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::Deserialize;
use serde_json::Value;

use super::formats::{CONTAINER_ID, NAME, PORT_NAME};
use super::kinds::Specification;
use super::limit::Limit;
use super::model::Shaped;
use super::order::Order;
use super::shape::{Field, Shape, field, leaf, of, required};
use super::{
    Action, AffinityState, AllocationAttribute, AllowedUse, AssignmentMode, Conditions, DefaultAction, EncapMode,
    GlobalNetworkPolicySpec, HttpMatch, IpNat, IpPoolSpec, NetworkPolicySpec, NetworkSetSpec, PolicyType, ProfileSpec,
    QosControls, RuleMetadata, StagedAction, StagedGlobalNetworkPolicySpec, StagedNetworkPolicySpec, TierSpec,
    WorkloadEndpointSpec,
};
use crate::net::{Cidr, InterfaceName, Mac, Port, Protocol};

pub(super) const TEXT: Shape = leaf(of::<String>);
const FLAG: Shape = leaf(of::<bool>);
const NUMBER: Shape = leaf(of::<Order>);
const CIDR: Shape = leaf(of::<Cidr>);
const TEXTS: Shape = Shape::List(&TEXT);
const CIDRS: Shape = Shape::List(&CIDR);

/// A rule's prefix: stored data may have host bits (they are cleared), an operator's may not.
const RULE_NETS: Shape = Shape::List(&Shape::Leaf { stored: of::<Cidr>, manifest: strict_cidr });

/// A rule's port: no endpoint may give one of its ports a name that is none, so an operator's rule may not, either.
const RULE_PORTS: Shape = Shape::List(&Shape::Leaf { stored: of::<Port>, manifest: rule_port });

fn rule_port(value: &Value) -> Result<Value, String> {
    let canonical = of::<Port>(value)?;
    match Port::deserialize(value) {
        Ok(Port::Named(name)) if (PORT_NAME.check)(&name).is_err() => {
            Err(alloc::format!("expected a port, a range such as 80:90, or a name: {}", PORT_NAME.words))
        }
        _ => Ok(canonical),
    }
}

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

pub(super) const METADATA: Shape = Shape::Struct(&[
    field("name", TEXT),
    field("namespace", TEXT),
    field("uid", TEXT),
    field("resourceVersion", TEXT),
    field("creationTimestamp", TEXT),
    field("deletionTimestamp", TEXT),
    field("labels", Shape::TextMap),
    field("annotations", Shape::TextMap),
    field("generateName", Shape::Carried),
    field("selfLink", Shape::Carried),
    field("generation", Shape::Carried),
    field("deletionGracePeriodSeconds", Shape::Carried),
    field("finalizers", Shape::Carried),
    field("ownerReferences", Shape::Carried),
    field("managedFields", Shape::Carried),
]);

/// The fields of a specification that has a struct written by hand, and the type of the status beside it.
macro_rules! specification {
    ($spec:ty $(=> $status:ty)?: $($field:expr),+ $(,)?) => {
        impl Specification for $spec {
            const FIELDS: &'static [Field] = &[$($field),+];
            $(const STATUS: Shape = <$status>::SHAPE;)?
        }
    };
}

specification![IpPoolSpec => Conditions:
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

const NAMED: &[Limit] = &[Limit::Text(&NAME)];
const CONTAINER: &[Limit] = &[Limit::Text(&CONTAINER_ID)];

specification![WorkloadEndpointSpec:
    field("orchestrator", TEXT).limits(NAMED),
    field("workload", TEXT).limits(NAMED),
    field("node", TEXT).limits(NAMED),
    field("containerID", TEXT).limits(CONTAINER),
    field("pod", TEXT).limits(NAMED),
    field("endpoint", TEXT).limits(NAMED),
    field("serviceAccountName", TEXT).limits(NAMED),
    field("ipNetworks", CIDRS),
    field("ipv4Gateway", leaf(of::<Ipv4Addr>)),
    field("ipv6Gateway", leaf(of::<Ipv6Addr>)),
    field("profiles", TEXTS).limits(NAMED),
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
    field("ipNATs", <Vec<IpNat>>::SHAPE),
    field("qosControls", QosControls::SHAPE),
];

specification![ProfileSpec: field("ingress", RULES), field("egress", RULES), field("labelsToApply", Shape::TextMap)];

specification![TierSpec => Conditions: field("order", NUMBER), field("defaultAction", leaf(of::<DefaultAction>))];

/// The fields that all policies have, and further ones.
macro_rules! policy {
    ($spec:ty: $($further:expr),* $(,)?) => {
        specification![
            $spec:
            field("tier", TEXT),
            field("order", NUMBER),
            field("ingress", RULES),
            field("egress", RULES),
            field("selector", TEXT),
            field("types", Shape::List(&leaf(of::<PolicyType>))),
            field("serviceAccountSelector", TEXT),
            field("performanceHints", TEXTS).limits(&[Limit::Unique, Limit::OneOf(&["AssumeNeededOnEveryNode"])]),
            $($further),*
        ];
    };
}

const NAMESPACE_SELECTOR: Field = field("namespaceSelector", TEXT);
const DO_NOT_TRACK: Field = field("doNotTrack", FLAG);
const PRE_DNAT: Field = field("preDNAT", FLAG);
const APPLY_ON_FORWARD: Field = field("applyOnForward", FLAG);
const STAGED_ACTION: Field = field("stagedAction", leaf(of::<StagedAction>));

policy![NetworkPolicySpec:];
policy![GlobalNetworkPolicySpec: DO_NOT_TRACK, PRE_DNAT, APPLY_ON_FORWARD, NAMESPACE_SELECTOR];
policy![StagedNetworkPolicySpec: STAGED_ACTION];
policy![StagedGlobalNetworkPolicySpec: STAGED_ACTION, DO_NOT_TRACK, PRE_DNAT, APPLY_ON_FORWARD, NAMESPACE_SELECTOR];

specification![NetworkSetSpec: field("nets", Shape::List(&Shape::Leaf { stored: of::<Cidr>, manifest: own_family_cidr }))];

pub(super) const RULES: Shape = Shape::List(&RULE);

const RULE: Shape = Shape::Struct(&[
    required("action", leaf(of::<Action>)),
    field("ipVersion", leaf(of::<u8>)),
    field("protocol", leaf(of::<Protocol>)),
    field("notProtocol", leaf(of::<Protocol>)),
    field("icmp", ICMP),
    field("notICMP", ICMP),
    field("source", ENTITY),
    field("destination", ENTITY),
    field("http", HttpMatch::SHAPE),
    field("metadata", RuleMetadata::SHAPE),
]);

const ICMP: Shape = Shape::Struct(&[field("type", leaf(of::<u8>)), field("code", leaf(of::<u8>))]);

const ENTITY: Shape = Shape::Struct(&[
    field("nets", RULE_NETS),
    field("notNets", RULE_NETS),
    field("selector", TEXT),
    field("notSelector", TEXT),
    field("namespaceSelector", TEXT),
    field("ports", RULE_PORTS),
    field("notPorts", RULE_PORTS),
    field("serviceAccounts", Shape::Struct(&[field("names", TEXTS), field("selector", TEXT)])),
    field("services", Shape::Struct(&[field("name", TEXT).limits(NAMED), field("namespace", TEXT).limits(NAMED)])),
]);

pub(super) static IPAM_BLOCK: Shape = Shape::Struct(&[
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

pub(super) static BLOCK_AFFINITY: Shape =
    Shape::Struct(&[field("state", leaf(of::<AffinityState>)), field("deleted", FLAG)]);

pub(super) static IPAM_HANDLE: Shape =
    Shape::Struct(&[field("block", leaf(of::<alloc::collections::BTreeMap<Cidr, u32>>)), field("deleted", FLAG)]);

pub(super) static IPAM_CONFIG: Shape = Shape::Struct(IPAM_CONFIG_FIELDS);

const IPAM_CONFIG_FIELDS: &[Field] = &[
    field("strict_affinity", FLAG),
    field("auto_allocate_blocks", FLAG),
    field("maxBlocksPerHost", leaf(of::<u32>)),
    field("kubeVirtVMAddressPersistence", TEXT),
    field("ipCooldownSeconds", leaf(of::<u32>)),
];
