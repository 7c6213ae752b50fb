//! [`Starts`]: the start skews of a gang.

use sched::{Instant, Nanos, Reservation};
use std::collections::BTreeMap;
use trace::Durations;

/// The starts of the members of a gang in its current period.
#[derive(Clone, Debug, Default)]
pub(super) struct Starts {
    /// Beginning and length of the current period. `None`: no member has a reservation.
    period: Option<(Instant, Nanos)>,
    /// For each member that was runnable from the beginning of the period until its start, by entity index: its start,
    /// or `None` before its start. Empty before the first period.
    of: BTreeMap<usize, Option<Instant>>,
    skews: Durations,
}

impl Starts {
    /// Returns the start skews; `None` if no member has had a reservation.
    pub(super) fn skews(&self) -> Option<&Durations> {
        self.period.map(|_| &self.skews)
    }

    /// Applies the reservation of a new or changed member. The periods of the gang follow one another from the start of
    /// the first member, and change with their length.
    pub(super) fn promise(&mut self, reservation: &Reservation, now: Instant, is_first: bool) {
        if !is_first && self.period.is_some_and(|(_, length)| length == reservation.period) {
            return;
        }
        // The first period begins without a known state of the members, and is not counted.
        self.of.clear();
        self.period = Some((reservation.start.unwrap_or(now).max(now), reservation.period));
    }

    /// Returns whether the current period is over at `now`.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.period.is_some_and(|(begin, length)| now >= begin.saturating_add(length))
    }

    /// Ends the current period, and begins the period that contains `now`. Periods that begin before `from` have no start
    /// skew. `members` are the entity indices of the members, with their states (runnable, running) before `now`, which
    /// are those at the beginning of the period.
    pub(super) fn begin(&mut self, from: Instant, now: Instant, members: impl Iterator<Item = (usize, bool, bool)>) {
        let Some((begin, length)) = self.period else { return };
        self.end(begin.saturating_add(length), begin >= from);
        let begin = begin.saturating_add(length.saturating_mul(now.since(begin).as_ns() / length.as_ns()));
        self.period = Some((begin, length));
        let runnable = members.filter(|&(_, runnable, _)| runnable);
        self.of = runnable.map(|(index, _, runs)| (index, runs.then_some(begin))).collect();
    }

    /// Applies the state of member `index` from `now` on.
    pub(super) fn change(&mut self, index: usize, now: Instant, is_runnable: bool, runs: bool) {
        let Some(start) = self.of.get_mut(&index) else { return };
        if runs {
            start.get_or_insert(now);
            return;
        }
        // A member that stops as the period begins has not run in the period.
        if self.period.is_some_and(|(begin, _)| begin == now) {
            *start = None;
        }
        if start.is_none() && !is_runnable {
            self.of.remove(&index);
        }
    }

    /// Ends the current period at `end`. Records its start skew if the period is measured.
    fn end(&mut self, end: Instant, is_measured: bool) {
        let of = std::mem::take(&mut self.of);
        let starts = || of.values().map(|start| start.unwrap_or(end));
        // Without any start, the whole gang waits for a period with a slice.
        if let (Some(first), Some(last)) = (starts().min(), starts().max())
            && is_measured
            && of.len() > 1
            && first < end
        {
            self.skews.record(last.since(first));
        }
    }
}
