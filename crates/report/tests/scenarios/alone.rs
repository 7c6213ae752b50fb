//! Helpers for the tests: runs of a scenario under its own policy, and the results of its only application, `it`.

use report::{AppReport, Report};
use run::{Observers, Run};
use scenario::Scenario;
use workloads::metrics::Reading;

pub(crate) fn parse(text: &str) -> Scenario {
    Scenario::from_bytes("test.toml", text.as_bytes().to_vec()).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Runs the scenario under the scenario's own policy, with an auditor.
pub(crate) fn played(scenario: &Scenario) -> Report {
    let choice = run::choose(scenario, &[], &[]).expect("the scenario names its policy").remove(0);
    let run = Run { seed: 1, ..Run::new(scenario.clone(), choice) };
    let mut auditor = run.auditor().unwrap_or_else(|problems| panic!("{problems}"));
    let report =
        run.play(Observers::none().world(&mut auditor)).map(Report::of).unwrap_or_else(|problems| panic!("{problems}"));
    assert!(auditor.findings().is_empty(), "{:?}", auditor.findings());
    report
}

pub(crate) fn reading(applications: &[AppReport]) -> Reading {
    let [AppReport { name, values, series, .. }] = applications else { panic!("{applications:?}") };
    assert_eq!(name, "it");
    Reading { values: values.clone(), series: series.clone(), ..Reading::default() }
}

pub(crate) fn of(reading: &Reading, name: &str) -> u64 {
    reading.get(name).unwrap_or_else(|| panic!("{name} in {reading:?}"))
}

#[track_caller]
pub(crate) fn near(reading: &Reading, name: &str, right: u64, permille: u64) {
    let is = of(reading, name);
    assert!(is.abs_diff(right) * 1000 <= right * permille, "{name}: {is}, not {right}; {reading:?}");
}
