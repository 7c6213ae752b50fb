//! [`chosen_policies`]: the policies of a test.

use sched::Descriptor;

/// Returns all policies, or the policies in the environment variable `TACTUS_POLICY`, separated by commas.
///
/// # Panics
/// A policy in `TACTUS_POLICY` does not exist.
#[must_use]
pub fn chosen_policies() -> Vec<&'static Descriptor> {
    let Ok(names) = std::env::var("TACTUS_POLICY") else { return policies::ALL.to_vec() };
    let named = |name| policies::find(name).unwrap_or_else(|| panic!("TACTUS_POLICY: there is no policy {name}"));
    names.split(',').map(named).collect()
}
