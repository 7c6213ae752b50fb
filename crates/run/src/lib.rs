//! Runs of scenarios: a [`Run`] says what is run, a [`Session`] is stepped through it, and an [`Outcome`] is what it came to.
//!
//! [`choose`] says which policies a scenario runs under. What a run does on real hosts becomes one of these by [`live`].

mod audit;
mod cables;
mod changes;
mod choose;
pub mod live;
mod machines;
pub mod manager;
mod meters;
mod observers;
mod outcome;
mod partition;
mod readings;
mod run;
mod samples;
mod session;
mod suits;
pub mod sweep;

pub use audit::{Delays, promises};
pub use choose::{Choice, Placement, choose, choose_for_guests, choose_for_tasks, policy};
pub use observers::Observers;
pub use outcome::{Grant, GuestOutcome, Outcome};
pub use partition::partition;
pub use readings::Measured;
pub use run::Run;
pub use samples::SampledVm;
pub use session::{Budget, Progress, Session, Tally};
