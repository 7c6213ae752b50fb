//! [`GuestAgent`]: in a real guest, turns the trace of the guest's kernel into hints.

use crate::detector::{Detector, Note};
use crate::kernel::Kernel;
use crate::traced_kernel::{Traced, TracedKernel};
use crate::wake_up::WakeUp;
use crate::wire::{Hint, Source, Sources};
use crate::{Coordination, GuestChoice};
use sched::{CpuId, EntityId, Instant, Nanos};

/// Maximum number of wake-ups that wait for [`GuestAgent::woken`]. Further ones are dropped.
const WOKEN_MOST: usize = 32;

/// What was last published about a vCPU.
#[derive(Clone, Copy, Debug)]
struct Published {
    number: u32,
    choice: GuestChoice,
    expiry: Option<Instant>,
    sources: Sources,
}

/// The detector of a real guest, and the hints that follow from it. One CPU of the guest is one vCPU.
#[derive(Debug)]
pub struct GuestAgent {
    with: Coordination,
    kernel: TracedKernel,
    detector: Detector,
    published: Vec<Option<Published>>,
    /// Least latency of the wake-ups that are reported; `None`: none are.
    watched: Option<Nanos>,
    woken: Vec<WakeUp>,
}

impl GuestAgent {
    /// The agent of a guest with `cpus` CPUs. Nothing is known of its tasks.
    #[must_use]
    pub fn new(with: Coordination, cpus: usize) -> GuestAgent {
        GuestAgent {
            with,
            kernel: TracedKernel::new(cpus),
            detector: Detector::new(with.detector, cpus),
            published: vec![None; cpus],
            watched: None,
            woken: Vec::new(),
        }
    }

    /// Processes an event at `at` on the guest's CLOCK_MONOTONIC.
    pub fn process(&mut self, at: Instant, event: Traced) {
        let GuestAgent { detector, woken, watched, .. } = self;
        self.kernel.process(at, event, |kernel, note: Note| {
            detector.note(kernel, note);
            if let Some(least) = *watched
                && let Note::Runs(task, _) = note
                && woken.len() < WOKEN_MOST
                && detector.is_urgent(task)
            {
                woken.extend(kernel.wake_up(task).filter(|wake_up| wake_up.latency() >= least));
            }
        });
    }

    /// Reports the wake-ups of urgent tasks whose latency is at least `least` from now on; `None`: reports none.
    pub fn watch(&mut self, least: Option<Nanos>) {
        self.watched = least;
    }

    /// Returns the wake-ups to report since the last call, without the names of the tasks.
    pub fn woken(&mut self) -> impl Iterator<Item = WakeUp> {
        self.woken.drain(..)
    }

    /// Reviews the running tasks at a tick: the burst of a task may have become too long.
    pub fn review(&mut self, at: Instant) {
        self.kernel.advance(at);
        for cpu in 0..self.kernel.cpus() {
            if let Some(task) = self.kernel.running(CpuId::new(cpu)) {
                self.detector.review(&self.kernel, task);
            }
        }
    }

    /// Calls `publish` with the hint of each vCPU about which there is something new.
    pub fn publish(&mut self, mut publish: impl FnMut(Hint)) {
        for cpu in 0..self.published.len() {
            let new = self.present(CpuId::new(cpu));
            let before = self.published[cpu];
            let is_known = |before: &Published| {
                (before.choice, before.expiry, before.sources) == (new.choice, new.expiry, new.sources)
            };
            if before.as_ref().is_some_and(is_known) {
                continue;
            }
            let number = before.map_or(0, |before| before.number.wrapping_add(1));
            self.published[cpu] = Some(Published { number, ..new });
            let Published { choice, expiry, sources, .. } = new;
            publish(Hint { vcpu: cpu as u16, number, sent: self.kernel.now(), choice, expiry, sources });
        }
    }

    /// Returns the tids of all urgent tasks.
    pub fn urgent(&self) -> impl Iterator<Item = u32> {
        self.detector.urgent().filter_map(|task| self.kernel.tid(task))
    }

    /// Returns whether an urgent task runs, by what was last published. The task may go on for longer than an urgent one, and only
    /// [`review`](GuestAgent::review) finds out.
    #[must_use]
    pub fn runs_urgent(&self) -> bool {
        self.published.iter().flatten().any(|published| published.choice.task_boost.is_some())
    }

    /// Returns what there is to publish about a vCPU.
    fn present(&self, cpu: CpuId) -> Published {
        let choice = self.detector.choice(&self.kernel, &self.with, cpu, false);
        let (mut expiry, mut of_devices) = (None, Sources::default());
        let is_here = |task: &EntityId| self.kernel.has(*task) && self.kernel.last_cpu(*task) == cpu;
        for task in self.detector.asleep().filter(is_here) {
            // A timer that has expired without a wake-up hides no later one.
            let ahead = self.kernel.expiry(task).filter(|&expiry| expiry > self.kernel.now());
            expiry = expiry.into_iter().chain(ahead).min();
            of_devices = of_devices.or(self.kernel.sources(task));
        }
        let sources = if expiry.is_some() { of_devices.with(Source::Timer) } else { of_devices };
        Published { number: 0, choice, expiry, sources }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Protocol, Rule};
    use sched::{Nanos, Weight};

    const TYPIST: u32 = 100;
    const HOG: u32 = 200;

    fn us(us: u64) -> Instant {
        Instant::ZERO + Nanos::us(us)
    }

    fn switch(cpu: usize, from: u32, blocks: bool, to: u32) -> Traced {
        Traced::Switch { cpu: CpuId::new(cpu), from, blocks, to }
    }

    fn agent(cpus: usize) -> GuestAgent {
        GuestAgent::new(Coordination { detector: Rule::Ewma, ..Coordination::new(Protocol::S0) }, cpus)
    }

    fn hints(agent: &mut GuestAgent) -> Vec<Hint> {
        let mut hints = Vec::new();
        agent.publish(|hint| hints.push(hint));
        hints
    }

    /// The typist wakes by its timer every 10 ms beside a hog, runs for 100 us, and sets the next timer. Returns the agent at
    /// 100.1 ms, when the typist has just gone to sleep.
    fn typing() -> GuestAgent {
        let mut agent = agent(1);
        agent.process(us(0), switch(0, 0, false, HOG));
        for period in 1..=10 {
            let at = us(period * 10_000);
            agent.process(at, Traced::Wake { tid: TYPIST, waker: None, source: None, cpu: CpuId::new(0) });
            agent.process(at, switch(0, HOG, false, TYPIST));
            let end = at + Nanos::us(100);
            agent.process(end, Traced::Timer { tid: TYPIST, expiry: us((period + 1) * 10_000) });
            agent.process(end, switch(0, TYPIST, true, HOG));
        }
        agent
    }

    #[test]
    fn a_sleeping_typist_is_announced_with_its_timer_and_a_running_one_as_urgent() {
        let mut agent = typing();
        let announced = hints(&mut agent);
        assert_eq!(announced.len(), 1);
        let Hint { choice, expiry, sources, sent, .. } = announced[0];
        assert!(choice.runs && choice.sleeps && choice.task_boost.is_none(), "the hog runs: {choice:?}");
        assert_eq!((expiry, sent), (Some(us(110_000)), us(100_100)));
        assert!(sources.has(Source::Timer) && !sources.has(Source::Network));
        assert_eq!(hints(&mut agent), [], "nothing is new");

        agent.process(us(110_000), Traced::Wake { tid: TYPIST, waker: None, source: None, cpu: CpuId::new(0) });
        let woken = hints(&mut agent);
        assert!(woken[0].choice.waits && woken[0].expiry.is_none(), "{woken:?}");
        agent.process(us(110_010), switch(0, HOG, false, TYPIST));
        let runs = hints(&mut agent);
        assert_eq!((runs[0].choice.task_boost, runs[0].number), (Some(agent.with.boost), 2));
        assert_eq!((agent.urgent().collect::<Vec<_>>(), agent.runs_urgent()), (vec![TYPIST], true));
    }

    #[test]
    fn a_late_wake_up_of_an_urgent_task_is_reported_to_a_host_that_asks_for_it() {
        let mut agent = typing();
        let wake = |tid, waker| Traced::Wake { tid, waker, source: None, cpu: CpuId::new(0) };
        agent.process(us(112_000), wake(TYPIST, None));
        agent.process(us(112_500), switch(0, HOG, false, TYPIST));
        assert_eq!(agent.woken().next(), None, "the host has not asked");
        agent.watch(Some(Nanos::us(500)));
        // A preemption is no wake-up, and the hog is not urgent.
        agent.process(us(113_000), switch(0, TYPIST, false, HOG));
        agent.process(us(115_000), switch(0, HOG, true, TYPIST));
        agent.process(us(115_100), Traced::Timer { tid: TYPIST, expiry: us(120_000) });
        agent.process(us(115_100), switch(0, TYPIST, true, 0));
        agent.process(us(115_200), wake(HOG, None));
        agent.process(us(119_000), switch(0, 0, false, HOG));
        agent.process(us(120_300), wake(TYPIST, None));
        agent.process(us(120_499), switch(0, HOG, false, TYPIST));
        assert_eq!(agent.woken().next(), None, "each is shorter or of no urgent task");
        agent.process(us(120_600), Traced::Timer { tid: TYPIST, expiry: us(130_000) });
        agent.process(us(120_600), switch(0, TYPIST, true, HOG));
        agent.process(us(130_300), wake(TYPIST, None));
        agent.process(us(130_500), switch(0, HOG, false, TYPIST));
        // A wake-up before the task has slept takes its timer away: the next one is no timer's.
        agent.process(us(130_600), Traced::Timer { tid: TYPIST, expiry: us(140_000) });
        agent.process(us(140_000), wake(TYPIST, None));
        agent.process(us(140_010), switch(0, TYPIST, true, 0));
        agent.process(us(150_000), wake(TYPIST, None));
        agent.process(us(150_010), switch(0, 0, false, TYPIST));
        let woken: Vec<WakeUp> = agent.woken().collect();
        let WakeUp { vcpu, tid, source, due, woken: at, ran, .. } = woken[0];
        assert_eq!((woken.len(), vcpu, tid, source), (1, 0, TYPIST, Some(Source::Timer)));
        assert_eq!([due, at, ran], [130_000, 130_300, 130_500].map(us));
    }

    #[test]
    fn a_typist_that_begins_to_compute_is_urgent_no_more() {
        let mut agent = typing();
        agent.process(us(110_000), Traced::Wake { tid: TYPIST, waker: None, source: None, cpu: CpuId::new(0) });
        agent.process(us(110_000), switch(0, HOG, false, TYPIST));
        agent.review(us(112_000));
        assert!(hints(&mut agent)[0].choice.task_boost.is_some());
        agent.review(us(150_000));
        assert!(hints(&mut agent)[0].choice.task_boost.is_none());
    }

    #[test]
    fn tasks_of_a_real_time_class_are_urgent_at_once_and_ended_ones_are_forgotten() {
        let mut agent = agent(2);
        let fifo = sched::Class::Fifo(sched::RtPriority::new(50).unwrap());
        agent.process(us(1), Traced::Params { tid: 7, class: fifo, weight: Weight::NORMAL, allowed: 2 });
        agent.process(us(2), Traced::Wake { tid: 7, waker: Some(9), source: None, cpu: CpuId::new(1) });
        let waits = hints(&mut agent);
        assert_eq!(waits.iter().map(|hint| hint.choice.waits).collect::<Vec<_>>(), [false, true]);
        agent.process(us(3), switch(1, 0, false, 7));
        assert_eq!(hints(&mut agent)[0].choice.task_boost, crate::Boost::like(fifo));
        agent.process(us(4), Traced::End { tid: 7 });
        agent.process(us(5), switch(1, 7, true, 0));
        let idle = hints(&mut agent);
        assert!(!idle[0].choice.runs && idle[0].choice.task_boost.is_none());
        // Another task has the tid.
        agent.process(us(6), Traced::Begin { tid: 7, parent: 9 });
        agent.process(us(7), switch(1, 0, false, 7));
        assert!(hints(&mut agent)[0].choice.task_boost.is_none());
    }

    #[test]
    fn lost_events_leave_a_state_that_the_next_events_correct() {
        let mut agent = agent(2);
        // The switch from CPU 0 and the wake-up on CPU 1 are lost.
        agent.process(us(0), switch(0, 0, false, HOG));
        agent.process(us(1_000), switch(1, 0, false, HOG));
        let choices: Vec<bool> = hints(&mut agent).iter().map(|hint| hint.choice.runs).collect();
        assert_eq!(choices, [false, true]);
        // An event of a CPU that the guest lacks, and one that is late.
        agent.process(us(2_000), switch(9, 0, false, TYPIST));
        agent.process(us(500), switch(1, HOG, true, 0));
        assert!(hints(&mut agent).iter().all(|hint| !hint.choice.runs));
    }
}
