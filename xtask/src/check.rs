//! `cargo xtask check`: checks formatting and tidiness, and runs the lints and tests of the crates that a change
//! affects.

use crate::root::{cargo, root};
use crate::step::{Outcome, Step, counted, run_all};
use crate::test::{formatting, lints, tidiness};
use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Files in the root folder that affect every crate.
const OF_ALL: &[&str] = &["Cargo.toml", "Cargo.lock", "clippy.toml", "rustfmt.toml"];
/// Sources of the policies. If a change affects only policies, the suites that run for every policy run only for the
/// changed policies.
const POLICIES: &str = "crates/policies/src";
/// Environment variable with the policies to test. If it is set, tests of several crates run for these policies instead
/// of all policies in the registry.
const CHOSEN: &str = "TACTUS_POLICY";

/// Options of `cargo xtask check`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Check {
    /// Commit to compare with (default: the commit at which the branch left `main`).
    #[arg(long)]
    base: Option<String>,
    /// Print the crates to check without checking them.
    #[arg(long)]
    list: bool,
}

/// Crates and policies that a change affects.
#[derive(PartialEq, Eq, Debug, Default)]
struct Touched {
    /// Crates that contain a changed file or name it in their sources, crates that depend on these crates, and crates
    /// whose tests use any of these crates.
    crates: Vec<String>,
    /// Changed policies, if the change affects no other sources; otherwise empty.
    policies: Vec<String>,
}

/// A crate of the workspace.
#[derive(Debug)]
struct Package {
    name: String,
    folder: PathBuf,
    /// Crates of the workspace that the library or program uses.
    uses: BTreeSet<String>,
    /// Crates of the workspace that the tests use.
    tested_with: BTreeSet<String>,
}

/// Checks the changes since the base, including uncommitted and new files.
pub(crate) fn run(check: &Check) -> Result<ExitCode> {
    let changed = changed_files(check.base.as_deref())?;
    let packages = workspace()?;
    let names = |package: &str, folder: &str| mentions(&root().join(package), folder);
    let Touched { crates, policies } = touched(&changed, &packages, &names);
    println!(
        "{} files changed; crates to check: {}",
        changed.len(),
        if crates.is_empty() { "none".to_string() } else { crates.join(", ") }
    );
    if !policies.is_empty() {
        println!("suites that go through all policies: {} only", policies.join(", "));
    }
    if check.list {
        return Ok(ExitCode::SUCCESS);
    }
    let mut steps = vec![Step::new("formatting", formatting)];
    if !crates.is_empty() {
        let linted = crates.clone();
        steps.push(Step::new("lints", move || lints(&linted)));
    }
    // Run all tests of xtask if xtask has changed, otherwise only the tidiness rules.
    let rules = if crates.iter().any(|name| name == "xtask") { &[][..] } else { &["tidy::"] };
    steps.push(Step::new("tidiness", move || tidiness(rules)));
    let tested: Vec<String> = crates.into_iter().filter(|name| name != "xtask").collect();
    if !tested.is_empty() {
        steps.push(Step::new("tests", move || tests(&tested, &policies)));
    }
    run_all(&steps)
}

fn tests(crates: &[String], policies: &[String]) -> Result<Outcome> {
    let mut command = cargo(&["test", "--no-fail-fast"]);
    command.args(crates.iter().flat_map(|name| ["--package", name]));
    if !policies.is_empty() {
        command.env(CHOSEN, policies.join(","));
    }
    counted(&mut command)
}

/// Returns the paths, relative to the root folder, of the files that differ from the base. A renamed file appears under
/// both names.
fn changed_files(base: Option<&str>) -> Result<Vec<PathBuf>> {
    let base = match base {
        Some(base) => base.to_string(),
        // On `main`, and in a repository without `main`, the change is the set of uncommitted files.
        None => git(&["merge-base", "HEAD", "main"]).unwrap_or_else(|_| "HEAD\n".to_string()).trim().to_string(),
    };
    let tracked = git(&["diff", "--name-only", "--no-renames", "-z", &base, "--"])?;
    let new = git(&["ls-files", "--others", "--exclude-standard", "-z"])?;
    let names = tracked.split_terminator('\0').chain(new.split_terminator('\0'));
    Ok(names.map(PathBuf::from).collect())
}

fn git(arguments: &[&str]) -> Result<String> {
    let output = Command::new("git").args(arguments).current_dir(root()).output().context("cannot run git")?;
    if !output.status.success() {
        bail!("git {} failed: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn workspace() -> Result<Vec<Package>> {
    let output = cargo(&["metadata", "--format-version", "1", "--no-deps", "--offline"]).output()?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(packages(&serde_json::from_slice(&output.stdout)?, &root()))
}

fn packages(metadata: &Value, root: &Path) -> Vec<Package> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let package = |package: &Value| {
        let manifest = PathBuf::from(text(&package["manifest_path"]));
        let folder = manifest.parent().and_then(|folder| folder.strip_prefix(root).ok()).unwrap_or(Path::new(""));
        let ours = package["dependencies"].as_array().into_iter().flatten().filter(|used| used["path"].is_string());
        let (tests, build): (Vec<&Value>, Vec<&Value>) = ours.partition(|used| used["kind"] == "dev");
        let names = |list: Vec<&Value>| list.into_iter().map(|used| text(&used["name"])).collect();
        Package {
            name: text(&package["name"]),
            folder: folder.to_path_buf(),
            uses: names(build),
            tested_with: names(tests),
        }
    };
    metadata["packages"].as_array().into_iter().flatten().map(package).collect()
}

/// Returns the crates and policies that the changed files affect. `names` returns whether the sources in a crate's
/// folder name a file or folder in the root folder.
fn touched(changed: &[PathBuf], packages: &[Package], names: &dyn Fn(&str, &str) -> bool) -> Touched {
    let mut crates = BTreeSet::new();
    for path in changed {
        let top = path.iter().next().unwrap_or_default().to_string_lossy();
        let holds = |package: &&Package| match packages.iter().any(|other| path.starts_with(&other.folder)) {
            true => path.starts_with(&package.folder),
            false => OF_ALL.contains(&&*top) || names(&package.folder.to_string_lossy(), &top),
        };
        crates.extend(packages.iter().filter(holds).map(|package| package.name.clone()));
    }
    loop {
        let uses = |package: &&Package| !package.uses.is_disjoint(&crates) && !crates.contains(&package.name);
        let more: Vec<String> = packages.iter().filter(uses).map(|package| package.name.clone()).collect();
        if more.is_empty() {
            break;
        }
        crates.extend(more);
    }
    let tests = packages.iter().filter(|package| !package.tested_with.is_disjoint(&crates));
    let tested: Vec<String> = tests.map(|package| package.name.clone()).collect();
    crates.extend(tested);
    Touched { crates: crates.into_iter().collect(), policies: only_policies(changed) }
}

/// Returns the changed policies if every changed source file belongs to a policy; otherwise returns an empty list.
fn only_policies(changed: &[PathBuf]) -> Vec<String> {
    let mut policies = BTreeSet::new();
    for path in
        changed.iter().filter(|path| path.starts_with("crates") || OF_ALL.iter().any(|name| path.ends_with(name)))
    {
        let module = path.strip_prefix(POLICIES).ok().and_then(|inside| inside.iter().next());
        let module = module.map(|name| name.to_string_lossy().trim_end_matches(".rs").to_string());
        let is_policy = |module: &String| {
            let files = [format!("{POLICIES}/{module}.rs"), format!("{POLICIES}/{module}/mod.rs")];
            let texts = files.iter().filter_map(|file| std::fs::read_to_string(root().join(file)).ok());
            let name = format!("name: \"{}\"", module.replace('_', "-"));
            module != "canary"
                && texts.into_iter().any(|text| text.contains("const POLICY: Descriptor") && text.contains(&name))
        };
        match module.filter(is_policy) {
            Some(module) => policies.insert(module.replace('_', "-")),
            None => return Vec::new(),
        };
    }
    policies.into_iter().collect()
}

/// Returns whether a Rust source below `folder` names this file or folder of the root folder.
fn mentions(folder: &Path, name: &str) -> bool {
    let is_file = root().join(name).is_file();
    let wanted = if is_file { name.to_string() } else { format!("{name}/") };
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    entries.filter_map(Result::ok).any(|entry| {
        let path = entry.path();
        match path.extension() {
            _ if path.is_dir() => mentions(&path, name),
            Some(extension) if extension == "rs" => {
                std::fs::read_to_string(&path).is_ok_and(|text| text.contains(&wanted))
            }
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace_of(uses: &[(&str, &[&str], &[&str])]) -> Vec<Package> {
        let set = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        let package = |(name, uses, tested_with): &(&str, &[&str], &[&str])| Package {
            name: name.to_string(),
            folder: Path::new("crates").join(name),
            uses: set(uses),
            tested_with: set(tested_with),
        };
        uses.iter().map(package).collect()
    }

    fn crates(changed: &[&str]) -> Vec<String> {
        let packages = workspace_of(&[
            ("sched", &[], &["policies"]),
            ("policies", &["sched"], &["sim"]),
            ("sim", &["sched"], &[]),
            ("cli", &["sim"], &[]),
            ("sys", &[], &[]),
        ]);
        let changed: Vec<PathBuf> = changed.iter().map(PathBuf::from).collect();
        touched(&changed, &packages, &|package, top| (package, top) == ("crates/cli", "scenarios")).crates
    }

    #[test]
    fn a_change_touches_its_crate_those_built_with_it_and_those_tested_with_these() {
        assert_eq!(crates(&["crates/sys/src/lib.rs"]), ["sys"]);
        // The tests of `policies` use `sim`. The tests of `sched` use `policies`, whose library is unchanged, so
        // `sched` is not checked.
        assert_eq!(crates(&["crates/sim/src/lib.rs"]), ["cli", "policies", "sim"]);
        assert_eq!(crates(&["crates/policies/src/edf.rs", "crates/sys/tests/a.rs"]), ["policies", "sched", "sys"]);
        assert_eq!(crates(&["Cargo.lock"]).len(), 5);
    }

    #[test]
    fn a_file_outside_crates_touches_those_that_name_its_folder() {
        assert_eq!(crates(&["scenarios/a.toml"]), ["cli"]);
        assert_eq!(crates(&["docs/a.md", "README.md"]), [""; 0]);
    }

    #[test]
    fn a_change_of_policies_alone_is_tested_with_them() {
        let only = |changed: &[&str]| only_policies(&changed.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(
            only(&["crates/policies/src/rt_xen.rs", "crates/policies/src/edf/mod.rs", "docs/a.md"]),
            ["edf", "rt-xen"]
        );
        for shared in
            ["crates/policies/src/lib.rs", "crates/policies/src/fair/mod.rs", "crates/sim/src/lib.rs", "Cargo.toml"]
        {
            assert_eq!(only(&["crates/policies/src/rt_xen.rs", shared]), [""; 0], "{shared}");
        }
    }

    #[test]
    fn packages_are_read_from_metadata() {
        let metadata = serde_json::json!({ "packages": [{
            "name": "sim",
            "manifest_path": "/w/crates/sim/Cargo.toml",
            "dependencies": [
                { "name": "sched", "path": "/w/crates/sched", "kind": null },
                { "name": "policies", "path": "/w/crates/policies", "kind": "dev" },
                { "name": "serde", "kind": null },
            ],
        }] });
        let [sim] = &packages(&metadata, Path::new("/w"))[..] else { panic!("one package") };
        assert_eq!((sim.name.as_str(), sim.folder.as_path()), ("sim", Path::new("crates/sim")));
        assert!(sim.uses.iter().eq(["sched"]) && sim.tested_with.iter().eq(["policies"]));
    }
}
