//! Who may reach whom: a [`Compiled`] asked about all pairs at once.
//!
//! In go two lists of nodes and some services, out comes a decision for each pair, service and family that both nodes have. It says what
//! policy of both ends says to a new connection. What else a host decides (forged sources, what it forwards) is about single packets:
//! [`super::Asker::passage`] tells.
//!
//! Nodes that nothing tells apart, neither their stacks nor any set, prefix or named port that a rule asks for, are decided once. That is
//! exact: rules see an address only by what holds it.

mod grid;
mod line;

use alloc::vec::Vec;
use core::net::IpAddr;

use hashbrown::HashMap;

use self::grid::Grid;
use self::line::Line;
use super::compiled::Compiled;
use super::passage::Settings;
use crate::calc::event::EndpointId;
use crate::flow::Decision;
use crate::net::Family;

/// A row or column.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals")]
pub struct Node {
    /// Whose policy has a say; none: nobody's.
    pub endpoint: Option<EndpointId>,
    /// Its addresses. Of each family the first counts.
    pub addresses: Vec<IpAddr>,
}

/// What is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals")]
pub struct Service {
    /// Protocol number.
    pub protocol: u8,
    /// Source port; 0 for protocols without ports.
    pub source_port: u16,
    /// Destination port; 0 for protocols without ports.
    pub destination_port: u16,
    /// ICMP type and code.
    pub icmp: Option<(u8, u8)>,
}

/// Pairs that have one decision: each row with each column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "an answer, read by many")]
pub struct Block<'a> {
    /// Rows: positions in the list of sources, in order.
    pub from: &'a [usize],
    /// Columns: positions in the list of destinations, in order.
    pub to: &'a [usize],
    /// Position in the list of services.
    pub service: usize,
    /// Family of the addresses.
    pub family: Family,
    /// What happens.
    pub decision: Decision,
}

/// One pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "an answer, read by many")]
pub struct Cell {
    /// Row: position in the list of sources.
    pub from: usize,
    /// Column: position in the list of destinations.
    pub to: usize,
    /// Position in the list of services.
    pub service: usize,
    /// Family of the addresses.
    pub family: Family,
    /// What happens.
    pub decision: Decision,
}

/// Who may reach whom.
#[derive(Debug)]
pub struct Matrix<'a> {
    compiled: &'a Compiled,
    settings: &'a Settings,
    services: Vec<Service>,
    from: Lines,
    to: Lines,
}

/// Rows, or columns: those that are alike together.
#[derive(Debug)]
struct Lines(Vec<(Line, Vec<usize>)>);

impl<'a> Matrix<'a> {
    /// The matrix of these; nodes that nothing tells apart are decided once.
    pub fn new(
        compiled: &'a Compiled,
        settings: &'a Settings,
        from: &[Node],
        to: &[Node],
        services: &[Service],
    ) -> Self {
        Self::of(compiled, settings, [from, to], services, true)
    }

    /// The same, each pair being decided for itself.
    pub fn without_merging(
        compiled: &'a Compiled,
        settings: &'a Settings,
        from: &[Node],
        to: &[Node],
        services: &[Service],
    ) -> Self {
        Self::of(compiled, settings, [from, to], services, false)
    }

    fn of(
        compiled: &'a Compiled,
        settings: &'a Settings,
        [from, to]: [&[Node]; 2],
        services: &[Service],
        merges: bool,
    ) -> Self {
        let lines = |nodes: &[Node], is_source| {
            Lines::of(nodes.iter().map(|node| Line::of(node, is_source, compiled, settings, services)), merges)
        };
        Self { compiled, settings, services: services.to_vec(), from: lines(from, true), to: lines(to, false) }
    }

    /// Tells all blocks, row by row; rows that are alike are one, as are columns.
    pub fn visit_blocks(&self, mut with: impl FnMut(Block<'_>)) {
        for rows in self.from.0.chunks(TILE) {
            let grid = Grid::new(self.compiled, self.settings, &self.services, rows, &self.to.0);
            for (row, (_, from)) in rows.iter().enumerate() {
                for (column, (_, to)) in self.to.0.iter().enumerate() {
                    for (service, family) in grid.questions() {
                        if let Some(decision) = grid.decision(row, column, service, family) {
                            with(Block { from, to, service, family, decision });
                        }
                    }
                }
            }
        }
    }

    /// Tells all pairs. Rows that are alike follow one another.
    pub fn visit(&self, mut with: impl FnMut(Cell)) {
        self.visit_blocks(|Block { from: rows, to: columns, service, family, decision }| {
            for from in rows {
                columns.iter().for_each(|to| with(Cell { from: *from, to: *to, service, family, decision }));
            }
        });
    }

    /// How many rows and columns are left of those that are alike.
    pub const fn size(&self) -> (usize, usize) {
        (self.from.0.len(), self.to.0.len())
    }
}

impl Compiled {
    /// All workloads as rows or columns, in order.
    pub fn nodes(&self) -> Vec<Node> {
        let node = |(id, endpoint): (&EndpointId, &alloc::sync::Arc<crate::calc::event::ActiveEndpoint>)| Node {
            endpoint: Some(id.clone()),
            addresses: endpoint.addresses.iter().map(crate::net::Cidr::address).collect(),
        };
        self.state().endpoints.iter().map(node).collect()
    }
}

impl Lines {
    fn of(lines: impl Iterator<Item = Line>, merges: bool) -> Self {
        let mut kept: Vec<(Line, Vec<usize>)> = Vec::new();
        let mut known: HashMap<line::Alike, usize> = HashMap::new();
        for (index, line) in lines.enumerate() {
            let alike = if merges { known.get(&line.alike).copied() } else { None };
            match alike.and_then(|at| kept.get_mut(at)) {
                Some((_, members)) => members.push(index),
                None => {
                    if merges {
                        known.insert(line.alike.clone(), kept.len());
                    }
                    kept.push((line, alloc::vec![index]));
                }
            }
        }
        Self(kept)
    }
}

/// Rows, or columns, that are worked on at once: enough that what they share is worth it, few enough to stay in a processor's cache.
const TILE: usize = 128;
