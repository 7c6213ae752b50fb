//! The options of `tactus guest`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

pub(crate) const GUEST_EXIT_CODES: &str = "No attribute of the VM changes: threads of this command lend their priority to the vCPUs until 8 ms \
    after the last hint or timer, or 0.3 ms after an interrupt that no hint has announced, and a guardian ends the loans if this command dies or hangs.

Exit codes: 0 success, also if the VM has ended; 1 failure; 2 invalid or refused input, nothing was changed; 130 interrupted, and \
    the port is detached.";

pub(crate) const WHY_EXIT_CODES: &str = "A wake-up is late if its task runs --least or more after its timer expired, or after it woke. \
    The command attaches the port for hints, boosts nothing, and detaches the port; or it reads along with `tactus guest attach`. The host's tracepoints \
    (sched_switch, sched_waking) cost a few percent of a CPU meanwhile.

Exit codes: 0 success, also without late wake-ups; 1 failure, such as a VM without an agent; 2 invalid or refused input; 130 interrupted, \
    and the wake-ups so far are printed.";

#[derive(Args, Debug)]
pub(crate) struct Guest {
    #[command(subcommand)]
    pub(crate) command: GuestCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum GuestCommand {
    /// Attach a port for hints to a running VM of QEMU, and boost its vCPUs until this command is interrupted
    #[command(after_help = GUEST_EXIT_CODES)]
    Attach(Attach),
}

#[derive(Args, Debug)]
pub(crate) struct Attach {
    /// Id, name or pid of the VM
    pub(crate) vm: String,
    /// Socket of a virtio-serial port `tactus.hints` that the VM has already, such as a channel of libvirt
    #[arg(long, value_name = "SOCKET")]
    pub(crate) port: Option<PathBuf>,
    /// CPU time for which the VM may be boosted in each 100 ms, in percent of a CPU
    #[arg(long, value_name = "PERCENT", default_value_t = 30, value_parser = clap::value_parser!(u8).range(1..=100))]
    pub(crate) budget: u8,
    /// Boost by the hints of the agent only, and not when a thread wakes that carries interrupts to the VM
    #[arg(long)]
    pub(crate) hints_only: bool,
    /// Real-time priority that is lent to a vCPU. The clients of a core are above it
    #[arg(long, value_name = "PRIORITY", default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..=90))]
    pub(crate) priority: u8,
    /// End after this time, such as 10s or 5min; by default, at an interrupt
    #[arg(long = "for", value_name = "TIME")]
    pub(crate) length: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Why {
    /// Id, name or pid of the VM
    pub(crate) vm: String,
    /// Length of the observation, such as 10s or 5min
    #[arg(long = "for", value_name = "TIME", default_value = "10s")]
    pub(crate) length: String,
    /// Least latency of a late wake-up
    #[arg(long, value_name = "TIME", default_value = "1ms")]
    pub(crate) least: String,
    /// Socket of a virtio-serial port `tactus.hints` that the VM has already, such as a channel of libvirt
    #[arg(long, value_name = "SOCKET")]
    pub(crate) port: Option<PathBuf>,
    /// Draw the longest late wake-ups, a bar for each, as an SVG file
    #[arg(long, value_name = "FILE")]
    pub(crate) picture: Option<PathBuf>,
    /// Print all late wake-ups as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct LoanGuardian {
    /// Real-time priority of the guardian
    pub(crate) priority: u32,
    /// The process that lends, TID:START
    pub(crate) booster: String,
    /// Its donors, TID:START
    #[arg(required = true)]
    pub(crate) donors: Vec<String>,
}
