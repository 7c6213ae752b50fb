//! Man pages of all commands.

use crate::args::Cli;
use anyhow::{Context, Result};
use clap::CommandFactory;
use std::path::Path;

/// Writes a man page for each command to `directory`.
///
/// # Errors
/// A file cannot be written.
pub(crate) fn write(directory: &Path) -> Result<()> {
    let written = clap_mangen::generate_to(Cli::command(), directory);
    written.with_context(|| format!("cannot write to {}", directory.display()))?;
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let page = std::fs::read_to_string(&path)?;
        std::fs::write(&path, breakable(&page)).with_context(|| format!("cannot write to {}", path.display()))?;
    }
    Ok(())
}

/// Returns the page with a possible line break after each alternative of an argument, and with a synopsis that is aligned
/// to the left. Otherwise, a long list of alternatives is wider than the page, or its lines cannot be adjusted.
fn breakable(page: &str) -> String {
    page.replace(r"\fR|\fB", r"\fR|\:\fB").replace(".SH SYNOPSIS\n", ".SH SYNOPSIS\n.ad l\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternatives_can_be_on_several_lines() {
        assert_eq!(breakable(r"<\fB\-\-cpus\fR|\fB\-\-gang\fR>"), r"<\fB\-\-cpus\fR|\:\fB\-\-gang\fR>");
        let directory = tempfile::tempdir().unwrap();
        write(directory.path()).unwrap();
        let page = std::fs::read_to_string(directory.path().join("tactus-set.1")).unwrap();
        assert!(page.contains(r"\fB\-\-slice\fR|\:\fB\-\-period\fR"), "{page}");
    }
}
