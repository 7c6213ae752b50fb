//! Trials of `tactus-scx` on a kernel with sched_ext: every policy schedules the kernel under load, promises are kept, and
//! the kernel has its own scheduler again after every end of the program.
//!
//! `cargo xtask vm-test guest-scx` runs this program in a guest kernel, because a scheduler that fails disturbs the whole
//! machine for some time. All threads of the kernel change their scheduler.
//!
//! Exit code 0: all checks passed. Exit code 1: a check failed. Exit code 2: invalid input. Exit code 77: this kernel has no
//! sched_ext.

mod bmq;
mod canary;
mod comparison;
mod core;
mod core_storm;
mod frames;
mod gangs;
mod groups;
mod hotplug;
mod load;
mod lost;
mod masks;
mod messaging;
mod replays;
mod scheduler;
mod served;
mod stalls;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use fuzz::Dice;
use load::{Load, Probe, hogs};
use sched::Nanos;
use scheduler::{Scheduler, is_loaded, scheduler_ends_within};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use sys::attributes::{self, Attributes, Policy};
use sys::process::Process;
use sys::{clock, thread};

/// Maximum time from a kill or a stop of the user side until the kernel schedules by itself again.
const GIVEN_BACK: Nanos = Nanos::s(1);
/// Maximum time until the promises that do not fit are refused, while the program competes with hogs.
const REFUSED: Nanos = Nanos::s(20);
/// Number of rounds of the storm below which a trial is short.
const SHORT: u32 = 10;
/// Number of short-lived threads that exist at once.
const THREADS_AT_ONCE: u32 = 20;
/// Maximum time in which a thread that wakes every millisecond does not run after a stop of the user side: four beats of
/// the bridge, and a slice of each hog.
const PROGRESS: Nanos = Nanos::ms(200);

#[derive(Parser, Clone, Debug)]
#[command(about = "Tries tactus-scx on this kernel", version)]
struct Line {
    /// The command under test
    #[arg(long)]
    tactus_scx: PathBuf,
    /// The command `tactus`, for the check of a core; without it, this check is left out
    #[arg(long)]
    tactus: Option<PathBuf>,
    /// The program `micro-vm`, for the check of gangs, which needs /dev/kvm; without it, this check is left out
    #[arg(long)]
    micro_vm: Option<PathBuf>,
    /// Seconds for which each policy schedules the kernel; 0: none does
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Number of rounds in which the user side is killed or stopped
    #[arg(long, default_value_t = 50)]
    rounds: u32,
    /// Number of the first round, to skip the rounds before it
    #[arg(long, default_value_t = 1)]
    first: u32,
    /// Rounds of the comparison of schedulers, and of other checks that take minutes; 0: none
    #[arg(long, default_value_t = 0)]
    compare: u32,
    /// A scheduler of another project, for the comparison; may be repeated
    #[arg(long)]
    peer: Vec<PathBuf>,
    /// Run only the checks whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// Run the checks of faults, and no others
    #[arg(long)]
    faults: bool,
    /// Run the long measurements, too
    #[arg(long)]
    long: bool,
    /// Seed of the rounds
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

type Check = (&'static str, fn(&Line) -> Result<()>);

impl Line {
    /// Whether a short trial leaves this check out: it has one half of the checks that take most of the time, by its seed.
    pub(crate) fn leaves_out(&self, half: u64) -> bool {
        let is_short = self.rounds < SHORT && !self.long;
        let leaves_out = is_short && self.seed % 2 != half;
        if leaves_out {
            println!("  left out: a short trial with this seed has other checks");
        }
        leaves_out
    }
}

const CHECKS: &[Check] = &[
    ("every policy schedules the kernel beside messages and hogs", policies),
    ("a promise is kept beside hogs, and the hogs share the rest", promise),
    ("the kernel keeps promises of any length by itself", native),
    ("promises that threads share begin, change and end by orders", served::orders),
    ("the kernel dispatches the promises of a core, and its agents do after a kill", core::promises),
    ("a recording is replayed: the kernel decides as the policy", replays::agree),
    ("a promise that does not fit is refused, and the thread competes", refused),
    ("the vCPUs of a gang run together on busy CPUs", gangs::together),
    ("the vCPUs of a gang of a core are dispatched by the kernel", gangs::of_core),
    ("another scheduler is not displaced", taken),
    ("the port of bmq schedules the kernel", bmq::schedules),
    ("the port of bmq lets no thread wait for long enough that the kernel removes it", bmq::rescue),
    ("the port of bmq schedules the kernel with all its knobs", bmq::variants),
    ("the port of bmq is compared with EEVDF and FIFO, and the bridge with peers", comparison::compare),
    (
        "the frames that a player drops under the port of bmq are compared with those under EEVDF and FIFO",
        frames::compare,
    ),
    ("a thread runs only on the CPUs of its changing mask", masks::of_threads),
    ("short-lived threads come and go", short_lived),
    ("threads have the shares that the fair class gives them in control groups", groups::few),
    ("threads have these shares in more control groups", groups::many),
    ("control groups come and go", groups::come_and_go),
    ("the kernel schedules by itself after the user side is killed or stopped", storm),
];

/// Faults, which take minutes. Several need two CPUs.
const FAULTS: &[Check] = &[
    ("a user side that is stopped while it loads gives the kernel back", stopped_early),
    ("a thread runs only on the CPUs of its changing cpuset", masks::of_groups),
    ("a faulty scheduler is refused if it is loaded second", canary::second),
    ("a faulty scheduler that forgets a thread is removed", canary::forgets),
    ("a faulty scheduler that never kicks a CPU is removed, and agents keep a promise", canary::never_kicks),
    ("a faulty scheduler of a core is removed, and agents keep its promise", canary::of_core),
    ("lost events: the bridge dispatches, and the session begins again", lost::by_bridge),
    ("lost events: the port goes on", lost::by_port),
    ("a CPU goes and comes: the bridge keeps promises", hotplug::bridge),
    ("a CPU goes and comes: the port of edf keeps promises", hotplug::port),
    ("a CPU goes and comes: the port of bmq schedules", hotplug::bmq),
    ("a CPU goes and comes: the promises of a core go on", hotplug::core),
    ("the promises of a core go on after its tactus-scx is killed or stopped", core_storm::storm),
];

fn main() -> ExitCode {
    // A core has started this program as its `tactus-scx`.
    if std::env::args().nth(1).is_some_and(|option| option == "--serve") {
        return canary::serve();
    }
    if std::env::args().nth(1).is_some_and(|option| option == "--spin") {
        return core_storm::spin();
    }
    let line = Line::parse();
    if is_loaded().is_err() {
        println!("this kernel has no sched_ext");
        return ExitCode::from(77);
    }
    if let Err(error) = observe() {
        println!("cannot run in real time: {error}");
        return ExitCode::from(2);
    }
    let mut failed = Vec::new();
    for (name, check) in if line.faults { FAULTS } else { CHECKS }.iter().filter(|(name, _)| name.contains(&line.only))
    {
        let begin = clock::now();
        let outcome = check(&line);
        let took = clock::now().since(begin);
        match outcome {
            Ok(()) => println!("{name}: ok ({took})"),
            Err(error) => {
                let failure = format!("{name}: FAILED: {error:#}");
                println!("{failure}");
                failed.push(failure);
            }
        }
    }
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    // The outputs of other checks may separate a failure from the end, and a reader of a long log begins there.
    println!("{}", failed.join("; "));
    ExitCode::FAILURE
}

/// Makes this thread a real-time thread, which the schedulers under trial do not schedule. Its children are ordinary.
fn observe() -> sys::Result<()> {
    let me = thread::current();
    let real_time = Attributes { policy: Policy::Fifo { priority: 50 }, reset_on_fork: true, slice: None };
    attributes::apply(me, real_time)
}

fn policies(line: &Line) -> Result<()> {
    if line.seconds == 0 {
        println!("  left out, as requested");
    }
    // To load the bridge takes seconds, so a short trial has a third of the policies.
    let thirds = if line.seconds < 10 { 3 } else { 1 };
    for (at, policy) in policies::ALL.iter().enumerate().filter(|_| line.seconds > 0) {
        if at as u64 % thirds != line.seed % thirds {
            continue;
        }
        let scheduler = Scheduler::start(line, &["--policy", policy.name])?;
        let load = Load::start()?;
        clock::sleep(Nanos::s(line.seconds));
        let (messages, times) = load.end()?;
        let summary = scheduler.end().with_context(|| policy.name)?;
        println!("  {}: {messages} messages, hogs {times:?}, {summary}", policy.name);
        ensure!(messages > 0 && times.iter().all(|time| !time.is_zero()), "{}: a thread never ran", policy.name);
        ensure!(summary["fallbacks"] == 0, "{}: the user side was late", policy.name);
    }
    Ok(())
}

fn promise(line: &Line) -> Result<()> {
    let hogs = hogs(5)?;
    let promised = hogs[0].0.pid().to_string();
    let promise = format!("{promised}=2ms/10ms");
    let scheduler = Scheduler::start(line, &["--policy", "edf", "--pid", &promised, "--promise", &promise])?;
    let before = hogs.iter().map(|(_, meter)| meter.read()).collect::<sys::Result<Vec<_>>>()?;
    clock::sleep(Nanos::s(4));
    let after = hogs.iter().map(|(_, meter)| meter.read()).collect::<sys::Result<Vec<_>>>()?;
    let summary = scheduler.end()?;
    let ran: Vec<Nanos> =
        before.iter().zip(&after).map(|(before, after)| after.ran.saturating_sub(before.ran)).collect();
    let received = &summary["promises"][&promised];
    println!("  {received}, CPU times {ran:?}");
    let (judged, missed) = (received["judged"].as_u64(), received["missed"].as_u64());
    ensure!(judged.is_some_and(|judged| judged > 350), "too few periods: {received}");
    ensure!(missed.zip(judged).is_some_and(|(missed, judged)| missed * 50 <= judged), "missed periods: {received}");
    let others = &ran[1..];
    let (least, most) = (others.iter().min(), others.iter().max());
    ensure!(
        least.zip(most).is_some_and(|(least, most)| least.as_ns() * 10 >= most.as_ns() * 9),
        "the hogs have unequal shares: {ran:?}"
    );
    Ok(())
}

/// Promises by the port of `edf`. Their timers are those of the kernel, which an emulator with two busy virtual CPUs in one
/// thread serves late.
fn native(line: &Line) -> Result<()> {
    if sys::cpus::online()?.len() > 1 {
        println!("  left out: this machine has several CPUs");
        return Ok(());
    }
    if line.leaves_out(0) {
        return Ok(());
    }
    let hogs = hogs(5)?;
    let promised = hogs[0].0.pid().to_string();
    for times in ["9ms/10ms", "2ms/10ms", "500us/1ms", "100us/200us"] {
        let promise = format!("{promised}={times}");
        let native = ["--policy", "edf", "--native", "--promise", &promise];
        let bridge = ["--policy", "edf", "--pid", &promised, "--promise", &promise];
        // To load the bridge takes seconds.
        let compares = line.long || times == "2ms/10ms";
        for args in [&native[..], &bridge[..]].into_iter().take(if compares { 2 } else { 1 }) {
            let scheduler = Scheduler::start(line, args)?;
            clock::sleep(Nanos::ms(1_500));
            let summary = scheduler.end()?;
            let received = &summary["promises"][&promised];
            let (judged, missed) = (received["judged"].as_u64(), received["missed"].as_u64());
            println!(
                "  {times} by {}: {missed:?} of {judged:?} missed",
                if args == native { "the port" } else { "the bridge" }
            );
            ensure!(judged.is_some_and(|judged| judged > 100), "too few periods: {received}");
            ensure!(args != native || missed == Some(0), "the port missed periods: {received}");
        }
    }
    // A child lives for a minute.
    drop(hogs);
    let hogs = load::hogs(5)?;
    let promised = hogs[0].0.pid().to_string();
    let promise = format!("{promised}=1ms/10ms,hard");
    let scheduler = Scheduler::start(line, &["--policy", "edf", "--native", "--promise", &promise])?;
    let read = || hogs.iter().map(|(_, meter)| Ok(meter.read()?.ran.as_ns() / 1_000)).collect::<Result<Vec<u64>>>();
    let before = read()?;
    clock::sleep(Nanos::s(2));
    let after = read()?;
    scheduler.end()?;
    let ran: Vec<u64> = before.iter().zip(&after).map(|(before, after)| after - before).collect();
    println!("  with a hard promise of 1ms/10ms: CPU times {ran:?} us");
    // A kernel that has started a short time ago also tests itself.
    ensure!(ran[0] <= 210_000 && ran[1..].iter().all(|other| *other > 300_000), "the limit is not kept: {ran:?}");
    let hard = Scheduler::start(line, &["--policy", "cfs", "--native", "--promise", &format!("{promised}=1ms/10ms")]);
    let refused = hard.err().map(|error| error.to_string()).unwrap_or_default();
    ensure!(refused.contains("the policy cfs has no port"), "{refused}");
    Ok(())
}

fn refused(line: &Line) -> Result<()> {
    let hogs = hogs(3)?;
    let pids: Vec<String> = hogs.iter().map(|(hog, _)| hog.pid().to_string()).collect();
    let cpus = sys::cpus::online()?.len();
    let promises: Vec<String> = pids.iter().map(|pid| format!("{pid}=8ms/10ms")).collect();
    let mut args = vec!["--policy", "edf"];
    pids.iter().zip(&promises).for_each(|(pid, promise)| args.extend(["--pid", pid, "--promise", promise]));
    let mut scheduler = Scheduler::start(line, &args)?;
    // Each CPU has room for one of them.
    scheduler.wait_for_words("refused: thread", 3 - cpus, REFUSED)?;
    let before = hogs.iter().map(|(_, meter)| meter.read()).collect::<sys::Result<Vec<_>>>()?;
    clock::sleep(Nanos::ms(1_500));
    let after = hogs.iter().map(|(_, meter)| meter.read()).collect::<sys::Result<Vec<_>>>()?;
    let (_, errors) = scheduler.end_with_errors()?;
    ensure!(errors.matches("refused: thread").count() == 3 - cpus, "{errors}");
    let ran = |at: usize| after[at].ran.saturating_sub(before[at].ran);
    ensure!((0..3).all(|at| !ran(at).is_zero()), "a thread never ran");
    Ok(())
}

fn taken(line: &Line) -> Result<()> {
    let first = Scheduler::start(line, &["--policy", "eevdf"])?;
    let second = Command::new(&line.tactus_scx).args(["--policy", "cfs"]).output()?;
    let errors = String::from_utf8_lossy(&second.stderr).into_owned();
    ensure!(second.status.code() == Some(3) && errors.contains("the scheduler tactus_bridge is loaded"), "{errors}");
    ensure!(is_loaded()?, "the first scheduler has ended");
    first.end()?;
    Ok(())
}

fn short_lived(line: &Line) -> Result<()> {
    // On two emulated CPUs, all of them take some minutes.
    let has_time = line.long || (line.rounds >= SHORT && sys::cpus::online()?.len() == 1);
    let rounds = if has_time { 500 } else { 50 };
    let scheduler = Scheduler::start(line, &["--policy", "eevdf"])?;
    let hogs = hogs(1)?;
    come_and_go(rounds);
    drop(hogs);
    let summary = scheduler.end()?;
    println!("  {} threads: {summary}", rounds * THREADS_AT_ONCE);
    let least = u64::from(rounds * THREADS_AT_ONCE) * 4;
    ensure!(summary["events"].as_u64().is_some_and(|events| events >= least), "too few events: {summary}");
    Ok(())
}

fn come_and_go(rounds: u32) {
    for _ in 0..rounds {
        let threads: Vec<_> = (0..THREADS_AT_ONCE).map(|_| std::thread::spawn(|| {})).collect();
        threads.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
    }
}

/// The user side is stopped before its first batch: it waits for the kernel, which loads the bridge.
fn stopped_early(line: &Line) -> Result<()> {
    let _load = Load::start()?;
    let mut command = Command::new(&line.tactus_scx);
    let mut child =
        command.args(["--policy", "eevdf", "--json"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let end = clock::now().saturating_add(Nanos::s(30));
    let state = || fs::read_to_string("/sys/kernel/sched_ext/state").unwrap_or_default();
    while state().trim() == "disabled" && clock::now() < end {
        clock::sleep(Nanos::us(200));
    }
    let (process, found) = (Process::open(child.id())?, state());
    process.stop()?;
    while !is_loaded()? && clock::now() < end {
        clock::sleep(Nanos::ms(1));
    }
    let took = scheduler_ends_within(GIVEN_BACK);
    println!("  stopped while the kernel was {}; given back {took:?} after the end of the loading", found.trim());
    process.kill()?;
    child.wait()?;
    scheduler_ends_within(GIVEN_BACK).context("the scheduler is still loaded")?;
    took.context("a user side that is stopped before its first batch keeps the kernel").map(drop)
}

fn storm(line: &Line) -> Result<()> {
    for round in line.first..line.first + line.rounds {
        let mut dice = Dice::new(line.seed.wrapping_add(u64::from(round)));
        let policy = policies::ALL[dice.below(policies::ALL.len() as u64) as usize].name;
        let (is_kill, delay) = (dice.one_in(2), Nanos::us(dice.below(300_000)));
        let what = format!(
            "round {round} of seed {}: {policy}, {} after {delay}",
            line.seed,
            if is_kill { "kill" } else { "stop" }
        );
        let scheduler = Scheduler::start(line, &["--policy", policy])?;
        let (load, probe) = (Load::start()?, Probe::start());
        clock::sleep(delay);
        let process = scheduler.process()?;
        probe.begin();
        if is_kill {
            process.kill()?
        } else {
            process.stop()?
        };
        let took =
            scheduler_ends_within(GIVEN_BACK).with_context(|| format!("{what}: the scheduler is still loaded"))?;
        let (longest, _) = (probe.end(), load.end()?);
        println!("  {what}: given back after {took}, the longest pause was {longest}");
        ensure!(longest <= PROGRESS, "{what}: a thread did not run for {longest}");
    }
    Ok(())
}
