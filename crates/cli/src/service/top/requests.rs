//! The requests of `tactus top` to its service, and the replies.

use super::sample::Sample;
use api::{Alternatives, Desired, Error, Vm};

/// HTTP status: another client has changed the VM.
const OUTDATED: u16 = 412;

/// A change of the desired state of a VM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Change {
    pub(super) id: String,
    pub(super) name: String,
    /// Generation that the VM must have.
    pub(super) generation: u64,
    pub(super) desired: Desired,
    /// What clients desired before the change.
    pub(super) before: Desired,
}

/// The purpose of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Action {
    Edit,
    Pause,
    Resume,
    EndPromise,
    Undo,
}

impl Action {
    /// Returns what the action has done.
    pub(super) fn done(self) -> &'static str {
        match self {
            Action::Edit => "changed",
            Action::Pause => "paused",
            Action::Resume => "resumed",
            Action::EndPromise => "the promise has ended",
            Action::Undo => "the last change is undone",
        }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Request {
    /// Whether the changes would be made. A later check replaces an earlier one that has not begun.
    Check { number: u64, changes: Vec<Change> },
    /// Make the changes.
    Apply { number: u64, action: Action, changes: Vec<Change> },
}

#[derive(Debug)]
pub(super) enum Reply {
    /// The next sample, or the reason why there is none.
    Sample(Result<Box<Sample>, String>),
    Checked {
        number: u64,
        outcomes: Vec<Outcome>,
    },
    Applied {
        number: u64,
        action: Action,
        outcomes: Vec<Outcome>,
    },
}

/// The outcome of a change, or of its check.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) change: Change,
    pub(super) result: Result<Box<Vm>, Trouble>,
}

/// Reason why a change is not made.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Trouble {
    pub(super) reason: String,
    pub(super) remedy: Option<String>,
    pub(super) alternatives: Option<Alternatives>,
    pub(super) kind: TroubleKind,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum TroubleKind {
    /// The service refuses the change.
    Refused,
    /// Another client has changed the VM meanwhile. The VM as it is now, if it could be read.
    Outdated(Option<Box<Vm>>),
    /// The service has not replied.
    Unanswered,
}

impl Trouble {
    /// Converts an error. If the VM was changed meanwhile, reads it by `show`.
    pub(super) fn new(error: Error, show: impl FnOnce() -> Option<Vm>) -> Trouble {
        let Error::Refused(problem) = error else {
            return Trouble {
                reason: error.to_string(),
                remedy: None,
                alternatives: None,
                kind: TroubleKind::Unanswered,
            };
        };
        let kind = match problem.status {
            OUTDATED => TroubleKind::Outdated(show().map(Box::new)),
            _ => TroubleKind::Refused,
        };
        let alternatives = problem.alternatives.map(|alternatives| *alternatives);
        Trouble { reason: problem.detail, remedy: problem.remedy, alternatives, kind }
    }
}
