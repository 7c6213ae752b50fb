//! [`Follower`]: follows the trace of the guest's scheduler, and has the detector decide.

use crate::failure::Failure;
use crate::guarding;
use crate::interrupts::Interrupts;
use crate::options::{Options, Prioritise};
use crate::prioritised::Prioritised;
use crate::tasks::Tasks;
use coordination::wire::{Hint, Source};
use coordination::{Coordination, GuestAgent, Protocol, Traced};
use sched::{CpuId, Instant, Nanos};
use sys::event::Waiting;
use sys::scheduler_trace::{Event, Record, SchedulerTrace, Waker};
use sys::{clock, cpus, thread};

/// Interval of reviews while an urgent task runs: its burst may have become too long.
const REVIEW: Nanos = Nanos::ms(4);
/// Interval between reads of the parameters of tasks that have run.
const REFRESH: Nanos = Nanos::s(1);

/// The follower of a guest's scheduler.
pub(crate) struct Follower {
    trace: SchedulerTrace,
    agent: GuestAgent,
    tasks: Tasks,
    interrupts: Interrupts,
    /// The source of the last interrupt and of the last soft interrupt of each CPU.
    last: Vec<[Option<Source>; 2]>,
    prioritised: Prioritised,
    records: Vec<Record>,
    pace: Pace,
    refreshed: Instant,
}

impl Follower {
    /// Begins a trace.
    pub(crate) fn begin(options: &Options, protocol: Protocol) -> Result<Follower, Failure> {
        let online = cpus::online()?;
        let each: Vec<CpuId> = online.iter().collect();
        let trace = SchedulerTrace::begin(&each, thread::current())?;
        let count = each.last().map_or(0, |last| last.index() + 1);
        let with = Coordination { detector: options.detector.into(), ..Coordination::new(protocol) };
        let prioritised = Prioritised::begin(options.prioritise)?;
        if options.prioritise != Prioritise::None {
            guarding::start()?;
        }
        let mut follower = Follower {
            trace,
            agent: GuestAgent::new(with, count),
            tasks: Tasks::scan(online, thread::current())?,
            interrupts: Interrupts::default(),
            last: vec![[None; 2]; count],
            prioritised,
            records: Vec::new(),
            pace: Pace { most_percent: options.cpu_most, next: Instant::ZERO },
            refreshed: Instant::ZERO,
        };
        follower.refresh(clock::now());
        Ok(follower)
    }

    /// Adds the descriptors that become readable when there is something to do.
    pub(crate) fn add_to(&self, waiting: &Waiting, number: u64) -> Result<(), Failure> {
        self.trace.descriptors().try_for_each(|descriptor| waiting.add(descriptor, number))?;
        Ok(())
    }

    /// Returns the instant of the next [`turn`](Follower::turn) if nothing happens until then.
    pub(crate) fn next(&self) -> Instant {
        let pause = if self.agent.runs_urgent() { REVIEW } else { REFRESH };
        clock::now().saturating_add(pause)
    }

    /// Returns the number of records that were lost because they were not read in time.
    pub(crate) fn lost(&self) -> u64 {
        self.trace.lost
    }

    /// Reads the trace, and passes the hints that follow to `publish`. Waits first if the agent has used its share of a CPU.
    pub(crate) fn turn(&mut self, publish: impl FnMut(Hint)) {
        clock::sleep_until(self.pace.next);
        let (begin, used) = (clock::now(), clock::thread_time());
        let mut records = std::mem::take(&mut self.records);
        self.trace.read(&mut records);
        for record in records.drain(..) {
            self.process(record);
        }
        self.records = records;
        let now = clock::now();
        self.agent.review(now);
        self.agent.publish(publish);
        self.prioritised.follow(self.agent.urgent());
        if self.refreshed.saturating_add(REFRESH) <= now {
            self.refresh(now);
        }
        self.pace.worked(begin, clock::thread_time().saturating_sub(used));
    }

    fn refresh(&mut self, now: Instant) {
        self.refreshed = now;
        let (agent, prioritised) = (&mut self.agent, &self.prioritised);
        self.tasks.refresh(|tid| prioritised.original(tid), |change| agent.process(now, change));
    }

    fn process(&mut self, Record { at, cpu, event }: Record) {
        let traced = match event {
            Event::Switch { from, blocks, to } => {
                let (from, to) = (self.user(from), self.user(to));
                self.tasks.ran(to);
                Traced::Switch { cpu, from, blocks, to }
            }
            Event::Waking { tid, target, by } => {
                let tid = self.user(tid);
                let (waker, source) = self.cause(cpu, target, by);
                Traced::Wake { tid, waker, source, cpu: target }
            }
            Event::Timer { tid, expiry } => Traced::Timer { tid: self.user(tid), expiry },
            Event::Begin { tid, parent } => {
                self.tasks.begin(tid, parent);
                Traced::Begin { tid: self.user(tid), parent: self.user(parent) }
            }
            Event::End { tid } => {
                let traced = Traced::End { tid: self.user(tid) };
                self.tasks.end(tid);
                traced
            }
            Event::Interrupt { number } => {
                let source = self.interrupts.source(number);
                return self.note(cpu, 0, source);
            }
            Event::SoftInterrupt { is_network } => {
                return self.note(cpu, 1, Some(if is_network { Source::Network } else { Source::Disk }));
            }
        };
        self.agent.process(at, traced);
    }

    /// Returns the tid of a task of a user; 0 for a thread of the kernel.
    fn user(&mut self, tid: u32) -> u32 {
        if tid != 0 && self.tasks.is_task(tid) { tid } else { 0 }
    }

    fn note(&mut self, cpu: CpuId, kind: usize, source: Option<Source>) {
        if let Some(last) = self.last.get_mut(cpu.index()) {
            last[kind] = source;
        }
    }

    /// Returns the task that wakes another one, or the source of the interrupt that does.
    fn cause(&mut self, cpu: CpuId, target: CpuId, by: Waker) -> (Option<u32>, Option<Source>) {
        let last = self.last.get(cpu.index()).copied().unwrap_or_default();
        match by {
            Waker::Interrupt => (None, last[0]),
            Waker::SoftInterrupt => (None, last[1]),
            Waker::Thread(tid) => {
                let tid = self.user(tid);
                ((tid != 0).then_some(tid), (cpu != target).then_some(Source::Vcpu))
            }
        }
    }
}

/// Limits the CPU time of the agent.
#[derive(Debug)]
struct Pace {
    most_percent: u8,
    /// Instant of the next turn.
    next: Instant,
}

impl Pace {
    /// A turn that began at `begin` has taken this CPU time.
    fn worked(&mut self, begin: Instant, time: Nanos) {
        self.next = begin.saturating_add(time.scale(100, u64::from(self.most_percent)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_turn_comes_after_the_share_of_the_last_one() {
        let mut pace = Pace { most_percent: 10, next: Instant::ZERO };
        pace.worked(Instant::at_ns(1_000), Nanos::ns(300));
        assert_eq!(pace.next, Instant::at_ns(4_000));
        pace.most_percent = 100;
        pace.worked(Instant::at_ns(1_000), Nanos::ns(300));
        assert_eq!(pace.next, Instant::at_ns(1_300));
    }
}
