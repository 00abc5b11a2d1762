//! What differs between two models: resources, rules, and the endpoints whose policy is another one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use calico_core::calc::event::{ActiveEntity, ActiveRules, EndpointId, PolicyId, ProfileId, SetId, Stack};
use calico_core::resource::{Kind, PolicyType, Resource, ResourceKey};
use calico_core::service::EndpointSliceKey;
use serde_json::{Value, json};
use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::hosts::Setting;
use super::model::Model;
use super::{words, written};

/// A resource that is new, gone or another one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Changed {
    /// None for a slice of a service.
    pub(super) key: Option<ResourceKey>,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) is_new: bool,
    pub(super) is_gone: bool,
    pub(super) is_staged: bool,
    /// Fields of the specification, and `labels`, that are others. Rules are told for themselves.
    pub(super) fields: Vec<String>,
}

/// A rule that would come or go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RuleChange {
    pub(super) key: ResourceKey,
    pub(super) direction: PolicyType,
    pub(super) is_added: bool,
    pub(super) path: String,
    pub(super) text: String,
}

/// An endpoint whose policy would be another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Touched {
    pub(super) key: ResourceKey,
    pub(super) name: String,
    pub(super) ingress: bool,
    pub(super) egress: bool,
    pub(super) is_new: bool,
    pub(super) is_gone: bool,
}

/// Resources that differ in what says something about policy.
pub(super) fn resources(before: &Model, after: &Model) -> Vec<Changed> {
    let mut found = Vec::new();
    for (key, resource) in &after.picture.resources {
        let former = before.picture.resources.get(key);
        if former.is_some_and(|former| Arc::ptr_eq(former, resource)) {
            continue;
        }
        let (now, then) = (essence(resource), former.map(essence).unwrap_or_default());
        if now == then {
            continue;
        }
        let fields = if former.is_some() { fields(&then, &now) } else { Vec::new() };
        found.push(Changed { is_new: former.is_none(), fields, ..Changed::of(key, after) });
    }
    let gone = before.picture.resources.keys().filter(|key| !after.picture.resources.contains_key(*key));
    found.extend(gone.map(|key| Changed { is_gone: true, ..Changed::of(key, before) }));
    let [then, now] = [&before.picture.slices, &after.picture.slices];
    let slice = |key: &EndpointSliceKey| Changed {
        kind: "EndpointSlice".into(),
        name: format!("{}/{}", key.namespace, key.name),
        is_new: !then.contains_key(key),
        is_gone: !now.contains_key(key),
        ..Changed::default()
    };
    found.extend(now.iter().filter(|(key, one)| then.get(*key) != Some(*one)).map(|(key, _)| slice(key)));
    found.extend(then.keys().filter(|key| !now.contains_key(*key)).map(slice));
    found
}

/// A setting of hosts that would be another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SettingChange {
    /// None: of all hosts that have none of their own.
    pub(super) node: Option<String>,
    pub(super) setting: Setting,
    pub(super) before: String,
    pub(super) after: String,
}

/// Settings that decide about flows and would be others.
pub(super) fn settings(before: &Model, after: &Model) -> Vec<SettingChange> {
    let nodes: BTreeSet<&str> = before.settings.nodes().chain(after.settings.nodes()).collect();
    let mut found = Vec::new();
    for node in std::iter::once(None).chain(nodes.into_iter().map(Some)) {
        let of = |model: &Model, setting: Setting| {
            let settings = node.map_or_else(|| model.settings.common(), |node| model.settings.of_node(node));
            setting.value(settings)
        };
        for setting in Setting::ALL {
            let (then, now) = (of(before, setting), of(after, setting));
            if then != now {
                found.push(SettingChange { node: node.map(str::to_owned), setting, before: then, after: now });
            }
        }
    }
    found
}

impl SettingChange {
    pub(super) fn json(&self) -> Value {
        json!({ "node": self.node, "setting": self.setting.name(), "before": self.before, "after": self.after })
    }
}

fn fields(then: &Value, now: &Value) -> Vec<String> {
    let spec = |value: &Value| value.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
    let (then_spec, now_spec) = (spec(then), spec(now));
    let names: BTreeSet<&String> = then_spec.keys().chain(now_spec.keys()).collect();
    let is_other = |name: &&String| then_spec.get(*name) != now_spec.get(*name);
    let mut fields: Vec<String> = names.into_iter().filter(is_other).cloned().collect();
    fields.extend((then.get("metadata") != now.get("metadata")).then(|| "labels".to_owned()));
    fields
}

/// Rules of changed resources that would come or go.
pub(super) fn rules(before: &Model, after: &Model, resources: &[Changed]) -> Vec<RuleChange> {
    let mut found = Vec::new();
    for key in resources.iter().filter_map(|changed| changed.key.as_ref()) {
        for direction in [PolicyType::Ingress, PolicyType::Egress] {
            let texts = |model: &Model| -> Vec<String> {
                let rules = model.picture.rules(key, direction).into_iter();
                rules.map(|rule| serde_json::to_string(&rule).unwrap_or_default()).collect()
            };
            let (then, now) = (written::list(before, key, direction), written::list(after, key, direction));
            let change = |is_added: bool, rule: &written::Written| RuleChange {
                key: key.clone(),
                direction,
                is_added,
                path: rule.path.clone(),
                text: rule.text.clone(),
            };
            for operation in capture_diff_slices(Algorithm::Myers, &texts(before), &texts(after)) {
                if matches!(operation, DiffOp::Equal { .. }) {
                    continue;
                }
                let gone = then.get(operation.old_range()).into_iter().flatten();
                found.extend(gone.map(|rule| change(false, rule)));
                let new = now.get(operation.new_range()).into_iter().flatten();
                found.extend(new.map(|rule| change(true, rule)));
            }
        }
    }
    found
}

/// Endpoints one of whose directions runs through something else.
pub(super) fn endpoints(before: &Model, after: &Model) -> Vec<Touched> {
    let differ = Differ::of(before, after);
    let mut found = BTreeMap::new();
    let mut note = |id: &EndpointId, model: &Model, [ingress, egress]: [bool; 2], is_new: bool, is_gone: bool| {
        if ingress || egress {
            let name = model.names.name(&id.0);
            let touched = Touched { key: id.0.clone(), name: name.clone(), ingress, egress, is_new, is_gone };
            found.insert((name, id.0.clone()), touched);
        }
    };
    for (id, now) in &after.state().endpoints {
        match before.state().endpoints.get(id) {
            None => note(id, after, [true; 2], true, false),
            Some(then) => {
                let addresses = then.addresses != now.addresses;
                let is = |then: &Stack, now: &Stack| addresses || differ.stacks(then, now);
                note(id, after, [is(&then.ingress, &now.ingress), is(&then.egress, &now.egress)], false, false);
            }
        }
    }
    for id in before.state().endpoints.keys().filter(|id| !after.state().endpoints.contains_key(id)) {
        note(id, before, [true; 2], false, true);
    }
    for (id, now) in &after.state().host_endpoints {
        match before.state().host_endpoints.get(id) {
            None => note(id, after, [true; 2], true, false),
            Some(then) => {
                let interfaces = then.interfaces != now.interfaces;
                let pairs = |then: [&Stack; 4], now: [&Stack; 4]| {
                    interfaces || then.into_iter().zip(now).any(|(then, now)| differ.stacks(then, now))
                };
                let ingress = pairs(
                    [&then.untracked.ingress, &then.pre_dnat, &then.normal.ingress, &then.forward.ingress],
                    [&now.untracked.ingress, &now.pre_dnat, &now.normal.ingress, &now.forward.ingress],
                );
                let egress = pairs(
                    [&then.untracked.egress, &then.normal.egress, &then.forward.egress, &then.forward.egress],
                    [&now.untracked.egress, &now.normal.egress, &now.forward.egress, &now.forward.egress],
                );
                note(id, after, [ingress, egress], false, false);
            }
        }
    }
    for id in before.state().host_endpoints.keys().filter(|id| !after.state().host_endpoints.contains_key(id)) {
        note(id, before, [true; 2], false, true);
    }
    found.into_values().collect()
}

/// Policies and profiles that say something else than before, or of whose sets the members are others.
struct Differ {
    policies: BTreeSet<PolicyId>,
    profiles: BTreeSet<ProfileId>,
}

impl Differ {
    fn of(before: &Model, after: &Model) -> Self {
        let (then, now) = (before.state(), after.state());
        let is_other_set = |set: &SetId| then.sets.get(set) != now.sets.get(set);
        let is_other = |then: Option<&Arc<ActiveRules>>, now: Option<&Arc<ActiveRules>>| {
            then != now || now.is_some_and(|rules| sets(rules).any(|set| is_other_set(&set)))
        };
        let policies = then.policies.keys().chain(now.policies.keys());
        let profiles = then.profiles.keys().chain(now.profiles.keys());
        Self {
            policies: policies.filter(|id| is_other(then.policies.get(*id), now.policies.get(*id))).cloned().collect(),
            profiles: profiles.filter(|id| is_other(then.profiles.get(*id), now.profiles.get(*id))).cloned().collect(),
        }
    }

    fn stacks(&self, then: &Stack, now: &Stack) -> bool {
        then != now
            || now.tiers.iter().flat_map(|tier| &tier.policies).any(|policy| self.policies.contains(policy))
            || now.profiles.iter().any(|profile| self.profiles.contains(profile))
    }
}

fn sets(rules: &ActiveRules) -> impl Iterator<Item = SetId> {
    let sides = rules.ingress.iter().chain(&rules.egress).flat_map(|rule| [&rule.source, &rule.destination]);
    let lists = |side: &'_ ActiveEntity| -> Vec<SetId> {
        [&side.sets, &side.not_sets, &side.port_sets, &side.not_port_sets].into_iter().flatten().copied().collect()
    };
    sides.flat_map(lists)
}

impl Changed {
    fn of(key: &ResourceKey, model: &Model) -> Self {
        let (kind, name) = words::object(key);
        let name = if key.kind() == Kind::WorkloadEndpoint { model.names.name(key) } else { name };
        Self { key: Some(key.clone()), kind, name, is_staged: PolicyId(key.clone()).is_staged(), ..Self::default() }
    }

    pub(super) fn json(&self) -> Value {
        let change = match (self.is_new, self.is_gone) {
            (true, _) => "new",
            (_, true) => "gone",
            _ => "changed",
        };
        json!({ "kind": self.kind, "name": self.name, "change": change, "fields": self.fields })
    }
}

impl RuleChange {
    pub(super) fn json(&self) -> Value {
        let (kind, name) = words::object(&self.key);
        let change = if self.is_added { "added" } else { "removed" };
        json!({
            "kind": kind,
            "name": name,
            "change": change,
            "direction": words::direction(self.direction),
            "rule": self.path,
            "text": self.text,
        })
    }
}

impl Touched {
    pub(super) fn json(&self) -> Value {
        let mut directions = Vec::new();
        directions.extend(self.ingress.then_some("ingress"));
        directions.extend(self.egress.then_some("egress"));
        let change = if self.is_new {
            "new"
        } else if self.is_gone {
            "gone"
        } else {
            "changed"
        };
        json!({ "endpoint": self.name, "change": change, "directions": directions })
    }

    pub(super) fn described(&self) -> String {
        match (self.is_new, self.is_gone, self.ingress, self.egress) {
            (true, ..) => "new".into(),
            (_, true, ..) => "gone".into(),
            (.., true, true) => "ingress, egress".into(),
            (.., true, false) => "ingress".into(),
            _ => "egress".into(),
        }
    }
}

/// Only the parts of a resource that say something about policy.
fn essence(resource: &Arc<Resource>) -> Value {
    let mut document = resource.document();
    if let Some(members) = document.as_object_mut() {
        let labels = members.get("metadata").and_then(|metadata| metadata.get("labels")).cloned();
        members.insert("metadata".into(), json!({ "labels": labels }));
        members.shift_remove("status");
    }
    document
}
