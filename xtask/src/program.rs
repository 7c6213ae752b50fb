//! Programs of the workspace that an xtask command runs.

use crate::root::{ALL_PACKAGES, cargo, typed};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// A target of the workspace. In a guest, the path of the program is `/bin/` followed by the name of the target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Program {
    /// `--bin`, `--example` or `--bench`.
    kind: &'static str,
    pub(crate) name: &'static str,
    /// Feature without which the program lacks its main part.
    pub(crate) feature: Option<&'static str>,
}

/// First program of every guest, with the path `/init`.
pub(crate) const INIT: Program = Program { kind: "--example", name: "init", feature: None };
/// The command `tactus`.
pub(crate) const TACTUS: Program = Program { kind: "--bin", name: "tactus", feature: None };
/// The fuzzer of policies and worlds, which searches for inputs that break a law.
pub(crate) const FUZZ: Program = Program { kind: "--example", name: "fuzz", feature: None };
/// The fuzzer of the daemon. On simulated hosts, it searches for faults in the daemon or the guardian that break a
/// promise.
pub(crate) const FUZZ_DAEMON: Program = Program { kind: "--example", name: "fuzz-daemon", feature: None };
/// The storm test. It kills or stops the daemon, an agent or the guardian of a live run, and checks that every thread
/// regains its original attributes.
pub(crate) const STORM: Program = Program { kind: "--example", name: "storm", feature: None };
/// The checks of weights and caps in control groups of version 2.
pub(crate) const SHARES: Program = Program { kind: "--example", name: "shares", feature: None };
/// An operator of a whole Debian with the package of Tactus: executes the operator's page, and checks the service.
pub(crate) const OPERATOR: Program = Program { kind: "--example", name: "operator", feature: None };
/// A virtual machine for tests, which uses /dev/kvm.
pub(crate) const MICRO_VM: Program = Program { kind: "--example", name: "micro-vm", feature: None };

/// Fork-join work of a guest, for live experiments.
pub(crate) const FORK_JOIN: Program = Program { kind: "--example", name: "fork-join", feature: None };

/// The live part of the benchmarks, which compares mechanisms of promises.
pub(crate) const PROMISES: Program = Program { kind: "--bench", name: "promises", feature: None };

/// The profile of `cargo test`.
pub(crate) const TEST: &str = "test";

/// The feature of programs in BPF, which are compiled by clang.
pub(crate) const BPF: &str = "scx/bpf";
/// The program that schedules a kernel through sched_ext.
pub(crate) const TACTUS_SCX: Program = Program { kind: "--bin", name: "tactus-scx", feature: Some(BPF) };
/// The agent of a guest.
pub(crate) const TACTUS_GUEST: Program = Program { kind: "--bin", name: "tactus-guest", feature: None };
/// The load of the agent in its guest.
pub(crate) const AGENT_LOAD: Program = Program { kind: "--example", name: "agent-load", feature: None };
/// An interactive task and a hog in a guest with the agent.
pub(crate) const WAKE_UPS: Program = Program { kind: "--example", name: "wake-ups", feature: None };
/// The trials of `tactus-scx`.
pub(crate) const TRIALS: Program = Program { kind: "--example", name: "trials", feature: Some(BPF) };

impl Program {
    /// Builds the program in the profile of `cargo test`, and returns the path of its file.
    pub(crate) fn build(self) -> Result<PathBuf> {
        self.build_in(TEST)
    }

    /// Builds the program for guests without the libraries of this host: statically linked, and small.
    pub(crate) fn build_static(self) -> Result<PathBuf> {
        // With a target, the flags do not concern build scripts and macros.
        let target = host()?;
        let mut command = cargo(&["build", "--profile", "guest", "--target", &target, self.kind, self.name]);
        command.env("RUSTFLAGS", "-C target-feature=+crt-static");
        self.built_by(command)
    }

    /// Builds the program in `profile`, a profile of cargo, and returns the path of its file.
    pub(crate) fn build_in(self, profile: &str) -> Result<PathBuf> {
        self.built_by(cargo(&["build", "--profile", profile, self.kind, self.name]))
    }

    fn built_by(self, mut command: Command) -> Result<PathBuf> {
        command.args(ALL_PACKAGES).args(["--message-format", "json-render-diagnostics"]);
        command.args(self.feature.iter().flat_map(|feature| ["--features", feature]));
        let output = command.output().context("cannot run cargo")?;
        if !output.status.success() {
            bail!("{} failed:\n{}", typed(&command), String::from_utf8_lossy(&output.stderr));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        executable(&text, self.name).with_context(|| format!("{} made no program", typed(&command)))
    }
}

/// Returns the target of this host, such as `x86_64-unknown-linux-gnu`.
fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("cannot run rustc")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let target = text.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
    Ok(target.to_string())
}

/// Returns the path of a program from cargo's messages.
fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let of_ours = messages.filter(|message| message["target"]["name"] == name);
    of_ours.filter_map(|message| message["executable"].as_str().map(PathBuf::from)).next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_program_is_read_from_the_messages_of_cargo() {
        let messages = "{\"target\":{\"name\":\"sys\"},\"executable\":null}\nno JSON\n\
            {\"target\":{\"name\":\"init\"},\"executable\":\"/t/init\"}\n";
        assert_eq!(executable(messages, "init"), Some(PathBuf::from("/t/init")));
        assert_eq!(executable(messages, "sys"), None);
    }
}
