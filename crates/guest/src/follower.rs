//! [`Follower`]: follows the trace of the guest's scheduler, and has the detector decide.

use crate::failure::Failure;
use crate::interrupts::Interrupts;
use crate::options::Options;
use crate::prioritised::Prioritised;
use crate::tasks::Tasks;
use coordination::wire::{Hint, Source};
use coordination::{Coordination, GuestAgent, Protocol, TaskName, Traced, WakeUp};
use sched::{CpuId, Instant, Nanos};
use sys::event::Waiting;
use sys::scheduler_trace::{Event, Record, SchedulerTrace, Waker};
use sys::{clock, cpus, thread};

/// Interval of reviews while an urgent task runs: its burst may have become too long.
const REVIEW: Nanos = Nanos::ms(4);
/// Maximum interval between turns. A signal to end waits for it.
const INTERVAL_MOST: Nanos = Nanos::ms(100);
/// Part of the maximum CPU time that turns are planned to take, in percent. Turns that take longer than the mean of the last second
/// must not exceed the maximum.
const PLANNED: u64 = 90;
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
        let mut follower = Follower {
            trace,
            agent: GuestAgent::new(with, count),
            tasks: Tasks::scan(online, thread::current())?,
            interrupts: Interrupts::default(),
            last: vec![[None; 2]; count],
            prioritised,
            records: Vec::new(),
            pace: Pace::new(options.cpu_most, clock::thread_time()),
            refreshed: Instant::ZERO,
        };
        follower.refresh(clock::now());
        Ok(follower)
    }

    /// Adds the descriptors that become readable when there is something to do.
    pub(crate) fn add_to(&self, waiting: &Waiting, number: u64) -> Result<(), Failure> {
        // A turn reads all records.
        self.trace.descriptors().try_for_each(|descriptor| waiting.add_edges(descriptor, number))?;
        Ok(())
    }

    /// Returns the instant of the next [`turn`](Follower::turn) if nothing happens until then.
    pub(crate) fn next(&self) -> Instant {
        if self.agent.runs_urgent() { clock::now().saturating_add(REVIEW) } else { Instant::NEVER }
    }

    /// Returns the number of records that were lost because they were not read in time.
    pub(crate) fn lost(&self) -> u64 {
        self.trace.lost
    }

    /// Reports the wake-ups of urgent tasks whose latency is at least `least` from now on; `None`: reports none.
    pub(crate) fn watch(&mut self, least: Option<Nanos>) {
        self.agent.watch(least);
    }

    /// Returns the wake-ups to report since the last call.
    pub(crate) fn woken(&mut self) -> impl Iterator<Item = WakeUp> {
        self.agent.woken().map(|wake_up| {
            // A task that has ended has no name any more.
            let name = thread::status(wake_up.tid).map(|status| TaskName::new(status.name.as_bytes()));
            WakeUp { name: name.unwrap_or_default(), ..wake_up }
        })
    }

    /// Reads the trace, and passes the hints that follow to `publish`. Waits first if the agent has used its share of a CPU.
    pub(crate) fn turn(&mut self, publish: impl FnMut(Hint)) {
        if clock::now() < self.pace.next() {
            clock::sleep_until(self.pace.next());
        }
        let begin = clock::now();
        self.pace.begin(begin);
        let mut records = std::mem::take(&mut self.records);
        self.trace.read(&mut records);
        for record in records.drain(..) {
            self.process(record);
        }
        self.records = records;
        self.agent.review(begin);
        self.agent.publish(publish);
        self.prioritised.follow(self.agent.urgent());
        if self.refreshed.saturating_add(REFRESH) <= begin {
            self.refresh(begin);
            self.pace.adapt(clock::thread_time());
        }
    }

    fn refresh(&mut self, now: Instant) {
        self.refreshed = now;
        let (agent, prioritised) = (&mut self.agent, &self.prioritised);
        self.tasks.refresh(|tid| prioritised.original(tid), |change| agent.process(now, change));
    }

    fn process(&mut self, Record { at, cpu, event }: Record) {
        let traced = match event {
            Event::Switch { from: last, blocks, ends, to } => {
                let (from, to) = (self.user(last), self.user(to));
                self.tasks.ran(to);
                if ends {
                    self.agent.process(at, Traced::Switch { cpu, from, blocks, to });
                    self.tasks.end(last);
                    Traced::End { tid: from }
                } else {
                    Traced::Switch { cpu, from, blocks, to }
                }
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

/// Limits the CPU time of the agent: turns have a least interval, in which the mean turn takes the planned part of the maximum.
#[derive(Debug)]
struct Pace {
    most_percent: u8,
    interval: Nanos,
    begun: Instant,
    /// Turns since the interval was adapted, and the CPU time of the agent then.
    turns: u64,
    used: Nanos,
}

impl Pace {
    /// `used`: CPU time of the agent so far.
    fn new(most_percent: u8, used: Nanos) -> Pace {
        Pace { most_percent, interval: Nanos::ZERO, begun: Instant::ZERO, turns: 0, used }
    }

    /// Returns the earliest instant of the next turn.
    fn next(&self) -> Instant {
        self.begun.saturating_add(self.interval)
    }

    fn begin(&mut self, now: Instant) {
        self.begun = now;
        self.turns += 1;
    }

    /// Adapts the interval. `used`: CPU time of the agent so far, with its system calls and wake-ups.
    fn adapt(&mut self, used: Nanos) {
        let each = used.saturating_sub(self.used).as_ns() / self.turns.max(1);
        self.interval = Nanos::ns(each * 100 * 100 / (u64::from(self.most_percent) * PLANNED)).min(INTERVAL_MOST);
        (self.turns, self.used) = (0, used);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_as_far_apart_as_their_cpu_time_demands() {
        let mut pace = Pace::new(5, Nanos::ns(60));
        pace.begin(Instant::at_ns(1_000));
        assert_eq!(pace.next(), Instant::at_ns(1_000), "nothing is known of their CPU time");
        for at in 2..=10 {
            pace.begin(Instant::at_ns(at * 1_000));
        }
        pace.adapt(Nanos::ns(420));
        assert_eq!(pace.next(), Instant::at_ns(10_800), "a turn took 36 ns, which are 4.5 percent of 800 ns");
        pace.begin(Instant::at_ns(20_000));
        pace.adapt(Nanos::ns(429));
        assert_eq!(pace.next(), Instant::at_ns(20_200));
        pace.adapt(Nanos::ns(429));
        assert_eq!(pace.next(), Instant::at_ns(20_000), "no turn took any time");
        pace.adapt(Nanos::s(9));
        assert_eq!(pace.next(), Instant::at_ns(20_000) + INTERVAL_MOST);
    }
}
