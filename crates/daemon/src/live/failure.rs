//! [`Failure`]: the reason why a core did not start, or why it failed.

use crate::Explanation;
use crate::directory::Refused;
use serde::{Deserialize, Serialize};

/// Reason why a core did not start, or why the core failed.
#[derive(Debug, Serialize, Deserialize)]
pub enum Failure {
    /// Another core is running.
    Running(Explanation),
    /// The core cannot run on this host.
    Refused(Explanation),
    /// The core failed while it was running. All threads are restored.
    Failed(Explanation),
    /// The core has ended, and some threads may not be restored yet.
    NotRestored(Explanation),
}

impl Failure {
    /// Returns the reason.
    #[must_use]
    pub fn reason(&self) -> &Explanation {
        match self {
            Failure::Running(reason)
            | Failure::Refused(reason)
            | Failure::Failed(reason)
            | Failure::NotRestored(reason) => reason,
        }
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Failure {
        match refused {
            Refused::Held(_) => Failure::Running(refused.into()),
            other => Failure::Refused(other.into()),
        }
    }
}

impl From<sys::Error> for Failure {
    fn from(error: sys::Error) -> Failure {
        Failure::Refused(error.into())
    }
}
