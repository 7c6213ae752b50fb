//! [`Recorded`]: measurements of the promises over the latest time, at several resolutions.

use api::{History, Measured, Series, TimeGrid, VmHistory};
use std::collections::{BTreeMap, VecDeque};

/// Length of an interval of each grid, and the number of its intervals: 5 minutes of seconds, an hour of quarters of a
/// minute, and a day of 5 minutes. Unit: ms.
const GRIDS: [(u64, usize); 3] = [(1_000, 300), (15_000, 240), (300_000, 288)];

/// What was measured in an interval.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Sample {
    judged: u32,
    missed: u32,
    due_us: u32,
    delivered_us: u32,
    short_us: u32,
}

impl Sample {
    fn of(measured: &Measured) -> Sample {
        let count = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        Sample {
            judged: count(measured.judged),
            missed: count(measured.missed),
            due_us: count(measured.due_ns / 1_000),
            delivered_us: count(measured.delivered_ns / 1_000),
            short_us: count(measured.short_ns / 1_000),
        }
    }

    fn add(&mut self, other: Sample) {
        self.judged = self.judged.saturating_add(other.judged);
        self.missed = self.missed.saturating_add(other.missed);
        self.due_us = self.due_us.saturating_add(other.due_us);
        self.delivered_us = self.delivered_us.saturating_add(other.delivered_us);
        self.short_us = self.short_us.saturating_add(other.short_us);
    }
}

/// The samples of a VM on one grid. An interval without a promise has no sample.
#[derive(Clone, Default, Debug)]
struct Samples {
    /// Number of the interval of the last sample, counted from 1970-01-01 00:00 UTC.
    last: u64,
    samples: VecDeque<Option<Sample>>,
}

impl Samples {
    fn add(&mut self, interval: u64, sample: Sample, most: usize) {
        // The time of the host may jump back: the sample counts in the last interval.
        let interval = interval.max(self.last);
        let gap = usize::try_from(interval - self.last).unwrap_or(usize::MAX);
        if gap >= most {
            self.samples.clear();
            self.samples.push_back(None);
        } else {
            self.samples.extend(std::iter::repeat_n(None, gap));
        }
        self.last = interval;
        let surplus = self.samples.len().saturating_sub(most);
        self.samples.drain(..surplus);
        if self.samples.is_empty() {
            self.samples.push_back(None);
        }
        self.samples.back_mut().expect("there is one").get_or_insert_default().add(sample);
    }

    /// Returns the sample of an interval.
    fn at(&self, interval: u64) -> Option<Sample> {
        let before_last = usize::try_from(self.last.checked_sub(interval)?).ok()?;
        *self.samples.get(self.samples.len().checked_sub(before_last + 1)?)?
    }
}

/// The measurements of a VM.
#[derive(Default, Debug)]
struct OfVm {
    /// The sums at the last call.
    before: Measured,
    grids: [Samples; GRIDS.len()],
}

/// Measurements of the promises over the latest time.
#[derive(Default, Debug)]
pub struct Recorded {
    of_vms: BTreeMap<String, OfVm>,
    /// Time of the last call, by the clock of the calendar. Unit: ms.
    last_ms: u64,
}

impl Recorded {
    /// Records the sums of the VMs with promises, if a second has passed since the last call.
    pub fn record<'m>(&mut self, now_ms: u64, vms: impl Iterator<Item = (&'m String, &'m Measured)>) {
        let finest = GRIDS[0].0;
        if now_ms / finest == self.last_ms / finest {
            return;
        }
        self.last_ms = now_ms;
        for (id, measured) in vms {
            let of_vm = self.of_vms.entry(id.clone()).or_default();
            // A new promise is measured anew.
            let is_new = measured.periods < of_vm.before.periods;
            let since = if is_new { *measured } else { measured.since(&of_vm.before) };
            of_vm.before = *measured;
            for (samples, (interval_ms, most)) in of_vm.grids.iter_mut().zip(GRIDS) {
                samples.add(now_ms / interval_ms, Sample::of(&since), most);
            }
        }
    }

    /// Removes a VM.
    pub fn forget(&mut self, id: &str) {
        self.of_vms.remove(id);
    }

    /// Returns the history of VMs since `since_ms`. Each VM has an id and a name.
    #[must_use]
    pub fn since<'n>(&self, since_ms: u64, vms: impl Iterator<Item = (&'n str, &'n str)>) -> History {
        let grids: Vec<TimeGrid> = GRIDS.iter().map(|(ms, most)| self.grid(*ms, *most, since_ms)).collect();
        let known = vms.filter_map(|(id, name)| Some((id, name, self.of_vms.get(id)?)));
        let history = |(id, name, of_vm): (&str, &str, &OfVm)| {
            let series = of_vm.grids.iter().zip(&grids).map(|(samples, grid)| series(samples, grid)).collect();
            VmHistory { id: id.to_string(), name: name.to_string(), series }
        };
        let vms = known.map(history).collect();
        History { grids, vms }
    }

    /// Returns the intervals that have ended by the last call, and not before `since_ms`.
    fn grid(&self, interval_ms: u64, most: usize, since_ms: u64) -> TimeGrid {
        let end = self.last_ms / interval_ms + 1;
        let first = end.saturating_sub(most as u64).max((since_ms / interval_ms).min(end));
        TimeGrid {
            interval_ms,
            from_ms: first * interval_ms,
            length: usize::try_from(end - first).unwrap_or(usize::MAX),
        }
    }
}

fn series(samples: &Samples, grid: &TimeGrid) -> Series {
    let first = grid.from_ms / grid.interval_ms;
    let mut series = Series::default();
    for interval in first..first + grid.length as u64 {
        let sample = samples.at(interval);
        series.judged.push(sample.map(|it| it.judged));
        series.missed.push(sample.map(|it| it.missed));
        series.due_us.push(sample.map(|it| it.due_us));
        series.delivered_us.push(sample.map(|it| it.delivered_us));
        series.short_us.push(sample.map(|it| it.short_us));
    }
    series
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(periods: u64, missed: u64) -> Measured {
        Measured { periods, judged: periods, missed, due_ns: periods * 2_000_000, ..Measured::default() }
    }

    fn missed(recorded: &Recorded, grid: usize, since_ms: u64) -> Vec<Option<u32>> {
        let mut history = recorded.since(since_ms, [("vm", "name")].into_iter());
        history.vms.remove(0).series.remove(grid).missed
    }

    #[test]
    fn each_interval_has_the_difference_of_the_sums() {
        let (mut recorded, id) = (Recorded::default(), "vm".to_string());
        for (ms, periods, lost) in [(1_000_000, 10, 1), (1_000_500, 50, 9), (1_001_000, 110, 4), (1_003_000, 130, 4)] {
            recorded.record(ms, [(&id, &sums(periods, lost))].into_iter());
        }
        // The second call of a second does nothing, and a second without a call has no sample.
        assert_eq!(missed(&recorded, 0, 1_000_000), [Some(1), Some(3), None, Some(0)]);
        assert_eq!(missed(&recorded, 0, 1_002_000), [None, Some(0)]);
        assert_eq!(missed(&recorded, 1, 1_000_000), [Some(4)]);
        // The promise is another one.
        recorded.record(1_004_000, [(&id, &sums(5, 2))].into_iter());
        assert_eq!(missed(&recorded, 0, 1_003_000), [Some(0), Some(2)]);
        // The time of the host jumps back, and forward again.
        recorded.record(1_001_000, [(&id, &sums(6, 3))].into_iter());
        recorded.record(1_004_900, [(&id, &sums(7, 4))].into_iter());
        assert_eq!(missed(&recorded, 0, 1_004_000), [Some(4)]);
        recorded.forget("vm");
        assert_eq!(recorded.since(0, [("vm", "name")].into_iter()).vms, []);
    }

    #[test]
    fn a_history_has_a_maximum_length() {
        let (mut recorded, id) = (Recorded::default(), "vm".to_string());
        for second in 0..1_000 {
            recorded.record(5_000_000 + second * 1_000, [(&id, &sums(second, second))].into_iter());
        }
        let history = recorded.since(0, [("vm", "name")].into_iter());
        assert_eq!(history.grids[0].length, 300);
        assert_eq!(history.vms[0].series[0].missed, vec![Some(1); 300]);
        assert_eq!(history.grids[0].from_ms + 300 * 1_000, 6_000_000);
        let sum: u32 = history.vms[0].series[1].missed.iter().flatten().sum();
        assert_eq!(sum, 999);
        recorded.record(9_000_000, [(&id, &sums(2_000, 1_005))].into_iter());
        let all = missed(&recorded, 0, 0);
        assert_eq!((all.len(), all.iter().flatten().count(), all[299]), (300, 1, Some(6)));
    }
}
