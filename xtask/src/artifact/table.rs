//! [`Table`]: the costs of the claims in docs/artifact.md, between two comments.

use anyhow::{Context, Result, bail};

/// Comment before the table.
const BEGIN: &str = "<!-- begin of the table that `cargo xtask artifact --measure` writes -->";
/// Comment after the table.
const END: &str = "<!-- end of the table -->";
/// Mark of a wall time that was measured beside other processes.
const BESIDE_OTHERS: &str = " †";
/// Share of the CPU time of a quiet machine that other processes use at most.
pub(super) const OTHERS: f64 = 0.05;
/// A value that was not measured.
const NONE: &str = "–";
const HEADER: &str = "\
| claim | experiments | wall time (s) | CPU time (s) | memory (MiB) | disk (MiB) |
|---|---|---:|---:|---:|---:|
";

/// The costs of one run of the experiments of a claim.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Cost {
    /// Time from the start of the process to its end, in seconds.
    pub(super) wall_s: f64,
    /// Whether other processes used the CPUs for more than [`OTHERS`] of the wall time, which is then longer than alone.
    pub(super) is_beside_others: bool,
    /// CPU time of the process in user and kernel mode, in seconds.
    pub(super) cpu_s: f64,
    /// Maximum resident memory of the process, in MiB.
    pub(super) memory_mib: f64,
    /// Length of all files of the stored results, in MiB.
    pub(super) disk_mib: f64,
}

/// A claim with its experiments, and their costs if they were measured.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Row {
    pub(super) claim: String,
    pub(super) experiments: Vec<String>,
    pub(super) cost: Option<Cost>,
}

/// The costs of all claims.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Table {
    /// Description of the machine and the program that measured the rows; `None` without measured rows.
    pub(super) conditions: Option<String>,
    /// A row for each claim, in the order of `tactus lab list`.
    pub(super) rows: Vec<Row>,
}

impl Table {
    /// Reads the table of a page.
    ///
    /// # Errors
    /// The page has no table, or a line of the table is invalid.
    pub(super) fn of_page(page: &str) -> Result<Table> {
        let (_, table, _) = parts(page)?;
        let mut read = Table::default();
        for line in table.lines().filter(|line| !line.is_empty() && !HEADER.contains(line)) {
            if let Some(conditions) = line.strip_prefix("Measured ") {
                read.conditions = Some(conditions.trim_end_matches('.').to_string());
            } else if !line.starts_with("| **") {
                read.rows.push(row(line).with_context(|| format!("`{line}` is no row of the table of costs"))?);
            }
        }
        Ok(read)
    }

    /// Returns the page with this table in place of its table.
    ///
    /// # Errors
    /// The page has no table.
    pub(super) fn in_page(&self, page: &str) -> Result<String> {
        let (before, _, after) = parts(page)?;
        Ok(format!("{before}{}{after}", self.to_text()))
    }

    fn to_text(&self) -> String {
        let mut text = "\n".to_string();
        if let Some(conditions) = &self.conditions {
            text += &format!("Measured {conditions}.\n\n");
        }
        text += HEADER;
        for Row { claim, experiments, cost } in &self.rows {
            text += &format!("| {claim} | {} | {} |\n", experiments.join(", "), cells(*cost));
        }
        if let Some(total) = self.total() {
            text +=
                &format!("| **all** | **{} claims, one after another** | {} |\n", self.rows.len(), cells(Some(total)));
        }
        text + "\n"
    }

    /// Returns the costs of all claims together, one after another; `None` if a claim was not measured.
    fn total(&self) -> Option<Cost> {
        let costs: Vec<Cost> = self.rows.iter().map(|row| row.cost).collect::<Option<_>>()?;
        (!costs.is_empty()).then(|| Cost {
            wall_s: costs.iter().map(|cost| cost.wall_s).sum(),
            is_beside_others: costs.iter().any(|cost| cost.is_beside_others),
            cpu_s: costs.iter().map(|cost| cost.cpu_s).sum(),
            memory_mib: costs.iter().map(|cost| cost.memory_mib).fold(0.0, f64::max),
            disk_mib: costs.iter().map(|cost| cost.disk_mib).sum(),
        })
    }
}

/// Returns the text of a page before the table, the table, and the text after it. The comments are outside the table.
fn parts(page: &str) -> Result<(&str, &str, &str)> {
    let line = |comment: &str| page.find(&format!("{comment}\n"));
    let (Some(begin), Some(end)) = (line(BEGIN), line(END)) else {
        bail!("the page lacks a line `{BEGIN}` or `{END}`")
    };
    let begin = begin + BEGIN.len() + 1;
    if end < begin {
        bail!("`{END}` precedes `{BEGIN}`");
    }
    Ok((&page[..begin], &page[begin..end], &page[end..]))
}

fn cells(cost: Option<Cost>) -> String {
    match cost {
        Some(Cost { wall_s, is_beside_others, cpu_s, memory_mib, disk_mib }) => {
            let mark = if is_beside_others { BESIDE_OTHERS } else { "" };
            format!("{wall_s:.1}{mark} | {cpu_s:.1} | {memory_mib:.1} | {disk_mib:.2}")
        }
        None => [NONE; 4].join(" | "),
    }
}

fn row(line: &str) -> Option<Row> {
    let cells: Vec<&str> = line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
    let [claim, experiments, costs @ ..] = cells.as_slice() else { return None };
    let cost = match costs {
        [NONE, NONE, NONE, NONE] => None,
        [wall, cpu, memory, disk] => Some(Cost {
            wall_s: wall.trim_end_matches(BESIDE_OTHERS).parse().ok()?,
            is_beside_others: wall.ends_with(BESIDE_OTHERS),
            cpu_s: cpu.parse().ok()?,
            memory_mib: memory.parse().ok()?,
            disk_mib: disk.parse().ok()?,
        }),
        _ => return None,
    };
    let experiments = experiments.split(", ").map(str::to_string).collect();
    Some(Row { claim: claim.to_string(), experiments, cost })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::root;
    use std::collections::{BTreeMap, BTreeSet};

    fn table() -> Table {
        let cost = Cost { wall_s: 12.3, is_beside_others: false, cpu_s: 24.0, memory_mib: 85.5, disk_mib: 0.25 };
        let row = |claim: &str, cost| Row {
            claim: claim.to_string(),
            experiments: vec!["fig-1".to_string(), "fig-2".to_string()],
            cost,
        };
        let rows =
            vec![row("A1", Some(cost)), row("B2", Some(Cost { memory_mib: 20.0, is_beside_others: true, ..cost }))];
        Table { conditions: Some("in the profile release on 2 CPUs (a model)".to_string()), rows }
    }

    #[test]
    fn a_table_of_costs_is_read_as_it_was_written_and_the_page_around_it_stays() {
        let page = format!("# Title\n{BEGIN}\n{END}\nend\n");
        assert_eq!(Table::of_page(&page).unwrap(), Table::default());
        let mut table = table();
        let written = table.in_page(&page).unwrap();
        assert!(written.starts_with("# Title\n<!--") && written.ends_with("-->\nend\n"), "{written}");
        assert!(written.contains("| A1 | fig-1, fig-2 | 12.3 | 24.0 | 85.5 | 0.25 |\n"), "{written}");
        assert!(written.contains("| B2 | fig-1, fig-2 | 12.3 † | 24.0 | 20.0 | 0.25 |\n"), "{written}");
        assert_eq!(Table::of_page(&written).unwrap(), table);
        assert_eq!(table.in_page(&written).unwrap(), written);
        table.rows[1].cost = None;
        let partly = table.in_page(&written).unwrap();
        assert!(partly.contains("| B2 | fig-1, fig-2 | – | – | – | – |\n"), "{partly}");
        assert_eq!(Table::of_page(&partly).unwrap(), table);
    }

    #[test]
    fn the_last_row_of_costs_sums_times_and_needs_every_claim() {
        let mut table = table();
        let text = table.to_text();
        assert!(
            text.contains("| **all** | **2 claims, one after another** | 24.6 † | 48.0 | 85.5 | 0.50 |\n"),
            "{text}"
        );
        table.rows[0].cost = None;
        assert!(!table.to_text().contains("**all**"));
    }

    #[test]
    fn a_page_without_its_table_of_costs_is_refused() {
        let refused = |page: &str| format!("{:#}", Table::of_page(page).unwrap_err());
        assert!(refused("# Title\n").contains("lacks a line"));
        assert!(refused(&format!("{END}\n{BEGIN}\n")).contains("precedes"));
        assert!(refused(&format!("{BEGIN}\n| A1 | x | 1 | many | 1 | 1 |\n{END}\n")).contains("is no row"));
    }

    /// Returns the experiments of each claim below `papers`, from their files.
    fn experiments() -> BTreeMap<String, BTreeSet<String>> {
        let mut found = BTreeMap::<String, BTreeSet<String>>::new();
        for paper in std::fs::read_dir(root().join("papers")).expect("it can be read") {
            let folder = paper.expect("it can be read").path().join("experiments");
            for file in std::fs::read_dir(folder).into_iter().flatten() {
                let path = file.expect("it can be read").path();
                let table: toml::Table =
                    std::fs::read_to_string(&path).expect("it can be read").parse().expect("it is TOML");
                let name = path.file_stem().expect("it has a name").to_string_lossy().into_owned();
                for claim in table["claims"].as_array().expect("it is a list") {
                    let claim = claim.as_str().expect("it is a text").to_string();
                    found.entry(claim).or_default().insert(name.clone());
                }
            }
        }
        found
    }

    #[test]
    fn every_claim_has_a_row_of_costs_with_its_experiments() {
        let page = std::fs::read_to_string(root().join("docs/artifact.md")).expect("it can be read");
        let rows = Table::of_page(&page).expect("it is valid").rows;
        let listed: BTreeMap<String, BTreeSet<String>> =
            rows.into_iter().map(|row| (row.claim, row.experiments.into_iter().collect())).collect();
        assert_eq!(listed, experiments(), "help: use `cargo xtask artifact --table`");
    }
}
