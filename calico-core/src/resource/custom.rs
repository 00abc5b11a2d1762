//! IPAM's objects as Kubernetes stores them: custom resources with IPAM's fields in their `spec`.
//!
//! Comes in: the JSON of a custom resource; goes out: key and object of IPAM, and back. There is one model of each kind, that of the
//! other stores; what differs is the shape around it. No other store holds these shapes, so they are no [`Kind`] of their own. What a
//! schema can say of them is said here (limits, mandatory fields, defaults), since a server would refuse what breaks it; how a store
//! deletes, names its labels and hides what is deleted is the store's business.
//!
//! Upstream: `libcalico-go/lib/backend/k8s/resources/{ipam_block,ipam_handle,ipam_affinity}*.go` and the schemas of `api/config/crd`.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::check::{self, Strictness};
use super::formats::{BLOCK_OWNER, DATE_TIME, PREFIX};
use super::kinds::Specification;
use super::limit::Limit;
use super::merge;
use super::model::Shaped;
use super::path::Path;
use super::shape::{Field, Reading, Shape, field, leaf, of, required};
use super::{
    AffinityOwner, AllocationAttribute, BlockAffinity, BlockAffinitySpec, Fault, IpamBlock, IpamHandle, Kind, Resource,
    ResourceKey, schema,
};
use crate::net::Cidr;

/// Groups and versions in which the custom resources exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CustomGroup {
    /// `crd.projectcalico.org/v1`: of clusters with an API server of Calico's own before them.
    Crd,
    /// `projectcalico.org/v3`: served as they are.
    Api,
}

impl CustomGroup {
    /// As documents name it.
    pub const fn api_version(self) -> &'static str {
        match self {
            Self::Crd => "crd.projectcalico.org/v1",
            Self::Api => super::API_VERSION,
        }
    }
}

/// IPAM's kinds that are custom resources of their own shape.
pub const CUSTOM_KINDS: [Kind; 3] = [Kind::IpamBlock, Kind::BlockAffinity, Kind::IpamHandle];

const BLOCK: &[Field] = &[
    required("cidr", schema::TEXT).limits(const { &[Limit::Text(&PREFIX)] }),
    field("affinity", schema::TEXT).limits(const { &[Limit::Text(&BLOCK_OWNER)] }),
    field("affinityClaimTime", schema::TEXT).limits(const { &[Limit::Text(&DATE_TIME)] }),
    required("allocations", leaf(of::<Vec<Option<usize>>>)),
    required("unallocated", leaf(of::<Vec<u32>>)),
    required("attributes", Shape::List(&Shape::Struct(ATTRIBUTE))),
    field("sequenceNumber", leaf(of::<u64>)).filled_with("0"),
    field("sequenceNumberForAllocation", leaf(of::<BTreeMap<String, u64>>)),
    field("deleted", <bool as Shaped>::SHAPE),
    // Of no use to anybody, and mandatory.
    field("strictAffinity", <bool as Shaped>::SHAPE),
];

const ATTRIBUTE: &[Field] = &[
    field("handle_id", schema::TEXT),
    field("secondary", Shape::TextMap),
    field("alternateOwnerAttrs", Shape::TextMap),
    field("releasedAt", schema::TEXT).limits(const { &[Limit::Text(&DATE_TIME)] }),
];

const HANDLE: &[Field] = &[
    required("handleID", schema::TEXT),
    required("block", leaf(of::<BTreeMap<Cidr, u32>>)),
    field("deleted", <bool as Shaped>::SHAPE),
];

macro_rules! document {
    ($spec:expr) => {{
        const SHAPE: &Shape = &Shape::Struct(&[
            field("kind", schema::TEXT),
            field("apiVersion", schema::TEXT),
            field("metadata", schema::METADATA),
            required("spec", Shape::Struct($spec)),
        ]);
        Some(SHAPE)
    }};
}

/// The shape of a kind's custom resource; none where there is no such.
pub(super) fn shape(kind: Kind) -> Option<&'static Shape> {
    match kind {
        Kind::IpamBlock => document!(BLOCK),
        Kind::IpamHandle => document!(HANDLE),
        Kind::BlockAffinity => document!(BlockAffinitySpec::FIELDS),
        _ => None,
    }
}

/// The raw specification of a block.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockSpec {
    cidr: Cidr,
    affinity: Option<String>,
    affinity_claim_time: Option<String>,
    allocations: Vec<Option<usize>>,
    unallocated: Vec<u32>,
    attributes: Vec<AllocationAttribute>,
    #[serde(default)]
    sequence_number: u64,
    #[serde(default)]
    sequence_number_for_allocation: BTreeMap<String, u64>,
    #[serde(default)]
    deleted: bool,
}

/// The raw specification of a handle.
#[derive(Deserialize)]
struct HandleSpec {
    #[serde(rename = "handleID")]
    handle_id: String,
    block: BTreeMap<Cidr, u32>,
    #[serde(default)]
    deleted: bool,
}

/// Key and object of IPAM that a stored custom resource of a kind stands for.
///
/// # Errors
/// At least one fault: all that was found, each with its path.
pub fn from_custom(kind: Kind, document: &Value) -> Result<(ResourceKey, Resource), Vec<Fault>> {
    read(kind, document, Reading::Stored)
}

/// As [`from_custom`], held to all that the schema of the kind says, which a server refuses to store.
///
/// # Errors
/// As [`from_custom`].
pub fn from_custom_strict(kind: Kind, document: &Value) -> Result<(ResourceKey, Resource), Vec<Fault>> {
    read(kind, document, Reading::Manifest { stored: None })
}

fn read(kind: Kind, document: &Value, reading: Reading<'_>) -> Result<(ResourceKey, Resource), Vec<Fault>> {
    let reason = || format!("{kind} is no custom resource of this shape");
    let shape = shape(kind).ok_or_else(|| vec![Fault::value("kind", None, reason())])?;
    let mut document = shape.without_nulls(document);
    let mut faults = Vec::new();
    shape.faults(&document, &Path::Root, reading, &mut faults);
    if !faults.is_empty() {
        return Err(faults);
    }
    shape.fill(&mut document);
    let spec = document.get("spec").unwrap_or(&Value::Null);
    let (key, resource) = typed(kind, spec)?;
    check::all(&resource, Strictness::Stored).map_err(below_spec)?;
    Ok((key, resource))
}

fn typed(kind: Kind, spec: &Value) -> Result<(ResourceKey, Resource), Vec<Fault>> {
    // What the shape lets through, serde reads; a test makes documents of the shape.
    let unread = |error: serde_json::Error| vec![Fault::value("spec", None, error.to_string())];
    match kind {
        Kind::IpamBlock => {
            let spec = BlockSpec::deserialize(spec).map_err(unread)?;
            let block = IpamBlock {
                cidr: spec.cidr,
                affinity: spec.affinity,
                affinity_claim_time: spec.affinity_claim_time,
                allocations: spec.allocations,
                unallocated: spec.unallocated,
                attributes: spec.attributes,
                sequence_number: spec.sequence_number,
                sequence_number_for_allocation: spec.sequence_number_for_allocation,
                deleted: spec.deleted,
                host_affinity: None,
            };
            Ok((ResourceKey::Block(block.cidr), Resource::IpamBlock(block)))
        }
        Kind::IpamHandle => {
            let spec = HandleSpec::deserialize(spec).map_err(unread)?;
            let handle = IpamHandle { block: spec.block, deleted: spec.deleted };
            Ok((ResourceKey::Handle(spec.handle_id.into()), Resource::IpamHandle(handle)))
        }
        _ => {
            let spec = BlockAffinitySpec::deserialize(spec).map_err(unread)?;
            let (key, claim) = spec.claim().map_err(|fault| vec![fault])?;
            Ok((key, Resource::BlockAffinity(claim)))
        }
    }
}

/// IPAM's objects have no `spec` of their own.
fn below_spec(faults: Vec<Fault>) -> Vec<Fault> {
    let below = |mut fault: Fault| {
        fault.path = format!("spec.{}", fault.path);
        fault
    };
    faults.into_iter().map(below).collect()
}

/// The custom resource of an object of IPAM, over the one that was read, if there was one: what nobody here knows of that survives.
/// Metadata has the name alone; the rest is the store's. None where key and object are not of one kind that has custom resources.
pub fn to_custom(key: &ResourceKey, resource: &Resource, group: CustomGroup, base: Option<&Value>) -> Option<Value> {
    let spec = match (key, resource) {
        (ResourceKey::Block(_), Resource::IpamBlock(block)) => block_spec(block),
        (ResourceKey::Handle(id), Resource::IpamHandle(handle)) => {
            json!({"handleID": id, "block": handle.block, "deleted": handle.deleted})
        }
        (ResourceKey::Affinity { owner, block }, Resource::BlockAffinity(claim)) => {
            affinity_spec(owner, *block, claim, group)
        }
        _ => return None,
    };
    let kind = key.kind();
    let deleted = spec.get("deleted").cloned();
    let typed = json!({
        "kind": kind.name(),
        "apiVersion": group.api_version(),
        "metadata": {"name": custom_name(key)?},
        "spec": spec,
    });
    let Some(base) = base else { return Some(typed) };
    let mut merged = merge::over(shape(kind)?, base, typed);
    // What means the same keeps its words, and here each group has its own.
    if let (Some(slot), Some(deleted)) = (merged.pointer_mut("/spec/deleted"), deleted) {
        *slot = deleted;
    }
    // Whose the metadata is, is said above.
    if let (Some(metadata), Some(older)) =
        (merged.get_mut("metadata").and_then(Value::as_object_mut), base.get("metadata").and_then(Value::as_object))
    {
        for (name, member) in older {
            metadata.entry(name.clone()).or_insert_with(|| member.clone());
        }
    }
    Some(merged)
}

fn block_spec(block: &IpamBlock) -> Value {
    let mut spec = json!({
        "cidr": block.cidr,
        "allocations": block.allocations,
        "unallocated": block.unallocated,
        "attributes": block.attributes,
        "sequenceNumber": block.sequence_number,
        "sequenceNumberForAllocation": block.sequence_number_for_allocation,
        "deleted": block.deleted,
        "strictAffinity": false,
    });
    for (name, value) in [("affinity", &block.affinity), ("affinityClaimTime", &block.affinity_claim_time)] {
        if let (Some(value), Some(spec)) = (value, spec.as_object_mut()) {
            spec.insert(name.to_owned(), value.as_str().into());
        }
    }
    spec
}

fn affinity_spec(owner: &AffinityOwner, block: Cidr, claim: &BlockAffinity, group: CustomGroup) -> Value {
    let spec = BlockAffinitySpec::of(owner, block, claim);
    let mut value = json!(spec);
    if let (CustomGroup::Crd, Some(deleted)) = (group, value.get_mut("deleted")) {
        // For the sake of earlier versions.
        *deleted = spec.deleted.0.to_string().into();
    }
    value
}

/// Longest name that Kubernetes takes.
const MAX_NAME: usize = 253;
/// Digits of the digest that tells names apart which had to be cut.
const DIGEST: usize = 11;

/// The name of an object's custom resource, which says less than its key: letters of a handle's id are small there, and a long host's
/// name is cut. None where there is no such resource.
pub fn custom_name(key: &ResourceKey) -> Option<String> {
    match key {
        ResourceKey::Block(block) => Some(block_name(block)),
        ResourceKey::Handle(id) => Some(id.to_lowercase()),
        ResourceKey::Affinity { owner: AffinityOwner::Host(name) | AffinityOwner::Virtual(name), block } => {
            let block = block_name(block);
            let full = format!("{name}-{block}");
            if full.len() < MAX_NAME {
                return Some(full);
            }
            let digest = Sha256::digest(format!("{name}+{block}"));
            let digest: String = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(hex).take(DIGEST).collect();
            // Room for both dashes, and what upstream leaves free beside.
            let room = (MAX_NAME - 1).saturating_sub(block.len()).saturating_sub(DIGEST + 2);
            let cut = name.char_indices().map(|(at, one)| at + one.len_utf8()).take_while(|end| *end <= room).last();
            Some(format!("{}-{block}-{digest}", name.get(..cut.unwrap_or(0)).unwrap_or_default()))
        }
        _ => None,
    }
}

fn hex(digit: u8) -> char {
    char::from_digit(u32::from(digit), 16).unwrap_or('0')
}

fn block_name(block: &Cidr) -> String {
    block.to_string().replace(['.', ':', '/'], "-")
}

#[cfg(test)]
pub(super) mod tests;
