//! Parallel programs, builds, streams and played-back load, as typed.

use super::SCENARIO_ENTITIES_MAX;
use super::network::vms;
use super::settings::{ROUNDS_MAX, Settings};
use super::table::Table;
use super::{form, number};
use input::files::{Files, Unreadable, resolved};
use input::problem::{Findings, Problem, Wrong};
use sched::Nanos;
use sched::id::CPUS_MAX;
use toml::de::DeValue;
use workloads::{Bsp, Build, LoadPlayback, MicroBatch, Parsec, Stream};

/// The keys of `bsp`.
pub(crate) const BSP_KEYS: &[&str] = &["nodes", "supersteps", "compute", "communicate", "waits", "bytes", "flops"];
/// The keys of `parsec`.
pub(crate) const PARSEC_KEYS: &[&str] = &["program", "threads", "work", "waits"];
/// The keys of `micro_batch`.
pub(crate) const MICRO_BATCH_KEYS: &[&str] = &[
    "interval",
    "batches",
    "workers",
    "stages",
    "work",
    "records",
    "record_work",
    "threads",
    "waits",
    "launch",
    "input",
    "output",
];
/// The keys of `build`.
pub(crate) const BUILD_KEYS: &[&str] = &["files", "jobs", "compile", "reads", "link"];
/// The keys of `stream`.
pub(crate) const STREAM_KEYS: &[&str] = &["threads", "passes", "pass", "bytes"];
/// The keys of `load_playback`.
pub(crate) const LOAD_PLAYBACK_KEYS: &[&str] = &["loads", "step"];

/// The most of a message in bytes.
const BYTES_MAX: u64 = 1 << 30;
/// The most floating-point operations of a node in a superstep.
const FLOPS_MAX: u64 = 1 << 50;
/// The most records of a batch.
const RECORDS_MAX: u64 = 1 << 40;
/// The most workers in VMs.
const WORKERS_MAX: usize = 1024;

/// How many on its own machine, or in which VMs.
enum Where {
    Here(u32),
    Vms(Vec<String>),
}

/// `nodes = 4` or `nodes = ["vm2", "vm3"]`; of the latter, at most `most`.
fn places(settings: &mut Settings<'_, '_, '_, '_>, key: &'static str, here: u32, most: usize) -> Where {
    let read = settings.read(key, |value| match value {
        DeValue::Array(names) if names.len() > most => Err(Wrong::new(
            format!("there are {} VMs in `{key}`", names.len()),
            "too many",
            format!("use at most {most}"),
        )),
        DeValue::Array(_) => vms(key, value).map(Where::Vms),
        _ => form::count(key, value, 1..=SCENARIO_ENTITIES_MAX as u64)
            .map(|count| Where::Here(u32::try_from(count).unwrap_or(u32::MAX))),
    });
    read.unwrap_or(Where::Here(here))
}

/// Refuses those of `keys` that are given, as they are for `what` alone.
fn only(settings: &mut Settings<'_, '_, '_, '_>, keys: &[&str], what: &str) {
    for key in keys {
        if settings.table.get(key).is_some() {
            let right = format!("use {what}, or leave `{key}` out");
            settings.wrong(Wrong::new(format!("`{key}` is for {what}"), "not here", right), key);
        }
    }
}

pub(super) fn bsp(table: &Table<'_, '_>, findings: &mut Findings) -> Option<Bsp> {
    let mut settings = Settings::new(table, findings);
    let default = Bsp::default();
    let (nodes, places) = match places(&mut settings, "nodes", default.nodes, Bsp::PLACES_MAX) {
        Where::Here(nodes) => (nodes, Vec::new()),
        Where::Vms(places) => (1, places),
    };
    let communicate = if places.is_empty() {
        only(&mut settings, &["bytes"], "nodes in VMs, nodes = [\"vm2\", \"vm3\"]");
        default.communicate
    } else {
        only(&mut settings, &["waits"], "nodes on one machine, nodes = 4");
        Nanos::ZERO.into()
    };
    let bsp = Bsp {
        nodes,
        places,
        bytes: settings.count("bytes", BYTES_MAX, default.bytes),
        flops: settings.count("flops", FLOPS_MAX, default.flops),
        supersteps: settings.times("supersteps", default.supersteps),
        compute: settings.above_zero("compute", default.compute),
        communicate: settings.length("communicate", communicate),
        waits: settings.read("waits", form::waits).unwrap_or(default.waits),
    };
    settings.right.then_some(bsp)
}

pub(super) fn parsec(table: &Table<'_, '_>, findings: &mut Findings) -> Option<Parsec> {
    let mut settings = Settings::new(table, findings);
    if table.get("program").is_none() {
        let right = "use program = \"streamcluster\", or another of the suite";
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
        let right = format!("use at most {}", Parsec::WORK_MAX);
        settings.wrong(Wrong::new("the program computes for too long", "too long", right), "work");
    }
    settings.right.then_some(parsec)
}

pub(super) fn micro_batch(table: &Table<'_, '_>, findings: &mut Findings) -> Option<MicroBatch> {
    let mut settings = Settings::new(table, findings);
    let default = MicroBatch::default();
    let (workers, places) = match places(&mut settings, "workers", default.workers, WORKERS_MAX) {
        Where::Here(workers) => (workers, Vec::new()),
        Where::Vms(places) => (1, places),
    };
    if places.is_empty() {
        let keys = ["threads", "waits", "launch", "input", "output"];
        only(&mut settings, &keys, "workers in VMs, workers = [\"vm2\", \"vm3\"]");
    }
    let record_work = settings.read("record_work", |value| form::time_above_zero("record_work", value));
    if record_work.is_some() {
        only(&mut settings, &["work"], "batches without `record_work`");
    }
    if record_work.is_some() && table.get("records").is_none() {
        let right = "use records = 100000 with it: how many a batch has";
        settings.wrong(
            Wrong::new("there is work for each record, and nobody says how many", "of how many?", right),
            "record_work",
        );
    }
    let batches = MicroBatch {
        interval: settings.time("interval", default.interval),
        batches: settings.times("batches", default.batches),
        workers,
        places,
        threads: settings.few("threads", 1, CPUS_MAX as u32, default.threads),
        waits: settings.read("waits", form::waits).unwrap_or(default.waits),
        launch: settings.length("launch", default.launch),
        input: settings.count("input", BYTES_MAX, default.input),
        output: settings.count("output", BYTES_MAX, default.output),
        records: settings.count("records", RECORDS_MAX, default.records),
        record_work,
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
        findings.add(problem.help("use { load_playback = { loads = [0.5, 1.5] } }, or the name of a file"));
        return None;
    };
    let loads = match value {
        DeValue::String(file) => {
            let name = resolved(findings.source().name(), file);
            match trace(&name, &*findings.files()) {
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
fn trace(shown: &str, files: &dyn Files) -> Result<Vec<u64>, Problem> {
    const RIGHT: &str = "use a text file with a load in each line, such as 1.5";
    let unreadable = |why: &str| Problem::new(format!("the loads in {shown} cannot be read: {why}")).help(RIGHT);
    let bytes = files.read(shown).map_err(|why| match why {
        Unreadable::Missing(_) | Unreadable::NotAFile => unreadable("there is no such file"),
        Unreadable::Denied(_) => unreadable("it is not ours to read"),
    })?;
    let source = input::text::decode(shown, bytes).map_err(|_| unreadable("it is no text, or too large"))?;
    let mut loads = Vec::new();
    for (number, line) in source.text().lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let load = number::milli(line).filter(|&load| load <= LoadPlayback::LOAD_MILLI_MAX).ok_or_else(|| {
            let most = LoadPlayback::LOAD_MILLI_MAX / 1000;
            Problem::new(format!("line {} of {shown} is no load", number + 1))
                .help(format!("use a number from 0 to {most} with at most three decimals, such as 1.5"))
        })?;
        loads.push(load);
    }
    if loads.is_empty() { Err(unreadable("there is none in it")) } else { Ok(loads) }
}
