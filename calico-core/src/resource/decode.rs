//! Documents to typed objects and back.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use serde_json::{Map, Value, json};

use super::check::{self, Strictness};
use super::path::Path;
use super::shape::{Known, Reading};
use super::{Fault, Kind, Resource, ResourceKey, Scope, shape, unread};
use crate::text::Words;

/// The annotation in which the etcd layout keeps a policy's own name (its key may carry an old tier prefix).
pub const NAME_ANNOTATION: &str = "projectcalico.org/metadata";

impl Resource {
    /// Reads a stored document. Unknown fields are left to the raw document; nulls count as absent; an object that is wrong in a
    /// field that is known is refused, with every fault that was found.
    ///
    /// What denies traffic is the exception: a policy or profile is not absent because of a rule. What is wrong or unknown in one is
    /// noted in its [`unread`](super::Rule::unread), which makes it deny more or allow nothing. Likewise a network set keeps the
    /// prefixes that can be read, and all of them and tiers what can be read of the metadata.
    ///
    /// # Errors
    /// At least one fault.
    pub fn decode(kind: Kind, value: &Value) -> Result<Self, Vec<Fault>> {
        if !value.is_object() {
            let reason = alloc::format!("expected a JSON object, found {}", shape::sort_of(value));
            return Err(vec![Fault::value("", None, reason)]);
        }
        match stored(kind, value) {
            Ok(mut resource) => {
                unread::mark_unknown(&mut resource, value);
                Ok(resource)
            }
            Err(faults) => unread::salvage(kind, value, faults, |value| stored(kind, value)),
        }
    }

    /// Reads an operator's document: as [`decode`](Self::decode), and refuses unknown fields, names and labels that the API does
    /// not take, prefixes with host bits. Unknown fields and values that `stored` (the object as it is now, raw) has at the same place
    /// are accepted, so that an object that a newer version or another program wrote can be edited.
    ///
    /// # Errors
    /// At least one fault.
    pub fn decode_strict(kind: Kind, value: &Value, stored: Option<&Value>) -> Result<Self, Vec<Fault>> {
        let known = stored.map(Known::of);
        let reading = Reading::Manifest { stored: known.as_ref() };
        let mut faults = Vec::new();
        kind.shape().faults(value, &Path::Root, reading, &mut faults);
        check::header(kind, value, &mut faults);
        if !faults.is_empty() {
            return Err(faults);
        }
        let mut resource = typed(kind, value, reading)?;
        unread::mark_unknown(&mut resource, value);
        if let Some(metadata) = resource.metadata_mut() {
            metadata.annotations.remove(NAME_ANNOTATION);
        }
        check::all(&resource, Strictness::Manifest).map(|()| resource)
    }

    /// The stored form: the whole v3 object with kind and version, without resource version and with the policy-name annotation;
    /// IPAM's own kinds as they are.
    pub fn encode(&self) -> Value {
        let mut document = self.document();
        if let (Self::ApiBlockAffinity(claim), Some(deleted)) = (self, document.pointer_mut("/spec/deleted")) {
            // Upstream stores it so, for the sake of earlier versions, and reads nothing else.
            *deleted = claim.spec.deleted.0.to_string().into();
        }
        let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) else { return document };
        metadata.shift_remove("resourceVersion");
        if let (true, Some(own)) = (self.kind().is_policy(), self.metadata()) {
            let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(Map::new()));
            if let Some(annotations) = annotations.as_object_mut() {
                annotations.insert(NAME_ANNOTATION.into(), json!({ "name": own.name }).to_string().into());
            }
        }
        document
    }

    /// The form that users see: the whole v3 object with kind and version.
    pub fn document(&self) -> Value {
        let mut document = self.typed_document();
        unread::write_back(self, &mut document);
        document
    }

    /// Key that the metadata gives: none for IPAM's own kinds, whose key is not in the object, for an object without a name, and
    /// for one of a namespaced kind without a namespace.
    pub fn key(&self) -> Option<ResourceKey> {
        let metadata = self.metadata()?;
        let name: Arc<str> = Some(metadata.name.as_str()).filter(|name| !name.is_empty())?.into();
        let namespace = match self.kind().scope() {
            Scope::Cluster => None,
            Scope::Namespaced => Some(metadata.namespace.as_deref().filter(|namespace| !namespace.is_empty())?.into()),
        };
        Some(ResourceKey::Named { kind: self.kind(), namespace, name })
    }

    /// Makes what it says one with what other objects say, where many say the same.
    pub fn share(&mut self, words: &mut Words) {
        if let Self::WorkloadEndpoint(endpoint) = self {
            endpoint.spec.share(words);
        }
        if let Some(metadata) = self.metadata_mut() {
            words.share_all(&mut metadata.labels);
            words.share_all(&mut metadata.annotations);
        }
    }

    /// Makes name and namespace those of the key it is stored under, which is what identifies it: whoever finds an object by the name
    /// that it shows must find this one. A policy under upstream's older key, its tier before its name, keeps the name.
    pub fn adopt_key(&mut self, key: &ResourceKey) {
        let ResourceKey::Named { namespace, name, .. } = key else { return };
        let keeps_name = self.metadata().is_none_or(|metadata| {
            let own = metadata.name.as_str();
            let after_tier = || name.strip_prefix(self.tier()?)?.strip_prefix('.');
            own == &**name || (!own.is_empty() && after_tier() == Some(own))
        });
        let Some(metadata) = self.metadata_mut() else { return };
        if !keeps_name {
            metadata.name = name.to_string();
        }
        if metadata.namespace.as_deref() != namespace.as_deref() {
            metadata.namespace = namespace.as_deref().map(ToString::to_string);
        }
    }

    /// Upstream stores policies under their own name since 3.32, and under `default.` + name before; the annotation, where present,
    /// has the name that users see.
    fn restore_policy_name(&mut self) -> Result<(), Vec<Fault>> {
        let tier = match self {
            Self::NetworkPolicy(policy) => policy.spec.tier.as_str(),
            Self::GlobalNetworkPolicy(policy) => policy.spec.tier.as_str(),
            Self::StagedNetworkPolicy(policy) => policy.spec.policy.tier.as_str(),
            Self::StagedGlobalNetworkPolicy(policy) => policy.spec.policy.tier.as_str(),
            _ => return Ok(()),
        };
        let in_default_tier = matches!(tier, "" | "default");
        let Some(metadata) = self.metadata_mut() else { return Ok(()) };
        match metadata.annotations.remove(NAME_ANNOTATION).filter(|text| !text.is_empty()) {
            Some(text) => metadata.name = annotated_name(&text)?,
            None if in_default_tier => {
                if let Some(bare) = metadata.name.strip_prefix("default.") {
                    metadata.name = bare.to_string();
                }
            }
            None => {}
        }
        Ok(())
    }
}

impl Kind {
    /// Whether it is one of the policy kinds, which carry the policy-name annotation when stored.
    pub const fn is_policy(self) -> bool {
        matches!(
            self,
            Self::NetworkPolicy
                | Self::GlobalNetworkPolicy
                | Self::StagedNetworkPolicy
                | Self::StagedGlobalNetworkPolicy
        )
    }
}

pub(super) fn annotated_name(text: &str) -> Result<String, Vec<Fault>> {
    let path = alloc::format!("metadata.annotations[{NAME_ANNOTATION}]");
    let fault = |reason: &str| vec![Fault::value(&path, Some(text.to_string()), reason)];
    let value: Value = serde_json::from_str(text).map_err(|_| fault("expected JSON such as {\"name\":\"…\"}"))?;
    value.get("name").and_then(Value::as_str).map(ToString::to_string).ok_or_else(|| fault("the name is missing"))
}

/// A stored document that is in order throughout.
pub(super) fn stored(kind: Kind, value: &Value) -> Result<Resource, Vec<Fault>> {
    let mut resource = typed(kind, value, Reading::Stored)?;
    resource.restore_policy_name()?;
    check::all(&resource, Strictness::Stored).map(|()| resource)
}

/// serde first, which is the fast way and nearly always enough; the shape tables when it fails, to learn where.
fn typed(kind: Kind, value: &Value, reading: Reading<'_>) -> Result<Resource, Vec<Fault>> {
    // A pool without a specification would otherwise be the default one.
    if kind == Kind::IpPool && value.get("spec").is_none_or(Value::is_null) {
        return Err(vec![Fault::missing("spec")]);
    }
    // serde takes a list for a struct, and an empty one for an empty struct: `source: []` would be no condition.
    if kind.shape().fits(value)
        && let Ok(resource) = Resource::read(kind, value)
    {
        return Ok(resource);
    }
    let pruned = kind.shape().without_nulls(value);
    match Resource::read(kind, &pruned) {
        Ok(resource) if kind.shape().fits(&pruned) => Ok(resource),
        read => {
            let mut faults = Vec::new();
            kind.shape().faults(&pruned, &Path::Root, reading, &mut faults);
            if faults.is_empty() {
                let error =
                    read.err().map_or_else(|| "not of the form of its kind".to_string(), |error| error.to_string());
                faults.push(Fault::value("", None, error));
            }
            Err(faults)
        }
    }
}

#[cfg(test)]
mod tests;
