//! Labels of rows in pictures, in printable characters and shortened to the width of their column. If several machines
//! or entities have the same name, their labels include their ids.

use crate::machine_id::MachineId;
use crate::timeline::Row;
use crate::world::WorldHeader;
use std::collections::BTreeMap;

/// Returns the number of terminal columns of `c`. East Asian wide characters take two columns.
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

/// Returns the number of terminal columns of `text`.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// Returns whether a label shows `c` unchanged: a printable ASCII character, or a letter or digit of any script. All
/// other characters are replaced. Some of these characters would join, conceal or reorder their neighbours.
fn is_plain(c: char) -> bool {
    c.is_ascii_graphic() || c == ' ' || c.is_alphanumeric()
}

/// Shortens `text` to at most `most` columns. `ellipsis` replaces the end of a string that is too long. The ellipsis
/// itself is never shortened.
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

/// Returns `text` with U+FFFD in place of each character that is not [plain](is_plain).
pub(crate) fn shown(text: &str) -> String {
    text.chars().map(|c| if is_plain(c) { c } else { '\u{fffd}' }).collect()
}

/// Returns the labels of the machines `ids` of a world, in at most `most` columns. A label is the name of the machine,
/// followed by the id if several machines have this name, or only the id if the name is blank. `fit` shortens a string
/// to a number of columns.
pub(crate) fn machines(
    header: &WorldHeader,
    ids: impl Iterator<Item = MachineId>,
    most: usize,
    fit: impl Fn(&str, usize) -> String,
) -> Vec<String> {
    let mut users: BTreeMap<&str, usize> = BTreeMap::new();
    for machine in &header.machines {
        *users.entry(&machine.name).or_default() += 1;
    }
    let label = |id: MachineId| {
        let name = header.machines[id.index()].name.as_str();
        label(name, users[name] > 1, &id.to_string(), most, &fit)
    };
    ids.map(label).collect()
}

/// Returns the labels of `rows`, in at most `most` columns. A label is the name of the entity, followed by the id if
/// several entities have this name, or only the id if the name is blank. `fit` shortens a string to a number of
/// columns.
pub(crate) fn labels<'r>(
    rows: impl Iterator<Item = &'r Row> + Clone,
    most: usize,
    fit: impl Fn(&str, usize) -> String,
) -> Vec<String> {
    let mut users: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows.clone() {
        *users.entry(&row.name).or_default() += 1;
    }
    let label = |row: &Row| label(&row.name, users[row.name.as_str()] > 1, &row.entity.to_string(), most, &fit);
    rows.map(label).collect()
}

/// Returns a label. After a name, the id is never shortened.
fn label(name: &str, is_shared: bool, id: &str, most: usize, fit: &dyn Fn(&str, usize) -> String) -> String {
    match shown(name).trim() {
        "" => fit(id, most),
        name if is_shared => format!("{} {id}", fit(name, most.saturating_sub(id.len() + 1))),
        name => fit(name, most),
    }
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
