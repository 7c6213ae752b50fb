//! Progress of long operations: a bar on a terminal, a line otherwise.

use crate::failure::Failure;
use crate::output::{complain, is_interrupted};
use crate::terminal::safe;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use report::Report;
use run::{Observers, Run};
use sched::{Instant, Nanos};
use std::io::IsTerminal;

/// Maximum number of updates of a bar during a run.
const STEPS: u64 = 200;

/// A bar on standard error, separate from the result.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Creates a bar for an operation `what` of duration `length`.
    pub(crate) fn new(what: String, length: Nanos) -> Progress {
        Progress::drawn(what, length, "{msg:>24} [{bar:50}] {percent:>3} %")
    }

    /// Creates a bar like [`new`](Progress::new), with an estimate of the remaining time.
    pub(crate) fn with_time_left(what: String, length: Nanos) -> Progress {
        Progress::drawn(what, length, "{msg:>24} [{bar:40}] {percent:>3} %, {eta} left")
    }

    fn drawn(what: String, length: Nanos, template: &str) -> Progress {
        // indicatif draws nothing if standard error is not a terminal.
        let bar = ProgressBar::with_draw_target(Some(length.as_ns()), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.expect("the template is right").progress_chars("=> "));
        bar.set_message(safe(&what, false).into_owned());
        Progress { bar }
    }

    /// Creates a bar for an operation that consists of `count` parts.
    pub(crate) fn of_pieces(what: String, count: usize) -> Progress {
        Progress::drawn(what, Nanos::ns(count as u64), "{msg:>24} [{bar:40}] {pos} of {len}")
    }

    /// Adds a completed part.
    pub(crate) fn one_more(&self) {
        self.bar.inc(1);
    }

    /// Replaces what the bar says.
    pub(crate) fn say(&self, what: String) {
        self.bar.set_message(what);
    }

    /// Sets the elapsed time.
    pub(crate) fn passed(&self, passed: Nanos) {
        self.bar.set_position(passed.as_ns());
    }

    /// Adds elapsed time. May be called from several threads.
    pub(crate) fn more(&self, passed: Nanos) {
        self.bar.inc(passed.as_ns());
    }

    /// Runs `run`, and adds its simulated time to the bar. Cancels the run if the program is interrupted.
    pub(crate) fn play(&self, run: &Run, observers: Observers<'_>) -> Result<Report, Failure> {
        let mut shown = Instant::ZERO;
        let step = Nanos::ns(run.scenario.length.as_ns().div_ceil(STEPS));
        let played = run.play_while(observers, |progress| {
            let passed = progress.now.since(shown);
            if passed >= step {
                self.more(passed);
                shown = progress.now;
            }
            !is_interrupted()
        })?;
        let outcome = played.ok_or(Failure::Interrupted)?;
        self.more((Instant::ZERO + run.scenario.length).since(shown));
        Ok(Report::of(outcome))
    }

    /// Removes the bar.
    pub(crate) fn clear(self) {
        self.bar.finish_and_clear();
    }

    /// Removes the bar. If standard error is not a terminal, so that no bar was visible, writes `summary`.
    pub(crate) fn finish(self, summary: &str) {
        self.bar.finish_and_clear();
        if !std::io::stderr().is_terminal() {
            complain(summary);
        }
    }
}
