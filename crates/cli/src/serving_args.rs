//! The options of `tactus sim --serve`.

use clap::Args;
use simservice::Speed;
use std::path::PathBuf;

/// Options with which a scenario is served in place of being run to its end.
#[derive(Args, Debug)]
pub(crate) struct Serving {
    /// Serve the scenario as a simulated host until Ctrl-C, for `tactus list` to `tactus top` with --socket
    #[arg(long, help_heading = "Simulated host", conflicts_with_all = ["tasks", "seeds", "vary", "warm_up", "length",
        "xenmon", "ftrace", "audit", "json", "trace", "svg", "gantt_from", "gantt_to", "width"])]
    pub(crate) serve: bool,
    /// Socket of the simulated host; by default one in a temporary directory
    #[arg(long, value_name = "PATH", requires = "serve", help_heading = "Simulated host")]
    pub(crate) socket: Option<PathBuf>,
    /// Simulated time per real time: 0.001 to 1000
    #[arg(long, value_name = "X", requires = "serve", default_value_t = Speed::REAL, help_heading = "Simulated host")]
    pub(crate) speed: Speed,
    /// Show the simulated host in a browser, as `tactus page` does
    #[arg(long, requires = "serve", help_heading = "Simulated host")]
    pub(crate) page: bool,
}
