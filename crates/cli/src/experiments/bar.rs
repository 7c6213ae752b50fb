//! [`Bar`]: the progress of a suite.

use crate::output;
use crate::progress::Progress;
use lab::suite::Watch;
use sched::Nanos;
use std::sync::Mutex;

/// Shows the progress of the suite. A suite with several phases shows one bar after the other.
#[derive(Default)]
pub(super) struct Bar(Mutex<Option<Progress>>);

impl Bar {
    fn with<T>(&self, work: impl FnOnce(&mut Option<Progress>) -> T) -> T {
        work(&mut self.0.lock().expect("no thread panics while it holds the lock"))
    }

    /// Completes the bar.
    pub(super) fn finish(self, has_played: bool) {
        if let Some(bar) = self.with(Option::take) {
            bar.finish(if has_played { "all runs are finished" } else { "not all runs are finished" });
        }
    }
}

impl Watch for Bar {
    fn begins(&self, length: Nanos, cells: usize, known: usize) {
        self.with(|bar| {
            // A later phase without new runs needs no bar.
            if bar.is_none() || known < cells {
                let before = if known > 0 { format!(" ({known} known)") } else { String::new() };
                let next = Progress::with_time_left(format!("{cells} runs{before}"), length);
                if let Some(last) = bar.replace(next) {
                    last.clear();
                }
            }
        });
    }

    fn simulated(&self, length: Nanos) {
        self.with(|bar| {
            if let Some(bar) = bar {
                bar.more(length);
            }
        });
    }

    fn is_interrupted(&self) -> bool {
        output::is_interrupted()
    }
}
