//! Flows whose verdict a change would turn: classes of ends that are alike on both sides of it, compared with each other.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use calico_core::calc::event::EndpointId;
use calico_core::flow::Decision;
use calico_core::net::Family;
use calico_core::resource::ResourceKey;
use calico_core::verdict::Node;
use serde_json::{Value, json};

use super::change::Touched;
use super::classes::{self, Decisions};
use super::grid::common;
use super::model::Model;
use super::names::{End, Party};
use super::paint::{Page, Style};
use super::progress::Progress;
use super::samples::{self, Sample};
use super::traffic::{Services, Traffic};
use super::{outside, steps};

/// Flows between ends that are alike, decided otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Turn {
    /// Class.
    from: usize,
    to: usize,
    /// Place of the sample.
    sample: usize,
    family: Family,
    before: Option<Decision>,
    after: Option<Decision>,
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Flows {
    ends: Vec<End>,
    /// Ends that are alike, by their place.
    classes: Vec<Vec<usize>>,
    samples: Vec<Sample>,
    turns: Vec<Turn>,
    /// What was not asked about, and why.
    pub(super) left_out: Vec<String>,
}

pub(super) fn changes(
    before: &Model,
    after: &Model,
    touched: &[Touched],
    given: &[Traffic],
    progress: &mut Progress<'_>,
) -> Flows {
    let mut flows = Flows::default();
    if given.is_empty() {
        let found = samples::all(&[before, after]);
        (flows.samples, flows.left_out) = (found.list, found.left_out);
    } else {
        flows.samples.extend(given.iter().copied().map(Sample::given));
    }
    flows.ends = endpoints(before, after);
    flows.ends.extend(outside::others(&[before, after]));
    let services = Services::of(flows.samples.iter().map(|sample| sample.traffic));
    let nodes = [before, after].map(|model| -> Vec<Option<Node>> {
        flows.ends.iter().map(|end| in_model(model, &end.party).map(|party| model.node(&party))).collect()
    });
    let [then, now] = &nodes;
    let classes = classes::classes(&[(before, then), (after, now)], &services.list);
    for (end, class) in classes.iter().enumerate() {
        if flows.classes.len() <= *class {
            flows.classes.push(Vec::new());
        }
        if let Some(members) = flows.classes.get_mut(*class) {
            members.push(end);
        }
    }
    let concerned = Concerned::of(before, after, touched);
    let of_class = |of: fn([bool; 2]) -> bool| -> Vec<bool> {
        let concerns = |end: &usize| {
            let node = |nodes: &[Option<Node>]| nodes.get(*end).cloned().flatten();
            flows.ends.get(*end).is_some_and(|one| of(concerned.ends([node(then), node(now)], &one.party)))
        };
        flows.classes.iter().map(|members| members.iter().any(concerns)).collect()
    };
    let (leaves, comes) = (of_class(|[leaves, _]| leaves), of_class(|[_, comes]| comes));
    let stand_ins = |nodes: &[Option<Node>]| -> Vec<Option<Node>> {
        flows.classes.iter().map(|members| nodes.get(*members.first()?)?.clone()).collect()
    };
    let comparison =
        Comparison { models: [before, after], nodes: [stand_ins(then), stand_ins(now)], services: &services };
    let (all, coming): (Vec<usize>, Vec<usize>) =
        ((0..flows.classes.len()).collect(), (0..flows.classes.len()).filter(|class| is(&comes, *class)).collect());
    let mut turns = Vec::new();
    for (index, rows) in all.chunks(CHUNK).enumerate() {
        progress.tell(index * CHUNK, all.len());
        let (leaving, staying): (Vec<usize>, Vec<usize>) = rows.iter().copied().partition(|class| is(&leaves, *class));
        comparison.compare(&leaving, &all, &flows, &mut turns);
        comparison.compare(&staying, &coming, &flows, &mut turns);
    }
    progress.end();
    flows.turns = turns;
    flows
}

fn is(list: &[bool], place: usize) -> bool {
    list.get(place).copied().unwrap_or_default()
}

/// Both sides of the change.
struct Comparison<'a> {
    models: [&'a Model; 2],
    /// For each class one that stands for it.
    nodes: [Vec<Option<Node>>; 2],
    services: &'a Services,
}

impl Comparison<'_> {
    fn compare(&self, rows: &[usize], columns: &[usize], flows: &Flows, turns: &mut Vec<Turn>) {
        if rows.is_empty() || columns.is_empty() {
            return;
        }
        let pick = |nodes: &[Option<Node>], places: &[usize]| -> Vec<Option<Node>> {
            places.iter().map(|place| nodes.get(*place).cloned().flatten()).collect()
        };
        let samples: Vec<usize> = (0..flows.samples.len()).collect();
        for samples in samples.chunks(SAMPLES) {
            let places: BTreeSet<usize> = samples
                .iter()
                .flat_map(|sample| {
                    [Family::V4, Family::V6].into_iter().filter_map(|family| self.services.get(*sample, family))
                })
                .collect();
            let places: Vec<usize> = places.into_iter().collect();
            let services: Vec<_> = places.iter().filter_map(|place| self.services.list.get(*place).copied()).collect();
            let [then, now] = [0, 1].map(|side: usize| {
                let (Some(model), Some(nodes)) = (self.models.get(side), self.nodes.get(side)) else { return None };
                Some(Decisions::of(model, &pick(nodes, rows), &pick(nodes, columns), &services))
            });
            let (Some(then), Some(now)) = (then, now) else { continue };
            for (row, from) in rows.iter().enumerate() {
                for (column, to) in columns.iter().enumerate().filter(|(_, to)| !flows.is_itself(*from, **to)) {
                    for sample in samples {
                        for family in [Family::V4, Family::V6] {
                            let service = self.services.get(*sample, family);
                            let service = service.and_then(|place| places.binary_search(&place).ok());
                            let Some(service) = service else { continue };
                            let get = |side: &Decisions| side.get(row, column, service, family);
                            let (before, after) = (get(&then), get(&now));
                            if before != after {
                                turns.push(Turn { from: *from, to: *to, sample: *sample, family, before, after });
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Which ends a change could concern.
struct Concerned<'a> {
    before: &'a Model,
    after: &'a Model,
    touched: HashMap<&'a ResourceKey, [bool; 2]>,
    /// What nobody was told apart by may have changed.
    everybody: bool,
}

impl<'a> Concerned<'a> {
    fn of(before: &'a Model, after: &'a Model, touched: &'a [Touched]) -> Self {
        let touched = touched.iter().map(|one| (&one.key, [one.egress, one.ingress])).collect();
        let everybody = before.state().network.services != after.state().network.services;
        Self { before, after, touched, everybody }
    }

    /// As a source, and as a destination.
    fn ends(&self, nodes: [Option<Node>; 2], party: &Party) -> [bool; 2] {
        let own = match party {
            Party::Workload { key, .. } | Party::HostEndpoint { key, .. } => self.touched.get(key).copied(),
            _ => None,
        };
        let [leaves, comes] = own.unwrap_or_default();
        let uplinks = nodes.map(|node| node.and_then(|node| node.host).and_then(|host| host.uplink.clone()));
        let is_touched =
            |uplink: &Option<EndpointId>| uplink.as_ref().is_some_and(|id| self.touched.contains_key(&id.0));
        let [then, now] = &uplinks;
        let is_set = party.node().is_some_and(|node| self.before.settings_of(node) != self.after.settings_of(node));
        let both = self.everybody || then != now || uplinks.iter().any(is_touched) || is_set;
        [leaves || both, comes || both]
    }
}

/// An end as that model has it.
fn in_model(model: &Model, party: &Party) -> Option<Party> {
    match party {
        Party::Workload { key, .. } => model.names.party(key),
        Party::HostEndpoint { key, .. } => model.names.host_party(key),
        other => Some(other.clone()),
    }
}

/// Endpoints of either.
fn endpoints(before: &Model, after: &Model) -> Vec<End> {
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

/// What may become of flows, in the order in which it is told. New flows that would be denied are told by silence.
const SORTS: [(&str, Style, Option<Decision>, Option<Decision>); 4] = [
    ("Flows that would be denied:", Style::Bad, Some(Decision::Allow), Some(Decision::Deny)),
    ("Flows that would be allowed:", Style::Good, Some(Decision::Deny), Some(Decision::Allow)),
    ("Flows of new endpoints that would be allowed:", Style::Good, None, Some(Decision::Allow)),
    ("Flows that were allowed, of endpoints that would be gone:", Style::Bad, Some(Decision::Allow), None),
];

/// Traffic between two ends: families and places of samples.
type Between = BTreeSet<(Family, usize)>;

/// Sources and destinations with the same traffic.
struct Bundle {
    from: Vec<usize>,
    to: Vec<usize>,
    traffic: Between,
}

impl Flows {
    /// Whether both are one end and nothing else.
    fn is_itself(&self, from: usize, to: usize) -> bool {
        from == to && self.classes.get(from).is_some_and(|members| members.len() == 1)
    }

    /// Sources with the same destinations are one, and so are destinations with the same traffic.
    fn bundles(&self, before: Option<Decision>, after: Option<Decision>) -> Vec<Bundle> {
        let mut by_from: BTreeMap<usize, BTreeMap<usize, Between>> = BTreeMap::new();
        for turn in self.turns.iter().filter(|turn| turn.before == before && turn.after == after) {
            by_from.entry(turn.from).or_default().entry(turn.to).or_default().insert((turn.family, turn.sample));
        }
        let mut alike: BTreeMap<Vec<(&Between, Vec<usize>)>, Vec<usize>> = BTreeMap::new();
        for (from, by_to) in &by_from {
            let mut by_traffic: BTreeMap<&Between, Vec<usize>> = BTreeMap::new();
            for (to, traffic) in by_to {
                by_traffic.entry(traffic).or_default().push(*to);
            }
            alike.entry(by_traffic.into_iter().collect()).or_default().push(*from);
        }
        let mut bundles = Vec::new();
        for (by_traffic, sources) in alike {
            for (traffic, destinations) in by_traffic {
                let (from, to) = (self.members(&sources), self.members(&destinations));
                bundles.push(Bundle { from, to, traffic: traffic.clone() });
            }
        }
        bundles
    }

    fn members(&self, classes: &[usize]) -> Vec<usize> {
        let mut ends: Vec<usize> =
            classes.iter().filter_map(|class| self.classes.get(*class)).flatten().copied().collect();
        ends.sort_by_key(|end| self.name(*end));
        ends
    }

    fn name(&self, end: usize) -> &str {
        self.ends.get(end).map(|end| end.name.as_str()).unwrap_or_default()
    }

    pub(super) fn json(&self) -> Value {
        let mut found = Vec::new();
        for (_, _, before, after) in SORTS {
            for bundle in self.bundles(before, after) {
                let names = |ends: &[usize]| ends.iter().map(|end| self.name(*end)).collect::<Vec<_>>();
                let traffic = bundle.traffic.iter().filter_map(|(family, sample)| {
                    let mut value = self.samples.get(*sample)?.json();
                    let version = match family {
                        Family::V4 => 4,
                        Family::V6 => 6,
                    };
                    steps::put(&mut value, "ipVersion", json!(version));
                    Some(value)
                });
                found.push(json!({
                    "from": names(&bundle.from),
                    "to": names(&bundle.to),
                    "before": before.map(steps::verdict),
                    "after": after.map(steps::verdict),
                    "traffic": traffic.collect::<Vec<_>>(),
                }));
            }
        }
        found.into()
    }

    /// What becomes of flows, ends alike taken together.
    pub(super) fn text(&self, page: &mut Page) {
        let mut is_silent = true;
        for (heading, style, before, after) in SORTS {
            let line = |bundle: &Bundle| {
                let names = |ends: &[usize]| ends.iter().map(|end| self.name(*end)).collect::<Vec<_>>();
                let ends = format!("{} → {}", several(&names(&bundle.from)), several(&names(&bundle.to)));
                (ends, self.traffic(&bundle.traffic))
            };
            let mut lines: Vec<_> = self.bundles(before, after).iter().map(line).collect();
            if lines.is_empty() {
                continue;
            }
            lines.sort();
            is_silent = false;
            page.line(0, &[(Style::Bold, heading)]);
            for (ends, traffic) in lines {
                page.line(2, &[(style, &ends), (Style::Plain, "  "), (Style::Dim, &traffic)]);
            }
        }
        if is_silent {
            page.line(0, &[(Style::Bold, "No flow would be decided otherwise.")]);
        }
        for left_out in &self.left_out {
            page.line(0, &[(Style::Odd, "not compared: "), (Style::Plain, left_out)]);
        }
    }

    /// The traffic in words. What holds over IPv6 is told for itself only where it is other than over IPv4.
    fn traffic(&self, traffic: &Between) -> String {
        let of = |family| -> BTreeSet<usize> {
            traffic.iter().filter(|(own, _)| *own == family).map(|(_, sample)| *sample).collect()
        };
        let told = |found: &BTreeSet<usize>, family, suffix: &str| {
            let all = |place: &usize| self.samples.get(*place).is_some_and(|sample| sample.is_of(family));
            let all: BTreeSet<usize> = (0..self.samples.len()).filter(all).collect();
            let listed = |places: &mut dyn Iterator<Item = &usize>| {
                samples::words(places.filter_map(|place| self.samples.get(*place)))
            };
            let missing: BTreeSet<usize> = all.difference(found).copied().collect();
            if all.len() > 1 && missing.is_empty() {
                return vec![format!("all traffic{suffix}")];
            }
            // Whichever is shorter.
            let (named, others) = (listed(&mut found.iter()), listed(&mut missing.iter()));
            if others.len() + 1 < named.len() {
                return vec![format!("all traffic{suffix} but {}", others.join(" and "))];
            }
            named.into_iter().map(|word| format!("{word}{suffix}")).collect()
        };
        let (over_v4, over_v6) = (of(Family::V4), of(Family::V6));
        let mut words = told(&over_v4, Family::V4, "");
        let alike = told(&over_v6, Family::V6, "");
        if alike != words {
            words.extend(told(&over_v6, Family::V6, " over IPv6"));
        }
        words.join(", ")
    }
}

/// A few by name, more by what they have in common.
fn several(names: &[&str]) -> String {
    if names.len() <= 5 { names.join(", ") } else { common(names) }
}

/// Classes and samples that are asked about at once.
const CHUNK: usize = 128;
const SAMPLES: usize = 32;
