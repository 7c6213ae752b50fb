//! The simulator in WebAssembly: builds the module with its JavaScript, and compares its runs with the native program.

use crate::component;
use crate::downloads;
use crate::program::TACTUS;
use crate::root::{cargo, done, root, typed};
use crate::step::{Failure, Outcome, Tally};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Lines, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Package of the module.
const PACKAGE: &str = "wasm";
/// The target without an operating system.
const TARGET: &str = "wasm32-unknown-unknown";
/// Name of the generated files.
const NAME: &str = "tactus";
/// The program that runs scenarios in the module.
const RUNNER: &str = "crates/wasm/tests/run.mjs";

/// What loads the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Loader {
    /// Node.js.
    Node,
    /// A script of a page, as a module of JavaScript.
    Page,
}

impl Loader {
    fn word(self) -> &'static str {
        match self {
            Loader::Node => "nodejs",
            Loader::Page => "web",
        }
    }
}

/// What the module is built for: its profile, in Cargo.toml.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Profile {
    /// For users: small.
    Web,
    /// For tests: soon built.
    WebTest,
}

impl Profile {
    fn name(self) -> &'static str {
        match self {
            Profile::Web => "web",
            Profile::WebTest => "web-test",
        }
    }
}

/// Modules that this process has built: several steps use the same files.
static BUILT: Mutex<Vec<(Loader, Profile)>> = Mutex::new(Vec::new());

/// Builds the module, with the JavaScript for `loader`, unless this process has built it. Returns the folder of the files.
///
/// # Errors
/// The target or wasm-bindgen is missing, or the module cannot be built.
pub(crate) fn build(loader: Loader, profile: Profile) -> Result<PathBuf> {
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let output = root().join("target/wasm").join(loader.word());
    if built.contains(&(loader, profile)) {
        return Ok(output);
    }
    component::target(TARGET).map_err(anyhow::Error::msg)?;
    let bindgen = bindgen()?;
    // Cargo does no link-time optimisation of a package that is a library of Rust, too.
    let mut module = cargo(&["rustc", "--package", PACKAGE, "--lib", "--crate-type", "cdylib"]);
    done(module.args(["--target", TARGET, "--profile", profile.name()]))?;
    let module = root().join("target").join(TARGET).join(profile.name()).join(format!("{PACKAGE}.wasm"));
    let mut bind = Command::new(bindgen);
    bind.args(["--target", loader.word(), "--out-name", NAME, "--out-dir"]).arg(&output).arg(module);
    done(&mut bind)?;
    // Both profiles have the same folder.
    built.retain(|&(other, _)| other != loader);
    built.push((loader, profile));
    Ok(output)
}

/// Installs wasm-bindgen, if it is missing. Returns its path.
pub(crate) fn bindgen() -> Result<PathBuf> {
    component::wasm_bindgen(&version_of_bindgen()?).map_err(anyhow::Error::msg)
}

/// Returns the version of the crate wasm-bindgen, which the program must have, too.
fn version_of_bindgen() -> Result<String> {
    let output = cargo(&["metadata", "--format-version", "1", "--locked"]).output().context("cannot run cargo")?;
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata is no JSON")?;
    let packages = metadata["packages"].as_array().cloned().unwrap_or_default();
    let found = packages.iter().find(|package| package["name"] == "wasm-bindgen");
    Ok(found.and_then(|package| package["version"].as_str()).context("no crate uses wasm-bindgen")?.to_string())
}

/// Installs what the module and its tests need.
///
/// # Errors
/// The reason why a program is missing.
pub(crate) fn programs() -> Result<(), String> {
    component::target(TARGET).and_then(|()| component::node())
}

/// Scenarios of the golden traces, and the lengths of the traces in milliseconds, as in
/// crates/conformance/tests/policies/golden.rs.
const GOLDEN: [(&str, u64); 3] = [("parallel", 60), ("three-vms", 300), ("weights", 200)];

/// Checks that the module gives the bytes of `tactus sim --json` for each scenario of the repository, and each golden trace.
pub(crate) fn check() -> Result<Outcome> {
    downloads::wait();
    if let Err(reason) = programs() {
        return Ok(Outcome::Skipped(reason));
    }
    let module = build(Loader::Node, Profile::WebTest)?.join(format!("{NAME}.js"));
    let tactus = TACTUS.build()?;
    let files = files()?;
    let mut comparisons: Vec<Comparison<'_>> = Vec::new();
    for (name, text) in files.iter().filter(|(name, _)| is_compared(name)) {
        let request = json!({ "name": name, "scenario": text, "files": files });
        comparisons.push(Comparison { what: name.clone(), request, wanted: Wanted::Output(name) });
    }
    for (name, ms) in GOLDEN {
        for (policy, golden) in goldens(name)? {
            let scenario = &files[&format!("scenarios/{name}.toml")];
            let length = ms * 1_000_000;
            let request =
                json!({ "name": name, "scenario": scenario, "policies": [policy], "length_ns": length, "trace": true });
            let what = format!("golden/{name}.{policy}.trace");
            comparisons.push(Comparison { what, request, wanted: Wanted::Trace(golden) });
        }
    }
    let equal = compared(&comparisons, &tactus, &module)?;
    let mut tally = Tally::default();
    equal.iter().for_each(|&equal| tally += if equal { Tally::PASSED } else { Tally::FAILED });
    let differing = comparisons.iter().zip(&equal).find(|(_, equal)| !**equal);
    let failure = differing.map(|(comparison, _)| Failure {
        text: format!("{}: the module gives other bytes than the native program", comparison.what),
        again: format!("node {RUNNER} {} < REQUEST", module.display()),
    });
    Ok(Outcome::Counted(tally, failure))
}

/// A run of the module, and what it must give.
struct Comparison<'a> {
    /// Name in messages.
    what: String,
    request: Value,
    wanted: Wanted<'a>,
}

/// What a run of the module must give.
enum Wanted<'a> {
    /// The output of `tactus sim --json` for this file.
    Output(&'a str),
    /// This trace.
    Trace(String),
}

impl Comparison<'_> {
    /// Returns whether the module gives the wanted bytes.
    fn is_equal(&self, tactus: &Path, module: &mut Module) -> Result<bool> {
        let found = module.simulate(&self.request)?;
        Ok(match &self.wanted {
            Wanted::Output(name) => {
                found["json"] == output(Command::new(tactus).args(["sim", "--json", name]).current_dir(root()))?
            }
            Wanted::Trace(golden) => found["traces"][0] == **golden,
        })
    }
}

/// Makes the comparisons, on all CPUs. Returns for each whether the bytes are equal.
fn compared(comparisons: &[Comparison<'_>], tactus: &Path, module: &Path) -> Result<Vec<bool>> {
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<(usize, bool)>> {
        let (mut module, mut done) = (Module::start(module)?, Vec::new());
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(comparison) = comparisons.get(at) else {
                module.end()?;
                return Ok(done);
            };
            done.push((at, comparison.is_equal(tactus, &mut module)?));
        }
    };
    let cpus = std::thread::available_parallelism().map_or(1, NonZero::get);
    let all: Result<Vec<_>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cpus).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("a worker returns its error")).collect()
    });
    let mut all: Vec<(usize, bool)> = all?.into_iter().flatten().collect();
    all.sort_unstable();
    Ok(all.into_iter().map(|(_, equal)| equal).collect())
}

/// Returns whether the whole run of this file is compared.
fn is_compared(name: &str) -> bool {
    // The benchmark takes as long as all others together.
    name.ends_with(".toml") && !name.ends_with("bench-two-level.toml")
}

/// The module in a process of Node.js, which ends with the last request.
struct Module {
    node: Child,
    requests: ChildStdin,
    results: Lines<BufReader<ChildStdout>>,
}

impl Module {
    fn start(module: &Path) -> Result<Module> {
        let mut node = Command::new("node");
        node.arg(RUNNER).arg(module).current_dir(root()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = node.spawn().with_context(|| format!("cannot run {}", typed(&node)))?;
        let (requests, results) = (child.stdin.take(), child.stdout.take());
        let results = BufReader::new(results.context("the output is a pipe")?).lines();
        Ok(Module { node: child, requests: requests.context("the input is a pipe")?, results })
    }

    /// Runs a request.
    fn simulate(&mut self, request: &Value) -> Result<Value> {
        writeln!(self.requests, "{request}").context("the module has ended")?;
        let result = self.results.next().context("the module has ended")??;
        serde_json::from_str(&result).context("the module returned no JSON")
    }

    /// Ends the process.
    fn end(mut self) -> Result<()> {
        drop(self.requests);
        ensure!(self.node.wait()?.success(), "the module has failed");
        Ok(())
    }
}

/// Runs `command`. Returns its output.
fn output(command: &mut Command) -> Result<String> {
    let done = command.output()?;
    ensure!(done.status.success(), "{} failed", typed(command));
    Ok(String::from_utf8(done.stdout)?)
}

/// Returns the scenarios of the repository and the files that they name, by their paths.
fn files() -> Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![PathBuf::from("scenarios")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root().join(&folder))? {
            let path = folder.join(entry?.file_name());
            if root().join(&path).is_dir() {
                folders.push(path);
            } else {
                files.insert(path.display().to_string(), std::fs::read_to_string(root().join(&path))?);
            }
        }
    }
    Ok(files)
}

/// Returns the golden traces of a scenario, by policy.
fn goldens(scenario: &str) -> Result<BTreeMap<String, String>> {
    let mut goldens = BTreeMap::new();
    for entry in std::fs::read_dir(root().join("golden"))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let policy = name.strip_prefix(&format!("{scenario}.")).and_then(|name| name.strip_suffix(".trace"));
        if let Some(policy) = policy {
            goldens.insert(policy.to_string(), std::fs::read_to_string(&path)?);
        }
    }
    ensure!(!goldens.is_empty(), "there are no golden traces of {scenario}");
    Ok(goldens)
}
