//! Runs of scenarios: a [`Run`] defines a run, a [`Session`] executes it step by step, and an [`Outcome`] contains its
//! results.
//!
//! [`choose`] selects the policies of a scenario. [`live`] converts the records of a run on a real host to the events
//! of a simulated run.

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
mod requests;
mod run;
mod samples;
mod session;
mod suits;
pub mod sweep;
mod trial;

pub use choose::{Choice, Placement, choose, choose_for_guests, choose_for_tasks, policy};
pub use observers::Observers;
pub use outcome::{Grant, GuestOutcome, Outcome};
pub use partition::partition;
pub use readings::Measured;
pub use run::Run;
pub use samples::SampledVm;
pub use session::{Budget, Progress, Session, Tally};
pub use trial::Trial;
