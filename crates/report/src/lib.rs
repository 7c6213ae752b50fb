//! [`Report`]: what each entity asked for and got in one run. `docs/report.md` describes its JSON form.

mod applications;
pub mod book;
mod compared;
mod coordinated;
mod description;
mod guest;
mod manager;
mod samples;
mod short;
mod stalls;
mod summary;
mod sweep;
mod text;
mod xenmon;

pub use applications::{AppReport, AppSummary, applications};
pub use compared::{Compared, ComparedEntity, compared, side_by_side};
pub use coordinated::{CoordinationGot, CoordinationSpreads};
pub use description::{EntityDescription, GroupDescription, RunDescription};
pub use guest::{CpuLoss, GuestReport, guests};
pub use manager::{ManagedSpreads, ManagedVm, ManagerReport, ManagerSummary, manager};
pub use samples::{SampledVm, SamplesReport};
pub use short::{percent, short};
pub use stalls::{Stall, stalls};
pub use summary::{GuestSummary, Summary, SummaryLine, medians};
pub use sweep::{Swept, SweptPoint, swept, swept_csv};
pub use text::{Widths, comparison, groups, table, totals};
pub use xenmon::{DomainGot, DomainReport, DomainSpreads, HostReport, HostSpreads, XenMonReport, xenmon};

use measure::jobs::Job;
use measure::{Measures, Member, Meter, Siblings};
use run::{Grant, Outcome};
use scenario::Scenario;
use sched::{Class, GroupParams, Instant, Knobs, Limit, Nanos, Params, PolicySource};
use serde::Serialize;
use std::collections::BTreeMap;
use trace::Durations;

/// Several runs, as `--json` prints them.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Runs<'a> {
    /// Whether time was simulated.
    pub simulated: bool,
    /// One for each policy, in the order asked for.
    pub runs: &'a [Report],
}

/// Runs over several seeds, as `--json` prints them.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SeededRuns<'a> {
    /// Whether time was simulated.
    pub simulated: bool,
    /// Of each policy, in the order asked for, one for each seed.
    pub runs: &'a [Report],
    /// One for each policy, in the order asked for.
    pub medians: &'a [Summary],
}

/// One run: its conditions, what each entity asked for, and what it got.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Report {
    /// The scenario's title.
    pub scenario: String,
    /// The policy's name.
    pub policy: String,
    /// Its knobs and their values, in words.
    pub knobs: BTreeMap<&'static str, String>,
    /// How many hosts there are, if there are several.
    #[serde(skip_serializing_if = "is_alone")]
    pub hosts: usize,
    /// CPUs of the machine, or of each host.
    pub cpus: usize,
    /// Length of the run. Unit: nanoseconds.
    pub length_ns: u64,
    /// What was left out of its beginning, in all that follows but what the manager and the list of jobs tell. Unit: nanoseconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub warm_up_ns: u64,
    /// The seed.
    pub seed: u64,
    /// All together; its `delivered_ppm` is of all CPUs.
    pub total: Got,
    /// In the order of the scenario, and then the tasks of its applications. Those that had not come when the run ended are not among
    /// them.
    pub entities: Vec<Entity>,
    /// VMs and other groups, in the order of the scenario.
    pub groups: Vec<GroupGot>,
    /// What its applications say of themselves, in the order of the scenario; none if none has a metric.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub applications: Vec<AppReport>,
    /// What became of the guests of its VMs, in the order of the scenario; none if no VM has one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub guests: Vec<GuestReport>,
    /// What its workload manager did, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manager: Option<ManagerReport>,
    /// What its VMs got in each interval, if the scenario asks for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<SamplesReport>,
    /// The applications that could not go on and waited until they were stopped.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stalls: Vec<Stall>,
    /// What its domains did, as Xen's performance monitor tells of them, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub xenmon: Option<XenMonReport>,
    /// Every job, in order of release, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobs: Option<Vec<Job>>,
}

/// An entity's part in a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Entity {
    /// What people call it.
    pub name: String,
    /// How many tasks of one name it stands for: they were forked one after the other. Their results are added up.
    #[serde(skip_serializing_if = "is_one")]
    pub instances: u64,
    /// The VM or other group it is in.
    pub group: Option<String>,
    /// The host it is on, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// When it, or the first of them, came. Unit: nanoseconds since the start.
    pub came_ns: u64,
    /// When it, or the last of them, left; `None`: it stayed.
    pub left_ns: Option<u64>,
    /// How many changes of its reservation the policy refused.
    #[serde(skip_serializing_if = "is_zero")]
    pub changes_refused: u64,
    /// What it asked for.
    pub asked: Asked,
    /// What the policy says it promised it, in millionths of a CPU; `None` if it promises nothing.
    pub granted_ppm: Option<u64>,
    /// What it got; its `delivered_ppm` is of one CPU while it was there.
    #[serde(flatten)]
    pub got: Got,
}

/// A group's part in a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct GroupGot {
    /// What people call it.
    pub name: String,
    /// How many entities were in it and its subgroups.
    pub entities: u64,
    /// What was asked for it.
    pub asked: Asked,
    /// What its members got together, those of its subgroups too; its `delivered_ppm` is of one CPU.
    #[serde(flatten)]
    pub got: Got,
    /// Of a group that is marked as a gang.
    #[serde(flatten)]
    pub siblings: Option<SiblingDelays>,
}

/// How long members of a gang wanted to run, and did not, while others of it ran; see [`measure::Siblings`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct SiblingDelays {
    /// How often.
    pub sibling_delays: u64,
    /// For how long in all.
    pub sibling_delay_total_ns: u64,
    /// The median.
    pub sibling_delay_p50_ns: u64,
    /// The 99th percentile.
    pub sibling_delay_p99_ns: u64,
    /// The longest.
    pub sibling_delay_max_ns: u64,
}

impl SiblingDelays {
    /// Those of `delays`.
    #[must_use]
    pub fn new(delays: &Durations) -> SiblingDelays {
        SiblingDelays {
            sibling_delays: delays.count(),
            sibling_delay_total_ns: delays.total().as_ns(),
            sibling_delay_p50_ns: delays.percentile(50).as_ns(),
            sibling_delay_p99_ns: delays.percentile(99).as_ns(),
            sibling_delay_max_ns: delays.longest().as_ns(),
        }
    }
}

/// What is asked for an entity or a group.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Asked {
    /// Its weight in Linux's scale, 1024 = normal.
    pub weight_linux: u32,
    /// CPU time promised in every period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice_ns: Option<u64>,
    /// The period of the promise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period_ns: Option<u64>,
    /// Whether it gets more than promised: `soft` or `hard`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<&'static str>,
    /// Its class, unless it is the normal one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Its cap, in millionths of a CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap_ppm: Option<u64>,
    /// Its ceiling as in `cpu.max`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_ns: Option<u64>,
    /// The period of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_period_ns: Option<u64>,
}

/// What an entity got. Times in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Got {
    /// CPU time.
    pub delivered_ns: u64,
    /// The same in millionths of what there was.
    pub delivered_ppm: u64,
    /// Jobs released.
    pub releases: u64,
    /// Jobs completed.
    pub completions: u64,
    /// Jobs completed after their deadline.
    pub misses: u64,
    /// Jobs not completed though their deadline had passed.
    pub unfinished_late: u64,
    /// How much too late the worst completed job was.
    pub worst_lateness_ns: u64,
    /// Periods of reservations that ended.
    pub periods: u64,
    /// Those in which the entity was runnable throughout.
    pub periods_judged: u64,
    /// Those of the judged in which less than the slice was delivered.
    pub periods_missed: u64,
    /// How much was missing in the worst of them.
    pub worst_shortfall_ns: u64,
    /// The median of what was missing in these.
    pub shortfall_p50_ns: u64,
    /// Its 90th percentile.
    pub shortfall_p90_ns: u64,
    /// Its 99th percentile.
    pub shortfall_p99_ns: u64,
    /// How much was ever missing of all slices due since the reservation was made.
    pub worst_debt_ns: u64,
    /// Changes of a reservation that have become effective.
    pub changes: u64,
    /// The longest time that took.
    pub change_max_ns: u64,
    /// Times from being woken or taken off a CPU to running.
    pub waits: u64,
    /// Their sum.
    pub wait_total_ns: u64,
    /// Their median.
    pub wait_p50_ns: u64,
    /// Their 99th percentile.
    pub wait_p99_ns: u64,
    /// The longest.
    pub wait_max_ns: u64,
    /// Those of them that began when it was woken; in a live run, what a process of ours measured itself.
    pub wakeups: u64,
    /// Their median.
    pub wakeup_p50_ns: u64,
    /// Their 99th percentile.
    pub wakeup_p99_ns: u64,
    /// The longest.
    pub wakeup_max_ns: u64,
    /// Jobs whose response was measured, from release to completion: all that were completed.
    pub responses: u64,
    /// The median of that.
    pub response_p50_ns: u64,
    /// Its 99th percentile.
    pub response_p99_ns: u64,
    /// The longest.
    pub response_max_ns: u64,
    /// In a guest, time on a CPU that was frozen.
    pub stolen_ns: u64,
    /// Times it waited for a spin lock.
    pub spins: u64,
    /// The CPU time that took.
    pub spun_ns: u64,
    /// Time it was runnable, but held by the policy.
    pub held_ns: u64,
    /// Times a job began or resumed running.
    pub dispatches: u64,
    /// Times it was taken off its CPU with work left.
    pub preemptions: u64,
    /// Times it resumed on another CPU than the one it was taken off.
    pub migrations: u64,
}

impl Got {
    fn new(got: &Measures, of: Nanos) -> Got {
        Got {
            delivered_ns: got.delivered.as_ns(),
            delivered_ppm: ppm(got.delivered, of),
            releases: got.jobs.releases,
            completions: got.jobs.completions,
            misses: got.jobs.misses,
            unfinished_late: got.jobs.unfinished_late,
            worst_lateness_ns: got.jobs.worst_lateness.as_ns(),
            periods: got.promise.periods,
            periods_judged: got.promise.judged,
            periods_missed: got.promise.misses,
            worst_shortfall_ns: got.promise.worst_shortfall().as_ns(),
            shortfall_p50_ns: got.promise.shortfalls.percentile(50).as_ns(),
            shortfall_p90_ns: got.promise.shortfalls.percentile(90).as_ns(),
            shortfall_p99_ns: got.promise.shortfalls.percentile(99).as_ns(),
            worst_debt_ns: got.promise.worst_debt.as_ns(),
            changes: got.promise.changes.count(),
            change_max_ns: got.promise.changes.longest().as_ns(),
            waits: got.waits.count(),
            wait_total_ns: got.waits.total().as_ns(),
            wait_p50_ns: got.waits.percentile(50).as_ns(),
            wait_p99_ns: got.waits.percentile(99).as_ns(),
            wait_max_ns: got.waits.longest().as_ns(),
            wakeups: got.wakeups.count(),
            wakeup_p50_ns: got.wakeups.percentile(50).as_ns(),
            wakeup_p99_ns: got.wakeups.percentile(99).as_ns(),
            wakeup_max_ns: got.wakeups.longest().as_ns(),
            responses: got.responses.count(),
            response_p50_ns: got.responses.percentile(50).as_ns(),
            response_p99_ns: got.responses.percentile(99).as_ns(),
            response_max_ns: got.responses.longest().as_ns(),
            stolen_ns: got.stolen.as_ns(),
            spins: got.spins,
            spun_ns: got.spun.as_ns(),
            held_ns: got.held.as_ns(),
            dispatches: got.dispatches,
            preemptions: got.preemptions,
            migrations: got.migrations,
        }
    }

    /// Jobs that were late, whether they were completed or not.
    #[must_use]
    pub fn late_jobs(&self) -> u64 {
        self.misses + self.unfinished_late
    }
}

/// `part` in millionths of `whole`, rounded; 0 of nothing.
fn ppm(part: Nanos, whole: Nanos) -> u64 {
    if whole.is_zero() {
        return 0;
    }
    let (part, whole) = (u128::from(part.as_ns()), u128::from(whole.as_ns()));
    u64::try_from((part * 1_000_000 + whole / 2) / whole).expect("no entity gets more than a few thousand CPUs")
}

impl Asked {
    fn by(entity: &EntityDescription, run: &RunDescription) -> Asked {
        let mut asked = Asked::with(&entity.params);
        // A VM of one vCPU has its ceilings in the group around it.
        let group = entity.group.map(|group| &run.groups[group]).filter(|group| group.name == entity.name);
        if let Some(group) = group {
            asked.limit_by(&group.params);
        }
        asked
    }

    fn with(params: &Params) -> Asked {
        let reservation = params.reservation;
        Asked {
            weight_linux: params.weight.as_linux(),
            slice_ns: reservation.map(|reservation| reservation.slice.as_ns()),
            period_ns: reservation.map(|reservation| reservation.period.as_ns()),
            limit: reservation.map(|reservation| match reservation.limit {
                Limit::Soft => "soft",
                Limit::Hard => "hard",
            }),
            class: class(params.class),
            ..Asked::default()
        }
    }

    fn of(group: &GroupParams) -> Asked {
        let mut asked = Asked { weight_linux: group.weight.as_linux(), ..Asked::default() };
        asked.limit_by(group);
        asked
    }

    fn limit_by(&mut self, group: &GroupParams) {
        self.cap_ppm = group.cap_percent.map(|percent| u64::from(percent) * 10_000);
        self.quota_ns = group.quota.map(|quota| quota.quota.as_ns());
        self.quota_period_ns = group.quota.map(|quota| quota.period.as_ns());
    }
}

fn class(class: Class) -> Option<String> {
    match class {
        Class::Normal => None,
        Class::Batch => Some("batch".to_string()),
        Class::Idle => Some("idle".to_string()),
        Class::Isochronous => Some("iso".to_string()),
        Class::Stop => Some("stop".to_string()),
        Class::Fifo(priority) => Some(format!("fifo {}", priority.number())),
        Class::RoundRobin(priority) => Some(format!("rr {}", priority.number())),
    }
}

impl Report {
    /// What `outcome` is, in words and numbers.
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

    /// Its gangs come from `siblings`, their names from `meter`.
    fn tell_siblings(&mut self, siblings: &Siblings, meter: &Meter) {
        for (group, delays) in siblings.gangs() {
            let name = meter.group(group).map(|(name, _)| name);
            let gang = self.groups.iter_mut().find(|it| Some(it.name.as_str()) == name);
            gang.into_iter().for_each(|it| it.siblings = Some(SiblingDelays::new(delays)));
        }
    }
}

impl Report {
    /// So many changes of each entity of `scenario` were refused.
    fn refuse_changes(&mut self, scenario: &Scenario, refused: &[u64]) {
        for (asking, &refused) in scenario.entities.iter().zip(refused) {
            if let Some(entity) = self.entities.iter_mut().find(|entity| refused > 0 && entity.name == asking.name) {
                entity.changes_refused = refused;
            }
        }
    }
}

/// The report of the live run `run` that `meter` has measured from start to end. `run.length` is its real length, and `grants` has
/// the promise to each entity.
///
/// Each entity is found by its name. The groups are those of the description, even if the trace has no event of them.
///
/// # Panics
/// There are not as many grants as entities.
#[must_use]
pub fn observed(
    run: &RunDescription,
    policy: &dyn PolicySource,
    knobs: &Knobs,
    seed: u64,
    meter: &Meter,
    grants: &[Option<Grant>],
) -> Report {
    assert_eq!(grants.len(), run.entities.len(), "each entity has a grant, or none");
    Report::new(run, policy, knobs, seed, std::slice::from_ref(meter), grants)
}

/// By entity of the scenario, its member; `None`: it had not come when the run ended. Names are unique, and each entity comes once.
fn present<'m>(run: &RunDescription, meters: &'m [Meter]) -> Vec<Option<&'m Member>> {
    let members = meters.iter().flat_map(Meter::members);
    let named: BTreeMap<&str, &Member> = members.map(|member| (member.name.as_str(), member)).collect();
    run.entities.iter().map(|entity| named.get(entity.name.as_str()).copied()).collect()
}

/// How long it was there, as far as that was measured.
fn there(member: &Member, (from, end): (Instant, Instant)) -> Nanos {
    member.left.unwrap_or(end).saturating_since(member.came.max(from))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_alone(hosts: &usize) -> bool {
    *hosts == 1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_one(count: &u64) -> bool {
    *count == 1
}

/// Tasks of applications: members of the run that are no entities of the scenario.
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
    };
    run.groups.iter().zip(sums).map(line).collect()
}
