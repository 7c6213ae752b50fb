//! Recordings of the port, as the kernel makes them, replayed through the Rust policy. The recording of a broken port differs.

use crate::decisions::drive;
use crate::program::{Program, SEED, only_seed, seeds};
use crate::rivals;
use port::{EDF, GANG_EDF, Port};
use sched::Nanos;
use scx::recording::{Header, Record, Recording, What};
use scx::replay::{Comparison, replay};

/// Number of seeds, and of steps of each.
const SEEDS: u64 = 12;
const STEPS: u32 = 400;
/// Interval of the records of a CPU that goes on.
const BEAT: Nanos = Nanos::us(100);
/// Maximum number of seeds until the replay finds a broken port.
const SEEDS_MOST: u64 = 20;

fn replayed(program: &Program, port: &'static Port, seed: u64) -> Comparison {
    let cpus = drive(program, port, seed, STEPS);
    replay(&Recording::new(Header::new(port.name, cpus), with_beats(program.records(), cpus))).unwrap()
}

/// Adds the regular records of CPUs that go on. A simulated host never pauses.
fn with_beats(mut records: Vec<Record>, cpus: usize) -> Vec<Record> {
    let (Some(first), Some(last)) = (records.first().copied(), records.last().copied()) else { return records };
    for cpu in 0..cpus {
        let clocks = (first.at_ns..last.at_ns).step_by(BEAT.as_ns() as usize);
        let beat = |at_ns| Record { at_ns, took_ns: 0, cpu, promise: 0, what: What::Beat, ..first };
        records.extend(clocks.map(beat));
    }
    records
}

/// Returns the first difference with the records before it, for the message of a failure.
fn around(program: &Program, comparison: &Comparison) -> String {
    let first = comparison.listed.first().expect("there is one");
    let mut records = program.records();
    records.retain(|record| (first.number.saturating_sub(15)..=first.number).contains(&record.number));
    let lines = records.iter().map(|record| format!("\n{record:?}"));
    format!("{first:?}{}", lines.collect::<String>())
}

fn agree(port: &'static Port) {
    let Some(program) = Program::recording(None) else { return };
    let (mut choices, mut differences) = (0, 0);
    for seed in only_seed().map_or(0..seeds(SEEDS), |seed| seed..seed + 1) {
        let comparison = replayed(&program, port, seed);
        choices += comparison.choices;
        differences += comparison.differences;
        let count = if comparison.cpus == 1 { comparison.differences } else { comparison.unattributed };
        assert_eq!(count, 0, "{SEED}={seed}, {}: {}", port.name, around(&program, &comparison));
    }
    println!("{}: {differences} of {choices} choices differ", port.name);
    assert!(only_seed().is_some() || choices > 1_000, "{choices} choices say little");
    assert!(only_seed().is_some() || differences * 100 <= choices, "{differences} of {choices} choices differ");
}

#[test]
fn a_recording_of_edf_is_that_of_the_policy() {
    agree(&EDF);
}

#[test]
fn a_recording_of_gang_edf_is_that_of_the_policy() {
    agree(&GANG_EDF);
}

#[test]
fn the_recording_of_a_broken_port_differs() {
    for (name, port) in [
        ("the latest deadline first", &EDF),
        ("a promised thread that wakes does not preempt", &EDF),
        ("slices do not end", &EDF),
        ("a yield keeps the slice", &EDF),
        ("a new nice value begins a new period", &EDF),
        ("the timer begins no period", &EDF),
        ("a period begins 4 ms late", &EDF),
        ("the periods of a gang follow wake-ups", &GANG_EDF),
        ("a sibling that wakes late has its whole slice", &GANG_EDF),
        ("a later sibling has a phase of its own", &GANG_EDF),
    ] {
        let Some(program) = Program::recording(Some(rivals::named(name))) else { return };
        let unattributed = |seed| replayed(&program, port, seed).unattributed;
        let found = (0..SEEDS_MOST).find_map(|seed| Some(unattributed(seed)).filter(|number| *number > 0));
        println!("{name}: {} differences", found.unwrap_or_else(|| panic!("{name}: the replay finds nothing")));
    }
}
