//! The comparison with SimSo, the real-time simulator in Python: a virtual environment that holds it, and the test
//! in `crates/lab/tests/simso.rs` that runs both programs on the same task sets.

use crate::component::{self, works};
use crate::root::{cargo, root, typed};
use crate::test::{Outcome, counted};
use anyhow::Result;
use std::path::PathBuf;
use std::process::Command;

/// The release whose traps we know.
const RELEASE: &str = "simso==0.8.5";

/// Compares every job of random task sets with SimSo's.
pub(crate) fn check() -> Result<Outcome> {
    let python = match environment() {
        Ok(python) => python,
        Err(reason) => return Ok(Outcome::Skipped(reason)),
    };
    // The target is kept out of a plain `cargo test`: it needs Python.
    let mut command = cargo(&["test", "--package", "lab", "--test", "simso"]);
    counted(command.env("TACTUS_SIMSO_PYTHON", python))
}

/// The Python that has SimSo, in an environment of its own.
pub(crate) fn environment() -> Result<PathBuf, String> {
    component::python()?;
    let folder = root().join("target/simso-venv");
    let python = folder.join("bin/python");
    if has_simso(&python) {
        return Ok(python);
    }
    println!("      making target/simso-venv with {RELEASE} from PyPI");
    if !works(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder)) {
        return Err("python3 -m venv failed: no environment for SimSo".to_string());
    }
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", RELEASE]);
    if works(&mut pip) && has_simso(&python) {
        return Ok(python);
    }
    Err(format!("{} did not bring SimSo (no network?)", typed(&pip)))
}

fn has_simso(python: &std::path::Path) -> bool {
    works(Command::new(python).args(["-c", "import simso.core"]))
}
