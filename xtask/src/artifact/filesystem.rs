//! Makes the root file system: Debian with a linker, the Rust toolchain, the sources of the last commit, their
//! dependencies, and the command `/artifact/regenerate`.

use super::measure::bytes_below;
use crate::root::{cargo, root, typed};
use crate::step::clock;
use crate::{component, mirror};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The command in the root file system that regenerates all results.
const REGENERATE: &str = include_str!("regenerate.sh");
/// Packages of Debian beside its essential ones: the linker and the C library that the compiler needs. gcc also builds
/// the parts of dependencies in C.
const PACKAGES: &str = "ca-certificates,gcc,libc6-dev";
/// Path of the dependencies in the root file system.
const VENDOR: &str = "/artifact/vendor";
/// Folders of the toolchain, without its documentation.
const TOOLCHAIN: [&str; 3] = ["bin", "lib", "libexec"];

/// Makes the root file system at `target`, from Debian's `suite`.
pub(super) fn make(target: &Path, suite: &str) -> Result<()> {
    let begin = clock();
    ensure!(is_suite(suite), "`{suite}` is no suite of Debian\nhelp: use stable or a code name such as trixie");
    ensure!(!target.exists(), "{} exists\nhelp: use a new path", target.display());
    component::mmdebstrap().map_err(anyhow::Error::msg)?;
    let mirror = mirror::of_debian()
        .context("this machine's apt knows no mirror of Debian\nhelp: add a mirror to the sources of apt")?;
    let folder = root().join("target/artifact").join(format!("parts-{}", std::process::id()));
    let done = parts(&folder).and_then(|archives| {
        let target = std::path::absolute(target)?;
        run(&mut debian(&target, suite, &mirror, &archives))
    });
    // The parts are large and no longer needed.
    let removed = fs::remove_dir_all(&folder);
    done?;
    removed?;
    let bytes = if target.is_dir() { bytes_below(target)? } else { fs::metadata(target)?.len() };
    println!("{}: {} MiB, made in {} s", target.display(), bytes >> 20, begin.elapsed().as_secs());
    println!("Next: unshare --net chroot DIR /artifact/regenerate");
    Ok(())
}

/// Returns whether `name` can be the name of a suite.
fn is_suite(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Makes the archives of the parts that are not from Debian. The paths in an archive are relative to the root of the
/// file system.
fn parts(folder: &Path) -> Result<Vec<PathBuf>> {
    let stage = folder.join("stage");
    fs::create_dir_all(stage.join("artifact/.cargo"))?;
    let sources = folder.join("sources.tar");
    sources_of_head(&sources, &stage)?;
    let configuration = vendor(&stage)?;
    fs::write(stage.join("artifact/.cargo/config.toml"), configuration)?;
    let regenerate = stage.join("artifact/regenerate");
    fs::write(&regenerate, REGENERATE)?;
    fs::set_permissions(&regenerate, fs::Permissions::from_mode(0o755))?;
    let others = folder.join("others.tar");
    let mut tar = archive(&others, &stage);
    run(tar.args(["artifact/.cargo", "artifact/regenerate", VENDOR.trim_start_matches('/')]))?;
    let toolchain = folder.join("toolchain.tar");
    pack_toolchain(&toolchain)?;
    Ok(vec![sources, others, toolchain])
}

/// Packs the last commit, and unpacks it below `stage`.
fn sources_of_head(sources: &Path, stage: &Path) -> Result<()> {
    let mut git = Command::new("git");
    git.args(["archive", "--format", "tar", "--prefix", "artifact/tactus/", "--output"]).arg(sources);
    run(git.arg("HEAD").current_dir(root()))?;
    let mut status = Command::new("git");
    let changes = status.args(["status", "--porcelain"]).current_dir(root()).output().context("cannot run git")?;
    if !changes.stdout.is_empty() {
        println!("the root file system has the last commit, without the uncommitted changes");
    }
    run(Command::new("tar").arg("--extract").arg("--file").arg(sources).arg("--directory").arg(stage))
}

/// Copies all dependencies of the sources below `stage`, and returns the configuration with which cargo uses them.
fn vendor(stage: &Path) -> Result<String> {
    let mut vendor = cargo(&["vendor", "--locked"]);
    vendor.arg(stage.join(VENDOR.trim_start_matches('/'))).current_dir(stage.join("artifact/tactus"));
    let output = vendor.output().context("cannot run cargo")?;
    ensure!(output.status.success(), "{} failed: {}", typed(&vendor), String::from_utf8_lossy(&output.stderr));
    configuration(&String::from_utf8(output.stdout)?)
}

/// Returns the configuration that `cargo vendor` printed, with the path of the dependencies in the root file system.
fn configuration(printed: &str) -> Result<String> {
    let line = |line: &str| match line.starts_with("directory = ") {
        true => format!("directory = \"{VENDOR}\"\n"),
        false => format!("{line}\n"),
    };
    let text: String = printed.lines().map(line).collect();
    ensure!(text.contains(VENDOR), "`cargo vendor` printed no directory:\n{printed}");
    Ok(text)
}

/// Packs the toolchain that builds this workspace for /usr/local, where Debian's linker finds its libraries.
fn pack_toolchain(archive_path: &Path) -> Result<()> {
    let rustc = |arguments: &[&str]| -> Result<String> {
        let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        let output = rustc.args(arguments).current_dir(root()).output().context("cannot run rustc")?;
        ensure!(output.status.success(), "{} failed", typed(&rustc));
        Ok(String::from_utf8(output.stdout)?.trim().to_string())
    };
    let sysroot = PathBuf::from(rustc(&["--print", "sysroot"])?);
    let version = rustc(&["--version", "--verbose"])?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
    let mut tar = archive(archive_path, &sysroot);
    // Links keep their targets.
    tar.args(["--transform", "flags=rSh;s,^,usr/local/,"]);
    for library in fs::read_dir(sysroot.join("lib/rustlib"))? {
        let library = library?;
        let name = library.file_name().to_string_lossy().into_owned();
        if library.file_type()?.is_dir() && is_foreign(&name, host) {
            tar.arg(format!("--exclude=lib/rustlib/{name}"));
        }
    }
    run(tar.args(TOOLCHAIN.iter().filter(|folder| sysroot.join(folder).is_dir())))
}

/// Returns whether a folder in `lib/rustlib` has the standard library of another target, or the sources of the library.
fn is_foreign(name: &str, host: &str) -> bool {
    name != host && name != "etc"
}

/// Returns a command that packs files of `folder` as files of root. The caller appends their names.
fn archive(archive: &Path, folder: &Path) -> Command {
    let mut tar = Command::new("tar");
    tar.args(["--create", "--owner=0", "--group=0", "--numeric-owner", "--sort=name", "--file"]).arg(archive);
    tar.arg("--directory").arg(folder);
    tar
}

/// Returns the command that makes the root file system from Debian's packages and the archives.
fn debian(target: &Path, suite: &str, mirror: &str, archives: &[PathBuf]) -> Command {
    let mut command = Command::new("mmdebstrap");
    command.args(["--variant", "minbase", "--include", PACKAGES]);
    let hooks = archives.iter().map(|archive| format!("tar-in '{}' /", archive.display()));
    // mmdebstrap copies the name and the name servers of this machine.
    let clean = "rm -f \"$1/etc/resolv.conf\" && echo tactus > \"$1/etc/hostname\"".to_string();
    command.args(hooks.chain([clean]).map(|hook| format!("--customize-hook={hook}")));
    command.arg(suite).arg(target).arg(format!("deb {mirror} {suite} main"));
    command
}

/// Runs a command with its output on the terminal.
fn run(command: &mut Command) -> Result<()> {
    println!("$ {}", typed(command));
    let status = command.status().with_context(|| format!("cannot run {}", typed(command)))?;
    if !status.success() {
        bail!("{} failed: {status}", typed(command));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the script in a folder with the given parameters. A stub named cargo records the calls.
    fn regenerate(parameters: &[&str]) -> (String, Option<i32>) {
        let folder = tempfile::tempdir().unwrap();
        let stub = folder.path().join("cargo");
        fs::write(&stub, "#!/bin/sh\necho \"$CARGO_NET_OFFLINE cargo $*\"\nexit 3\n").unwrap();
        fs::set_permissions(&stub, fs::Permissions::from_mode(0o755)).unwrap();
        let here = folder.path().display().to_string();
        let script = REGENERATE
            .replace("cd /artifact/tactus", &format!("cd '{here}'"))
            .replace("PATH=/usr/local/sbin", &format!("PATH='{here}':/usr/local/sbin"));
        assert_eq!(script.matches(&here).count(), 2, "{script}");
        let output = Command::new("sh").args(["-c", &script, "regenerate"]).args(parameters).output().unwrap();
        (String::from_utf8(output.stdout).unwrap(), output.status.code())
    }

    #[test]
    fn regenerate_records_all_results_without_a_network_and_passes_its_parameters_on() {
        assert_eq!(regenerate(&[]), ("true cargo xtask lab --record\n".to_string(), Some(3)));
        let smoke = ("true cargo xtask lab --smoke --profile dev\n".to_string(), Some(3));
        assert_eq!(regenerate(&["--smoke", "--profile", "dev"]), smoke);
    }

    #[test]
    fn the_root_file_system_is_debian_with_every_archive_and_without_names_of_this_machine() {
        let command = debian(
            Path::new("/r.tar"),
            "stable",
            "http://m.example/debian",
            &[PathBuf::from("/a.tar"), "/b.tar".into()],
        );
        let words: Vec<String> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        let hooks: Vec<&str> = words.iter().filter_map(|word| word.strip_prefix("--customize-hook=")).collect();
        assert_eq!(hooks[..2], ["tar-in '/a.tar' /", "tar-in '/b.tar' /"]);
        assert!(hooks[2].contains("etc/resolv.conf") && hooks[2].contains("etc/hostname"), "{hooks:?}");
        assert_eq!(words[words.len() - 3..], ["stable", "/r.tar", "deb http://m.example/debian stable main"]);
    }

    #[test]
    fn dependencies_are_found_in_the_root_file_system() {
        let printed = "[source.crates-io]\nreplace-with = \"vendored-sources\"\n\n[source.vendored-sources]\n\
            directory = \"target/artifact/parts-1/stage/artifact/vendor\"\n";
        let text = configuration(printed).unwrap();
        let read: toml::Table = text.parse().unwrap();
        assert_eq!(read["source"]["vendored-sources"]["directory"].as_str(), Some(VENDOR));
        assert!(configuration("[source.crates-io]\n").is_err());
    }

    #[test]
    fn only_libraries_of_this_target_are_packed() {
        let host = "x86_64-unknown-linux-gnu";
        let names = ["x86_64-unknown-linux-gnu", "wasm32-unknown-unknown", "src", "etc"];
        let packed: Vec<&str> = names.into_iter().filter(|name| !is_foreign(name, host)).collect();
        assert_eq!(packed, ["x86_64-unknown-linux-gnu", "etc"]);
    }

    #[test]
    fn a_root_file_system_replaces_no_file_and_needs_a_suite() {
        let folder = tempfile::tempdir().unwrap();
        let refused = make(folder.path(), "stable").unwrap_err().to_string();
        assert!(refused.contains("exists"), "{refused}");
        let refused = make(&folder.path().join("new"), "no suite").unwrap_err().to_string();
        assert!(refused.contains("is no suite of Debian"), "{refused}");
    }
}
