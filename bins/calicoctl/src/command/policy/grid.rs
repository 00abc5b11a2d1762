//! A matrix for people: ends that nothing tells apart are one, and so is traffic.

use std::collections::BTreeMap;

use calico_core::flow::Decision;

use super::matrix::{End, Matrix};
use super::paint::{Page, Style};

/// Widest table that is drawn; what is wider is told in lists.
const WIDTH: usize = 100;
/// Room of a column.
const COLUMN: usize = 4;
/// Longest name of a group.
const NAME: usize = 48;

/// Groups of ends and of traffic.
#[derive(Debug)]
pub(super) struct Grid<'a> {
    matrix: &'a Matrix,
    rows: Vec<Group>,
    columns: Vec<Group>,
}

/// Ends that are alike, by their place in the matrix.
#[derive(Debug, PartialEq, Eq)]
struct Group {
    name: String,
    members: Vec<usize>,
}

impl<'a> Grid<'a> {
    pub(super) fn of(matrix: &'a Matrix) -> Self {
        let place = |ends: &[End], end: &End| ends.iter().position(|one| one == end);
        let both = matrix.rows == matrix.columns;
        let column_of = |row: &End| if both { None } else { place(&matrix.columns, row) };
        let row_of = |column: &End| if both { None } else { place(&matrix.rows, column) };
        let rows = groups(&matrix.rows, |index, end, own| {
            let column = if both { Some(index) } else { column_of(end) };
            (matrix.row(index, column, own), column.map(|column| matrix.column(column, Some(index), own)))
        });
        let columns = groups(&matrix.columns, |index, end, own| {
            let row = if both { Some(index) } else { row_of(end) };
            (matrix.column(index, row, own), row.map(|row| matrix.row(row, Some(index), own)))
        });
        Self { matrix, rows, columns }
    }

    pub(super) fn text(&self, has_colours: bool) -> String {
        let mut page = Page::new(has_colours);
        let label = self.rows.iter().map(|group| group.name.chars().count()).max().unwrap_or_default();
        let is_wide = label + 5 + COLUMN * self.columns.len() > WIDTH;
        for (index, alike) in self.traffic().iter().enumerate() {
            if index > 0 {
                page.blank();
            }
            let names: Vec<_> =
                alike.iter().filter_map(|one| self.matrix.traffic.get(*one)).map(ToString::to_string).collect();
            page.line(0, &[(Style::Bold, &names.join(", "))]);
            let Some(traffic) = alike.first() else { continue };
            if is_wide { self.lists(*traffic, &mut page) } else { self.table(*traffic, label, &mut page) }
        }
        self.legend(is_wide, &mut page);
        page.into_text()
    }

    /// Traffic with the same verdicts.
    fn traffic(&self) -> Vec<Vec<usize>> {
        let mut alike: Vec<(Vec<Option<Decision>>, Vec<usize>)> = Vec::new();
        for index in 0..self.matrix.traffic.len() {
            let cells: Vec<_> =
                self.matrix.cells.iter().skip(index).step_by(self.matrix.traffic.len()).copied().collect();
            match alike.iter_mut().find(|(known, _)| *known == cells) {
                Some((_, members)) => members.push(index),
                None => alike.push((cells, vec![index])),
            }
        }
        alike.into_iter().map(|(_, members)| members).collect()
    }

    fn table(&self, traffic: usize, label: usize, page: &mut Page) {
        let is_square = self.rows == self.columns;
        let number = |index: usize| format!("{:>COLUMN$}", index + 1);
        let heading: String = (0..self.columns.len()).map(number).collect();
        let margin = label + 5;
        page.line(margin, &[(Style::Dim, &heading)]);
        for (index, row) in self.rows.iter().enumerate() {
            let name = format!("{}{}", row.name, " ".repeat(label.saturating_sub(row.name.chars().count())));
            let number = if is_square { format!("{:>3}  ", index + 1) } else { " ".repeat(5) };
            let cells: Vec<_> = self.columns.iter().map(|column| self.cell(row, column, traffic)).collect();
            let gap = " ".repeat(COLUMN - 1);
            let mut parts = vec![(Style::Dim, number.as_str()), (Style::Plain, name.as_str())];
            for (style, cell) in &cells {
                parts.extend([(Style::Plain, gap.as_str()), (*style, *cell)]);
            }
            page.line(0, &parts);
        }
    }

    /// All flows between two groups have one verdict.
    fn cell(&self, row: &Group, column: &Group, traffic: usize) -> (Style, &'static str) {
        match self.verdict(row, column, traffic) {
            Some(Some(Decision::Allow)) => (Style::Good, "✓"),
            Some(Some(Decision::Deny)) => (Style::Bad, "·"),
            Some(None) => (Style::Dim, " "),
            None => (Style::Dim, "-"),
        }
    }

    /// None where both are one end.
    fn verdict(&self, row: &Group, column: &Group, traffic: usize) -> Option<Option<Decision>> {
        let pairs = row.members.iter().flat_map(|from| column.members.iter().map(move |to| (*from, *to)));
        let mut others = pairs.filter(|(from, to)| self.matrix.rows.get(*from) != self.matrix.columns.get(*to));
        others.next().map(|(from, to)| self.matrix.cell(from, to, traffic))
    }

    fn lists(&self, traffic: usize, page: &mut Page) {
        for row in &self.rows {
            let reached = |column: &&Group| self.verdict(row, column, traffic) == Some(Some(Decision::Allow));
            let names: Vec<&str> = self.columns.iter().filter(reached).map(|column| column.name.as_str()).collect();
            page.line(2, &[(Style::Plain, &row.name), (Style::Dim, " may reach")]);
            if names.is_empty() {
                page.line(6, &[(Style::Bad, "nobody")]);
            }
            wrapped(&names).iter().for_each(|line| page.line(6, &[(Style::Good, line)]));
        }
    }

    fn legend(&self, is_wide: bool, page: &mut Page) {
        if !is_wide && self.rows != self.columns {
            for (index, column) in self.columns.iter().enumerate() {
                page.line(0, &[(Style::Dim, &format!("{:>3}  ", index + 1)), (Style::Plain, &column.name)]);
            }
        }
        page.blank();
        if !is_wide {
            page.line(
                0,
                &[
                    (Style::Dim, "from the left to the top: "),
                    (Style::Good, "✓"),
                    (Style::Dim, " allowed, "),
                    (Style::Bad, "·"),
                    (Style::Dim, " denied"),
                ],
            );
        }
        let mut told: Vec<String> = Vec::new();
        for (group, ends) in self
            .rows
            .iter()
            .map(|group| (group, &self.matrix.rows))
            .chain(self.columns.iter().map(|group| (group, &self.matrix.columns)))
        {
            if group.members.len() < 2 {
                continue;
            }
            let names: Vec<&str> =
                group.members.iter().filter_map(|member| ends.get(*member)).map(|end| end.name.as_str()).collect();
            const SHOWN: usize = 20;
            let more = if names.len() > SHOWN { format!(" and {} more", names.len() - SHOWN) } else { String::new() };
            let list = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
            let line = format!("{}: {list}{more}", group.name);
            if !told.contains(&line) {
                page.line(0, &[(Style::Dim, &line)]);
                told.push(line);
            }
        }
    }
}

/// What stands for the verdict of an end about itself, which nobody wants to know: what ends that are alike say of each other, or else
/// what it says of itself.
type Own = Option<Decision>;

/// Verdicts about an end.
type Verdicts = Vec<Option<Decision>>;

impl Matrix {
    fn row(&self, row: usize, itself: Option<usize>, own: Own) -> Verdicts {
        (0..self.columns.len()).flat_map(|column| self.cells_of((row, column), itself == Some(column), own)).collect()
    }

    fn column(&self, column: usize, itself: Option<usize>, own: Own) -> Verdicts {
        (0..self.rows.len()).flat_map(|row| self.cells_of((row, column), itself == Some(row), own)).collect()
    }

    fn cells_of(
        &self,
        (row, column): (usize, usize),
        is_itself: bool,
        own: Own,
    ) -> impl Iterator<Item = Option<Decision>> {
        let own = own.filter(|_| is_itself);
        (0..self.traffic.len()).map(move |traffic| own.or_else(|| self.cell(row, column, traffic)))
    }
}

/// Ends with the same signature, in the order of their first members.
fn groups<S: Ord>(ends: &[End], signature: impl Fn(usize, &End, Own) -> S) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut left: Vec<usize> = (0..ends.len()).collect();
    for own in [Some(Decision::Deny), Some(Decision::Allow), None] {
        let mut alike: BTreeMap<S, Vec<usize>> = BTreeMap::new();
        for index in left.drain(..) {
            if let Some(end) = ends.get(index) {
                alike.entry(signature(index, end, own)).or_default().push(index);
            }
        }
        for members in alike.into_values() {
            if members.len() < 2 && own.is_some() {
                left.extend(members);
                continue;
            }
            let of_group = members.iter().filter_map(|member| ends.get(*member));
            let names: Vec<&str> = of_group.map(|end| end.name.as_str()).collect();
            groups.push(Group { name: common(&names), members });
        }
        left.sort_unstable();
    }
    groups.sort_by_key(|group| group.members.first().copied());
    groups
}

/// Names on as few lines as hold them.
fn wrapped(names: &[&str]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let comma = if index + 1 < names.len() { "," } else { "" };
        match lines.last_mut().filter(|line| line.chars().count() + name.chars().count() + 8 <= WIDTH) {
            Some(line) => *line += &format!(" {name}{comma}"),
            None => lines.push(format!("{name}{comma}")),
        }
    }
    lines
}

/// What several ends are called together.
pub(super) fn common(names: &[&str]) -> String {
    let name = match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first, rest @ ..] => {
            let shared = rest.iter().fold(*first, |shared, name| {
                let length =
                    shared.chars().zip(name.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
                shared.get(..length).unwrap_or_default()
            });
            // Only up to where a part of a name ends.
            let end = shared.rfind(['-', '/']).map_or(0, |end| end + 1);
            match shared.get(..end).unwrap_or_default() {
                "" => format!("{first} and {} more", rest.len()),
                shared => format!("{shared}* ({})", names.len()),
            }
        }
    };
    calico_core::resource::clipped(name, NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_called_by_what_they_share() {
        for (names, expected) in [
            (&["shop/web-1"][..], "shop/web-1"),
            (&["shop/web-7d9-1", "shop/web-7d9-2", "shop/web-5c4-1"], "shop/web-* (3)"),
            (&["shop/web", "shop/worker"], "shop/* (2)"),
            (&["shop/web", "db/main", "db/other"], "shop/web and 2 more"),
        ] {
            assert_eq!(common(names), expected);
        }
    }
}
