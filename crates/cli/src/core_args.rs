//! The options of `tactus core`.

use clap::Args;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct Core {
    /// The inherited socket
    #[arg(value_name = "FD", required_unless_present_any = ["listen", "handover_version"], conflicts_with = "listen")]
    pub(crate) descriptor: Option<i32>,
    /// Serve the front ends that connect to this socket, one after another, and keep the promises while there is none
    #[arg(long, value_name = "SOCKET")]
    pub(crate) listen: Option<PathBuf>,
    /// User of the front ends, besides root and the user of the core: a user ID, or the name of a local user
    #[arg(long, value_name = "USER", requires = "listen", value_parser = crate::user_id::user)]
    pub(crate) user: Option<u32>,
    /// Directory of the table of originals; by default /run/tactus, or tactus in $XDG_RUNTIME_DIR
    #[arg(long, value_name = "DIR", requires = "listen")]
    pub(crate) directory: Option<PathBuf>,
    /// Have a scheduler in the kernel dispatch the promises, through sched_ext, while the kernel has it loaded
    /// (docs/sched-ext.md)
    #[arg(long, requires = "listen")]
    pub(crate) sched_ext: bool,
    /// What the former program of this process passes on: the descriptors of its state, socket and locks
    #[arg(long, value_name = "FD,FD,FD,FD", requires = "listen")]
    pub(crate) handover: Option<String>,
    /// Print the version of the state that this program takes over from a former program of its process
    #[arg(long, exclusive = true)]
    pub(crate) handover_version: bool,
}
