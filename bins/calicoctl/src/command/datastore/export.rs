//! What upstream's `import` reads: resources as YAML, the cluster's information and the addresses as JSON, a line `===` between.
//!
//! In the Kubernetes datastore nodes have Kubernetes' names, so everything that names a node is renamed. Beyond upstream's export:
//! staged policies of all namespaces (not only of `default`), the nodes of host endpoints and BGP peers, and the handles of IPv6 tunnels.

use std::collections::BTreeMap;
use std::fmt;

use calico_cmd::output::chain;
use calico_core::resource::{AffinityOwner, Kind, Resource, ResourceKey};
use calico_datastore::client::Client;
use calico_datastore::{Entry, Scope, Stored, path};
use serde_json::{Map, Value, json};

use super::information;
use crate::failure::Failure;
use crate::output;
use crate::protected::is_mirrored;
use crate::spoilt::ways_out;
use crate::write::told;
use calico_cmd::output::printable;

/// Upstream's order: tiers before what is in them, nodes before what names them.
const KINDS: [Kind; 17] = [
    Kind::IpPool,
    Kind::BgpPeer,
    Kind::Tier,
    Kind::GlobalNetworkPolicy,
    Kind::StagedGlobalNetworkPolicy,
    Kind::GlobalNetworkSet,
    Kind::HostEndpoint,
    Kind::KubeControllersConfiguration,
    Kind::NetworkPolicy,
    Kind::StagedNetworkPolicy,
    Kind::StagedKubernetesNetworkPolicy,
    Kind::NetworkSet,
    Kind::Node,
    Kind::BgpConfiguration,
    Kind::FelixConfiguration,
    Kind::IpReservation,
    Kind::BgpFilter,
];

/// Handles of tunnel addresses end in the node's name.
const TUNNELS: [&str; 5] = [
    "ipip-tunnel-addr-",
    "vxlan-tunnel-addr-",
    "vxlan-v6-tunnel-addr-",
    "wireguard-tunnel-addr-",
    "wireguard-v6-tunnel-addr-",
];

/// Settings that version 1 wrote in capitals, and version 3 as a word.
const ACTIONS: [&str; 4] = [
    "/spec/defaultEndpointToHostAction",
    "/spec/iptablesFilterAllowAction",
    "/spec/iptablesMangleAllowAction",
    "/spec/iptablesFilterDenyAction",
];

/// Everything of a locked datastore, as text, and what of it was left out. What cannot be read is an error unless it is to be left out,
/// one that names all of it.
pub(super) async fn export(client: &Client, skip_unreadable: bool) -> Result<(String, Vec<String>), Failure> {
    let information = locked(client).await?;
    let mut unread = Vec::new();
    let nodes = Nodes::read(client, &mut unread).await?;
    let resources = resources(client, &nodes, &mut unread).await?;
    let addresses = addresses(client, &nodes, &mut unread).await?;
    if !unread.is_empty() && !skip_unreadable {
        let line = |one: &Unread| format!("failed to retrieve {} resources: {one}\n", one.key.kind());
        let lines: String = unread.iter().map(line).collect();
        let without = "  to export what can be read: calicoctl datastore migrate export --skip-unreadable";
        return Err(Failure::Message(format!("{lines}{}\n{without}\nNothing was exported.", ways_out())));
    }
    let left_out: Vec<String> = unread.iter().map(Unread::to_string).collect();
    // No line may look like what divides the parts.
    let mut text: String = left_out.iter().map(|one| format!("# left out: {} #\n", printable(one))).collect();
    text += &resources;
    text += "===\n";
    text += &output::json(&information);
    text += "===\n";
    text += &output::json(&addresses);
    Ok((text, left_out))
}

/// Resources of every kind, as YAML.
async fn resources(client: &Client, nodes: &Nodes, unread: &mut Vec<Unread>) -> Result<String, Failure> {
    let mut text = String::new();
    for kind in KINDS {
        let listing = client.list(&Scope::Kind(kind)).await.map_err(|error| failed(kind, &chain(&error)))?;
        let mut items = Vec::with_capacity(listing.entries.len());
        for entry in listing.entries {
            let shown = match &entry {
                Ok(stored) => stored.resource.key(),
                Err(bad) => Some(bad.key.clone()),
            };
            if shown.as_ref().is_some_and(is_mirrored) {
                continue;
            }
            // Those of nodes are noted already.
            let own = if kind == Kind::Node { &mut Vec::new() } else { &mut *unread };
            items.extend(readable(entry, own).map(|stored| nodes.renamed(&stored)));
        }
        text += &output::yaml(output::list(kind, listing.revision, items));
        text += "---\n";
    }
    Ok(text)
}

/// The cluster's information, which must say that the datastore is locked.
async fn locked(client: &Client) -> Result<Value, Failure> {
    let stored = client.get(&information()).await.map_err(|error| {
        Failure::message(format_args!("error while checking if datastore was locked: {}", told(&error, None)))
    })?;
    match &*stored.resource {
        Resource::ClusterInformation(cluster) if cluster.spec.datastore_ready == Some(false) => {
            Ok(output::shown(&stored.resource, &stored.raw))
        }
        _ => Err(Failure::message(
            "datastore is not locked. Run the `calicoctl datastore migrate lock` command in order to begin migration",
        )),
    }
}

fn failed(kind: Kind, reason: &str) -> Failure {
    Failure::message(format_args!("failed to retrieve {kind} resources: {reason}"))
}

/// What cannot be read, or not be printed as it is stored.
struct Unread {
    key: ResourceKey,
    reason: String,
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be read: {}", self.key, self.reason)?;
        if Kind::OPERATORS.contains(&self.key.kind()) { Ok(()) } else { f.write_str(" (calicoctl has no verb for it)") }
    }
}

/// What can be printed; anything else is noted.
fn readable(entry: Entry, unread: &mut Vec<Unread>) -> Option<Stored> {
    let (key, reason) = match entry {
        Ok(stored) => match stored.raw.inexact() {
            Some(reason) => (stored.key.clone(), reason.to_owned()),
            None => return Some(stored),
        },
        Err(bad) => (bad.key, bad.reason),
    };
    unread.push(Unread { key, reason });
    None
}

/// What Kubernetes calls each node.
struct Nodes(BTreeMap<String, String>);

impl Nodes {
    async fn read(client: &Client, unread: &mut Vec<Unread>) -> Result<Self, Failure> {
        let listing = client.list(&Scope::Kind(Kind::Node)).await;
        let listing = listing.map_err(|error| failed(Kind::Node, &chain(&error)))?;
        let mut names = BTreeMap::new();
        for entry in listing.entries {
            let Some(stored) = readable(entry, unread) else { continue };
            let Resource::Node(node) = &*stored.resource else { continue };
            let name = &node.metadata.name;
            let reference = node.spec.orch_refs.iter().rev().find(|reference| reference.orchestrator == "k8s");
            let Some(reference) = reference.filter(|reference| !reference.node_name.is_empty()) else {
                return Err(Failure::message(format_args!(
                    "unable to process metadata for export for Node resource: node {name} missing a 'k8s' orchestrator reference. \
                     Unable to export data unless every node has a 'k8s' orchestrator reference"
                )));
            };
            names.insert(name.clone(), reference.node_name.clone());
        }
        Ok(Self(names))
    }

    /// Renames text that is the name of a node, after a prefix.
    fn rename(&self, prefix: &str, text: &mut String) {
        if let Some(name) = text.strip_prefix(prefix).and_then(|node| self.0.get(node)) {
            *text = format!("{prefix}{name}");
        }
    }

    fn rename_at(&self, document: &mut Value, pointer: &str, prefix: &str) {
        if let Some(Value::String(text)) = document.pointer_mut(pointer) {
            self.rename(prefix, text);
        }
    }

    /// A resource without what belongs to its cluster, and with the nodes' other names.
    fn renamed(&self, stored: &Stored) -> Value {
        let mut document = output::shown(&stored.resource, &stored.raw);
        if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
            for name in ["uid", "creationTimestamp"] {
                metadata.shift_remove(name);
            }
        }
        match stored.key.kind() {
            Kind::Node => self.rename_at(&mut document, "/metadata/name", ""),
            Kind::HostEndpoint | Kind::BgpPeer => self.rename_at(&mut document, "/spec/node", ""),
            Kind::BgpConfiguration => self.rename_at(&mut document, "/metadata/name", "node."),
            Kind::FelixConfiguration => {
                self.rename_at(&mut document, "/metadata/name", "node.");
                for pointer in ACTIONS {
                    if let Some(Value::String(word)) = document.pointer_mut(pointer) {
                        *word = title(word);
                    }
                }
            }
            _ => {}
        }
        document
    }

    fn rename_handle(&self, handle: &mut String) {
        for prefix in TUNNELS {
            self.rename(prefix, handle);
        }
    }

    fn rename_block(&self, block: &mut Value) {
        self.rename_at(block, "/affinity", "host:");
        for attribute in block.get_mut("attributes").and_then(Value::as_array_mut).into_iter().flatten() {
            self.rename_at(attribute, "/secondary/node", "");
            self.rename_at(attribute, "/alternateOwnerAttrs/node", "");
            if let Some(Value::String(handle)) = attribute.get_mut("handle_id") {
                self.rename_handle(handle);
            }
        }
    }

    /// The key with the nodes' other names.
    fn renamed_key(&self, key: &ResourceKey) -> ResourceKey {
        match key {
            ResourceKey::Affinity { owner: AffinityOwner::Host(host), block } => {
                let mut host = host.to_string();
                self.rename("", &mut host);
                ResourceKey::Affinity { owner: AffinityOwner::Host(host.into()), block: *block }
            }
            ResourceKey::Handle(id) => {
                let mut id = id.to_string();
                self.rename_handle(&mut id);
                ResourceKey::Handle(id.into())
            }
            other => other.clone(),
        }
    }
}

/// `ACCEPT` as `Accept`.
fn title(word: &str) -> String {
    let mut characters = word.chars();
    let first = characters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(characters.map(|c| c.to_ascii_lowercase())).collect()
}

/// Everything of IPAM by upstream's keys.
async fn addresses(client: &Client, nodes: &Nodes, unread: &mut Vec<Unread>) -> Result<Value, Failure> {
    let mut document = Map::new();
    for (name, kind) in
        [("block_affinities", Kind::BlockAffinity), ("blocks", Kind::IpamBlock), ("handles", Kind::IpamHandle)]
    {
        let pairs = pairs(client, nodes, kind, unread).await?;
        if !pairs.is_empty() {
            document.insert(name.to_owned(), pairs.into());
        }
    }
    if let Some(config) = pairs(client, nodes, Kind::IpamConfig, unread).await?.pop() {
        document.insert("config".to_owned(), config);
    }
    Ok(Value::Object(document))
}

async fn pairs(client: &Client, nodes: &Nodes, kind: Kind, unread: &mut Vec<Unread>) -> Result<Vec<Value>, Failure> {
    let listing = client.store().list(&Scope::Kind(kind)).await;
    let listing = listing.map_err(|error| failed(kind, &chain(&error)))?;
    let mut pairs = Vec::with_capacity(listing.entries.len());
    for entry in listing.entries {
        let Some(stored) = readable(entry, unread) else { continue };
        let key = path(&nodes.renamed_key(&stored.key)).map_err(|error| failed(kind, &chain(&error)))?;
        let mut value = Value::clone(&stored.raw);
        if kind == Kind::IpamBlock {
            nodes.rename_block(&mut value);
        }
        pairs.push(json!({ "Key": key, "Value": value, "TTL": 0 }));
    }
    Ok(pairs)
}
