//! A matrix for people: ends that nothing tells apart are one, and so is traffic.

use std::collections::HashMap;

use calico_core::flow::Decision;

use super::paint::{Page, Style};
use super::reach::{Cell, Class, Matrix};

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

/// Classes that have the same verdicts, by their place in the matrix.
#[derive(Debug)]
struct Group {
    name: String,
    classes: Vec<usize>,
    /// All of them, by their place among the matrix's ends.
    ends: Vec<usize>,
}

impl<'a> Grid<'a> {
    pub(super) fn of(matrix: &'a Matrix) -> Self {
        let places = |classes: &[Class]| -> HashMap<usize, usize> {
            classes.iter().enumerate().map(|(place, class)| (class.number, place)).collect()
        };
        let (row_of, column_of) = (places(&matrix.rows), places(&matrix.columns));
        let rows = groups(matrix, &matrix.rows, |row, class, own| {
            let mut verdicts = matrix.row(row, own);
            let column = column_of.get(&class.number);
            verdicts.extend(column.into_iter().flat_map(|column| matrix.column(*column, own)));
            verdicts
        });
        let columns = groups(matrix, &matrix.columns, |column, class, own| {
            let mut verdicts = matrix.column(column, own);
            verdicts.extend(row_of.get(&class.number).into_iter().flat_map(|row| matrix.row(*row, own)));
            verdicts
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
        let mut alike: Vec<(Vec<Cell>, Vec<usize>)> = Vec::new();
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

    fn is_square(&self) -> bool {
        let ends = |groups: &[Group]| groups.iter().map(|group| group.ends.clone()).collect::<Vec<_>>();
        ends(&self.rows) == ends(&self.columns)
    }

    fn table(&self, traffic: usize, label: usize, page: &mut Page) {
        let is_square = self.is_square();
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
        use Decision::{Allow, Deny};
        match self.verdicts(row, column, traffic) {
            None => (Style::Dim, "-"),
            Some(Cell { v4: Some(Allow), v6: Some(Deny) }) => (Style::Odd, "4"),
            Some(Cell { v4: Some(Deny), v6: Some(Allow) }) => (Style::Odd, "6"),
            Some(cell) => match cell.verdict() {
                Some(Allow) => (Style::Good, "✓"),
                Some(Deny) => (Style::Bad, "·"),
                None => (Style::Dim, " "),
            },
        }
    }

    /// None where both are one end.
    fn verdicts(&self, row: &Group, column: &Group, traffic: usize) -> Option<Cell> {
        let pairs = row.classes.iter().flat_map(|from| column.classes.iter().map(move |to| (*from, *to)));
        let mut others = pairs.filter(|(from, to)| !self.matrix.is_itself(*from, *to));
        others.next().map(|(from, to)| self.matrix.cell(from, to, traffic))
    }

    /// Whether any verdict depends on the family.
    fn has_families(&self) -> bool {
        self.matrix.cells.iter().any(|cell| cell.verdict().is_none() && cell.v4.is_some())
    }

    fn lists(&self, traffic: usize, page: &mut Page) {
        for row in &self.rows {
            let reached = |column: &Group| match self.cell(row, column, traffic).1 {
                "✓" => Some(column.name.clone()),
                "4" => Some(format!("{} (IPv4 only)", column.name)),
                "6" => Some(format!("{} (IPv6 only)", column.name)),
                _ => None,
            };
            let names: Vec<String> = self.columns.iter().filter_map(reached).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            page.line(2, &[(Style::Plain, &row.name), (Style::Dim, " may reach")]);
            if names.is_empty() {
                page.line(6, &[(Style::Bad, "nobody")]);
            }
            wrapped(&names).iter().for_each(|line| page.line(6, &[(Style::Good, line)]));
        }
    }

    fn legend(&self, is_wide: bool, page: &mut Page) {
        if !is_wide && !self.is_square() {
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
                    (
                        Style::Dim,
                        if self.has_families() { ", 4 or 6 allowed over that version of IP alone" } else { "" },
                    ),
                ],
            );
        }
        let mut told: Vec<String> = Vec::new();
        for group in self.rows.iter().chain(&self.columns).filter(|group| group.ends.len() > 1) {
            const SHOWN: usize = 20;
            let names: Vec<&str> = group.ends.iter().take(SHOWN).filter_map(|end| self.matrix.name(*end)).collect();
            let hidden = group.ends.len() - names.len();
            let more = if hidden > 0 { format!(" and {hidden} more") } else { String::new() };
            let line = format!("{}: {}{more}", group.name, names.join(", "));
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

impl Matrix {
    fn name(&self, end: usize) -> Option<&str> {
        self.ends.get(end).map(|end| end.name.as_str())
    }

    fn row(&self, row: usize, own: Own) -> Vec<Cell> {
        (0..self.columns.len()).flat_map(|column| self.cells_of(row, column, own)).collect()
    }

    fn column(&self, column: usize, own: Own) -> Vec<Cell> {
        (0..self.rows.len()).flat_map(|row| self.cells_of(row, column, own)).collect()
    }

    fn cells_of(&self, row: usize, column: usize, own: Own) -> impl Iterator<Item = Cell> {
        let own = own.filter(|_| self.is_itself(row, column));
        (0..self.traffic.len()).map(move |traffic| {
            let cell = self.cell(row, column, traffic);
            own.map_or(cell, |own| Cell { v4: cell.v4.map(|_| own), v6: cell.v6.map(|_| own) })
        })
    }
}

/// Classes with the same verdicts, in the order of their first members.
fn groups(matrix: &Matrix, classes: &[Class], verdicts: impl Fn(usize, &Class, Own) -> Vec<Cell>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut left: Vec<usize> = (0..classes.len()).collect();
    for own in [Some(Decision::Deny), Some(Decision::Allow), None] {
        let mut alike: HashMap<Vec<Cell>, Vec<usize>> = HashMap::new();
        for index in left.drain(..) {
            if let Some(class) = classes.get(index) {
                alike.entry(verdicts(index, class, own)).or_default().push(index);
            }
        }
        for members in alike.into_values() {
            if members.len() < 2 && own.is_some() {
                left.extend(members);
                continue;
            }
            let of_group = members.iter().filter_map(|member| classes.get(*member));
            let mut ends: Vec<usize> = of_group.flat_map(|class| class.members.iter().copied()).collect();
            ends.sort_unstable();
            let names: Vec<&str> = ends.iter().filter_map(|end| matrix.name(*end)).collect();
            groups.push(Group { name: common(&names), classes: members, ends });
        }
        left.sort_unstable();
    }
    groups.sort_by_key(|group| group.classes.first().copied());
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
