//! [`RunDescription`]: a run without its results. It is created from the scenario of a simulated run, or from the plan
//! of a live run.

use scenario::{Scenario, Workload};
use sched::{GroupParams, Instant, Nanos, Params};

/// The conditions of a run, and its entities and groups.
#[derive(Clone, PartialEq, Debug)]
pub struct RunDescription {
    /// Title of the run.
    pub title: String,
    /// Names of the hosts. Not empty.
    pub hosts: Vec<String>,
    /// CPUs of the machine, or of each host.
    pub cpus: usize,
    /// Length of the run.
    pub length: Nanos,
    /// Warm-up at the beginning of the run. Measurements exclude the warm-up.
    pub warm_up: Nanos,
    /// Entities, in the order of the report. Names are unique.
    pub entities: Vec<EntityDescription>,
    /// Groups, in the order of the report.
    pub groups: Vec<GroupDescription>,
}

/// An entity of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct EntityDescription {
    /// Name of the entity.
    pub name: String,
    /// Group of the entity, an index of [`RunDescription::groups`]; `None`: the root.
    pub group: Option<usize>,
    /// Host of the entity, an index of [`RunDescription::hosts`].
    pub host: usize,
    /// Arrival of the entity.
    pub arrival: Instant,
    /// Requested parameters of the entity.
    pub params: Params,
    /// Period of the entity's jobs, if the jobs are periodic.
    pub job_period: Option<Nanos>,
}

/// A group of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct GroupDescription {
    /// Name of the group.
    pub name: String,
    /// Parent of the group, an index of [`RunDescription::groups`]; `None`: the root.
    pub parent: Option<usize>,
    /// Requested parameters of the group.
    pub params: GroupParams,
}

impl RunDescription {
    /// Returns the length of the most informative part at the start of the run, for a picture of `cells` columns. It ends at
    /// least ten of the shortest periods after the last arrival, or at the end of the run. A column is a round length of time,
    /// so that slices and periods fill whole columns.
    #[must_use]
    pub fn telling_length(&self, cells: u64) -> Nanos {
        let periods = self.entities.iter().flat_map(|entity| {
            let promised = entity.params.reservation.map(|reservation| reservation.period);
            promised.into_iter().chain(entity.job_period)
        });
        let shortest = periods.min().unwrap_or(Nanos::ms(30));
        let last = self.entities.iter().map(|entity| entity.arrival).max().unwrap_or(Instant::ZERO);
        let least = last.saturating_add(shortest.saturating_mul(10)).as_ns().min(self.length.as_ns());
        round(least.div_ceil(cells.max(1))).saturating_mul(cells).min(self.length)
    }

    /// Returns the description of a run of `scenario`.
    #[must_use]
    pub fn of(scenario: &Scenario) -> RunDescription {
        let entities = scenario.entities.iter().map(|entity| EntityDescription {
            name: entity.name.clone(),
            group: entity.group,
            host: entity.host,
            arrival: entity.arrival,
            params: entity.params,
            job_period: match entity.workload {
                Workload::Periodic(jobs) => Some(jobs.period),
                Workload::Hog | Workload::Scripted | Workload::Vcpu | Workload::Program => None,
            },
        });
        let groups = scenario.groups.iter().map(|group| GroupDescription {
            name: group.name.clone(),
            parent: group.parent,
            params: group.params,
        });
        RunDescription {
            title: scenario.name.clone(),
            hosts: (0..scenario.hosts).map(|host| scenario.host_name(host)).collect(),
            cpus: scenario.host.cpus,
            length: scenario.length,
            warm_up: scenario.warm_up,
            entities: entities.collect(),
            groups: groups.collect(),
        }
    }

    /// Returns the gang of entity number `entity`, an index of [`RunDescription::groups`]; `None` if the entity is in no
    /// gang.
    #[must_use]
    pub fn gang_of(&self, entity: usize) -> Option<usize> {
        self.entities[entity].group.filter(|&group| self.groups[group].params.gang)
    }

    /// Returns the name of host number `host` if the run has several hosts.
    #[must_use]
    pub fn host_among_several(&self, host: usize) -> Option<String> {
        self.hosts.get(host).filter(|_| self.hosts.len() > 1).cloned()
    }

    /// Returns the interval that is measured.
    #[must_use]
    pub fn measured(&self) -> (Instant, Instant) {
        (Instant::ZERO + self.warm_up, Instant::ZERO + self.length)
    }

    /// Returns the length of the measurement.
    #[must_use]
    pub fn measured_time(&self) -> Nanos {
        self.length.saturating_sub(self.warm_up)
    }
}

/// Returns the shortest length that is at least `ns` and is 1, 2 or 5 times a power of ten.
fn round(ns: u64) -> Nanos {
    let powers = std::iter::successors(Some(1_u64), |power| power.checked_mul(10));
    let steps = powers.flat_map(|power| [1, 2, 5].map(|times| power.saturating_mul(times)));
    Nanos::ns(steps.into_iter().find(|&step| step >= ns).unwrap_or(ns))
}
