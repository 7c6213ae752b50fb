//! [`End`]: how a process of a run ended.

use sched::EntityId;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// The result of a process.
#[derive(Clone, Debug, Default)]
pub(crate) struct End {
    /// Name of the process.
    pub(crate) name: String,
    pub(crate) pid: u32,
    /// Whether the process existed before the run.
    pub(crate) is_foreign: bool,
    /// Entities of the process in the trace.
    pub(crate) entities: Vec<EntityId>,
    /// Exit status of the process, if the process has ended and the kernel reports the status to this run.
    pub(crate) status: Option<ExitStatus>,
    /// Whether the process ended before the run requested its end.
    pub(crate) has_ended_early: bool,
}

impl End {
    /// Returns the code of the process, as a shell reports it. The exit code of a process that the run did not start is
    /// not a result of the run, but its end by a signal is. If the run itself has ended a command with a signal, after
    /// its duration, the code is 0.
    pub(crate) fn code(&self) -> u8 {
        match self.status.map(|status| (status.code(), status.signal())) {
            Some((Some(_), _)) if self.is_foreign => 0,
            Some((Some(code), _)) => u8::try_from(code).unwrap_or(u8::MAX),
            Some((None, Some(_))) if !self.has_ended_early => 0,
            Some((None, Some(signal))) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
            Some((None, None)) => 1,
            None => 0,
        }
    }

    /// Describes an early end in a sentence without a full stop. `None`: the process has not ended early, or it is a
    /// command that succeeded.
    pub(crate) fn in_words(&self) -> Option<String> {
        if !self.has_ended_early {
            return None;
        }
        let Some(status) = self.status else {
            return Some(format!("{} has ended; the kernel does not report how", self.name));
        };
        match (status.code(), status.signal()) {
            (Some(0), _) if !self.is_foreign => None,
            (Some(code), _) => Some(format!("{} ended with exit code {code}", self.name)),
            (None, Some(signal)) => Some(format!("{} was ended by signal {signal}", self.name)),
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(is_foreign: bool, raw: Option<i32>) -> End {
        let status = raw.map(ExitStatus::from_raw);
        End { name: "job".to_string(), is_foreign, status, has_ended_early: true, ..End::default() }
    }

    #[test]
    fn the_exit_code_of_a_command_counts_and_the_signal_of_any_process() {
        let codes = |is_foreign| [Some(0), Some(7 << 8), Some(9), None].map(|raw| end(is_foreign, raw).code());
        assert_eq!(codes(false), [0, 7, 137, 0]);
        assert_eq!(codes(true), [0, 0, 137, 0]);
        let on_request = |raw| End { has_ended_early: false, ..end(false, Some(raw)) }.code();
        assert_eq!([15, 7 << 8].map(on_request), [0, 7]);
    }

    #[test]
    fn an_early_end_is_described_unless_a_command_succeeded() {
        let said = |is_foreign, raw| end(is_foreign, raw).in_words();
        assert_eq!(said(false, Some(0)), None);
        assert_eq!(said(true, Some(0)).as_deref(), Some("job ended with exit code 0"));
        assert_eq!(said(false, Some(7 << 8)).as_deref(), Some("job ended with exit code 7"));
        assert_eq!(said(true, Some(9)).as_deref(), Some("job was ended by signal 9"));
        assert_eq!(said(true, None).as_deref(), Some("job has ended; the kernel does not report how"));
        assert_eq!(End { has_ended_early: false, ..end(true, Some(9)) }.in_words(), None);
    }
}
