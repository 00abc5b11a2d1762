//! Ends that no policy tells apart: of each such class one answers for all.
//!
//! What an evaluator knows of an end is what it runs through, which sets and lists of prefixes hold its addresses, and the ports that
//! it has a name for. Ends that have all that in common have each verdict in common. Where hosts have policy, the host is part of it.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use calico_core::calc::event::{ActiveRule, EndpointId, Member, SetId};
use calico_core::net::{Cidr, Family};

use super::model::Model;
use super::names::Party;

/// Something that an evaluator knows of an end.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Fact {
    /// It is like no other.
    Alone(usize),
    /// It is not active in that model.
    Inactive(usize),
    /// Where its stacks lie: equal ones are one value.
    Stacks(usize, usize, usize),
    Family(Family),
    Node(String),
    /// A set of that model holds its address of that family.
    Set(usize, SetId, Family),
    /// A set of that model holds its port.
    Port(usize, SetId, Family, u8, u16),
    /// A prefix that rules name holds its address.
    Net(Cidr),
}

/// For each end the number of its class. Two ends of one class are alike in each of the models.
pub(super) fn classes(models: &[&mut Model], parties: &[&Party]) -> Vec<usize> {
    let with_hosts = models.iter().any(|model| !model.host_endpoints.is_empty())
        || parties.iter().any(|party| !matches!(party, Party::Workload { .. } | Party::Outside(_)));
    let mut facts: Vec<BTreeSet<Fact>> = Vec::with_capacity(parties.len());
    let mut by_address: HashMap<IpAddr, Vec<usize>> = HashMap::new();
    for (index, party) in parties.iter().enumerate() {
        let mut own = BTreeSet::new();
        for family in [Family::V4, Family::V6] {
            // The address that flows are asked with.
            let address = party.addresses().iter().find(|address| Family::of(**address) == family);
            let Some(address) = address else { continue };
            own.insert(Fact::Family(family));
            by_address.entry(*address).or_default().push(index);
        }
        match party {
            Party::Workload { key, node, .. } => {
                own.extend(with_hosts.then(|| Fact::Node(node.clone())));
                let id = EndpointId(key.clone());
                own.extend(models.iter().enumerate().map(|(number, model)| match model.state.endpoints.get(&id) {
                    None => Fact::Inactive(number),
                    Some(found) => {
                        Fact::Stacks(number, Arc::as_ptr(&found.ingress).addr(), Arc::as_ptr(&found.egress).addr())
                    }
                }));
            }
            Party::Outside(_) => {}
            Party::HostEndpoint { .. } | Party::Host { .. } => {
                own.insert(Fact::Alone(parties.iter().position(|other| other == party).unwrap_or(index)));
            }
        }
        facts.push(own);
    }
    let mut knower = Knower { by_address, facts };
    models.iter().enumerate().for_each(|(number, model)| knower.learn(number, model));
    let mut known: HashMap<BTreeSet<Fact>, usize> = HashMap::new();
    knower
        .facts
        .into_iter()
        .map(|facts| {
            let next = known.len();
            *known.entry(facts).or_insert(next)
        })
        .collect()
}

struct Knower {
    by_address: HashMap<IpAddr, Vec<usize>>,
    facts: Vec<BTreeSet<Fact>>,
}

impl Knower {
    fn learn(&mut self, number: usize, model: &Model) {
        for (id, (_, members)) in &model.state.sets {
            for member in members {
                match member {
                    Member::Net(net) => self.net(*net, |family| Fact::Set(number, *id, family)),
                    Member::AddrPort { address, protocol, port } => {
                        self.host(*address, &Fact::Port(number, *id, Family::of(*address), *protocol, *port));
                    }
                }
            }
        }
        let of_policies = model.state.policies.values();
        let rules = of_policies.chain(model.state.profiles.values());
        let nets: BTreeSet<Cidr> =
            rules.flat_map(|rules| rules.ingress.iter().chain(&rules.egress)).flat_map(nets).copied().collect();
        nets.into_iter().for_each(|net| self.net(net, |_| Fact::Net(net)));
        model.state.network.services.iter().for_each(|net| self.net(*net, |_| Fact::Net(*net)));
    }

    fn host(&mut self, address: IpAddr, fact: &Fact) {
        for index in self.by_address.get(&address).into_iter().flatten() {
            if let Some(facts) = self.facts.get_mut(*index) {
                facts.insert(fact.clone());
            }
        }
    }

    fn net(&mut self, net: Cidr, fact: impl Fn(Family) -> Fact) {
        let fact = fact(net.family());
        if net.is_host() {
            return self.host(net.address(), &fact);
        }
        for (_, indexes) in self.by_address.iter().filter(|(address, _)| net.contains(**address)) {
            for index in indexes {
                if let Some(facts) = self.facts.get_mut(*index) {
                    facts.insert(fact.clone());
                }
            }
        }
    }
}

/// The prefixes that a rule names.
pub(super) fn nets(rule: &ActiveRule) -> impl Iterator<Item = &Cidr> {
    let sides = [&rule.source, &rule.destination];
    sides.into_iter().flat_map(|side| side.nets.iter().chain(&side.not_nets))
}
