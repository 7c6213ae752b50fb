//! [`Bar`]: the progress of a suite.

use crate::output;
use crate::progress::Progress;
use lab::suite::Watch;
use sched::Nanos;
use std::sync::OnceLock;

/// Shows the progress of the suite.
#[derive(Default)]
pub(super) struct Bar(OnceLock<Progress>);

impl Watch for Bar {
    fn begins(&self, length: Nanos, cells: usize, known: usize) {
        let before = if known > 0 { format!(" ({known} known)") } else { String::new() };
        let _ = self.0.set(Progress::with_time_left(format!("{cells} runs{before}"), length));
    }

    fn simulated(&self, length: Nanos) {
        if let Some(bar) = self.0.get() {
            bar.more(length);
        }
    }

    fn is_interrupted(&self) -> bool {
        output::is_interrupted()
    }
}

impl Bar {
    /// Completes the bar.
    pub(super) fn finish(self, has_played: bool) {
        if let Some(bar) = self.0.into_inner() {
            bar.finish(if has_played { "all runs are finished" } else { "not all runs are finished" });
        }
    }
}
