//! Who may reach whom: a [`Compiled`] asked about all pairs at once.
//!
//! In go two lists of nodes and some services, out comes a decision for each pair, service and family that both nodes have. It says what
//! becomes of a new connection from an end's own address: policy of both ends and, where it is known which hosts they are on, all that
//! these do with it, as [`super::Asker::passage`] would say on each of them.
//!
//! Nodes that nothing tells apart, neither their stacks nor any set, prefix or named port that a rule asks for, are decided once. That is
//! exact: rules see an address only by what holds it. Which host a node is on tells it apart only where that host has a say.

mod grid;
mod line;
mod pair;
mod scene;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use hashbrown::HashMap;

use self::grid::Grid;
use self::line::Line;
use self::scene::Scene;
use super::compiled::Compiled;
use super::passage::Settings;
use crate::calc::event::{ActiveEndpoint, EndpointId};
use crate::flow::Decision;
use crate::net::Family;

/// A row or column.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals")]
pub struct Node {
    /// Whose policy has a say; none: nobody's, or that of the host itself.
    pub endpoint: Option<EndpointId>,
    /// Its addresses. Of each family the first counts.
    pub addresses: Vec<IpAddr>,
    /// The host that it is on, or is where it has no endpoint or a host's. Without one, a workload has its own policy and nothing else, and
    /// nobody is on the same host.
    pub host: Option<Arc<Host>>,
}

/// A host of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals")]
pub struct Host {
    /// Its name.
    pub name: Arc<str>,
    /// The host endpoint of the interface by which it reaches everybody else.
    pub uplink: Option<EndpointId>,
    /// Its settings, where they are not those of all others.
    pub settings: Option<Arc<Settings>>,
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
    scene: Scene<'a>,
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
        let scene = Scene::of(compiled, settings, from.iter().chain(to), merges);
        let lines = |nodes: &[Node], is_source| {
            Lines::of(nodes.iter().map(|node| Line::of(node, is_source, &scene, services)), merges)
        };
        let (from, to) = (lines(from, true), lines(to, false));
        Self { scene, services: services.to_vec(), from, to }
    }

    /// Rows: for each those that it stands for, as positions in the list of sources, in order.
    pub fn rows(&self) -> impl Iterator<Item = &[usize]> {
        self.from.0.iter().map(|(_, members)| members.as_slice())
    }

    /// Columns, likewise.
    pub fn columns(&self) -> impl Iterator<Item = &[usize]> {
        self.to.0.iter().map(|(_, members)| members.as_slice())
    }

    /// Tells all blocks, row by row; rows that are alike are one, as are columns.
    pub fn visit_blocks(&self, mut with: impl FnMut(Block<'_>)) {
        for rows in self.from.0.chunks(TILE) {
            let grid = Grid::new(&self.scene, &self.services, rows, &self.to.0);
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
    /// All workloads as rows or columns, in order, whatever hosts they are on.
    pub fn nodes(&self) -> Vec<Node> {
        let node = |(id, endpoint): (&EndpointId, &Arc<ActiveEndpoint>)| Node {
            endpoint: Some(id.clone()),
            addresses: endpoint.addresses.iter().map(crate::net::Cidr::address).collect(),
            host: None,
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
