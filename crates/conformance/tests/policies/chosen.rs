//! The policies of a suite: all policies, or the policies in `TACTUS_POLICY`, separated by commas.

use sched::Descriptor;

pub(crate) fn policies() -> Vec<&'static Descriptor> {
    let Ok(names) = std::env::var("TACTUS_POLICY") else { return policies::ALL.to_vec() };
    let named = |name| policies::find(name).unwrap_or_else(|| panic!("TACTUS_POLICY: there is no policy {name}"));
    names.split(',').map(named).collect()
}
