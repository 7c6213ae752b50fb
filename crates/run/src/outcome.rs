//! [`Outcome`]: the results of a run.

use crate::choose::Choice;
use crate::manager::Managed;
use crate::readings::Measured;
use crate::run::Run;
use crate::samples::SampledVm;
use coordination::Coordinated;
use measure::{Meter, Siblings};
use sched::Nanos;
use sim::Stuck;

/// A slice in every period, as granted by a policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// Granted CPU time in every period.
    pub slice: Nanos,
    /// Length of a period. Above zero.
    pub period: Nanos,
}

/// The results of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The run.
    pub run: Run,
    /// Measurements of the entities of each host, by host.
    pub meters: Vec<Meter>,
    /// Time for which members of gangs waited while other members ran, by host.
    pub siblings: Vec<Siblings>,
    /// Reservation that the policy granted to each entity of the scenario at its arrival. `None`: the policy granted
    /// none, or the entity did not arrive.
    pub grants: Vec<Option<Grant>>,
    /// Number of refused changes of the reservation of each entity of the scenario.
    pub refused: Vec<u64>,
    /// Reading of each application on a host, if the application has a metric, in the order of the scenario.
    pub applications: Vec<Measured>,
    /// Results of the guests, by guest of the scenario.
    pub guests: Vec<GuestOutcome>,
    /// Results of the workload manager for each of its targets. `None`: the scenario has no manager.
    pub managed: Option<Vec<Managed>>,
    /// Samples of each VM of the scenario. `None`: the scenario requests no samples.
    pub samples: Option<Vec<SampledVm>>,
    /// Stalls: applications that could not continue, and waited until they were stopped.
    pub stalls: Vec<Stuck>,
}

/// The results of a guest.
#[derive(Debug)]
pub struct GuestOutcome {
    /// Policy of the guest.
    pub choice: Choice,
    /// Measurements of each of the guest's entities.
    pub meter: Meter,
    /// Reading of each application of the guest, if the application has a metric, in the order of the scenario.
    pub applications: Vec<Measured>,
    /// Totals of the guest's coordination with its host. `None`: the guest does not coordinate, or has not booted.
    pub coordinated: Option<Coordinated>,
}
