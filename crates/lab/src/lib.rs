//! The figures and tables of papers as experiments that a reader can run, change and check.
//!
//! A [`Paper`] is a directory: `experiments/` say what is run (a scenario, what is varied in it, what is measured), `claims.toml` what the
//! paper claims, as checks of what was measured. [`Suite`] plays the experiments; [`judge`] tells which claims hold; [`result`]
//! writes it down. Data goes one way: files → [`cell::Cell`]s → [`results::Results`] → verdicts → what people read.

pub mod cell;
pub mod claim;
mod compute;
pub mod disk;
pub mod experiment;
#[cfg(test)]
mod fingerprint;
pub mod judge;
pub mod page;
pub mod paper;
pub mod parallel;
pub mod plot;
pub mod problem;
pub mod result;
pub mod results;
mod schedule;
pub mod store;
pub mod suite;
mod world;

pub use claim::Claim;
pub use experiment::Experiment;
pub use paper::Paper;
pub use problem::Problem;
pub use results::Results;
pub use suite::Suite;
pub use world::Wrong;
