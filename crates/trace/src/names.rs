//! What rows are called in pictures: names that are safe to show, tell the rows apart and fit their column.

use crate::timeline::Row;
use std::collections::BTreeMap;

/// How many columns of a terminal `c` takes: East Asian wide forms take two.
fn columns_of(c: char) -> usize {
    const WIDE: [(char, char); 9] = [
        ('\u{1100}', '\u{115f}'),
        ('\u{2e80}', '\u{303e}'),
        ('\u{3041}', '\u{a4cf}'),
        ('\u{a960}', '\u{a97c}'),
        ('\u{ac00}', '\u{d7a3}'),
        ('\u{f900}', '\u{faff}'),
        ('\u{fe30}', '\u{fe6f}'),
        ('\u{ff00}', '\u{ff60}'),
        ('\u{20000}', '\u{3fffd}'),
    ];
    if WIDE.iter().any(|&(low, high)| (low..=high).contains(&c)) { 2 } else { 1 }
}

/// How many columns of a terminal `text` takes.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// Whether `c` shows itself and nothing else: no control character, no mark that joins, hides or turns others.
fn is_plain(c: char) -> bool {
    c.is_ascii_graphic() || c == ' ' || c.is_alphanumeric()
}

/// `text` in at most `most` columns, its end replaced by `ellipsis` if need be.
pub(crate) fn cut(text: &str, most: usize, ellipsis: &str) -> String {
    if columns(text) <= most {
        return text.to_string();
    }
    let room = most.saturating_sub(columns(ellipsis));
    let mut used = 0;
    let fits = |c: &char| {
        used += columns_of(*c);
        used <= room
    };
    let kept: String = text.chars().take_while(fits).collect();
    kept.trim_end().to_string() + ellipsis
}

/// The labels of `rows`: their names; with their ids where they have none, or share it with another row.
pub(crate) fn labels<'r>(rows: impl Iterator<Item = &'r Row> + Clone) -> Vec<String> {
    let mut users: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows.clone() {
        *users.entry(&row.name).or_default() += 1;
    }
    let label = |row: &Row| {
        let name: String = row.name.chars().map(|c| if is_plain(c) { c } else { '\u{fffd}' }).collect();
        match name.trim() {
            "" => row.entity.to_string(),
            name if users[row.name.as_str()] > 1 => format!("{name} {}", row.entity),
            name => name.to_string(),
        }
    };
    rows.map(label).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_to_columns() {
        assert_eq!(cut("database", 8, "…"), "database");
        assert_eq!(cut("database1", 8, "…"), "databas…");
        assert_eq!(cut("data base", 6, "…"), "data…");
        assert_eq!(cut("漢字漢字", 5, "…"), "漢字…");
        assert_eq!(cut("abc", 0, "…"), "…");
    }
}
