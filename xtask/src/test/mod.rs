//! `cargo xtask test`: runs every check as a step, in order, and prints the totals at the end.
//!
//! No step needs a terminal. A step is skipped with a message if its tools are missing and cannot be installed.

mod repeat;
mod trial;

use crate::oracle::{LISA, PERFETTO, SIMSO, TRAPPY};
use crate::program::BPF;
use crate::root::{ALL_PACKAGES, cargo};
use crate::seed::{self, FAULT_SEED};
use crate::step::{Outcome, Step, counted, run_all, succeeds};
use crate::{citation, component, downloads, fuzz, guest, lab, page, portable, python, site, wasm};
use anyhow::Result;
use std::process::ExitCode;

/// Runs every check.
pub(crate) fn run() -> Result<ExitCode> {
    downloads::begin(download);
    let (debian, guests) = guest::steps();
    let mut steps = vec![
        Step::new("formatting", formatting),
        Step::new("lints", || lints(&[])),
        Step::new("tidiness", || tidiness(&[])),
        Step::new("unit, law, golden, exhaustive, fuzz and doc tests", tests),
        Step::new("fuzzing of every policy, of worlds and of the daemon, from the seed of the commit", fuzz::check),
        Step::new("the experiments of the papers, a few points", lab::smoke),
        Step::new("crates without an operating system, for WebAssembly", portable::check),
        Step::new("the simulator in WebAssembly gives the bytes of the native program", wasm::check),
        Step::new(site::CHECK, site::check),
        Step::new(page::CHECK, page::check),
    ];
    steps.extend(debian);
    steps.extend([
        Step::new("documentation", documentation),
        Step::new("CITATION.cff, checked by cffconvert", citation::check),
        Step::new("comparison with SimSo", || SIMSO.check()),
        Step::new("TRAPpy reads ftrace text", || TRAPPY.check()),
        Step::new("LISA reads ftrace text", || LISA.check()),
        Step::new("Perfetto's schema reads traces", || PERFETTO.check()),
        Step::new("the types of the Python package", python::types),
        Step::new("the Python package", python::tests),
    ]);
    steps.extend(guests);
    // This step is last because its builds replace builds of the workspace.
    steps.push(Step::new("a new policy from the template", trial::check));
    run_all(&steps)
}

/// Installs the Python programs, the tools of the package and of the site, and QEMU, and fetches the kernel and the disk of guests.
fn download() {
    for oracle in [SIMSO, TRAPPY, LISA, PERFETTO] {
        let _ = oracle.python();
    }
    let _ = citation::TOOL.python();
    let _ = python::TOOLS.python();
    let _ = component::curl();
    let _ = component::tmux();
    let _ = component::systemd();
    let _ = component::cargo_deb();
    let _ = component::bpf();
    site::download();
    let _ = component::qemu().and_then(|()| guest::fetch());
}

pub(crate) fn formatting() -> Result<Outcome> {
    match component::rust("fmt", "rustfmt") {
        Ok(()) => succeeds(&mut cargo(&["fmt", "--all", "--check"])),
        Err(reason) => Ok(Outcome::Skipped(reason)),
    }
}

/// Runs Clippy on these crates, or on all crates if the list is empty.
pub(crate) fn lints(crates: &[String]) -> Result<Outcome> {
    match component::rust("clippy", "clippy") {
        Ok(()) => {
            let mut command = cargo(&["clippy", "--all-targets", "--keep-going"]);
            command.args(crates.is_empty().then_some("--workspace"));
            command.args(crates.iter().flat_map(|name| ["--package", name]));
            if (crates.is_empty() || crates.iter().any(|name| name == "scx")) && component::bpf().is_ok() {
                command.args(["--features", BPF]);
            }
            succeeds(command.args(["--", "-D", "warnings"]))
        }
        Err(reason) => Ok(Outcome::Skipped(reason)),
    }
}

/// Runs the tests of xtask whose names contain one of `names`, or all tests of xtask if the list is empty.
pub(crate) fn tidiness(names: &[&str]) -> Result<Outcome> {
    counted(cargo(&["test", "--package", "xtask", "--"]).args(names))
}

fn tests() -> Result<Outcome> {
    let mut command = cargo(&["test", "--no-fail-fast"]);
    let all = counted(command.args(ALL_PACKAGES).env(FAULT_SEED, seed::of_sources().to_string()))?;
    repeat::failed_live_tests(all)
}

fn documentation() -> Result<Outcome> {
    succeeds(cargo(&["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))
}
