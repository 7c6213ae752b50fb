//! The programs of ours that run in a guest.

use crate::root::{cargo, typed};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// One of them: a target of a package. In the guest it lies in `/bin`, under the target's name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Program {
    package: &'static str,
    /// `--bin` or `--example`.
    kind: &'static str,
    pub(crate) name: &'static str,
}

/// The first program of every guest.
pub(crate) const INIT: Program = Program { package: "sys", kind: "--example", name: "init" };
/// The command.
pub(crate) const TACTUS: Program = Program { package: "cli", kind: "--bin", name: "tactus" };
/// Searches for inputs that break a law of a policy or of a world.
pub(crate) const FUZZ: Program = Program { package: "fuzz", kind: "--example", name: "fuzz" };
/// Searches for faults of daemon and guardian that break a promise, on simulated hosts.
pub(crate) const FUZZ_DAEMON: Program = Program { package: "storms", kind: "--example", name: "fuzz-daemon" };
/// Breaks what keeps promises, and looks whether every thread gets back what it was.
pub(crate) const STORM: Program = Program { package: "storms", kind: "--example", name: "storm" };

impl Program {
    /// A call of cargo that builds it for release and runs it; arguments of the program follow.
    pub(crate) fn release(self) -> Command {
        let mut command = cargo(&["run", "--release", "--quiet", "--package", self.package]);
        command.args([self.kind, self.name, "--"]);
        command
    }

    /// Builds it; gives its file.
    pub(crate) fn build(self) -> Result<PathBuf> {
        // As `cargo test` builds it: what was built there is not built again.
        let mut command = cargo(&["build", "--profile", "test", "--package", self.package, self.kind, self.name]);
        command.args(["--message-format", "json-render-diagnostics"]);
        let output = command.output().context("cannot run cargo")?;
        if !output.status.success() {
            bail!("{} failed:\n{}", typed(&command), String::from_utf8_lossy(&output.stderr));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        executable(&text, self.name).with_context(|| format!("{} made no program", typed(&command)))
    }
}

/// The file of a program, as cargo tells it.
fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let of_ours = messages.filter(|message| message["target"]["name"] == name);
    of_ours.filter_map(|message| message["executable"].as_str().map(PathBuf::from)).next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_program_is_the_one_that_cargo_tells() {
        let messages = "{\"target\":{\"name\":\"sys\"},\"executable\":null}\nno JSON\n\
            {\"target\":{\"name\":\"init\"},\"executable\":\"/t/init\"}\n";
        assert_eq!(executable(messages, "init"), Some(PathBuf::from("/t/init")));
        assert_eq!(executable(messages, "sys"), None);
    }
}
