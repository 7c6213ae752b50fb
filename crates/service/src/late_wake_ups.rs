//! [`explain`]: why tasks in a guest ran late. The agent in the guest reports the late wake-ups of interactive tasks, and the trace of the
//! host's scheduler tells what the threads of the VM did meanwhile.
//!
//! ```text
//! port of the VM ──▶ listening ──▶ late wake-ups, on the guest's clock ──▶ offset ──┐
//! trace of the host's scheduler ──▶ host_history ──────────────────────────────────┴▶ parts of each latency
//! ```

mod host_history;
mod listening;
mod parts;

use crate::hint_port::{HintPort, ObservedVm};
use crate::observation::longest;
use crate::thread_names::ThreadNames;
use api::Instead;
use coordination::wire::{FromGuest, Source};
use coordination::{ClockOffset, Coordination, Protocol, WakeUp};
use daemon::boosts::{AgentPort, VmThreads};
use host_history::HostHistory;
use listening::{Heard, Source as Agent, listen};
use parts::{CLOCKS_MOST, LATENCY_MOST, OnHost, Parts, Tids, split};
use sched::{CpuId, Instant, Nanos};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};
use sys::attributes::{self, Attributes};
use sys::event::Bell;
use sys::scheduler_trace::{Record, SchedulerTrace};
use sys::{Error, clock, cpus, thread};

/// Real-time priority of the thread that reads the trace, below that of the thread that reads the port.
const PRIORITY: u32 = 9;
/// Interval between two readings of the trace, and the least multiple of the time of a reading until the next one: the thread takes at most a
/// fifth of a CPU.
const READING: Nanos = Nanos::ms(10);
const IDLE: u64 = 4;
/// Interval between looks for an interrupt and for the end.
const LOOK: Nanos = Nanos::ms(50);
/// Time after which the records of all CPUs up to an instant are there.
const SETTLED: Nanos = Nanos::ms(30);
/// Maximum number of turns after the end.
const LAST_TURNS: usize = 10;
/// Time for which records are kept.
const KEPT: Nanos = Nanos::ns(LATENCY_MOST.as_ns() + 2 * Nanos::s(1).as_ns());
/// Interval in which the steal time is measured, of which the kernel counts hundredths of a second.
const STEAL: Nanos = Nanos::s(1);
/// Maximum number of messages that wait for the thread that reads the trace.
const HEARD_MOST: usize = 4_096;
/// Maximum number of wake-ups that are listed. Later ones count in the sums only.
const LISTED_MOST: usize = 10_000;
/// Limits of the unattributed part of a wake-up that counts as attributed: parts of a hundred of its latency, or a time.
const ATTRIBUTED_PERCENT: u64 = 5;
const ATTRIBUTED: Nanos = Nanos::us(100);

/// What the latency of wake-ups consists of. The parts sum up to the latency. Unit of each: ns.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct LatencyParts {
    /// The vCPU waited for a CPU of the host.
    pub vcpu_wait_ns: u64,
    /// A thread on the way of the interrupt, the main loop or one of vhost, waited for a CPU of the host.
    pub carrier_wait_ns: u64,
    /// The interrupt was on its way, or the vCPU in an exit.
    pub path_ns: u64,
    /// The vCPU ran, and the task waited for it behind other tasks of the guest.
    pub guest_queue_ns: u64,
    /// A hypervisor below the host took the CPU while the vCPU ran: the mean of busy CPUs in the second before, and zero in the first one.
    pub steal_ns: u64,
    /// The records do not tell, or they contradict each other.
    pub unattributed_ns: u64,
}

impl From<Parts> for LatencyParts {
    fn from(parts: Parts) -> LatencyParts {
        LatencyParts {
            vcpu_wait_ns: parts.vcpu.as_ns(),
            carrier_wait_ns: parts.carrier.as_ns(),
            path_ns: parts.path.as_ns(),
            guest_queue_ns: parts.guest.as_ns(),
            steal_ns: parts.steal.as_ns(),
            unattributed_ns: parts.unattributed.as_ns(),
        }
    }
}

/// A late wake-up of a task in a guest.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LateWakeUp {
    /// Time from the begin of the observation to the instant at which the task should have run.
    pub due_ns: u64,
    /// vCPU on which the task ran, from 0.
    pub vcpu: u16,
    /// Tid of the task in the guest.
    pub tid: u32,
    /// Name of the task. The guest chooses it.
    pub task: String,
    /// What woke the task; absent: another task, or an unknown interrupt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<&'static str>,
    /// Time from the instant at which the task should have run until it ran.
    pub latency_ns: u64,
    /// What the latency consists of.
    pub parts: LatencyParts,
    /// The threads of the host that ran while the vCPU or a thread on the way of the interrupt waited, the longest first.
    pub instead: Vec<Instead>,
}

/// The late wake-ups of a guest's interactive tasks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LateWakeUps {
    /// Name of the VM.
    pub vm: String,
    /// Length of the observation.
    pub length_ns: u64,
    /// Least latency of a late wake-up.
    pub least_ns: u64,
    /// Number of hints and wake-ups that the agent has reported. Zero: the VM has no agent.
    pub messages: u64,
    /// Number of late wake-ups.
    pub count: u64,
    /// Number of late wake-ups of which at most 5 % or 100 us are unattributed.
    pub attributed: u64,
    /// Sum of the parts of all late wake-ups.
    pub parts: LatencyParts,
    /// The threads of the host that ran while the VM waited, in all late wake-ups, the longest first.
    pub instead: Vec<Instead>,
    /// The first 10,000 late wake-ups, in the order in which they were explained.
    pub wake_ups: Vec<LateWakeUp>,
    /// Number of records of the host's trace that were lost.
    pub lost: u64,
    /// Whether the VM, or the process that has its port, has closed it before the end.
    pub closed: bool,
}

/// How wake-ups are explained.
#[expect(missing_debug_implementations, reason = "a function has nothing to show")]
#[derive(Clone, Copy)]
pub struct Question<'q> {
    /// Least latency of a late wake-up.
    pub least: Nanos,
    /// Length of the observation.
    pub length: Nanos,
    /// Ends the observation when it rings.
    pub end: &'q Bell,
    /// Receives the number of messages of the agent and of late wake-ups so far, from time to time.
    pub progress: &'q dyn Fn(u64, u64),
}

/// Observes the VM of `port`, and splits the latency of each late wake-up that its agent reports.
///
/// # Errors
/// The host permits no trace of its scheduler, or this process may not use real-time priorities.
pub fn explain(port: &HintPort, question: Question<'_>) -> sys::Result<LateWakeUps> {
    let copied = port.stream.try_clone();
    let socket = copied.map_err(|source| Error::Call { what: "use a port twice".to_string(), source })?;
    let with = Coordination { budget: Nanos::ZERO, ..Coordination::new(Protocol::S0) };
    let mut agent = AgentPort::new(socket, port.threads.vcpus.len(), with)?;
    agent.watch(Some(question.least));
    explain_by(Agent::Port(agent), &port.name, &port.threads, question)
}

/// Does the same for a VM to which another process has attached a port. Its agent has been asked for wake-ups of this least latency.
///
/// # Errors
/// As for [`explain`].
pub fn explain_observed(vm: ObservedVm, question: Question<'_>) -> sys::Result<LateWakeUps> {
    explain_by(Agent::Process(vm.observed), &vm.name, &vm.threads, question)
}

fn explain_by(agent: Agent, name: &str, threads: &VmThreads, question: Question<'_>) -> sys::Result<LateWakeUps> {
    let tids = |all: &[thread::Identity]| all.iter().map(|identity| identity.tid).collect();
    let tids = Tids { vcpus: tids(&threads.vcpus), carriers: tids(&threads.carriers) };
    let (bell, is_over) = (&Bell::new()?, &AtomicBool::new(false));
    let (messages, count) = (&AtomicU64::new(0), &AtomicU64::new(0));
    let least = question.least;
    let (sender, receiver) = sync_channel(HEARD_MOST);
    let begin = clock::now();
    let end = begin.saturating_add(question.length);
    std::thread::scope(|scope| {
        // If a thread does not start, the other one ends.
        let stopping = Stopping { bell, is_over };
        let listening = named(scope, "tactus-hints", move || listen(agent, bell, &sender))?;
        let explaining = named(scope, "tactus-why", move || {
            // On a busy host, records would be lost otherwise.
            attributes::set(thread::current(), Attributes::raised(PRIORITY))?;
            let mut explaining = Explaining::begin(tids, least)?;
            while !is_over.load(Ordering::Relaxed) {
                let turn = clock::now();
                explaining.turn(&receiver);
                messages.store(explaining.messages, Ordering::Relaxed);
                count.store(explaining.count, Ordering::Relaxed);
                clock::sleep(clock::now().since(turn).saturating_mul(IDLE).max(READING));
            }
            // The last wake-ups wait for their records.
            for _ in 0..LAST_TURNS {
                clock::sleep(SETTLED);
                explaining.turn(&receiver);
                if explaining.waiting.is_empty() {
                    break;
                }
            }
            Ok(explaining)
        })?;
        while clock::now() < end && question.end.rings() == 0 && !listening.is_finished() && !explaining.is_finished() {
            clock::sleep(LOOK);
            (question.progress)(messages.load(Ordering::Relaxed), count.load(Ordering::Relaxed));
        }
        let (length, closed) = (clock::now().since(begin), listening.is_finished());
        drop(stopping);
        joined(listening)?;
        Ok(joined(explaining)?.found(name.to_string(), length, closed))
    })
}

/// Ends the threads of an observation when it is dropped: one waits for the bell, and the other looks at the flag.
struct Stopping<'s> {
    bell: &'s Bell,
    is_over: &'s AtomicBool,
}

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.bell.ring();
    }
}

/// Checks that [`explain`] can trace this host.
///
/// # Errors
/// The host permits no trace of its scheduler.
pub fn check() -> sys::Result<()> {
    let first: Vec<CpuId> = cpus::online()?.iter().take(1).collect();
    SchedulerTrace::of_switches(&first, &[]).map(drop)
}

/// Starts a thread with this name.
fn named<'s, T: Send + 's>(
    scope: &'s Scope<'s, '_>,
    name: &str,
    work: impl FnOnce() -> sys::Result<T> + Send + 's,
) -> sys::Result<ScopedJoinHandle<'s, sys::Result<T>>> {
    let started = std::thread::Builder::new().name(name.to_string()).spawn_scoped(scope, work);
    started.map_err(|source| Error::Call { what: "start a thread".to_string(), source })
}

fn joined<T>(started: ScopedJoinHandle<'_, T>) -> T {
    started.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The state of an observation.
struct Explaining {
    begin: Instant,
    least: Nanos,
    tids: Tids,
    trace: SchedulerTrace,
    records: Vec<Record>,
    history: HostHistory,
    offset: ClockOffset,
    /// Wake-ups whose records may not be complete yet.
    waiting: VecDeque<(WakeUp, OnHost)>,
    steal: Steal,
    names: ThreadNames,
    messages: u64,
    count: u64,
    attributed: u64,
    parts: Parts,
    instead: BTreeMap<u32, Nanos>,
    wake_ups: Vec<LateWakeUp>,
}

impl Explaining {
    fn begin(tids: Tids, least: Nanos) -> sys::Result<Explaining> {
        let online: Vec<CpuId> = cpus::online()?.iter().collect();
        let all: Vec<u32> = tids.vcpus.iter().chain(&tids.carriers).copied().collect();
        let trace = SchedulerTrace::of_switches(&online, &all)?;
        let begin = clock::now();
        Ok(Explaining {
            begin,
            least,
            history: HostHistory::new(all.into_iter()),
            tids,
            trace,
            records: Vec::new(),
            offset: ClockOffset::default(),
            waiting: VecDeque::new(),
            steal: Steal::begin(begin),
            names: ThreadNames::default(),
            messages: 0,
            count: 0,
            attributed: 0,
            parts: Parts::default(),
            instead: BTreeMap::new(),
            wake_ups: Vec::new(),
        })
    }

    /// Reads the trace and the messages, and explains wake-ups whose records are complete.
    fn turn(&mut self, heard: &Receiver<Heard>) {
        let now = clock::now();
        self.read_trace(now);
        self.steal.measure(now);
        for Heard { message, at } in heard.try_iter() {
            match message {
                // The clock of the guest may be another one from now on.
                FromGuest::Hello { .. } | FromGuest::Goodbye => self.offset.clear(),
                FromGuest::Hint(hint) => self.offset.record(hint.sent, at),
                FromGuest::Woken(wake_up) => self.await_records(&wake_up, at),
            }
            self.messages += u64::from(!matches!(message, FromGuest::Hello { .. } | FromGuest::Goodbye));
        }
        let complete = Instant::at_ns(now.as_ns().saturating_sub(SETTLED.as_ns()));
        // The rest waits for the next turn.
        let end = now.saturating_add(READING);
        while clock::now() < end
            && let Some(&(wake_up, on_host)) = self.waiting.front().filter(|(_, on_host)| on_host.ran <= complete)
        {
            self.waiting.pop_front();
            self.explain(&wake_up, &on_host);
        }
    }

    fn read_trace(&mut self, now: Instant) {
        let lost = self.trace.read(&mut self.records);
        self.history.note_all(&self.records, lost);
        self.records.clear();
        self.history.forget(Instant::at_ns(now.as_ns().saturating_sub(KEPT.as_ns())));
    }

    /// Lets a wake-up wait until the records up to its end are there. `at`: instant of the message.
    fn await_records(&mut self, wake_up: &WakeUp, at: Instant) {
        let [due, woken, ran] = [wake_up.due, wake_up.woken, wake_up.ran].map(|at| self.offset.to_host(at));
        let of_vcpu = |vcpu: u16| self.tids.vcpus.get(usize::from(vcpu)).copied();
        let (Some(slept_on), Some(vcpu)) = (of_vcpu(wake_up.slept_on), of_vcpu(wake_up.vcpu)) else { return };
        let (Some(due), Some(woken), Some(ran)) = (due, woken, ran) else { return };
        // The guest chooses what it reports. A wake-up that was due before the trace began is not known as a whole.
        let is_proper = due >= self.begin && ran <= at.saturating_add(CLOCKS_MOST) && wake_up.latency() >= self.least;
        if is_proper && self.waiting.len() < HEARD_MOST {
            self.waiting.push_back((*wake_up, OnHost { slept_on, vcpu, due, woken, ran }));
        }
    }

    fn explain(&mut self, wake_up: &WakeUp, on_host: &OnHost) {
        let mut instead = BTreeMap::new();
        let parts = split(&self.history, &self.tids, on_host, self.steal.ppm, &mut instead);
        self.count += 1;
        let tolerated = Nanos::ns(wake_up.latency().as_ns() / 100 * ATTRIBUTED_PERCENT).max(ATTRIBUTED);
        self.attributed += u64::from(parts.unattributed <= tolerated);
        self.parts.add(&parts);
        for (tid, ran) in &instead {
            *self.instead.entry(*tid).or_default() += *ran;
        }
        if self.wake_ups.len() == LISTED_MOST {
            return;
        }
        self.wake_ups.push(LateWakeUp {
            due_ns: on_host.due.since(self.begin).as_ns(),
            vcpu: wake_up.vcpu,
            tid: wake_up.tid,
            task: wake_up.name.text().into_owned(),
            source: wake_up.source.map(Source::name),
            latency_ns: wake_up.latency().as_ns(),
            parts: parts.into(),
            instead: longest(&instead, &mut self.names),
        });
    }

    fn found(mut self, vm: String, length: Nanos, closed: bool) -> LateWakeUps {
        LateWakeUps {
            vm,
            length_ns: length.as_ns(),
            least_ns: self.least.as_ns(),
            messages: self.messages,
            count: self.count,
            attributed: self.attributed,
            parts: self.parts.into(),
            instead: longest(&self.instead, &mut self.names),
            wake_ups: self.wake_ups,
            lost: self.trace.lost,
            closed,
        }
    }
}

/// The part of the time that a hypervisor below the host takes.
struct Steal {
    /// Busy and steal time of all CPUs, at the last measurement.
    before: Option<(Nanos, Nanos)>,
    next: Instant,
    /// The part in the last interval, in parts of a million.
    ppm: u64,
}

impl Steal {
    fn begin(now: Instant) -> Steal {
        Steal { before: Steal::read(), next: now.saturating_add(STEAL), ppm: 0 }
    }

    fn read() -> Option<(Nanos, Nanos)> {
        let times = cpus::times().ok()?;
        Some((times.total.saturating_sub(times.idle), times.steal?))
    }

    fn measure(&mut self, now: Instant) {
        if now < self.next {
            return;
        }
        self.next = now.saturating_add(STEAL);
        let (before, after) = (self.before, Steal::read());
        if let (Some(before), Some(after)) = (before, after) {
            let [busy, stolen] = [after.0.saturating_sub(before.0), after.1.saturating_sub(before.1)].map(Nanos::as_ns);
            self.ppm = stolen.saturating_mul(1_000_000) / busy.max(1);
        }
        self.before = after;
    }
}
