//! [`Averages`]: decayed averages of load, runnable tasks and utilisation, as in the kernel.
//!
//! Time is divided into periods of 1024 µs, in units of 1024 ns. The contribution of a period halves every 32 periods.
//!
//! Source: per-entity load tracking, kernel/sched/pelt.c, v5.13 and v6.18.

use sched::{Instant, Nanos};

/// The maximum sum of a signal that was always 1. Source: `LOAD_AVG_MAX`, kernel/sched/sched-pelt.h.
const SUM_MOST: u64 = 47_742;
/// Number of units in a period, and the capacity of a CPU.
pub(super) const UNIT: u64 = 1024;
/// Number of periods in which a contribution halves.
const HALF_LIFE: u64 = 32;
/// Fractional bits of the factors by which sums decay.
const FACTOR_BITS: u32 = 32;

/// The factors by which a sum decays in 0 to 31 periods: `(2^32 − 1) · 2^(−n / 32)`, rounded down.
const FACTORS: [u64; HALF_LIFE as usize] = factors();

const fn factors() -> [u64; HALF_LIFE as usize] {
    const ONE: u128 = 1 << 63;
    // One half, then its square root five times: the factor of one period.
    let mut step = ONE / 2;
    let mut roots = 0;
    while roots < 5 {
        step = (step * ONE).isqrt();
        roots += 1;
    }
    let mut all = [0; HALF_LIFE as usize];
    let (mut power, mut n) = (ONE, 0);
    while n < all.len() {
        all[n] = ((((1 << FACTOR_BITS) - 1) * power) >> 63) as u64;
        power = (power * step) >> 63;
        n += 1;
    }
    all
}

/// Returns `sum` after `periods` periods.
fn decayed(sum: u64, periods: u64) -> u64 {
    let Some(halved) = sum.checked_shr(u32::try_from(periods / HALF_LIFE).unwrap_or(u32::MAX)) else { return 0 };
    let index = usize::try_from(periods % HALF_LIFE).expect("it is below 32");
    ((u128::from(halved) * u128::from(FACTORS[index])) >> FACTOR_BITS) as u64
}

/// The values of the signals since their last change.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Signals {
    /// Of a CPU, the weight in its root queue; of a task, 1 while the task is queued.
    pub(super) load: u64,
    /// Number of runnable tasks.
    pub(super) runnable: u64,
    /// Whether a task of the class runs.
    pub(super) running: bool,
}

/// The averages of a task or of a CPU. The average of a signal that was always 1 is 1024.
#[derive(Clone, Copy, Debug)]
pub(super) struct Averages {
    /// Instant up to which the sums are complete, except for less than one unit.
    updated: Instant,
    /// Number of complete units in the current period.
    part: u64,
    load_sum: u64,
    runnable_sum: u64,
    util_sum: u64,
    /// Average load: the average of the signal `load`, times the weight of a task.
    pub(super) load: u64,
    pub(super) runnable: u64,
    pub(super) util: u64,
    signals: Signals,
}

impl Averages {
    pub(super) const NONE: Averages = Averages {
        updated: Instant::ZERO,
        part: 0,
        load_sum: 0,
        runnable_sum: 0,
        util_sum: 0,
        load: 0,
        runnable: 0,
        util: 0,
        signals: Signals { load: 0, runnable: 0, running: false },
    };

    /// The sum of a signal that was always 1, at this part of the period.
    const fn divider(&self) -> u64 {
        SUM_MOST - UNIT + self.part
    }

    /// Adds the time up to `now` to the averages, then sets the signals. `weight` is the weight of a task, or 1 for a
    /// CPU.
    pub(super) fn update(&mut self, now: Instant, weight: u64, next: Signals) {
        self.advance(now, weight);
        self.signals = next;
    }

    /// Returns the present signals.
    pub(super) const fn signals(&self) -> Signals {
        self.signals
    }

    fn advance(&mut self, now: Instant, weight: u64) {
        let units = now.since(self.updated).as_ns() / UNIT;
        if units == 0 {
            return;
        }
        self.updated += Nanos::ns(units * UNIT);
        let (periods, part) = ((self.part + units) / UNIT, (self.part + units) % UNIT);
        let mut share = units;
        if periods > 0 {
            for sum in [&mut self.load_sum, &mut self.runnable_sum, &mut self.util_sum] {
                *sum = decayed(*sum, periods);
            }
            // The rest of the first period, the complete periods, and the current period.
            let complete = SUM_MOST - decayed(SUM_MOST, periods) - UNIT;
            share = decayed(UNIT - self.part, periods) + complete + part;
        }
        self.part = part;
        let Signals { load, runnable, running } = self.signals;
        self.load_sum += load * share;
        self.runnable_sum += runnable * share * UNIT;
        self.util_sum += u64::from(running) * share * UNIT;
        if periods > 0 {
            self.average(weight);
        }
    }

    fn average(&mut self, weight: u64) {
        let divider = self.divider();
        self.load = (u128::from(weight) * u128::from(self.load_sum) / u128::from(divider)) as u64;
        self.runnable = self.runnable_sum / divider;
        self.util = self.util_sum / divider;
    }

    /// Sets the averages of a new task of this weight on `cpu`. The task counts as always runnable. Its utilisation is
    /// its part of the utilisation of the CPU by weight, but at most half of the CPU's spare capacity. Source:
    /// `post_init_entity_util_avg`, kernel/sched/fair.c, v5.13 and v6.18.
    pub(super) fn start(&mut self, weight: u64, cpu: &Averages) {
        let most = UNIT.saturating_sub(cpu.util) / 2;
        let part = cpu.util * weight / (cpu.load + 1);
        self.util = if cpu.util == 0 { most } else { part.min(most) };
        self.runnable = self.util;
        self.load = weight;
    }

    /// Adds the averages of `task`, of this weight, to those of a CPU, which are up to date. Aligns the periods of the
    /// task with those of the CPU. `load` is the part of the task's load that counts in the CPU's root queue.
    pub(super) fn add(&mut self, task: &mut Averages, weight: u64, load: u64) {
        (task.updated, task.part) = (self.updated, self.part);
        let divider = self.divider();
        task.load_sum = (task.load * divider / weight.max(1)).max(1);
        task.runnable_sum = task.runnable * divider;
        task.util_sum = task.util * divider;
        self.load += load;
        self.load_sum += load * divider;
        self.runnable += task.runnable;
        self.runnable_sum += task.runnable_sum;
        self.util += task.util;
        self.util_sum += task.util_sum;
    }

    /// Subtracts the averages of `task` from those of a CPU. Both are up to date. `load` as in [`add`](Self::add).
    pub(super) fn subtract(&mut self, task: &Averages, load: u64) {
        let divider = self.divider();
        self.load = self.load.saturating_sub(load);
        self.load_sum = self.load * divider;
        self.runnable = self.runnable.saturating_sub(task.runnable);
        self.runnable_sum = self.runnable * divider;
        self.util = self.util.saturating_sub(task.util);
        self.util_sum = self.util * divider;
    }

    /// Changes the weight of a task, whose averages are up to date.
    pub(super) fn reweigh(&mut self, weight: u64) {
        self.load = (u128::from(weight) * u128::from(self.load_sum) / u128::from(self.divider())) as u64;
    }

    /// Replaces a part of the load of a CPU, whose averages are up to date.
    pub(super) fn replace_load(&mut self, old: u64, new: u64) {
        self.load = self.load.saturating_sub(old) + new;
        self.load_sum = self.load * self.divider();
    }
}

#[cfg(test)]
mod tests;
