//! Start-up times of an application, launch by launch.

use super::gauge::{Fact, Gauge};
use super::reading::Reading;
use sched::{Instant, Nanos};
use trace::Durations;

/// The duration of each job of the launcher. A launch that is unfinished at the end of the run does not count.
#[derive(Debug, Default)]
pub(super) struct Launches {
    began: Option<Instant>,
    took: Vec<Nanos>,
}

impl Gauge for Launches {
    fn note(&mut self, at: Instant, _: &str, fact: Fact) {
        match fact {
            Fact::Begins => self.began = Some(at),
            Fact::Done => self.took.extend(self.began.take().map(|began| at.saturating_since(began))),
            _ => {}
        }
    }

    fn begin(&mut self, _: Instant) {
        self.took.clear();
    }

    fn read(&mut self, _: Instant) -> Reading {
        let count = self.took.len() as u64;
        let mut all = Durations::default();
        self.took.iter().for_each(|&took| all.record(took));
        let mean = all.total().as_ns().checked_div(count).unwrap_or(0);
        let squares: u128 = self.took.iter().map(|took| u128::from(took.as_ns().abs_diff(mean)).pow(2)).sum();
        let deviation = squares.checked_div(u128::from(count.saturating_sub(1))).unwrap_or(0).isqrt();
        let mut reading = Reading::default();
        reading.add("launches", count);
        reading.add("start_mean_ns", mean);
        reading.add("start_deviation_ns", u64::try_from(deviation).unwrap_or(u64::MAX));
        reading.time("start_p50_ns", all.percentile(50));
        reading.time("start_max_ns", all.longest());
        reading.add("unfinished", u64::from(self.began.is_some()));
        reading
    }
}
