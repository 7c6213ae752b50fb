//! Reports of runs, as tables and as JSON. `docs/report.md` describes the JSON format of a [`Report`].

mod applications;
mod asked;
pub mod book;
mod compared;
mod coordinated;
mod description;
mod got;
mod guest;
mod json;
mod manager;
mod run_report;
mod samples;
mod short;
mod spreads;
mod stalls;
mod summary;
mod sweep;
mod tables;
mod xenmon;

pub use applications::{AppReport, AppSummary};
pub use asked::Asked;
pub use compared::{Compared, ComparedEntity, compared, side_by_side};
pub use coordinated::{CoordinationGot, CoordinationSpreads};
pub use description::{EntityDescription, GroupDescription, RunDescription};
pub use got::{Entity, Got, GroupGot, ServedBy, SiblingDelays, StartSkews};
pub use guest::{CpuLoss, GuestReport};
pub use json::{is_plain, json};
pub use manager::{ManagedSpreads, ManagedVm, ManagerReport, ManagerSummary};
pub use run_report::{Report, observed};
pub use samples::{SampledVm, SamplesReport};
pub use short::{percent, short};
pub use stalls::Stall;
pub use summary::{GuestSummary, Summary, SummaryLine};
pub use sweep::{Swept, SweptPoint, swept, swept_csv};
pub use tables::applications::applications;
pub use tables::gangs::gangs;
pub use tables::grid::{Grid, Widths};
pub use tables::guests::guests;
pub use tables::manager::manager;
pub use tables::medians::medians;
pub use tables::runs::{comparison, groups, table};
pub use tables::stalls::stalls;
pub use tables::totals::{Totals, totals};
pub use tables::xenmon::xenmon;
pub use xenmon::{DomainGot, DomainReport, DomainSpreads, HostReport, HostSpreads, XenMonReport};

use serde::Serialize;

/// Several runs, in the format of `--json`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Runs<'a> {
    /// Whether the runs were simulated.
    pub simulated: bool,
    /// One run for each policy, in the order of the command line.
    pub runs: &'a [Report],
}

/// Runs over several seeds, in the format of `--json`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SeededRuns<'a> {
    /// Whether the runs were simulated.
    pub simulated: bool,
    /// One run for each policy and seed, in the order of the command line.
    pub runs: &'a [Report],
    /// Medians for each policy, in the order of the command line.
    pub medians: &'a [Summary],
}
