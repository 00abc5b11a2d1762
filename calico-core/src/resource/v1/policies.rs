//! Policies, profiles and tiers.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::super as v3;
use super::routing::named;
use super::rules::selector;
use super::{Older, Rule, names};
use crate::resource::limit::Limit;
use crate::resource::model::model;
use crate::resource::{DEFAULT_TIER, Fault, Metadata, PolicyType, Resource, TIER_LABEL};
use crate::text::{Text, TextMap};

model! {
    /// `policy`.
    pub struct Policy {
        /// Its kind.
        "kind" kind: String;
        /// Its version.
        "apiVersion" api_version: String;
        /// What identifies it.
        "metadata" metadata: PolicyMetadata, required;
        /// What is wanted.
        "spec" spec: PolicySpec;
    }
}

model! {
    /// What identifies a `policy`.
    pub struct PolicyMetadata {
        /// Its name.
        "name" name: String, required;
        /// Its tier; empty means `default`.
        "tier" tier: String;
        /// Free annotations.
        "annotations" annotations: TextMap;
    }
}

model! {
    /// Specification of a `policy`.
    pub struct PolicySpec {
        /// Position in the tier.
        "order" order: Option<f64>;
        /// Rules for traffic to the endpoint.
        "ingress" ingress: Vec<Rule>;
        /// Rules for traffic from the endpoint.
        "egress" egress: Vec<Rule>;
        /// Endpoints that it applies to.
        "selector" selector: String;
        /// Exempts matching traffic from connection tracking.
        "doNotTrack" do_not_track: bool;
        /// Applies before destination NAT.
        "preDNAT" pre_dnat: bool;
        /// Directions it governs.
        "types" types: Vec<String> where [Limit::AnyCase(&["ingress", "egress"])];
    }
}

impl Older for Policy {
    fn convert(self) -> Result<Resource, Fault> {
        let PolicyMetadata { name, tier, annotations } = self.metadata;
        let spec = self.spec;
        let rules = |rules: Vec<Rule>| -> Vec<v3::Rule> { rules.into_iter().map(Into::into).collect() };
        let (ingress, egress) = (rules(spec.ingress), rules(spec.egress));
        let types = match spec.types.as_slice() {
            [] => v3::implied_types(&ingress, &egress),
            types => types.iter().map(|word| direction(word)).collect(),
        };
        let name = names::converted_without_dots(&name);
        let tier = names::converted_without_dots(&tier);
        let (name, tier) = match tier.as_str() {
            "" | DEFAULT_TIER => (name, DEFAULT_TIER.into()),
            _ => (format!("{tier}.{name}"), tier),
        };
        let labels = [(TIER_LABEL.into(), tier.as_str().into())].into();
        let spec = v3::GlobalNetworkPolicySpec {
            tier,
            order: spec.order,
            ingress,
            egress,
            selector: selector(&spec.selector),
            types,
            do_not_track: spec.do_not_track,
            pre_dnat: spec.pre_dnat,
            // Both were made for forwarded traffic before there was a field for it.
            apply_on_forward: spec.do_not_track || spec.pre_dnat,
            ..v3::GlobalNetworkPolicySpec::default()
        };
        let metadata = Metadata { name, labels, annotations, ..Metadata::default() };
        Ok(Resource::GlobalNetworkPolicy(v3::Object { metadata, spec }))
    }
}

const fn direction(word: &str) -> PolicyType {
    if word.eq_ignore_ascii_case("egress") { PolicyType::Egress } else { PolicyType::Ingress }
}

model! {
    /// `profile`.
    pub struct Profile {
        /// Its kind.
        "kind" kind: String;
        /// Its version.
        "apiVersion" api_version: String;
        /// What identifies it.
        "metadata" metadata: ProfileMetadata, required;
        /// What is wanted.
        "spec" spec: ProfileSpec;
    }
}

model! {
    /// What identifies a `profile`, and what its endpoints get.
    pub struct ProfileMetadata {
        /// Its name.
        "name" name: String, required;
        /// Tags that its endpoints get.
        "tags" tags: Vec<String>;
        /// Labels that its endpoints get.
        "labels" labels: TextMap;
    }
}

model! {
    /// Specification of a `profile`.
    pub struct ProfileSpec {
        /// Rules for traffic to the endpoint.
        "ingress" ingress: Vec<Rule>;
        /// Rules for traffic from the endpoint.
        "egress" egress: Vec<Rule>;
    }
}

impl Older for Profile {
    fn convert(self) -> Result<Resource, Fault> {
        let ProfileMetadata { name, tags, labels: mut labels_to_apply } = self.metadata;
        for (index, tag) in tags.into_iter().enumerate() {
            if let Some(value) = labels_to_apply.get(&tag).filter(|value| !value.is_empty()) {
                let reason = format!(
                    "the tag becomes a label without value, and the profile has the label {tag}: {value} already: change the label's key"
                );
                return Err(Fault::value(format!("metadata.tags[{index}]"), Some(tag), reason));
            }
            labels_to_apply.insert(tag.into(), Text::default());
        }
        let spec = v3::ProfileSpec {
            ingress: self.spec.ingress.into_iter().map(Into::into).collect(),
            egress: self.spec.egress.into_iter().map(Into::into).collect(),
            labels_to_apply,
        };
        Ok(Resource::Profile(v3::Object { metadata: named(names::profile(&name)), spec }))
    }
}

model! {
    /// `tier`.
    pub struct Tier {
        /// Its kind.
        "kind" kind: String;
        /// Its version.
        "apiVersion" api_version: String;
        /// What identifies it.
        "metadata" metadata: TierMetadata, required;
        /// What is wanted.
        "spec" spec: TierSpec;
    }
}

model! {
    /// What identifies a `tier`.
    pub struct TierMetadata {
        /// Its name.
        "name" name: String, required;
    }
}

model! {
    /// Specification of a `tier`.
    pub struct TierSpec {
        /// Position among the tiers.
        "order" order: Option<f64>;
    }
}

impl Older for Tier {
    fn convert(self) -> Result<Resource, Fault> {
        let spec = v3::TierSpec { order: self.spec.order, ..v3::TierSpec::default() };
        Ok(Resource::Tier(v3::Tier::new(named(names::converted(&self.metadata.name)), spec)))
    }
}
