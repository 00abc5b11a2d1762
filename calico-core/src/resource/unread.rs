//! Stored rules and network sets that this version understands only in part.
//!
//! A newer version may write fields and values that this one does not know, and somebody may write nonsense past every check. A
//! policy that were absent for that, or a rule that matched without a condition, could let more through than was meant. So in
//! stored policies and profiles a rule keeps what is understood of it, and carries what is not in [`Rule::unread`]: whoever
//! carries it out fails closed (Deny and Pass deny without the lost conditions, Allow and Log never match). A field of the
//! specification itself that is not known may narrow the whole policy, so it counts for each of its rules. An action that is not
//! known counts as Deny.
//!
//! Rules that are no list stand for one rule whose action is not known: their direction is governed and denied. Whether a policy
//! is meant for hosts alone (`doNotTrack` and the like) decides nothing if it cannot be read, but counts as a field that is not
//! known. So do labels that a profile hands down, and flags that exclude each other: such a policy is `doNotTrack` before it is `preDNAT`, governs
//! no egress as `preDNAT`, meets forwarded traffic, and allows nothing anywhere.
//!
//! A policy whose order cannot be read stands before all others of its tier, and one whose types cannot be read governs both
//! directions; either counts as a field that is not known. That is at least as strict as any order and any types: what it allows is
//! left to the others, what it denies nobody allows before it.
//!
//! Only where a policy's own selectors or tier cannot be read is it refused altogether: whom it concerns is then anybody's guess.
//! The header does not matter ([`header`]), nor what is reported of a tier.
//!
//! A network set keeps the prefixes that can be read: were it absent for one bad entry, rules that deny its members would deny
//! nobody.
//!
//! Where no rule can carry a field that is not known (in a network set, a tier, an endpoint, a staged policy of Kubernetes, a policy without
//! rules), it is noted in [`Metadata::unread`](super::Metadata::unread): nothing acts on it, and the status says so.
//!
//! The document is never changed by any of this. Rules and lists of prefixes that are not understood are written back as they were
//! read; an object of which another part was refused is for its store not to write at all ([`Resource::is_partial`]).

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde_json::{Map, Value, json};

use super::path::Path;
use super::shape::unknown_field;
use super::{Fault, FaultSort, Kind, Resource, Rule, header};
use crate::few::Few;

/// What of a stored rule or list of prefixes is not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unread {
    /// Each part of its own: a field that is not known, or a value that is refused. Of many the first few.
    pub faults: Vec<Fault>,
    /// Those of the specification around it, which count for each of its rules; shared by them, since both may be thousands. Of
    /// many the first few.
    pub common: Arc<[Fault]>,
    /// The whole rule or list as it is stored. It is written back like this, whatever the typed one says by then.
    pub document: Value,
}

impl Unread {
    /// Faults of a rule or list that is stored like this.
    pub fn new(faults: Vec<Fault>, document: Value) -> Self {
        Self { faults, common: Arc::default(), document }
    }

    /// All that is not understood. Not empty.
    pub fn all(&self) -> impl Iterator<Item = &Fault> {
        self.common.iter().chain(&self.faults)
    }
}

/// Lists of rules by the name of their field, and position in the list.
type Place = (&'static str, usize);

const LISTS: [&str; 2] = ["ingress", "egress"];

/// What is not understood, by rule.
#[derive(Debug, Default)]
struct Findings {
    /// Of the specification itself.
    common: Few<Fault>,
    rules: BTreeMap<Place, Few<Fault>>,
}

/// Notes which fields are not known: at every rule, or else in the metadata.
pub(super) fn mark_unknown(resource: &mut Resource, document: &Value) {
    let kind = resource.kind();
    if has_rules(kind) {
        unknown_fields(kind, document).mark(resource, document);
    } else if tells_unknown(kind) {
        let Findings { common, rules } = unknown_fields(kind, document);
        note(resource, common.list().into_iter().chain(rules.into_values().flat_map(Few::list)));
    }
}

/// Notes faults that no rule carries.
fn note(resource: &mut Resource, faults: impl IntoIterator<Item = Fault>) {
    let Some(metadata) = resource.metadata_mut() else { return };
    let mut faults = faults.into_iter().peekable();
    if faults.peek().is_some() {
        let known = core::mem::take(&mut metadata.unread);
        metadata.unread = Fault::few(known.into_iter().chain(faults)).into();
    }
}

/// Reads a document that `read` refuses for `faults`, if those are of rules, prefixes, metadata or a tier's status alone: without
/// the parts that are refused.
pub(super) fn salvage(
    kind: Kind,
    document: &Value,
    faults: Vec<Fault>,
    read: impl Fn(&Value) -> Result<Resource, Vec<Fault>>,
) -> Result<Resource, Vec<Fault>> {
    let is_set = matches!(kind, Kind::NetworkSet | Kind::GlobalNetworkSet);
    if !is_set && !has_rules(kind) && kind != Kind::Tier {
        return Err(faults);
    }
    let mut rest = document.clone();
    let Some(mut of_header) = header::keep_readable(kind, &mut rest) else { return Err(faults) };
    let found = match read(&rest) {
        Ok(mut resource) => {
            mark_unknown(&mut resource, document);
            Ok(resource)
        }
        Err(further) if kind == Kind::Tier => without_status(rest, further, &mut of_header, read),
        Err(further) if is_set => salvage_nets(&rest, further, read),
        Err(further) => salvage_rules(kind, &rest, further, &mut of_header, read),
    };
    match found {
        Ok(mut resource) => {
            note(&mut resource, of_header);
            Ok(resource)
        }
        Err(further) => Err(of_header.into_iter().chain(further).collect()),
    }
}

/// A tier of which what is reported cannot be read: that decides nothing, so it goes the way of metadata.
fn without_status(
    mut document: Value,
    faults: Vec<Fault>,
    of_header: &mut Vec<Fault>,
    read: impl Fn(&Value) -> Result<Resource, Vec<Fault>>,
) -> Result<Resource, Vec<Fault>> {
    if !faults.iter().all(|fault| fault.path.split(['.', '[']).next() == Some("status")) {
        return Err(faults);
    }
    if let Some(members) = document.as_object_mut() {
        members.shift_remove("status");
    }
    let resource = read(&document)?;
    of_header.extend(faults);
    Ok(resource)
}

/// The rules that can be read, and what can be read of the others.
fn salvage_rules(
    kind: Kind,
    document: &Value,
    faults: Vec<Fault>,
    of_header: &mut Vec<Fault>,
    read: impl Fn(&Value) -> Result<Resource, Vec<Fault>>,
) -> Result<Resource, Vec<Fault>> {
    let mut findings = unknown_fields(kind, document);
    let mut rest = document.clone();
    let mut found = faults.clone();
    let mut all = faults;
    // A part that goes may have been what another one needs, such as the protocol of ports. Each round takes something away.
    loop {
        if !take_out(&found, &mut rest) {
            return Err(all);
        }
        for fault in found {
            findings.at(&fault.path).add(|| fault);
        }
        match read(&rest) {
            Ok(mut resource) => {
                if all.iter().any(|fault| fault.path == ORDER) {
                    resource.stand_first();
                }
                if resource.rules().into_iter().flatten().next().is_none() {
                    // Nothing else can carry it.
                    of_header.extend(all);
                }
                findings.mark(&mut resource, document);
                return Ok(resource);
            }
            Err(further) => {
                all.extend(further.iter().cloned());
                found = further;
            }
        }
    }
}

/// The prefixes of a network set that can be read.
fn salvage_nets(
    document: &Value,
    faults: Vec<Fault>,
    read: impl Fn(&Value) -> Result<Resource, Vec<Fault>>,
) -> Result<Resource, Vec<Fault>> {
    let entry = |fault: &Fault| fault.path.strip_prefix("spec.nets[")?.strip_suffix(']')?.parse::<usize>().ok();
    let bad: Option<BTreeSet<usize>> = faults.iter().map(entry).collect();
    let mut rest = document.clone();
    let nets = rest.get_mut("spec").and_then(|spec| spec.get_mut("nets")?.as_array_mut());
    let (Some(bad), Some(nets)) = (bad, nets) else { return Err(faults) };
    let stored = Value::Array(nets.clone());
    let mut index = 0..;
    nets.retain(|_| index.next().is_some_and(|index| !bad.contains(&index)));
    match read(&rest) {
        Ok(Resource::NetworkSet(mut object)) => {
            object.spec.unread = Some(Box::new(Unread::new(Fault::few(faults), stored)));
            Ok(Resource::NetworkSet(object))
        }
        Ok(Resource::GlobalNetworkSet(mut object)) => {
            object.spec.unread = Some(Box::new(Unread::new(Fault::few(faults), stored)));
            Ok(Resource::GlobalNetworkSet(object))
        }
        _ => Err(faults),
    }
}

/// Puts what is not understood back as it was.
pub(super) fn write_back(resource: &Resource, document: &mut Value) {
    if let Resource::NetworkSet(object) | Resource::GlobalNetworkSet(object) = resource
        && let (Some(unread), Some(spec)) =
            (&object.spec.unread, document.get_mut("spec").and_then(Value::as_object_mut))
    {
        spec.insert("nets".into(), unread.document.clone());
    }
    for (list, rules) in LISTS.into_iter().zip(resource.rules()) {
        let unread = rules.iter().enumerate().filter_map(|(index, rule)| Some((index, rule.unread.as_ref()?)));
        for (index, unread) in unread {
            let Some(stored) = document.get_mut("spec").and_then(|spec| spec.get_mut(list)) else { continue };
            let is_list = unread.faults.iter().all(|fault| fault.path.strip_prefix("spec.") != Some(list));
            if let Some(slot) = if is_list { stored.get_mut(index) } else { Some(stored) } {
                slot.clone_from(&unread.document);
            }
        }
    }
}

impl Resource {
    /// Whether something of the stored object was not understood and is carried beside what was. Fields that are not known live on in the
    /// document.
    pub fn is_partial(&self) -> bool {
        let is_lost = |fault: &Fault| fault.sort != FaultSort::UnknownField;
        self.metadata().is_some_and(|metadata| metadata.unread.iter().any(is_lost))
            || self.rules().into_iter().flatten().any(|rule| rule.unread.is_some())
    }

    /// Ingress and egress rules, of kinds that have them.
    pub(super) fn rules(&self) -> [&[Rule]; 2] {
        match self {
            Self::NetworkPolicy(object) => [&object.spec.ingress, &object.spec.egress],
            Self::GlobalNetworkPolicy(object) => [&object.spec.ingress, &object.spec.egress],
            Self::StagedNetworkPolicy(object) => [&object.spec.policy.ingress, &object.spec.policy.egress],
            Self::StagedGlobalNetworkPolicy(object) => [&object.spec.policy.ingress, &object.spec.policy.egress],
            Self::Profile(object) => [&object.spec.ingress, &object.spec.egress],
            _ => [&[], &[]],
        }
    }

    /// Puts a policy before all others of its tier.
    fn stand_first(&mut self) {
        let order = match self {
            Self::NetworkPolicy(object) => &mut object.spec.order,
            Self::GlobalNetworkPolicy(object) => &mut object.spec.order,
            Self::StagedNetworkPolicy(object) => &mut object.spec.policy.order,
            Self::StagedGlobalNetworkPolicy(object) => &mut object.spec.policy.order,
            _ => return,
        };
        *order = Some(f64::NEG_INFINITY);
    }

    fn rules_mut(&mut self) -> [&mut [Rule]; 2] {
        match self {
            Self::NetworkPolicy(object) => [&mut object.spec.ingress, &mut object.spec.egress],
            Self::GlobalNetworkPolicy(object) => [&mut object.spec.ingress, &mut object.spec.egress],
            Self::StagedNetworkPolicy(object) => [&mut object.spec.policy.ingress, &mut object.spec.policy.egress],
            Self::StagedGlobalNetworkPolicy(object) => {
                [&mut object.spec.policy.ingress, &mut object.spec.policy.egress]
            }
            Self::Profile(object) => [&mut object.spec.ingress, &mut object.spec.egress],
            _ => [&mut [], &mut []],
        }
    }
}

/// Kinds that policy is made of, beside those with rules.
const fn tells_unknown(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::NetworkSet
            | Kind::GlobalNetworkSet
            | Kind::HostEndpoint
            | Kind::WorkloadEndpoint
            | Kind::Tier
            | Kind::StagedKubernetesNetworkPolicy
            | Kind::BgpConfiguration
            | Kind::BgpPeer
            | Kind::BgpFilter
    )
}

const fn has_rules(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::NetworkPolicy
            | Kind::GlobalNetworkPolicy
            | Kind::StagedNetworkPolicy
            | Kind::StagedGlobalNetworkPolicy
            | Kind::Profile
    )
}

fn unknown_fields(kind: Kind, document: &Value) -> Findings {
    let mut findings = Findings::default();
    let (Some(shape), Some(spec)) = (kind.shape().member("spec"), document.get("spec")) else { return findings };
    shape.unknown_fields(spec, &Path::Root.field("spec"), &mut |path, name, known| {
        findings.at(&path.to_string()).add(|| unknown_field(path, name, known));
    });
    findings
}

impl Findings {
    /// Those that a fault at this path belongs to.
    fn at(&mut self, path: &str) -> &mut Few<Fault> {
        match part(path) {
            Some(Part::Rule(place, _)) => self.rules.entry(place).or_default(),
            Some(Part::List(list)) => self.rules.entry((list, 0)).or_default(),
            Some(Part::Field(_)) | None => &mut self.common,
        }
    }

    fn mark(self, resource: &mut Resource, document: &Value) {
        let Self { mut common, rules: mut own } = self;
        // What was found in rules that are not there any more is left to the others to tell.
        let counts = resource.rules().map(<[Rule]>::len);
        let is_there =
            |(list, index): &Place| LISTS.into_iter().zip(counts).any(|(name, count)| name == *list && *index < count);
        let nowhere: Vec<Place> = own.keys().filter(|place| !is_there(place)).copied().collect();
        for fault in nowhere.iter().filter_map(|place| own.remove(place)).flat_map(Few::list) {
            common.add(|| fault);
        }
        let common = common.list();
        if counts == [0, 0] {
            // What was refused is told by whoever took it out.
            note(resource, common.into_iter().filter(|fault| fault.sort == FaultSort::UnknownField));
            return;
        }
        let common: Arc<[Fault]> = common.into();
        for (list, rules) in LISTS.into_iter().zip(resource.rules_mut()) {
            for (index, rule) in rules.iter_mut().enumerate() {
                let faults = own.remove(&(list, index)).unwrap_or_default().list();
                if faults.is_empty() && common.is_empty() {
                    continue;
                }
                let stored = document.get("spec").and_then(|spec| match spec.get(list)? {
                    Value::Array(rules) => rules.get(index),
                    other => Some(other),
                });
                let document = stored.cloned().unwrap_or_default();
                rule.unread = Some(Box::new(Unread { faults, common: Arc::clone(&common), document }));
            }
        }
    }
}

/// The rule that a path leads into, and the way inside.
fn place(path: &str) -> Option<(Place, &str)> {
    let path = path.strip_prefix("spec.")?;
    let (list, rest) = LISTS.into_iter().find_map(|list| Some((list, path.strip_prefix(list)?.strip_prefix('[')?)))?;
    let (index, inside) = rest.split_once(']')?;
    Some(((list, index.parse().ok()?), inside.strip_prefix('.').unwrap_or_default()))
}

/// What a fault takes with it.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Part<'a> {
    /// What lies in the rule at this path, or the whole rule.
    Rule(Place, &'a str),
    /// All rules of a direction.
    List(&'static str),
    /// Another field of the specification.
    Field(&'static str),
}

/// Fields of a specification without which its rules deny more or allow nothing, but still mean something.
const FIELDS: [&str; 6] = ["doNotTrack", "preDNAT", "applyOnForward", "labelsToApply", "types", "order"];
/// Path of a policy's place in its tier.
const ORDER: &str = "spec.order";

/// None if nobody knows whom the rest would concern.
fn part(path: &str) -> Option<Part<'_>> {
    if let Some((place, inside)) = place(path) {
        // Of a list that has a bad element the whole goes.
        return Some(Part::Rule(place, inside.split('[').next().unwrap_or_default()));
    }
    let name = path.strip_prefix("spec.")?;
    let list = LISTS.into_iter().find(|list| *list == name).map(Part::List);
    list.or_else(|| FIELDS.into_iter().find(|field| name.split(['.', '[']).next() == Some(field)).map(Part::Field))
}

/// Takes what is at fault out of a document. Says whether that was possible and changed anything.
fn take_out(faults: &[Fault], document: &mut Value) -> bool {
    let parts: Option<BTreeSet<_>> = faults.iter().map(|fault| part(&fault.path)).collect();
    let Some(spec) = document.get_mut("spec").and_then(Value::as_object_mut) else { return false };
    let mut changed = false;
    for part in parts.into_iter().flatten() {
        changed |= match part {
            Part::Rule(place, inside) => take_of_rule(spec, place, inside),
            Part::List(list) => take_list(spec, list),
            Part::Field(field) => take_of_field(spec, field),
        };
    }
    changed
}

fn take_of_rule(spec: &mut Map<String, Value>, (list, index): Place, inside: &str) -> bool {
    let Some(rule) = spec.get_mut(list).and_then(|rules| rules.get_mut(index)) else { return false };
    match rule.as_object_mut() {
        Some(members) if !inside.is_empty() => take_field(members, inside),
        _ => {
            *rule = json!({ "action": "Deny" });
            true
        }
    }
}

fn take_list(spec: &mut Map<String, Value>, list: &str) -> bool {
    if list == "egress" && is_pre_dnat(spec) {
        return spec.shift_remove(list).is_some();
    }
    // Where the directions follow from the rules, egress may have had none: then ingress is governed even without rules.
    let implied = spec.get("types").is_none_or(|types| types.is_null() || *types == json!([]));
    if list == "egress" && implied {
        spec.insert("types".into(), json!(["Ingress", "Egress"]));
    }
    let deny = json!([{ "action": "Deny" }]);
    spec.insert(list.into(), deny.clone()) != Some(deny)
}

fn take_of_field(spec: &mut Map<String, Value>, field: &str) -> bool {
    if field == "labelsToApply"
        && let Some(labels) = spec.get_mut(field).and_then(Value::as_object_mut)
    {
        let before = labels.clone();
        header::keep_texts(labels);
        return *labels != before;
    }
    let stored = spec.get(field);
    let instead = match field {
        "types" if is_pre_dnat(spec) => json!(["Ingress"]),
        "types" => json!(["Ingress", "Egress"]),
        // It can be read, or is not there, and another flag needs it.
        "applyOnForward" if stored.is_none_or(|flag| *flag == json!(false)) => json!(true),
        _ => return spec.shift_remove(field).is_some(),
    };
    spec.insert(field.into(), instead.clone()) != Some(instead)
}

fn is_pre_dnat(spec: &Map<String, Value>) -> bool {
    spec.get("preDNAT") == Some(&json!(true))
}

/// Takes a field out, or if it is not there (it is missing, then) what it is missing from; says whether anything changed.
fn take_field(members: &mut Map<String, Value>, path: &str) -> bool {
    if path == "action" {
        let deny = Value::from("Deny");
        return members.insert("action".into(), deny.clone()) != Some(deny);
    }
    if path == "namespaceSelector" {
        // Without it they would mean peers of the policy's own namespace, and others would escape.
        for field in ["selector", "notSelector", "serviceAccounts"] {
            members.shift_remove(field);
        }
    }
    let Some((name, inside)) = path.split_once('.') else { return members.shift_remove(path).is_some() };
    let Some(member) = members.get_mut(name) else { return false };
    if member.as_object_mut().is_some_and(|inner| take_field(inner, inside)) {
        return true;
    }
    members.shift_remove(name).is_some()
}

#[cfg(test)]
mod tests;
