//! [`Run`]: one run of a scenario, with its policies and its seed.

use crate::changes::boot_order;
use crate::choose::{Choice, of_guest, policy};
use crate::machines::machine_of_host;
use input::problem::Problems;
use measure::jobs::{JobLog, Starts};
use scenario::Scenario;
use scenario::devices::OUTSIDE;
use sim::Handling;
use std::sync::Arc;
use trace::world::MachineHeader;
use trace::{Header, WorldHeader};

/// One run of a scenario. The run owns all its data.
#[derive(Clone, Debug)]
pub struct Run {
    /// Scenario of the run.
    pub scenario: Arc<Scenario>,
    /// Policy of the hosts.
    pub choice: Choice,
    /// Policy of all guests. `None`: each guest has the policy that the scenario states.
    pub guests: Option<Choice>,
    /// Seed of the run's random numbers. Equal seeds give equal runs.
    pub seed: u64,
}

impl Run {
    /// Returns an observer that lists the jobs of this run. If the CPUs take time to handle the events of jobs, a job
    /// starts after this time.
    #[must_use]
    pub fn job_log(&self) -> JobLog {
        let has_handling = self.scenario.costs.handling != Handling::NONE;
        JobLog::of(self.scenario.hosts, if has_handling { Starts::Reported } else { Starts::Dispatched })
    }

    /// Creates the run of `scenario` under `choice` with seed 0. Guests have the policies of the scenario.
    #[must_use]
    pub fn new(scenario: impl Into<Arc<Scenario>>, choice: impl Into<Choice>) -> Run {
        Run { scenario: scenario.into(), choice: choice.into(), guests: None, seed: 0 }
    }

    /// Returns the header of the run's trace: the hosts, the machine outside, if any, then the guests in the order in
    /// which they boot.
    ///
    /// # Errors
    /// A guest's policy does not exist, lacks a knob that the scenario sets, or refuses the value of a knob.
    pub fn header(&self) -> Result<WorldHeader, Problems> {
        let machine = |name: &str, policy: &str, cpus, host| MachineHeader {
            name: name.to_string(),
            header: Header { policy: policy.to_string(), cpus, seed: self.seed },
            host,
        };
        let scenario = &self.scenario;
        let host = |host| machine(&scenario.host_name(host), self.choice.name(), scenario.host.cpus, None);
        let mut machines: Vec<MachineHeader> = (0..scenario.hosts).map(host).collect();
        if self.scenario.outside() > 0 {
            machines.push(machine(OUTSIDE, policy("round-robin")?.name, self.scenario.outside(), None));
        }
        for guest in boot_order(scenario) {
            let host = machine_of_host(scenario.host_of(guest));
            let guest = &scenario.guests[guest];
            let choice = of_guest(scenario, guest, self.guests.as_ref())?;
            machines.push(machine(&guest.name, choice.name(), guest.vcpus.len(), Some(host)));
        }
        Ok(WorldHeader { machines })
    }

    /// Returns the policy of each guest.
    pub(crate) fn guest_choices(&self) -> Result<Vec<Choice>, Problems> {
        self.scenario.guests.iter().map(|guest| of_guest(&self.scenario, guest, self.guests.as_ref())).collect()
    }
}
