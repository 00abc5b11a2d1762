//! A table in a frame of ASCII characters, as upstream's `node status` draws it.

use calico_cmd::output::printable;

/// Rows of equal length; the first is the heading.
pub(crate) fn render(rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| printable(cell)).collect()).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or_default()).collect();
    let frame: String = widths.iter().map(|width| format!("+{}", "-".repeat(width + 2))).collect::<String>() + "+\n";
    let mut text = frame.clone();
    for (index, row) in rows.iter().enumerate() {
        for (cell, width) in row.iter().zip(&widths) {
            text += &format!("| {cell:<width$} ");
        }
        text += "|\n";
        if index == 0 {
            text += &frame;
        }
    }
    text + &frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_a_frame() {
        let rows = [["A", "LONG"], ["longer", "x"]].map(|row| row.map(str::to_owned).to_vec());
        let expected = "\
+--------+------+
| A      | LONG |
+--------+------+
| longer | x    |
+--------+------+
";
        assert_eq!(render(&rows), expected);
        let forged = render(&[vec!["a\u{1b}[2J\nb".to_owned()]]);
        assert!(!forged.contains('\u{1b}') && forged.lines().count() == 4, "{forged:?}");
    }
}
