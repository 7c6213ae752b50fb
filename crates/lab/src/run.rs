//! [`run`]: a scenario under a policy, from the first arrival to a [`Report`].

mod session;

use session::{FlowOwners, Session};
pub(crate) use session::{boot_order, machine_of_host, placed};

use crate::choose::{Choice, of_guest};
use crate::manager::{Manager, Watcher};
use crate::metrics::{Metric, Metrics, Reading};
use crate::network::OUTSIDE;
use crate::problem::Problems;
use crate::report::{AppReport, CoordinationGot, GuestReport, ManagerReport, Report, SamplesReport};
use crate::samples::Sampler;
use crate::scenario::{AppSpec, Scenario};
use sched::{Descriptor, Instant, Knobs, Nanos};
use sim::coordination::Coordinated;
use sim::meter::{Meter, Siblings};
use std::collections::BTreeMap;
use trace::world::MachineHeader;
use trace::{Header, MachineId, Sink, WorldHeader, WorldSink};

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

/// Runs `scenario` under `policy` for its length, and shows everything that happens on the host (the first, if there are several) to `sinks`. `seed` is the run's
/// name among its like: equal seeds give equal runs.
///
/// # Errors
/// The policy does not work with these knobs on this machine, or refuses what somebody asks for; where the scenario
/// asks for it, as far as it came from a file. Or tasks wait for each other so that none can go on.
pub fn run(
    scenario: &Scenario,
    policy: &'static Descriptor,
    knobs: &Knobs,
    seed: u64,
    sinks: &mut [&mut dyn Sink],
) -> Result<Report, Problems> {
    Run { scenario, policy, knobs, guests: None, seed }.play(sinks, &mut [])
}

impl Run<'_> {
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

    /// Runs it watched by nobody but its workload manager, as fast as it goes; says how many inputs its machines have accepted.
    ///
    /// # Errors
    /// As for [`run`].
    pub fn count_inputs(&self) -> Result<u64, Problems> {
        let guests = &self.scenario.guests;
        let choices: Result<Vec<Choice>, Problems> =
            guests.iter().map(|guest| of_guest(self.scenario, guest, self.guests)).collect();
        let choices = choices?;
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
    pub fn play(&self, sinks: &mut [&mut dyn Sink], watchers: &mut [&mut dyn WorldSink]) -> Result<Report, Problems> {
        let scenario = self.scenario;
        let choices: Result<Vec<Choice>, Problems> =
            scenario.guests.iter().map(|guest| of_guest(scenario, guest, self.guests)).collect();
        let choices = choices?;
        let from = scenario.measured_from();
        let mut host_meters: Vec<Meter> = (0..scenario.hosts).map(|_| Meter::from(from)).collect();
        let mut siblings: Vec<Siblings> = (0..scenario.hosts).map(|_| Siblings::from(from)).collect();
        let mut meters: Vec<Meter> = scenario.guests.iter().map(|_| Meter::from(from)).collect();
        let on = |host| scenario.applications.iter().filter(move |it| it.host == host);
        let mut metrics: Vec<Metrics> = (0..scenario.hosts).map(|host| measured(on(host)).from(from)).collect();
        let measures = scenario.guests.iter().map(|guest| measured(guest.applications.iter()).from(from));
        let mut measures: Vec<Metrics> = measures.collect();
        let mut clients = measured_outside(scenario).from(from);
        let flow_owners = FlowOwners {
            hosts: metrics.iter().map(Metrics::flow_names).collect(),
            guests: measures.iter().map(Metrics::flow_names).collect(),
        };
        let mut grants = vec![None; scenario.entities.len()];
        let coordinated: Vec<Option<Coordinated>>;
        let mut watcher = Watcher::default();
        let mut samplers = Sampler::of_each_host(scenario);
        let (managed, vcpus, refused) = {
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
            coordinated = session.coordinated_since();
            (session.manager.map(Manager::into_vms), session.host.entities, session.refused)
        };
        let mut report = Report::new(scenario, self.policy, self.knobs, self.seed, &host_meters, &grants);
        report.refuse_changes(scenario, &refused);
        host_meters.iter().zip(&siblings).for_each(|(meter, siblings)| report.tell_siblings(siblings, meter));
        let end = Instant::ZERO + scenario.length;
        let mut readings = Readings::new(clients.read(end));
        report.applications = readings.of(None, &scenario.applications, metrics, end);
        let guests = scenario.guests.iter().zip(&choices).zip(meters.iter().zip(measures)).zip(&coordinated);
        report.guests = guests
            .map(|(((guest, Choice { policy, knobs }), (meter, measures)), coordinated)| {
                let report = GuestReport::new(&guest.name, (policy, knobs), guest.vcpus.len(), (from, end), meter);
                let coordination = guest.guest.coordination.zip(*coordinated);
                let coordination =
                    coordination.map(|(with, got)| CoordinationGot::new(&with, &got, scenario.measured()));
                let applications = readings.of(Some(&guest.name), &guest.applications, vec![measures], end);
                GuestReport { applications, coordination, ..report }
            })
            .collect();
        let managed = scenario.manager.as_ref().zip(managed);
        report.manager = managed.map(|(spec, vms)| ManagerReport::new(spec, &vms));
        report.samples = scenario.samples.map(|spec| SamplesReport::new(spec, scenario, &vcpus, samplers));
        Ok(report)
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
struct Readings(BTreeMap<String, AppReport>);

impl Readings {
    fn new(read: Vec<(String, Metric, Reading)>) -> Readings {
        Readings(read.into_iter().map(|read| (read.0.clone(), AppReport::new(read))).collect())
    }

    /// What `applications` of a guest, or of all hosts, say, in their order, wherever each was measured.
    fn of(
        &mut self,
        guest: Option<&str>,
        applications: &[AppSpec],
        here: Vec<Metrics>,
        end: Instant,
    ) -> Vec<AppReport> {
        let mut here = Readings::new(here.into_iter().flat_map(|metrics| metrics.read(end)).collect());
        let mut reports = Vec::new();
        for spec in applications.iter().filter(|spec| spec.metric.is_some()) {
            reports.extend(match spec.reach.is_measured_outside() {
                true => self
                    .0
                    .remove(&called_outside(guest, &spec.name))
                    .map(|it| AppReport { name: spec.name.clone(), ..it }),
                false => here.0.remove(&spec.name),
            });
        }
        reports
    }
}
