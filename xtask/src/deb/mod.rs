//! `cargo xtask deb`: makes the Debian package of the service, and checks it.

mod lifecycle;
mod package;
#[cfg(test)]
mod units;

use crate::component;
use crate::page;
use crate::program::{TACTUS, TACTUS_GUEST, TACTUS_SCX};
use crate::root::{done, root};
use anyhow::Result;
use clap::Args;
use lifecycle::Root;
use package::{Package, Programs, Target};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Options of `cargo xtask deb`.
#[derive(Args, Debug)]
pub(crate) struct Deb {
    /// Check the package: lintian, and installation, upgrade, removal and purge in a root file system of Debian.
    #[arg(long)]
    check: bool,
    /// Make the package tactus-scx, too, which needs clang and libelf.
    #[arg(long)]
    scx: bool,
    /// Make the package tactus-guest, too: the agent for guests.
    #[arg(long)]
    guest: bool,
    /// Profile of cargo in which the programs are built.
    #[arg(long, value_name = "NAME", default_value = "release")]
    profile: String,
    /// Suite of Debian for the check.
    #[arg(long, default_value = "stable", requires = "check")]
    suite: String,
}

/// Makes the packages in target/debian.
pub(crate) fn run(deb: &Deb) -> Result<ExitCode> {
    page::build()?;
    let programs = Programs::of(&TACTUS.build_in(&deb.profile)?)?;
    let folder = root().join("target/debian");
    let package = programs.pack(Target { version: env!("CARGO_PKG_VERSION"), folder: &folder })?;
    println!("{}: {:.1} MB", shown(&package), megabytes(&package)?);
    if deb.scx {
        component::bpf().map_err(anyhow::Error::msg)?;
        programs.add_scheduler(&TACTUS_SCX.build_in(&deb.profile)?)?;
        let package = programs.pack_scheduler(Target { version: env!("CARGO_PKG_VERSION"), folder: &folder })?;
        println!("{}: {:.1} MB", shown(&package), megabytes(&package)?);
    }
    if deb.guest {
        programs.add_agent(&TACTUS_GUEST.build_static()?)?;
        let package = programs.pack_agent(Target { version: env!("CARGO_PKG_VERSION"), folder: &folder })?;
        println!("{}: {:.1} MB", shown(&package), megabytes(&package)?);
    }
    if deb.check {
        check(&programs, &package, &deb.suite)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes a package of a fast build in `folder`, for a guest.
pub(crate) fn for_guest(folder: &Path) -> Result<()> {
    let programs = Programs::of(&TACTUS.build()?)?;
    std::fs::create_dir_all(folder)?;
    programs.pack(Target { version: env!("CARGO_PKG_VERSION"), folder }).map(drop)
}

fn check(programs: &Programs, package: &Package, suite: &str) -> Result<()> {
    component::lintian().map_err(anyhow::Error::msg)?;
    let mut lintian = Command::new("lintian");
    done(lintian.args(["--fail-on", "error,warning", "--suppress-tags", UNFIT_TAGS]).arg(&package.path))?;
    // The next version is for the check alone.
    let next = programs.pack(Target { version: "99.0", folder: &root().join("target/deb") })?;
    let directory = Root::of_debian(suite)?;
    let ends = lifecycle::check(&Root::Chroot(directory), package, &next)?;
    println!("installed, upgraded, removed, purged: {ends}");
    Ok(())
}

/// Tags of lintian that do not apply: a package that is not part of Debian closes no bug of Debian.
const UNFIT_TAGS: &str = "initial-upload-closes-no-bugs";

fn shown(package: &Package) -> String {
    let path: PathBuf = package.path.strip_prefix(root()).unwrap_or(&package.path).to_path_buf();
    path.display().to_string()
}

#[expect(clippy::cast_precision_loss, reason = "a package is far smaller than 2^53 bytes")]
fn megabytes(package: &Package) -> Result<f64> {
    Ok(std::fs::metadata(&package.path)?.len() as f64 / 1e6)
}
