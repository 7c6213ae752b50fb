//! [`Outcome`]: what a run came to.

use crate::choose::Choice;
use crate::manager::Managed;
use crate::readings::Measured;
use crate::run::Run;
use crate::samples::SampledVm;
use measure::{Meter, Siblings};
use sched::Nanos;
use sim::Stuck;
use sim::coordination::Coordinated;

/// A slice in every period, as a policy shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// So much CPU time.
    pub slice: Nanos,
    /// In every period of this length. Above zero.
    pub period: Nanos,
}

/// What a run came to.
#[derive(Debug)]
pub struct Outcome {
    /// What was run.
    pub run: Run,
    /// By host: what each of its entities got.
    pub meters: Vec<Meter>,
    /// By host: for how long members of gangs wanted to run, and did not, while others did.
    pub siblings: Vec<Siblings>,
    /// By entity of the scenario: what the policy granted it when it came.
    pub grants: Vec<Option<Grant>>,
    /// By entity of the scenario: how many changes of its reservation were refused.
    pub refused: Vec<u64>,
    /// The applications of all hosts that have a metric, in the order of the scenario.
    pub applications: Vec<Measured>,
    /// By guest of the scenario.
    pub guests: Vec<GuestOutcome>,
    /// By target of the workload manager, if there is one.
    pub managed: Option<Vec<Managed>>,
    /// By VM of the scenario, if it asks for samples.
    pub samples: Option<Vec<SampledVm>>,
    /// The applications that could not go on and waited until they were stopped.
    pub stalls: Vec<Stuck>,
}

/// What became of a guest.
#[derive(Debug)]
pub struct GuestOutcome {
    /// What it scheduled by.
    pub choice: Choice,
    /// What each of its entities got.
    pub meter: Meter,
    /// Those of its applications that have a metric, in the order of the scenario.
    pub applications: Vec<Measured>,
    /// What came of its coordination with its host; `None`: it does not coordinate, or has not booted.
    pub coordinated: Option<Coordinated>,
}
