//! [`Run`]: a run of a policy, its [`Summary`], and why it fails.

use input::knobs::{KnobSetting, apply_knobs};
use input::problem::{Problem, Problems};
use sched::{Conserving, Descriptor, Instant, Kicks, LoadBounds, Machine, Nanos, Reservation, Topology};
use scx::Error;
use scx::interface::{BmqCounts, Ending};
use scx::promised::Received;
use scx::siblings::Together;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use sys::clock;

/// Maximum interval of batches, which are signs of life.
pub(super) const BEAT: Nanos = Nanos::ms(30);

/// What a session has done.
#[derive(Debug, Default, Serialize)]
pub(super) struct Summary {
    pub(super) policy: String,
    pub(super) length_ns: u64,
    /// Numbers of events, and of turns of the user side.
    pub(super) events: u64,
    pub(super) turns: u64,
    /// CPU time of the turns.
    pub(super) cpu_ns: u64,
    /// Number of dispatches of chosen threads, and of those whose thread was not there.
    pub(super) dispatched: u64,
    pub(super) absent: u64,
    /// Number of times that the bridge dispatched by itself because the user side was late.
    pub(super) fallbacks: u32,
    /// Number of events that found the buffer full.
    pub(super) lost: u64,
    /// Number of times that the session began again after such events, and because a CPU had gone offline or online.
    pub(super) resyncs: u32,
    pub(super) cpu_changes: u32,
    /// Maximum number of managed threads.
    pub(super) threads: usize,
    /// What the threads with promises have received, by tid.
    pub(super) promises: BTreeMap<i32, Received>,
    /// How long the threads of each gang have run together.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) gangs: Vec<Together>,
    /// Number of records in the file of the recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) records: Option<u64>,
    /// What the port of `bmq` has done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bmq: Option<BmqCounts>,
}

impl Summary {
    /// Adds what another session has done, in another time.
    pub(super) fn add(&mut self, other: &Summary) {
        self.events += other.events;
        self.turns += other.turns;
        self.dispatched += other.dispatched;
        self.absent += other.absent;
        self.fallbacks += other.fallbacks;
        self.lost += other.lost;
        self.records = self.records.or(other.records);
        self.threads = self.threads.max(other.threads);
        for (tid, received) in &other.promises {
            self.promises.entry(*tid).or_default().add(received);
        }
        for gang in &other.gangs {
            match self.gangs.iter_mut().find(|it| it.tids == gang.tids) {
                Some(it) => it.add(gang),
                None => self.gangs.push(gang.clone()),
            }
        }
        if let Some(counts) = &other.bmq {
            self.bmq.get_or_insert_default().add(counts);
        }
    }
}

/// Why a session has ended with an error.
pub(super) enum Failure {
    Input(Problems),
    Kernel(Error),
    /// The promise to this thread does not fit, for this reason.
    Refused(i32, String),
    /// The kernel has removed the bridge.
    Ended(String),
    /// A CPU has gone offline or online, for the reason that the kernel states.
    CpusChanged(String),
    /// Events were lost.
    Lost(u64),
    /// The recording lacks records.
    Incomplete(u64),
}

impl From<Ending> for Failure {
    fn from(ending: Ending) -> Failure {
        if ending.requests_restart() { Failure::CpusChanged(ending.text()) } else { Failure::Ended(ending.text()) }
    }
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

/// A run of a policy, from its options.
pub(super) struct Run {
    pub(super) policy: &'static Descriptor,
    pub(super) promises: BTreeMap<i32, Reservation>,
    /// The threads of each gang, in ascending order. Each thread has a promise.
    pub(super) gangs: Vec<Vec<i32>>,
    pub(super) length: Option<Nanos>,
    pub(super) stop: Arc<AtomicBool>,
}

impl Run {
    pub(super) fn machine(&self, settings: &[KnobSetting]) -> Result<Machine, Problems> {
        let knobs = apply_knobs(self.policy, settings)?;
        let machine = Machine::build(self.policy, Run::host()?, &knobs, Kicks::Immediate);
        Ok(machine.map_err(|refused| Problem::new(refused.to_string()))?)
    }

    /// Returns whether the policy always lets a CPU run a thread that last ran there, if no other thread is runnable.
    pub(super) fn is_conserving(&self, settings: &[KnobSetting]) -> Result<bool, Problems> {
        let (host, knobs) = (Run::host()?, apply_knobs(self.policy, settings)?);
        let load = LoadBounds {
            has_reservations: !self.promises.is_empty(),
            has_changes: true,
            has_sleepers: true,
            has_affinity: true,
            ..LoadBounds::of_hogs(&host, &knobs, 2)
        };
        Ok((self.policy.conserving)(&load) != Conserving::Never)
    }

    pub(super) fn host() -> Result<Topology, Problem> {
        let cpus = sys::cpus::online().map_err(|error| Problem::new(error.to_string()))?;
        Ok(Topology::new(cpus.iter().last().map_or(1, |cpu| cpu.index() + 1)))
    }

    /// Returns the end of a run that begins now.
    pub(super) fn end(&self) -> Instant {
        self.length.map_or(Instant::NEVER, |length| clock::now().saturating_add(length))
    }

    pub(super) fn is_over(&self, end: Instant, now: Instant) -> bool {
        self.stop.load(Ordering::Relaxed) || now >= end
    }

    pub(super) fn summary(&self) -> Summary {
        Summary { policy: self.policy.name.to_string(), ..Summary::default() }
    }
}
