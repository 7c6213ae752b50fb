//! [`Run`]: one run of a scenario, as it is asked for.

use crate::changes::boot_order;
use crate::choose::{Choice, of_guest, policy};
use crate::machines::machine_of_host;
use input::problem::Problems;
use scenario::Scenario;
use scenario::devices::OUTSIDE;
use std::sync::Arc;
use trace::world::MachineHeader;
use trace::{Header, WorldHeader};

/// One run of a scenario. It owns all that it needs.
#[derive(Clone, Debug)]
pub struct Run {
    /// The scenario.
    pub scenario: Arc<Scenario>,
    /// The policy of the hosts.
    pub choice: Choice,
    /// The policy of all guests, instead of what the scenario says.
    pub guests: Option<Choice>,
    /// The run's name among its like, from which random lengths are drawn: equal seeds give equal runs.
    pub seed: u64,
}

impl Run {
    /// The run of `scenario` under `choice` with seed 0, where guests have the policies of the scenario.
    #[must_use]
    pub fn new(scenario: impl Into<Arc<Scenario>>, choice: impl Into<Choice>) -> Run {
        Run { scenario: scenario.into(), choice: choice.into(), guests: None, seed: 0 }
    }

    /// What is true of all of it, for a trace: the hosts, the machine on which clients run, if there is one, then the guests in the order in which they boot.
    ///
    /// # Errors
    /// A guest's policy does not exist, or a knob of it.
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

    /// What each guest schedules by.
    pub(crate) fn guest_choices(&self) -> Result<Vec<Choice>, Problems> {
        self.scenario.guests.iter().map(|guest| of_guest(&self.scenario, guest, self.guests.as_ref())).collect()
    }
}
