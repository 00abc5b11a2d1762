//! Columns of text, aligned as Go's tab writer does for upstream: at least five wide, three spaces apart.

use calico_cmd::output::printable;

const MIN_WIDTH: usize = 5;
const GAP: usize = 3;

/// Rows of equal length; the first is the heading.
pub(super) fn render(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let widest = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
        (widest.unwrap_or_default() + GAP).max(MIN_WIDTH)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let line: String =
            row.iter().zip(&widths).map(|(cell, width)| format!("{:<width$}", printable(cell))).collect();
        text += line.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligns_like_gos_tab_writer() {
        let rows = [["A", "B"], ["x", "longer"], ["longest", ""]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(render(&rows), "A         B\nx         longer\nlongest\n");
        let narrow = [vec!["A".to_owned(), "B".to_owned()]];
        assert_eq!(render(&narrow), "A    B\n");
        assert_eq!(render(&[vec!["a\u{1b}[2Jb".to_owned()]]), "a\u{fffd}[2Jb\n");
    }
}
