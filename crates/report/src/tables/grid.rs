//! [`Grid`]: an aligned table, and the choice of columns that fit a width.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

/// Maximum number of rows that a table shows.
pub(crate) const ROWS_MAX: usize = 40;

/// Maximum width of a table, in characters. Range: 40 and more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Widths(pub u16);

/// An aligned table without lines. Words are aligned to the left, numbers to the right, and no line is folded.
pub(crate) struct Grid {
    table: Table,
    /// Number of columns of words.
    words: usize,
}

impl Grid {
    pub(crate) fn new(header: Vec<String>, words: usize) -> Grid {
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

    pub(crate) fn add(&mut self, row: Vec<String>) {
        let row = self.aligned(row);
        self.table.add_row(row);
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

/// Returns the line under a table that omits `count` rows.
pub(crate) fn and_more(count: usize) -> String {
    if count > 0 { format!("… and {count} more (see --json)\n") } else { String::new() }
}

/// Returns the result of `draw` for the `columns` that have room. Columns are omitted in the order of `least_missed`,
/// compared by `is`.
pub(crate) fn fitted<C: Clone, L>(
    mut columns: Vec<C>,
    least_missed: &[L],
    is: impl Fn(&C, &L) -> bool,
    widths: Widths,
    draw: impl Fn(&[C]) -> String,
) -> String {
    let all = columns.len();
    let mut least_missed = least_missed.iter();
    loop {
        let text = draw(&columns);
        let width = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        let next = least_missed.find(|least| columns.iter().any(|column| is(column, least)));
        let Some(least) = next.filter(|_| width > usize::from(widths.0)) else {
            let dropped = all - columns.len();
            let note = format!("({dropped} more columns need a larger --width, or --json)\n");
            return if dropped == 0 { text } else { text + &note };
        };
        columns.retain(|column| !is(column, least));
    }
}
