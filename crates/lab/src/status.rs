//! [`Status`]: the verdict of a claim in a word.

use serde::{Deserialize, Serialize};

/// Verdict of a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// All checks hold, and no value was set on what is judged.
    Predicted,
    /// All checks hold, and each free parameter was set from one named anchor.
    Calibrated,
    /// Some checks hold, or all checks hold with a limit of the evidence.
    Partly,
    /// No check holds.
    Not,
}

impl Status {
    /// Every status, from the strongest evidence to the weakest.
    pub const ALL: [Status; 4] = [Status::Predicted, Status::Calibrated, Status::Partly, Status::Not];

    /// Returns the status as text.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Status::Predicted => "predicted",
            Status::Calibrated => "calibrated",
            Status::Partly => "partly",
            Status::Not => "not",
        }
    }
}
