//! A session of `tactus-scx`, from its options to its summary.

use crate::options::Options;
use input::knobs::{KnobSetting, apply_knobs};
use input::problem::{Problem, Problems};
use orders::PERIOD_MAX;
use sched::{Descriptor, Instant, Kicks, Limit, Machine, Nanos, Params, Reservation, Topology};
use scx::Error;
use scx::bridge::{Bridge, Mode, Refusal};
use scx::interface::{Kind, Report};
use scx::kernel::Kernel;
use scx::native::{KNOBS, Member, NativeEdf, Promise, Reported};
use scx::promised::{Receipts, Received};
use serde::Serialize;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use sys::attributes::{self, Attributes, Policy};
use sys::clock;

/// Priority of the thread that decides. Ordinary threads must not delay it, because it schedules them.
pub(crate) const PRIORITY: u32 = 98;
/// Maximum interval of batches, which are signs of life.
const BEAT: Nanos = Nanos::ms(30);
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
    let policy = policy(options.policy.as_deref().unwrap_or_default())?;
    let mut promises = BTreeMap::new();
    for text in &options.promise {
        let (tid, reservation) = promise(text)?;
        if promises.insert(tid, reservation).is_some() {
            return Err(
                Problems::from(Problem::new(format!("thread {tid} has two promises")).help("leave one out")).into()
            );
        }
    }
    for &id in promises.keys().map(|tid| tid.unsigned_abs()).collect::<Vec<_>>().iter().chain(&options.pid) {
        if sys::thread::status(id).is_err() {
            let problem = Problem::new(format!("there is no thread or process {id}"));
            return Err(Problems::from(problem.help("use the numbers of `ps -eLo pid,tid,comm`")).into());
        }
    }
    let length = options.length.as_deref().map(input::duration::length).transpose()?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // Registration fails only for signals that cannot be caught.
        let _ = signal_hook::flag::register(signal, Arc::clone(&stop));
    }
    let run = Run { policy, promises, length, stop };
    if options.native { in_kernel(&run) } else { in_user_space(options, run) }
}

/// A run of a policy, from its options.
struct Run {
    policy: &'static Descriptor,
    promises: BTreeMap<i32, Reservation>,
    length: Option<Nanos>,
    stop: Arc<AtomicBool>,
}

impl Run {
    fn machine(&self, settings: &[KnobSetting]) -> Result<Machine, Problems> {
        let knobs = apply_knobs(self.policy, settings)?;
        let cpus = sys::cpus::online().map_err(|error| Problem::new(error.to_string()))?;
        let cpus = cpus.iter().last().map_or(1, |cpu| cpu.index() + 1);
        let machine = Machine::build(self.policy, Topology::new(cpus), &knobs, Kicks::Immediate);
        Ok(machine.map_err(|refused| Problem::new(refused.to_string()))?)
    }

    /// Returns the end of a run that begins now.
    fn end(&self) -> Instant {
        self.length.map_or(Instant::NEVER, |length| clock::now().saturating_add(length))
    }

    fn is_over(&self, end: Instant) -> bool {
        self.stop.load(Ordering::Relaxed) || clock::now() >= end
    }

    fn summary(&self) -> Summary {
        Summary { policy: self.policy.name.to_string(), ..Summary::default() }
    }
}

/// Runs a policy in this process, which decides for the bridge in the kernel.
fn in_user_space(options: &Options, run: Run) -> Result<Summary, Failure> {
    if !options.pid.is_empty() && run.promises.is_empty() {
        let problem =
            Problem::new("the threads of the processes would have no promise, and the policy would decide nothing");
        return Err(Problems::from(problem.help("add --promise, or leave --pid out to schedule all threads")).into());
    }
    let settings = options.knob.iter().map(|text| text.parse()).collect::<Result<Vec<KnobSetting>, Problems>>()?;
    let machine = run.machine(&settings)?;
    sys::memory::lock()?;
    attributes::prepare();
    let me = sys::thread::current();
    attributes::apply(me, Attributes { policy: Policy::Fifo { priority: PRIORITY }, ..attributes::get(me)? })?;
    let kernel = Kernel::load(&options.pid)?;
    let (mode, what) = match options.pid.is_empty() {
        true => (Mode::All, "all threads"),
        false => (Mode::Promised, "the processes"),
    };
    eprintln!("{} schedules {what}; Ctrl-C ends it", run.policy.name);
    let mut bridge = Bridge::new(machine, mode, sys::cpus::online()?, run.promises.clone());
    let (begin, used, mut summary) = (clock::now(), clock::thread_time(), run.summary());
    serve(&kernel, &mut bridge, &run, &mut summary)?;
    summary.length_ns = clock::now().since(begin).as_ns();
    summary.promises = bridge.received(clock::now());
    summary.cpu_ns = clock::thread_time().saturating_sub(used).as_ns();
    Ok(summary)
}

/// Keeps promises by the port of `edf`. This process admits them, and observes what the threads receive.
fn in_kernel(run: &Run) -> Result<Summary, Failure> {
    if run.policy.name != "edf" {
        let problem = Problem::new(format!("the policy {} has no port to BPF", run.policy.name));
        return Err(Problems::from(problem.help("use --policy edf, or leave --native out")).into());
    }
    let promises = admitted(run)?;
    let kernel = NativeEdf::load(Reported::Threads)?;
    for promise in &promises {
        kernel.begin(promise)?;
        kernel.join(&Member { tid: promise.number, promise: promise.number, is_helper: false })?;
    }
    eprintln!("edf in the kernel keeps {} promises; Ctrl-C ends it", promises.len());
    let (begin, used, mut summary) = (clock::now(), clock::thread_time(), run.summary());
    let (end, mut events, mut receipts) = (run.end(), Vec::new(), Receipts::default());
    loop {
        let (now, is_over) = (clock::now(), run.is_over(end));
        kernel.read(&mut events)?;
        summary.events += events.len() as u64;
        summary.turns += 1;
        for event in events.drain(..) {
            if let (Kind::Wake { .. }, Some(reservation)) = (event.kind, run.promises.get(&event.tid)) {
                receipts.begin(event.tid, from_first_whole_period(*reservation, event.at, begin), event.at);
            }
            receipts.note(&event);
        }
        if let Some(ending) = kernel.ending()? {
            return Err(Failure::Ended(ending.text()));
        }
        if is_over {
            summary.promises = receipts.received(now);
            break;
        }
        clock::sleep_until(now.saturating_add(BEAT).min(end));
    }
    summary.length_ns = clock::now().since(begin).as_ns();
    summary.threads = promises.len();
    summary.cpu_ns = clock::thread_time().saturating_sub(used).as_ns();
    Ok(summary)
}

/// Returns a reservation whose first period began at `first`, from the first period on that begins after `loaded`. While the
/// scheduler is loaded, the kernel schedules without it.
fn from_first_whole_period(reservation: Reservation, first: Instant, loaded: Instant) -> Reservation {
    let passed = loaded.saturating_since(first).as_ns().div_ceil(reservation.period.as_ns());
    let start = Some(first.saturating_add(reservation.period.saturating_mul(passed)));
    Reservation { start, ..reservation }
}

/// Returns the promises with their CPUs, if the policy admits all of them. The number of a promise is the tid of its thread.
fn admitted(run: &Run) -> Result<Vec<Promise>, Failure> {
    let knobs = KNOBS.iter().map(|(name, value)| format!("{name}={value}").parse());
    let mut machine = run.machine(&knobs.collect::<Result<Vec<KnobSetting>, Problems>>()?)?;
    let mut promises = Vec::new();
    for (&tid, &reservation) in &run.promises {
        if reservation.period > PERIOD_MAX {
            let problem = Problem::new(format!("the period {} of thread {tid} is too long", reservation.period));
            let most = format!("use a period of at most {}, or leave --native out", PERIOD_MAX);
            return Err(Problems::from(problem.help(most)).into());
        }
        let affinity = sys::affinity::get(tid.unsigned_abs())?;
        let params = Params { reservation: Some(reservation), affinity, ..Params::default() };
        let entity = machine.attach(Instant::ZERO, params).map_err(|refused| {
            Problems::from(Problem::new(format!("the promise to thread {tid} does not fit: {refused}")))
        })?;
        let cpu = machine.allowed(entity).first().unwrap_or_default();
        promises.push(Promise { number: tid, reservation, cpu });
    }
    Ok(promises)
}

/// Passes events and decisions on until the end of the run.
fn serve(kernel: &Kernel, bridge: &mut Bridge, run: &Run, summary: &mut Summary) -> Result<(), Failure> {
    let (end, mut events, mut beat) = (run.end(), Vec::new(), Instant::ZERO);
    while !run.is_over(end) {
        kernel.read(&mut events)?;
        let now = clock::now();
        summary.events += events.len() as u64;
        bridge.apply(now, &events);
        events.clear();
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

/// Reads `TID=SLICE/PERIOD`, with `,hard` for a limit.
fn promise(text: &str) -> Result<(i32, Reservation), Problems> {
    let wrong = || Problem::new(format!("{text} is no promise")).help("use TID=SLICE/PERIOD, as in 1234=2ms/10ms");
    let (tid, times) = text.split_once('=').ok_or_else(wrong)?;
    let (times, limit) = match times.strip_suffix(",hard") {
        Some(times) => (times, Limit::Hard),
        None => (times, Limit::Soft),
    };
    let (slice, period) = times.split_once('/').ok_or_else(wrong)?;
    let tid = tid.trim().parse().ok().filter(|tid: &i32| *tid > 0).ok_or_else(wrong)?;
    let time = |what: &'static str, text: &str| {
        input::duration::parse(what, text).map_err(|it| Problems::from(it.anywhere(None)))
    };
    let (slice, period) = (time("slice", slice)?, time("period", period)?);
    Ok((tid, Reservation { limit, ..Reservation::new(slice, period) }))
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
