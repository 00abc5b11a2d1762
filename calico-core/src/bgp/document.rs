//! A speaker described by one document: no datastore, no cluster, for embedders and tools.
//!
//! In comes a JSON value (YAML is the caller's to read), out goes a [`DesiredBgp`]. Fields are called as those of BGPPeer where it has them;
//! filters are specifications of BGPFilters. Nothing is passed over: a field that is not known is an error, as is a filter that would
//! not do what is written. See `examples/data/speaker.yaml` for all of it.

mod peer;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::Deserialize;
use serde_json::{Value, json};

use self::peer::PeerSpec;
use super::topology::CompiledFilter;
use super::{
    BGP_PORT, DesiredBgp, DynamicPeers, Filter, Listen, LocalSpeaker, NORMAL_PRIORITY, Origin, Originated, PeerId,
};
use crate::net::{AsNumber, Cidr, Family};
use crate::resource::{API_VERSION, Kind, Resource};

/// Why a document describes no speaker.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct DocumentError {
    place: String,
    reason: String,
}

impl DocumentError {
    fn new(place: impl ToString, reason: impl ToString) -> Self {
        Self { place: place.to_string(), reason: reason.to_string() }
    }
}

/// The document.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SpeakerSpec {
    #[serde(default)]
    name: String,
    as_number: AsNumber,
    #[serde(rename = "routerID")]
    router_id: Option<Ipv4Addr>,
    #[serde(default)]
    addresses: Vec<IpAddr>,
    port: Option<u16>,
    #[serde(rename = "clusterID")]
    cluster_id: Option<Ipv4Addr>,
    #[serde(default)]
    prefixes: Vec<Cidr>,
    #[serde(default)]
    peers: Vec<PeerSpec>,
    #[serde(default)]
    dynamic: Vec<DynamicSpec>,
    #[serde(default)]
    filters: BTreeMap<String, Value>,
}

/// Peers that call from a range.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DynamicSpec {
    range: Cidr,
    limit: u32,
    like: PeerSpec,
}

impl DesiredBgp {
    /// What a document asks for.
    pub fn from_document(document: &Value) -> Result<Self, DocumentError> {
        let spec = SpeakerSpec::deserialize(document).map_err(|error| DocumentError::new("the document", error))?;
        let filters = filters(&spec.filters)?;
        let local = local(&spec)?;
        let mut peers = Vec::new();
        let mut known = BTreeSet::new();
        for (index, peer) in spec.peers.iter().enumerate() {
            let place = alloc::format!("peers[{index}]");
            let id = peer.id().map_err(|reason| DocumentError::new(&place, reason))?;
            if Some(id.address) == local.address(Family::of(id.address)) {
                return Err(DocumentError::new(&place, "its address is the speaker's own"));
            }
            if !known.insert(id) {
                return Err(DocumentError::new(&place, alloc::format!("{id} is a peer already")));
            }
            peers.push(peer.desired(id, &filters).map_err(|reason| DocumentError::new(&place, reason))?);
        }
        peers.sort_by_key(|peer| peer.id);
        let mut originated: Vec<_> = spec.prefixes.iter().map(|prefix| announced(*prefix)).collect();
        originated.sort();
        originated.dedup();
        let dynamic = dynamic(&spec.dynamic, &filters)?;
        Ok(Self { local: Some(local), peers, dynamic, originated, ..Self::default() })
    }
}

const fn announced(prefix: Cidr) -> Originated {
    Originated { prefix, origin: Origin::Static, priority: NORMAL_PRIORITY }
}

fn local(spec: &SpeakerSpec) -> Result<LocalSpeaker, DocumentError> {
    let (mut ipv4, mut ipv6): (Option<Ipv4Addr>, Option<Ipv6Addr>) = (None, None);
    for (index, address) in spec.addresses.iter().enumerate() {
        let former = match *address {
            IpAddr::V4(address) => ipv4.replace(address).is_some(),
            IpAddr::V6(address) => ipv6.replace(address).is_some(),
        };
        if former {
            let reason = "there is one of its family already: a speaker has one address of each";
            return Err(DocumentError::new(alloc::format!("addresses[{index}]"), reason));
        }
    }
    let router_id = spec.router_id.or(ipv4);
    let router_id =
        router_id.ok_or_else(|| DocumentError::new("routerID", "a speaker without an IPv4 address needs one"))?;
    if router_id.is_unspecified() {
        return Err(DocumentError::new("routerID", "it cannot be zero (RFC 6286)"));
    }
    Ok(LocalSpeaker {
        node: if spec.name.is_empty() { router_id.to_string() } else { spec.name.clone() },
        as_number: spec.as_number,
        router_id,
        ipv4,
        ipv6,
        cluster_id: spec.cluster_id,
        listen: Listen { port: spec.port.unwrap_or(BGP_PORT), own_addresses: !spec.addresses.is_empty() },
    })
}

fn dynamic(specs: &[DynamicSpec], filters: &BTreeMap<&str, Arc<Filter>>) -> Result<Vec<DynamicPeers>, DocumentError> {
    let mut all = Vec::new();
    for (index, spec) in specs.iter().enumerate() {
        let fault = |reason| DocumentError::new(alloc::format!("dynamic[{index}]"), reason);
        if spec.like.address.is_some() {
            return Err(fault("its peers call from the range: `like` has no address".to_string()));
        }
        if specs.iter().take(index).any(|other| other.range == spec.range) {
            return Err(fault(alloc::format!("there is a range {} already", spec.range)));
        }
        let like = spec.like.desired(PeerId::from(spec.range.address()), filters).map_err(fault)?;
        all.push(DynamicPeers { range: spec.range, limit: spec.limit, like });
    }
    all.sort_by_key(|peers| peers.range);
    Ok(all)
}

/// Filters by name. One that would not do what is written is none.
fn filters(specs: &BTreeMap<String, Value>) -> Result<BTreeMap<&str, Arc<Filter>>, DocumentError> {
    let compiled = specs.iter().map(|(name, spec)| {
        let fault = |reason: String| DocumentError::new(alloc::format!("filters.{name}"), reason);
        let document =
            json!({"apiVersion": API_VERSION, "kind": "BGPFilter", "metadata": {"name": name}, "spec": spec});
        let resource = Resource::decode_strict(Kind::BgpFilter, &document, None);
        let resource = resource.map_err(|faults| fault(faults.first().map(ToString::to_string).unwrap_or_default()))?;
        let Resource::BgpFilter(filter) = &resource else { return Err(fault("it is no filter".to_string())) };
        let compiled = CompiledFilter::new(&name.as_str().into(), &filter.metadata, &filter.spec);
        match compiled.problems.first() {
            Some(problem) => Err(fault(problem.to_string())),
            None => Ok((name.as_str(), compiled.filter)),
        }
    });
    compiled.collect()
}

#[cfg(test)]
mod tests;
