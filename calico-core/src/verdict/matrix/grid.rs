//! Some rows with all columns, decided.
//!
//! For each question (service and family) the rules that want the service are known, for each row and column those that want its address: a
//! word of each for 64 rules. Of one end, these together leave the words of its own stack in which a rule may match at all; they are put in a
//! row once, and each other end is tried against it.

use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;

use super::line::{Line, Policed};
use super::{Service, TILE};
use crate::flow::{Decision, Flow};
use crate::net::Family;
use crate::resource::PolicyType;
use crate::verdict::compiled::{Compiled, Facts, Held, Sifted};
use crate::verdict::passage::Settings;
use crate::verdict::step::Side;
use crate::verdict::way;

type Lines = [(Line, Vec<usize>)];

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
        rows: &Lines,
        columns: &Lines,
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

    fn answer(&mut self, question: &Question<'_>, rows: &Lines, columns: &Lines) {
        let wanting = question.wanting_service();
        let sources = question.ends(Side::Source, rows);
        for (number, tile) in columns.chunks(TILE).enumerate() {
            let destinations = question.ends(Side::Destination, tile);
            let mut allowed = vec![false; rows.len() * tile.len()];
            for (row, source) in sources.iter().enumerate() {
                let Some(source) = source else { continue };
                let sifted = question.sift(source, PolicyType::Egress, &wanting);
                for (column, destination) in destinations.iter().enumerate() {
                    let Some(destination) = destination else { continue };
                    if let Some(cell) = allowed.get_mut(row * tile.len() + column) {
                        *cell = question.allows(&sifted, source, destination, PolicyType::Egress);
                    }
                }
            }
            for (column, destination) in destinations.iter().enumerate() {
                let Some(destination) = destination else { continue };
                let sifted = question.sift(destination, PolicyType::Ingress, &wanting);
                for (row, source) in sources.iter().enumerate() {
                    let Some(source) = source else { continue };
                    let allowed = allowed.get(row * tile.len() + column).is_some_and(|allowed| *allowed)
                        && question.allows(&sifted, source, destination, PolicyType::Ingress);
                    let decision = if allowed { Decision::Allow } else { Decision::Deny };
                    let place = self.place(row, number * TILE + column, question.index, question.family);
                    if let Some(cell) = self.decisions.get_mut(place) {
                        *cell = Some(decision);
                    }
                }
            }
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
    wanting: Vec<u64>,
}

impl<'a> Question<'a> {
    fn wanting_service(&self) -> Vec<u64> {
        self.compiled.wanting_service(self.family, self.service.protocol, self.service.destination_port)
    }

    /// None for those without an address of the family.
    fn ends(&self, side: Side, lines: &'a Lines) -> Vec<Option<End<'a>>> {
        let end = |line: &'a Line| {
            let (address, seen) = line.seen(self.family)?;
            let port = seen.ports.get(self.index).map(Vec::as_slice).unwrap_or_default();
            let held = Held { address: &seen.conditions, port };
            let wanting = self.compiled.wanting_address(self.family, side, &seen.conditions);
            Some(End { policed: line.alike.policed, address, held, wanting })
        };
        lines.iter().map(|(line, _)| end(line)).collect()
    }

    /// What is left of an end's own stack.
    fn sift(&self, end: &End<'_>, direction: PolicyType, service: &[u64]) -> Option<Sifted<'a>> {
        let (Policed::Workload(stack) | Policed::Host(stack)) = end.policed else { return None };
        self.compiled.sift(stack, direction, &end.wanting, service)
    }

    fn allows(
        &self,
        sifted: &Option<Sifted<'a>>,
        source: &End<'_>,
        destination: &End<'_>,
        direction: PolicyType,
    ) -> bool {
        let Service { protocol, source_port, destination_port, icmp } = *self.service;
        let (own, other) = match direction {
            PolicyType::Egress => (source, destination),
            PolicyType::Ingress => (destination, source),
        };
        let flow = Flow {
            source: source.address,
            destination: destination.address,
            protocol,
            source_port,
            destination_port,
            icmp,
        };
        match own.policed {
            Policed::Nobody => return true,
            Policed::Unknown => return false,
            Policed::Host(_) if self.settings.failsafes.admits(direction, &flow) => return true,
            Policed::Workload(_)
                if direction == PolicyType::Egress && way::encapsulation(&flow, &self.settings.host).is_some() =>
            {
                return false;
            }
            Policed::Workload(_) | Policed::Host(_) => {}
        }
        let facts = Facts { source: source.held, destination: destination.held };
        let decided = sifted.as_ref().and_then(|sifted| sifted.run(&other.wanting, &flow, &facts));
        decided == Some(Decision::Allow)
    }
}
