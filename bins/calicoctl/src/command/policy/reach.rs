//! Who may reach whom, as it is shown: ends in classes, and a verdict for each two of them.

use std::collections::HashMap;

use calico_core::flow::Decision;
use calico_core::net::Family;
use calico_core::verdict::Node;

use super::classes::{self, Decisions};
use super::model::Model;
use super::names::End;
use super::progress::Progress;
use super::traffic::{Services, Traffic};

/// Who may reach whom: sources and destinations in classes of those that are alike, and a verdict for each two of them and traffic.
#[derive(Debug)]
pub(super) struct Matrix {
    /// All of either side, each once.
    pub(super) ends: Vec<End>,
    /// Sources, in order, by their place among all.
    pub(super) from: Vec<usize>,
    pub(super) to: Vec<usize>,
    pub(super) rows: Vec<Class>,
    pub(super) columns: Vec<Class>,
    pub(super) traffic: Vec<Traffic>,
    /// By row, then column, then traffic.
    pub(super) cells: Vec<Cell>,
}

/// Ends that are alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Class {
    /// The same in rows and columns.
    pub(super) number: usize,
    /// By their place among all ends; not empty.
    pub(super) members: Vec<usize>,
}

/// A verdict in each family; none where there is no such flow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Cell {
    pub(super) v4: Option<Decision>,
    pub(super) v6: Option<Decision>,
}

impl Cell {
    /// What holds whatever the family; none where it depends, or where there is no flow.
    pub(super) fn verdict(self) -> Option<Decision> {
        match (self.v4, self.v6) {
            (Some(one), Some(other)) if one != other => None,
            (v4, v6) => v4.or(v6),
        }
    }
}

impl Matrix {
    /// Asks about each flow, of ends that nothing tells apart only once.
    pub(super) fn of(
        model: &Model,
        rows: Vec<End>,
        columns: Vec<End>,
        traffic: Vec<Traffic>,
        progress: &mut Progress<'_>,
    ) -> Self {
        let (ends, from, to) = together(rows, columns);
        let services = Services::of(traffic.iter().copied());
        let nodes: Vec<Option<Node>> = ends.iter().map(|end| Some(model.node(&end.party))).collect();
        let classes = classes::classes(&[(model, &nodes)], &services.list);
        let (rows, columns) = (classes_of(&from, &classes), classes_of(&to, &classes));
        let stand_ins = |classes: &[Class]| -> Vec<Option<Node>> {
            let first = |class: &Class| nodes.get(*class.members.first()?)?.clone();
            classes.iter().map(first).collect()
        };
        let (sources, destinations) = (stand_ins(&rows), stand_ins(&columns));
        let mut cells = Vec::with_capacity(rows.len() * columns.len() * traffic.len());
        for (index, chunk) in sources.chunks(CHUNK).enumerate() {
            progress.tell(index * CHUNK, sources.len());
            let found = Decisions::of(model, chunk, &destinations, &services.list);
            for row in 0..chunk.len() {
                for column in 0..columns.len() {
                    cells.extend((0..traffic.len()).map(|one| {
                        let get = |family| found.get(row, column, services.get(one, family)?, family);
                        Cell { v4: get(Family::V4), v6: get(Family::V6) }
                    }));
                }
            }
        }
        progress.end();
        Self { ends, from, to, rows, columns, traffic, cells }
    }

    pub(super) fn cell(&self, row: usize, column: usize, traffic: usize) -> Cell {
        let index = (row * self.columns.len() + column) * self.traffic.len() + traffic;
        self.cells.get(index).copied().unwrap_or_default()
    }

    /// Whether both are one end and nothing else.
    pub(super) fn is_itself(&self, row: usize, column: usize) -> bool {
        let (Some(row), Some(column)) = (self.rows.get(row), self.columns.get(column)) else { return false };
        row.members.len() == 1 && row.members == column.members
    }
}

/// Each end once, and where those of both lists are.
fn together(rows: Vec<End>, columns: Vec<End>) -> (Vec<End>, Vec<usize>, Vec<usize>) {
    let mut ends: Vec<End> = Vec::new();
    let mut known: HashMap<String, Vec<usize>> = HashMap::new();
    let mut places = |list: Vec<End>| -> Vec<usize> {
        let place = |end: End| {
            let namesakes = known.entry(end.name.clone()).or_default();
            let found = namesakes.iter().copied().find(|at| ends.get(*at) == Some(&end));
            found.unwrap_or_else(|| {
                namesakes.push(ends.len());
                ends.push(end);
                ends.len() - 1
            })
        };
        list.into_iter().map(place).collect()
    };
    let (from, to) = (places(rows), places(columns));
    (ends, from, to)
}

/// The classes of some ends, in the order of their first members.
fn classes_of(ends: &[usize], classes: &[usize]) -> Vec<Class> {
    let mut found: Vec<Class> = Vec::new();
    let mut places: HashMap<usize, usize> = HashMap::new();
    for end in ends {
        let Some(number) = classes.get(*end).copied() else { continue };
        let place = *places.entry(number).or_insert_with(|| {
            found.push(Class { number, members: Vec::new() });
            found.len() - 1
        });
        if let Some(class) = found.get_mut(place) {
            class.members.push(*end);
        }
    }
    found
}

/// Rows that are asked about at once.
const CHUNK: usize = 128;
