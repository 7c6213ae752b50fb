//! The figures and tables of papers as experiments that users can run, change and check.
//!
//! A [`Paper`] is a directory. The files in `experiments/` define the runs: templates of scenarios, axes and metrics.
//! The file `claims.toml` contains the claims of the paper, as checks of the measurements. [`Suite`] runs the
//! experiments, [`judge`] evaluates the claims, and [`result`] writes the verdicts. Data flows in one direction: files
//! → [`cell::Cell`]s → [`results::Results`] → verdicts → pages for readers.

pub mod cell;
pub mod claim;
mod claims_file;
mod compute;
pub mod disk;
pub mod evidence;
pub mod experiment;
#[cfg(test)]
mod fingerprint;
pub mod judge;
mod limits;
pub mod live;
pub mod lock;
pub mod margin;
pub mod page;
pub mod paper;
pub mod parallel;
pub mod picture;
mod plan;
pub mod plot;
pub mod printed;
pub mod problem;
pub mod provenance;
pub mod result;
pub mod results;
pub mod rival;
pub mod robust;
mod schedule;
pub mod status;
pub mod store;
pub mod suite;
pub mod varied;

pub use claim::Claim;
pub use experiment::Experiment;
pub use paper::Paper;
pub use printed::Printed;
pub use problem::Problem;
pub use results::Results;
pub use suite::Suite;
