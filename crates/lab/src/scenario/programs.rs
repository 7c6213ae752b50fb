//! Parallel programs, builds, streams and played-back load, as typed.

use super::settings::{ROUNDS_MAX, Settings};
use super::table::Table;
use super::{form, number};
use crate::input;
use crate::problem::{Findings, Problem, Wrong};
use crate::workloads::{Bsp, Build, LoadPlayback, MicroBatch, Parsec, Stream};
use std::path::Path;
use toml::de::DeValue;

/// The keys of `bsp`.
pub(crate) const BSP_KEYS: &[&str] = &["nodes", "supersteps", "compute", "communicate", "waits"];
/// The keys of `parsec`.
pub(crate) const PARSEC_KEYS: &[&str] = &["program", "threads", "work", "waits"];
/// The keys of `micro_batch`.
pub(crate) const MICRO_BATCH_KEYS: &[&str] = &["interval", "batches", "workers", "stages", "work"];
/// The keys of `build`.
pub(crate) const BUILD_KEYS: &[&str] = &["files", "jobs", "compile", "reads", "link"];
/// The keys of `stream`.
pub(crate) const STREAM_KEYS: &[&str] = &["threads", "passes", "pass", "bytes"];
/// The keys of `load_playback`.
pub(crate) const LOAD_PLAYBACK_KEYS: &[&str] = &["loads", "step"];

pub(super) fn bsp(table: &Table<'_, '_>, findings: &mut Findings) -> Option<Bsp> {
    let mut settings = Settings::new(table, findings);
    let default = Bsp::default();
    let bsp = Bsp {
        nodes: settings.tasks("nodes", default.nodes),
        supersteps: settings.times("supersteps", default.supersteps),
        compute: settings.above_zero("compute", default.compute),
        communicate: settings.length("communicate", default.communicate),
        waits: settings.read("waits", form::waits).unwrap_or(default.waits),
    };
    settings.right.then_some(bsp)
}

pub(super) fn parsec(table: &Table<'_, '_>, findings: &mut Findings) -> Option<Parsec> {
    let mut settings = Settings::new(table, findings);
    if table.get("program").is_none() {
        let right = "right would be program = \"streamcluster\", or another of the suite";
        settings.wrong(Wrong::new("the workload `parsec` has no program", "which of the 13?", right), "program");
    }
    let default = Parsec::new(settings.read("program", number::parsec_program)?);
    let parsec = Parsec {
        threads: settings.tasks("threads", default.threads),
        work: settings.time("work", default.work),
        waits: settings.read("waits", form::waits).unwrap_or(default.waits),
        ..default
    };
    if parsec.work > Parsec::WORK_MAX {
        let right = format!("right would be at most {}", Parsec::WORK_MAX);
        settings.wrong(Wrong::new("the program computes for too long", "too long", right), "work");
    }
    settings.right.then_some(parsec)
}

pub(super) fn micro_batch(table: &Table<'_, '_>, findings: &mut Findings) -> Option<MicroBatch> {
    let mut settings = Settings::new(table, findings);
    let default = MicroBatch::default();
    let batches = MicroBatch {
        interval: settings.time("interval", default.interval),
        batches: settings.times("batches", default.batches),
        workers: settings.tasks("workers", default.workers),
        stages: settings.few("stages", 1, MicroBatch::STAGES_MAX, default.stages),
        work: settings.above_zero("work", default.work),
    };
    settings.right.then_some(batches)
}

pub(super) fn build(table: &Table<'_, '_>, findings: &mut Findings) -> Option<Build> {
    let mut settings = Settings::new(table, findings);
    let default = Build::default();
    let build = Build {
        files: settings.count("files", ROUNDS_MAX, default.files),
        jobs: settings.tasks("jobs", default.jobs),
        compile: settings.above_zero("compile", default.compile),
        reads: settings.length("reads", default.reads),
        link: settings.length("link", default.link),
    };
    settings.right.then_some(build)
}

pub(super) fn stream(table: &Table<'_, '_>, findings: &mut Findings) -> Option<Stream> {
    let mut settings = Settings::new(table, findings);
    let default = Stream::default();
    let stream = Stream {
        threads: settings.tasks("threads", default.threads),
        passes: settings.times("passes", default.passes),
        pass: settings.time("pass", default.pass),
        bytes: settings.count("bytes", Stream::BYTES_MAX, default.bytes),
    };
    settings.right.then_some(stream)
}

pub(super) fn load_playback(table: &Table<'_, '_>, findings: &mut Findings) -> Option<LoadPlayback> {
    let Some((value, at)) = table.get("loads") else {
        let problem = Problem::new("the workload `load_playback` has no loads").at(table.at, "no loads");
        findings.add(problem.help("right would be { load_playback = { loads = [0.5, 1.5] } }, or the name of a file"));
        return None;
    };
    let loads = match value {
        DeValue::String(file) => {
            let name = findings.source().name().to_string();
            let path = Path::new(&name).parent().unwrap_or(Path::new("")).join(file.as_ref());
            match trace(&path) {
                Ok(loads) => Some(loads),
                Err(problem) => {
                    findings.add(problem.at(at, "this file"));
                    None
                }
            }
        }
        _ => Settings::new(table, findings).read("loads", number::loads),
    };
    let mut settings = Settings::new(table, findings);
    let default = LoadPlayback::new(loads.unwrap_or_default());
    let playback = LoadPlayback { step: settings.time("step", default.step), ..default };
    (settings.right && !playback.loads_milli.is_empty()).then_some(playback)
}

/// The loads in a file: a number in each line; empty lines, and what follows a `#`, count for nothing.
fn trace(path: &Path) -> Result<Vec<u64>, Problem> {
    const RIGHT: &str = "right would be a text file with a load in each line, such as 1.5";
    let shown = path.display();
    let unreadable = |why: &str| Problem::new(format!("the loads in {shown} cannot be read: {why}")).help(RIGHT);
    if !std::fs::metadata(path).is_ok_and(|about| about.is_file()) {
        return Err(unreadable("there is no such file"));
    }
    let bytes = input::read(path).map_err(|_| unreadable("it is not ours to read"))?;
    let source = input::decode(&shown.to_string(), bytes).map_err(|_| unreadable("it is no text, or too large"))?;
    let mut loads = Vec::new();
    for (number, line) in source.text().lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let load = number::milli(line).filter(|&load| load <= LoadPlayback::LOAD_MILLI_MAX).ok_or_else(|| {
            let most = LoadPlayback::LOAD_MILLI_MAX / 1000;
            Problem::new(format!("line {} of {shown} is no load", number + 1))
                .help(format!("right would be a number from 0 to {most} with at most three decimals, such as 1.5"))
        })?;
        loads.push(load);
    }
    if loads.is_empty() { Err(unreadable("there is none in it")) } else { Ok(loads) }
}
