//! [`Varied`]: the verdicts on claims of a paper under another plausible value of a parameter.

use crate::problem::{Problem, read};
use crate::status::Status;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Name of the file with the recorded verdicts under other values of parameters.
pub const ROBUST: &str = "robust.json";

/// The verdicts on some claims under another value of a parameter.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Varied {
    /// Key of the parameter in the ledger.
    pub parameter: String,
    /// The other value, as text.
    pub value: String,
    /// Ids of the claims that were judged.
    pub claims: Vec<String>,
    /// The verdicts that differ from those with the usual value.
    pub flips: Vec<Flip>,
    /// Why the claims cannot be judged under the value: a scenario that is invalid with it, or a check without a result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unjudged: Option<String>,
}

/// A verdict that differs under another value of a parameter.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Flip {
    /// Id of the claim.
    pub claim: String,
    /// Status with the usual value.
    pub from: Status,
    /// Status with the other value.
    pub to: Status,
}

/// Reads the recorded verdicts of the paper in `directory` under other values. An absent file has no entries.
///
/// # Errors
/// The file cannot be read, or has an invalid format.
pub(crate) fn recorded(directory: &Path) -> Result<Vec<Varied>, Problem> {
    let path = directory.join(ROBUST);
    if !path.exists() {
        return Ok(Vec::new());
    }
    serde_json::from_str(&read(&path)?)
        .map_err(|why| Problem::wrong(&path, why.to_string(), "what `tactus lab run all --robust --record` writes"))
}

/// Replaces the entries of the claims `judged` in `recorded` by `varied`, and keeps the entries of the other claims. An
/// entry of `judged` and of another claim keeps the other claim, and its reason if it has no verdicts.
#[must_use]
pub fn merged(recorded: &[Varied], judged: &[String], varied: Vec<Varied>) -> Vec<Varied> {
    let mut all = recorded.to_vec();
    for it in &mut all {
        it.claims.retain(|claim| !judged.contains(claim));
        it.flips.retain(|flip| !judged.contains(&flip.claim));
    }
    all.retain(|it| !it.claims.is_empty());
    all.extend(varied);
    all
}

/// Formats `varied` as text, with a line for each variation.
///
/// # Panics
/// Never panics, because all entries can be converted to JSON.
#[must_use]
pub fn to_text(varied: &[Varied]) -> String {
    let line = |it: &Varied| serde_json::to_string(it).expect("all of it can be JSON");
    format!("[\n{}\n]\n", varied.iter().map(line).collect::<Vec<_>>().join(",\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn varied(value: &str, claims: &[&str], flipped: &[&str]) -> Varied {
        let flip = |claim: &&str| Flip { claim: claim.to_string(), from: Status::Predicted, to: Status::Not };
        Varied {
            parameter: "work".to_string(),
            value: value.to_string(),
            claims: claims.iter().map(ToString::to_string).collect(),
            flips: flipped.iter().map(flip).collect(),
            unjudged: None,
        }
    }

    #[test]
    fn new_verdicts_replace_those_on_the_same_claims_and_no_others() {
        let recorded = [varied("1us", &["A1", "A2"], &["A1", "A2"]), varied("2us", &["A2"], &["A2"])];
        let anew = varied("1us", &["A2"], &[]);
        let merged = merged(&recorded, &["A2".to_string()], vec![anew.clone()]);
        assert_eq!(merged, [varied("1us", &["A1"], &["A1"]), anew]);
    }
}
