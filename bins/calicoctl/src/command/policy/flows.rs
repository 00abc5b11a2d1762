//! Flows whose verdict a change would turn.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use calico_core::calc::event::Member;
use calico_core::flow::Decision;
use calico_core::net::{Cidr, Family};
use calico_core::resource::ResourceKey;
use serde_json::{Value, json};

use super::change::Touched;
use super::grid::common;
use super::matrix::End;
use super::model::Model;
use super::names::Party;
use super::paint::{Page, Style};
use super::ports::Sample;
use super::progress::Progress;
use super::quick::{Quick, QuickAsker};
use super::traffic::Traffic;
use super::{alike, ports, steps};

/// Most prefixes that are asked about.
const PREFIXES: usize = 40;

/// A flow that would be decided otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FlowChange {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) sample: Sample,
    pub(super) family: Family,
    pub(super) before: Option<Decision>,
    pub(super) after: Option<Decision>,
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Flows {
    pub(super) changes: Vec<FlowChange>,
    /// The traffic that was asked about.
    pub(super) samples: BTreeSet<Sample>,
    /// Whether there was more to ask about than was asked.
    pub(super) is_partial: bool,
}

pub(super) fn changes(
    before: &mut Model,
    after: &mut Model,
    touched: &[Touched],
    given: &[Traffic],
    progress: &mut Progress<'_>,
) -> Flows {
    let mut flows = Flows::default();
    let samples = if given.is_empty() {
        let found = ports::boundaries(&[before, after]);
        flows.is_partial = found.is_partial;
        found.samples
    } else {
        given.iter().map(|traffic| Sample { traffic: *traffic, is_other: false }).collect()
    };
    flows.samples.extend(&samples);
    let (others, is_partial) = others(&[before, after]);
    flows.is_partial |= is_partial;
    let mut ends = workloads(before, after);
    ends.extend(others);
    let parties: Vec<&Party> = ends.iter().map(|end| &end.party).collect();
    let classes = alike::classes(&[before, after], &parties);
    let concerned = |end: &End, of: fn(&Touched) -> bool| match &end.party {
        Party::Workload { key, .. } | Party::HostEndpoint { key, .. } => {
            touched.iter().any(|one| one.key == *key && of(one))
        }
        _ => false,
    };
    let leaves: Vec<bool> = ends.iter().map(|end| concerned(end, |one| one.egress)).collect();
    let comes: Vec<bool> = ends.iter().map(|end| concerned(end, |one| one.ingress)).collect();
    let (then, now) = (Quick::of(before), Quick::of(after));
    let mut askers = [then.asker(), now.asker()];
    let mut known: HashMap<(usize, usize, bool), Vec<Turn>> = HashMap::new();
    for (from_index, from) in ends.iter().enumerate() {
        progress.tell(from_index, ends.len());
        for (to_index, to) in ends.iter().enumerate() {
            let is_same = from_index == to_index;
            let leaves = leaves.get(from_index).copied().unwrap_or_default();
            if is_same || !(leaves || comes.get(to_index).copied().unwrap_or_default()) {
                continue;
            }
            let (Some(of_from), Some(of_to)) = (classes.get(from_index), classes.get(to_index)) else { continue };
            let turns = known
                .entry((*of_from, *of_to, is_same))
                .or_insert_with(|| turns([&mut *before, &mut *after], &mut askers, [&from.party, &to.party], &samples));
            flows.changes.extend(turns.iter().map(|turn| FlowChange {
                from: from.name.clone(),
                to: to.name.clone(),
                sample: turn.sample,
                family: turn.family,
                before: turn.before,
                after: turn.after,
            }));
        }
    }
    progress.end();
    flows
}

/// A verdict that would be another one.
#[derive(Debug, Clone, Copy)]
struct Turn {
    sample: Sample,
    family: Family,
    before: Option<Decision>,
    after: Option<Decision>,
}

fn turns(
    [before, after]: [&mut Model; 2],
    [then_asker, now_asker]: &mut [QuickAsker<'_>; 2],
    [from, to]: [&Party; 2],
    samples: &[Sample],
) -> Vec<Turn> {
    let mut turns = Vec::new();
    let then = |model: &Model| Some([in_model(model, from)?, in_model(model, to)?]);
    let (then, now) = (then(before), then(after));
    for family in [Family::V4, Family::V6] {
        for sample in samples.iter().filter(|sample| sample.traffic.family().is_none_or(|own| own == family)) {
            let before = decision(before, then_asker, then.as_ref(), sample.traffic, family);
            let after = decision(after, now_asker, now.as_ref(), sample.traffic, family);
            if before != after {
                turns.push(Turn { sample: *sample, family, before, after });
            }
        }
    }
    turns
}

/// None where a model has no such flow.
fn decision(
    model: &mut Model,
    asker: &mut QuickAsker<'_>,
    ends: Option<&[Party; 2]>,
    traffic: Traffic,
    family: Family,
) -> Option<Decision> {
    let [from, to] = ends?;
    let of = |party: &Party| party.addresses().iter().copied().find(|address| Family::of(*address) == family);
    let flow = traffic.flow(of(from)?, of(to)?);
    Some(asker.decide(model, from, to, &flow))
}

/// A workload as that model has it.
fn in_model(model: &Model, party: &Party) -> Option<Party> {
    match party {
        Party::Workload { key, .. } => model.names.party(key),
        Party::HostEndpoint { key, .. } => model.names.host_party(key),
        other => Some(other.clone()),
    }
}

/// Endpoints of either.
fn workloads(before: &Model, after: &Model) -> Vec<End> {
    let mut ends: BTreeMap<ResourceKey, End> = BTreeMap::new();
    for model in [before, after] {
        for (key, name) in model.names.all() {
            let party = model.names.party(&key).or_else(|| model.names.host_party(&key));
            ends.extend(party.map(|party| (key, End { name, party })));
        }
    }
    let mut ends: Vec<_> = ends.into_values().collect();
    ends.sort_by(|one, other| one.name.cmp(&other.name));
    ends
}

/// An address of each prefix that rules or sets name, and one of none; and whether there are more than that.
fn others(models: &[&mut Model]) -> (Vec<End>, bool) {
    let mut nets: BTreeSet<Cidr> = BTreeSet::new();
    for model in models {
        let rules = model.state.policies.values().chain(model.state.profiles.values());
        nets.extend(rules.flat_map(|rules| rules.ingress.iter().chain(&rules.egress)).flat_map(alike::nets));
        let members = model.state.sets.values().flat_map(|(_, members)| members);
        nets.extend(members.filter_map(|member| match member {
            Member::Net(net) => Some(*net),
            Member::AddrPort { .. } => None,
        }));
    }
    let is_known = |address: IpAddr| models.iter().any(|model| model.names.owner(address).is_some());
    nets.retain(|net| net.length() > 0 && !(net.is_host() && is_known(net.address())));
    let lies_deepest = |address: IpAddr, in_net: Option<&Cidr>| {
        let deepest = nets.iter().filter(|net| net.contains(address)).max_by_key(|net| net.length());
        deepest == in_net && !is_known(address)
    };
    let mut ends = Vec::new();
    for net in nets.iter().take(PREFIXES) {
        let address = tries(net.address()).find(|address| net.contains(*address) && lies_deepest(*address, Some(net)));
        let name = if net.is_host() { net.address().to_string() } else { net.to_string() };
        ends.extend(address.map(|address| End { name, party: Party::Outside(address) }));
    }
    let has_v6 = models.iter().any(|model| {
        model.state.endpoints.values().flat_map(|one| &one.addresses).any(|net| net.family() == Family::V6)
    });
    let documentation = [IpAddr::V4(Ipv4Addr::new(203, 0, 113, 0)), IpAddr::V4(Ipv4Addr::new(1, 0, 0, 0))];
    let elsewhere = documentation.into_iter().flat_map(tries).find(|address| lies_deepest(*address, None));
    ends.extend(elsewhere.map(|address| End { name: "elsewhere".into(), party: Party::Outside(address) }));
    let v6 = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0));
    let elsewhere = tries(v6).find(|address| has_v6 && lies_deepest(*address, None));
    ends.extend(elsewhere.map(|address| End { name: "elsewhere (IPv6)".into(), party: Party::Outside(address) }));
    (ends, nets.len() > PREFIXES)
}

/// Addresses of a prefix that begins there, from the first: next to each other, then ever farther apart.
fn tries(first: IpAddr) -> impl Iterator<Item = IpAddr> {
    let steps = (0..16_u32).chain((5..32).map(|power| 1 << power));
    steps.filter_map(move |step| match first {
        IpAddr::V4(address) => u32::from(address).checked_add(step).map(|sum| IpAddr::V4(sum.into())),
        IpAddr::V6(address) => u128::from(address).checked_add(step.into()).map(|sum| IpAddr::V6(sum.into())),
    })
}

impl FlowChange {
    pub(super) fn json(&self) -> Value {
        json!({
            "from": self.from,
            "to": self.to,
            "protocol": self.sample.traffic.protocol(),
            "port": if self.sample.is_other { None } else { self.sample.traffic.port() },
            "ipVersion": match self.family { Family::V4 => 4, Family::V6 => 6 },
            "before": self.before.map(steps::verdict),
            "after": self.after.map(steps::verdict),
        })
    }
}

/// What becomes of flows, ends alike taken together. New flows that would be denied are told by silence.
pub(super) fn text(flows: &Flows, page: &mut Page) {
    let (allow, deny) = (Some(Decision::Allow), Some(Decision::Deny));
    let sorts = [
        ("Flows that would be denied:", Style::Bad, allow, deny),
        ("Flows that would be allowed:", Style::Good, deny, allow),
        ("Flows of new endpoints that would be allowed:", Style::Good, None, allow),
        ("Flows that were allowed, of endpoints that would be gone:", Style::Bad, allow, None),
    ];
    let mut is_silent = true;
    for (heading, style, before, after) in sorts {
        let of_sort = flows.changes.iter().filter(|flow| flow.before == before && flow.after == after);
        let lines = lines(of_sort, &flows.samples);
        if lines.is_empty() {
            continue;
        }
        is_silent = false;
        page.line(0, &[(Style::Bold, heading)]);
        for (ends, traffic) in lines {
            page.line(2, &[(style, &ends), (Style::Plain, "  "), (Style::Dim, &traffic)]);
        }
    }
    if is_silent {
        page.line(0, &[(Style::Bold, "No flow would be decided otherwise.")]);
    }
}

/// Traffic between two ends, by family.
type Between = BTreeSet<(Family, Sample)>;

/// Sources with the same destinations are one, and so are destinations with the same traffic.
fn lines<'a>(flows: impl Iterator<Item = &'a FlowChange>, samples: &BTreeSet<Sample>) -> Vec<(String, String)> {
    let mut by_from: BTreeMap<&str, BTreeMap<&str, Between>> = BTreeMap::new();
    for flow in flows {
        by_from.entry(&flow.from).or_default().entry(&flow.to).or_default().insert((flow.family, flow.sample));
    }
    let mut alike: BTreeMap<Vec<(&Between, Vec<&str>)>, Vec<&str>> = BTreeMap::new();
    for (from, by_to) in &by_from {
        let mut by_traffic: BTreeMap<&Between, Vec<&str>> = BTreeMap::new();
        for (to, traffic) in by_to {
            by_traffic.entry(traffic).or_default().push(to);
        }
        alike.entry(by_traffic.into_iter().collect()).or_default().push(from);
    }
    let mut lines = Vec::new();
    for (by_traffic, sources) in alike {
        for (traffic, destinations) in by_traffic {
            let ends = format!("{} → {}", several(&sources), several(&destinations));
            lines.push((ends, between(traffic, samples)));
        }
    }
    lines.sort();
    lines
}

/// The traffic in words. What holds over IPv6 is told for itself only where it is other than over IPv4.
fn between(traffic: &Between, samples: &BTreeSet<Sample>) -> String {
    let of = |family| -> BTreeSet<Sample> {
        traffic.iter().filter(|(own, _)| *own == family).map(|(_, sample)| *sample).collect()
    };
    let told = |found: &BTreeSet<Sample>, suffix: &str| {
        if found.len() == samples.len() && found.len() > 1 {
            return vec![format!("all traffic{suffix}")];
        }
        found.iter().map(|sample| format!("{sample}{suffix}")).collect::<Vec<_>>()
    };
    let (over_v4, over_v6) = (of(Family::V4), of(Family::V6));
    let mut words = told(&over_v4, "");
    if over_v6 != over_v4 {
        words.extend(told(&over_v6, " over IPv6"));
    }
    words.join(", ")
}

/// A few by name, more by what they have in common.
fn several(names: &[&str]) -> String {
    if names.len() <= 5 { names.join(", ") } else { common(names) }
}
