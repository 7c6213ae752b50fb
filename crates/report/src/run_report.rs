//! [`Report`]: the requested parameters and the results of each entity in one run.

use crate::applications::AppReport;
use crate::asked::Asked;
use crate::description::{GroupDescription, RunDescription};
use crate::got::{Entity, Got, GroupGot, SiblingDelays, StartSkews, is_zero, ppm, there};
use crate::guest::{self, GuestReport};
use crate::manager::ManagerReport;
use crate::samples::SamplesReport;
use crate::stalls::Stall;
use crate::xenmon::XenMonReport;
use measure::jobs::Job;
use measure::{Measures, Member, Meter, Siblings};
use run::{Grant, Outcome};
use scenario::Scenario;
use sched::{GroupId, Instant, Knobs, PolicySource};
use serde::Serialize;
use std::collections::BTreeMap;
use trace::Durations;

/// One run: its conditions, and the requested parameters and the results of each entity.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Report {
    /// Title of the scenario.
    pub scenario: String,
    /// Name of the policy.
    pub policy: String,
    /// Knobs of the policy, with their values as text.
    pub knobs: BTreeMap<&'static str, String>,
    /// Number of hosts. Omitted from JSON for a single host.
    #[serde(skip_serializing_if = "is_alone")]
    pub hosts: usize,
    /// CPUs of the machine, or of each host.
    pub cpus: usize,
    /// Length of the run. Unit: nanoseconds.
    pub length_ns: u64,
    /// Length of the warm-up at the beginning of the run. Measurements exclude the warm-up; `docs/report.md`
    /// lists the exceptions. Unit: nanoseconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub warm_up_ns: u64,
    /// Seed of the run.
    pub seed: u64,
    /// Results of all entities together. `delivered_ppm` is relative to all CPUs.
    pub total: Got,
    /// Entities in the order of the scenario, followed by the tasks of its applications. Entities that had not arrived
    /// at the end of the run are not in the list.
    pub entities: Vec<Entity>,
    /// VMs and other groups, in the order of the scenario.
    pub groups: Vec<GroupGot>,
    /// Metrics of the applications that run on hosts, in the order of the scenario. Empty if no such application has a
    /// metric.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub applications: Vec<AppReport>,
    /// Results of the guests of the scenario's VMs, in the order of the scenario. Empty if no VM has a guest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub guests: Vec<GuestReport>,
    /// Results of the workload manager, if the scenario has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manager: Option<ManagerReport>,
    /// CPU time of the scenario's VMs in each interval, if the scenario requests samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<SamplesReport>,
    /// Applications whose threads waited for each other until the duration of the application ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stalls: Vec<Stall>,
    /// Results of the domains, as Xen's performance monitor reports them, if they were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub xenmon: Option<XenMonReport>,
    /// All jobs in order of release, if the list of jobs was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobs: Option<Vec<Job>>,
}

impl Report {
    /// Converts `outcome` to a report.
    #[must_use]
    pub fn of(outcome: Outcome) -> Report {
        let Outcome { run, meters, siblings, grants, refused, applications, guests, managed, samples, stalls } =
            outcome;
        let scenario = &run.scenario;
        let description = RunDescription::of(scenario);
        let mut report = Report::new(&description, &*run.choice.policy, &run.choice.knobs, run.seed, &meters, &grants);
        report.refuse_changes(scenario, &refused);
        meters.iter().zip(&siblings).for_each(|(meter, siblings)| report.tell_siblings(siblings, meter));
        report.applications = applications.into_iter().map(AppReport::new).collect();
        let guests = scenario.guests.iter().zip(guests);
        report.guests = guests.map(|(spec, outcome)| GuestReport::of(scenario, spec, outcome)).collect();
        report.manager = scenario.manager.as_ref().zip(managed).map(|(spec, vms)| ManagerReport::new(spec, &vms));
        report.samples = scenario.samples.zip(samples).map(|(spec, vms)| SamplesReport::new(spec, vms));
        report.stalls = stalls.iter().map(Stall::new).collect();
        report
    }

    fn new(
        run: &RunDescription,
        policy: &dyn PolicySource,
        knobs: &Knobs,
        seed: u64,
        meters: &[Meter],
        grants: &[Option<Grant>],
    ) -> Report {
        let mut total = Measures::default();
        meters.iter().for_each(|meter| total.add(&meter.total()));
        let present = present(run, meters);
        let all = run.measured_time().saturating_mul((run.hosts.len() * run.cpus) as u64);
        let others = meters.iter().enumerate().flat_map(|(host, meter)| {
            let tasks = guest::tasks(others(run, meter), meter, run.measured()).into_iter();
            tasks.map(move |task| Entity { host: run.host_among_several(host), ..task })
        });
        Report {
            scenario: run.title.clone(),
            policy: policy.name().to_string(),
            knobs: knobs.iter().map(|(knob, value)| (knob.name, knob.show(value))).collect(),
            hosts: run.hosts.len(),
            cpus: run.cpus,
            length_ns: run.length.as_ns(),
            warm_up_ns: run.warm_up.as_ns(),
            seed,
            total: Got::new(&total, all),
            entities: entities(run, &present, grants).into_iter().chain(others).collect(),
            groups: group_lines(run, &present),
            applications: Vec::new(),
            guests: Vec::new(),
            manager: None,
            samples: None,
            stalls: Vec::new(),
            xenmon: None,
            jobs: None,
        }
    }

    /// Adds the sibling delays and start skews in `siblings` to the groups that are gangs. `meter` provides the names of
    /// the gangs.
    fn tell_siblings(&mut self, siblings: &Siblings, meter: &Meter) {
        for gang in &mut self.groups {
            // A changed gang is a new group with the name of the old group.
            let is_named = |group| meter.group(group).is_some_and(|(name, _)| name == gang.name);
            let delays = sum(siblings.gangs().filter(|&(group, _)| is_named(group)));
            gang.siblings = delays.map(|delays| SiblingDelays::new(&delays)).or(gang.siblings);
            let skews = sum(siblings.start_skews().filter(|&(group, _)| is_named(group)));
            gang.starts = skews.map(|skews| StartSkews::new(&skews)).or(gang.starts);
        }
    }
}

impl Report {
    /// Adds the number of refused changes to each entity of `scenario`.
    fn refuse_changes(&mut self, scenario: &Scenario, refused: &[u64]) {
        for (asking, &refused) in scenario.entities.iter().zip(refused) {
            if let Some(entity) = self.entities.iter_mut().find(|entity| refused > 0 && entity.name == asking.name) {
                entity.changes_refused = refused;
            }
        }
    }
}

/// Returns the report of the live run `run`, which `meter` and `siblings` have measured from start to end. `run.length`
/// is the real length of the run, and `grants` contains the promise to each entity.
///
/// Entities are matched by name. The report has all groups of the description, including groups without an event in the
/// trace.
///
/// # Panics
/// Panics if the number of grants differs from the number of entities.
#[must_use]
pub fn observed(
    run: &RunDescription,
    policy: &dyn PolicySource,
    knobs: &Knobs,
    seed: u64,
    (meter, siblings): (&Meter, &Siblings),
    grants: &[Option<Grant>],
) -> Report {
    assert_eq!(grants.len(), run.entities.len(), "each entity has a grant, or none");
    let mut report = Report::new(run, policy, knobs, seed, std::slice::from_ref(meter), grants);
    report.tell_siblings(siblings, meter);
    report
}

/// Returns the measurements of each entity of the scenario. `None`: the entity had not arrived at the end of the run.
/// Names are unique, and each entity arrives once.
fn present<'m>(run: &RunDescription, meters: &'m [Meter]) -> Vec<Option<&'m Member>> {
    let members = meters.iter().flat_map(Meter::members);
    let named: BTreeMap<&str, &Member> = members.map(|member| (member.name.as_str(), member)).collect();
    run.entities.iter().map(|entity| named.get(entity.name.as_str()).copied()).collect()
}

/// Returns the distribution of all durations of these groups; `None` without a group.
fn sum<'d>(groups: impl Iterator<Item = (GroupId, &'d Durations)>) -> Option<Durations> {
    groups.map(|(_, durations)| durations.clone()).reduce(|mut sum, other| {
        sum.add(&other);
        sum
    })
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_alone(hosts: &usize) -> bool {
    *hosts == 1
}

/// Returns the tasks of applications: the members of `meter` that are not entities of the scenario.
fn others<'m>(run: &RunDescription, meter: &'m Meter) -> impl Iterator<Item = &'m Member> + use<'m> {
    let named: std::collections::BTreeSet<String> = run.entities.iter().map(|entity| entity.name.clone()).collect();
    meter.members().iter().filter(move |member| !named.contains(&member.name))
}

fn entities(run: &RunDescription, present: &[Option<&Member>], grants: &[Option<Grant>]) -> Vec<Entity> {
    let mut lines = Vec::with_capacity(present.len());
    for ((asking, member), grant) in run.entities.iter().zip(present).zip(grants) {
        let Some(member) = member else { continue };
        let there = there(member, run.measured());
        lines.push(Entity {
            name: asking.name.clone(),
            instances: 1,
            group: asking.group.map(|group| run.groups[group].name.clone()),
            host: run.host_among_several(asking.host),
            came_ns: member.came.as_ns(),
            left_ns: member.left.map(Instant::as_ns),
            changes_refused: 0,
            asked: Asked::by(asking, run),
            granted_ppm: grant.map(|grant| ppm(grant.slice, grant.period)),
            mechanism: None,
            got: Got::new(&member.got, there),
        });
    }
    lines
}

fn group_lines(run: &RunDescription, present: &[Option<&Member>]) -> Vec<GroupGot> {
    let mut sums = vec![(0, Measures::default()); run.groups.len()];
    for (entity, member) in run.entities.iter().zip(present) {
        let mut group = entity.group;
        while let Some(at) = group {
            sums[at].0 += 1;
            if let Some(member) = member {
                sums[at].1.add(&member.got);
            }
            group = run.groups[at].parent;
        }
    }
    let line = |(group, (entities, got)): (&GroupDescription, (u64, Measures))| GroupGot {
        name: group.name.clone(),
        entities,
        asked: Asked::of(&group.params),
        got: Got::new(&got, run.measured_time()),
        siblings: None,
        starts: None,
    };
    run.groups.iter().zip(sums).map(line).collect()
}
