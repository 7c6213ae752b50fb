//! Python programs with which the tests compare the results of Tactus. Each program has its own virtual environment.

use crate::downloads;
use crate::environment::Environment;
use crate::root::{ALL_PACKAGES, cargo};
use crate::step::{Outcome, counted};
use anyhow::Result;
use std::path::PathBuf;

/// A program from PyPI, and the test in `crates/conformance/tests` that compares Tactus with this program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Oracle {
    /// Name of the program.
    name: &'static str,
    /// Environment with the release for which the test was written.
    environment: Environment,
    /// Name of the test. A plain `cargo test` omits the test because it needs Python.
    test: &'static str,
    /// Environment variable that gives the test the path of Python.
    variable: &'static str,
}

/// A simulator of real-time scheduling. The test compares every job of random task sets.
pub(crate) const SIMSO: Oracle = Oracle {
    name: "SimSo",
    environment: Environment { folder: "target/simso-venv", packages: &["simso==0.8.5"], check: "import simso.core" },
    test: "simso",
    variable: "TACTUS_SIMSO_PYTHON",
};

/// A parser of ftrace text.
pub(crate) const TRAPPY: Oracle = Oracle {
    name: "TRAPpy",
    environment: Environment { folder: "target/trappy-venv", packages: &["trappy==6.0.1"], check: "import trappy" },
    test: "ftrace",
    variable: "TACTUS_TRAPPY_PYTHON",
};

/// A second, independent parser of ftrace text.
pub(crate) const LISA: Oracle = Oracle {
    name: "LISA",
    environment: Environment {
        folder: "target/lisa-venv",
        packages: &["lisa-linux==3.1.0", "numpy<2", "pandas<2.2", "pyarrow<19", "nest-asyncio"],
        check: "import lisa.trace, lisa.monad",
    },
    test: "ftrace",
    variable: "TACTUS_LISA_PYTHON",
};

/// The schema of Perfetto's format, with classes that read it.
pub(crate) const PERFETTO: Oracle = Oracle {
    name: "Perfetto's schema",
    environment: Environment {
        folder: "target/perfetto-venv",
        packages: &["perfetto==0.59.1", "protobuf==7.36.2"],
        check: "import perfetto.protos.perfetto.trace.perfetto_trace_pb2",
    },
    test: "perfetto",
    variable: "TACTUS_PERFETTO_PYTHON",
};

impl Oracle {
    /// Runs the comparison.
    pub(crate) fn check(self) -> Result<Outcome> {
        downloads::wait();
        let python = match self.python() {
            Ok(python) => python,
            Err(reason) => return Ok(Outcome::Skipped(reason)),
        };
        let mut command = cargo(&["test", "--test", self.test]);
        counted(command.args(ALL_PACKAGES).env(self.variable, python))
    }

    /// Returns the path of Python in the environment of the program.
    pub(crate) fn python(self) -> Result<PathBuf, String> {
        self.environment.python().map_err(|why| format!("no {}: {why}", self.name))
    }
}
