//! Compares EDF with SimSo, job by job, on random task sets. Each job must complete at the same instant in both
//! simulators.
//!
//! `cargo xtask test` installs SimSo and runs this test. By hand: `TACTUS_SIMSO_PYTHON=python-with-simso cargo test -p
//! conformance --test simso`. No two tasks of a set have jobs with the same deadline, so the order among equal
//! deadlines is irrelevant.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use sched::{EntityId, Instant, Limit, Nanos, Params, Reservation};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};
use trace::{Event, Sink};

/// Length of each run, in microseconds.
const END_US: u64 = 600_000;

/// A periodic task; all times are in microseconds.
#[derive(Clone, Copy, Debug)]
struct Task {
    period: u64,
    work: u64,
    first: u64,
}

impl Task {
    /// Returns the deadlines of the jobs released before the end.
    fn deadlines(self) -> impl Iterator<Item = u64> {
        (self.first..END_US).step_by(usize::try_from(self.period).unwrap()).map(move |release| release + self.period)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Placement {
    Global,
    Partitioned,
}

impl Placement {
    fn word(self) -> &'static str {
        match self {
            Placement::Global => "global",
            Placement::Partitioned => "partitioned",
        }
    }
}

/// Completion of each job, by task and release. `None`: the job did not complete before the end of the run.
type Jobs = BTreeMap<(usize, u64), Option<u64>>;

/// Returns a random number in `low..high`.
fn between(random: &mut ChaCha8Rng, low: u64, high: u64) -> u64 {
    low + random.next_u64() % (high - low)
}

/// Returns tasks with a total load of `load` percent of `cpus` CPUs, except for rounding to whole microseconds. The
/// load of one task is limited to one CPU.
fn task_set(random: &mut ChaCha8Rng, cpus: u64, load: u64) -> Vec<Task> {
    let count = between(random, 2 * cpus + 1, 5 * cpus + 3);
    let shares: Vec<u64> = (0..count).map(|_| between(random, 20, 100)).collect();
    let sum: u64 = shares.iter().sum();
    let mut taken = BTreeSet::new();
    let mut tasks = Vec::new();
    for share in shares {
        let task = loop {
            let period = between(random, 5_000, 60_000);
            let work = (period * cpus * load * share / (sum * 100)).clamp(1, period);
            let task = Task { period, work, first: between(random, 0, period) };
            if task.deadlines().all(|deadline| !taken.contains(&deadline)) {
                break task;
            }
        };
        taken.extend(task.deadlines());
        tasks.push(task);
    }
    tasks
}

/// A sink that collects the releases and completions of jobs.
#[derive(Default)]
struct Collector {
    open: BTreeMap<EntityId, Vec<u64>>,
    jobs: BTreeMap<(EntityId, u64), Option<u64>>,
}

impl Sink for Collector {
    fn record(&mut self, at: Instant, event: &Event) {
        assert!(at.as_ns().is_multiple_of(1000), "whole microseconds in, whole microseconds out");
        let now = at.as_ns() / 1000;
        match *event {
            Event::Release { entity, .. } => {
                self.open.entry(entity).or_default().push(now);
                self.jobs.insert((entity, now), None);
            }
            Event::Complete { entity } => {
                let released = self.open.get_mut(&entity).expect("it was released").remove(0);
                self.jobs.insert((entity, released), Some(now));
            }
            _ => {}
        }
    }
}

fn ours(tasks: &[Task], cpus: usize, placement: Placement) -> Jobs {
    let edf = policies::find("edf").unwrap();
    let mut knobs = edf.defaults();
    knobs.set_word("enforce", "none").unwrap();
    knobs.set_word("placement", placement.word()).unwrap();
    knobs.set("reserve", 0).unwrap();
    let mut collector = Collector::default();
    let mut host = sim::Driver::new(edf, sched::Topology::new(cpus), &knobs, sim::Costs::NONE).unwrap();
    host.watch(&mut collector);
    let mut ids = BTreeMap::new();
    for index in attach_order(tasks, placement) {
        let task = tasks[index];
        let (period, work) = (Nanos::us(task.period), Nanos::us(task.work));
        let reservation = Some(Reservation::new(work, period));
        let jobs =
            sim::Periodic { phase: Nanos::us(task.first), end: sim::JobEnd::Yield, ..sim::Periodic::new(period, work) };
        let params = Params { reservation, ..Params::default() };
        ids.insert(host.attach(&index.to_string(), params, sim::Workload::Periodic(jobs)).unwrap(), index);
    }
    host.finish(Instant::ZERO + Nanos::us(END_US));
    drop(host);
    collector.jobs.into_iter().map(|((entity, release), done)| ((ids[&entity], release), done)).collect()
}

/// Returns the tasks in the order of attachment. The partitioned policy assigns each task to the first CPU on which it
/// fits. If tasks are attached in decreasing order of utilisation, the assignment equals SimSo's packing.
fn attach_order(tasks: &[Task], placement: Placement) -> Vec<usize> {
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    if placement == Placement::Partitioned {
        order.sort_by(|&a, &b| {
            (tasks[b].work * tasks[a].period).cmp(&(tasks[a].work * tasks[b].period)).then(a.cmp(&b))
        });
    }
    order
}

fn simso(python: &str, tasks: &[Task], cpus: usize, placement: Placement) -> Jobs {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle/simso_jobs.py");
    let mut child = Command::new(python)
        .args([script, placement.word(), &cpus.to_string(), &END_US.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("TACTUS_SIMSO_PYTHON is a Python");
    let mut stdin = child.stdin.take().unwrap();
    for (index, Task { period, work, first }) in tasks.iter().enumerate() {
        writeln!(stdin, "{index} {period} {work} {first}").unwrap();
    }
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "SimSo failed");
    let text = String::from_utf8(output.stdout).unwrap();
    let job = |line: &str| {
        let [task, release, done] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("not a job: {line}") };
        // Releases and completions at or after the end of the run are ignored.
        let done = done.parse().ok().filter(|&done: &u64| done < END_US);
        ((task.parse().unwrap(), release.parse().unwrap()), done)
    };
    text.lines().map(job).filter(|((_, release), _)| *release < END_US).collect()
}

fn compare(placement: Placement, loads: &[u64]) {
    let python = std::env::var("TACTUS_SIMSO_PYTHON").expect("TACTUS_SIMSO_PYTHON names a Python with simso 0.8.5");
    let (mut jobs, mut late) = (0, 0);
    for seed in 0..9 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let cpus = 1 + seed as usize % 4;
        let load = loads[seed as usize % loads.len()];
        let tasks = task_set(&mut random, cpus as u64, load);
        let theirs = simso(&python, &tasks, cpus, placement);
        let ours = ours(&tasks, cpus, placement);
        for (job @ (task, release), done) in &ours {
            let expected = theirs.get(job).unwrap_or_else(|| panic!("SimSo has no job of {task} from {release}"));
            assert_eq!(
                done, expected,
                "{placement:?}, seed {seed}, {cpus} CPUs, {load} %: task {task}, job of {release} µs\n{tasks:?}"
            );
            late += u64::from(done.is_some_and(|done| done > release + tasks[*task].period));
        }
        assert_eq!(ours.len(), theirs.len(), "{placement:?}, seed {seed}: as many jobs");
        jobs += ours.len();
    }
    println!("{}: {jobs} jobs, {late} of them late, all completed when SimSo completes them", placement.word());
    assert!(jobs > 1_000, "{jobs} jobs are too few to mean anything");
    assert_eq!(late > 0, loads.iter().any(|&load| load > 100), "only overload makes jobs late here: {late}");
}

#[test]
fn global_edf_completes_every_job_when_simso_does() {
    compare(Placement::Global, &[60, 85]);
}

#[test]
fn global_edf_under_overload_completes_every_job_when_simso_does() {
    compare(Placement::Global, &[104, 115]);
}

#[test]
fn partitioned_edf_completes_every_job_when_simso_does() {
    compare(Placement::Partitioned, &[60, 75]);
}
