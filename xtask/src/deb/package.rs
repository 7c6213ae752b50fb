//! [`Programs`]: the files that the Debian package has besides those of the repository; [`Package`]: the package.

use crate::component;
use crate::root::{cargo, done, root, typed};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
#[cfg(test)]
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Folder of the generated files. The manifest of the crate `cli` has this path, too.
const FOLDER: &str = "target/deb";
/// The shells with completions.
const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// The generated files of the package: the program, its man pages, its completions and the changelog of Debian.
#[derive(Debug)]
pub(super) struct Programs {
    folder: PathBuf,
}

/// The version and the folder of a package.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'t> {
    /// Version without the revision of the package.
    pub(super) version: &'t str,
    pub(super) folder: &'t Path,
}

/// A Debian package.
#[derive(Debug)]
pub(super) struct Package {
    pub(super) path: PathBuf,
    /// Version with the revision of the package.
    pub(super) version: String,
}

impl Programs {
    /// Generates the files with `program`, a build of `tactus`.
    pub(super) fn of(program: &Path) -> Result<Programs> {
        let folder = root().join(FOLDER);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("man"))?;
        let copy = folder.join("tactus");
        // Separate debug symbols would be larger than the program.
        done(Command::new("objcopy").arg("--strip-unneeded").arg(program).arg(&copy))?;
        done(Command::new(&copy).arg("man-pages").arg(folder.join("man")))?;
        for shell in SHELLS {
            let output = Command::new(&copy).args(["completions", shell]).output()?;
            ensure!(output.status.success(), "`tactus completions {shell}` failed: {}", output.status);
            fs::write(folder.join(format!("tactus.{shell}")), output.stdout)?;
        }
        Ok(Programs { folder })
    }

    /// Adds `program`, a build of `tactus-scx`, which has a package and a licence of its own.
    pub(super) fn add_scheduler(&self, program: &Path) -> Result<()> {
        done(Command::new("objcopy").arg("--strip-unneeded").arg(program).arg(self.folder.join("tactus-scx")))
    }

    /// Adds `program`, a build of `tactus-guest`, which guests install.
    pub(super) fn add_agent(&self, program: &Path) -> Result<()> {
        done(Command::new("objcopy").arg("--strip-unneeded").arg(program).arg(self.folder.join("tactus-guest")))
    }

    /// Makes the package of the service with cargo-deb.
    pub(super) fn pack(&self, target: Target<'_>) -> Result<Package> {
        self.pack_crate(("cli", "tactus", "changelog"), target)
    }

    /// Makes the package of `tactus-scx` with cargo-deb.
    pub(super) fn pack_scheduler(&self, target: Target<'_>) -> Result<Package> {
        self.pack_crate(("scx", "tactus-scx", "changelog-scx"), target)
    }

    /// Makes the package of `tactus-guest` with cargo-deb.
    pub(super) fn pack_agent(&self, target: Target<'_>) -> Result<Package> {
        self.pack_crate(("guest", "tactus-guest", "changelog-guest"), target)
    }

    /// Makes the package `name` of a crate, whose manifest names this file with the changelog.
    fn pack_crate(
        &self,
        (manifest, name, history): (&str, &str, &str),
        Target { version, folder }: Target<'_>,
    ) -> Result<Package> {
        let cargo_deb = component::cargo_deb().map_err(anyhow::Error::msg)?;
        let version = format!("{}-1", version);
        fs::write(self.folder.join(history), changelog(name, &version, &date()?))?;
        let path = folder.join(format!("{name}_{version}_{}.deb", architecture()?));
        let mut pack = Command::new(cargo_deb);
        pack.args([
            "--package",
            manifest,
            "--no-build",
            "--no-strip",
            "--compress-system",
            "--quiet",
            "--deb-version",
            &version,
            "--output",
        ])
        .arg(&path);
        // cargo-deb removes all packages from target/debian of its target folder, including those of other versions.
        pack.env("CARGO_TARGET_DIR", &self.folder);
        // The time of the commit, so that two packages of one commit are equal.
        pack.env("SOURCE_DATE_EPOCH", commit("%ct")?).env("CARGO", cargo(&[]).get_program()).current_dir(root());
        done(&mut pack)?;
        Ok(Package { path, version })
    }
}

/// The manifests name one folder, so one test at a time has it.
#[cfg(test)]
static IN_USE: Mutex<()> = Mutex::new(());

#[cfg(test)]
impl Programs {
    /// Returns files with stand-ins for the programs, for tests of the packages without a build, and the right to use them.
    pub(super) fn stand_in() -> Result<(Programs, MutexGuard<'static, ()>)> {
        let in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = root().join(FOLDER);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("man"))?;
        for name in ["tactus", "tactus-scx", "tactus-guest", "man/tactus.1", "tactus.bash", "tactus.zsh", "tactus.fish"]
        {
            fs::write(folder.join(name), "#!/bin/sh\n")?;
        }
        Ok((Programs { folder }, in_use))
    }
}

/// Returns the changelog of the package `name` in Debian's format (deb-changelog(5)) with an entry for `version`.
fn changelog(name: &str, version: &str, date: &str) -> String {
    let maintainer = "The Tactus developers <tactus@users.noreply.github.com>";
    format!("{name} ({version}) unstable; urgency=medium\n\n  * Version {version}.\n\n -- {maintainer}  {date}\n")
}

/// Returns the date of the commit as in a changelog.
fn date() -> Result<String> {
    commit("%cD")
}

fn commit(format: &str) -> Result<String> {
    let mut git = Command::new("git");
    git.args(["log", "-1", &format!("--format={format}")]).current_dir(root());
    output(&mut git)
}

/// Returns Debian's name of the architecture of this machine.
fn architecture() -> Result<String> {
    output(Command::new("dpkg").arg("--print-architecture"))
}

/// Returns the output of `command`, which must succeed, without the last line end.
pub(super) fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {}", typed(command)))?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} failed: {}", typed(command), error.trim());
    Ok(String::from_utf8(output.stdout)?.trim_end().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_changelog_of_the_package_is_one_of_debian() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("changelog");
        fs::write(&file, changelog("tactus", "1.2-1", "Fri, 27 Nov 2026 19:49:20 +0000")).unwrap();
        let mut parse = Command::new("dpkg-parsechangelog");
        match parse.args(["--show-field", "Version", "--file"]).arg(&file).output() {
            Ok(parsed) => assert_eq!(String::from_utf8_lossy(&parsed.stdout).trim(), "1.2-1"),
            Err(error) => eprintln!("SKIPPED: dpkg-parsechangelog: {error}"),
        }
    }
}
