//! Requests at the present instant of a [`Session`], made by its caller in addition to the changes of the scenario.

use crate::changes::Subject;
use crate::machines::{HOST, machine_of_host};
use crate::run::Run;
use crate::session::Session;
use crate::trial::Trial;
use sched::{EntityId, GroupParams, Machine, Params, PromiseState, Refused};

impl Session<'_> {
    /// Returns the run.
    #[must_use]
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Returns the machine of the host, or of the first of several hosts.
    #[must_use]
    pub fn host_machine(&self) -> &Machine {
        self.world.machine(HOST).machine()
    }

    /// Returns the id of entity number `index` of the scenario's hosts; `None`: the entity has not arrived, or has left.
    #[must_use]
    pub fn entity(&self, index: usize) -> Option<EntityId> {
        let machine = self.world.machine(machine_of_host(self.run.scenario.entities[index].host)).machine();
        self.host.entities[index].filter(|id| machine.is_attached(*id))
    }

    /// Returns the state of the reservation that the policy keeps for entity number `index` of the scenario's hosts;
    /// `None`: the policy keeps none, or the entity is not present.
    #[must_use]
    pub fn promise(&self, index: usize) -> Option<PromiseState> {
        let machine = self.world.machine(machine_of_host(self.run.scenario.entities[index].host)).machine();
        machine.promise(self.entity(index)?)
    }

    /// Returns the present parameters of group number `index` of the scenario's hosts.
    #[must_use]
    pub fn group_params(&self, index: usize) -> GroupParams {
        self.group_params[index]
    }

    /// Returns a copy of the host on which requests can be tried. `None`: the policy does not admit the present
    /// reservations in the order of the scenario.
    #[must_use]
    pub fn trial(&self) -> Option<Trial> {
        Trial::of(self)
    }

    /// Changes the parameters of entity number `index` of the scenario's hosts at the present instant.
    ///
    /// # Errors
    /// The policy refuses the parameters. Nothing has changed.
    ///
    /// # Panics
    /// The entity is not present.
    pub fn request(&mut self, index: usize, params: Params) -> Result<(), Refused> {
        let id = self.entity(index).expect("the entity is present");
        let machine = machine_of_host(self.run.scenario.entities[index].host);
        self.world.adjust(machine, id, params)
    }

    /// Changes the parameters of group number `index` of the scenario's hosts at the present instant.
    ///
    /// # Errors
    /// The policy refuses the parameters. Nothing has changed.
    pub fn request_group(&mut self, index: usize, params: GroupParams) -> Result<(), Refused> {
        let group = &self.run.scenario.groups[index];
        self.world.adjust_group(machine_of_host(group.host), self.host.groups[index], params)?;
        self.group_params[index] = params;
        Ok(())
    }

    /// Drops the changes of the scenario that are left for the reservation of entity number `index` of the hosts, because
    /// the caller sets the reservation from now on.
    pub fn drop_changes(&mut self, index: usize) {
        self.changes.retain(|(_, _, subject)| !matches!(subject, Subject::Reservation(of, _) if *of == index));
    }
}
