//! `cargo xtask page`: builds the files of the page of the service, and checks the page in Chromium.

use crate::component;
use crate::program::TACTUS;
use crate::root::{done, root};
use crate::step::{Failure, NODE_TEST, Outcome, Step, counted_by_node, run_all};
use crate::wasm::{self, Loader, Profile};
use anyhow::{Context, Result, ensure};
use clap::Args;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Name of the check.
pub(crate) const CHECK: &str = "the page of the service in Chromium";
/// Folder of the files, which the program contains.
const FILES: &str = "crates/page/assets";
/// The files in the repository, so that a build of the program needs only Rust.
const COMMITTED: [&str; 3] = ["index.html", "page.css", "page.js"];
/// Folder of the simulator, which the repository does not contain: its worker, and its compressed module.
const SIMULATOR: &str = "target/page-simulator";
const PARTS: [&str; 2] = ["simulator.js", "simulator.wasm.gz"];
/// Tests of the page.
const TESTS: [&str; 2] = ["tests/page/modules.test.mjs", "tests/page/page.test.mjs"];

/// The benchmark of the page.
const BENCH: &str = "benches/main.mjs";

/// Options of `cargo xtask page`.
#[derive(Args, Debug)]
pub(crate) struct Page {
    /// Check that the files in the repository are those of the sources, and use the page in Chromium.
    #[arg(long)]
    check: bool,
    /// Measure the page in Chromium and the simulator in WebAssembly, on a quiet machine.
    #[arg(long, conflicts_with = "check")]
    bench: bool,
    /// Number of measurements; the medians are printed.
    #[arg(long, default_value_t = 3, requires = "bench")]
    runs: u32,
}

/// Builds the files of the page, with the simulator.
pub(crate) fn run(page: &Page) -> Result<ExitCode> {
    if page.check {
        return run_all(&[Step::new(CHECK, check)]);
    }
    build()?;
    if page.bench {
        bench(page.runs)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Measures the page and the simulator. The program and the module are those that users run.
fn bench(runs: u32) -> Result<()> {
    programs().map_err(anyhow::Error::msg)?;
    let module = wasm::build(Loader::Node, Profile::Web)?.join("tactus.js");
    let tactus = TACTUS.build_in("release")?;
    let mut bench = Command::new("node");
    bench.arg(BENCH).arg(module).arg(runs.to_string()).env("TACTUS", tactus).current_dir(root().join("web"));
    done(&mut bench)
}

/// Builds the files of the page, with the simulator. The next build of the program contains them.
pub(crate) fn build() -> Result<()> {
    component::node().and_then(|()| component::packages_of_web()).map_err(anyhow::Error::msg)?;
    npm("build")?;
    simulator(Profile::Web)?;
    for part in PARTS {
        let (from, to) = (root().join(SIMULATOR).join(part), root().join(FILES).join(part));
        fs::copy(&from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
    }
    Ok(())
}

/// Runs a script of the package in `web`.
fn npm(script: &str) -> Result<()> {
    done(Command::new("npm").args(["run", "--silent", script]).current_dir(root().join("web")))
}

/// Builds the simulator of the page in target/page-simulator.
fn simulator(profile: Profile) -> Result<()> {
    let module = wasm::build(Loader::Page, profile)?.join("tactus_bg.wasm");
    npm("build-page-simulator")?;
    let mut gzip = Command::new("gzip");
    let packed = gzip.args(["--best", "--no-name", "--stdout"]).arg(&module).output().context("cannot run gzip")?;
    ensure!(packed.status.success(), "gzip failed");
    let path = root().join(SIMULATOR).join(PARTS[1]);
    fs::write(&path, packed.stdout).with_context(|| format!("cannot write {}", path.display()))
}

/// Checks that the files in the repository are those of the sources, and uses the page in Chromium.
pub(crate) fn check() -> Result<Outcome> {
    if let Err(reason) = programs() {
        return Ok(Outcome::Skipped(reason));
    }
    let before = committed()?;
    npm("check")?;
    npm("build")?;
    if before != committed()? {
        let text = format!("the files in {FILES} were not those of the sources; they are now: commit them");
        return Ok(Outcome::Failed(Failure { text, again: "cargo xtask page".to_string() }));
    }
    simulator(Profile::WebTest)?;
    let tactus = TACTUS.build()?;
    let mut tests = Command::new("node");
    tests.args(NODE_TEST).args(TESTS).env("TACTUS", tactus).current_dir(root().join("web"));
    counted_by_node(&mut tests)
}

fn programs() -> Result<(), String> {
    if !component::is_root() {
        return Err("a core for the tests needs root".to_string());
    }
    wasm::programs()?;
    component::curl()?;
    component::packages_of_web()?;
    component::chromium()
}

/// Returns the contents of the files in the repository.
fn committed() -> Result<Vec<Vec<u8>>> {
    let path = |name: &&str| -> PathBuf { Path::new(&root()).join(FILES).join(name) };
    let read = |name| fs::read(path(name)).with_context(|| format!("cannot read {}", path(name).display()));
    COMMITTED.iter().map(read).collect()
}
