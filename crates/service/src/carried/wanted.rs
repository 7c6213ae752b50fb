//! [`Wanted`]: what is desired for a VM, and [`Latest`]: the latest desired state in a file.

use api::{Desired, Source};
use daemon::Explanation;

/// What is desired for a VM, and what says so.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Wanted {
    pub(crate) desired: Desired,
    /// Where the desired state comes from. `None`: nothing is desired.
    pub(crate) source: Option<Source>,
    /// Reason why the latest state that the VM carries cannot be the desired one.
    pub(crate) problem: Option<Explanation>,
}

/// The latest desired state in a file.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Latest {
    /// The desired state of the latest content that was right.
    desired: Desired,
    /// Why the present content is wrong.
    problem: Option<Explanation>,
}

impl Latest {
    /// Notes the present content. After a wrong change, the desired state of before stays.
    pub(super) fn note(&mut self, content: Result<Desired, Explanation>) {
        match content {
            Ok(desired) => *self = Latest { desired, problem: None },
            Err(why) => self.problem = Some(why),
        }
    }

    /// Returns whether the content is right, and something is desired.
    pub(super) fn is_sound(&self) -> bool {
        self.problem.is_none() && !self.desired.is_empty()
    }

    /// Returns what is wanted for a VM of the file.
    pub(super) fn wanted(&self, source: Source) -> Wanted {
        let Latest { desired, problem } = self.clone();
        Wanted { source: (!desired.is_empty()).then_some(source), desired, problem }
    }

    /// Returns what is wanted for a VM that the file is not for.
    pub(super) fn refused(&self, why: impl FnOnce() -> Explanation) -> Wanted {
        let problem = if self.is_sound() { Some(why()) } else { self.problem.clone() };
        Wanted { problem, ..Wanted::default() }
    }
}
