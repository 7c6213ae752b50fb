//! How far the simulation is: a bar on a terminal, a line otherwise.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sched::{Instant, Nanos};
use std::io::{IsTerminal, Write};
use trace::{Event, Sink};

/// Follows a run by its events.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    policy: &'static str,
    length: Nanos,
    /// When to show it next.
    next: Instant,
}

impl Progress {
    /// Of a run of `length` under `policy`.
    pub(super) fn new(policy: &'static str, length: Nanos) -> Progress {
        // Drawing to standard error keeps the result clean; indicatif draws nothing where that is no terminal.
        let bar = ProgressBar::with_draw_target(Some(length.as_ns()), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{msg:>24} [{bar:50}] {percent:>3} %");
        bar.set_style(style.expect("the template is right").progress_chars("=> "));
        bar.set_message(format!("simulating {policy}"));
        Progress { bar, policy, length, next: Instant::ZERO }
    }

    /// The run is over.
    pub(super) fn finish(self) {
        self.bar.finish_and_clear();
        if !std::io::stderr().is_terminal() {
            // Nobody may be there to read it.
            let _ = writeln!(std::io::stderr(), "simulated {} under {}", self.length, self.policy);
        }
    }
}

impl Sink for Progress {
    fn record(&mut self, at: Instant, _event: &Event) {
        if at >= self.next {
            self.bar.set_position(at.as_ns());
            self.next = at.saturating_add(Nanos::ns(self.length.as_ns().div_ceil(200)));
        }
    }
}
