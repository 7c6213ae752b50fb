//! A session of `tactus-scx`, from its options to its summary.

use crate::options::Options;
use input::knobs::{KnobSetting, apply_knobs};
use input::problem::{Problem, Problems};
use sched::{Descriptor, Instant, Kicks, Machine, Nanos, Reservation, Topology};
use scx::bridge::{Bridge, Mode, Refusal};
use scx::interface::Report;
use scx::kernel::{Error, Kernel};
use scx::promised::Received;
use serde::Serialize;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use sys::attributes::{self, Attributes, Policy};
use sys::clock;

/// Priority of the thread that decides. Ordinary threads must not delay it, because it schedules them.
const PRIORITY: u32 = 98;
/// Maximum interval of batches, which are signs of life.
const BEAT: Nanos = Nanos::ms(40);
/// Minimum time from a turn to a turn without an event. A turn at the end of a very short slice would come before the thread
/// has run at all, and the next turn would again.
const PAUSE_LEAST: Nanos = Nanos::us(20);

/// What a session has done.
#[derive(Debug, Default, Serialize)]
struct Summary {
    policy: String,
    length_ns: u64,
    /// Numbers of events, and of turns of the user side.
    events: u64,
    turns: u64,
    /// CPU time of the turns.
    cpu_ns: u64,
    /// Number of dispatches of chosen threads, and of those whose thread was not there.
    dispatched: u64,
    absent: u64,
    /// Number of times that the bridge dispatched by itself because the user side was late.
    fallbacks: u32,
    /// Maximum number of managed threads.
    threads: usize,
    /// What the threads with promises have received, by tid.
    promises: BTreeMap<i32, Received>,
}

/// Why a session has ended with an error.
enum Failure {
    Input(Problems),
    Kernel(Error),
    /// The kernel has removed the bridge.
    Ended(String),
    /// Events were lost.
    Lost(u64),
}

impl From<Problems> for Failure {
    fn from(problems: Problems) -> Failure {
        Failure::Input(problems)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Kernel(error)
    }
}

impl From<sys::Error> for Failure {
    fn from(error: sys::Error) -> Failure {
        Failure::Kernel(Error::System(error))
    }
}

/// Runs a session. Returns 0 after its end, 1 if the bridge ended or lost events, 2 for wrong options, and 3 if this host
/// does not allow it.
pub(crate) fn run(options: &Options) -> ExitCode {
    match session(options) {
        Ok(summary) => {
            print(options, &summary);
            ExitCode::SUCCESS
        }
        Err(Failure::Input(problems)) => {
            eprintln!("{:?}", problems.report());
            ExitCode::from(2)
        }
        Err(Failure::Kernel(error)) => {
            eprintln!("error: {error}");
            ExitCode::from(3)
        }
        Err(Failure::Ended(why)) => {
            eprintln!("error: the kernel has removed the scheduler: {why}\n  All threads are in the fair class again.");
            ExitCode::FAILURE
        }
        Err(Failure::Lost(events)) => {
            eprintln!(
                "error: {events} events were lost, because they came faster than the policy decides\n  All threads are in the fair class again."
            );
            ExitCode::FAILURE
        }
    }
}

fn session(options: &Options) -> Result<Summary, Failure> {
    let policy = policy(&options.policy)?;
    let settings = options.knob.iter().map(|text| text.parse()).collect::<Result<Vec<KnobSetting>, Problems>>()?;
    let knobs = apply_knobs(policy, &settings)?;
    let promises = options.promise.iter().map(|text| promise(text)).collect::<Result<BTreeMap<_, _>, Problems>>()?;
    if !options.pid.is_empty() && promises.is_empty() {
        let problem =
            Problem::new("the threads of the processes would have no promise, and the policy would decide nothing");
        return Err(Problems::from(problem.help("add --promise, or leave --pid out to schedule all threads")).into());
    }
    let length = options.length.as_deref().map(input::duration::length).transpose()?;
    let cpus = sys::cpus::online()?.iter().last().map_or(1, |cpu| cpu.index() + 1);
    let machine = Machine::build(policy, Topology::new(cpus), &knobs, Kicks::Immediate);
    let machine = machine.map_err(|refused| Problems::from(Problem::new(refused.to_string())))?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // Registration fails only for signals that cannot be caught.
        let _ = signal_hook::flag::register(signal, Arc::clone(&stop));
    }
    sys::memory::lock()?;
    attributes::prepare();
    let me = sys::thread::current();
    attributes::apply(me, Attributes { policy: Policy::Fifo { priority: PRIORITY }, ..attributes::get(me)? })?;
    let kernel = Kernel::load(&options.pid)?;
    eprintln!(
        "{} schedules {}; Ctrl-C ends it",
        policy.name,
        if options.pid.is_empty() { "all threads" } else { "the processes" }
    );
    let mode = if options.pid.is_empty() { Mode::All } else { Mode::Promised };
    let mut bridge = Bridge::new(machine, mode, promises);
    let (begin, used) = (clock::now(), clock::thread_time());
    let end = length.map_or(Instant::NEVER, |length| begin.saturating_add(length));
    let mut summary = Summary { policy: policy.name.to_string(), ..Summary::default() };
    serve(&kernel, &mut bridge, &stop, end, &mut summary)?;
    summary.length_ns = clock::now().since(begin).as_ns();
    summary.promises = bridge.received(clock::now());
    summary.cpu_ns = clock::thread_time().saturating_sub(used).as_ns();
    Ok(summary)
}

/// Passes events and decisions on until `end` or until `stop`.
fn serve(
    kernel: &Kernel,
    bridge: &mut Bridge,
    stop: &AtomicBool,
    end: Instant,
    summary: &mut Summary,
) -> Result<(), Failure> {
    let (mut events, mut beat) = (Vec::new(), Instant::ZERO);
    while !stop.load(Ordering::Relaxed) && clock::now() < end {
        kernel.read(&mut events)?;
        let now = clock::now();
        summary.events += events.len() as u64;
        events.drain(..).for_each(|event| bridge.apply(now, &event));
        let commands = bridge.settle(now);
        summary.turns += 1;
        if !commands.is_empty() || now >= beat {
            note(summary, kernel.apply(commands)?)?;
            if let Some(ending) = kernel.ending()? {
                return Err(Failure::Ended(ending.text()));
            }
            beat = now.saturating_add(BEAT);
        }
        summary.threads = summary.threads.max(bridge.threads());
        bridge.take_refusals().iter().for_each(complain);
        let done = clock::now();
        // As much time as the turn took remains for the threads.
        let earliest = done.saturating_add(done.since(now).max(PAUSE_LEAST));
        kernel.wait(bridge.next().max(earliest).min(beat).min(end))?;
    }
    Ok(())
}

fn note(summary: &mut Summary, report: Report) -> Result<(), Failure> {
    (summary.dispatched, summary.absent) = (report.dispatched, report.absent);
    summary.fallbacks = report.fallbacks;
    if report.lost > 0 { Err(Failure::Lost(report.lost)) } else { Ok(()) }
}

fn complain(refusal: &Refusal) {
    eprintln!("refused: thread {}: {}", refusal.tid, refusal.reason);
}

fn policy(name: &str) -> Result<&'static Descriptor, Problems> {
    policies::find(name).ok_or_else(|| {
        let names: Vec<&str> = policies::ALL.iter().map(|policy| policy.name).collect();
        let problem = Problem::new(format!("there is no policy {name}"));
        problem.help(format!("use one of {}", names.join(", "))).into()
    })
}

/// Reads `TID=SLICE/PERIOD`.
fn promise(text: &str) -> Result<(i32, Reservation), Problems> {
    let wrong = || Problem::new(format!("{text} is no promise")).help("use TID=SLICE/PERIOD, as in 1234=2ms/10ms");
    let (tid, times) = text.split_once('=').ok_or_else(wrong)?;
    let (slice, period) = times.split_once('/').ok_or_else(wrong)?;
    let tid = tid.trim().parse().ok().filter(|tid: &i32| *tid > 0).ok_or_else(wrong)?;
    Ok((tid, Reservation::new(input::duration::length(slice)?, input::duration::length(period)?)))
}

fn print(options: &Options, summary: &Summary) {
    if options.json {
        println!("{}", serde_json::to_string(summary).expect("it has only numbers and a name"));
        return;
    }
    let Summary { policy, events, turns, dispatched, absent, fallbacks, threads, .. } = summary;
    let (length, cpu) = (Nanos::ns(summary.length_ns), Nanos::ns(summary.cpu_ns));
    println!("{policy} for {length}: {threads} threads, {events} events, {turns} turns with {cpu} of CPU time");
    println!("{dispatched} dispatches, {absent} without the chosen thread, {fallbacks} fallbacks");
    for (tid, Received { judged, missed, due_ns, delivered_ns }) in &summary.promises {
        let (due, delivered) = (Nanos::ns(*due_ns), Nanos::ns(*delivered_ns));
        println!("thread {tid}: {delivered} of {due} delivered, {missed} of {judged} periods missed");
    }
}
