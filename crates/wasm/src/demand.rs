//! [`Demand`]: what a thread wants, from its bursts.
//!
//! A thread either waits for a timer or for an event. A timer expires at multiples of its period, however long the thread
//! waited for a CPU; jobs that were released meanwhile run one after another. An event comes some time after the end of a
//! burst: a reply to a request, the next block of a disk. Bursts whose starts are multiples of a period apart are those of
//! a timer.

/// Minimum number of bursts from which a period is recognized.
const BURSTS_LEAST: usize = 5;
/// Tolerance of a start, in thousandths of the period, and the number of starts in thousandths that must be within it. On
/// a real host, a start is late by the wait for a CPU.
const TOLERANCE: u64 = 100;
const WITHIN_LEAST: usize = 900;

/// A burst: time from the start of the observation to its start, its CPU time, and the sleep after it. Unit: ns.
pub(crate) type Burst = [u64; 3];

/// What a thread wants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Demand {
    /// The thread sleeps.
    Nothing,
    /// The thread is always runnable.
    Always,
    /// Jobs that a timer releases. Unit: ns.
    Timer {
        first: u64,
        period: u64,
        /// CPU time of each job; 0: the thread let the release pass.
        jobs: Vec<u64>,
    },
    /// CPU time of each burst and the sleep after it. Unit: ns.
    Events { first: u64, bursts: Vec<[u64; 2]> },
}

impl Demand {
    /// Returns the demand of a thread with these bursts, in their order.
    pub(crate) fn of(bursts: &[Burst], is_observed: bool) -> Demand {
        match bursts {
            [] if is_observed => Demand::Nothing,
            [] | [[_, _, 0]] => Demand::Always,
            [[first, ..], ..] => Demand::of_timer(bursts).unwrap_or_else(|| Demand::Events {
                first: *first,
                bursts: bursts.iter().map(|&[_, ran, slept]| [ran, slept]).collect(),
            }),
        }
    }

    /// Returns the demand from the end of an observation of `length` ns on. A timer goes on. Events repeat from the start of the
    /// observation, because their instants depend on the CPU time that the thread received.
    pub(crate) fn after(self, length: u64) -> Demand {
        let Demand::Timer { first, period, mut jobs } = self else { return self };
        let passed = length.saturating_sub(first).div_ceil(period);
        let number = usize::try_from(passed).unwrap_or(usize::MAX) % jobs.len();
        jobs.rotate_left(number);
        Demand::Timer { first: (first + passed * period).saturating_sub(length), period, jobs }
    }

    /// Returns the timer of a thread; `None`: the starts have no common period.
    fn of_timer(bursts: &[Burst]) -> Option<Demand> {
        if bursts.len() < BURSTS_LEAST {
            return None;
        }
        let starts: Vec<u64> = bursts.iter().map(|burst| burst[0]).collect();
        let mut gaps: Vec<u64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        gaps.sort_unstable();
        // Some gaps have several periods. The shortest gaps are those of late starts.
        let guess = gaps[gaps.len() / 4];
        let numbers = numbers(&starts, guess)?;
        let (first, period) = line(&numbers, &starts)?;
        let at = |number: u64| first + i128::from(number) * i128::from(period);
        let is_near = |(number, start): (&u64, &u64)| {
            (i128::from(*start) - at(*number)).unsigned_abs() * 1_000 <= u128::from(period * TOLERANCE)
        };
        let near = numbers.iter().zip(&starts).filter(|pair| is_near(*pair)).count();
        if near * 1_000 < starts.len() * WITHIN_LEAST {
            return None;
        }
        let jobs = jobs(bursts, &numbers, period);
        Some(Demand::Timer { first: u64::try_from(first).unwrap_or(0), period, jobs })
    }
}

/// Returns the number of each start in periods of about `period` ns. `None`: there is no period.
fn numbers(starts: &[u64], period: u64) -> Option<Vec<u64>> {
    let mut number = 0;
    let mut numbers = vec![0];
    for pair in starts.windows(2) {
        let gap = pair[1] - pair[0];
        number += ((gap + period / 2).checked_div(period)?).max(1);
        numbers.push(number);
    }
    Some(numbers)
}

/// Returns the line through the starts: that of number 0, and the period. Least squares.
fn line(numbers: &[u64], starts: &[u64]) -> Option<(i128, u64)> {
    let count = numbers.len() as i128;
    let sum = |values: &[u64]| values.iter().map(|&value| i128::from(value)).sum::<i128>();
    let (x, y) = (sum(numbers), sum(starts));
    let products: i128 = numbers.iter().zip(starts).map(|(&x, &y)| i128::from(x) * i128::from(y)).sum();
    let squares: i128 = numbers.iter().map(|&x| i128::from(x) * i128::from(x)).sum();
    let period = (count * products - x * y).checked_div(count * squares - x * x)?;
    Some(((y - period * x) / count, u64::try_from(period).ok().filter(|&period| period > 0)?))
}

/// Returns the CPU time of the job of each period. A burst that lasts beyond the next release has several jobs.
fn jobs(bursts: &[Burst], numbers: &[u64], period: u64) -> Vec<u64> {
    let mut all = Vec::new();
    for (at, &[start, ran, slept]) in bursts.iter().enumerate() {
        let (periods, lasted) = match bursts.get(at + 1) {
            Some(next) => (numbers[at + 1] - numbers[at], (next[0] - start).saturating_sub(slept)),
            None => (1, 0),
        };
        let jobs = (1 + lasted / period).min(periods);
        all.extend((0..jobs).map(|_| ran / jobs));
        all.extend((jobs..periods).map(|_| 0));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns `count` bursts of 2 ms every 10 ms, with the delay of `late(number)` ns.
    fn every_10_ms(count: u64, late: impl Fn(u64) -> u64) -> Vec<Burst> {
        (0..count).map(|number| [3_000_000 + number * 10_000_000 + late(number), 2_000_000, 8_000_000]).collect()
    }

    #[test]
    fn a_thread_without_bursts_sleeps_or_is_unknown_and_one_that_never_slept_is_busy() {
        assert_eq!(Demand::of(&[], true), Demand::Nothing);
        assert_eq!(Demand::of(&[], false), Demand::Always);
        assert_eq!(Demand::of(&[[0, 5, 0]], true), Demand::Always);
        let bursts = vec![[5, 7]];
        assert_eq!(Demand::of(&[[3, 5, 7]], true), Demand::Events { first: 3, bursts });
    }

    #[test]
    fn starts_at_multiples_of_a_period_are_those_of_a_timer() {
        let timer = |jobs| Demand::Timer { first: 3_000_000, period: 10_000_000, jobs };
        assert_eq!(Demand::of(&every_10_ms(20, |_| 0), true), timer(vec![2_000_000; 20]));
        let after = |length| Demand::of(&every_10_ms(20, |_| 0), true).after(length);
        let goes_on = |first| Demand::Timer { first, period: 10_000_000, jobs: vec![2_000_000; 20] };
        assert_eq!(after(0), goes_on(3_000_000));
        assert_eq!(after(199_000_000), goes_on(4_000_000));
        assert_eq!(after(203_000_000), goes_on(0));
        // Starts are late by up to 0.8 ms.
        let Demand::Timer { period, .. } = Demand::of(&every_10_ms(20, |number| number * 7 % 5 * 200_000), true) else {
            panic!("it is a timer")
        };
        assert!((9_900_000..10_100_000).contains(&period), "{period}");
        // The second burst lasts beyond the third release, and the thread lets the fourth pass.
        let mut bursts = every_10_ms(20, |_| 0);
        bursts[1] = [13_000_000, 4_000_000, 18_000_000];
        bursts.drain(2..4);
        let mut jobs = vec![2_000_000; 20];
        jobs[3] = 0;
        assert_eq!(Demand::of(&bursts, true), timer(jobs));
    }

    #[test]
    fn starts_that_drift_are_those_of_events() {
        let drifting = every_10_ms(40, |number| number * number * 300_000);
        assert!(matches!(Demand::of(&drifting, true), Demand::Events { first: 3_000_000, .. }));
    }
}
