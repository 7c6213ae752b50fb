//! Installation, upgrade, removal and purge of a package in a root file system.

use super::package::{Package, output};
use crate::component;
use crate::mirror;
use crate::root::{done, root};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The configuration file of the package.
const CONFIGURATION: &str = "etc/tactus/config.toml";
/// Files that the package must have.
const FILES: &[&str] = &[
    "usr/bin/tactus",
    CONFIGURATION,
    "usr/lib/systemd/system/tactus.socket",
    "usr/lib/systemd/system/tactus.service",
    "usr/lib/systemd/system/tactus-core.service",
    "usr/lib/sysusers.d/tactus.conf",
    "usr/share/man/man1/tactus.1.gz",
    "usr/share/bash-completion/completions/tactus",
    "usr/share/zsh/vendor-completions/_tactus",
    "usr/share/fish/vendor_completions.d/tactus.fish",
    "usr/share/doc/tactus/copyright",
    "usr/share/doc/tactus/changelog.Debian.gz",
];
/// Links of the enabled units.
const LINKS: [&str; 3] = [
    "etc/systemd/system/sockets.target.wants/tactus.socket",
    "etc/systemd/system/multi-user.target.wants/tactus.service",
    "etc/systemd/system/multi-user.target.wants/tactus-core.service",
];
/// Files and folders that package managers and the system user leave: the state of dpkg and apt, the users with their
/// backups, and logs.
const OTHERS: &[&str] = &[
    "var/lib/dpkg/",
    "var/cache/",
    "var/log/",
    "etc/passwd",
    "etc/group",
    "etc/shadow",
    "etc/gshadow",
    "etc/.pwd.lock",
];

/// A root file system for the check.
#[derive(Debug)]
pub(super) enum Root {
    /// A complete system, whose own programs run the scripts of the package.
    Chroot(PathBuf),
    /// A directory with no programs: those of this machine run the scripts.
    #[cfg_attr(not(test), expect(dead_code, reason = "the short check of the tests"))]
    Chrootless(PathBuf),
}

impl Root {
    /// Makes a small system of Debian's `suite` in target/deb-root, and returns its directory.
    pub(super) fn of_debian(suite: &str) -> Result<PathBuf> {
        component::mmdebstrap().map_err(anyhow::Error::msg)?;
        let mirror = mirror::of_debian()
            .context("this machine's apt knows no mirror of Debian\nhelp: add a mirror to the sources of apt")?;
        let directory = root().join("target/deb-root");
        if directory.exists() {
            fs::remove_dir_all(&directory)?;
        }
        let mut make = Command::new("mmdebstrap");
        make.args(["--variant", "essential", "--include", "libgcc-s1,systemd-standalone-sysusers", suite]);
        done(make.arg(&directory).arg(format!("deb {mirror} {suite} main")))?;
        Ok(directory)
    }

    fn path(&self) -> &Path {
        let (Root::Chroot(path) | Root::Chrootless(path)) = self;
        path
    }

    /// Runs dpkg with `arguments`. An answer to a question of dpkg is never needed.
    fn dpkg(&self, arguments: &[&str]) -> Result<String> {
        let mut dpkg = match self {
            Root::Chroot(path) => {
                let mut chroot = Command::new("chroot");
                chroot.arg(path).arg("dpkg");
                chroot
            }
            Root::Chrootless(path) => {
                let mut dpkg = Command::new("dpkg");
                dpkg.arg(format!("--root={}", path.display()));
                dpkg.args(["--force-script-chrootless", "--force-depends", "--force-not-root"]);
                dpkg
            }
        };
        output(dpkg.args(["--force-confold", "--force-confdef"]).args(arguments).env("LC_ALL", "C.UTF-8"))
    }

    fn install(&self, package: &Package) -> Result<()> {
        match self {
            Root::Chroot(path) => {
                fs::copy(&package.path, path.join("package.deb"))?;
                self.dpkg(&["--install", "/package.deb"])?;
                fs::remove_file(path.join("package.deb"))?;
            }
            Root::Chrootless(_) => drop(self.dpkg(&["--install", &package.path.to_string_lossy()])?),
        }
        Ok(())
    }

    fn has(&self, path: &str) -> bool {
        // A link to a unit leads outside of this machine.
        self.path().join(path).symlink_metadata().is_ok()
    }

    /// Returns all files and folders, except those of [`OTHERS`].
    fn content(&self) -> Result<BTreeSet<PathBuf>> {
        let mut all = BTreeSet::new();
        collect(self.path(), self.path(), &mut all)?;
        let is_other = |path: &PathBuf| OTHERS.iter().any(|other| path.to_string_lossy().starts_with(other));
        Ok(all.into_iter().filter(|path| !is_other(path)).collect())
    }
}

fn collect(top: &Path, folder: &Path, all: &mut BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        all.insert(entry.path().strip_prefix(top)?.to_path_buf());
        if entry.file_type()?.is_dir() {
            collect(top, &entry.path(), all)?;
        }
    }
    Ok(())
}

/// Installs `package`, upgrades it to `next`, removes it, and purges it. Returns what was found at the end.
pub(super) fn check(root: &Root, package: &Package, next: &Package) -> Result<String> {
    let before = root.content()?;
    root.install(package)?;
    let installed = root.dpkg(&["--listfiles", "tactus"])?;
    for file in FILES {
        ensure!(root.has(file) && installed.lines().any(|line| line == format!("/{file}")), "{file} is not installed");
    }
    for link in LINKS {
        ensure!(root.has(link), "{link} is missing: the unit is not enabled");
    }
    if let Root::Chroot(path) = root {
        // The libraries of the program are there.
        output(Command::new("chroot").arg(path).args(["tactus", "policies"]))?;
    }
    let users = fs::read_to_string(root.path().join("etc/passwd"))?;
    ensure!(users.lines().any(|line| line.starts_with("tactus:")), "the user tactus is missing");
    let is_file = |line: &&str| root.path().join(line.trim_start_matches('/')).is_file();
    let files = installed.lines().filter(is_file).count();
    // What an administrator and the service write.
    let configuration = root.path().join(CONFIGURATION);
    let changed = fs::read_to_string(&configuration)? + "user-quota = 20\n";
    fs::write(&configuration, &changed)?;
    for folder in ["var/lib/tactus", "run/tactus", "run/tactus-core"] {
        fs::create_dir_all(root.path().join(folder))?;
        fs::write(root.path().join(folder).join("file"), "")?;
    }
    root.install(next)?;
    let version = root.dpkg(&["--status", "tactus"])?;
    ensure!(version.lines().any(|line| line == format!("Version: {}", next.version)), "not upgraded:\n{version}");
    ensure!(fs::read_to_string(&configuration)? == changed, "the upgrade has changed {CONFIGURATION}");
    ensure!(root.has("var/lib/tactus/file"), "the upgrade has removed the desired states");
    root.dpkg(&["--remove", "tactus"])?;
    for file in FILES.iter().filter(|file| **file != CONFIGURATION) {
        ensure!(!root.has(file), "{file} is left after the removal");
    }
    ensure!(fs::read_to_string(&configuration)? == changed, "the removal has changed {CONFIGURATION}");
    ensure!(root.has("var/lib/tactus/file"), "the removal has removed the desired states");
    root.dpkg(&["--purge", "tactus"])?;
    let left: Vec<PathBuf> = root.content()?.difference(&before).cloned().collect();
    ensure!(left.is_empty(), "after the purge, these are left: {left:?}");
    Ok(format!("{files} files, and nothing is left"))
}

#[cfg(test)]
mod tests {
    use super::super::package::{Programs, Target};
    use super::*;

    /// Returns an empty root file system for dpkg.
    fn empty() -> (tempfile::TempDir, Root) {
        let place = tempfile::tempdir().unwrap();
        for folder in
            ["var/lib/dpkg/info", "var/lib/dpkg/updates", "etc/systemd/system", "var/lib/systemd", "run", "usr/bin"]
        {
            fs::create_dir_all(place.path().join(folder)).unwrap();
        }
        for file in ["var/lib/dpkg/status", "var/lib/dpkg/available"] {
            fs::write(place.path().join(file), "").unwrap();
        }
        let root = Root::Chrootless(place.path().to_path_buf());
        (place, root)
    }

    #[test]
    fn the_package_is_installed_upgraded_removed_and_purged() {
        if let Err(reason) = component::cargo_deb().map(drop).and_then(|()| component::systemd()) {
            return eprintln!("SKIPPED: {reason}");
        }
        let (programs, _in_use) = Programs::stand_in().unwrap();
        let folders = ["first", "second"].map(|_| tempfile::tempdir().unwrap());
        let pack =
            |version, folder: &tempfile::TempDir| programs.pack(Target { version, folder: folder.path() }).unwrap();
        let (first, second) = (pack("0.0.1", &folders[0]), pack("0.0.2", &folders[1]));
        let (_place, root) = empty();
        check(&root, &first, &second).unwrap();
    }

    #[test]
    fn the_package_of_the_agent_has_the_program_and_the_unit_and_needs_no_other_package() {
        if let Err(reason) = component::cargo_deb().map(drop).and_then(|()| component::systemd()) {
            return eprintln!("SKIPPED: {reason}");
        }
        let (programs, _in_use) = Programs::stand_in().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let package = programs.pack_agent(Target { version: "0.0.1", folder: folder.path() }).unwrap();
        let depends = output(Command::new("dpkg-deb").arg("--field").arg(&package.path).arg("Depends")).unwrap();
        assert_eq!(depends.trim(), "");
        let (_place, root) = empty();
        root.install(&package).unwrap();
        let unit = "usr/lib/systemd/system/tactus-guest.service";
        for file in ["usr/bin/tactus-guest", unit, "usr/share/doc/tactus-guest/copyright"] {
            assert!(root.has(file), "{file}");
        }
        root.dpkg(&["--purge", "tactus-guest"]).unwrap();
        assert!(!root.has("usr/bin/tactus-guest") && !root.has(unit));
    }

    #[test]
    fn the_package_of_the_scheduler_has_the_program_and_the_drop_in_and_needs_that_of_the_service() {
        if let Err(reason) = component::cargo_deb().map(drop).and_then(|()| component::systemd()) {
            return eprintln!("SKIPPED: {reason}");
        }
        let (programs, _in_use) = Programs::stand_in().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let package = programs.pack_scheduler(Target { version: "0.0.1", folder: folder.path() }).unwrap();
        let field = |name: &str| output(Command::new("dpkg-deb").arg("--field").arg(&package.path).arg(name)).unwrap();
        assert!(field("Depends").split(", ").any(|name| name == "tactus"), "{}", field("Depends"));
        let (_place, root) = empty();
        root.install(&package).unwrap();
        let installed = root.dpkg(&["--listfiles", "tactus-scx"]).unwrap();
        for file in ["usr/bin/tactus-scx", "usr/share/tactus-scx/sched-ext.conf", "usr/share/doc/tactus-scx/copyright"]
        {
            assert!(root.has(file) && installed.lines().any(|line| line == format!("/{file}")), "{installed}");
        }
        let licence = fs::read_to_string(root.path().join("usr/share/doc/tactus-scx/copyright")).unwrap();
        assert!(licence.contains("GPL-2.0-only") && !licence.contains("MIT"), "{licence}");
        root.dpkg(&["--purge", "tactus-scx"]).unwrap();
        assert!(!root.has("usr/bin/tactus-scx"));
    }
}
