//! Which changes can deny what was allowed, and to whom.
//!
//! Most changes of a busy cluster deny nothing that goes on: a pod is added, and with it a member of sets from which rules allow. To
//! read a host's whole table of connections for each would cost more than it is worth. So each set is known by how rules use it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use super::Connection;
use crate::calc::event::{ActiveRule, ActiveRules, Event, Member, SetId};
use crate::net::Cidr;
use crate::resource::Action;
use crate::verdict::ActiveState;

/// Connections that may be denied now and were not before.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Doubt {
    /// All.
    All,
    /// Those that have one of these addresses.
    Of {
        /// Addresses.
        hosts: BTreeSet<IpAddr>,
        /// Shorter prefixes.
        nets: Vec<Cidr>,
    },
}

/// Takes the graph's events in, and collects the doubt that they raise.
#[derive(Debug, Default)]
pub struct Doubts {
    uses: BTreeMap<SetId, Uses>,
    /// How many endpoints have an address.
    owners: BTreeMap<Cidr, usize>,
    doubt: Option<Doubt>,
}

/// In how many places a change of a set can deny.
#[derive(Debug, Default, Clone, Copy)]
struct Uses {
    /// A new member can deny.
    when_added: usize,
    /// The loss of a member can deny.
    when_removed: usize,
}

/// With more prefixes than this, each connection is compared with, all are in doubt.
const MOST_NETS: usize = 64;

impl Doubt {
    /// Whether a connection is among them.
    pub fn concerns(&self, connection: &Connection) -> bool {
        match self {
            Self::All => true,
            Self::Of { hosts, nets } => connection
                .addresses()
                .into_iter()
                .any(|address| hosts.contains(&address) || nets.iter().any(|net| net.contains(address))),
        }
    }

    fn add(&mut self, prefix: Cidr) {
        let Self::Of { hosts, nets } = self else { return };
        if prefix.is_host() {
            hosts.insert(prefix.address());
        } else if nets.len() == MOST_NETS {
            *self = Self::All;
        } else {
            nets.push(prefix);
        }
    }
}

impl Doubts {
    /// Takes an event in, before the state does.
    pub fn handle(&mut self, before: &ActiveState, event: &Event) {
        match event {
            Event::SetChanged { id, added, removed } => {
                let uses = self.uses.get(id).copied().unwrap_or_default();
                let added = added.iter().filter(|_| uses.when_added > 0);
                let removed = removed.iter().filter(|_| uses.when_removed > 0);
                self.doubt_of(added.chain(removed).map(prefix));
            }
            Event::PolicySet { id, rules } => self.rules_changed(before.policies.get(id), Some(rules)),
            Event::PolicyRemoved(id) => self.rules_changed(before.policies.get(id), None),
            Event::ProfileSet { id, rules } => self.rules_changed(before.profiles.get(id), Some(rules)),
            Event::ProfileRemoved(id) => self.rules_changed(before.profiles.get(id), None),
            Event::EndpointSet { id, endpoint } => {
                let known = before.endpoints.get(id);
                let shared = self.passed_on(known.map_or(&[], |known| &known.addresses), &endpoint.addresses);
                let Some(known) = known else { return };
                if known.ingress != endpoint.ingress || known.egress != endpoint.egress {
                    self.doubt_of(endpoint.addresses.iter().chain(&endpoint.allowed_sources).copied());
                }
                self.doubt_of(shared.into_iter());
                let further = known.allowed_sources.iter().filter(|net| !endpoint.allowed_sources.contains(net));
                self.doubt_of(further.copied());
            }
            // Its connections end with it, but those that another one may have with the same address.
            Event::EndpointRemoved(id) => {
                let Some(known) = before.endpoints.get(id) else { return };
                let shared = self.passed_on(&known.addresses, &[]);
                self.doubt_of(shared.into_iter());
                self.doubt_of(known.allowed_sources.iter().copied());
            }
            // A new set is nobody's yet, as a new endpoint is, and one that goes was nobody's any more.
            Event::SetAdded { .. } | Event::SetRemoved(_) => {}
            // Interfaces pass on with it, and whose a connection is, its addresses do not tell.
            Event::HostEndpointSet { id, endpoint } if before.host_endpoints.get(id) == Some(endpoint) => {}
            Event::HostEndpointSet { .. } | Event::HostEndpointRemoved(_) => self.doubt_all(),
            // It does not decide about policy.
            Event::NetworkSet(_) => {}
        }
    }

    /// Doubts everything: nobody knows what was allowed before.
    pub fn doubt_all(&mut self) {
        self.doubt = Some(Doubt::All);
    }

    /// Doubts again what was taken.
    pub fn doubt(&mut self, doubt: Doubt) {
        match doubt {
            Doubt::All => self.doubt_all(),
            Doubt::Of { hosts, nets } => self.doubt_of(hosts.into_iter().map(Cidr::host).chain(nets)),
        }
    }

    /// The doubt collected so far.
    pub const fn take(&mut self) -> Option<Doubt> {
        self.doubt.take()
    }

    /// Whether there is any.
    pub const fn is_some(&self) -> bool {
        self.doubt.is_some()
    }

    fn doubt_of(&mut self, prefixes: impl Iterator<Item = Cidr>) {
        for prefix in prefixes {
            let nothing = || Doubt::Of { hosts: BTreeSet::new(), nets: Vec::new() };
            self.doubt.get_or_insert_with(nothing).add(prefix);
        }
    }

    /// Takes in that an endpoint has other addresses; those that it has no more, and that another one has, too.
    fn passed_on(&mut self, before: &[Cidr], after: &[Cidr]) -> Vec<Cidr> {
        for address in after {
            *self.owners.entry(*address).or_default() += 1;
        }
        for address in before {
            let Some(count) = self.owners.get_mut(address) else { continue };
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.owners.remove(address);
            }
        }
        let lost = before.iter().filter(|address| !after.contains(address));
        lost.filter(|address| self.owners.contains_key(address)).copied().collect()
    }

    /// Rules of a policy that is new decide for nobody before an endpoint has it.
    fn rules_changed(&mut self, before: Option<&Arc<ActiveRules>>, after: Option<&Arc<ActiveRules>>) {
        if before.zip(after).is_some_and(|(before, after)| before != after) {
            self.doubt_all();
        }
        for rule in after.into_iter().flat_map(|rules| all(rules)) {
            for (set, change) in uses(rule) {
                let uses = self.uses.entry(set).or_default();
                uses.when_added += change.when_added;
                uses.when_removed += change.when_removed;
            }
        }
        for rule in before.into_iter().flat_map(|rules| all(rules)) {
            for (set, change) in uses(rule) {
                let Some(uses) = self.uses.get_mut(&set) else { continue };
                uses.when_added = uses.when_added.saturating_sub(change.when_added);
                uses.when_removed = uses.when_removed.saturating_sub(change.when_removed);
                if uses.when_added == 0 && uses.when_removed == 0 {
                    self.uses.remove(&set);
                }
            }
        }
    }
}

fn prefix(member: &Member) -> Cidr {
    match member {
        Member::Net(net) => *net,
        Member::AddrPort { address, .. } => Cidr::host(*address),
    }
}

fn all(rules: &ActiveRules) -> impl Iterator<Item = &ActiveRule> {
    rules.ingress.iter().chain(&rules.egress)
}

/// A rule that allows denies where it matches no more, one that denies where it matches now; one that passes on may do either.
fn uses(rule: &ActiveRule) -> impl Iterator<Item = (SetId, Uses)> {
    let (when_matched, when_missed) = match rule.action {
        Action::Allow => (0, 1),
        Action::Deny => (1, 0),
        Action::Pass => (1, 1),
        Action::Log => (0, 0),
    };
    let wanted = Uses { when_added: when_matched, when_removed: when_missed };
    let unwanted = Uses { when_added: when_missed, when_removed: when_matched };
    [&rule.source, &rule.destination].into_iter().flat_map(move |side| {
        let of = |sets: &'_ [SetId], uses| sets.iter().map(move |set| (*set, uses)).collect::<Vec<_>>();
        let positive = of(&side.sets, wanted).into_iter().chain(of(&side.port_sets, wanted));
        positive.chain(of(&side.not_sets, unwanted)).chain(of(&side.not_port_sets, unwanted))
    })
}
