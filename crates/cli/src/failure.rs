//! [`Failure`]: the reason why a command failed.

use daemon::Explanation;
use input::problem::Problems;

/// The exit codes of commands without further ones, for their help.
pub(crate) const EXIT_CODES: &str = "Exit codes: 0 success; 1 failure, such as a file that cannot be written; 2 invalid input, \
    nothing was run or written; 130 interrupted.";

/// What to do about a VM whose agent sends no hints.
pub(crate) const NO_HINTS: &str = "no agent sends hints; install the package tactus-guest in the guest, as docs/coordination.md says, or read \
    its log there";

/// Reason why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The input is invalid; nothing was done.
    Input(Problems),
    /// The arguments are invalid, or the request is refused; nothing was done.
    Usage(miette::Report),
    /// An operation failed.
    Failed(anyhow::Error),
    /// An interrupt cancelled the command.
    Interrupted,
}

/// Returns a failure caused by the arguments: the reason, and the remedy.
pub(crate) fn usage(reason: String, right: &str) -> Failure {
    Failure::Usage(miette::miette!(help = right.to_string(), "{reason}"))
}

impl From<Problems> for Failure {
    fn from(problems: Problems) -> Failure {
        Failure::Input(problems)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Failure {
        Failure::Failed(error)
    }
}

/// Converts a refusal into a failure of the arguments.
pub(crate) fn refused(reason: &Explanation) -> Failure {
    match reason.remedy.as_ref() {
        "" => Failure::Usage(miette::miette!("{}", reason.reason)),
        remedy => usage(reason.reason.to_string(), remedy),
    }
}

/// Returns a failure of this host: refused, if it lacks a privilege or a part, and otherwise during `what`.
pub(crate) fn failed(error: sys::Error, what: &'static str) -> Failure {
    match error {
        error @ (sys::Error::NotPermitted { .. } | sys::Error::Absent { .. }) => refused(&error.into()),
        error => anyhow::anyhow!(error).context(what).into(),
    }
}

/// Converts a failure into its reason and remedy, for a command that continues.
pub(crate) fn explained(failure: Failure) -> Explanation {
    match failure {
        Failure::Usage(report) => {
            let help = report.help().map_or(String::new(), |help| help.to_string());
            Explanation::new(report.to_string(), help)
        }
        Failure::Input(problems) => Explanation::new(problems.to_string(), ""),
        Failure::Failed(error) => Explanation::new(format!("{error:#}"), ""),
        Failure::Interrupted => Explanation::new("the command was interrupted", "try again"),
    }
}
