//! [`Problem`]: a refused request.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The reason why a request was refused (RFC 9457). Nothing was changed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Kind of the problem: `about:blank`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The status in words.
    pub title: String,
    /// HTTP status.
    pub status: u16,
    /// The reason.
    pub detail: String,
    /// The remedy, in the imperative.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Changes that each make room for a promise that does not fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alternatives: Option<Box<Alternatives>>,
}

/// Changes that each make room for a promise.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Alternatives {
    /// The longest slice that fits with the requested period. Unit: ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice_ns: Option<u64>,
    /// The shortest period that fits with the requested slice. Unit: ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period_ns: Option<u64>,
    /// Names of VMs: the end of the promise to one of them makes room.
    pub end_of: Vec<String>,
}

impl Problem {
    /// Returns a problem with an HTTP status. An empty remedy is no remedy.
    #[must_use]
    pub fn new(status: u16, title: &str, detail: impl Into<String>, remedy: impl Into<String>) -> Problem {
        let remedy = Some(remedy.into()).filter(|remedy: &String| !remedy.is_empty());
        let (kind, title) = ("about:blank".to_string(), title.to_string());
        Problem { kind, title, status, detail: detail.into(), remedy, alternatives: None }
    }
}
