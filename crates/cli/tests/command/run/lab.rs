//! `tactus lab run --live`, with a paper that has one small live experiment.

use super::turn;
use crate::{Done, Place};
use serde_json::Value;

const SCENARIO: &str = r#"
name = "one"
cpus = 1
length = "1500ms"
[[vm]]
name = "vm"
slice = "2ms"
period = "10ms"
limit = "hard"
workload = "hog"
affinity = "{{ cpu }}"
[[task]]
name = "said"
command = ["sh", "-c", "sleep 1.3; echo {{ seed }}"]
"#;

const EXPERIMENT: &str = r#"
figure = "Fig 1"
title = "A share"
claims = ["T1"]
scenario = "one.toml"
seeds = 2
with.cpu = { value = 0, kind = "assumed", origin = "run", reason = "any CPU" }
counts = "processes.said.output != ''"
[sweep]
mechanism = ["auto", "kernel"]
[metrics]
percent = "(processes.vm.seconds_ns | mean) / 10000000"
missed = "processes.vm.missed"
said = "processes.said.output | trim | int"
[smoke]
mechanism = ["auto"]
"#;

const CLAIMS: &str = r#"
source = "Author: A paper for tests. 2020"
method = "None."
[[claim]]
id = "T1"
claim = "It gets a fifth."
[[claim.check]]
what = "share"
measure = "at('share', mechanism='auto').percent"
paper = 20
within = { value = "30%", kind = "assumed", origin = "rule", reason = "a share" }
unit = "%"
rival = { name = "the kernel", of = { mechanism = "auto" }, is = { mechanism = "kernel" } }
[[claim.check]]
what = "what the command printed is the seed"
measure = "at('share', mechanism='auto').said / 2"
above = { value = 0.4, kind = "assumed", origin = "rule", reason = "the first seed" }
below = { value = 1.1, kind = "assumed", origin = "rule", reason = "the second seed" }
rival = { name = "the kernel", of = { mechanism = "auto" }, is = { mechanism = "kernel" } }
"#;

/// Returns a directory with the tiny paper and its live part.
fn place() -> Place {
    let place = Place::new();
    let tiny = place.0.path().join("papers/tiny");
    for folder in ["experiments", "scenarios", "live/experiments", "live/scenarios"] {
        std::fs::create_dir_all(tiny.join(folder)).unwrap();
    }
    place.file("papers/tiny/claims.toml", include_str!("../../../../lab/tests/tiny/claims.toml"));
    let experiment = include_str!("../../../../lab/tests/tiny/experiments/shares.toml");
    place.file("papers/tiny/experiments/shares.toml", experiment);
    place.file("papers/tiny/scenarios/hogs.toml", include_str!("../../../../lab/tests/tiny/scenarios/hogs.toml"));
    place.file("papers/tiny/printed.toml", include_str!("../../../../lab/tests/tiny/printed.toml"));
    place.file("papers/tiny/live/claims.toml", CLAIMS);
    place.file("papers/tiny/live/experiments/share.toml", EXPERIMENT);
    place.file("papers/tiny/live/scenarios/one.toml", SCENARIO);
    place
}

fn lab(place: &Place, args: &[&str]) -> Done {
    place.run(&[&["lab", "run", "T1", "--live"], args].concat())
}

#[test]
fn a_live_experiment_is_run_judged_and_recorded_beside_the_simulation() {
    let Some(_turn) = turn() else { return };
    let place = place();
    let done = place.run(&["lab", "run", "all", "--record"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    // The rival of the second check is not rejected, because every process prints the seed.
    let done = lab(&place, &["--record"]);
    if done.stderr.contains("a hypervisor took more than") {
        return eprintln!("SKIPPED: {}", done.stderr);
    }
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    assert!(done.stdout.contains("T1   ") && done.stdout.contains(" It gets a fifth."), "{}", done.stdout);
    assert!(done.stdout.contains("rival the kernel"), "{}", done.stdout);
    assert!(done.stdout.contains("✗ what the command printed is the seed"), "{}", done.stdout);
    let text = std::fs::read_to_string(place.0.path().join("papers/tiny/live/measured.json")).unwrap();
    let recorded: Value = serde_json::from_str(&text).unwrap();
    assert!(recorded["machine"].as_str().is_some_and(|it| it.contains("Linux ")), "{text}");
    let result = std::fs::read_to_string(place.0.path().join("papers/tiny/RESULT.md")).unwrap();
    assert!(result.contains("| real processes |") && result.contains("## Real processes"), "{result}");
    assert!(result.contains("`live/experiments/share.toml`"), "{result}");
    let done = place.run(&["lab", "report"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let page = std::fs::read_to_string(place.0.path().join("lab-results/report.html")).unwrap();
    assert!(page.contains("id=\"live-T1\"") && page.contains("with real processes on "), "{page}");
    // The runs are in the store now; a smoke run shows a stored run beside the record.
    let done = lab(&place, &["--smoke"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(done.stdout.contains("said: 1 (recorded: 1, 2)"), "{}", done.stdout);
    let runs = std::fs::read_to_string(place.0.path().join("lab-results/runs.jsonl")).unwrap();
    assert_eq!(runs.matches("steal_ppm").count(), 4, "two mechanisms with two seeds");
}

#[test]
fn a_mechanism_that_does_not_exist_is_refused_with_those_that_do() {
    let place = place();
    place.file("papers/tiny/live/experiments/share.toml", EXPERIMENT.replace("\"kernel\"", "\"magic\""));
    let done = lab(&place, &[]);
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    assert!(done.stderr.contains("`\"magic\"` keeps no promises"), "{}", done.stderr);
    assert!(done.stderr.contains("one of auto, inherit, fifo, deadline, quota, kernel"), "{}", done.stderr);
}
