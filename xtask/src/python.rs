//! The Python package: its build, its types and its tests.

use crate::downloads;
use crate::environment::Environment;
use crate::oracle::LISA;
use crate::program::TACTUS;
use crate::root::{cargo, root};
use crate::step::{Failure, Outcome, counted_by_pytest, succeeds};
use crate::stream::pass_on;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::OnceLock;

/// Folder of the package.
pub(crate) const PACKAGE: &str = "crates/python";

/// Environment with the programs that build and test the package, and with the packages that it works with.
pub(crate) const TOOLS: Environment = Environment {
    folder: "target/python-venv",
    packages: &[
        "maturin==1.16.0",
        "pytest==9.2.0",
        "mypy==2.4.1",
        "types-tqdm==4.70.0.20261106",
        "tqdm==4.70.1",
        "pyarrow==26.0.1",
        "polars==2.1.0",
        "pandas==2.3.3",
        "dask==2026.8.0",
        "distributed==2026.8.0",
        "dask-jobqueue==0.9.0",
        "simso==0.8.5",
        "nbclient==0.11.0",
        "nbformat==5.11.1",
        "ipykernel==7.4.0",
        "schemathesis==4.32.5",
        "prometheus-client==0.26.0",
    ],
    check: "import dask, dask_jobqueue, distributed, ipykernel, maturin, mypy, nbclient, pandas, polars, prometheus_client, pyarrow, pytest, schemathesis, simso.core, tqdm",
};

/// A check that cannot begin.
enum Obstacle {
    Missing(String),
    Failed(Failure),
}

impl From<Obstacle> for Outcome {
    fn from(obstacle: Obstacle) -> Outcome {
        match obstacle {
            Obstacle::Missing(reason) => Outcome::Skipped(reason),
            Obstacle::Failed(failure) => Outcome::Failed(failure),
        }
    }
}

/// Builds the wheel in `profile` in `folder` and installs it in the environment of `python`.
fn install(python: &Path, profile: &str, folder: &str) -> Result<Result<(), Obstacle>> {
    let wheels = root().join(folder);
    // A wheel of an earlier version must not be installed.
    let _ = std::fs::remove_dir_all(&wheels);
    let mut build = Command::new(python.with_file_name("maturin"));
    build.args(["build", "--profile", profile, "--manifest-path"]).arg(format!("{PACKAGE}/Cargo.toml"));
    build.arg("--out").arg(&wheels).current_dir(root());
    // maturin calls cargo, which must be the cargo of this program.
    build.env("CARGO", cargo(&[]).get_program());
    if let Outcome::Failed(failure) = succeeds(&mut build)? {
        return Ok(Err(Obstacle::Failed(failure)));
    }
    let mut install = Command::new(python.with_file_name("uv"));
    install.args(["pip", "install", "--quiet", "--no-deps", "--reinstall-package", "tactus-sched", "--python"]);
    install.arg(python).arg(only_wheel(&wheels)?);
    if let Outcome::Failed(failure) = succeeds(&mut install)? {
        return Ok(Err(Obstacle::Failed(failure)));
    }
    Ok(Ok(()))
}

/// Returns a Python with the package, installed from its wheel. The package is built once, in the profile of development,
/// which shares its libraries with `cargo test`. `cargo rustc`, which maturin calls, makes a test program in the profile
/// `test`.
fn installed() -> Result<Result<PathBuf, Obstacle>> {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    downloads::wait();
    let python = match TOOLS.python() {
        Ok(python) => python,
        Err(reason) => return Ok(Err(Obstacle::Missing(reason))),
    };
    if INSTALLED.get().is_some() {
        return Ok(Ok(python));
    }
    if let Err(obstacle) = install(&python, "dev", "target/python-wheels")? {
        return Ok(Err(obstacle));
    }
    let _ = INSTALLED.set(());
    Ok(Ok(python))
}

/// Returns the path of the wheel in `folder`.
fn only_wheel(folder: &Path) -> Result<PathBuf> {
    let listed = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut paths = listed.filter_map(Result::ok).map(|entry| entry.path());
    let wheel = paths.find(|path| path.extension().is_some_and(|ending| ending == "whl"));
    wheel.with_context(|| format!("{} has no wheel", folder.display()))
}

/// Checks the types of the installed package, and that its stubs describe the native module.
pub(crate) fn types() -> Result<Outcome> {
    let python = match installed()? {
        Ok(python) => python,
        Err(obstacle) => return Ok(obstacle.into()),
    };
    // In another folder, mypy does not find the package in the tree.
    let mut mypy = Command::new(&python);
    mypy.args(["-m", "mypy", "--strict", "--package", "tactus_sched"]).current_dir(root().join("target"));
    if let failed @ Outcome::Failed(_) = succeeds(&mut mypy)? {
        return Ok(failed);
    }
    let mut stubtest = Command::new(&python);
    stubtest.args(["-m", "mypy.stubtest", "tactus_sched._native"]).current_dir(root().join("target"));
    succeeds(&mut stubtest)
}

/// Runs the tests of the installed package.
pub(crate) fn tests() -> Result<Outcome> {
    let python = match installed()? {
        Ok(python) => python,
        Err(obstacle) => return Ok(obstacle.into()),
    };
    let mut pytest = Command::new(&python);
    pytest.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode", "importlib"]);
    pytest.arg(root().join(PACKAGE).join("tests")).current_dir(root().join("target"));
    pytest.env("TACTUS_ROOT", root()).env("TACTUS_COMMAND", TACTUS.build()?);
    pytest.env("PYTHONDONTWRITEBYTECODE", "1");
    if let Ok(lisa) = LISA.python() {
        pytest.env("TACTUS_LISA_PYTHON", lisa);
    }
    counted_by_pytest(&mut pytest)
}

/// Measures the speed of the package in release mode. `runs` is the number of pairs of runs.
pub(crate) fn bench(runs: &str) -> Result<ExitCode> {
    let python = TOOLS.python().map_err(anyhow::Error::msg)?;
    if let Err(obstacle) = install(&python, "release", "target/python-release")? {
        match obstacle {
            Obstacle::Missing(reason) => bail!(reason),
            Obstacle::Failed(failure) => bail!("{}", failure.text),
        }
    }
    let folder = root().join("target/python-bench");
    std::fs::create_dir_all(&folder)?;
    pass_on(&mut cargo(&["build", "--release", "--quiet", "--package", "cli"]))?;
    let mut bench = Command::new(&python);
    bench.arg(root().join(PACKAGE).join("benches/package.py")).args(["--runs", runs, "--command"]);
    bench.arg(root().join("target/release/tactus")).arg("--folder").arg(folder).current_dir(root().join("target"));
    pass_on(&mut bench)
}
