//! Recordings of the port of `edf` and `gang-edf`: the decisions of the kernel beside those of the Rust policy.

use crate::Line;
use crate::load::hogs;
use crate::scheduler::Scheduler;
use anyhow::{Context, Result, ensure};
use perf_event::events::Software;
use perf_event::{Builder, Counter};
use sched::Nanos;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use sys::child::{Child, Work};
use sys::clock;

/// Length of a recording, and of a long one.
const LENGTH: Nanos = Nanos::s(1);
const LENGTH_LONG: Nanos = Nanos::s(3);
/// Interval of the timer of each CPU while several CPUs record: see [`Ticks`].
const TICK: Nanos = Nanos::us(20);
/// Maximum time from the request of its end until `tactus-scx`, which competes with the other threads, has written a recording.
const WRITTEN: Nanos = Nanos::s(30);
/// Minimum number of choices of a recording.
const CHOICES_LEAST: u64 = 2_000;

/// The promises on each CPU: what the thread does, and its promise. A period of a few milliseconds that is no multiple of another
/// one lets their order change.
const PROMISES: [(Nanos, Nanos, &str); 6] = [
    (Nanos::ms(10), Nanos::ZERO, "2ms/10ms"),
    (Nanos::ms(10), Nanos::ZERO, "500us/3700us,hard"),
    (Nanos::us(300), Nanos::us(2_900), "700us/7ms"),
    (Nanos::us(900), Nanos::us(1_300), "400us/4300us,hard"),
    (Nanos::us(40), Nanos::us(700), "100us/1ms"),
    (Nanos::ms(3), Nanos::ms(6), "1ms/17ms"),
];
/// The promises of each gang, which has a thread for each CPU.
const GANGS: [(Nanos, Nanos, &str); 2] =
    [(Nanos::ms(10), Nanos::ZERO, "500us/6ms,hard"), (Nanos::us(1_700), Nanos::us(2_300), "300us/9ms")];

/// A timer of the kernel on each CPU, by perf events.
///
/// The virtual CPUs of an emulator whose time follows instructions take turns, from one timer to the next. Without other timers,
/// a turn is as long as the tick of the kernel, and the other CPU would carry out a kick milliseconds later.
struct Ticks(Vec<Counter>);

impl Ticks {
    fn start(cpus: usize) -> Result<Ticks> {
        let tick = |cpu| {
            let mut builder = Builder::new(Software::CPU_CLOCK);
            builder.sample_period(TICK.as_ns()).any_pid().one_cpu(cpu);
            builder.include_kernel().include_hv();
            let mut counter = builder.build().context("cannot start a timer of perf events")?;
            counter.enable()?;
            Ok(counter)
        };
        // One CPU has no turns.
        (0..cpus).filter(|_| cpus > 1).map(tick).collect::<Result<Vec<Counter>>>().map(Ticks)
    }
}

impl Drop for Ticks {
    fn drop(&mut self) {
        // They end with their files anyway.
        self.0.iter_mut().for_each(|counter| drop(counter.disable()));
    }
}

/// Threads with promises, and the options that give them to `tactus-scx`.
struct Promised {
    children: Vec<Child>,
    options: Vec<String>,
}

impl Promised {
    fn start(cpus: usize, has_gangs: bool) -> Result<Promised> {
        let mut promised = Promised { children: Vec::new(), options: Vec::new() };
        // The siblings of a gang need room on several CPUs, so they come first.
        for (busy, idle, promise) in GANGS.into_iter().filter(|_| has_gangs) {
            let members = (0..cpus).map(|_| promised.add(busy, idle, promise)).collect::<Result<Vec<String>>>()?;
            promised.options.extend(["--gang".to_string(), members.join(",")]);
        }
        for (busy, idle, promise) in std::iter::repeat_n(PROMISES, cpus).flatten() {
            promised.add(busy, idle, promise)?;
        }
        Ok(promised)
    }

    fn add(&mut self, busy: Nanos, idle: Nanos, promise: &str) -> Result<String> {
        let child = Child::start(Work::Spin { busy, idle })?;
        let tid = child.pid().to_string();
        self.options.extend(["--promise".to_string(), format!("{tid}={promise}")]);
        self.children.push(child);
        Ok(tid)
    }
}

/// The decisions of a whole recording are those of the policy, on one CPU without an exception.
pub(crate) fn agree(line: &Line) -> Result<()> {
    let cpus = sys::cpus::online()?.len();
    if cpus > 1 && !line.long {
        println!("  left out: --long runs it on several CPUs");
        return Ok(());
    }
    for round in 0..if line.long { line.rounds } else { 1 } {
        for policy in ["edf", "gang-edf"].into_iter().filter(|policy| cpus > 1 || *policy == "edf") {
            let comparison = recorded(line, policy, cpus).with_context(|| format!("round {round}, {policy}"))?;
            println!("  {policy} on {cpus} CPUs: {comparison}");
        }
    }
    Ok(())
}

/// Records for a time, and replays the recording. Returns the result.
fn recorded(line: &Line, policy: &str, cpus: usize) -> Result<Value> {
    let _hogs = hogs(cpus)?;
    let promised = Promised::start(cpus, policy == "gang-edf")?;
    std::fs::create_dir_all(std::env::temp_dir())?;
    let file = std::env::temp_dir().join(format!("{policy}.recording"));
    let path = file.to_str().context("the path is text")?;
    let mut args = vec!["--policy", policy, "--native", "--record", path];
    args.extend(promised.options.iter().map(String::as_str));
    let scheduler = Scheduler::start(line, &args)?;
    let ticks = Ticks::start(cpus)?;
    clock::sleep(if line.long { LENGTH_LONG } else { LENGTH });
    drop(ticks);
    let (summary, _) = scheduler.end_within(WRITTEN)?;
    ensure!(summary["records"].as_u64() > Some(0), "nothing was recorded: {summary}");
    // The recording of a failed comparison stays: it is what explains the failure.
    let comparison = replayed(line, &file).with_context(|| format!("the recording is kept in {}", file.display()))?;
    std::fs::remove_file(&file)?;
    Ok(comparison)
}

fn replayed(line: &Line, file: &Path) -> Result<Value> {
    let output = Command::new(&line.tactus_scx).arg("--replay").arg(file).arg("--json").output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut comparison: Value = serde_json::from_str(&text).with_context(|| format!("{text}{errors}"))?;
    let count = |name: &str| comparison[name].as_u64().with_context(|| format!("{name} lacks in {comparison}"));
    let (choices, differences) = (count("choices")?, count("differences")?);
    if !output.status.success() {
        let explained = Command::new(&line.tactus_scx).arg("--replay").arg(file).output()?;
        print!("{}", String::from_utf8_lossy(&explained.stdout));
    }
    ensure!(output.status.success() && count("unattributed")? == 0, "the kernel decides otherwise: {comparison}");
    ensure!(choices >= CHOICES_LEAST, "too few choices: {comparison}");
    ensure!(comparison["cpus"] != 1 || differences == 0, "on one CPU, nothing is to differ: {comparison}");
    comparison.as_object_mut().context("it is an object")?.remove("listed");
    Ok(comparison)
}
