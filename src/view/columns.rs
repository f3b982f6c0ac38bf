//! Text in aligned columns, as wide as a terminal shows it.

use unicode_width::UnicodeWidthStr;

/// Sets rows in columns; the first one is set to the left, the others, numbers, to the right. Cells must be free of control
/// characters.
pub fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            let padding = " ".repeat(width.saturating_sub(cell.width()));
            if column == 0 { format!("{cell}{padding}") } else { format!("{padding}{cell}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::columns;

    #[test]
    fn wide_characters_keep_the_columns_aligned() {
        let rows = [["TOOL", "RUNS"], ["漢字", "1"], ["a", "12345"]];
        let rows: Vec<Vec<String>> = rows.iter().map(|row| row.map(str::to_owned).to_vec()).collect();
        assert_eq!(columns(&rows), "TOOL   RUNS\n漢字      1\na     12345\n");
        assert_eq!(columns(&[]), "");
    }
}
