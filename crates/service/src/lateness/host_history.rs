//! [`HostHistory`]: what the CPUs of the host ran and what the threads of a VM did, over the latest time, from the trace of the host's
//! scheduler.

use crate::cpu_history::CpuHistory;
use sched::{CpuId, Instant, Nanos};
use std::collections::{BTreeMap, VecDeque};
use sys::scheduler_trace::{Event, Record};

/// Number of changes of a thread, and of stretches of a CPU, that are remembered: several seconds at 10,000 switches a second.
const PAST_MOST: usize = 1 << 17;

/// Maximum time from the wake-up of a thread to its switch, if another CPU wakes the thread while it blocks. The kernel records the wake-up
/// first then (`try_to_wake_up`, kernel/sched/core.c, v6.18).
const RACE_MOST: Nanos = Nanos::us(50);

/// What a thread does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Doing {
    /// A record was lost, or there was none yet.
    Unknown,
    Runs,
    /// The thread waits for this CPU: it was preempted there, or woke there.
    Waits(CpuId),
    Sleeps,
}

/// What a thread did: each change, with its instant.
#[derive(Debug, Default)]
struct Changes {
    past: VecDeque<(Instant, Doing)>,
    /// The wake-up of the thread while it runs, with the CPU that it is to run on.
    woken: Option<(Instant, CpuId)>,
    /// Whether the thread waits because this wake-up came while it blocked.
    is_assumed: bool,
}

impl Changes {
    fn now(&self) -> Doing {
        self.past.back().map_or(Doing::Unknown, |(_, doing)| *doing)
    }

    fn push(&mut self, at: Instant, doing: Doing) {
        if self.past.len() == PAST_MOST {
            self.past.pop_front();
        }
        self.past.push_back((at, doing));
        (self.woken, self.is_assumed) = (None, false);
    }

    /// The thread blocks at `at`.
    fn block(&mut self, at: Instant) {
        match self.woken.filter(|(woken, _)| at.saturating_since(*woken) <= RACE_MOST) {
            Some((_, target)) => {
                self.push(at, Doing::Waits(target));
                self.is_assumed = true;
            }
            None => self.push(at, Doing::Sleeps),
        }
    }

    /// The thread wakes at `at`, and is to run on `target`.
    fn wake(&mut self, at: Instant, target: CpuId) {
        match self.now() {
            Doing::Runs => self.woken = Some((at, target)),
            Doing::Sleeps | Doing::Unknown => self.push(at, Doing::Waits(target)),
            Doing::Waits(_) if self.is_assumed => {
                // The thread has gone to sleep after all.
                self.past.back_mut().expect("the thread waits").1 = Doing::Sleeps;
                self.push(at, Doing::Waits(target));
            }
            Doing::Waits(_) => {}
        }
    }

    /// Returns the index of the first change after `at`.
    fn after(&self, at: Instant) -> usize {
        self.past.partition_point(|(since, _)| *since <= at)
    }

    fn at(&self, at: Instant) -> Doing {
        self.after(at).checked_sub(1).map_or(Doing::Unknown, |nth| self.past[nth].1)
    }
}

/// What the CPUs of the host ran, and what the threads of a VM did.
#[derive(Debug)]
pub(crate) struct HostHistory {
    cpus: BTreeMap<CpuId, CpuHistory>,
    threads: BTreeMap<u32, Changes>,
    /// Instant of the last record.
    last: Instant,
}

impl HostHistory {
    /// The history of the threads with these tids, of which nothing is known yet.
    pub(crate) fn new(tids: impl Iterator<Item = u32>) -> HostHistory {
        let threads = tids.map(|tid| (tid, Changes::default())).collect();
        HostHistory { cpus: BTreeMap::new(), threads, last: Instant::ZERO }
    }

    /// Notes a record. Records come in the order of their instants.
    pub(crate) fn note(&mut self, Record { at, cpu, event }: Record) {
        self.last = self.last.max(at);
        match event {
            Event::Switch { from, blocks, to, .. } => {
                let of_cpu = self.cpus.entry(cpu).or_insert_with(|| CpuHistory::new(PAST_MOST));
                let ran = of_cpu.end(at);
                of_cpu.begin(to, at);
                if let Some(other) = ran.filter(|&tid| tid != from) {
                    // Its last switch is lost.
                    self.change(other, |thread| thread.push(at, Doing::Unknown));
                }
                self.change(from, |thread| if blocks { thread.block(at) } else { thread.push(at, Doing::Waits(cpu)) });
                self.change(to, |thread| thread.push(at, Doing::Runs));
            }
            Event::Waking { tid, target, .. } => self.change(tid, |thread| thread.wake(at, target)),
            _ => {}
        }
    }

    /// Records after the last one were lost.
    pub(crate) fn lose(&mut self) {
        self.threads.values_mut().for_each(|thread| thread.push(self.last, Doing::Unknown));
        for cpu in self.cpus.values_mut() {
            cpu.end(self.last);
        }
    }

    fn change(&mut self, tid: u32, change: impl FnOnce(&mut Changes)) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            change(thread);
        }
    }

    /// Returns what a thread of the VM did at `at`.
    pub(crate) fn doing(&self, tid: u32, at: Instant) -> Doing {
        self.threads.get(&tid).map_or(Doing::Unknown, |thread| thread.at(at))
    }

    /// Returns the instants between `from` and `until` at which a thread of the VM changed what it did.
    pub(crate) fn changes(&self, tid: u32, from: Instant, until: Instant) -> impl Iterator<Item = Instant> {
        let of_thread = self.threads.get(&tid).into_iter();
        let after = of_thread.flat_map(move |thread| thread.past.range(thread.after(from)..).map(|(at, _)| *at));
        after.take_while(move |at| *at < until)
    }

    /// Returns the time from `at` to the nearest instant at which the thread ran; zero if it ran then. `None`: it is more than `most`.
    pub(crate) fn away_from_run(&self, tid: u32, at: Instant, most: Nanos) -> Option<Nanos> {
        let thread = self.threads.get(&tid)?;
        let next = thread.after(at);
        if thread.at(at) == Doing::Runs {
            return Some(Nanos::ZERO);
        }
        let starts = thread
            .past
            .range(next..)
            .find(|(_, doing)| *doing == Doing::Runs)
            .map(|(start, _)| start.saturating_since(at));
        // A run ends at the change that follows it.
        let is_end = |nth: &usize| thread.past[nth - 1].1 == Doing::Runs;
        let ended = (1..next).rev().find(is_end).map(|nth| at.saturating_since(thread.past[nth].0));
        starts.into_iter().chain(ended).min().filter(|away| *away <= most)
    }

    /// Adds how long each thread ran on `cpu` between `from` and `until` to `sums`.
    pub(crate) fn add_to(&self, sums: &mut BTreeMap<u32, Nanos>, cpu: CpuId, from: Instant, until: Instant) {
        if let Some(cpu) = self.cpus.get(&cpu) {
            cpu.add_to(sums, from, until);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use sys::scheduler_trace::Waker;

    pub(crate) fn us(us: u64) -> Instant {
        Instant::ZERO + Nanos::us(us)
    }

    pub(crate) fn switch(at: u64, cpu: usize, from: u32, blocks: bool, to: u32) -> Record {
        let event = Event::Switch { from, blocks, ends: false, to };
        Record { at: us(at), cpu: CpuId::new(cpu), event }
    }

    pub(crate) fn waking(at: u64, tid: u32, target: usize) -> Record {
        let event = Event::Waking { tid, target: CpuId::new(target), by: Waker::Interrupt };
        Record { at: us(at), cpu: CpuId::new(0), event }
    }

    pub(crate) fn history(tids: &[u32], records: &[Record]) -> HostHistory {
        let mut history = HostHistory::new(tids.iter().copied());
        records.iter().for_each(|record| history.note(*record));
        history
    }

    const VCPU: u32 = 7;
    const HOG: u32 = 8;

    #[test]
    fn a_thread_runs_waits_where_it_woke_or_was_preempted_and_sleeps() {
        let records = [
            switch(10, 0, HOG, false, VCPU),
            switch(20, 0, VCPU, true, HOG),
            waking(30, VCPU, 1),
            switch(50, 1, HOG, false, VCPU),
            // A wake-up of a running thread changes nothing.
            waking(55, VCPU, 0),
            switch(60, 1, VCPU, false, HOG),
        ];
        let history = history(&[VCPU], &records);
        let waits = |cpu| Doing::Waits(CpuId::new(cpu));
        let doing = [5, 10, 19, 20, 30, 50, 59, 60, 99].map(|at| history.doing(VCPU, us(at)));
        use Doing::{Runs, Sleeps, Unknown};
        assert_eq!(doing, [Unknown, Runs, Runs, Sleeps, waits(1), Runs, Runs, waits(1), waits(1)]);
        assert_eq!(history.changes(VCPU, us(10), us(60)).collect::<Vec<_>>(), [20, 30, 50].map(us));
        assert_eq!(history.doing(HOG, us(15)), Unknown, "it is no thread of the VM");
    }

    #[test]
    fn a_thread_that_wakes_while_it_blocks_waits_unless_it_wakes_again() {
        let records = [
            switch(0, 0, HOG, false, VCPU),
            waking(97, VCPU, 1),
            switch(100, 0, VCPU, true, HOG),
            switch(300, 1, HOG, false, VCPU),
            waking(397, VCPU, 1),
            switch(400, 1, VCPU, true, HOG),
            waking(600, VCPU, 0),
            switch(700, 0, HOG, false, VCPU),
            waking(710, VCPU, 1),
            switch(800, 0, VCPU, true, HOG),
        ];
        let history = history(&[VCPU], &records);
        let waits = |cpu| Doing::Waits(CpuId::new(cpu));
        let doing = [50, 100, 300, 500, 650, 750, 850].map(|at| history.doing(VCPU, us(at)));
        use Doing::{Runs, Sleeps};
        assert_eq!(doing, [Runs, waits(1), Runs, Sleeps, waits(0), Runs, Sleeps]);
    }

    #[test]
    fn the_nearest_run_of_a_thread_is_before_or_after_an_instant() {
        let records = [
            switch(100, 0, HOG, false, VCPU),
            switch(200, 0, VCPU, false, HOG),
            switch(300, 0, HOG, false, VCPU),
            switch(400, 0, VCPU, true, HOG),
        ];
        let history = history(&[VCPU], &records);
        let away = |at: u64| history.away_from_run(VCPU, us(at), Nanos::us(60)).map(|away| away.as_ns() / 1_000);
        assert_eq!(
            [50, 100, 150, 210, 260, 430, 500].map(away),
            [Some(50), Some(0), Some(0), Some(10), Some(40), Some(30), None]
        );
    }

    #[test]
    fn a_lost_switch_leaves_a_thread_unknown_and_ends_what_ran_on_its_cpu() {
        let history = history(&[VCPU], &[switch(0, 0, HOG, false, VCPU), switch(50, 0, 9, false, HOG)]);
        assert_eq!(history.doing(VCPU, us(50)), Doing::Unknown);
        let mut sums = BTreeMap::new();
        history.add_to(&mut sums, CpuId::new(0), us(20), us(70));
        assert_eq!(sums, BTreeMap::from([(VCPU, Nanos::us(30)), (HOG, Nanos::us(20))]));
        let mut history = self::history(&[VCPU], &[switch(0, 0, HOG, false, VCPU)]);
        history.lose();
        history.note(switch(50, 0, VCPU, false, HOG));
        assert_eq!(
            [0, 49, 50].map(|at| history.doing(VCPU, us(at))),
            [Doing::Unknown, Doing::Unknown, Doing::Waits(CpuId::new(0))]
        );
    }
}
