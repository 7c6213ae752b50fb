//! Where the workspace is, and how its cargo is called.

use std::path::PathBuf;
use std::process::Command;

/// The folder of the workspace.
pub(crate) fn root() -> PathBuf {
    // Cargo says it at run time; a moved tree would make what was true at build time wrong.
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR");
    let xtask = manifest.map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    xtask.parent().expect("xtask is a folder of the workspace").to_path_buf()
}

/// A call of cargo in the workspace, its output plain.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args(arguments)
        .current_dir(root())
        .env("CARGO_TERM_COLOR", "never")
        .env("CARGO_TERM_PROGRESS_WHEN", "never");
    command
}

/// How somebody would type this call.
pub(crate) fn typed(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let mut words = vec![program.file_name().unwrap_or_default().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    words.join(" ")
}
