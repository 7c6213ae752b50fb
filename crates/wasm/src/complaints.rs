//! [`Complaint`]: an error in a request, with the part of the text that is underlined.

use input::problem::{Problem, Problems};
use miette::{Diagnostic, SourceCode};
use serde::Serialize;

/// An error in a request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Complaint {
    /// The reason.
    pub reason: String,
    /// What to do, in the imperative; empty without a remedy.
    pub remedy: String,
    /// `file:line:column`, or the name of the file; empty if the request itself is wrong.
    pub place: String,
    /// The parts of the text that are underlined, the main part first.
    pub parts: Vec<Part>,
}

/// A part of the text of a file, in UTF-16 code units as in JavaScript.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Part {
    /// The first code unit.
    pub from: usize,
    /// The code unit behind the last.
    pub to: usize,
    /// The label; empty without one.
    pub label: String,
}

/// Returns the problems as a JSON list of [`Complaint`]s.
pub(crate) fn to_json(problems: &Problems) -> String {
    let all: Vec<Complaint> = problems.shown().iter().map(Complaint::of).collect();
    serde_json::to_string(&all).expect("complaints are JSON")
}

/// Returns the error of a request that is no JSON of the right form.
pub(crate) fn of_request(error: &serde_json::Error) -> String {
    to_json(
        &Problem::new(format!("the request cannot be read: {error}")).help("use the page of the same version").into(),
    )
}

impl Complaint {
    fn of(problem: &Problem) -> Complaint {
        let labels = problem.labels().into_iter().flatten();
        let parts = labels.map(|label| {
            let (from, length) = (label.offset(), label.len());
            let code_units = |bytes: usize| units_before(problem.source_code(), bytes);
            Part {
                from: code_units(from),
                to: code_units(from + length),
                label: label.label().unwrap_or_default().to_string(),
            }
        });
        Complaint {
            reason: problem.to_string(),
            remedy: problem.remedy().to_string(),
            place: problem.place(),
            parts: parts.collect(),
        }
    }
}

/// Returns the number of UTF-16 code units before byte `offset` of `source`.
fn units_before(source: Option<&dyn SourceCode>, offset: usize) -> usize {
    let text = source.and_then(|source| source.read_span(&(0, offset).into(), 0, 0).ok());
    let bytes = text.as_ref().map(|content| content.data()).unwrap_or_default();
    String::from_utf8_lossy(&bytes[..bytes.len().min(offset)]).encode_utf16().count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use scenario::Scenario;

    #[test]
    fn an_error_has_its_place_in_code_units() {
        let text = "name = \"größer 😀\"\ncpus = 1\nlength = \"1s\"\nlenth = 3\n";
        let problems = Scenario::from_bytes("s.toml", text.as_bytes().to_vec()).unwrap_err();
        let complaints: serde_json::Value = serde_json::from_str(&to_json(&problems)).unwrap();
        let found = &complaints[0];
        let units: Vec<u16> = text.encode_utf16().collect();
        let [from, to] = ["from", "to"].map(|end| found["parts"][0][end].as_u64().unwrap() as usize);
        assert_eq!(String::from_utf16(&units[from..to]).unwrap(), "lenth", "{found}");
        assert_eq!(found["place"], "s.toml:4:1");
        assert!(found["remedy"].as_str().unwrap().contains("length"), "{found}");
    }

    #[test]
    fn a_request_that_is_no_json_is_a_complaint_without_a_place() {
        let error = serde_json::from_str::<crate::Request>("{").unwrap_err();
        let complaints: serde_json::Value = serde_json::from_str(&of_request(&error)).unwrap();
        assert_eq!((&complaints[0]["place"], &complaints[0]["parts"]), (&"".into(), &serde_json::json!([])));
    }
}
