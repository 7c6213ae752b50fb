//! [`RunDescription`]: a run without its results. A simulated run takes it from its scenario, a live run from its plan.

use scenario::{Scenario, Workload};
use sched::{GroupParams, Instant, Nanos, Params};

/// The conditions of a run, and its entities and groups.
#[derive(Clone, PartialEq, Debug)]
pub struct RunDescription {
    /// The title.
    pub title: String,
    /// The names of the hosts, at least one.
    pub hosts: Vec<String>,
    /// CPUs of the machine, or of each host.
    pub cpus: usize,
    /// Length of the run.
    pub length: Nanos,
    /// The part at its beginning that is not measured.
    pub warm_up: Nanos,
    /// The entities, in the order of the report. Names are unique.
    pub entities: Vec<EntityDescription>,
    /// The groups, in the order of the report.
    pub groups: Vec<GroupDescription>,
}

/// An entity of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct EntityDescription {
    /// Its name.
    pub name: String,
    /// Its group, an index of [`RunDescription::groups`]; `None`: the root.
    pub group: Option<usize>,
    /// Its host, an index of [`RunDescription::hosts`].
    pub host: usize,
    /// When it arrives.
    pub arrival: Instant,
    /// What is requested for it.
    pub params: Params,
    /// The period of its jobs, if it has any.
    pub job_period: Option<Nanos>,
}

/// A group of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct GroupDescription {
    /// Its name.
    pub name: String,
    /// Its parent, an index of [`RunDescription::groups`]; `None`: the root.
    pub parent: Option<usize>,
    /// What is requested for it.
    pub params: GroupParams,
}

impl RunDescription {
    /// The description of a run of `scenario`.
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

    /// The name of host number `host`, if there are several.
    #[must_use]
    pub fn host_among_several(&self, host: usize) -> Option<String> {
        self.hosts.get(host).filter(|_| self.hosts.len() > 1).cloned()
    }

    /// The interval that is measured.
    #[must_use]
    pub fn measured(&self) -> (Instant, Instant) {
        (Instant::ZERO + self.warm_up, Instant::ZERO + self.length)
    }

    /// The length of the measurement.
    #[must_use]
    pub fn measured_time(&self) -> Nanos {
        self.length.saturating_sub(self.warm_up)
    }
}
