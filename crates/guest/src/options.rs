//! The options of `tactus-guest`.

use clap::{Parser, ValueEnum};
use coordination::Rule;
use std::path::PathBuf;

/// Publish to the host of this virtual machine which tasks are interactive, so that the host runs the vCPU in time
///
/// Without a host that reads its hints, the agent sleeps.
#[derive(Parser, Debug)]
#[command(name = "tactus-guest", version)]
pub(crate) struct Options {
    /// The port to the host; by default, the virtio-serial port with the name tactus.hints
    #[arg(long, value_name = "PATH")]
    pub(crate) port: Option<PathBuf>,
    /// The rule by which a task is interactive
    #[arg(long, value_name = "RULE", default_value = "ewma")]
    pub(crate) detector: DetectorRule,
    /// Raise interactive tasks of SCHED_OTHER in this guest while they are interactive
    #[arg(long, value_name = "HOW", default_value = "none")]
    pub(crate) prioritise: Prioritise,
    /// Maximum CPU time of the agent, in percent of a CPU. From nine tenths of it on, hints are late
    #[arg(long, value_name = "PERCENT", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=100))]
    pub(crate) cpu_most: u8,
    /// Print the hints, one JSON object a line, instead of publishing them
    #[arg(long, conflicts_with = "port")]
    pub(crate) print: bool,
    /// Restore the attributes of tasks that an agent has raised, and end. An agent restores them when it ends; this is for an
    /// agent that was killed together with its guard
    #[arg(long, conflicts_with_all = ["port", "print"])]
    pub(crate) restore: bool,
    /// Restore raised tasks when the agent with this pid ends
    #[arg(long, value_name = "PID", hide = true, conflicts_with_all = ["port", "print", "restore"])]
    pub(crate) guard: Option<u32>,
}

/// The work of a process.
pub(crate) enum Work {
    Restore,
    Guard(u32),
    Print,
    Talk,
}

impl Options {
    pub(crate) fn work(&self) -> Work {
        match *self {
            Options { restore: true, .. } => Work::Restore,
            Options { guard: Some(agent), .. } => Work::Guard(agent),
            Options { print: true, .. } => Work::Print,
            _ => Work::Talk,
        }
    }
}

/// The rules that need no state of the kernel's policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum DetectorRule {
    /// Only tasks of a real-time class
    Class,
    /// Short bursts and long sleeps, on average
    Ewma,
    /// The score of FreeBSD's ULE
    Ule,
    /// The criticality of LAVD
    Lavd,
}

impl From<DetectorRule> for Rule {
    fn from(rule: DetectorRule) -> Rule {
        match rule {
            DetectorRule::Class => Rule::Class,
            DetectorRule::Ewma => Rule::Ewma,
            DetectorRule::Ule => Rule::Ule,
            DetectorRule::Lavd => Rule::Lavd,
        }
    }
}

/// How interactive tasks are raised in the guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Prioritise {
    /// They keep their attributes
    None,
    /// Nice −20
    Nice,
    /// SCHED_FIFO 1, and SCHED_OTHER for their children
    Fifo,
}
