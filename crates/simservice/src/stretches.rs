//! [`Stretches`]: which thread has run on each CPU in the latest time.

use sched::{CpuId, EntityId, Instant, Nanos};
use std::collections::{BTreeMap, VecDeque};

/// Time for which the past of each CPU, and the names of its threads, are kept.
pub(crate) const PAST: Nanos = Nanos::s(2);
/// Number of stretches that a CPU remembers. The oldest are forgotten.
const PAST_MOST: usize = 65_536;

/// Time in which one thread ran on a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stretch {
    pub(crate) tid: u32,
    pub(crate) from: Instant,
    pub(crate) until: Instant,
}

/// What runs and has run on a CPU.
#[derive(Clone, Debug, Default)]
struct OfCpu {
    running: Option<(EntityId, u32, Instant)>,
    past: VecDeque<Stretch>,
}

/// Which thread has run on each CPU in the last [`PAST`].
#[derive(Debug)]
pub(crate) struct Stretches(Vec<OfCpu>);

impl Stretches {
    pub(crate) fn new(cpus: usize) -> Stretches {
        Stretches(vec![OfCpu::default(); cpus])
    }

    /// Returns the entity that runs on a CPU.
    pub(crate) fn running(&self, cpu: CpuId) -> Option<EntityId> {
        self.0[cpu.index()].running.map(|(entity, ..)| entity)
    }

    pub(crate) fn run(&mut self, cpu: CpuId, entity: EntityId, tid: u32, now: Instant) {
        self.0[cpu.index()].running = Some((entity, tid, now));
    }

    pub(crate) fn stop(&mut self, cpu: CpuId, now: Instant) {
        let of_cpu = &mut self.0[cpu.index()];
        let Some((_, tid, from)) = of_cpu.running.take().filter(|(.., from)| *from < now) else { return };
        if of_cpu.past.len() == PAST_MOST {
            of_cpu.past.pop_front();
        }
        of_cpu.past.push_back(Stretch { tid, from, until: now });
    }

    /// Forgets the stretches that have ended before the last [`PAST`].
    pub(crate) fn forget(&mut self, now: Instant) {
        for of_cpu in &mut self.0 {
            while of_cpu.past.front().is_some_and(|stretch| stretch.until.saturating_add(PAST) < now) {
                of_cpu.past.pop_front();
            }
        }
    }

    /// Returns the stretches of each CPU from `from` until `now`, in order of time, cut to this interval.
    pub(crate) fn between(&self, from: Instant, now: Instant) -> Vec<Vec<Stretch>> {
        let of_cpu = |of_cpu: &OfCpu| {
            let present = of_cpu.running.map(|(_, tid, since)| Stretch { tid, from: since, until: now });
            let latest_first = present.into_iter().chain(of_cpu.past.iter().rev().copied());
            let inside = latest_first.take_while(|stretch| stretch.until > from);
            let cut = inside.map(|stretch| Stretch { from: stretch.from.max(from), ..stretch });
            let mut stretches: Vec<Stretch> = cut.filter(|stretch| stretch.from < stretch.until).collect();
            stretches.reverse();
            stretches
        };
        self.0.iter().map(of_cpu).collect()
    }

    /// Adds how long each thread ran on `cpu` between `from` and `until` to `sums`, and under 0 how long the CPU was idle.
    pub(crate) fn add_to(&self, sums: &mut BTreeMap<u32, Nanos>, cpu: CpuId, from: Instant, until: Instant) {
        let mut idle = until.saturating_since(from);
        for stretch in self.0[cpu.index()].past.iter().rev().take_while(|stretch| stretch.until > from) {
            let ran = stretch.until.min(until).saturating_since(stretch.from.max(from));
            *sums.entry(stretch.tid).or_default() += ran;
            idle = idle.saturating_sub(ran);
        }
        if !idle.is_zero() {
            *sums.entry(0).or_default() += idle;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stretches_of_an_interval_are_cut_to_it_and_old_ones_are_forgotten() {
        let (cpu, at) = (CpuId::new(0), |ms: u64| Instant::ZERO + Nanos::ms(ms));
        let mut stretches = Stretches::new(2);
        for (tid, from, until) in [(7, 0, 10), (8, 10, 12), (7, 20, 30)] {
            stretches.run(cpu, EntityId::new(tid, 0), tid, at(from));
            stretches.stop(cpu, at(until));
        }
        stretches.run(cpu, EntityId::new(9, 0), 9, at(30));
        let shown = |stretches: &Stretches, from: u64, now: u64| -> Vec<(u32, u64, u64)> {
            let ms = |at: Instant| at.since(Instant::ZERO).as_ns() / 1_000_000;
            stretches.between(at(from), at(now))[0].iter().map(|it| (it.tid, ms(it.from), ms(it.until))).collect()
        };
        assert_eq!(shown(&stretches, 11, 35), [(8, 11, 12), (7, 20, 30), (9, 30, 35)]);
        assert_eq!(stretches.between(at(0), at(35))[1], []);
        stretches.forget(at(2_011));
        assert_eq!(shown(&stretches, 0, 31), [(8, 10, 12), (7, 20, 30), (9, 30, 31)]);
    }
}
