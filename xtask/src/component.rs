//! Tools that a check needs besides cargo. A missing tool is installed if possible; otherwise, the check is skipped
//! with a message.

use crate::root::{cargo, root};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Returns whether `command` runs and succeeds. Discards its output.
pub(crate) fn works(command: &mut Command) -> bool {
    let silent = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    silent.status().is_ok_and(|status| status.success())
}

/// Installs the rustup component that provides `cargo SUBCOMMAND`, if the component is missing.
///
/// # Errors
/// The reason why the component is missing.
pub(crate) fn rust(subcommand: &str, component: &str) -> Result<(), String> {
    if works(&mut cargo(&[subcommand, "--version"])) {
        return Ok(());
    }
    println!("      {component} is missing: rustup component add {component}");
    let mut rustup = Command::new("rustup");
    rustup.args(["component", "add", component]).current_dir(root());
    if works(&mut rustup) && works(&mut cargo(&[subcommand, "--version"])) {
        return Ok(());
    }
    Err(format!("{component} is missing and `rustup component add {component}` failed"))
}

/// Installs the standard library for `target`, if the library is missing.
///
/// # Errors
/// The reason why the library is missing.
pub(crate) fn target(target: &str) -> Result<(), String> {
    let has = || {
        let listed = Command::new("rustup").args(["target", "list", "--installed"]).current_dir(root()).output();
        listed.is_ok_and(|listed| String::from_utf8_lossy(&listed.stdout).lines().any(|line| line == target))
    };
    if has() {
        return Ok(());
    }
    println!("      {target} is missing: rustup target add {target}");
    if works(Command::new("rustup").args(["target", "add", target]).current_dir(root())) && has() {
        return Ok(());
    }
    Err(format!("the target {target} is missing and `rustup target add {target}` failed"))
}

/// Installs Python with support for virtual environments, if it is missing.
///
/// # Errors
/// The reason why Python is missing.
pub(crate) fn python() -> Result<(), String> {
    let has = || works(Command::new("python3").args(["-c", "import venv, ensurepip"]));
    debian("python3 with venv", &["python3", "python3-venv"], has)
}

/// Installs Valgrind, if it is missing.
///
/// # Errors
/// The reason why Valgrind is missing.
pub(crate) fn valgrind() -> Result<(), String> {
    debian("valgrind", &["valgrind"], || works(Command::new("valgrind").arg("--version")))
}

/// Installs QEMU and setpriv, which starts QEMU, if one of them is missing.
///
/// # Errors
/// The reason why a program is missing.
pub(crate) fn qemu() -> Result<(), String> {
    debian("setpriv", &["util-linux"], || works(Command::new("setpriv").arg("--version")))?;
    debian("QEMU for x86-64", &["qemu-system-x86"], || works(Command::new("qemu-system-x86_64").arg("--version")))
}

/// Installs clang, which compiles programs in BPF, and the libraries of libbpf, if one of them is missing.
///
/// # Errors
/// The reason why a program or a library is missing.
pub(crate) fn bpf() -> Result<(), String> {
    let is_there = |header: &str| Path::new("/usr/include").join(header).exists();
    let has = || works(Command::new("clang-19").arg("--version")) && is_there("libelf.h") && is_there("zlib.h");
    debian("clang for BPF, with libelf and zlib", &["clang-19", "libelf-dev", "zlib1g-dev"], has)
}

/// Installs the library for filters of system calls, which schedulers of other projects need, if it is missing.
///
/// # Errors
/// The reason why the library is missing.
pub(crate) fn seccomp() -> Result<(), String> {
    debian("libseccomp", &["libseccomp-dev"], || Path::new("/usr/include/seccomp.h").exists())
}

/// Installs curl, the foreign client of the service, if it is missing.
///
/// # Errors
/// The reason why the program is missing.
pub(crate) fn curl() -> Result<(), String> {
    debian("curl", &["curl"], || works(Command::new("curl").arg("--version")))
}

/// Installs tmux, the terminal in which the tests run `tactus top`, if it is missing.
///
/// # Errors
/// The reason why the program is missing.
pub(crate) fn tmux() -> Result<(), String> {
    debian("tmux", &["tmux"], || works(Command::new("tmux").arg("-V")))
}

/// Installs QEMU's emulator of programs for ARM64, if it is missing.
///
/// # Errors
/// The reason why the program is missing.
pub(crate) fn qemu_user() -> Result<(), String> {
    let has = || works(Command::new("qemu-aarch64-static").arg("--version"));
    debian("QEMU for programs of ARM64", &["qemu-user-static"], has)
}

/// Version of cargo-deb.
const CARGO_DEB: &str = "3.8.0";

/// Installs cargo-deb, which makes Debian packages, in target/cargo-deb if it is missing there. Returns its path.
///
/// # Errors
/// The reason why the program is missing.
pub(crate) fn cargo_deb() -> Result<PathBuf, String> {
    debian("binutils with dpkg-dev", &["binutils", "dpkg-dev"], || {
        works(Command::new("objcopy").arg("--version")) && works(Command::new("dpkg-shlibdeps").arg("--version"))
    })?;
    let folder = root().join("target/cargo-deb");
    let program = folder.join("bin/cargo-deb");
    if works(Command::new(&program).arg("--version")) {
        return Ok(program);
    }
    let wanted = format!("cargo-deb@{CARGO_DEB}");
    println!("      cargo-deb is missing: cargo install --locked {wanted}");
    // A fast build, without a compressor of its own: the program xz compresses packages.
    let mut install = cargo(&["install", "--locked", "--quiet", "--debug", "--no-default-features", &wanted, "--root"]);
    install.arg(&folder).env("CARGO_PROFILE_DEV_DEBUG", "0");
    if works(&mut install) && works(Command::new(&program).arg("--version")) {
        return Ok(program);
    }
    Err(format!("cargo-deb is missing and cargo install failed (cargo install --locked {wanted})"))
}

/// Installs wasm-bindgen, which adds JavaScript to a module of WebAssembly, in target/wasm-bindgen if this version is missing
/// there. Returns its path.
///
/// # Errors
/// The reason why the program is missing.
pub(crate) fn wasm_bindgen(version: &str) -> Result<PathBuf, String> {
    let folder = root().join("target/wasm-bindgen");
    let program = folder.join("bin/wasm-bindgen");
    let has = || {
        let printed = Command::new(&program).arg("--version").output();
        printed.is_ok_and(|printed| printed.stdout.trim_ascii().ends_with(version.as_bytes()))
    };
    if has() {
        return Ok(program);
    }
    let wanted = format!("wasm-bindgen-cli@{version}");
    println!("      wasm-bindgen is missing: cargo install --locked {wanted}");
    let mut install = cargo(&["install", "--locked", "--quiet", "--debug", "--force", &wanted]);
    install.args(["--bin", "wasm-bindgen", "--root"]).arg(&folder).env("CARGO_PROFILE_DEV_DEBUG", "0");
    if works(&mut install) && has() {
        return Ok(program);
    }
    Err(format!("wasm-bindgen is missing and cargo install failed (cargo install --locked {wanted})"))
}

/// Installs Node.js with npm, if one of them is missing.
///
/// # Errors
/// The reason why a program is missing.
pub(crate) fn node() -> Result<(), String> {
    let has = || ["node", "npm"].iter().all(|name| works(Command::new(name).arg("--version")));
    debian("Node.js with npm", &["nodejs", "npm"], has)
}

/// Installs the packages of web/package-lock.json in web/node_modules, if these versions are missing there.
///
/// # Errors
/// The reason why the packages are missing.
pub(crate) fn packages_of_web() -> Result<(), String> {
    let folder = root().join("web");
    let changed = |path: &str| std::fs::metadata(folder.join(path)).and_then(|file| file.modified());
    let has = changed("node_modules/.package-lock.json")
        .is_ok_and(|installed| changed("package-lock.json").is_ok_and(|wanted| wanted <= installed));
    if has {
        return Ok(());
    }
    println!("      packages of web are missing: npm ci");
    let mut install = Command::new("npm");
    if works(install.args(["ci", "--no-audit", "--no-fund"]).current_dir(folder)) {
        return Ok(());
    }
    Err("packages of web are missing and npm failed (cd web && npm ci)".to_string())
}

/// Version of mdBook.
const MDBOOK: &str = "0.5.4";

/// Installs mdBook, which makes the site of the documentation, in target/mdbook if it is missing there. Returns its path.
///
/// # Errors
/// The reason why the program is missing.
pub(crate) fn mdbook() -> Result<PathBuf, String> {
    let folder = root().join("target/mdbook");
    let program = folder.join("bin/mdbook");
    let has = || {
        let printed = Command::new(&program).arg("--version").output();
        printed.is_ok_and(|printed| printed.stdout.trim_ascii().ends_with(MDBOOK.as_bytes()))
    };
    if has() {
        return Ok(program);
    }
    let wanted = format!("mdbook@{MDBOOK}");
    println!("      mdBook is missing: cargo install --locked {wanted}");
    // A fast build, without the server.
    let mut install = cargo(&["install", "--locked", "--quiet", "--debug", "--force", &wanted]);
    install.args(["--no-default-features", "--features", "search", "--root"]).arg(&folder);
    if works(install.env("CARGO_PROFILE_DEV_DEBUG", "0")) && has() {
        return Ok(program);
    }
    Err(format!("mdBook is missing and cargo install failed (cargo install --locked {wanted})"))
}

/// Installs Chromium, which opens the site, if it is missing.
///
/// # Errors
/// The reason why the program is missing.
pub(crate) fn chromium() -> Result<(), String> {
    debian("Chromium", &["chromium"], || works(Command::new("chromium").args(["--no-sandbox", "--version"])))
}

/// Installs the tools of systemd that check units and create users, if they are missing.
///
/// # Errors
/// The reason why a program is missing.
pub(crate) fn systemd() -> Result<(), String> {
    debian("systemd-analyze", &["systemd"], || works(Command::new("systemd-analyze").arg("--version")))
}

/// Installs lintian, which checks Debian packages, if it is missing.
///
/// # Errors
/// The reason why the program is missing.
pub(crate) fn lintian() -> Result<(), String> {
    debian("lintian", &["lintian"], || works(Command::new("lintian").arg("--version")))
}

/// Installs mmdebstrap, which makes root file systems of Debian, if it is missing.
///
/// # Errors
/// The reason why the program is missing.
pub(crate) fn mmdebstrap() -> Result<(), String> {
    debian("mmdebstrap", &["mmdebstrap"], || works(Command::new("mmdebstrap").arg("--version")))
}

/// Installs the tools that make ext4 file systems and change them, if they are missing.
///
/// # Errors
/// The reason why a program is missing.
pub(crate) fn e2fsprogs() -> Result<(), String> {
    debian("e2fsprogs", &["e2fsprogs"], || works(Command::new("debugfs").arg("-V")))
}

/// Installs GNU time, which measures the time and memory of a process, if it is missing.
///
/// # Errors
/// The reason why the program is missing.
pub(crate) fn time() -> Result<(), String> {
    debian("GNU time", &["time"], || works(Command::new("time").args(["--format", "%M", "true"])))
}

/// Installs `what` from these Debian packages, if `what` is missing and this process may install packages.
fn debian(what: &str, packages: &[&str], has: impl Fn() -> bool) -> Result<(), String> {
    if has() {
        return Ok(());
    }
    let names = packages.join(" ");
    if !is_root() {
        return Err(format!("{what} is missing (apt-get install {names})"));
    }
    println!("      {what} is missing: apt-get install -y --no-install-recommends {names}");
    let install = [&["install", "-y", "--no-install-recommends"], packages].concat();
    let installed = apt(&install) || (is_up_to_date() && apt(&install));
    if installed && has() {
        return Ok(());
    }
    Err(format!("{what} is missing and apt-get failed (apt-get install {names})"))
}

fn apt(arguments: &[&str]) -> bool {
    let mut command = Command::new("apt-get");
    works(command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive"))
}

/// Updates apt's package lists, and returns whether this succeeded. Tries at most once, because the network may be slow
/// or missing.
fn is_up_to_date() -> bool {
    static UPDATED: OnceLock<bool> = OnceLock::new();
    *UPDATED.get_or_init(|| apt(&["update"]))
}

/// Returns whether this process runs as root.
pub(crate) fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_does_not_work_and_is_reported_by_name() {
        assert!(!works(&mut Command::new("tactus-no-such-program")));
        assert!(works(&mut cargo(&["--version"])));
        let refused = rust("no-such-subcommand", "no-such-component").unwrap_err();
        assert!(refused.contains("no-such-component is missing"), "{refused}");
    }
}
