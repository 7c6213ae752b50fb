//! [`policies`]: the registered policies.

use pyo3::prelude::*;
use report::book::ListedPolicy;

/// Returns all policies as JSON, as `tactus policies --json` prints them, each with its essay.
#[pyfunction]
pub(crate) fn policies() -> String {
    let all: Vec<ListedPolicy> = ::policies::ALL.iter().map(|policy| ListedPolicy::new(policy, true)).collect();
    report::json(&all).expect("the list is JSON")
}
