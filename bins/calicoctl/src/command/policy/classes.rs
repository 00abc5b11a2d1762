//! Ends that no policy tells apart: of each such class one answers for all.
//!
//! Which ends are alike is the matrix's to say (`calico_core::verdict::Matrix`). Here, several models may be asked (before a change and
//! after it): ends of one class are alike in each of them, as sources and as destinations.

use std::collections::HashMap;

use calico_core::flow::Decision;
use calico_core::net::Family;
use calico_core::verdict::{Matrix, Node, Service};

use super::model::Model;

/// For each end the number of its class; numbers are in the order of first members. A model has none for an end that it does not know.
pub(super) fn classes(models: &[(&Model, &[Option<Node>])], services: &[Service]) -> Vec<usize> {
    let ends = models.first().map_or(0, |(_, nodes)| nodes.len());
    let mut keys: Vec<Vec<(usize, usize)>> = vec![Vec::new(); ends];
    for (model, nodes) in models {
        let known: Vec<usize> = (0..ends).filter(|end| nodes.get(*end).is_some_and(Option::is_some)).collect();
        let nodes: Vec<Node> = nodes.iter().flatten().cloned().collect();
        let matrix = Matrix::new(&model.compiled, model.settings.common(), &nodes, &nodes, services);
        let mut lines = vec![(0, 0); nodes.len()];
        for (number, members) in matrix.rows().enumerate() {
            members.iter().filter_map(|member| lines.get_mut(*member).map(|line| line.0 = number + 1)).for_each(drop);
        }
        for (number, members) in matrix.columns().enumerate() {
            members.iter().filter_map(|member| lines.get_mut(*member).map(|line| line.1 = number + 1)).for_each(drop);
        }
        let mut lines_of: Vec<(usize, usize)> = vec![(0, 0); ends];
        for (end, line) in known.into_iter().zip(lines) {
            if let Some(place) = lines_of.get_mut(end) {
                *place = line;
            }
        }
        keys.iter_mut().zip(lines_of).for_each(|(key, line)| key.push(line));
    }
    let mut numbers: HashMap<Vec<(usize, usize)>, usize> = HashMap::new();
    keys.into_iter()
        .map(|key| {
            let next = numbers.len();
            *numbers.entry(key).or_insert(next)
        })
        .collect()
}

/// Decisions of some pairs.
#[derive(Debug)]
pub(super) struct Decisions {
    columns: usize,
    services: usize,
    cells: Vec<Option<Decision>>,
}

impl Decisions {
    /// Each of some ends with each of others, which stand for their classes. An end may be unknown to the model.
    pub(super) fn of(model: &Model, rows: &[Option<Node>], columns: &[Option<Node>], services: &[Service]) -> Self {
        let places = |nodes: &[Option<Node>]| -> Vec<usize> {
            nodes.iter().enumerate().filter_map(|(place, node)| node.as_ref().map(|_| place)).collect()
        };
        let (from, to) = (places(rows), places(columns));
        let nodes = |nodes: &[Option<Node>]| nodes.iter().flatten().cloned().collect::<Vec<Node>>();
        let count = rows.len() * columns.len() * services.len() * 2;
        let mut found = Self { columns: columns.len(), services: services.len(), cells: vec![None; count] };
        let settings = model.settings.common();
        let matrix = Matrix::without_merging(&model.compiled, settings, &nodes(rows), &nodes(columns), services);
        matrix.visit(|cell| {
            let (Some(row), Some(column)) = (from.get(cell.from), to.get(cell.to)) else { return };
            let place = found.place(*row, *column, cell.service, cell.family);
            if let Some(known) = found.cells.get_mut(place) {
                *known = Some(cell.decision);
            }
        });
        found
    }

    /// None where there is no such flow.
    pub(super) fn get(&self, row: usize, column: usize, service: usize, family: Family) -> Option<Decision> {
        self.cells.get(self.place(row, column, service, family)).copied().flatten()
    }

    fn place(&self, row: usize, column: usize, service: usize, family: Family) -> usize {
        ((row * self.columns + column) * self.services + service) * 2 + usize::from(family == Family::V6)
    }
}
