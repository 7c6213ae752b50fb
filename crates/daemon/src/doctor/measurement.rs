//! [`Measurement`]: what the mechanisms that can keep a promise have delivered on this host.

use super::mechanism::Mechanism;
use crate::Explanation;
use sched::Nanos;
use std::cmp::Reverse;

/// Smaller differences between errors are chance. Unit: parts per million of a CPU.
const POINT_PPM: u64 = 10_000;
/// Smaller differences between missed periods are chance. Unit: parts per million of the periods.
const MISSED_PPM: u64 = 10_000;

/// Minimum duration of a run whose result decides how promises are kept.
pub const LENGTH_LEAST: Nanos = Nanos::s(5);

/// What a mechanism has delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Delivered {
    /// CPU time as a share of the run. Unit: parts per million of a CPU.
    pub ppm: u64,
    /// Delivered minus promised share. Unit: parts per million of a CPU.
    pub error_ppm: i64,
    /// Number of judged periods.
    pub periods_judged: u64,
    /// Number of missed periods.
    pub periods_missed: u64,
}

impl Delivered {
    /// Returns the missed periods as a share of the judged periods, in parts per million.
    fn missed_ppm(&self) -> u64 {
        (self.periods_missed * 1_000_000).checked_div(self.periods_judged).unwrap_or(1_000_000)
    }

    /// Returns whether this result has far fewer missed periods than `other`.
    fn is_better_than(&self, other: &Delivered) -> bool {
        self.missed_ppm() + MISSED_PPM < other.missed_ppm()
    }

    fn in_words(&self) -> String {
        format!("{} of {} periods", self.periods_missed, self.periods_judged)
    }
}

/// Results of a promise by each mechanism, beside busy processes.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Measurement {
    /// ID of the boot in which the host was measured.
    pub boot: String,
    /// Duration of each run.
    pub length: Nanos,
    /// The mechanisms, in the order in which `auto` prefers them, each with its result.
    pub each: Vec<(Mechanism, Result<Delivered, Explanation>)>,
}

impl Measurement {
    /// Returns the mechanism with the fewest missed periods, and then the smallest error in whole percent; the first of
    /// equal ones.
    #[must_use]
    pub fn best(&self) -> Option<(Mechanism, Delivered)> {
        let works = self.each.iter().filter_map(|(mechanism, outcome)| Some((*mechanism, *outcome.as_ref().ok()?)));
        works.max_by_key(|(mechanism, it)| {
            Reverse((it.missed_ppm(), it.error_ppm.unsigned_abs() / POINT_PPM, *mechanism))
        })
    }

    /// Returns the result of `mechanism`, if it works and ran for long enough.
    fn of(&self, mechanism: Mechanism) -> Option<&Delivered> {
        if self.length < LENGTH_LEAST {
            return None;
        }
        self.each.iter().find(|(other, _)| *other == mechanism)?.1.as_ref().ok()
    }

    /// Returns the reason why threads are not raised by inheritance, although that works; `None` if inheritance may be used.
    #[must_use]
    pub fn against_inheritance(&self) -> Option<Explanation> {
        let (inherited, set) = (self.of(Mechanism::Inheritance)?, self.of(Mechanism::Fifo)?);
        let why = || {
            format!(
                "threads that inherited a priority missed {} on this host, and threads in SCHED_FIFO {}",
                inherited.in_words(),
                set.in_words()
            )
        };
        set.is_better_than(inherited).then(|| Explanation::new(why(), "use `--mechanism inherit` to use inheritance"))
    }

    /// Returns what was measured for `chosen`, as a clause that follows the reason for the choice; `None` if it was not
    /// measured. SCHED_DEADLINE is never chosen for its result, because it keeps a thread from using more than its slice.
    #[must_use]
    pub fn about(&self, chosen: Mechanism) -> Option<String> {
        let delivered = self.of(chosen)?;
        let mut words = format!("measured: {} missed", delivered.in_words());
        if let Some(deadline) = self.of(Mechanism::Deadline).filter(|it| it.is_better_than(delivered)) {
            words += &format!(
                "; SCHED_DEADLINE (`--mechanism deadline`) missed {}, but its slice is also the limit",
                deadline.in_words()
            );
        }
        Some(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Mechanism; 3] = [Mechanism::Inheritance, Mechanism::Fifo, Mechanism::Deadline];

    fn delivered(error_ppm: i64, periods_missed: u64) -> Result<Delivered, Explanation> {
        Ok(Delivered { ppm: 200_000_u64.strict_add_signed(error_ppm), error_ppm, periods_judged: 100, periods_missed })
    }

    fn fails() -> Result<Delivered, Explanation> {
        Err(Explanation::new("it does not work", ""))
    }

    fn measured(outcomes: [Result<Delivered, Explanation>; 3]) -> Measurement {
        Measurement { boot: "boot".into(), length: LENGTH_LEAST, each: ALL.into_iter().zip(outcomes).collect() }
    }

    #[test]
    fn the_fewest_misses_come_before_the_smallest_error() {
        let best = |outcomes| measured(outcomes).best().map(|(mechanism, _)| mechanism);
        assert_eq!(best([delivered(0, 5), delivered(-10_000, 0), delivered(-20_000, 1)]), Some(Mechanism::Fifo));
        assert_eq!(best([delivered(-20_000, 0), delivered(15_000, 0), delivered(4_000, 0)]), Some(Mechanism::Deadline));
        let equal = [delivered(9_000, 0), delivered(0, 0), delivered(-9_000, 0)];
        assert_eq!(best(equal), Some(Mechanism::Inheritance));
        assert_eq!(best([fails(), fails(), delivered(-200_000, 100)]), Some(Mechanism::Deadline));
        assert_eq!(best([fails(), fails(), fails()]), None);
    }

    #[test]
    fn threads_are_not_raised_by_inheritance_where_it_missed_far_more() {
        let against = |outcomes| measured(outcomes).against_inheritance().map(|why| why.reason.into_owned());
        assert_eq!(against([delivered(0, 1), delivered(0, 0), fails()]), None, "one period of a hundred is chance");
        assert_eq!(against([delivered(0, 9), fails(), delivered(0, 0)]), None);
        let why = against([delivered(0, 9), delivered(0, 2), fails()]).unwrap();
        assert!(why.contains("missed 9 of 100 periods") && why.ends_with("SCHED_FIFO 2 of 100 periods"), "{why}");
    }

    #[test]
    fn the_choice_names_its_result_and_a_better_one_that_it_does_not_take() {
        let about = |outcomes, chosen| measured(outcomes).about(chosen);
        let outcomes = || [delivered(0, 3), fails(), delivered(0, 2)];
        assert_eq!(about(outcomes(), Mechanism::Inheritance).unwrap(), "measured: 3 of 100 periods missed");
        assert_eq!(about(outcomes(), Mechanism::Fifo), None);
        let short =
            Measurement { length: Nanos::s(1), ..measured([delivered(0, 9), delivered(0, 0), delivered(0, 0)]) };
        assert_eq!((short.about(Mechanism::Inheritance), short.against_inheritance()), (None, None));
        let words = about([delivered(0, 3), fails(), delivered(0, 0)], Mechanism::Inheritance).unwrap();
        assert!(
            words.ends_with("(`--mechanism deadline`) missed 0 of 100 periods, but its slice is also the limit"),
            "{words}"
        );
    }
}
