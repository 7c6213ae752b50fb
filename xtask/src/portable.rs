//! The crates that need no operating system, and the check that these crates compile for WebAssembly.

use crate::component;
use crate::root::cargo;
use crate::step::{Outcome, succeeds};
use anyhow::Result;

/// Crates that use no threads, clocks, files or processes.
pub(crate) const PORTABLE: &[&str] = &[
    "coordination",
    "input",
    "measure",
    "orders",
    "policies",
    "report",
    "run",
    "scenario",
    "sched",
    "sim",
    "trace",
    "wasm",
    "workloads",
];
/// The target without an operating system.
const TARGET: &str = "wasm32-unknown-unknown";

/// Checks that [`PORTABLE`] crates compile for WebAssembly.
pub(crate) fn check() -> Result<Outcome> {
    if let Err(reason) = component::target(TARGET) {
        return Ok(Outcome::Skipped(reason));
    }
    let mut command = cargo(&["check", "--target", TARGET]);
    succeeds(command.args(PORTABLE.iter().flat_map(|name| ["--package", name])))
}
