//! Traces in ftrace's text format. TRAPpy and LISA are two readers of kernel traces with separate parsers. For each
//! task of every machine, both must find the name, the number of runs, the number of wake-ups and the CPU time that
//! this test finds in the events.
//!
//! `cargo xtask test` installs both readers and runs this test. By hand: `TACTUS_TRAPPY_PYTHON=python-with-trappy cargo
//! test -p conformance --test ftrace`, or `TACTUS_LISA_PYTHON=python-with-lisa`, or both.

use run::{Observers, Run};
use scenario::Scenario;
use sched::{Action, EntityId, Input, Instant, Nanos};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use trace::{Event, FtraceWriter, Sink, WorldTrace};

/// The record of a task: number of runs, number of wake-ups, microseconds on CPUs, and the name, truncated to 15
/// characters as in the kernel.
type Did = (u64, u64, i64, String);

/// Returns the record of each task that ran, by process id, from the events of one machine.
fn counted(events: impl Iterator<Item = (Instant, Event)>) -> BTreeMap<u64, Did> {
    let mut did: BTreeMap<u64, Did> = BTreeMap::new();
    let mut pids: BTreeMap<EntityId, u64> = BTreeMap::new();
    let mut since: BTreeMap<EntityId, Instant> = BTreeMap::new();
    let mut end = Instant::ZERO;
    let us = |time: Nanos| i64::try_from(time.as_ns() / 1_000).unwrap();
    for (at, event) in events {
        end = at;
        match event {
            Event::Attach { entity, name, .. } => {
                let pid = did.len() as u64 + 1;
                pids.insert(entity, pid);
                did.insert(pid, (0, 0, 0, name.chars().take(15).collect()));
            }
            Event::Input(Input::Wake { entity, .. }) => did.get_mut(&pids[&entity]).unwrap().1 += 1,
            Event::Action(Action::Run { entity, .. }) => {
                did.get_mut(&pids[&entity]).unwrap().0 += 1;
                since.insert(entity, at);
            }
            Event::Action(Action::Stop { entity, .. }) => {
                did.get_mut(&pids[&entity]).unwrap().2 += us(at.since(since.remove(&entity).unwrap()));
            }
            _ => {}
        }
    }
    for (entity, from) in since {
        did.get_mut(&pids[&entity]).unwrap().2 += us(end.since(from));
    }
    did.retain(|_, (executions, ..)| *executions > 0);
    did
}

/// Returns the Python interpreter and the script of each reader that an environment variable names. Panics if there is
/// no reader.
fn readers() -> Vec<(String, &'static str)> {
    let known = [
        ("TACTUS_TRAPPY_PYTHON", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle/trappy_read.py")),
        ("TACTUS_LISA_PYTHON", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle/lisa_read.py")),
    ];
    let here: Vec<_> = known.iter().filter_map(|(name, script)| Some((std::env::var(name).ok()?, *script))).collect();
    assert!(
        !here.is_empty(),
        "TACTUS_TRAPPY_PYTHON or TACTUS_LISA_PYTHON names a Python with TRAPpy 6.0.1 or LISA 3.1.0"
    );
    here
}

/// Runs a reader on the trace in `path`, and returns the reader's records.
fn read((python, script): &(String, &str), path: &Path, length: Nanos) -> BTreeMap<u64, Did> {
    let mut command = Command::new(python);
    let output = command.arg(script).arg(path).arg((length.as_ns() as f64 / 1e9).to_string()).output();
    let output = output.expect("Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("it is text");
    let line = |line: &str| {
        let mut words = line.splitn(5, ' ');
        let mut number = || words.next().expect("five words").parse::<u64>().expect("a number");
        let (pid, executions, wakeups, us) = (number(), number(), number(), number());
        (pid, (executions, wakeups, us.try_into().unwrap(), words.next().expect("five words").to_string()))
    };
    text.lines().map(line).collect()
}

/// Runs the scenario in `file` under `policy` for `length`, and compares each machine's trace with the results of every
/// reader that can read the trace. Returns the number of runs of all tasks.
fn compare(file: &str, length: Nanos, policy: &str) -> u64 {
    let readers = readers();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(file);
    let bytes = std::fs::read(&path).expect("it is in the tree");
    let Ok(mut scenario) = Scenario::from_bytes(file, bytes) else { panic!("{} is right", path.display()) };
    scenario.length = length;
    let Ok(choices) = run::choose(&scenario, &[policy.to_string()], &[]) else { panic!("there is {policy}") };
    let run = Run { seed: 1, ..Run::new(scenario, choices[0].clone()) };
    let Ok(header) = run.header() else { panic!("its guests have policies") };
    let mut world = WorldTrace::new(header.clone());
    if run.play(Observers::none().world(&mut world)).is_err() {
        panic!("it runs");
    }
    let folder = std::env::temp_dir().join(format!("tactus-ftrace-{}-{policy}-{file}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("there is room");
    let mut executions = 0;
    for id in header.ids() {
        let machine = header.machine(id).expect("it is there");
        let mut writer = FtraceWriter::new(Vec::new(), &machine.header);
        let events = world.events.iter().filter(|(of, ..)| *of == id).map(|(_, at, event)| (*at, event.clone()));
        events.clone().for_each(|(at, event)| writer.record(at, &event));
        let path = folder.join(format!("{}.txt", machine.name));
        std::fs::write(&path, writer.finish().expect("memory takes everything")).expect("there is room");
        let ours = counted(events);
        // LISA cannot read a trace of a task with a deadline: its pattern for a priority has no sign, but the kernel
        // writes −1 for such a task.
        let text = std::fs::read_to_string(&path).expect("it was written");
        let reads = |reader: &&(String, &str)| !(reader.1.ends_with("lisa_read.py") && text.contains("prio=-1"));
        for reader in readers.iter().filter(reads) {
            agree(&machine.name, &ours, &read(reader, &path, length));
        }
        executions += ours.values().map(|(count, ..)| count).sum::<u64>();
    }
    std::fs::remove_dir_all(&folder).expect("it is ours");
    executions
}

/// Asserts that both sets of records of `machine` are equal, except for the rounding of times.
fn agree(machine: &str, ours: &BTreeMap<u64, Did>, theirs: &BTreeMap<u64, Did>) {
    assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>(), "{machine}");
    for (pid, (count, wakeups, us, name)) in ours {
        let (their_count, their_wakeups, their_us, their_name) = &theirs[pid];
        assert_eq!((count, wakeups, name), (their_count, their_wakeups, their_name), "{machine} {pid}");
        // The trace rounds the start and the end of each run to microseconds.
        let off = (us - their_us).unsigned_abs();
        assert!(off <= 2 * count, "{name} ran {us} us, the reader says {their_us}");
    }
}

#[test]
fn a_reader_of_kernel_traces_finds_how_often_and_how_long_each_task_ran_on_host_and_guests() {
    for (policy, least) in [("cfs", 1_000), ("credit", 1_000)] {
        let executions = compare("two-levels.toml", Nanos::s(3), policy);
        assert!(executions > least, "{executions} executions");
    }
}

#[test]
fn tasks_that_move_between_cpus_or_change_places_are_followed_by_a_reader_of_kernel_traces() {
    let parallel = ["edf", "muqss", "cosched-strict"].map(|policy| ("parallel.toml", policy));
    for (file, policy) in parallel.into_iter().chain([("weights.toml", "cfs"), ("weights.toml", "muqss")]) {
        let executions = compare(file, Nanos::s(1), policy);
        assert!(executions > 50, "{executions} executions");
    }
}
