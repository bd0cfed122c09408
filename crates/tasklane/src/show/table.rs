//! Rows under headings.

use super::colour::{Colours, Paint};
use super::text::{cut, width};

/// What one cell does not pass, so that lines stay lines.
const COLUMNS_MAX: usize = 60;
const GAP: &str = "  ";

/// One value of a row.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Cell {
    text: String,
    paint: Paint,
    right: bool,
}

impl Cell {
    pub(crate) fn new(text: impl AsRef<str>) -> Self {
        Self { text: cut(text.as_ref(), COLUMNS_MAX), ..Self::default() }
    }

    /// A number, which stands at the right.
    pub(crate) fn number(number: impl ToString) -> Self {
        Self { right: true, ..Self::new(number.to_string()) }
    }

    /// What may be absent.
    pub(crate) fn some(text: Option<impl AsRef<str>>) -> Self {
        text.map_or_else(|| Self::new("-").painted(Paint::Faint), Self::new)
    }

    pub(crate) const fn painted(mut self, paint: Paint) -> Self {
        self.paint = paint;
        self
    }
}

/// A table.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new(headings: &[&str]) -> Self {
        let heading = |text: &&str| Cell::new(text).painted(Paint::Heading);
        Self { rows: vec![headings.iter().map(heading).collect()] }
    }

    /// A table of things.
    pub(crate) fn of<T>(headings: &[&str], things: &[T], row: impl Fn(&T) -> Vec<Cell>) -> Self {
        let mut table = Self::new(headings);
        table.rows.extend(things.iter().map(row));
        table
    }

    pub(crate) fn row(&mut self, row: Vec<Cell>) {
        self.rows.push(row);
    }

    pub(crate) fn render(&self, colours: Colours) -> String {
        let count = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let cells = |column: usize| self.rows.iter().filter_map(move |row| row.get(column));
        let widths: Vec<usize> = (0..count)
            .map(|column| cells(column).map(|cell| width(&cell.text)).max().unwrap_or_default())
            .collect();
        // A heading stands where its numbers do.
        let rights: Vec<bool> =
            (0..count).map(|column| cells(column).nth(1).is_some_and(|cell| cell.right)).collect();
        let mut text = String::new();
        for row in &self.rows {
            let cells = row.iter().zip(widths.iter().zip(&rights));
            let cells = cells.map(|(cell, (width, right))| padded(cell, *width, *right, colours));
            text.push_str(cells.collect::<Vec<_>>().join(GAP).trim_end());
            text.push('\n');
        }
        text
    }
}

fn padded(cell: &Cell, columns: usize, right: bool, colours: Colours) -> String {
    let space = " ".repeat(columns.saturating_sub(width(&cell.text)));
    let text = colours.paint(cell.paint, &cell.text);
    if right { format!("{space}{text}") } else { format!("{text}{space}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_whatever_they_hold() {
        let things = [("short", 7), ("日本", 1_000)];
        let row = |(name, number): &(&str, i32)| vec![Cell::new(name), Cell::number(number)];
        let table = Table::of(&["NAME", "DEPTH"], &things, row);
        let expected = "NAME   DEPTH\nshort      7\n日本    1000\n";
        assert_eq!(table.render(Colours(false)), expected);
        let coloured = table.render(Colours(true));
        assert!(coloured.starts_with("\u{1b}[1mNAME\u{1b}[0m   \u{1b}[1mDEPTH\u{1b}[0m\n"));
    }
}
