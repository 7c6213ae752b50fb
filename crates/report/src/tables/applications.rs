//! The table of applications.

use super::grid::Grid;
use crate::applications::{AppReport, AppSummary};
use crate::run_report::Report;
use crate::short::{percent, short};
use measure::statistics::Spread;
use workloads::metrics::{Grade, Named};

/// Display format of a number.
type Form = fn(u64) -> String;

/// Returns `name` without its unit, and the display format of its numbers.
fn form(name: &str) -> (String, Form) {
    fn milli(value: u64) -> String {
        let text = format!("{}.{:03}", value / 1000, value % 1000);
        text.trim_end_matches('0').trim_end_matches('.').to_string()
    }
    let units: [(&str, Form); 3] = [("_ns", short), ("_ppm", percent), ("_milli", milli)];
    let found = units.iter().find_map(|(unit, form)| Some((name.strip_suffix(unit)?, *form)));
    let (name, form): (&str, Form) = found.unwrap_or((
        name,
        match name.ends_with("grade") {
            true => |grade| Grade::word(grade).to_string(),
            false => |count| count.to_string(),
        },
    ));
    (name.replace('_', " "), form)
}

/// Formats values as `fps 24, shown 1440, …`.
fn sentence<T: Copy>(values: &Named<T>, cell: impl Fn(T, Form) -> String) -> String {
    let said = values.0.iter().map(|&(name, value)| {
        let (name, form) = form(name);
        format!("{name} {}", cell(value, form))
    });
    said.collect::<Vec<_>>().join(", ")
}

fn spread(spread: Spread, form: Form) -> String {
    let [median, low, high] = [spread.median, spread.low, spread.high].map(form);
    if low == high { median } else { format!("{median} ({low}–{high})") }
}

/// Returns a table with a line for each application and policy: name, metric, policy, values. Empty without
/// applications.
fn table<A>(of: &[(&str, &[A])], line: impl Fn(&A) -> (String, &'static str, String)) -> String {
    let most = of.iter().map(|(_, apps)| apps.len()).max().unwrap_or(0);
    if most == 0 {
        return String::new();
    }
    let several = of.len() > 1;
    let mut header = vec![String::new(), "measured by".to_string()];
    header.extend(several.then(|| "policy".to_string()));
    header.push("says".to_string());
    let words = header.len();
    let mut grid = Grid::new(header, words);
    for nth in 0..most {
        let there = of.iter().filter_map(|(policy, apps)| Some((policy, line(apps.get(nth)?))));
        for (row, (policy, (name, metric, says))) in there.enumerate() {
            let mut cells = if row == 0 { vec![name, metric.to_string()] } else { vec![String::new(); 2] };
            cells.extend(several.then(|| (*policy).to_string()));
            cells.push(says);
            grid.add(cells);
        }
    }
    format!("\nApplications:\n{grid}")
}

pub(super) fn results(of: &[(&str, &[AppReport])]) -> String {
    table(of, |app| (app.name.clone(), app.metric, sentence(&app.values, |value, form| form(value))))
}

pub(super) fn summed(of: &[(&str, &[AppSummary])]) -> String {
    table(of, |app| (app.name.clone(), app.metric, sentence(&app.values, spread)))
}

/// Returns the table of the metrics of the host's applications, with a line for each application and policy. `reports`
/// are runs of one scenario. Empty without applications.
#[must_use]
pub fn applications(reports: &[Report]) -> String {
    let of: Vec<_> = reports.iter().map(|report| (report.policy.as_str(), report.applications.as_slice())).collect();
    results(&of)
}
