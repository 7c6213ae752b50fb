//! [`Order`]: the order of the VMs in `tactus top`.

use clap::ValueEnum;

/// The order of the VMs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Order {
    /// By name
    Name,
    /// Most CPU time of vCPUs first
    Used,
    /// Longest waits of vCPUs first
    Waited,
    /// Most missed periods first
    Missed,
}
