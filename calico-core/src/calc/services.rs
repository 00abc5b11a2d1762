//! Sets of what stands behind services.
//!
//! In come endpoint slices and references from rules; out come whole new sets, member changes of old ones, and removals. A set
//! lives while something refers to it. Members are counted: several slices of a service may have the same.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;

use hashbrown::HashMap;

use super::event::{Event, IpSetKind, Member, SetId};
use crate::net::Cidr;
use crate::selector::unique_digest;
use crate::service::{EndpointSlice, EndpointSliceKey, ServiceKey};

/// What a set is made of: the endpoints of a service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ServiceSet {
    pub(super) service: ServiceKey,
    /// With their ports, or the addresses alone.
    pub(super) kind: IpSetKind,
}

/// The node.
#[derive(Debug, Default)]
pub(super) struct Services {
    slices: HashMap<EndpointSliceKey, Arc<EndpointSlice>>,
    by_service: HashMap<ServiceKey, Parts>,
    sets: HashMap<SetId, Set>,
    dirty: BTreeSet<SetId>,
}

/// What there is of a service, and who wants it. Never empty.
#[derive(Debug, Default)]
struct Parts {
    slices: BTreeSet<EndpointSliceKey>,
    sets: BTreeSet<SetId>,
}

#[derive(Debug)]
struct Set {
    definition: ServiceSet,
    references: u32,
    /// Whether the renderer knows it.
    sent: bool,
    members: BTreeMap<Member, u32>,
    /// Since it was last sent: what came (`true`) and went.
    changes: BTreeMap<Member, bool>,
}

impl ServiceSet {
    /// Upstream's content and prefixes.
    pub(super) fn id(&self) -> SetId {
        let prefix = match self.kind {
            IpSetKind::AddrPort => "svc",
            IpSetKind::Net => "svcnoport",
        };
        SetId::of_digest(unique_digest(prefix, &format!("{}/{}", self.service.namespace, self.service.name)))
    }
}

impl Services {
    pub(super) fn set_slice(&mut self, key: &EndpointSliceKey, slice: Option<Arc<EndpointSlice>>) {
        let former = match &slice {
            Some(slice) => self.slices.insert(key.clone(), slice.clone()),
            None => self.slices.remove(key),
        };
        if former == slice {
            return;
        }
        // The new is added before the old is taken back, so that what stays does not flap.
        if let Some((service, slice)) = slice.as_ref().and_then(of_service) {
            self.by_service.entry(service.clone()).or_default().slices.insert(key.clone());
            self.apply(&service, slice, true);
        }
        if let Some((service, former)) = former.as_ref().and_then(of_service) {
            self.apply(&service, former, false);
            let stays = slice.as_ref().and_then(of_service).is_some_and(|(other, _)| other == service);
            self.part(&service, |parts| {
                if !stays {
                    parts.slices.remove(key);
                }
            });
        }
    }

    /// Refers to a set, which is made when it does not exist.
    pub(super) fn acquire(&mut self, definition: &ServiceSet) -> SetId {
        let id = definition.id();
        self.dirty.insert(id);
        if let Some(set) = self.sets.get_mut(&id) {
            set.references += 1;
            return id;
        }
        let mut set = Set {
            definition: definition.clone(),
            references: 1,
            sent: false,
            members: BTreeMap::new(),
            changes: BTreeMap::new(),
        };
        let parts = self.by_service.entry(definition.service.clone()).or_default();
        parts.sets.insert(id);
        for slice in parts.slices.iter().filter_map(|key| self.slices.get(key)) {
            set.apply(slice, true);
        }
        self.sets.insert(id, set);
        id
    }

    /// Gives one reference up.
    pub(super) fn release(&mut self, id: SetId) {
        let Some(set) = self.sets.get_mut(&id) else { return };
        set.references -= 1;
        self.dirty.insert(id);
    }

    /// Works out all changes: additions and changes in the first list, removals in the second, each in order of the sets' ids.
    pub(super) fn flush(&mut self) -> (Vec<Event>, Vec<Event>) {
        let (mut events, mut removed) = (Vec::new(), Vec::new());
        for id in mem::take(&mut self.dirty) {
            let Some(set) = self.sets.get_mut(&id) else { continue };
            if set.references > 0 {
                events.extend(set.take_event(id));
                continue;
            }
            let Some(set) = self.sets.remove(&id) else { continue };
            self.part(&set.definition.service, |parts| {
                parts.sets.remove(&id);
            });
            if set.sent {
                removed.push(Event::SetRemoved(id));
            }
        }
        events.sort_by_key(|event| !matches!(event, Event::SetAdded { .. }));
        (events, removed)
    }

    /// Adds a slice to the sets of a service, or takes it back.
    fn apply(&mut self, service: &ServiceKey, slice: &EndpointSlice, add: bool) {
        let Some(parts) = self.by_service.get(service) else { return };
        for id in &parts.sets {
            let Some(set) = self.sets.get_mut(id) else { continue };
            set.apply(slice, add);
            self.dirty.insert(*id);
        }
    }

    fn part(&mut self, service: &ServiceKey, edit: impl FnOnce(&mut Parts)) {
        let Some(parts) = self.by_service.get_mut(service) else { return };
        edit(parts);
        if parts.slices.is_empty() && parts.sets.is_empty() {
            self.by_service.remove(service);
        }
    }
}

impl Set {
    fn apply(&mut self, slice: &EndpointSlice, add: bool) {
        for member in members(slice, self.definition.kind) {
            let count = self.members.entry(member).or_default();
            let before = *count;
            *count = if add { before + 1 } else { before.saturating_sub(1) };
            let now = *count;
            if now == 0 {
                self.members.remove(&member);
            }
            // Until the set has been sent as a whole there is nothing to change. Coming and going cancel out.
            let is_news = (before == 0) != (now == 0);
            if is_news && self.sent && self.changes.remove(&member).is_none() {
                self.changes.insert(member, add);
            }
        }
    }

    fn take_event(&mut self, id: SetId) -> Option<Event> {
        if !self.sent {
            self.sent = true;
            let members = self.members.keys().copied().collect();
            return Some(Event::SetAdded { id, kind: self.definition.kind, members });
        }
        let changes = mem::take(&mut self.changes);
        if changes.is_empty() {
            return None;
        }
        let (added, removed): (Vec<_>, Vec<_>) = changes.into_iter().partition(|(_, present)| *present);
        let members = |changes: Vec<(Member, bool)>| changes.into_iter().map(|(member, _)| member).collect();
        Some(Event::SetChanged { id, added: members(added), removed: members(removed) })
    }
}

/// The service that a slice is of, if any.
fn of_service(slice: &Arc<EndpointSlice>) -> Option<(ServiceKey, &EndpointSlice)> {
    let service = ServiceKey { namespace: slice.namespace.clone(), name: slice.service.clone() };
    (!slice.service.is_empty()).then_some((service, &**slice))
}

fn members(slice: &EndpointSlice, kind: IpSetKind) -> impl Iterator<Item = Member> {
    let ports: &[(u8, u16)] = match kind {
        IpSetKind::AddrPort => &slice.ports,
        // Each address once.
        IpSetKind::Net => &[(0, 0)],
    };
    slice.addresses.iter().flat_map(move |address| {
        ports.iter().map(move |(protocol, port)| match kind {
            IpSetKind::AddrPort => Member::AddrPort { address: *address, protocol: *protocol, port: *port },
            IpSetKind::Net => Member::Net(Cidr::host(*address)),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(service: &str, kind: IpSetKind) -> ServiceSet {
        ServiceSet { service: ServiceKey { namespace: "one".into(), name: service.into() }, kind }
    }

    /// Says what a service has: one slice, or none.
    fn tell(services: &mut Services, service: &str, addresses: &[&str]) {
        let key = EndpointSliceKey { namespace: "one".into(), name: service.into() };
        let addresses: Vec<_> = addresses.iter().map(|address| address.parse().unwrap()).collect();
        let slice =
            EndpointSlice { namespace: "one".into(), service: service.into(), ports: Vec::from([(6, 80)]), addresses };
        services.set_slice(&key, (!slice.addresses.is_empty()).then(|| Arc::new(slice)));
    }

    #[test]
    fn a_set_that_nobody_was_told_of_does_not_go() {
        let web = set("web", IpSetKind::Net);
        let mut services = Services::default();
        tell(&mut services, "web", &["10.0.0.8"]);
        let id = services.acquire(&web);
        services.release(id);
        assert_eq!(services.flush(), (Vec::new(), Vec::new()));
        services.acquire(&web);
        assert_eq!(services.flush().0.len(), 1);
        services.release(id);
        assert_eq!(services.flush(), (Vec::new(), Vec::from([Event::SetRemoved(id)])));
        assert!(services.by_service.values().all(|parts| parts.sets.is_empty()));
        tell(&mut services, "web", &[]);
        assert!(services.by_service.is_empty(), "nothing is remembered");
    }

    #[test]
    fn what_is_new_comes_before_what_changes() {
        let sets = [IpSetKind::Net, IpSetKind::AddrPort].map(|kind| set("web", kind));
        // Whichever has the lesser name.
        for (known, new) in [(&sets[0], &sets[1]), (&sets[1], &sets[0])] {
            let mut services = Services::default();
            services.acquire(known);
            services.flush();
            tell(&mut services, "web", &["10.0.0.8"]);
            services.acquire(new);
            let (events, _) = services.flush();
            let [Event::SetAdded { id: added, .. }, Event::SetChanged { id: changed, .. }] = events.as_slice() else {
                panic!("{events:?}");
            };
            assert_eq!((*added, *changed), (new.id(), known.id()));
        }
    }
}
