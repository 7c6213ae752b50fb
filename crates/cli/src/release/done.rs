//! [`Done`]: the result of a release, for one directory.

use super::report;
use daemon::Explanation;
use daemon::directory::Directory;
use daemon::release::release;
use serde_json::{Value, json};

/// The result for one directory.
pub(super) struct Done {
    pub(super) is_settled: bool,
    pub(super) text: String,
    pub(super) json: Value,
}

impl Done {
    /// Returns the result for a directory that could not be used.
    pub(super) fn failed(directory: &Directory, reason: &Explanation) -> Done {
        let path = directory.path().display().to_string();
        let text = format!("{path} cannot be released: {reason}\n");
        let json = json!({ "directory": path, "settled": false, "reason": reason.reason, "remedy": reason.remedy });
        Done { is_settled: false, text, json }
    }

    /// Releases `directory`.
    pub(super) fn of(directory: &Directory) -> anyhow::Result<Done> {
        let released = match release(directory) {
            Ok(released) => released,
            Err(reason) => return Ok(Done::failed(directory, &reason)),
        };
        let json = serde_json::to_value(report::report(directory, &released))?;
        Ok(Done { is_settled: report::is_settled(&released), text: report::text(directory, &released), json })
    }
}
