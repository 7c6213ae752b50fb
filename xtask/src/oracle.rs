//! Python programs with which the tests compare the results of Tactus. Each program has its own virtual environment.

use crate::component::{self, works};
use crate::downloads;
use crate::root::{cargo, root, typed};
use crate::step::{Outcome, counted};
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program from PyPI, and the test in `crates/conformance/tests` that compares Tactus with this program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Oracle {
    /// Name of the program.
    name: &'static str,
    /// Release for which the test was written.
    release: &'static str,
    /// Python module that can be imported if the program is installed.
    module: &'static str,
    /// Folder of the virtual environment.
    folder: &'static str,
    /// Name of the test. A plain `cargo test` omits the test because it needs Python.
    test: &'static str,
    /// Environment variable that gives the test the path of Python.
    variable: &'static str,
}

/// A simulator of real-time scheduling. The test compares every job of random task sets.
pub(crate) const SIMSO: Oracle = Oracle {
    name: "SimSo",
    release: "simso==0.8.5",
    module: "simso.core",
    folder: "target/simso-venv",
    test: "simso",
    variable: "TACTUS_SIMSO_PYTHON",
};

/// A parser of ftrace text.
pub(crate) const TRAPPY: Oracle = Oracle {
    name: "TRAPpy",
    release: "trappy==6.0.1",
    module: "trappy",
    folder: "target/trappy-venv",
    test: "ftrace",
    variable: "TACTUS_TRAPPY_PYTHON",
};

/// A second, independent parser of ftrace text.
pub(crate) const LISA: Oracle = Oracle {
    name: "LISA",
    release: "lisa-linux==3.1.0",
    module: "lisa.trace",
    folder: "target/lisa-venv",
    test: "ftrace",
    variable: "TACTUS_LISA_PYTHON",
};

impl Oracle {
    /// Runs the comparison.
    pub(crate) fn check(self) -> Result<Outcome> {
        downloads::wait();
        let python = match self.environment() {
            Ok(python) => python,
            Err(reason) => return Ok(Outcome::Skipped(reason)),
        };
        let mut command = cargo(&["test", "--package", "conformance", "--test", self.test]);
        counted(command.env(self.variable, python))
    }

    /// Returns the path of Python in the virtual environment. Creates the environment if it does not exist.
    pub(crate) fn environment(self) -> Result<PathBuf, String> {
        component::python()?;
        let Oracle { name, release, folder, .. } = self;
        let path = root().join(folder);
        let python = path.join("bin/python");
        if self.is_in(&python) {
            return Ok(python);
        }
        println!("      making {folder} with {release} from PyPI");
        if !works(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&path)) {
            return Err(format!("python3 -m venv failed: no environment for {name}"));
        }
        let mut pip = Command::new(&python);
        // Python compiles imported modules on demand. Compiling all modules takes longer than the download.
        pip.args(["-m", "pip", "install", "--no-compile", "--quiet", "--disable-pip-version-check", release]);
        if works(&mut pip) && self.is_in(&python) {
            return Ok(python);
        }
        Err(format!("{} did not install {name} (no network?)", typed(&pip)))
    }

    fn is_in(self, python: &Path) -> bool {
        works(Command::new(python).args(["-c", &format!("import {}", self.module)]))
    }
}
