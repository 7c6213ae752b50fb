//! The options of `tactus-scx`.

use clap::Parser;
use std::path::PathBuf;

/// Schedule the threads of this host by a policy of Tactus, through sched_ext
#[derive(Parser, Debug)]
#[command(name = "tactus-scx", version)]
pub(crate) struct Options {
    /// The policy
    #[arg(long, value_name = "NAME", required_unless_present_any = ["serve", "replay"])]
    pub(crate) policy: Option<String>,
    /// Set a knob of the policy; see `tactus policies NAME`
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) knob: Vec<String>,
    /// Manage only the threads of this process (several: repeat it): they run ahead of all others while their promises have CPU
    /// time left. By default, the policy schedules all threads
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Vec<u32>,
    /// Promise a slice in every period to a thread, as in 1234=2ms/10ms, or 1234=2ms/10ms,hard for no more (several: repeat it)
    #[arg(long, value_name = "TID=SLICE/PERIOD[,hard]")]
    pub(crate) promise: Vec<String>,
    /// Dispatch these threads together: their promises, which are equal, are on different CPUs, and their periods begin at the same
    /// instants (several: repeat it). Needs --policy gang-edf
    #[arg(long, value_name = "TID,TID", requires = "native")]
    pub(crate) gang: Vec<String>,
    /// Schedule in the kernel itself, by a port of the policy to BPF, without decisions in user space: edf and gang-edf keep
    /// promises, and bmq schedules all threads
    #[arg(long, conflicts_with = "pid")]
    pub(crate) native: bool,
    /// Record in this file what the decisions of the kernel for promises follow from, and the decisions, for --replay
    #[arg(long, value_name = "FILE", requires = "native")]
    pub(crate) record: Option<PathBuf>,
    /// Compare the decisions of a recording with those of the policy in user space
    #[arg(long, value_name = "FILE", conflicts_with_all = ["policy", "native", "pid", "knob", "promise", "gang", "length", "serve"])]
    pub(crate) replay: Option<PathBuf>,
    /// Keep promises in the kernel for the service of Tactus: carry out orders from standard input, and report to standard output
    #[arg(long, conflicts_with_all = ["policy", "native", "pid", "knob", "promise", "gang", "length", "json"])]
    pub(crate) serve: bool,
    /// Length of the buffer of events, a power of two of at least 4096; for tests
    #[arg(long, value_name = "BYTES", hide = true)]
    pub(crate) buffer: Option<u32>,
    /// End after this time; by default, at SIGINT or SIGTERM
    #[arg(long = "for", value_name = "TIME")]
    pub(crate) length: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
