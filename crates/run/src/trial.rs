//! [`Trial`]: a machine on which requests are tried without effect on a run.

use crate::session::Session;
use sched::{EntityId, GroupId, Instant, Kicks, Machine, Params, Refused, Reservation};
use std::collections::BTreeMap;

/// A machine with the groups of the first host of a session and the present parameters of its entities. Its policy
/// answers requests as the host's policy would, without effect on the session. Tasks of applications are not on the
/// machine, so their reservations do not count.
#[derive(Debug)]
pub struct Trial {
    machine: Machine,
    /// The present entities, by their index in the scenario.
    entities: BTreeMap<usize, EntityId>,
}

impl Trial {
    /// Copies the first host of `session`. `None`: the policy does not admit the present reservations in the order of
    /// the scenario, so the trial has no answers.
    pub(crate) fn of(session: &Session<'_>) -> Option<Trial> {
        let (run, host) = (session.run(), session.host_machine());
        let (scenario, choice) = (&run.scenario, &run.choice);
        let mut machine = Machine::build(&*choice.policy, scenario.host, &choice.knobs, Kicks::Immediate).ok()?;
        let mut groups: Vec<GroupId> = Vec::with_capacity(scenario.groups.len());
        for (index, group) in scenario.groups.iter().enumerate() {
            let parent = group.parent.map_or(GroupId::ROOT, |parent| groups[parent]);
            groups.push(machine.create_group(Instant::ZERO, session.group_params(index), parent).ok()?);
        }
        let mut entities = BTreeMap::new();
        for (index, spec) in scenario.entities.iter().enumerate().filter(|(_, spec)| spec.host == 0) {
            let Some(id) = session.entity(index) else { continue };
            let present = *host.params(id);
            let group = spec.group.map_or(GroupId::ROOT, |group| groups[group]);
            // A policy with a queue of reservations per CPU keeps the entity on the CPU that it has chosen.
            let params = Params { group, affinity: host.allowed(id), ..anew(present) };
            entities.insert(index, machine.attach(Instant::ZERO, params).ok()?);
        }
        Some(Trial { machine, entities })
    }

    /// Returns the parameters of entity number `index` of the scenario; `None`: it is not present.
    #[must_use]
    pub fn params(&self, index: usize) -> Option<Params> {
        self.entities.get(&index).map(|&id| *self.machine.params(id))
    }

    /// Changes the parameters of entity number `index` of the scenario. The group stays.
    ///
    /// # Errors
    /// The policy refuses the parameters. Nothing has changed.
    ///
    /// # Panics
    /// The entity is not present.
    pub fn adjust(&mut self, index: usize, params: Params) -> Result<(), Refused> {
        let id = self.entities[&index];
        let group = self.machine.params(id).group;
        self.machine.adjust(Instant::ZERO, id, Params { group, ..anew(params) })
    }

    /// Returns whether the policy keeps a reservation for entity number `index` of the scenario.
    #[must_use]
    pub fn keeps(&self, index: usize) -> bool {
        self.entities.get(&index).is_some_and(|&id| self.machine.promise(id).is_some())
    }
}

/// Returns `params` with a reservation that begins at once: on this machine, no time passes.
fn anew(params: Params) -> Params {
    let reservation = params.reservation.map(|reservation| Reservation { start: None, ..reservation });
    Params { reservation, ..params }
}
