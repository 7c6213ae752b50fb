//! Schedulers of other projects, which a job compares with ours. They are built on request, because that takes minutes.

use crate::component;
use crate::root::{cargo, root};
use std::fs;
use std::path::PathBuf;

/// Names of the crates, which are those of the programs.
const PEERS: [&str; 2] = ["scx_rlfifo", "scx_bpfland"];
/// Version of all of them.
const VERSION: &str = "1.1.4";

/// Returns the paths of the programs in a guest.
pub(super) fn paths() -> impl Iterator<Item = String> {
    PEERS.iter().map(|name| format!("/bin/{name}"))
}

/// Builds the programs in target/peers, if they are missing there. Returns their names and paths.
///
/// # Errors
/// The reason why a program is missing.
pub(super) fn build() -> Result<Vec<(&'static str, PathBuf)>, String> {
    component::bpf()?;
    component::seccomp()?;
    PEERS.into_iter().map(|name| Ok((name, program(name)?))).collect()
}

fn program(name: &str) -> Result<PathBuf, String> {
    let folder = root().join("target/peers");
    let program = folder.join("bin").join(name);
    // cargo lists what it has installed, one line for a program and its version.
    let is_there = || {
        let listed = fs::read_to_string(folder.join(".crates.toml")).unwrap_or_default();
        program.exists() && listed.contains(&format!("\"{name} {VERSION} "))
    };
    if is_there() {
        return Ok(program);
    }
    let wanted = format!("{name}@{VERSION}");
    println!("      {name} is missing: cargo install --locked {wanted} (some minutes)");
    let mut install = cargo(&["install", "--locked", "--quiet", "--force", &wanted, "--root"]);
    install.arg(&folder).env("BPF_CLANG", "clang-19");
    if component::works(&mut install) && is_there() {
        return Ok(program);
    }
    Err(format!("{name} is missing and cargo install failed (cargo install --locked {wanted})"))
}
