//! Some rows with all columns, decided.
//!
//! For each question (service and family) the rules that want the service are known, for each row and column those that want its address: a
//! word of each for 64 rules. Rows and columns are asked about by the stacks that they have, each laid out once, and so are the words.
//!
//! Which stacks are asked, and what is decided without any, is said by [`super::pair`].

use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;

use super::line::{Alike, Line};
use super::pair::{self, Gate, Pair};
use super::scene::Scene;
use super::{Service, TILE};
use crate::flow::{Decision, Flow};
use crate::net::Family;
use crate::resource::PolicyType;
use crate::verdict::compiled::{Facts, Held, Layout, Lines, Words};
use crate::verdict::step::Side;

type Ends = [(Line, Vec<usize>)];

/// Decisions of some rows.
#[derive(Debug)]
pub(super) struct Grid {
    services: usize,
    columns: usize,
    /// By row, column, service and family; none where an end has no address of the family.
    decisions: Vec<Option<Decision>>,
}

impl Grid {
    pub(super) fn new(scene: &Scene<'_>, services: &[Service], rows: &Ends, columns: &Ends) -> Self {
        let count = rows.len() * columns.len() * services.len() * 2;
        let mut grid = Self { services: services.len(), columns: columns.len(), decisions: vec![None; count] };
        for (index, service) in services.iter().enumerate() {
            for family in [Family::V4, Family::V6] {
                let question = Question { scene, index, service, family };
                grid.answer(&question, rows, columns);
            }
        }
        grid
    }

    pub(super) fn questions(&self) -> impl Iterator<Item = (usize, Family)> + use<> {
        (0..self.services).flat_map(|service| [(service, Family::V4), (service, Family::V6)])
    }

    pub(super) fn decision(&self, row: usize, column: usize, service: usize, family: Family) -> Option<Decision> {
        *self.decisions.get(self.place(row, column, service, family))?
    }

    const fn place(&self, row: usize, column: usize, service: usize, family: Family) -> usize {
        let family = match family {
            Family::V4 => 0,
            Family::V6 => 1,
        };
        ((row * self.columns + column) * self.services + service) * 2 + family
    }

    fn answer(&mut self, question: &Question<'_>, rows: &Ends, columns: &Ends) {
        let service = question.wanting_service();
        let sources = question.ends(Side::Source, rows);
        for (number, tile) in columns.chunks(TILE).enumerate() {
            let destinations = question.ends(Side::Destination, tile);
            let mut pairs = vec![Pair::default(); rows.len() * tile.len()];
            let cell = |row, column| row * tile.len() + column;
            for gate in Gate::OUT {
                question.ask(&sources, &destinations, gate, &service, |row, column, asked| {
                    if let Some(pair) = pairs.get_mut(cell(row, column)) {
                        pair.pass(gate, asked);
                    }
                });
            }
            pairs.iter_mut().for_each(Pair::arrive);
            for gate in Gate::IN {
                question.ask(&destinations, &sources, gate, &service, |column, row, asked| {
                    if let Some(pair) = pairs.get_mut(cell(row, column)) {
                        pair.pass(gate, asked);
                    }
                });
            }
            for (row, source) in sources.iter().enumerate() {
                for (column, destination) in destinations.iter().enumerate() {
                    let (Some(source), Some(destination)) = (source, destination) else { continue };
                    let allows =
                        pairs.get(cell(row, column)).is_some_and(|pair| question.ends_well(*pair, source, destination));
                    let place = self.place(row, number * TILE + column, question.index, question.family);
                    if let Some(cell) = self.decisions.get_mut(place) {
                        *cell = Some(if allows { Decision::Allow } else { Decision::Deny });
                    }
                }
            }
        }
    }
}

/// A service in a family.
struct Question<'a> {
    scene: &'a Scene<'a>,
    index: usize,
    service: &'a Service,
    family: Family,
}

/// A row or column of a question.
pub(super) struct End<'a> {
    pub(super) alike: &'a Alike,
    pub(super) address: IpAddr,
    pub(super) is_service: bool,
    held: Held<'a>,
    /// Rules that want its address, for each word of the space.
    wanting: Words,
}

impl<'a> Question<'a> {
    fn wanting_service(&self) -> Words {
        self.scene.compiled.wanting_service(self.family, self.service.protocol, self.service.destination_port)
    }

    /// None for those without an address of the family.
    fn ends(&self, side: Side, lines: &'a Ends) -> Vec<Option<End<'a>>> {
        let end = |line: &'a Line| {
            let (address, seen) = line.seen(self.family)?;
            let port = seen.ports.get(self.index).map(Vec::as_slice).unwrap_or_default();
            let held = Held { address: &seen.conditions, port };
            let wanting = self.scene.compiled.wanting_address(self.family, side, &seen.conditions);
            Some(End { alike: &line.alike, address, is_service: seen.is_service, held, wanting })
        };
        lines.iter().map(|(line, _)| end(line)).collect()
    }

    /// Asks a gate of each end about each other end, those with the same stack together.
    fn ask(
        &self,
        ends: &[Option<End<'_>>],
        others: &[Option<End<'_>>],
        gate: Gate,
        service: &[u64],
        mut with: impl FnMut(usize, usize, &pair::Asked<'_>),
    ) {
        let direction = gate.direction();
        let mut ends: Vec<_> = ends
            .iter()
            .enumerate()
            .filter_map(|(index, end)| Some((gate.stack(&end.as_ref()?.alike.gates)?, index, end.as_ref()?)))
            .collect();
        ends.sort_by_key(|(stack, ..)| *stack);
        for alike in ends.chunk_by(|(one, ..), (other, ..)| one == other) {
            let stack = alike.first().map(|(stack, ..)| *stack);
            let layout = stack.and_then(|stack| self.scene.compiled.layout(stack, direction)).unwrap_or_default();
            let gathered: Vec<Option<(&End<'_>, Lines)>> =
                others.iter().map(|other| other.as_ref().map(|end| (end, layout.gather(&end.wanting)))).collect();
            let service = layout.gather(service);
            for (_, index, end) in alike {
                let mut own = layout.gather(&end.wanting);
                own.as_flattened_mut()
                    .iter_mut()
                    .zip(service.as_flattened())
                    .for_each(|(own, wanting)| *own &= wanting);
                let settings = self.scene.settings(end.alike.settings);
                for (other_index, other) in gathered.iter().enumerate() {
                    let Some((other, words)) = other else { continue };
                    let [source, destination] = match direction {
                        PolicyType::Egress => [*end, *other],
                        PolicyType::Ingress => [*other, *end],
                    };
                    let flow = self.flow(source, destination);
                    let decide = || self.decide(&layout, [&own, words], [source, destination], &flow);
                    let asked = pair::Asked { source, destination, settings, flow: &flow, decide: &decide };
                    with(*index, other_index, &asked);
                }
            }
        }
    }

    const fn flow(&self, source: &End<'_>, destination: &End<'_>) -> Flow {
        let Service { protocol, source_port, destination_port, icmp } = *self.service;
        let (source, destination) = (source.address, destination.address);
        Flow { source, destination, protocol, source_port, destination_port, icmp }
    }

    fn decide(
        &self,
        layout: &Layout<'_>,
        wanting: [&Lines; 2],
        [source, destination]: [&End<'_>; 2],
        flow: &Flow,
    ) -> Option<Decision> {
        let facts = Facts { source: source.held, destination: destination.held };
        layout.decide(wanting.map(|lines| &**lines), flow, &facts)
    }

    /// What remains once both hosts' policy was asked.
    fn ends_well(&self, pair: Pair, source: &End<'_>, destination: &End<'_>) -> bool {
        let settings = [source, destination].map(|end| self.scene.settings(end.alike.settings));
        pair.ends_well(source, destination, settings, &self.flow(source, destination))
    }
}
