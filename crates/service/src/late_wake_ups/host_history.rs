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
    /// The thread waits for this CPU: it was preempted there, or has woken and runs there next.
    Waits(CpuId),
    Sleeps,
}

/// What a thread did: each change, with its instant.
#[derive(Debug, Default)]
struct Changes {
    past: VecDeque<(Instant, Doing)>,
    /// The wake-up of the thread while it runs, with the CPU on which it ran last.
    woken: Option<(Instant, CpuId)>,
    /// Whether the thread waits because this wake-up came while it blocked.
    is_assumed: bool,
    /// Whether the thread waits since a wake-up. The CPU for which it waits is known when it runs.
    has_woken: bool,
}

impl Changes {
    fn now(&self) -> Doing {
        self.past.back().map_or(Doing::Unknown, |(_, doing)| *doing)
    }

    fn push(&mut self, at: Instant, doing: Doing) {
        if self.past.len() == PAST_MOST {
            self.past.pop_front();
        }
        // A CPU of which records were lost may say later what was before.
        let at = self.past.back().map_or(at, |(last, _)| at.max(*last));
        self.past.push_back((at, doing));
        (self.woken, self.is_assumed, self.has_woken) = (None, false, false);
    }

    /// The thread runs on `cpu` from `at` on.
    fn run(&mut self, at: Instant, cpu: CpuId) {
        if self.has_woken
            && let Some((_, waits)) = self.past.back_mut()
        {
            *waits = Doing::Waits(cpu);
        }
        self.push(at, Doing::Runs);
    }

    /// The thread blocks at `at`.
    fn block(&mut self, at: Instant) {
        match self.woken.filter(|(woken, _)| at.saturating_since(*woken) <= RACE_MOST) {
            Some((_, last)) => {
                self.push(at, Doing::Waits(last));
                (self.is_assumed, self.has_woken) = (true, true);
            }
            None => self.push(at, Doing::Sleeps),
        }
    }

    /// The thread wakes at `at`. `last` is the CPU on which it ran last.
    fn wake(&mut self, at: Instant, last: CpuId) {
        match self.now() {
            Doing::Runs => {
                self.woken = Some((at, last));
                return;
            }
            // The thread has gone to sleep after all.
            Doing::Waits(_) if self.is_assumed => self.past.back_mut().expect("the thread waits").1 = Doing::Sleeps,
            Doing::Waits(_) => return,
            Doing::Sleeps | Doing::Unknown => {}
        }
        self.push(at, Doing::Waits(last));
        self.has_woken = true;
    }

    /// What the thread did after `at` is not known.
    fn lose(&mut self, at: Instant) {
        self.past.truncate(self.after(at));
        self.push(at, Doing::Unknown);
    }

    /// Forgets the changes before `at`, but for the last one of them.
    fn forget(&mut self, at: Instant) {
        while self.past.get(1).is_some_and(|(next, _)| *next <= at) {
            self.past.pop_front();
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
}

impl HostHistory {
    /// The history of the threads with these tids, of which nothing is known yet.
    pub(crate) fn new(tids: impl Iterator<Item = u32>) -> HostHistory {
        let threads = tids.map(|tid| (tid, Changes::default())).collect();
        HostHistory { cpus: BTreeMap::new(), threads }
    }

    /// Notes records, in the order of their instants and after those of earlier calls. `lost`: the instant after which records of a CPU were lost.
    pub(crate) fn note_all(&mut self, records: &[Record], lost: Option<Instant>) {
        let known = lost.map_or(0, |lost| records.partition_point(|record| record.at <= lost));
        let (before, after) = records.split_at(known);
        before.iter().for_each(|record| self.note(*record));
        if let Some(lost) = lost {
            self.lose(lost);
        }
        after.iter().for_each(|record| self.note(*record));
    }

    fn note(&mut self, Record { at, cpu, event }: Record) {
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
                self.change(to, |thread| thread.run(at, cpu));
            }
            Event::Waking { tid, target, .. } => self.change(tid, |thread| thread.wake(at, target)),
            _ => {}
        }
    }

    /// Records after `at` were lost.
    fn lose(&mut self, at: Instant) {
        self.threads.values_mut().for_each(|thread| thread.lose(at));
        for cpu in self.cpus.values_mut() {
            cpu.end(at);
        }
    }

    /// Forgets what was before `at`.
    pub(crate) fn forget(&mut self, at: Instant) {
        self.threads.values_mut().for_each(|thread| thread.forget(at));
        self.cpus.values_mut().for_each(|cpu| cpu.forget(at));
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
        let near = |(instant, _): &&(Instant, Doing)| instant.saturating_since(at) <= most;
        let starts = thread.past.range(next..).take_while(near).find(|(_, doing)| *doing == Doing::Runs);
        // A run ends at the change that follows it.
        let is_near = |nth: &usize| at.saturating_since(thread.past[*nth].0) <= most;
        let ended = (1..next).rev().take_while(is_near).find(|nth| thread.past[nth - 1].1 == Doing::Runs);
        let starts = starts.map(|(start, _)| start.saturating_since(at));
        let ended = ended.map(|nth| at.saturating_since(thread.past[nth].0));
        starts.into_iter().chain(ended).min()
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

    pub(crate) fn waking(at: u64, tid: u32, last: usize) -> Record {
        let event = Event::Waking { tid, target: CpuId::new(last), by: Waker::Interrupt };
        Record { at: us(at), cpu: CpuId::new(0), event }
    }

    pub(crate) fn history(tids: &[u32], records: &[Record]) -> HostHistory {
        let mut history = HostHistory::new(tids.iter().copied());
        history.note_all(records, None);
        history
    }

    const VCPU: u32 = 7;
    const HOG: u32 = 8;

    #[test]
    fn a_thread_runs_waits_where_it_woke_or_was_preempted_and_sleeps() {
        let records = [
            switch(10, 0, HOG, false, VCPU),
            switch(20, 0, VCPU, true, HOG),
            // It ran on CPU 0 last, and will run on CPU 1.
            waking(30, VCPU, 0),
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
        history.note_all(&[switch(30, 0, VCPU, true, HOG)], None);
        // Records of another CPU after 20 us were lost.
        history.note_all(&[switch(50, 0, VCPU, false, HOG)], Some(us(20)));
        let waits = Doing::Waits(CpuId::new(0));
        let doing = [0, 20, 35, 50].map(|at| history.doing(VCPU, us(at)));
        assert_eq!(doing, [Doing::Runs, Doing::Unknown, Doing::Unknown, waits]);
        // Records after the last one were lost.
        history.note_all(&[switch(60, 0, HOG, false, VCPU)], Some(us(60)));
        assert_eq!(history.doing(VCPU, us(70)), Doing::Unknown);
        history.forget(us(40));
        assert_eq!([10, 45, 50].map(|at| history.doing(VCPU, us(at))), [Doing::Unknown, Doing::Unknown, waits]);
    }
}
