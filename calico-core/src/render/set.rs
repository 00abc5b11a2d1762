//! IP sets as kernel sets.
//!
//! Hosts and prefixes of each family are a part, which is a kernel set of its own and exists while it has members. The one that most sets use
//! always exists, so that its first member and its last are a change of elements, too. Rules name the parts that exist, so whose rules
//! refer to a set is remembered: when a part comes or goes, those are written anew.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use super::names::{Direction, SetPart, kernel_set};
use super::owner::Owner;
use crate::calc::event::{ActiveRule, ActiveRules, IpSetKind, Member, SetId};
use crate::net::Family;
use crate::table::{Datum, Element, ElementDelta, FieldType, Key, SetDecl, SetKind, SetName};

/// The IP sets.
#[derive(Debug, Default)]
pub(super) struct Sets {
    known: BTreeMap<SetId, Parts>,
    /// Whose rules of a direction refer to a set.
    referrers: BTreeMap<SetId, BTreeSet<Referrer>>,
}

type Referrer = (Owner, Direction);
type Part = (SetPart, Family);
/// The parts that exist, with the number of their members.
type Parts = BTreeMap<Part, usize>;

/// What changes with a set.
#[derive(Debug, Default)]
pub(super) struct Change {
    /// To remove before the rest: one of these may be made anew.
    pub(super) removed: Vec<SetName>,
    pub(super) added: Vec<SetDecl>,
    pub(super) elements: Vec<ElementDelta>,
    /// Who refers to other kernel sets from now on.
    pub(super) rewritten: Vec<Referrer>,
}

impl Sets {
    /// A set with all its members. What it held before, if it is announced again, is not known here, so it starts anew.
    pub(super) fn announce(&mut self, id: SetId, kind: IpSetKind, members: &[Member]) -> Change {
        let former = self.remove(id);
        let always = always(kind);
        self.known.insert(id, BTreeMap::from([(always, 0)]));
        let mut change = self.change(id, members, &[]);
        change.added.insert(0, declaration(id, always));
        let names = |change: &Change| change.added.iter().map(|decl| decl.name.clone()).collect::<BTreeSet<_>>();
        change.rewritten = match former.removed.iter().cloned().collect::<BTreeSet<_>>() == names(&change) {
            true => Vec::new(),
            false => self.referrers(id),
        };
        Change { removed: former.removed, ..change }
    }

    /// Members that came and went. Those of a set that was never announced have nowhere to go.
    pub(super) fn change(&mut self, id: SetId, added: &[Member], removed: &[Member]) -> Change {
        let mut change = Change::default();
        let Some(parts) = self.known.get_mut(&id) else { return change };
        for (part, elements) in by_part(id, added, removed) {
            let before = parts.get(&part).copied();
            let count = before.unwrap_or_default().saturating_sub(elements.removed.len()) + elements.added.len();
            if count > 0 || is_always(part) {
                parts.insert(part, count);
                change.added.extend(before.is_none().then(|| declaration(id, part)));
                change.elements.push(elements);
            } else if parts.remove(&part).is_some() {
                change.removed.push(elements.set);
            }
        }
        if !change.added.is_empty() || !change.removed.is_empty() {
            change.rewritten = self.referrers(id);
        }
        change
    }

    /// Nobody refers to it any more, says the order of events.
    pub(super) fn remove(&mut self, id: SetId) -> Change {
        let parts = self.known.remove(&id).unwrap_or_default();
        let removed = parts.into_keys().map(|(part, family)| kernel_set(id, part, family)).collect();
        Change { removed, ..Change::default() }
    }

    /// Whether a part exists. Of a set that was never announced all do: the kernel refuses who names it, as it must.
    pub(super) fn has(&self, id: SetId, part: SetPart, family: Family) -> bool {
        self.known.get(&id).is_none_or(|parts| parts.contains_key(&(part, family)))
    }

    /// From now on, these are the owner's rules.
    pub(super) fn refer(&mut self, owner: &Owner, former: Option<&ActiveRules>, rules: Option<&ActiveRules>) {
        let (before, after) = (references(former), references(rules));
        for (id, direction) in before.difference(&after) {
            let referrers = self.referrers.get_mut(id);
            if referrers.is_some_and(|found| found.remove(&(owner.clone(), *direction)) && found.is_empty()) {
                self.referrers.remove(id);
            }
        }
        for (id, direction) in after.difference(&before) {
            self.referrers.entry(*id).or_default().insert((owner.clone(), *direction));
        }
    }

    fn referrers(&self, id: SetId) -> Vec<Referrer> {
        self.referrers.get(&id).into_iter().flatten().cloned().collect()
    }
}

fn references(rules: Option<&ActiveRules>) -> BTreeSet<(SetId, Direction)> {
    let of = |rules: &[ActiveRule], direction| -> Vec<(SetId, Direction)> {
        let entities = rules.iter().flat_map(|rule| [&rule.source, &rule.destination]);
        let lists = entities.flat_map(|side| [&side.sets, &side.not_sets, &side.port_sets, &side.not_port_sets]);
        lists.flatten().map(|id| (*id, direction)).collect()
    };
    let Some(rules) = rules else { return BTreeSet::new() };
    of(&rules.ingress, Direction::Ingress).into_iter().chain(of(&rules.egress, Direction::Egress)).collect()
}

/// The part that exists with or without members.
const fn always(kind: IpSetKind) -> Part {
    match kind {
        IpSetKind::Net => (SetPart::Hosts, Family::V4),
        IpSetKind::AddrPort => (SetPart::Ports, Family::V4),
    }
}

fn is_always(part: Part) -> bool {
    [IpSetKind::Net, IpSetKind::AddrPort].map(always).contains(&part)
}

fn declaration(id: SetId, (part, family): Part) -> SetDecl {
    let addr = FieldType::Addr(family);
    let (key, kind) = match part {
        SetPart::Hosts => (vec![addr], SetKind::Hash),
        SetPart::Nets => (vec![addr], SetKind::Interval),
        SetPart::Ports => (vec![addr, FieldType::Proto, FieldType::Port], SetKind::Hash),
    };
    SetDecl::new(kernel_set(id, part, family), key, kind)
}

/// A change of members as changes of elements, at most one for each part.
fn by_part(id: SetId, added: &[Member], removed: &[Member]) -> BTreeMap<Part, ElementDelta> {
    let mut changes = BTreeMap::new();
    let mut pick = |members: &[Member], list: fn(&mut ElementDelta) -> &mut Vec<Element>| {
        for member in members {
            let (part, family) = place(member);
            let new = || ElementDelta { set: kernel_set(id, part, family), removed: Vec::new(), added: Vec::new() };
            list(changes.entry((part, family)).or_insert_with(new)).push(element(member));
        }
    };
    pick(removed, |change| &mut change.removed);
    pick(added, |change| &mut change.added);
    changes
}

fn place(member: &Member) -> Part {
    match member {
        Member::Net(cidr) if cidr.is_host() => (SetPart::Hosts, cidr.family()),
        Member::Net(cidr) => (SetPart::Nets, cidr.family()),
        Member::AddrPort { address, .. } => (SetPart::Ports, Family::of(*address)),
    }
}

fn element(member: &Member) -> Element {
    let key: Key = match member {
        Member::Net(cidr) if cidr.is_host() => [Datum::Addr(cidr.address())].into(),
        Member::Net(cidr) => [Datum::Net(*cidr)].into(),
        Member::AddrPort { address, protocol, port } => {
            [Datum::Addr(*address), Datum::Proto(*protocol), Datum::Port(*port)].into()
        }
    };
    Element { key, data: None }
}
