//! Measures the time, memory and disk of each claim.

use super::table::{Cost, OTHERS, Row, Table};
use crate::component;
use crate::program::TACTUS;
use crate::root::{root, typed};
use anyhow::{Context, Result, bail, ensure};
use procfs::CurrentSI;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Page with the table.
const PAGE: &str = "docs/artifact.md";

/// Measures these claims, or all if the list is empty, and writes the table after each claim.
pub(super) fn measure(claims: &[String], profile: &str) -> Result<()> {
    component::time().map_err(anyhow::Error::msg)?;
    let tactus = TACTUS.build_in(profile)?;
    let page = fs::read_to_string(root().join(PAGE)).with_context(|| format!("cannot read {PAGE}"))?;
    let mut table = begin(Table::of_page(&page)?, listed(&tactus)?, claims, conditions(profile))?;
    let chosen = |row: &Row| claims.is_empty() || claims.contains(&row.claim);
    for at in (0..table.rows.len()).filter(|at| chosen(&table.rows[*at])).collect::<Vec<_>>() {
        let cost = cost(&tactus, &table.rows[at].claim)?;
        println!("{}: {:.1} s, {:.1} MiB of memory", table.rows[at].claim, cost.wall_s, cost.memory_mib);
        table.rows[at].cost = Some(cost);
        fs::write(root().join(PAGE), table.in_page(&page)?)?;
    }
    Ok(())
}

/// Writes the table for the present claims and experiments, with the measured values.
pub(super) fn rewrite(profile: &str) -> Result<()> {
    let page = fs::read_to_string(root().join(PAGE)).with_context(|| format!("cannot read {PAGE}"))?;
    let old = Table::of_page(&page)?;
    let table = Table { rows: merged(&old, listed(&TACTUS.build_in(profile)?)?), conditions: old.conditions };
    Ok(fs::write(root().join(PAGE), table.in_page(&page)?)?)
}

/// Returns the table with which a measurement begins. A measurement of all claims begins without values. Values that
/// were measured under other conditions cannot stay beside new values.
fn begin(old: Table, rows: Vec<Row>, claims: &[String], conditions: String) -> Result<Table> {
    if let Some(unknown) = claims.iter().find(|claim| rows.iter().all(|row| row.claim != **claim)) {
        bail!("there is no claim {unknown}\nhelp: use one of `tactus lab list`");
    }
    if claims.is_empty() {
        return Ok(Table { conditions: Some(conditions), rows });
    }
    if let Some(others) = old.conditions.as_ref().filter(|others| **others != conditions) {
        bail!("the values of the other claims were measured {others}, not {conditions}\nhelp: measure all claims");
    }
    Ok(Table { rows: merged(&old, rows), conditions: Some(conditions) })
}

/// Returns the rows with the costs of the same claims in `old`.
fn merged(old: &Table, rows: Vec<Row>) -> Vec<Row> {
    let cost = |claim: &str| old.rows.iter().find(|row| row.claim == claim).and_then(|row| row.cost);
    rows.into_iter().map(|row| Row { cost: cost(&row.claim), ..row }).collect()
}

/// Returns a row without costs for each claim of `tactus lab list`.
fn listed(tactus: &Path) -> Result<Vec<Row>> {
    let mut list = Command::new(tactus);
    let output = list.current_dir(root()).args(["lab", "list", "--json"]).output().context("cannot run tactus")?;
    ensure!(output.status.success(), "{} failed: {}", typed(&list), String::from_utf8_lossy(&output.stderr));
    rows(&serde_json::from_slice(&output.stdout)?)
}

fn rows(list: &Value) -> Result<Vec<Row>> {
    let text = |value: &Value| value.as_str().map(str::to_string);
    let row = |claim: &Value| {
        let experiments = claim["experiments"].as_array()?.iter().map(text).collect::<Option<_>>()?;
        Some(Row { claim: text(&claim["id"])?, experiments, cost: None })
    };
    let rows: Option<Vec<Row>> = list.as_array().and_then(|claims| claims.iter().map(row).collect());
    rows.context("the output of `tactus lab list --json` is no list of claims with experiments")
}

/// Runs the experiments of a claim without earlier results.
fn cost(tactus: &Path, claim: &str) -> Result<Cost> {
    let folder = root().join("target/artifact");
    let (results, measured) = (folder.join("results"), folder.join("time.txt"));
    fs::create_dir_all(&folder)?;
    remove(&results)?;
    let mut command = Command::new("time");
    command.args(["--format", "%e %U %S %M", "--output"]).arg(&measured).arg(tactus);
    command.args(["lab", "run", claim, "--results"]).arg(&results).current_dir(root()).env("LC_ALL", "C");
    let before = cpu_times()?;
    let output = command.output().context("cannot run GNU time")?;
    let after = cpu_times()?;
    // Exit code 1: a rival has a defect. The run is complete nevertheless.
    ensure!(
        matches!(output.status.code(), Some(0 | 1)),
        "{} failed:\n{}",
        typed(&command),
        String::from_utf8_lossy(&output.stderr)
    );
    let text = fs::read_to_string(&measured)?;
    let mut cost = parsed(&text, bytes_below(&results)?).with_context(|| format!("GNU time wrote `{text}`"))?;
    let (busy_s, all_s) = (after.0 - before.0, after.1 - before.1);
    cost.is_beside_others = busy_s - cost.cpu_s > OTHERS * all_s;
    remove(&results)?;
    Ok(cost)
}

/// Returns for how long the CPUs of this machine were busy since it started, and the time of all CPUs, in seconds.
/// Steal time counts as busy.
fn cpu_times() -> Result<(f64, f64)> {
    let times = procfs::KernelStats::current().context("cannot read /proc/stat")?.total;
    let idle = times.idle_duration() + times.iowait_duration().unwrap_or_default();
    let busy = times.user_duration() + times.nice_duration() + times.system_duration();
    let rest = [times.irq_duration(), times.softirq_duration(), times.steal_duration()];
    let busy = rest.into_iter().flatten().fold(busy, |sum, time| sum + time);
    Ok((busy.as_secs_f64(), (busy + idle).as_secs_f64()))
}

fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    Ok(())
}

/// Reads the output of GNU time: wall time, user time and system time in seconds, maximum resident memory in KiB. The
/// line before reports an exit code other than 0.
#[expect(clippy::cast_precision_loss, reason = "stored results are far smaller than 2^53 bytes")]
fn parsed(text: &str, results: u64) -> Option<Cost> {
    let numbers = text.lines().last()?.split(' ').map(|word| word.parse().ok()).collect::<Option<Vec<f64>>>()?;
    let [wall_s, user_s, system_s, memory_kib] = numbers[..] else { return None };
    let disk_mib = results as f64 / f64::from(1 << 20);
    Some(Cost { wall_s, is_beside_others: false, cpu_s: user_s + system_s, memory_mib: memory_kib / 1024.0, disk_mib })
}

/// Returns the sum of the lengths of all files in a folder and its subfolders.
pub(super) fn bytes_below(folder: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        let about = entry.metadata()?;
        sum += if about.is_dir() { bytes_below(&entry.path())? } else { about.len() };
    }
    Ok(sum)
}

/// Describes the profile and this machine.
fn conditions(profile: &str) -> String {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let about = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = about.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or(std::env::consts::ARCH, |(_, model)| model);
    format!("in the profile {profile} on {cpus} CPUs ({model})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(claim: &str, cost: Option<Cost>) -> Row {
        Row { claim: claim.to_string(), experiments: vec!["x".to_string()], cost }
    }

    const COST: Cost = Cost { wall_s: 1.0, is_beside_others: false, cpu_s: 2.0, memory_mib: 3.0, disk_mib: 4.0 };

    #[test]
    fn the_output_of_gnu_time_is_a_cost() {
        let text = "Command exited with non-zero status 1\n12.34 20.00 1.50 2048\n";
        let cost = Cost { wall_s: 12.34, is_beside_others: false, cpu_s: 21.5, memory_mib: 2.0, disk_mib: 0.5 };
        assert_eq!(parsed(text, 1 << 19), Some(cost));
        assert_eq!(parsed("12.34 20.00 1.50\n", 0), None);
        assert_eq!(parsed("", 0), None);
    }

    #[test]
    fn a_measurement_of_some_claims_keeps_the_costs_of_the_others() {
        let old = || Table { conditions: Some("here".to_string()), rows: vec![row("A1", Some(COST)), row("A0", None)] };
        let rows = || vec![row("A1", None), row("B1", None)];
        let some = |claims: &[&str], conditions: &str| {
            let claims: Vec<String> = claims.iter().map(ToString::to_string).collect();
            begin(old(), rows(), &claims, conditions.to_string())
        };
        assert_eq!(some(&["B1"], "here").unwrap().rows, [row("A1", Some(COST)), row("B1", None)]);
        assert_eq!(some(&[], "there").unwrap(), Table { conditions: Some("there".to_string()), rows: rows() });
        assert!(some(&["B1"], "there").unwrap_err().to_string().contains("measure all claims"));
        assert!(some(&["Z9"], "here").unwrap_err().to_string().contains("no claim Z9"));
    }

    #[test]
    fn the_list_of_claims_gives_the_rows_of_the_table() {
        let list = serde_json::json!([{ "id": "A1", "experiments": ["x"], "runs": 5 }]);
        assert_eq!(rows(&list).unwrap(), [row("A1", None)]);
        assert!(rows(&serde_json::json!([{ "id": "A1" }])).is_err());
    }

    #[test]
    fn the_disk_of_a_folder_includes_its_subfolders() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("a/b")).unwrap();
        fs::write(folder.path().join("one"), [0; 10]).unwrap();
        fs::write(folder.path().join("a/b/two"), [0; 5]).unwrap();
        assert_eq!(bytes_below(folder.path()).unwrap(), 15);
    }
}
