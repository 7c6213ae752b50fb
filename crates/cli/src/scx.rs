//! `tactus scx`: becomes the program `tactus-scx`, which is apart because its programs in BPF have another licence and need
//! clang to build.

use crate::failure::{Failure, usage};
use clap::Args;
use std::env;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

const PROGRAM: &str = "tactus-scx";

#[derive(Args, Debug)]
pub(crate) struct Scx {
    /// Options of the program `tactus-scx`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    options: Vec<OsString>,
}

/// Replaces this process by the program with these options. Returns why it cannot.
pub(crate) fn run(args: &Scx) -> Failure {
    let error = Command::new(beside(PROGRAM)).args(&args.options).exec();
    match error.kind() {
        ErrorKind::NotFound => absent(),
        _ => Failure::Failed(anyhow::Error::new(error).context(format!("cannot run {PROGRAM}"))),
    }
}

fn absent() -> Failure {
    usage(
        format!("the program {PROGRAM} is neither beside tactus nor in PATH"),
        "build it with `cargo build --release --package scx --features bpf`, which needs clang and libelf (docs/sched-ext.md)",
    )
}

/// Returns the path of the program, whose scheduler a core uses.
///
/// # Errors
/// The program is neither beside this one nor in PATH.
pub(crate) fn scheduler() -> Result<PathBuf, Failure> {
    let program = beside(PROGRAM);
    if program.is_absolute() {
        return Ok(program);
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let mut all = env::split_paths(&path).map(|folder| folder.join(PROGRAM));
    all.find(|path| sys::launch::may_run(path)).ok_or_else(absent)
}

/// Returns the program of this name beside this one, or else the name, which is looked up in PATH.
pub(crate) fn beside(program: &str) -> PathBuf {
    let beside = env::current_exe().ok().map(|this| this.with_file_name(program));
    beside.filter(|path| path.exists()).unwrap_or_else(|| PathBuf::from(program))
}
