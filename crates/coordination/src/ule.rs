//! The interactivity score of FreeBSD's ULE. Source: `sched_interact_score`, `sched_interact_update` and
//! `sched_interact_fork`, sys/kern/sched_ule.c. Times are in nanoseconds; ULE's unit is ticks times 1024.

use sched::Nanos;

/// Maximum length of the history (`SCHED_SLP_RUN_MAX`).
const HISTORY: u64 = Nanos::s(5).as_ns();
/// Maximum length of the history that a child inherits (`SCHED_SLP_RUN_FORK`).
const INHERITED: u64 = Nanos::ms(500).as_ns();
/// Half of the scale (`SCHED_INTERACT_HALF`).
const HALF: u64 = 50;
/// Minimum score of a task that is not interactive (`SCHED_INTERACT_THRESH`).
const THRESHOLD: i64 = 30;

/// The state of the rule for a task.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Ule {
    run: u64,
    sleep: u64,
}

impl Ule {
    /// Records a run of `time`.
    pub(crate) fn ran(&mut self, time: Nanos) {
        self.run = self.run.saturating_add(time.as_ns());
        self.forget();
    }

    /// Records a sleep of `time`.
    pub(crate) fn slept(&mut self, time: Nanos) {
        self.sleep = self.sleep.saturating_add(time.as_ns());
        self.forget();
    }

    /// Returns the initial state of a child of the task.
    pub(crate) fn child(&self) -> Ule {
        let ratio = (self.run.saturating_add(self.sleep) / INHERITED).max(1);
        Ule { run: self.run / ratio, sleep: self.sleep / ratio }
    }

    /// Records the end of a child of the task.
    pub(crate) fn merge_child(&mut self, child: &Ule) {
        self.run = self.run.saturating_add(child.run);
        self.forget();
    }

    fn forget(&mut self) {
        let sum = self.run.saturating_add(self.sleep);
        if sum < HISTORY {
            return;
        }
        if sum > 2 * HISTORY {
            (self.run, self.sleep) = if self.run > self.sleep { (HISTORY, 1) } else { (1, HISTORY) };
        } else if sum > HISTORY / 5 * 6 {
            (self.run, self.sleep) = (self.run / 2, self.sleep / 2);
        } else {
            (self.run, self.sleep) = (self.run / 5 * 4, self.sleep / 5 * 4);
        }
    }

    /// Returns the score of a task with this nice value. A lower score is more interactive.
    pub(crate) fn score(&self, nice: i32) -> i64 {
        let Ule { run, sleep } = *self;
        let score = match () {
            // The order of the operations matters: for times below 2.5 us, the quotient can exceed half of the scale.
            () if run > sleep => 2 * HALF - sleep / (run / HALF).max(1),
            () if sleep > run => run / (sleep / HALF).max(1),
            () if run > 0 => HALF,
            () => 0,
        };
        (i64::try_from(score).expect("it is at most 100") + i64::from(nice)).max(0)
    }

    pub(crate) fn is_interactive(&self, nice: i32) -> bool {
        self.score(nice) < THRESHOLD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(run: Nanos, sleep: Nanos) -> Ule {
        Ule { run: run.as_ns(), sleep: sleep.as_ns() }
    }

    #[test]
    fn the_worked_example_scores_16_and_84() {
        assert_eq!(of(Nanos::s(1), Nanos::s(3)).score(0), 16);
        assert!(of(Nanos::s(1), Nanos::s(3)).is_interactive(0));
        assert_eq!(of(Nanos::s(3), Nanos::s(1)).score(0), 84);
        assert!(!of(Nanos::s(3), Nanos::s(1)).is_interactive(0));
        assert_eq!((of(Nanos::s(1), Nanos::s(1)).score(0), Ule::default().score(0)), (50, 0));
        assert_eq!((of(Nanos::s(1), Nanos::s(3)).score(14), of(Nanos::s(1), Nanos::s(3)).score(-20)), (30, 0));
        assert!(!of(Nanos::s(1), Nanos::s(3)).is_interactive(14), "nice 14 is beyond the threshold");
        for run in 0..300 {
            for sleep in 0..300 {
                let score = Ule { run, sleep }.score(0);
                assert!((0..=100).contains(&score), "{run} {sleep}: {score}");
            }
        }
    }

    #[test]
    fn history_is_forgotten_in_three_ways() {
        let after = |run, sleep| {
            let mut task = of(run, sleep);
            task.slept(Nanos::ZERO);
            (task.run, task.sleep)
        };
        let ms = |run, sleep| (Nanos::ms(run).as_ns(), Nanos::ms(sleep).as_ns());
        assert_eq!(after(Nanos::ms(2_000), Nanos::ms(2_999)), ms(2_000, 2_999));
        assert_eq!(after(Nanos::ms(2_000), Nanos::ms(3_000)), ms(1_600, 2_400), "four fifths");
        assert_eq!(after(Nanos::ms(2_000), Nanos::ms(5_000)), ms(1_000, 2_500), "half");
        assert_eq!(after(Nanos::ms(2_000), Nanos::ms(9_000)), (1, HISTORY), "the larger alone");
    }

    #[test]
    fn a_child_takes_over_half_a_second_and_its_parent_pays_for_it() {
        let mut parent = of(Nanos::s(1), Nanos::s(3));
        let mut child = parent.child();
        assert_eq!((child.run, child.sleep), (Nanos::ms(125).as_ns(), Nanos::ms(375).as_ns()));
        child.ran(Nanos::ms(75));
        parent.merge_child(&child);
        assert_eq!(parent.run, Nanos::ms(1_200).as_ns());
    }
}
