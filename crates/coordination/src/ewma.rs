//! Smoothed bursts and sleeps of a task. A task with short bursts and long sleeps is interactive. The rule and its
//! constants are ours.

use sched::Nanos;

/// Mean burst below which a task may become interactive.
const ENTERS_BELOW: Nanos = Nanos::ms(2);
/// Mean burst above which a task is no longer interactive.
const LEAVES_ABOVE: Nanos = Nanos::ms(4);
/// Minimum ratio of the mean sleep to the mean burst of an interactive task.
const SLEEP_LEAST: u64 = 3;

/// The state of the rule for a task.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Ewma {
    /// Mean of the task's bursts, and mean of its sleeps. `None`: no burst or sleep so far.
    burst: Option<Nanos>,
    sleep: Option<Nanos>,
    interactive: bool,
}

impl Ewma {
    /// Records the end of a burst.
    pub(crate) fn ran(&mut self, burst: Nanos) {
        self.burst = Some(smoothed(self.burst, burst));
        self.leave(Nanos::ZERO);
    }

    /// Records the end of a sleep.
    pub(crate) fn slept(&mut self, sleep: Nanos) {
        self.sleep = Some(smoothed(self.sleep, sleep));
        let (Some(burst), Some(sleep)) = (self.burst, self.sleep) else { return };
        if burst < ENTERS_BELOW && sleep >= burst.saturating_mul(SLEEP_LEAST) {
            self.interactive = true;
        }
        self.leave(Nanos::ZERO);
    }

    /// Records that the task has run for `burst` and continues.
    pub(crate) fn runs(&mut self, burst: Nanos) {
        self.leave(burst);
    }

    fn leave(&mut self, burst: Nanos) {
        let mean = self.burst.unwrap_or(burst);
        self.interactive &= mean.max(smoothed(self.burst, burst)) <= LEAVES_ABOVE;
    }

    pub(crate) fn is_interactive(&self) -> bool {
        self.interactive
    }
}

/// Returns the old mean, moved by an eighth of the distance to `new`. Without an old mean, returns `new`.
fn smoothed(mean: Option<Nanos>, new: Nanos) -> Nanos {
    match mean {
        None => new,
        Some(mean) => {
            Nanos::ns((mean.as_ns() / 8 * 7).saturating_add(mean.as_ns() % 8 * 7 / 8).saturating_add(new.as_ns() / 8))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_sleeps_three_times_as_long_as_its_short_bursts_is_interactive() {
        let verdict = |burst, sleep| {
            let mut task = Ewma::default();
            task.ran(Nanos::us(burst));
            assert!(!task.is_interactive(), "nothing is known of its sleeps");
            task.slept(Nanos::us(sleep));
            task.is_interactive()
        };
        assert!(verdict(1_000, 3_000));
        assert!(!verdict(1_000, 2_999), "it sleeps too little");
        assert!(verdict(1_999, 100_000));
        assert!(!verdict(2_000, 100_000), "it runs too long");
    }

    #[test]
    fn it_stays_interactive_until_its_mean_burst_is_beyond_4_ms() {
        let mut task = Ewma::default();
        task.ran(Nanos::ms(1));
        task.slept(Nanos::ms(100));
        // The mean is 7/8 · 1 ms + 1/8 · 25 ms = 4 ms. With a burst longer by 8 ns, the mean exceeds the limit by 1 ns.
        task.runs(Nanos::ms(25));
        assert!(task.is_interactive());
        task.runs(Nanos::ms(25) + Nanos::ns(8));
        assert!(!task.is_interactive());
        // A sleep makes the task interactive again only once its mean burst is below 2 ms.
        task.ran(Nanos::ms(10));
        task.slept(Nanos::ms(100));
        assert!(!task.is_interactive(), "the mean is 2.125 ms");
        task.ran(Nanos::ms(1));
        task.slept(Nanos::ms(100));
        assert!(task.is_interactive(), "the mean is 1.984 ms");
    }
}
