//! [`History`]: measurements of promises over the latest time.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Measurements of the promises over the latest time, at several resolutions.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct History {
    /// The time grids, the finest first.
    pub grids: Vec<TimeGrid>,
    /// The VMs, by name, with one [`Series`] for each grid.
    pub vms: Vec<VmHistory>,
}

/// A sequence of intervals of equal length.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct TimeGrid {
    /// Length of an interval. Unit: ms.
    pub interval_ms: u64,
    /// Start of the first interval. Unit: ms since 1970-01-01 00:00 UTC.
    pub from_ms: u64,
    /// Number of intervals.
    pub length: usize,
}

/// The measurements of a VM.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct VmHistory {
    /// Id of the VM.
    pub id: String,
    /// Name of the VM.
    pub name: String,
    /// The measurements, one series for each grid.
    pub series: Vec<Series>,
}

/// Measurements of a VM in each interval of a grid. `null`: no promise was in force.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, ToSchema)]
pub struct Series {
    /// Numbers of judged periods.
    pub judged: Vec<Option<u32>>,
    /// Numbers of missed periods.
    pub missed: Vec<Option<u32>>,
    /// CPU time that was due. Unit: us.
    pub due_us: Vec<Option<u32>>,
    /// CPU time that was delivered. Unit: us.
    pub delivered_us: Vec<Option<u32>>,
    /// CPU time that was missing at the ends of the judged periods. Unit: us.
    pub short_us: Vec<Option<u32>>,
}
