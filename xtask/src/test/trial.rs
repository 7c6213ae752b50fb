//! Runs `cargo xtask new-policy` on a copy of the workspace. The new policy must compile without warnings, be
//! formatted, and pass its own test and the tests of the laws on single machines.

use crate::root::{cargo, root};
use crate::step::{Failure, Outcome, counted, succeeds};
use crate::{component, new_policy};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

const NAME: &str = "trial-run";

/// Creates a policy in a copy of the workspace and checks the policy there.
pub(super) fn check() -> Result<Outcome> {
    let outcome = try_out();
    // Cargo identifies packages by their path in the workspace, so it would reuse the copy's builds for the workspace.
    succeeds(&mut cargo(&["clean", "--quiet", "--package", "policies", "--package", "fuzz"]))?;
    outcome
}

fn try_out() -> Result<Outcome> {
    if let Err(reason) = component::rust("fmt", "rustfmt").and_then(|()| component::rust("clippy", "clippy")) {
        return Ok(Outcome::Skipped(reason));
    }
    let trial = root().join("target/new-policy");
    let copy = trial.join("workspace");
    if copy.exists() {
        fs::remove_dir_all(&copy)?;
    }
    copy_tree(&root(), &copy).context("cannot copy the workspace")?;
    new_policy::create(&copy, NAME).map_err(anyhow::Error::msg)?;
    // Use the target folder of the workspace, which contains builds of the other crates.
    let target = root().join("target");
    let checks = [
        &["fmt", "--package", "policies", "--check"][..],
        &["clippy", "--package", "policies", "--all-targets", "--", "-D", "warnings"],
        &["test", "--package", "policies", "trial_run"],
        // These tests run for each policy of the registry. The skipped tests of worlds do not.
        &["test", "--package", "fuzz", "--test", "laws", "--", "--skip", "worlds::"],
    ];
    for check in checks {
        let mut command = cargo(check);
        // The suites have already run for all other policies.
        command.current_dir(&copy).env("CARGO_TARGET_DIR", &target).env("TACTUS_POLICY", NAME);
        let outcome = if check[0] == "test" { counted(&mut command)? } else { succeeds(&mut command)? };
        match outcome {
            Outcome::Passed => {}
            Outcome::Counted(tally, None) if tally.passed > 0 => {}
            Outcome::Counted(_, None) => {
                let text = format!("the test of `{NAME}` did not run");
                return Ok(Outcome::Failed(Failure { text, again: "cargo xtask test".to_string() }));
            }
            Outcome::Counted(_, Some(failure)) | Outcome::Failed(failure) => return Ok(Outcome::Failed(failure)),
            skipped @ Outcome::Skipped(_) => return Ok(skipped),
        }
    }
    Ok(Outcome::Passed)
}

/// Copies the folder `from` without `target` and `.git`.
fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == "target" || name == ".git" {
            continue;
        }
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &to.join(name))?;
        } else {
            fs::copy(entry.path(), to.join(name))?;
        }
    }
    Ok(())
}
