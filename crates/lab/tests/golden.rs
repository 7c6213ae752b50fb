//! Traces that must not change by accident: scenarios under every policy, byte for byte. `UPDATE_EXPECT=1` rewrites them.

use expect_test::expect_file;
use lab::scenario::Scenario;
use sched::Nanos;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use trace::{Header, TextWriter};

/// Scenarios, and how much of each is kept.
const SCENARIOS: [(&str, Nanos); 2] = [("three-vms", Nanos::ms(300)), ("weights", Nanos::ms(200))];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository is there")
}

/// The trace of a scenario under a policy with its default knobs: those that the scenario sets are for its own.
fn trace(name: &str, length: Nanos, policy: &'static sched::Descriptor) -> String {
    let mut scenario =
        Scenario::read(&root().join("scenarios").join(name).with_extension("toml")).expect("it is right");
    scenario.length = length;
    let choices = lab::choose(&scenario, &[policy.name.to_string()], &[]).expect("it is there");
    let header = Header { policy: policy.name.to_string(), cpus: scenario.host.cpus, seed: 0 };
    let mut writer = TextWriter::new(Vec::new(), &header);
    lab::run(&scenario, policy, &choices[0].knobs, 0, &mut [&mut writer]).expect("nothing is refused");
    String::from_utf8(writer.finish().expect("memory can be written to")).expect("it is text")
}

#[test]
fn every_policy_does_what_it_did() {
    let mut files = BTreeSet::new();
    for (name, length) in SCENARIOS {
        for policy in policies::ALL {
            let file = format!("{name}.{}.trace", policy.name);
            expect_file![root().join("golden").join(&file)].assert_eq(&trace(name, length, policy));
            files.insert(file);
        }
    }
    let there = std::fs::read_dir(root().join("golden")).expect("it is there");
    let there: BTreeSet<String> =
        there.map(|entry| entry.expect("it can be listed").file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(there, files, "a golden trace that nobody compares is dead");
}
