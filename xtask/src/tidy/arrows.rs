//! Rules about crates: the crates of the workspace that each crate may use, and the external crates of the workspace.

use super::cycles::Graph;
use super::{text, tidy};
use crate::root::cargo;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Crates of the workspace that each crate may use, except in tests. A crate without a row here breaks the rule.
const ARROWS: &[(&str, &[&str])] = &[
    ("sched", &[]),
    ("policies", &["sched"]),
    ("port", &["orders", "policies", "sched"]),
    ("coordination", &["sched"]),
    ("sys", &["sched"]),
    ("guest", &["coordination", "sched", "sys"]),
    ("trace", &["sched"]),
    ("sim", &["coordination", "sched", "trace"]),
    ("input", &["sched"]),
    ("workloads", &["input", "sched", "sim", "trace"]),
    ("scenario", &["coordination", "input", "sched", "sim", "trace", "workloads"]),
    ("measure", &["sched", "trace"]),
    ("run", &["coordination", "input", "measure", "policies", "scenario", "sched", "sim", "trace", "workloads"]),
    ("report", &["coordination", "input", "measure", "run", "scenario", "sched", "sim", "trace", "workloads"]),
    ("lab", &["input", "measure", "report", "run", "scenario", "sched", "sim", "trace"]),
    ("orders", &["sched"]),
    ("daemon", &["coordination", "measure", "orders", "sched", "sys", "trace"]),
    ("certs", &[]),
    ("api", &["certs"]),
    ("page", &["api", "sched"]),
    ("service", &["api", "certs", "coordination", "daemon", "input", "page", "sched", "sys", "trace"]),
    (
        "simservice",
        &[
            "api",
            "certs",
            "coordination",
            "daemon",
            "input",
            "measure",
            "run",
            "scenario",
            "sched",
            "service",
            "sys",
            "trace",
        ],
    ),
    ("scx", &["input", "measure", "orders", "policies", "port", "sched", "sys", "trace"]),
    ("simhost", &["daemon", "sched", "sim", "sys"]),
    ("storms", &["daemon", "sched", "sim", "simhost", "sys"]),
    ("fuzz", &["coordination", "policies", "sched", "sim", "trace"]),
    ("conformance", &[]),
    ("python", &["input", "lab", "measure", "policies", "report", "run", "scenario", "sched", "sim", "trace"]),
    ("wasm", &["input", "policies", "report", "run", "scenario", "sched", "trace"]),
    (
        "cli",
        &[
            "api",
            "certs",
            "coordination",
            "daemon",
            "lab",
            "input",
            "measure",
            "page",
            "policies",
            "port",
            "report",
            "run",
            "scenario",
            "sched",
            "service",
            "sim",
            "simservice",
            "sys",
            "trace",
        ],
    ),
    ("xtask", &[]),
];
/// External crates that these crates may use, apart from optional ones. Crates without a row may use any external crate.
const OUTSIDE: &[(&str, &[&str])] = &[
    ("sched", &[]),
    ("policies", &[]),
    ("coordination", &["rustc-hash", "zerocopy"]),
    ("trace", &["hdrhistogram", "prost", "rustc-hash", "serde_json"]),
];

/// A crate and the crates that it uses by default, except in tests.
#[derive(Debug)]
struct Crate {
    name: String,
    /// Crates of the workspace.
    ours: BTreeSet<String>,
    outside: BTreeSet<String>,
}

fn workspace() -> Vec<Crate> {
    let output = cargo(&["metadata", "--format-version", "1", "--no-deps", "--offline"]).output();
    let output = output.expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    crates(&serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON"))
}

fn crates(metadata: &Value) -> Vec<Crate> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let name = |value: &Value| value["name"].as_str().unwrap_or_default().to_string();
    list(&metadata["packages"])
        .iter()
        .map(|package| {
            let used = list(&package["dependencies"])
                .into_iter()
                .filter(|dependency| dependency["kind"] != "dev" && dependency["optional"] != true);
            let (ours, outside): (Vec<Value>, Vec<Value>) = used.partition(|dependency| dependency["path"].is_string());
            Crate {
                name: name(package),
                ours: ours.iter().map(name).collect(),
                outside: outside.iter().map(name).collect(),
            }
        })
        .collect()
}

fn wrong_arrows(crates: &[Crate]) -> Vec<String> {
    let mut findings = Vec::new();
    for Crate { name, ours, outside } in crates {
        let Some((_, allowed)) = ARROWS.iter().find(|(of, _)| of == name) else {
            findings.push(format!("{name} has no place among the arrows: give it one here and in ARCHITECTURE.md"));
            continue;
        };
        let wrong = ours.iter().filter(|used| !allowed.contains(&used.as_str()));
        findings.extend(wrong.map(|used| format!("{name} must not use {used}")));
        if let Some((_, allowed)) = OUTSIDE.iter().find(|(of, _)| of == name) {
            let wrong = outside.iter().filter(|used| !allowed.contains(&used.as_str()));
            findings.extend(wrong.map(|used| format!("{name} must not use {used}, a crate from outside")));
        }
    }
    findings
}

/// Returns the cycles of crates that use each other, directly or through other crates. Cargo rejects cycles among the
/// crates, but not cycles in [`ARROWS`].
fn cycles(uses: &[(String, Vec<String>)]) -> Vec<String> {
    let mut graph = Graph::default();
    for (name, used) in uses {
        used.iter().for_each(|used| graph.add(name, used, "dependency"));
    }
    graph.cycles()
}

/// Returns the external crates that the root manifest lists.
fn outside_crates(manifest: &str) -> BTreeSet<String> {
    let manifest: toml::Table = manifest.parse().expect("Cargo.toml is TOML");
    let listed = manifest["workspace"]["dependencies"].as_table().expect("the workspace lists its dependencies");
    listed.iter().filter(|(_, about)| about.get("path").is_none()).map(|(name, _)| name.clone()).collect()
}

/// Returns the crates with a row on a page, each with its reason: ``| `name` | why |``.
fn rows(page: &str) -> BTreeMap<String, String> {
    let row = |line: &str| {
        let (name, why) = line.strip_prefix("| `")?.split_once("` |")?;
        Some((name.to_string(), why.trim_matches(['|', ' ']).to_string()))
    };
    page.lines().filter_map(row).collect()
}

fn undocumented(used: &BTreeSet<String>, documented: &BTreeMap<String, String>) -> Vec<String> {
    let missing = used.iter().filter(|name| documented.get(*name).is_none_or(String::is_empty));
    let gone = documented.keys().filter(|name| !used.contains(*name));
    let missing = missing.map(|name| format!("docs/dependencies.md does not say what {name} is for"));
    missing.chain(gone.map(|name| format!("docs/dependencies.md lists {name}, which is gone"))).collect()
}

#[test]
fn crate_arrows_go_one_way() {
    let crates = workspace();
    assert!(crates.len() >= ARROWS.len(), "{crates:?}");
    tidy(&wrong_arrows(&crates));
    let used = |of: &Crate| (of.name.clone(), of.ours.iter().cloned().collect());
    tidy(&cycles(&crates.iter().map(used).collect::<Vec<_>>()));
    let allowed = |(name, used): &(&str, &[&str])| (name.to_string(), used.iter().map(ToString::to_string).collect());
    tidy(&cycles(&ARROWS.iter().map(allowed).collect::<Vec<_>>()));
}

#[test]
fn crates_that_use_each_other_are_found() {
    let uses = [("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")];
    let found = cycles(&uses.map(|(name, used)| (name.to_string(), vec![used.to_string()])));
    assert_eq!(found, ["a → b (dependency), b → c (dependency), c → a (dependency)"]);
}

#[test]
fn a_wrong_arrow_is_found_and_a_test_dependency_is_not() {
    let metadata = serde_json::json!({ "packages": [
        { "name": "sched", "dependencies": [{ "name": "serde", "kind": null }] },
        { "name": "policies", "dependencies": [
            { "name": "serde", "kind": null, "optional": true },
            { "name": "sim", "kind": null, "path": "crates/sim" },
            { "name": "trace", "kind": "dev", "path": "crates/trace" },
        ] },
        { "name": "newcomer", "dependencies": [] },
    ] });
    let found = wrong_arrows(&crates(&metadata));
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(found[0], "sched must not use serde, a crate from outside");
    assert_eq!(found[1], "policies must not use sim");
    assert!(found[2].contains("newcomer"));
}

#[test]
fn every_dependency_is_listed_with_its_reason() {
    tidy(&undocumented(&outside_crates(&text("Cargo.toml")), &rows(&text("docs/dependencies.md"))));
}

#[test]
fn a_dependency_without_reason_or_a_reason_without_dependency_is_found() {
    let manifest = "[workspace.dependencies]\nsched = { path = \"crates/sched\" }\ntoml = \"1\"\ncsv = \"1\"\n";
    let page = "| crate | why |\n|---|---|\n| `toml` | reads scenarios |\n| `csv` | |\n| `gone` | was of use |\n";
    let found = undocumented(&outside_crates(manifest), &rows(page));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("csv") && found[1].contains("gone"));
}
