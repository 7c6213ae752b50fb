//! [`Scenario`]: a machine, the entities that run on it, and what they ask for. Read from TOML; `docs/scenarios.md` is the manual.
//!
//! Two stages: `file` reads what was typed, value by value; `check` says what the values mean together. Neither stops
//! at the first error.

mod application;
mod asked;
mod check;
mod coordination;
mod copies;
pub mod costs;
pub mod devices;
mod file;
mod form;
mod guest;
mod homes;
mod level;
mod manager;
mod network;
pub mod rtapp;
mod samples;
mod syntax;
pub mod taskset;
#[cfg(test)]
mod tests;
mod tree;
pub mod vary;
mod work;

use devices::{DiskSpec, NetworkSpec};
use input::files::{Files, NoFiles};
use input::knobs::KnobSetting;
use input::problem::{Findings, Problem, Problems, Wrong, quoted, right_instead};
use input::source::{Source, Span};
use sched::{Descriptor, GroupParams, Instant, Nanos, Params, Refused, Reservation, Topology};
use sim::Application;
use std::ops::Range;
use std::sync::Arc;
use workloads::metrics::Metric;
use workloads::network::Reach;

pub use coordination::CoordinationPlaces;
pub use manager::{ManagerSpec, Target};
pub use samples::{SAMPLES_MAX, SampledAt, SamplesSpec};
pub use sim::{Costs, JobEnd, Periodic, Workload};

/// The most entities one scenario may have. A file of a few bytes can ask for any number, and each takes about half
/// a kilobyte before it runs.
pub const SCENARIO_ENTITIES_MAX: usize = workloads::TASKS_MAX;
/// The deepest that groups may be nested: far deeper than control groups are in practice.
pub const GROUP_DEPTH_MAX: usize = 64;
/// The most hosts: a rack holds about as many.
pub const HOSTS_MAX: usize = 64;

const _: () = assert!(SCENARIO_ENTITIES_MAX <= sched::id::ENTITIES_MAX, "a machine can hold every scenario");

/// What an entity is in a live run, if it is no process of ours that does its workload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Real {
    /// A program that is begun, and its arguments: at least its name, and no zero bytes.
    Command(Vec<String>),
    /// A process that is there already, by its number.
    Pid(u32),
}

/// A checked scenario: every name it refers to exists, every value is in its range, every reservation fits its period.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its title.
    pub name: String,
    /// How many hosts there are, each like the others. Range: 1 … [`HOSTS_MAX`].
    pub hosts: usize,
    /// The machine that each host is.
    pub host: Topology,
    /// How long it runs. Above zero.
    pub length: Nanos,
    /// What is left out of the beginning where anything is measured. Below `length`; default zero.
    pub warm_up: Nanos,
    /// Where that is written; the default if nowhere.
    pub warm_up_place: Span,
    /// The seed of the run, if the file names one.
    pub seed: Option<u64>,
    /// The policy, if the file names one.
    pub policy: Option<PolicyChoice>,
    /// What scheduling costs.
    pub costs: Costs,
    /// The groups: first the named ones, each after its parent, then one for each VM.
    pub groups: Vec<Group>,
    /// The entities of the host in the order of the file.
    pub entities: Vec<EntitySpec>,
    /// What runs on the host and is more than one entity, or random, in the order of the file.
    pub applications: Vec<AppSpec>,
    /// The VMs whose guests schedule for themselves, in the order of the file.
    pub guests: Vec<GuestSpec>,
    /// The manager that assigns shares to VMs while they run, if there is one.
    pub manager: Option<ManagerSpec>,
    /// How often the CPU time of every VM is reported, if the scenario asks for it.
    pub samples: Option<SamplesSpec>,
    /// What connects the machines, if anything does.
    pub network: Option<NetworkSpec>,
    /// The disk that all share, if there is one.
    pub disk: Option<DiskSpec>,
    /// The text it was read from; the default if from none.
    pub source: Source,
}

/// A policy as written.
#[derive(Clone, Debug)]
pub struct PolicyChoice {
    /// Its name, which need not exist.
    pub name: String,
    /// Where the name stands.
    pub place: Span,
    /// Its knobs, which need not exist, in the order of the file.
    pub knobs: Vec<KnobSetting>,
}

/// A group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// Its name; a VM's group has the VM's name.
    pub name: String,
    /// The group above it, an earlier index of [`Scenario::groups`]; `None`: the root.
    pub parent: Option<usize>,
    /// On which host, from 0; of a group in a guest: 0.
    pub host: usize,
    /// What is asked for it.
    pub params: GroupParams,
    /// Where it is defined.
    pub place: Span,
}

/// An entity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EntitySpec {
    /// Its name: the task's or the VM's name, or `vm/0`, `vm/1`, … where the VM has several vCPUs.
    pub name: String,
    /// Its group, an index of [`Scenario::groups`], of the same host; `None`: the root.
    pub group: Option<usize>,
    /// On which host, from 0; of a task in a guest: 0.
    pub host: usize,
    /// When it comes. Before the end of the run.
    pub arrival: Instant,
    /// When it goes, after it came; `None`: never.
    pub leaves: Option<Instant>,
    /// What is asked for it. Its `group` is the root's until the group has an id.
    ///
    /// A vCPU carries the weight of its VM: that changes nothing among its equal siblings, and serves the policies
    /// that have no groups.
    pub params: Params,
    /// What its reservation changes to, and when, in the order of time. Only on the host.
    pub changes: Vec<(Instant, Reservation)>,
    /// What it does; of a process that is real, what a simulation takes it for.
    pub workload: Workload,
    /// What a CPU needs to change over to it; `None`: as the costs say.
    pub switch: Option<Nanos>,
    /// The process that it is in a live run; `None`: one of ours, which does the workload.
    pub real: Option<Real>,
    /// Where that process is named; the default if nowhere.
    pub real_place: Span,
    /// Where what it asks for is written: its slice, or else its name.
    pub place: Span,
}

/// Tasks that belong together.
#[derive(Clone, PartialEq, Debug)]
pub struct AppSpec {
    /// Its name.
    pub name: String,
    /// Its group, an index of the groups of its machine; `None`: the root.
    pub group: Option<usize>,
    /// On which host, from 0; in a guest: 0.
    pub host: usize,
    /// When it comes. Before the end of the run.
    pub arrival: Instant,
    /// When those of its tasks go that have not ended, after it came; `None`: never.
    pub leaves: Option<Instant>,
    /// What its tasks do, each with the application's name before its own (`name/thread-0`) or, where there is one at the beginning, with
    /// the application's name alone. The `group` of their parameters is the root's until the group has an id.
    pub application: Application,
    /// What it is measured by, beside its jobs.
    pub metric: Option<Metric>,
    /// Its parts on other machines, and what connects them.
    pub reach: Reach,
    /// Where its workload is written.
    pub place: Span,
}

/// A VM whose guest schedules for itself.
#[derive(Clone, Debug)]
pub struct GuestSpec {
    /// The VM's name.
    pub name: String,
    /// Its vCPUs, by their places in [`Scenario::entities`]; their workload is [`Workload::Vcpu`].
    pub vcpus: Range<usize>,
    /// The guest's own policy, if the file names one.
    pub policy: Option<PolicyChoice>,
    /// What the guest is like.
    pub guest: sim::Guest,
    /// Where it is written how the guest and its host coordinate.
    pub coordination_places: CoordinationPlaces,
    /// The guest's groups, each after its parent.
    pub groups: Vec<Group>,
    /// What runs in the guest, in the order of the file; groups are [`GuestSpec::groups`]. Nothing arrives before the VM.
    pub entities: Vec<EntitySpec>,
    /// Also in the guest.
    pub applications: Vec<AppSpec>,
    /// Where it is written that there is a guest.
    pub place: Span,
}

impl Scenario {
    /// Reads what the file `name` holds, which names no other file.
    ///
    /// # Errors
    /// As for [`with_files`](Scenario::with_files); a file that is named is missing.
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Scenario, Problems> {
        Scenario::with_files(name, bytes, Arc::new(NoFiles))
    }

    /// Reads what the file `name` holds, and what it names of `files`: paths that continue its own.
    ///
    /// # Errors
    /// Everything that is wrong in it, each with its place and what would be right; of TOML's own syntax only the
    /// first.
    pub fn with_files(name: &str, bytes: Vec<u8>, files: Arc<dyn Files>) -> Result<Scenario, Problems> {
        let source = input::text::decode(name, bytes)?;
        let mut findings = Findings::with_files(&source, files);
        let document = syntax::parse(source.text()).map_err(|problem| problem.within(&source))?;
        let numbers = copies::Numbers::of(&document);
        let document = copies::expand(document, &numbers, &mut findings);
        let file = file::File::read(&document, &mut findings);
        let scenario = check::check(file, &mut findings);
        findings.finish()?;
        Ok(scenario.expect("a scenario without findings is complete"))
    }

    /// From when on it is measured.
    #[must_use]
    pub fn measured_from(&self) -> Instant {
        Instant::ZERO + self.warm_up
    }

    /// The length of the measurement. Above zero, unless a caller has shortened `length`.
    #[must_use]
    pub fn measured(&self) -> Nanos {
        self.length.saturating_sub(self.warm_up)
    }

    /// Checks that the scenario consists of entities of one machine, which is all that `runner` supports.
    ///
    /// # Errors
    /// There is a guest, an application, a manager, a network, a disk or a warm-up; where each first one is.
    pub fn only_entities(&self, runner: &str) -> Result<(), Problems> {
        if self.hosts > 1 {
            let problem = Problem::new(format!("the scenario has {} hosts, and {runner} has one", self.hosts));
            return Err(problem.help("use hosts = 1, or leave the host out").into());
        }
        let mut findings = Findings::new(&self.source);
        let guest = self.guests.first().map(|guest| (&guest.name, guest.place, "is a VM with a guest"));
        let application = self.applications.first().map(|it| (&it.name, it.place, "is an application of tasks"));
        for (name, place, what) in guest.into_iter().chain(application) {
            let problem = Problem::new(format!("{} {what}, and {runner} has none", quoted(name)));
            let right = "use entities alone, with the workload \"hog\" or a periodic one without chance";
            findings.add(problem.at(place, "not an entity").help(right));
        }
        let manager = self.manager.as_ref().map(|manager| ("[manager]", manager.place));
        let network = self.network.as_ref().map(|network| ("[network]", network.place));
        let disk = self.disk.as_ref().map(|disk| ("[disk]", disk.place));
        let warm_up = (!self.warm_up.is_zero()).then_some(("`warm_up`", self.warm_up_place));
        for (what, place) in manager.into_iter().chain(network).chain(disk).chain(warm_up) {
            let problem = Problem::new(format!("there is a {what}, and {runner} has none"));
            findings.add(problem.at(place, "only simulated").help(format!("leave {what} out")));
        }
        findings.finish()
    }

    /// What host number `host` is called: `host`, or, where there are several, `host-1`, `host-2`, ….
    #[must_use]
    pub fn host_name(&self, host: usize) -> String {
        if self.hosts == 1 { "host".to_string() } else { format!("host-{}", host + 1) }
    }

    /// The host on which guest number `guest` is.
    pub fn host_of(&self, guest: usize) -> usize {
        self.entities[self.guests[guest].vcpus.start].host
    }

    /// The refusal of what entity number `entity` asks for, with the place where it asks.
    #[must_use]
    pub fn refused(&self, entity: usize, why: &Refused) -> Problems {
        let asking = &self.entities[entity];
        let place = asking.place.known();
        Wrong::from(why).said_of(&asking.name).anywhere(place).within(&self.source).into()
    }

    /// Says why the command or pid of entity number `entity` cannot be had, and what would be `right`, with the place where it
    /// is named.
    #[must_use]
    pub fn refused_real(&self, entity: usize, why: &str, right: &str) -> Problems {
        let asking = &self.entities[entity];
        let place = asking.real_place.known();
        let help = if right.is_empty() { String::new() } else { format!("use {right}") };
        Wrong::new(why, "cannot be had", help).said_of(&asking.name).anywhere(place).within(&self.source).into()
    }
}

impl PolicyChoice {
    /// The policy of that name in `registry`. `scenario` is where it was chosen.
    ///
    /// # Errors
    /// There is none.
    pub fn find(&self, registry: &[&'static Descriptor], scenario: &Scenario) -> Result<&'static Descriptor, Problems> {
        if let Some(policy) = registry.iter().find(|policy| policy.name == self.name) {
            return Ok(policy);
        }
        let names: Vec<&str> = registry.iter().map(|policy| policy.name).collect();
        let wrong = Wrong::new(
            format!("there is no policy {}", quoted(&self.name)),
            "unknown policy",
            right_instead(&self.name, &names),
        );
        let place = self.place.known();
        Err(wrong.anywhere(place).within(&scenario.source).into())
    }
}
