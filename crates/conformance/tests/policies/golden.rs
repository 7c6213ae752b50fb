//! Golden runs: the standard scenarios under every policy, each as an exact trace and as a Gantt chart.
//! `UPDATE_EXPECT=1` rewrites the expected files.

use expect_test::expect_file;
use run::{Observers, Run};
use scenario::Scenario;
use sched::{Instant, Nanos};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use trace::gantt::{Gantt, Glyphs};
use trace::{Header, TextWriter, TimelineBuilder};

/// Name of each scenario, length of its golden trace, and length of the run that its chart shows.
const SCENARIOS: [(&str, Nanos, Nanos); 3] = [
    ("parallel", Nanos::ms(60), Nanos::ms(200)),
    ("three-vms", Nanos::ms(300), Nanos::ms(200)),
    ("weights", Nanos::ms(200), Nanos::ms(500)),
];
const COLUMNS: usize = 100;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository is there")
}

/// Runs a scenario under `policy`. The knobs in the scenario apply only if `policy` is the scenario's own policy;
/// otherwise all knobs have their defaults.
fn run(
    name: &str,
    length: Nanos,
    policy: &'static sched::Descriptor,
    sink: impl FnOnce(&Header) -> Box<dyn Kept>,
) -> String {
    let mut scenario = Scenario::from_bytes(
        name,
        std::fs::read(root().join("scenarios").join(name).with_extension("toml")).expect("it is there"),
    )
    .expect("it is right");
    scenario.length = length;
    let choices = run::choose(&scenario, &[policy.name.to_string()], &[]).expect("it is there");
    let header = Header { policy: policy.name.to_string(), cpus: scenario.host.cpus, seed: 0 };
    let mut kept = sink(&header);
    let outcome = Run::new(scenario, choices[0].clone()).play(Observers::none().host(kept.sink()));
    outcome.unwrap_or_else(|problems| panic!("{name} under {}: {problems}", policy.name));
    kept.text(length)
}

/// A sink whose output is compared with a golden file.
trait Kept {
    fn sink(&mut self) -> &mut dyn trace::Sink;
    fn text(self: Box<Self>, length: Nanos) -> String;
}

impl Kept for TextWriter<Vec<u8>> {
    fn sink(&mut self) -> &mut dyn trace::Sink {
        self
    }

    fn text(self: Box<Self>, _length: Nanos) -> String {
        String::from_utf8(self.finish().expect("memory can be written to")).expect("it is text")
    }
}

impl Kept for TimelineBuilder {
    fn sink(&mut self) -> &mut dyn trace::Sink {
        self
    }

    fn text(self: Box<Self>, length: Nanos) -> String {
        let timeline = self.finish().expect("a run does not contradict itself");
        let (from, to) = (Instant::ZERO, Instant::ZERO + length);
        let gantt =
            Gantt { from, to, width: COLUMNS, glyphs: Glyphs::Unicode, rows_most: 40, cpus: true, legend: true };
        gantt.render(&timeline)
    }
}

#[test]
fn every_policy_does_what_it_did() {
    let mut files = BTreeSet::new();
    for (name, traced, drawn) in SCENARIOS {
        for policy in policies::ALL {
            let trace = run(name, traced, policy, |header| Box::new(TextWriter::new(Vec::new(), header)));
            let gantt = run(name, drawn, policy, |header| Box::new(TimelineBuilder::new(header)));
            for (form, text) in [("trace", trace), ("gantt", gantt)] {
                let file = format!("{name}.{}.{form}", policy.name);
                expect_file![root().join("golden").join(&file)].assert_eq(&text);
                files.insert(file);
            }
        }
    }
    let there = std::fs::read_dir(root().join("golden")).expect("it is there");
    let there: BTreeSet<String> =
        there.map(|entry| entry.expect("it can be listed").file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(there, files, "a golden trace that no test compares is dead");
}
