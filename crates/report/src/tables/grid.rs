//! [`Grid`]: an aligned table, and the selection of columns that fit a width.

use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, presets};

/// Maximum number of rows that a table shows.
pub(crate) const ROWS_MAX: usize = 40;

/// Maximum width of a table, in characters. Range: 40 ….
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Widths(pub u16);

/// An aligned table without borders. Columns of words are aligned to the left, columns of numbers to the right. No row
/// is wrapped.
#[derive(Debug)]
pub struct Grid {
    table: Table,
    /// Number of columns of words.
    words: usize,
}

impl Grid {
    /// Returns a table with these titles, without rows. The first `words` columns are columns of words.
    #[must_use]
    pub fn new(header: Vec<String>, words: usize) -> Grid {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        let mut grid = Grid { table, words };
        let header = grid.aligned(header);
        grid.table.set_header(header);
        for column in grid.table.column_iter_mut() {
            column.set_padding((0, 1));
        }
        grid
    }

    /// Adds a row, with a cell for every title.
    pub fn add(&mut self, row: Vec<String>) {
        let row = self.aligned(row);
        self.table.add_row(row);
    }

    /// Returns the text of the table under `header` with the columns that `is_kept` selects, followed by a note if
    /// columns were omitted.
    fn with_columns(mut self, header: Vec<String>, is_kept: impl Fn(usize) -> bool) -> String {
        let header = self.aligned(header);
        self.table.set_header(header);
        let mut omitted = 0;
        for column in self.table.column_iter_mut().filter(|column| !is_kept(column.index)) {
            column.set_constraint(ColumnConstraint::Hidden);
            omitted += 1;
        }
        let note = format!("({omitted} more columns need a larger --width, or --json)\n");
        if omitted == 0 { self.to_string() } else { self.to_string() + &note }
    }

    fn aligned(&self, row: Vec<String>) -> Vec<Cell> {
        let side = |at| if at < self.words { CellAlignment::Left } else { CellAlignment::Right };
        row.into_iter().enumerate().map(|(at, text)| Cell::new(text).set_alignment(side(at))).collect()
    }
}

impl std::fmt::Display for Grid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.table.lines().try_for_each(|line| writeln!(f, "{}", line.trim_end()))
    }
}

/// Returns the line that follows a table if the table omits `count` rows.
pub(crate) fn and_more(count: usize) -> String {
    if count > 0 { format!("… and {count} more (see --json)\n") } else { String::new() }
}

/// A table before the selection of columns that fit the width.
pub(crate) struct Wide<C> {
    /// Titles of the columns of words. These columns come first and are never omitted.
    pub(crate) words: Vec<String>,
    /// Columns of numbers.
    pub(crate) columns: Vec<C>,
    /// Rows, each with a cell for every column.
    pub(crate) rows: Vec<Vec<String>>,
}

impl<C> Wide<C> {
    /// Returns the text of the table with the columns that fit. Columns of numbers are omitted in the order of
    /// `least_missed`; `is` returns whether a column is the given element of `least_missed`. `titles` returns the
    /// titles of the remaining columns of numbers.
    pub(crate) fn fitted<L>(
        self,
        least_missed: &[L],
        is: impl Fn(&C, &L) -> bool,
        titles: impl Fn(&[&C]) -> Vec<String>,
        widths: Widths,
    ) -> String {
        let words = self.words.len();
        let mut header = self.words;
        header.resize(words + self.columns.len(), String::new());
        let mut grid = Grid::new(header.clone(), words);
        self.rows.into_iter().for_each(|row| grid.add(row));
        let cells: Vec<usize> = grid.table.column_max_content_widths().into_iter().map(usize::from).collect();
        let mut kept: Vec<(usize, &C)> = (words..).zip(&self.columns).collect();
        let mut least_missed = least_missed.iter();
        loop {
            let titles = titles(&kept.iter().map(|&(_, column)| column).collect::<Vec<&C>>());
            let numbers = kept.iter().zip(&titles).map(|(&(at, _), title)| cells[at].max(title.chars().count()));
            let all = cells[..words].iter().copied().chain(numbers);
            let width = all.reduce(|sum, width| sum + 1 + width).unwrap_or(0);
            let next = least_missed.find(|least| kept.iter().any(|(_, column)| is(column, least)));
            let Some(least) = next.filter(|_| width > usize::from(widths.0)) else {
                kept.iter().zip(titles).for_each(|(&(at, _), title)| header[at] = title);
                return grid.with_columns(header, |at| at < words || kept.iter().any(|&(kept, _)| kept == at));
            };
            kept.retain(|(_, column)| !is(column, least));
        }
    }
}
