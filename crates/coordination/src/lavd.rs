//! The latency criticality of LAVD. Source: scx_lavd, src/bpf/lat_cri.bpf.c, scx at 7a58a3a.
//!
//! Two simplifications apply. A task is interactive if its criticality exceeds the average of all tasks. Only the
//! factors for which the simulator has data raise the weight of a task.

use sched::{Instant, Nanos, Wake};

/// Minimum interval between counted wake-ups of other tasks.
const INTERVAL_LEAST: Nanos = Nanos::us(500);
/// Maximum frequency. Unit: per second.
const FREQUENCY_MOST: u64 = 100_000;
/// Maximum length of a run. A longer run counts as a run of this length.
const RUNTIME_MOST: Nanos = Nanos::s(1);
const RUNTIME_UNIT: u64 = 500_000;
/// Additions to the weight of a task, in 1024ths.
const WAKE_UP: u64 = 128;
const SYNC: u64 = 128;
const BY_HARD_IRQ: u64 = 1024;
const AFFINE: u64 = 128;
const PINNED: u64 = 256;

/// The state of the rule for a task.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Lavd {
    /// Frequency at which the task blocks, and frequency at which it wakes other tasks. Unit: per second.
    wait_frequency: u64,
    wake_frequency: u64,
    runtime: u64,
    waited: Option<Instant>,
    woke: Option<Instant>,
    /// Latency criticality of the task.
    pub(crate) criticality: u64,
}

/// The properties of a task that wakes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Woken {
    /// Weight of the task; 1024 = normal.
    pub(crate) weight: u64,
    pub(crate) why: Wake,
    /// Number of CPUs in the task's affinity, and number of all CPUs.
    pub(crate) allowed: usize,
    pub(crate) cpus: usize,
}

fn smoothed(old: u64, new: u64) -> u64 {
    (old * 7 + new) / 8
}

fn frequency(interval: Nanos) -> u64 {
    (Nanos::s(1).as_ns() / interval.as_ns().max(1)).min(FREQUENCY_MOST)
}

fn log2(number: u64) -> u64 {
    u64::from(number.max(1).ilog2())
}

impl Lavd {
    /// Records that the task blocks at `now`, after a run of `time`.
    pub(crate) fn waits(&mut self, now: Instant, time: Nanos) {
        self.runtime = smoothed(self.runtime, time.min(RUNTIME_MOST).as_ns());
        if let Some(last) = self.waited.replace(now) {
            self.wait_frequency = smoothed(self.wait_frequency, frequency(now.saturating_since(last)));
        }
    }

    /// Records that the task wakes another task.
    pub(crate) fn wakes(&mut self, now: Instant) {
        let interval = self.woke.map(|last| now.saturating_since(last));
        if interval.is_some_and(|interval| interval < INTERVAL_LEAST) {
            return;
        }
        self.woke = Some(now);
        if let Some(interval) = interval {
            self.wake_frequency = smoothed(self.wake_frequency, frequency(interval));
        }
    }

    /// Records that the task was woken. `waker`: the criticality of the waker, if any.
    pub(crate) fn woken(&mut self, how: Woken, waker: Option<u64>) {
        let mut heavier = match how.why {
            Wake::By { sync: true, .. } => WAKE_UP + SYNC,
            Wake::Interrupt | Wake::Timer => WAKE_UP + BY_HARD_IRQ,
            Wake::By { .. } | Wake::New { .. } | Wake::Resumed => WAKE_UP,
        };
        if how.allowed < how.cpus {
            heavier += if how.allowed == 1 { AFFINE + PINNED } else { AFFINE };
        }
        let weight = how.weight * (1024 + heavier) / 1024 + 1;
        let short = (RUNTIME_MOST.as_ns() - self.runtime) / RUNTIME_UNIT + 1;
        let sum = log2(self.wait_frequency * self.wake_frequency) + log2(short * weight);
        let own = sum * sum;
        let giver = waker.map_or(0, |waker| waker + own);
        let inherited = if giver > 2 * own { ((giver - 2 * own) >> 3).min(own >> 2) } else { 0 };
        self.criticality = own + inherited;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BY_TIMER: Woken = Woken { weight: 1024, why: Wake::Timer, allowed: 1, cpus: 1 };

    fn ms(ms: u64) -> Instant {
        Instant::ZERO + Nanos::ms(ms)
    }

    #[test]
    fn frequencies_and_runtimes_are_smoothed_by_an_eighth() {
        let mut task = Lavd::default();
        task.waits(ms(10), Nanos::ms(8));
        assert_eq!((task.runtime, task.wait_frequency), (1_000_000, 0), "one wait is no interval");
        task.waits(ms(20), Nanos::ms(8));
        assert_eq!((task.runtime, task.wait_frequency), (1_875_000, 12), "100 in a second, an eighth of it");
        task.wakes(ms(20));
        task.wakes(ms(20) + Nanos::us(499));
        assert_eq!(task.wake_frequency, 0, "too soon to count");
        task.wakes(ms(20) + Nanos::us(500));
        assert_eq!(task.wake_frequency, 250);
    }

    #[test]
    fn criticality_is_the_square_of_two_logarithms() {
        // A task without history except a wake-up by a timer: 2001 · (1024 · (1024 + 128 + 1024) / 1024 + 1) is
        // 2^22.05.
        let mut task = Lavd::default();
        task.woken(BY_TIMER, None);
        assert_eq!(task.criticality, 22 * 22);
        // Per second, the task blocks 16 times and wakes other tasks 64 times. This adds log2(16 · 64) = 10.
        let mut task = Lavd { wait_frequency: 16, wake_frequency: 64, ..Lavd::default() };
        task.woken(BY_TIMER, None);
        assert_eq!(task.criticality, 32 * 32);
        // A task that runs for 900 ms on average: 201 · 2177 is 2^18.7.
        let mut task = Lavd { runtime: Nanos::ms(900).as_ns(), ..Lavd::default() };
        task.woken(BY_TIMER, None);
        assert_eq!(task.criticality, 18 * 18);
        // A task pinned to one of two CPUs: 2001 · (1024 · (1024 + 128 + 384) / 1024 + 1) is 2^21.6.
        task = Lavd::default();
        task.woken(Woken { why: Wake::Resumed, cpus: 2, ..BY_TIMER }, None);
        assert_eq!(task.criticality, 21 * 21, "2001 · 1537 is 2^21.6");
    }

    #[test]
    fn a_critical_waker_hands_some_of_it_on() {
        let by = |waker| {
            let mut task = Lavd::default();
            task.woken(Woken { why: Wake::Resumed, ..BY_TIMER }, Some(waker));
            task.criticality
        };
        // The product 2001 · 1153 is 2^21.1.
        assert_eq!(by(441), 441, "one as critical as itself gives nothing");
        assert_eq!(by(441 + 80), 441 + 10, "an eighth of what it is ahead");
        assert_eq!(by(4410), 441 + 110, "a quarter of its own at most");
    }
}
