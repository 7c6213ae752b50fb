//! The root folder of the workspace, and cargo commands that run in this folder.

use anyhow::{Context, Result, ensure};
use std::path::PathBuf;
use std::process::Command;

/// Returns the root folder of the workspace.
pub(crate) fn root() -> PathBuf {
    // Cargo sets the variable at run time. The path from build time is wrong if the workspace has been moved since.
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR");
    let xtask = manifest.map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    xtask.parent().expect("xtask is a folder of the workspace").to_path_buf()
}

/// Arguments of cargo that select all packages but this one. The features of a shared library follow from the selected
/// packages, so builds with other selections compile most libraries again.
pub(crate) const ALL_PACKAGES: [&str; 3] = ["--workspace", "--exclude", "xtask"];

/// Returns a cargo command that runs in the root folder, with plain output.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args(arguments)
        .current_dir(root())
        .env("CARGO_TERM_COLOR", "never")
        .env("CARGO_TERM_PROGRESS_WHEN", "never");
    command
}

/// Returns the shell command line of `command`, as run from the root folder.
pub(crate) fn typed(command: &Command) -> String {
    let mut words = Vec::new();
    let folder = command.get_current_dir().and_then(|folder| folder.strip_prefix(root()).ok());
    if let Some(folder) = folder.filter(|folder| !folder.as_os_str().is_empty()) {
        words.push(format!("cd {} &&", folder.display()));
    }
    for (name, value) in command.get_envs() {
        let name = name.to_string_lossy();
        if let Some(value) = value.filter(|_| !name.starts_with("CARGO_")) {
            words.push(format!("{name}={}", quoted(&value.to_string_lossy())));
        }
    }
    let program = std::path::Path::new(command.get_program());
    words.push(program.file_name().unwrap_or_default().to_string_lossy().into_owned());
    words.extend(command.get_args().map(|word| quoted(&word.to_string_lossy())));
    words.join(" ")
}

/// Runs `command` and shows its output.
pub(crate) fn done(command: &mut Command) -> Result<()> {
    println!("$ {}", typed(command));
    let status = command.status().with_context(|| format!("cannot run {}", typed(command)))?;
    ensure!(status.success(), "{} failed: {status}", typed(command));
    Ok(())
}

/// Returns `word`, quoted for a shell if necessary.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=,+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_string() } else { format!("'{word}'") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_typed_with_its_folder_and_environment() {
        let mut command = cargo(&["doc", "--no-deps"]);
        assert_eq!(typed(&command), "cargo doc --no-deps");
        command.env("RUSTDOCFLAGS", "-D warnings").current_dir(root().join("target/x"));
        assert_eq!(typed(&command), "cd target/x && RUSTDOCFLAGS='-D warnings' cargo doc --no-deps");
    }
}
