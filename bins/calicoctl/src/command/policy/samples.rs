//! Which traffic a comparison asks about: of all traffic that the rules of either side could tell apart, one of each sort.
//!
//! The ends of all ranges of ports that rules name cut the ports into intervals; those that no rule tells apart are one sample. Where rules
//! look at source ports, too, each interval of these is combined with each of those. Types and codes of ICMP, and protocols without
//! ports, are taken one by one, and one that nobody names stands for the rest.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use calico_core::calc::event::{ActiveEntity, ActiveRule, Member};
use calico_core::net::Family;
use calico_core::resource::Icmp;
use serde_json::{Value, json};

use super::axis::{Axis, Interval, Side, join, joined, parts, ranges};
use super::model::Model;
use super::steps::put;
use super::traffic::{SOURCE_PORT, Traffic, has_ports, name};

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
const IPIP: u8 = 4;
/// Stands for all protocols that nobody names: one for experiments (RFC 3692), and the next if that is named.
const OTHERS: std::ops::RangeInclusive<u8> = 143..=254;
/// Most combinations of source and destination ports of a protocol.
const MOST: usize = 50_000;

/// Some traffic, and all that no rule tells from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sample {
    /// One of it.
    pub(super) traffic: Traffic,
    /// What it is called.
    pub(super) label: String,
    protocol: String,
    /// Ports, where it is these from any port.
    intervals: Vec<(u16, u16)>,
    ports: Option<String>,
    source_ports: Option<String>,
    icmp: Option<(u8, u8)>,
}

/// What to ask about.
#[derive(Debug, Default)]
pub(super) struct Samples {
    pub(super) list: Vec<Sample>,
    /// What is left out, and why.
    pub(super) left_out: Vec<String>,
}

impl Sample {
    /// Traffic that was chosen.
    pub(super) fn given(traffic: Traffic) -> Self {
        let ports = traffic.port().map(|port| port.to_string());
        Self {
            traffic,
            label: traffic.to_string(),
            protocol: traffic.protocol(),
            intervals: traffic.port().map(|port| (port, port)).into_iter().collect(),
            ports,
            source_ports: None,
            icmp: None,
        }
    }

    /// Whether it is of that family, too.
    pub(super) fn is_of(&self, family: Family) -> bool {
        self.traffic.family().is_none_or(|own| own == family)
    }

    pub(super) fn json(&self) -> Value {
        let mut value = json!({ "protocol": self.protocol, "ports": self.ports });
        if let Some(ports) = &self.source_ports {
            put(&mut value, "sourcePorts", json!(ports));
        }
        if let Some((kind, code)) = self.icmp {
            put(&mut value, "icmpType", json!(kind));
            put(&mut value, "icmpCode", json!(code));
        }
        value
    }
}

/// All that the rules, named ports and settings of the models could tell apart.
pub(super) fn all(models: &[&Model]) -> Samples {
    let scene = Scene::of(models);
    let mut samples = Samples::default();
    for protocol in scene.protocols.iter().copied().filter(|protocol| has_ports(*protocol)) {
        scene.ports(protocol, &mut samples);
    }
    scene.icmp(&mut samples);
    let bare =
        scene.protocols.iter().copied().filter(|protocol| !has_ports(*protocol) && !matches!(*protocol, ICMP | ICMPV6));
    samples.list.extend(bare.map(|protocol| Sample::given(Traffic::Bare { protocol })));
    if let Some(protocol) = OTHERS.rev().find(|protocol| !scene.protocols.contains(protocol)) {
        let label = "other protocols".to_owned();
        samples.list.push(Sample {
            label: label.clone(),
            protocol: label,
            ..Sample::given(Traffic::Bare { protocol })
        });
    }
    samples
}

/// What rules ask of ports, ICMP and protocols.
#[derive(Debug, Default)]
struct Scene {
    atoms: Vec<Atom>,
    protocols: BTreeSet<u8>,
    /// By protocol, the ports that endpoints have a name for, or services have.
    named: BTreeMap<u8, BTreeSet<u16>>,
    /// Ports that settings are about.
    set: BTreeMap<u8, BTreeSet<u16>>,
    icmp: BTreeSet<(Option<u8>, Option<u8>)>,
}

/// What one rule asks of protocol and ports.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Atom {
    protocol: Option<u8>,
    not_protocol: Option<u8>,
    source: Side,
    destination: Side,
}

impl Scene {
    fn of(models: &[&Model]) -> Self {
        let mut scene = Self { protocols: [TCP, UDP].into(), ..Self::default() };
        let mut atoms = HashSet::new();
        for model in models {
            let policies = model.state().policies.iter().filter(|(id, _)| !id.is_staged()).map(|(_, rules)| rules);
            let rules = policies.chain(model.state().profiles.values());
            for rule in rules.flat_map(|rules| rules.ingress.iter().chain(&rules.egress)) {
                scene.protocols.extend(rule.protocol.into_iter().chain(rule.not_protocol));
                scene
                    .icmp
                    .extend(rule.icmp.iter().chain(&rule.not_icmp).map(|Icmp { icmp_type, code }| (*icmp_type, *code)));
                atoms.insert(Atom::of(rule));
            }
            for member in model.state().sets.values().flat_map(|(_, members)| members) {
                if let Member::AddrPort { protocol, port, .. } = member {
                    scene.named.entry(*protocol).or_default().insert(*port);
                }
            }
        }
        scene.settings(models);
        scene.protocols.extend(scene.named.keys().chain(scene.set.keys()));
        scene.atoms = atoms.into_iter().collect();
        scene
    }

    /// Fail-safe ports where there are host endpoints, and what workloads may not send where that changes.
    fn settings(&mut self, models: &[&Model]) {
        let all = models.iter().flat_map(|model| {
            let own = model.settings.nodes().map(|node| model.settings.of_node(node));
            own.chain([model.settings.common()])
        });
        let all: Vec<_> = all.collect();
        let tunnels: HashSet<_> = all
            .iter()
            .map(|one| (one.host.vxlan_port, one.host.allow_vxlan_from_workloads, one.host.allow_ipip_from_workloads))
            .collect();
        if tunnels.len() > 1 {
            self.set.entry(UDP).or_default().extend(tunnels.iter().map(|(port, ..)| *port));
            self.set.entry(IPIP).or_default();
        }
        if models.iter().any(|model| !model.state().host_endpoints.is_empty()) {
            for port in all.iter().flat_map(|one| one.failsafes.inbound.iter().chain(&one.failsafes.outbound)) {
                self.set.entry(port.protocol).or_default().insert(port.port);
            }
        }
    }

    fn ports(&self, protocol: u8, samples: &mut Samples) {
        let atoms: Vec<&Atom> = self.atoms.iter().filter(|atom| atom.concerns(protocol)).collect();
        let named = self.named.get(&protocol).cloned().unwrap_or_default();
        let mut points = named.clone();
        points.extend(self.set.get(&protocol).into_iter().flatten());
        let asks_names = |side: fn(&Atom) -> &Side| atoms.iter().any(|atom| !side(atom).names.is_empty());
        let of_sources = if asks_names(|atom| &atom.source) { named.clone() } else { BTreeSet::new() };
        let destinations = Axis::of(atoms.iter().map(|atom| &atom.destination), points);
        let mut sources = Axis::of(atoms.iter().map(|atom| &atom.source), of_sources);
        if destinations.0.len() * sources.0.len() > MOST {
            let (to, from) = (destinations.0.len(), sources.0.len());
            samples.left_out.push(format!(
                "{}: rules tell {to} sorts of destination ports apart and {from} of source ports: asked about from port {SOURCE_PORT} only",
                name(protocol)
            ));
            sources.0.retain(|one| one.holds(SOURCE_PORT));
        }
        let mut sorts: BTreeMap<Sort, Vec<(Interval, Interval)>> = BTreeMap::new();
        for to in &destinations.0 {
            for from in &sources.0 {
                let matches =
                    atoms.iter().map(|atom| atom.source.takes(from.first) && atom.destination.takes(to.first));
                let sort = Sort { point_to: to.point, point_from: from.point, matches: matches.collect() };
                sorts.entry(sort).or_default().push((*to, *from));
            }
        }
        let found = sorts.into_values().flat_map(parts);
        let mut found: Vec<_> = found.map(|(to, from)| sample(protocol, &to, &from, sources.0.len())).collect();
        found.sort_by_key(|(is_other, first, _)| (*is_other, *first));
        if let [(_, _, only)] = found.as_mut_slice() {
            // Other than none.
            only.label = only.protocol.clone();
        }
        samples.list.extend(found.into_iter().map(|(_, _, sample)| sample));
    }

    fn icmp(&self, samples: &mut Samples) {
        if self.icmp.is_empty() {
            samples.list.push(Sample::given(Traffic::Icmp { family: None, kind: None }));
            return;
        }
        let types: BTreeSet<u8> = self.icmp.iter().filter_map(|(kind, _)| *kind).collect();
        for (family, echo) in [(Family::V4, 8), (Family::V6, 128)] {
            let protocol = match family {
                Family::V4 => "icmp",
                Family::V6 => "icmpv6",
            };
            let mut add = |kind: u8, code: u8, label: String| {
                let traffic = Traffic::Icmp { family: Some(family), kind: Some((kind, code)) };
                samples.list.push(Sample {
                    label,
                    protocol: protocol.into(),
                    icmp: Some((kind, code)),
                    ..Sample::given(traffic)
                });
            };
            let mut of_type = |kind: u8, label: String| {
                let codes: BTreeSet<u8> = self
                    .icmp
                    .iter()
                    .filter(|(own, _)| own.is_none_or(|own| own == kind))
                    .filter_map(|(_, code)| *code)
                    .collect();
                codes.iter().for_each(|code| add(kind, *code, format!("{label} code {code}")));
                let other = (0..=u8::MAX).find(|code| !codes.contains(code));
                let suffix = if codes.is_empty() { "" } else { " other codes" };
                other.into_iter().for_each(|code| add(kind, code, format!("{label}{suffix}")));
            };
            types.iter().for_each(|kind| of_type(*kind, format!("{protocol} type {kind}")));
            let other = std::iter::once(echo).chain(0..=u8::MAX).find(|kind| !types.contains(kind));
            other.into_iter().for_each(|kind| of_type(kind, format!("other {protocol}")));
        }
    }
}

impl Atom {
    fn of(rule: &ActiveRule) -> Self {
        let side = |entity: &ActiveEntity| Side {
            ports: entity.ports.clone(),
            not_ports: entity.not_ports.clone(),
            names: entity.port_sets.iter().chain(&entity.not_port_sets).copied().collect(),
        };
        Self {
            protocol: rule.protocol,
            not_protocol: rule.not_protocol,
            source: side(&rule.source),
            destination: side(&rule.destination),
        }
    }

    fn concerns(&self, protocol: u8) -> bool {
        self.protocol.is_none_or(|own| own == protocol)
            && self.not_protocol != Some(protocol)
            && (self.source != Side::default() || self.destination != Side::default())
    }
}

/// Traffic that is alike.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Sort {
    /// A port that has a name, or a setting about it, is like no other.
    point_to: Option<u16>,
    point_from: Option<u16>,
    matches: Vec<bool>,
}

/// Of alike traffic whether nobody names it, its first port, and one of it.
fn sample(protocol: u8, to: &BTreeSet<Interval>, from: &BTreeSet<Interval>, sources: usize) -> (bool, u16, Sample) {
    let unnamed = |intervals: &BTreeSet<Interval>| intervals.iter().find(|one| !one.is_named).copied();
    let other = unnamed(to).zip(unnamed(from));
    let word = name(protocol).to_ascii_lowercase();
    let (intervals, origins) = (joined(to), joined(from));
    let ports = ranges(&intervals);
    let mut label = match ports.as_str() {
        _ if other.is_some() => format!("other {word}"),
        "1-65535" => word.clone(),
        ports => format!("{word}/{ports}"),
    };
    let source_ports = (from.len() < sources && other.is_none()).then(|| ranges(&origins));
    if let Some(from) = &source_ports {
        label += &format!(" from port {from}");
    }
    let first = |intervals: &BTreeSet<Interval>| intervals.first().map_or(1, |one| one.first);
    let destination = other.map_or_else(|| first(to), |(to, _)| to.first);
    // The usual source port, if it is among them.
    let is_usual = from.iter().any(|one| one.holds(SOURCE_PORT));
    let source = if is_usual { SOURCE_PORT } else { first(from) };
    let traffic = Traffic::Ports { protocol, source, destination };
    let is_plain = other.is_none() && source_ports.is_none();
    let intervals = if is_plain { intervals } else { Vec::new() };
    let ports = other.is_none().then_some(ports);
    let sample = Sample { traffic, label, protocol: word, intervals, ports, source_ports, icmp: None };
    (other.is_some(), destination, sample)
}

/// What samples are called together: ports of one protocol next to each other.
pub(super) fn words<'s>(samples: impl Iterator<Item = &'s Sample>) -> Vec<String> {
    let mut words = Vec::new();
    let mut pending: Option<(&str, Vec<(u16, u16)>)> = None;
    let tell = |(protocol, mut intervals): (&str, Vec<(u16, u16)>)| {
        intervals.sort_unstable();
        format!("{protocol}/{}", ranges(&join(intervals.into_iter())))
    };
    for sample in samples {
        let is_plain = !sample.intervals.is_empty() && sample.label.contains('/');
        match &mut pending {
            Some((protocol, intervals)) if is_plain && *protocol == sample.protocol => {
                intervals.extend(&sample.intervals);
            }
            _ => {
                words.extend(pending.take().map(tell));
                if is_plain {
                    pending = Some((&sample.protocol, sample.intervals.clone()));
                } else {
                    words.push(sample.label.clone());
                }
            }
        }
    }
    words.extend(pending.map(tell));
    words
}
