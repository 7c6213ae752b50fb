//! [`History`]: the latest waits and misses of each VM, as sparklines.

use super::rates::{Rate, Rates};
use std::collections::{BTreeMap, VecDeque};

/// Number of samples of a sparkline.
pub(super) const LENGTH: usize = 10;
/// Lower bounds of the levels of a sparkline above the lowest one. The levels are logarithmic, because waits of 1 % and of
/// 50 % both matter. Unit: parts per million.
const LEVELS_PPM: [u64; 7] = [1, 10_000, 20_000, 50_000, 100_000, 250_000, 500_000];
const GLYPHS: [char; LEVELS_PPM.len() + 1] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The value that sparklines show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Trend {
    /// Time in which a vCPU was runnable without a CPU.
    Waits,
    /// Missed periods of the judged ones.
    Misses,
}

impl Trend {
    pub(super) fn title(self) -> &'static str {
        match self {
            Trend::Waits => "waits",
            Trend::Misses => "misses",
        }
    }

    pub(super) fn other(self) -> Trend {
        match self {
            Trend::Waits => Trend::Misses,
            Trend::Misses => Trend::Waits,
        }
    }
}

/// Waits and misses of a VM in one interval. Unit: parts per million; `None`: not known.
#[derive(Clone, Copy, Debug)]
struct Point {
    waits: Option<u64>,
    misses: Option<u64>,
}

/// The latest waits and misses of each VM.
#[derive(Debug, Default)]
pub(super) struct History(BTreeMap<String, VecDeque<Point>>);

impl History {
    /// Adds the rates of an interval, and forgets VMs that are not part of it.
    pub(super) fn record(&mut self, rates: &Rates) {
        self.0.retain(|id, _| rates.vms.iter().any(|vm| vm.id == *id));
        for vm in &rates.vms {
            let points = self.0.entry(vm.id.clone()).or_default();
            if points.len() == LENGTH {
                points.pop_front();
            }
            points.push_back(point(vm));
        }
    }

    /// Returns the sparkline of a VM, the latest interval at the right. An interval without a value is a space.
    pub(super) fn sparkline(&self, id: &str, trend: Trend) -> String {
        let Some(points) = self.0.get(id) else { return String::new() };
        let of = |point: &Point| match trend {
            Trend::Waits => point.waits,
            Trend::Misses => point.misses,
        };
        let glyph = |ppm: u64| GLYPHS[LEVELS_PPM.partition_point(|bound| *bound <= ppm)];
        points.iter().map(|point| of(point).map_or(' ', glyph)).collect()
    }
}

fn point(vm: &Rate) -> Point {
    // Each vCPU can wait for the whole interval.
    let waits = vm.waited_ppm.map(|ppm| ppm / u64::from(vm.vcpus.unwrap_or(1)));
    Point { waits, misses: vm.missed.saturating_mul(1_000_000).checked_div(vm.judged) }
}
