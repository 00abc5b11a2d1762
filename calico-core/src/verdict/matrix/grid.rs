//! Some rows with all columns, decided.
//!
//! For each question (service and family) the rules that want the service are known, for each row and column those that want its address: a
//! word of each for 64 rules. Rows and columns are asked about by the stacks that they have, each laid out once, and so are the words.

use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;

use super::line::{Line, Policed};
use super::{Service, TILE};
use crate::flow::{Decision, Flow};
use crate::net::Family;
use crate::resource::PolicyType;
use crate::verdict::compiled::{Compiled, Facts, Held, Layout, Lines, Words};
use crate::verdict::passage::{Settings, of_direction};
use crate::verdict::step::Side;
use crate::verdict::way;

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
    pub(super) fn new(
        compiled: &Compiled,
        settings: &Settings,
        services: &[Service],
        rows: &Ends,
        columns: &Ends,
    ) -> Self {
        let count = rows.len() * columns.len() * services.len() * 2;
        let mut grid = Self { services: services.len(), columns: columns.len(), decisions: vec![None; count] };
        for (index, service) in services.iter().enumerate() {
            for family in [Family::V4, Family::V6] {
                let question = Question { compiled, settings, index, service, family };
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
            let mut leaves = vec![false; rows.len() * tile.len()];
            let cell = |row, column| row * tile.len() + column;
            question.ask(&sources, &destinations, PolicyType::Egress, &service, |row, column, ask| {
                if let Some(leaves) = leaves.get_mut(cell(row, column)) {
                    *leaves = ask();
                }
            });
            question.ask(&destinations, &sources, PolicyType::Ingress, &service, |column, row, ask| {
                let leaves = leaves.get(cell(row, column)).is_some_and(|leaves| *leaves);
                let decision = if leaves && ask() { Decision::Allow } else { Decision::Deny };
                let place = self.place(row, number * TILE + column, question.index, question.family);
                if let Some(cell) = self.decisions.get_mut(place) {
                    *cell = Some(decision);
                }
            });
        }
    }
}

/// A service in a family.
struct Question<'a> {
    compiled: &'a Compiled,
    settings: &'a Settings,
    index: usize,
    service: &'a Service,
    family: Family,
}

/// A row or column of a question.
struct End<'a> {
    policed: Policed,
    address: IpAddr,
    held: Held<'a>,
    /// Rules that want its address, for each word of the space.
    wanting: Words,
}

impl<'a> Question<'a> {
    fn wanting_service(&self) -> Words {
        self.compiled.wanting_service(self.family, self.service.protocol, self.service.destination_port)
    }

    /// None for those without an address of the family.
    fn ends(&self, side: Side, lines: &'a Ends) -> Vec<Option<End<'a>>> {
        let end = |line: &'a Line| {
            let (address, seen) = line.seen(self.family)?;
            let port = seen.ports.get(self.index).map(Vec::as_slice).unwrap_or_default();
            let held = Held { address: &seen.conditions, port };
            let wanting = self.compiled.wanting_address(self.family, side, &seen.conditions);
            Some(End { policed: line.alike.policed, address, held, wanting })
        };
        lines.iter().map(|(line, _)| end(line)).collect()
    }

    /// Asks the policy of each end about each other end, those with the same stack together.
    fn ask(
        &self,
        ends: &[Option<End<'_>>],
        others: &[Option<End<'_>>],
        direction: PolicyType,
        service: &[u64],
        mut with: impl FnMut(usize, usize, &dyn Fn() -> bool),
    ) {
        let mut ends: Vec<(usize, &End<'_>)> =
            ends.iter().enumerate().filter_map(|(index, end)| Some((index, end.as_ref()?))).collect();
        ends.sort_by_key(|(_, end)| end.policed.stack());
        for alike in ends.chunk_by(|(_, one), (_, other)| one.policed.stack() == other.policed.stack()) {
            let stack = alike.first().and_then(|(_, end)| end.policed.stack());
            let layout = stack.and_then(|stack| self.compiled.layout(stack, direction)).unwrap_or_default();
            let gathered: Vec<Option<(&End<'_>, Lines)>> =
                others.iter().map(|other| other.as_ref().map(|end| (end, layout.gather(&end.wanting)))).collect();
            let service = layout.gather(service);
            for (index, end) in alike {
                let mut own = layout.gather(&end.wanting);
                own.as_flattened_mut()
                    .iter_mut()
                    .zip(service.as_flattened())
                    .for_each(|(own, wanting)| *own &= wanting);
                for (other_index, other) in gathered.iter().enumerate() {
                    let Some((other, words)) = other else { continue };
                    let ends = match direction {
                        PolicyType::Egress => [*end, *other],
                        PolicyType::Ingress => [*other, *end],
                    };
                    with(*index, other_index, &|| self.allows(&layout, [&own, words], ends, direction));
                }
            }
        }
    }

    fn allows(
        &self,
        layout: &Layout<'_>,
        wanting: [&Lines; 2],
        [source, destination]: [&End<'_>; 2],
        direction: PolicyType,
    ) -> bool {
        let Service { protocol, source_port, destination_port, icmp } = *self.service;
        let (from, to) = (source.address, destination.address);
        let flow = Flow { source: from, destination: to, protocol, source_port, destination_port, icmp };
        let policed = of_direction([destination.policed, source.policed], direction);
        let settings = self.settings;
        let encapsulated = || way::encapsulation(&flow, &settings.host).is_some();
        match policed {
            Policed::Nobody => return true,
            Policed::Unknown => return false,
            Policed::Host(_) if settings.failsafes.admits(direction, &flow) => return true,
            Policed::Workload(_) if direction == PolicyType::Egress && encapsulated() => return false,
            Policed::Workload(_) | Policed::Host(_) => {}
        }
        let facts = Facts { source: source.held, destination: destination.held };
        layout.decide(wanting.map(|lines| &**lines), &flow, &facts) == Some(Decision::Allow)
    }
}
