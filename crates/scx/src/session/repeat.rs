//! Sessions that begin again: the kernel removes a scheduler when a CPU goes offline or online, and a bridge that has lost events does
//! not know the state of the threads.

use super::run::{Failure, Run, Summary};
use sched::{Instant, Nanos};
use scx::wait_for_removal;
use sys::clock;

/// A session of at least this length has kept up with the events.
const STEADY: Nanos = Nanos::s(10);
/// Maximum number of shorter sessions that lose events, one after another.
const LOSSES_MOST: u32 = 5;

/// Which sessions have lost events.
#[derive(Debug, Default)]
struct Losses {
    shorter: u32,
}

impl Losses {
    /// Notes that a session of this length has lost events. Returns whether another one is worthwhile.
    fn note(&mut self, length: Nanos) -> bool {
        self.shorter = if length >= STEADY { 0 } else { self.shorter + 1 };
        self.shorter < LOSSES_MOST
    }
}

/// Runs `session` until the end of the run, which is its argument, again after each change of the CPUs and after lost events. A session
/// has its own summary, which counts even if the session fails.
pub(super) fn repeat(
    run: &Run,
    mut session: impl FnMut(Instant, &mut Summary) -> Result<(), Failure>,
) -> Result<Summary, Failure> {
    let (begin, used, end) = (clock::now(), clock::thread_time(), run.end());
    let (mut total, mut losses) = (run.summary(), Losses::default());
    loop {
        let (started, mut summary) = (clock::now(), run.summary());
        let outcome = session(end, &mut summary);
        total.add(&summary);
        let (reason, cause) = match outcome {
            Ok(()) => break,
            Err(Failure::CpusChanged(reason)) => (reason, &mut total.cpu_changes),
            Err(Failure::Lost(events)) => {
                total.lost += events;
                if !losses.note(clock::now().since(started)) {
                    return Err(Failure::Lost(total.lost));
                }
                (format!("{events} events found the buffer full"), &mut total.resyncs)
            }
            Err(failure) => return Err(failure),
        };
        *cause += 1;
        eprintln!("{} begins again: {reason}", run.policy.name);
        wait_for_removal();
        if run.is_over(end, clock::now()) {
            break;
        }
    }
    total.length_ns = clock::now().since(begin).as_ns();
    total.cpu_ns = clock::thread_time().saturating_sub(used).as_ns();
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_begins_again_after_lost_events_unless_five_lose_some_at_once() {
        let mut losses = Losses::default();
        let mut notes = |lengths: &[u64]| lengths.iter().map(|&s| losses.note(Nanos::s(s))).collect::<Vec<bool>>();
        assert_eq!(notes(&[1, 1, 1, 1, 10]), [true; 5]);
        assert_eq!(notes(&[1, 9, 0, 1, 1]), [true, true, true, true, false]);
    }
}
