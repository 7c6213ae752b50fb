//! [`Bar`]: the progress of a suite.

use crate::failure::Failure;
use crate::output;
use crate::progress::Progress;
use lab::Problem;
use lab::suite::Watch;
use sched::Nanos;
use std::sync::Mutex;

/// Shows the progress of the suite. A suite with several phases shows one bar after the other.
#[derive(Default)]
pub(super) struct Bar(Mutex<Option<Progress>>);

/// Runs `play`, which shows its progress. An interrupt ends the runs in order.
///
/// # Errors
/// The error of `play`, or [`Failure::Interrupted`] after a message.
pub(super) fn watched<T>(play: impl FnOnce(&Bar) -> Result<T, Problem>) -> Result<T, Failure> {
    let bar = Bar::default();
    let in_order = output::end_in_order();
    let played = play(&bar);
    drop(in_order);
    bar.finish(played.is_ok());
    match played {
        Err(Problem::Interrupted) => {
            output::complain("interrupted: finished runs are kept, and the same command resumes");
            Err(Failure::Interrupted)
        }
        other => Ok(other?),
    }
}

impl Bar {
    fn with<T>(&self, work: impl FnOnce(&mut Option<Progress>) -> T) -> T {
        work(&mut self.0.lock().expect("no thread panics while it holds the lock"))
    }

    /// Completes the bar.
    fn finish(self, has_played: bool) {
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
