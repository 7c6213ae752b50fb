//! The command line of the service and its clients.

use crate::service::Order;
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Maximum quota of a user. Unit: percent of a CPU.
pub(crate) const QUOTA_MAX: u32 = api::CAP_MOST;

pub(crate) const SERVICE_EXIT_CODES: &str = "Exit codes: 0 success; 1 failure, such as a service that cannot be \
    reached; 2 invalid or refused input, nothing was changed; 130 interrupted.";

#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// Configuration file, which has these options as keys; by default /etc/tactus/config.toml for root, if it exists
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Socket of a resident core; by default that of a core which this command starts
    #[arg(long, value_name = "SOCKET")]
    pub(crate) core: Option<PathBuf>,
    /// Socket for clients; by default /run/tactus.sock, or tactus.sock in $XDG_RUNTIME_DIR
    #[arg(long, value_name = "SOCKET")]
    pub(crate) socket: Option<PathBuf>,
    /// Address and port for clients with certificates: 192.0.2.1:7430; by default only clients of this host are served
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<SocketAddr>,
    /// Directory of the certificates of --listen, by default /etc/tactus/certs; see `tactus certs init`
    #[arg(long, value_name = "DIR")]
    pub(crate) certs: Option<PathBuf>,
    /// Directory of the desired states and the audit log; by default /var/lib/tactus, or ~/.local/state/tactus
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// Directory of label files, the promises that VMs carry; by default /etc/tactus/vms.d, or ~/.config/tactus/vms.d
    #[arg(long, value_name = "DIR")]
    pub(crate) labels: Option<PathBuf>,
    /// Directory of libvirt's status files; by default /run/libvirt/qemu, or libvirt/qemu/run in $XDG_RUNTIME_DIR
    #[arg(long, value_name = "DIR")]
    pub(crate) libvirt: Option<PathBuf>,
    /// Only observe: find VMs and report what they use, and change nothing
    #[arg(long, conflicts_with_all = ["core", "directory"])]
    pub(crate) observe: bool,
    /// Have a scheduler in the kernel dispatch the promises, through sched_ext, while the kernel has it loaded
    /// (docs/sched-ext.md)
    #[arg(long, conflicts_with_all = ["core", "observe"])]
    pub(crate) sched_ext: bool,
    /// Part of a CPU that each user other than root may promise to the user's own VMs; by default none
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=i64::from(QUOTA_MAX)))]
    pub(crate) user_quota: Option<u32>,
    /// Directory of the table of originals of a started core; by default /run/tactus, or tactus in $XDG_RUNTIME_DIR
    #[arg(long, value_name = "DIR", conflicts_with = "core")]
    pub(crate) directory: Option<PathBuf>,
}

/// The service of a client.
#[derive(Args, Debug)]
pub(crate) struct AtService {
    /// Socket of the service; by default tactus.sock in $XDG_RUNTIME_DIR if it exists, or else /run/tactus.sock
    #[arg(long, value_name = "SOCKET", env = "TACTUS_SOCKET")]
    pub(crate) socket: Option<PathBuf>,
    /// Another host whose service is used, with an optional port
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Option<String>,
    /// Directory of the certificates for --host; by default tactus/certs in $XDG_CONFIG_HOME or ~/.config
    #[arg(long, value_name = "DIR", requires = "host")]
    pub(crate) certs: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) at: AtService,
}

#[derive(Args, Debug)]
pub(crate) struct Show {
    /// Name or id of the VM, or pid:NUMBER for a process
    pub(crate) vm: String,
    #[command(flatten)]
    pub(crate) at: AtService,
}

#[derive(Args, Debug)]
pub(crate) struct Observe {
    /// Name or id of the VM, or pid:NUMBER for a process
    pub(crate) vm: String,
    /// Length of the observation, 10ms to 30s
    #[arg(long = "for", value_name = "DURATION", default_value = "2s")]
    pub(crate) length: String,
    #[command(flatten)]
    pub(crate) at: AtService,
}

#[derive(Args, Debug)]
pub(crate) struct Named {
    /// Name or id of the VM, or pid:NUMBER for a process
    pub(crate) vm: String,
    /// Reason of the change, for the audit log
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) at: AtService,
}

#[derive(Args, Debug)]
#[command(group(clap::ArgGroup::new("change").multiple(true).required(true)
    .args(["slice", "period", "cpus", "gang", "hard", "soft", "mechanism", "no_promise", "weight", "no_weight", "cap", "no_cap"])))]
pub(crate) struct Set {
    /// Name or id of the VM, or pid:NUMBER for a process
    pub(crate) vm: String,
    /// CPU time in every period, summed over all CPUs of the promise: 500us, 2ms
    #[arg(long, value_name = "DURATION", help_heading = "Promise")]
    pub(crate) slice: Option<String>,
    /// Length of the period: 1ms, 10ms
    #[arg(long, value_name = "DURATION", help_heading = "Promise")]
    pub(crate) period: Option<String>,
    /// Number of CPUs among which the slice is divided
    #[arg(long, value_name = "N", help_heading = "Promise", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) cpus: Option<u16>,
    /// Give the threads their parts of the slice at the same time on all CPUs; --gang=false ends this
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = "Promise")]
    pub(crate) gang: Option<bool>,
    /// Freeze the VM when its slice is used up
    #[arg(long, help_heading = "Promise")]
    pub(crate) hard: bool,
    /// Let the VM compete for the remaining time when its slice is used up
    #[arg(long, conflicts_with = "hard", help_heading = "Promise")]
    pub(crate) soft: bool,
    /// What keeps the promise
    #[arg(long, value_enum, value_name = "MECHANISM", help_heading = "Promise")]
    pub(crate) mechanism: Option<crate::raising::Raising>,
    /// Promise no CPU time
    #[arg(long, help_heading = "Promise", conflicts_with_all = ["slice", "period", "cpus", "gang", "hard", "soft", "mechanism"])]
    pub(crate) no_promise: bool,

    /// Weight relative to other control groups; an ordinary group has 100
    #[arg(long, value_name = "N", help_heading = "Share", value_parser = clap::value_parser!(u32).range(1..=i64::from(api::WEIGHT_MOST)))]
    pub(crate) weight: Option<u32>,
    /// Leave the weight as it was
    #[arg(long, help_heading = "Share", conflicts_with = "weight")]
    pub(crate) no_weight: bool,
    /// Maximum CPU time; 150 is one and a half CPUs
    #[arg(long, value_name = "PERCENT", help_heading = "Share", value_parser = clap::value_parser!(u32).range(1..=i64::from(api::CAP_MOST)))]
    pub(crate) cap: Option<u32>,
    /// Set no maximum
    #[arg(long, help_heading = "Share", conflicts_with = "cap")]
    pub(crate) no_cap: bool,

    /// Change nothing; show whether the change would be made
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Change the VM only if it has this generation
    #[arg(long, value_name = "N")]
    pub(crate) if_generation: Option<u64>,
    /// Reason of the change, for the audit log
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) at: AtService,
}

#[derive(Args, Debug)]
pub(crate) struct SchedInfo {
    /// Name or id of the VM, or pid:NUMBER for a process
    pub(crate) vm: String,
    /// Set parameters: cpu_shares, global_quota and global_period (us; -1: no cap), slice and period (us; 0: no promise)
    #[arg(long, value_name = "NAME=VALUE", num_args = 1..)]
    pub(crate) set: Vec<String>,
    /// Accepted for scripts of virsh: a change is always in force at once, and stays
    #[arg(long, hide_short_help = true)]
    pub(crate) live: bool,
    /// Accepted for scripts of virsh, like --live
    #[arg(long, hide_short_help = true)]
    pub(crate) config: bool,
    /// Accepted for scripts of virsh, like --live
    #[arg(long, hide_short_help = true)]
    pub(crate) current: bool,
    /// Change nothing; show whether the change would be made
    #[arg(long, requires = "set")]
    pub(crate) dry_run: bool,
    /// Reason of the change, for the audit log
    #[arg(long, value_name = "TEXT", requires = "set")]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) at: AtService,
}

#[derive(Args, Debug)]
pub(crate) struct Events {
    /// Begin with the events after this number; by default with the next one
    #[arg(long, value_name = "NUMBER")]
    pub(crate) after: Option<u64>,
    #[command(flatten)]
    pub(crate) at: AtService,
}

#[derive(Args, Debug)]
pub(crate) struct PageArgs {
    /// Socket of the service; by default tactus.sock in $XDG_RUNTIME_DIR if it exists, or else /run/tactus.sock
    #[arg(long, value_name = "SOCKET", env = "TACTUS_SOCKET")]
    pub(crate) socket: Option<PathBuf>,
    /// TCP port on 127.0.0.1; by default a free one
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub(crate) port: u16,
}

#[derive(Args, Debug)]
pub(crate) struct Top {
    /// Time between two readings: 500ms, 2s
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    pub(crate) interval: String,
    /// Print one table or, with --json, one line, and end
    #[arg(long, conflicts_with = "count")]
    pub(crate) once: bool,
    /// Print this number of tables and end; by default on a terminal, show the VMs until q or Ctrl-C
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,
    /// Order of the VMs
    #[arg(long, value_enum, value_name = "ORDER", default_value = "used")]
    pub(crate) order: Order,
    #[command(flatten)]
    pub(crate) at: AtService,
}
