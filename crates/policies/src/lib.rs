//! The scheduling policies of Tactus, each in its own module, and their registry.
//!
//! A new policy needs a module in this directory, a `mod` line and an entry in [`ALL`]. The `mod` lines and [`ALL`] are
//! in alphabetical order. `cargo xtask new-policy NAME` extends both. The command line, the documentation, the tests of
//! the laws, the fuzzer, the goldens and the benchmarks cover every entry.

mod adaptive;
mod admission;
mod balance;
mod bfs;
pub mod bmq;
mod bvt;
mod canary;
mod cfs;
mod classes;
mod cosched;
mod cosched_relaxed;
mod cosched_strict;
mod credit;
mod credit2;
mod deadline;
mod edf;
mod eevdf;
mod fair;
mod gang_edf;
mod homes;
mod hybrid;
mod laxity;
mod linux;
mod most_urgent;
mod muqss;
mod parallel;
mod pds;
mod poris;
mod poris_s;
mod project_c;
mod ps;
mod round_robin;
mod rs;
mod rt;
mod rt_xen;
mod rtds;
mod sedf;
mod servers;
mod skew;

pub use canary::CANARIES;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;

use sched::Descriptor;

/// Every policy, in alphabetical order of name.
pub const ALL: &[&Descriptor] = &[
    &adaptive::POLICY,
    &balance::POLICY,
    &bfs::POLICY,
    &bmq::POLICY,
    &bvt::POLICY,
    &cfs::POLICY,
    &cosched::POLICY,
    &cosched_relaxed::POLICY,
    &cosched_strict::POLICY,
    &credit::POLICY,
    &credit2::POLICY,
    &deadline::POLICY,
    &edf::POLICY,
    &eevdf::POLICY,
    &gang_edf::POLICY,
    &hybrid::POLICY,
    &laxity::POLICY,
    &linux::POLICY,
    &muqss::POLICY,
    &pds::POLICY,
    &poris::POLICY,
    &poris_s::POLICY,
    &ps::POLICY,
    &round_robin::POLICY,
    &rs::POLICY,
    &rt::POLICY,
    &rt_xen::POLICY,
    &rtds::POLICY,
    &sedf::POLICY,
];

/// Returns the policy of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Descriptor> {
    ALL.iter().copied().find(|policy| policy.name == name)
}
