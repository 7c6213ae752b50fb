//! The scheduling policies of Tactus: one file each, and the registry.
//!
//! To add one: a file here, a `mod` line and an entry in [`ALL`] below, both in alphabetical order
//! (`cargo xtask new-policy NAME` does it). Command line, documentation, laws, fuzzing, goldens and benchmarks
//! follow from the entry.

mod admission;
mod balance;
mod bfs;
mod bmq;
mod bvt;
mod canary;
mod cfs;
mod classes;
mod cosched;
mod credit;
mod deadline;
mod edf;
mod eevdf;
mod fair;
mod gang_edf;
mod homes;
mod laxity;
mod linux;
mod most_urgent;
mod muqss;
mod pds;
mod project_c;
mod round_robin;
mod rt;
mod rt_xen;
mod rtds;
mod sedf;
mod servers;

pub use canary::CANARIES;
use sched::Descriptor;

/// Every policy, in alphabetical order of name.
pub const ALL: &[&Descriptor] = &[
    &balance::POLICY,
    &bfs::POLICY,
    &bmq::POLICY,
    &bvt::POLICY,
    &cfs::POLICY,
    &cosched::POLICY,
    &credit::POLICY,
    &deadline::POLICY,
    &edf::POLICY,
    &eevdf::POLICY,
    &gang_edf::POLICY,
    &laxity::POLICY,
    &linux::POLICY,
    &muqss::POLICY,
    &pds::POLICY,
    &round_robin::POLICY,
    &rt::POLICY,
    &rt_xen::POLICY,
    &rtds::POLICY,
    &sedf::POLICY,
];

/// The policy of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Descriptor> {
    ALL.iter().copied().find(|policy| policy.name == name)
}
