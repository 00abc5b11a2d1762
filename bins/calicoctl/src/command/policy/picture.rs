//! The resources that policy looks at, from a datastore or from files.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use calico_cmd::manifest::{Document, Place};
use calico_cmd::output::chain;
use calico_core::Few;
use calico_core::kubernetes::{self, Converted};
use calico_core::resource::v1::{self, RuleOrigins};
use calico_core::resource::{Fault, Kind, PolicyType, Resource, ResourceKey, Rule, clipped};
use calico_core::service::{EndpointSlice, EndpointSliceKey};
use calico_datastore::Scope;
use calico_datastore::client::Client;
use serde_json::Value;

use super::{rules, words};
use crate::args::DEFAULT_NAMESPACE;
use crate::args::FileOptions;
use crate::context::Context;
use crate::failure::{Failure, InputFault};
use crate::input::{self, Item};
use calico_cmd::output::printable;

/// Kinds that say something about policy.
const KINDS: [Kind; 15] = [
    Kind::FelixConfiguration,
    Kind::Node,
    Kind::IpPool,
    Kind::BgpConfiguration,
    Kind::Tier,
    Kind::Profile,
    Kind::WorkloadEndpoint,
    Kind::HostEndpoint,
    Kind::NetworkSet,
    Kind::GlobalNetworkSet,
    Kind::NetworkPolicy,
    Kind::GlobalNetworkPolicy,
    Kind::StagedNetworkPolicy,
    Kind::StagedGlobalNetworkPolicy,
    Kind::StagedKubernetesNetworkPolicy,
];

/// Resources by key, and what Kubernetes says beside them.
#[derive(Debug, Clone, Default)]
pub(super) struct Picture {
    pub(super) resources: BTreeMap<ResourceKey, Arc<Resource>>,
    pub(super) slices: BTreeMap<EndpointSliceKey, Arc<EndpointSlice>>,
    /// Of policies that were read from documents of Kubernetes: which of their rules ours come from.
    pub(super) origins: BTreeMap<ResourceKey, RuleOrigins>,
}

/// What was read from files.
#[derive(Debug, Default)]
pub(super) struct Manifests {
    /// Calico's own.
    pub(super) items: Vec<Item>,
    /// What Kubernetes' documents say, and where they stand.
    converted: Vec<(Converted, Place)>,
}

impl Picture {
    /// What a datastore holds. What of it cannot be read is told, and absent but for what remains of it.
    pub(super) async fn live(client: &Client, context: &mut Context<'_>) -> Result<Self, Failure> {
        let mut picture = Self::default();
        let mut unread = Few::default();
        for kind in KINDS {
            let listing = client.list(&Scope::Kind(kind)).await;
            let failed = |error| Failure::message(format_args!("failed to read the cluster: {}", chain(&error)));
            for entry in listing.map_err(failed)?.entries {
                match entry {
                    Ok(stored) => {
                        picture.resources.insert(stored.key, stored.resource);
                    }
                    Err(bad) => {
                        unread.add(|| {
                            format!("{} cannot be read ({}): it counts as absent", words::named(&bad.key), bad.reason)
                        });
                        picture.resources.extend(bad.remains.map(|remains| (bad.key, remains)));
                    }
                }
            }
        }
        for line in unread.finish(|more| format!("and {more} more objects cannot be read")) {
            context.tell(&format!("warning: {line}"));
        }
        Ok(picture)
    }

    /// What files say, and what every cluster has beside it.
    pub(super) async fn offline(
        files: &[PathBuf],
        options: &FileOptions,
        context: &mut Context<'_>,
    ) -> Result<Self, Failure> {
        let mut picture = Self::default();
        for tier in Resource::initial_tiers() {
            picture.resources.extend(tier.key().map(|key| (key, Arc::new(tier))));
        }
        let manifests = Manifests::read(files, options, None, context).await?;
        picture.apply(manifests, context)?;
        picture.complete();
        Ok(picture)
    }

    /// Puts what files say in the place of what was there under the same names.
    pub(super) fn apply(&mut self, manifests: Manifests, context: &mut Context<'_>) -> Result<(), Failure> {
        let mut own = BTreeSet::new();
        for item in manifests.items {
            if let Some(key) = item.resource.key() {
                own.insert(key.clone());
                self.origins.remove(&key);
                self.resources.insert(key, Arc::new(item.resource));
            }
        }
        let mut taken: BTreeMap<ResourceKey, Place> = BTreeMap::new();
        for (converted, place) in manifests.converted {
            let (resource, origins) = match converted {
                Converted::Resource(resource) => (resource, None),
                Converted::Policy(resource, origins) => (resource, Some(origins)),
                Converted::Slice(key, slice, unread) => {
                    for fault in unread {
                        context.tell(&format!("warning: EndpointSlice {}/{}: {fault}", key.namespace, key.name));
                    }
                    self.slices.insert(key, Arc::new(slice));
                    continue;
                }
                Converted::Nothing(_) => continue,
            };
            let Some(key) = resource.key() else { continue };
            if let Some(first) = taken.insert(key.clone(), place.clone()) {
                let message = format!("{} is given twice, first at {first}", words::named(&key));
                return Err(twice(key.kind(), message, place));
            }
            if own.contains(&key) {
                let key = words::named(&key);
                context.tell(&format!(
                    "warning: {key} is not looked at, as Kubernetes' own document says what it is\n  at {place}"
                ));
            }
            match origins {
                Some(origins) => self.origins.insert(key.clone(), origins),
                None => self.origins.remove(&key),
            };
            self.resources.insert(key, Arc::new(resource));
        }
        Ok(())
    }

    /// Files of pods need not have the namespaces and accounts that Kubernetes has for each of them.
    fn complete(&mut self) {
        let mut missing = BTreeSet::new();
        for resource in self.resources.values() {
            let Resource::WorkloadEndpoint(endpoint) = &**resource else { continue };
            if endpoint.spec.orchestrator == "k8s" {
                missing.extend(endpoint.spec.profiles.iter().cloned());
            }
        }
        for name in missing {
            let profile = if let Some(namespace) = name.strip_prefix("kns.") {
                kubernetes::namespace_profile(namespace)
            } else if let Some((namespace, account)) = name.strip_prefix("ksa.").and_then(|rest| rest.split_once('.')) {
                kubernetes::account_profile(namespace, account)
            } else {
                continue;
            };
            if let Entry::Vacant(free) = self.resources.entry(ResourceKey::cluster(Kind::Profile, &name)) {
                free.insert(Arc::new(profile));
            }
        }
    }

    /// Rules of a policy or profile as written.
    pub(super) fn rules(&self, key: &ResourceKey, direction: PolicyType) -> Vec<Rule> {
        self.resources.get(key).map(|resource| rules::rules(resource, direction)).unwrap_or_default()
    }
}

fn twice(kind: Kind, message: String, place: Place) -> Failure {
    let mut faults = Few::default();
    faults.add(|| InputFault::Refused { verb: "read", kind, message, place: Box::new(place) });
    Failure::Input(faults)
}

impl Manifests {
    /// Reads and checks files. Documents of Kubernetes that policy does not look at are passed over, and it is said which.
    pub(super) async fn read(
        files: &[PathBuf],
        options: &FileOptions,
        client: Option<&Client>,
        context: &mut Context<'_>,
    ) -> Result<Self, Failure> {
        let documents = input::documents(files, options, context.stdin)?;
        let mut manifests = Self::default();
        let (mut own, mut faults) = (Vec::new(), Few::default());
        let mut passed_over: BTreeMap<String, usize> = BTreeMap::new();
        let mut unseen: BTreeMap<String, usize> = BTreeMap::new();
        for mut document in documents {
            fill_namespace(&mut document, options.namespace());
            match kubernetes::convert(&document.value) {
                Some(Ok(Converted::Nothing(why))) => {
                    let name = document.value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
                    let name = printable(name);
                    context.tell(&format!("info: pod {name} counts as absent: {why}"));
                }
                Some(Ok(converted)) => {
                    let place = document.place(&Fault::value("metadata.name", None, ""));
                    manifests.converted.push((converted, place));
                }
                Some(Err(found)) => {
                    for fault in found {
                        faults.add(|| InputFault::Older { place: Box::new(document.place(&fault)), fault });
                    }
                }
                None => match foreign(&document) {
                    Some(kind) if is_policy(&document) => *unseen.entry(kind).or_default() += 1,
                    Some(kind) => *passed_over.entry(kind).or_default() += 1,
                    None => own.push(document),
                },
            }
        }
        let list = |kinds: &BTreeMap<String, usize>| {
            kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect::<Vec<_>>().join(", ")
        };
        if !passed_over.is_empty() {
            context.tell(&format!("info: passed over, as policy does not look at them: {}", list(&passed_over)));
        }
        if !unseen.is_empty() {
            context.tell(&format!(
                "WARNING: the answer is without {}: this version carries out no policy of Kubernetes for the whole cluster, neither here nor \
                 on hosts; what it allows or denies is not in it",
                list(&unseen)
            ));
        }
        if !faults.is_empty() {
            return Err(Failure::Input(faults));
        }
        manifests.items = input::check(own, "read", options.namespace(), client).await?;
        Ok(manifests)
    }
}

/// Of documents of others the kind.
fn foreign(document: &Document) -> Option<String> {
    let text = |name: &str| document.value.get(name).and_then(Value::as_str);
    let (kind, version) = (text("kind")?, text("apiVersion")?);
    let is_ours =
        version.contains("projectcalico.org") || v1::is_older(&document.value) || Kind::from_name(kind).is_some();
    (!is_ours).then(|| clipped(kind.to_owned(), 60))
}

/// Policy of Kubernetes that is for the whole cluster (`policy.networking.k8s.io`), which nothing here makes rules of.
fn is_policy(document: &Document) -> bool {
    let version = document.value.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    version.starts_with("policy.networking.k8s.io/")
}

/// As the tools of Kubernetes do it with the documents of theirs.
fn fill_namespace(document: &mut Document, namespace: Option<&str>) {
    let is_kubernetes = !matches!(document.kind(), Some("Namespace")) && kubernetes::convert(&document.value).is_some();
    let Some(metadata) = document.value.get_mut("metadata").and_then(Value::as_object_mut).filter(|_| is_kubernetes)
    else {
        return;
    };
    if metadata.get("namespace").is_none_or(Value::is_null) {
        metadata.insert("namespace".into(), namespace.unwrap_or(DEFAULT_NAMESPACE).into());
    }
}
