//! [`run`]: a scenario under a policy, from the first arrival to an [`Outcome`].
//!
//! [`choose`] says which policies a scenario runs under. What a run does on real hosts becomes one of these by [`live`].

mod audit;
mod cables;
mod choose;
pub mod live;
pub mod manager;
mod partition;
mod samples;
mod session;
mod suits;
pub mod sweep;

pub use audit::{Delays, promises};
pub use choose::{Choice, Placement, choose, choose_for_guests, choose_for_tasks, policy};
pub use partition::partition;
pub use samples::SampledVm;
pub(crate) use session::{boot_order, machine_of_host, placed};

use choose::of_guest;
use input::problem::Problems;
use manager::{Managed, Manager, Watcher};
use measure::{Meter, Siblings};
use samples::Sampler;
use scenario::devices::OUTSIDE;
use scenario::{AppSpec, Scenario};
use sched::{Descriptor, Instant, Knobs, Nanos};
use session::{FlowOwners, Session};
use sim::Stuck;
use sim::coordination::Coordinated;
use std::collections::BTreeMap;
use trace::world::MachineHeader;
use trace::{Header, MachineId, Sink, WorldHeader, WorldSink};
use workloads::metrics::{Metric, Metrics, Reading};

/// The host of a scenario, or the first of several.
const HOST: MachineId = MachineId(0);

/// A slice in every period, as a policy shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// So much CPU time.
    pub slice: Nanos,
    /// In every period of this length. Above zero.
    pub period: Nanos,
}

/// One run of a scenario.
#[derive(Clone, Copy, Debug)]
pub struct Run<'r> {
    /// What is run.
    pub scenario: &'r Scenario,
    /// Under what.
    pub policy: &'static Descriptor,
    /// Its knobs.
    pub knobs: &'r Knobs,
    /// What all guests schedule by, instead of what the scenario says.
    pub guests: Option<&'r Choice>,
    /// The run's name among its like, from which random lengths are drawn: equal seeds give equal runs.
    pub seed: u64,
}

/// What a run came to.
#[derive(Debug)]
pub struct Outcome<'r> {
    /// What was run.
    pub run: Run<'r>,
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

/// What an application's metric says.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The application's name.
    pub name: String,
    /// What it is measured by.
    pub metric: Metric,
    /// What that says.
    pub reading: Reading,
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

/// Runs `scenario` under `policy` for its length, and shows everything that happens on the host (the first, if there are several) to `sinks`. `seed` is the run's
/// name among its like: equal seeds give equal runs.
///
/// # Errors
/// The policy does not work with these knobs on this machine, or refuses the parameters of an entity; where the scenario
/// asks for it, as far as it came from a file. Or tasks wait for each other so that none can go on.
pub fn run<'r>(
    scenario: &'r Scenario,
    policy: &'static Descriptor,
    knobs: &'r Knobs,
    seed: u64,
    sinks: &mut [&mut dyn Sink],
) -> Result<Outcome<'r>, Problems> {
    Run { scenario, policy, knobs, guests: None, seed }.play(sinks, &mut [])
}

impl<'r> Run<'r> {
    /// What is true of all of it, for a trace: the hosts, the machine on which clients run, if there is one, then the guests in the order in which they boot.
    ///
    /// # Errors
    /// A guest's policy does not exist, or a knob of it.
    pub fn header(&self) -> Result<WorldHeader, Problems> {
        let machine = |name: &str, policy: &Descriptor, cpus, host| MachineHeader {
            name: name.to_string(),
            header: Header { policy: policy.name.to_string(), cpus, seed: self.seed },
            host,
        };
        let scenario = self.scenario;
        let host = |host| machine(&scenario.host_name(host), self.policy, scenario.host.cpus, None);
        let mut machines: Vec<MachineHeader> = (0..scenario.hosts).map(host).collect();
        if self.scenario.outside() > 0 {
            machines.push(machine(OUTSIDE, crate::policy("round-robin")?, self.scenario.outside(), None));
        }
        for guest in boot_order(self.scenario) {
            let host = machine_of_host(scenario.host_of(guest));
            let guest = &scenario.guests[guest];
            let choice = of_guest(scenario, guest, self.guests)?;
            machines.push(machine(&guest.name, choice.policy, guest.vcpus.len(), Some(host)));
        }
        Ok(WorldHeader { machines })
    }

    /// What each guest schedules by.
    fn guest_choices(&self) -> Result<Vec<Choice>, Problems> {
        self.scenario.guests.iter().map(|guest| of_guest(self.scenario, guest, self.guests)).collect()
    }

    /// Runs it without observers except its workload manager, as fast as possible; returns how many inputs its machines accepted.
    ///
    /// # Errors
    /// As for [`run`].
    pub fn count_inputs(&self) -> Result<u64, Problems> {
        let choices = self.guest_choices()?;
        let mut watcher = Watcher::default();
        let mut session = Session::new(self, &choices, &mut [], &mut [], FlowOwners::default())?;
        session.employ(&mut watcher);
        session.play(&mut vec![None; self.scenario.entities.len()])?;
        Ok(session.world.inputs())
    }

    /// Runs it, and shows everything that happens on the host (the first, if there are several) to `sinks`, and on whatever machine to `watchers`.
    ///
    /// # Errors
    /// As for [`run`].
    pub fn play(
        &self,
        sinks: &mut [&mut dyn Sink],
        watchers: &mut [&mut dyn WorldSink],
    ) -> Result<Outcome<'r>, Problems> {
        let (scenario, from) = (self.scenario, self.scenario.measured_from());
        let choices = self.guest_choices()?;
        let mut host_meters: Vec<Meter> = (0..scenario.hosts).map(|_| Meter::from(from)).collect();
        let mut siblings: Vec<Siblings> = (0..scenario.hosts).map(|_| Siblings::from(from)).collect();
        let mut meters: Vec<Meter> = scenario.guests.iter().map(|_| Meter::from(from)).collect();
        let on = |host| measured(scenario.applications.iter().filter(move |it| it.host == host)).from(from);
        let mut metrics: Vec<Metrics> = (0..scenario.hosts).map(on).collect();
        let within = |guest: &scenario::GuestSpec| measured(guest.applications.iter()).from(from);
        let mut measures: Vec<Metrics> = scenario.guests.iter().map(within).collect();
        let mut clients = measured_outside(scenario).from(from);
        let flow_owners = FlowOwners {
            hosts: metrics.iter().map(Metrics::flow_names).collect(),
            guests: measures.iter().map(Metrics::flow_names).collect(),
        };
        let mut grants = vec![None; scenario.entities.len()];
        let mut watcher = Watcher::default();
        let mut samplers = Sampler::of_each_host(scenario);
        let (managed, vcpus, refused, coordinated, stalls) = {
            let mut session = Session::new(self, &choices, &mut meters, &mut measures, flow_owners)?;
            session.employ(&mut watcher);
            for (host, sampler) in samplers.iter_mut().enumerate() {
                session.world.watch(machine_of_host(host), sampler);
            }
            let has_gangs = scenario.groups.iter().any(|group| group.params.gang);
            let seen = host_meters.iter_mut().zip(&mut siblings).zip(&mut metrics);
            for (host, ((meter, siblings), metrics)) in seen.enumerate() {
                session.world.watch(machine_of_host(host), meter);
                if has_gangs {
                    session.world.watch(machine_of_host(host), siblings);
                }
                if !metrics.is_empty() {
                    session.world.watch(machine_of_host(host), metrics);
                }
            }
            if let Some(outside) = session.cables.outside().filter(|_| !clients.is_empty()) {
                session.world.watch(outside, &mut clients);
            }
            sinks.iter_mut().for_each(|sink| session.world.watch(HOST, &mut **sink));
            watchers.iter_mut().for_each(|sink| session.world.watch_all(&mut **sink));
            session.play(&mut grants)?;
            let (coordinated, stalls) = (session.coordinated_since(), session.world.stalls().cloned().collect());
            (session.manager.map(Manager::into_vms), session.host.entities, session.refused, coordinated, stalls)
        };
        let end = Instant::ZERO + scenario.length;
        let mut readings = Readings::new(clients.read(end));
        let applications = readings.of(None, &scenario.applications, metrics, end);
        let guests = scenario.guests.iter().zip(choices).zip(meters.into_iter().zip(measures)).zip(coordinated);
        let guests = guests.map(|(((guest, choice), (meter, measures)), coordinated)| {
            let applications = readings.of(Some(&guest.name), &guest.applications, vec![measures], end);
            GuestOutcome { choice, meter, applications, coordinated }
        });
        let samples = scenario.samples.is_some().then(|| samples::of_vms(scenario, &vcpus, samplers));
        Ok(Outcome {
            run: *self,
            meters: host_meters,
            siblings,
            grants,
            refused,
            applications,
            guests: guests.collect(),
            managed,
            samples,
            stalls,
        })
    }
}

/// What measures those of `applications` that are not measured outside.
fn measured<'s>(applications: impl Iterator<Item = &'s AppSpec>) -> Metrics {
    let here = applications.filter(|spec| !spec.reach.is_measured_outside());
    Metrics::new(here.filter_map(|spec| Some((spec.name.as_str(), spec.metric?))))
}

/// What an application is called outside.
fn called_outside(guest: Option<&str>, name: &str) -> String {
    guest.map_or(name.to_string(), |guest| format!("{guest}/{name}"))
}

/// What measures the others.
fn measured_outside(scenario: &Scenario) -> Metrics {
    let all = scenario.all_applications().filter(|(_, spec)| spec.reach.is_measured_outside());
    let called = |of: Option<usize>, name| called_outside(of.map(|of| scenario.guests[of].name.as_str()), name);
    let named: Vec<_> = all.filter_map(|(of, spec)| Some((called(of, &spec.name), spec.metric?))).collect();
    Metrics::new(named.iter().map(|(name, metric)| (name.as_str(), *metric)))
}

/// What was measured outside, by its name there.
struct Readings(BTreeMap<String, Measured>);

impl Readings {
    fn new(read: Vec<(String, Metric, Reading)>) -> Readings {
        let measured = |(name, metric, reading): (String, Metric, Reading)| Measured { name, metric, reading };
        Readings(read.into_iter().map(|read| (read.0.clone(), measured(read))).collect())
    }

    /// What `applications` of a guest, or of all hosts, say, in their order, wherever each was measured.
    fn of(&mut self, guest: Option<&str>, applications: &[AppSpec], here: Vec<Metrics>, end: Instant) -> Vec<Measured> {
        let mut here = Readings::new(here.into_iter().flat_map(|metrics| metrics.read(end)).collect());
        let mut reports = Vec::new();
        for spec in applications.iter().filter(|spec| spec.metric.is_some()) {
            reports.extend(match spec.reach.is_measured_outside() {
                true => self
                    .0
                    .remove(&called_outside(guest, &spec.name))
                    .map(|it| Measured { name: spec.name.clone(), ..it }),
                false => here.0.remove(&spec.name),
            });
        }
        reports
    }
}
