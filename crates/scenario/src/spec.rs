//! [`Scenario`] and its parts, after all checks.

use crate::Mechanism;
use crate::coordination::CoordinationPlaces;
use crate::devices::{DiskSpec, Drivers, NetworkSpec, thread_of};
use crate::samples::SamplesSpec;
use input::knobs::KnobSetting;
use input::problem::{Findings, Problem, Problems, Wrong, quoted, right_instead};
use input::source::{Source, Span};
use sched::{Descriptor, GroupParams, Instant, Nanos, Params, Refused, Reservation, Topology};
use sim::{Application, Costs, Workload};
use std::collections::BTreeSet;
use std::ops::Range;
use workloads::metrics::Metric;
use workloads::network::{At, Device, Reach};

/// The process of an entity in a live run, if the process is not a worker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Real {
    /// A program to start and its arguments: at least the name of the program, and no NUL bytes.
    Command(Vec<String>),
    /// A running process, by its pid.
    Pid(u32),
}

/// A checked scenario. Every referenced name exists, except that names of policies and knobs are not checked. Every
/// value is in its range, and every slice fits into its period.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Title of the scenario.
    pub name: String,
    /// Number of equal hosts. Range: 1 to [`HOSTS_MAX`](crate::HOSTS_MAX).
    pub hosts: usize,
    /// Topology of each host.
    pub host: Topology,
    /// Duration of a run. Above zero.
    pub length: Nanos,
    /// Time at the start of a run that all measurements exclude. Below `length`; default zero.
    pub warm_up: Nanos,
    /// Span of `warm_up`. `Span::default()` if the file has none.
    pub warm_up_place: Span,
    /// Seed of the run, if the file has one.
    pub seed: Option<u64>,
    /// Policy, if the file names one.
    pub policy: Option<PolicyChoice>,
    /// Costs of scheduling.
    pub costs: Costs,
    /// Groups: first the named groups, each after its parent, then one group for each VM.
    pub groups: Vec<Group>,
    /// Entities of the hosts, in the order of the file.
    pub entities: Vec<EntitySpec>,
    /// Applications on the hosts, in the order of the file.
    pub applications: Vec<AppSpec>,
    /// VMs whose guests have their own schedulers, in the order of the file.
    pub guests: Vec<GuestSpec>,
    /// Optional manager that assigns shares to VMs during the run.
    pub manager: Option<ManagerSpec>,
    /// Interval of the reports of every VM's CPU time, if the scenario requests them.
    pub samples: Option<SamplesSpec>,
    /// Optional network between the machines.
    pub network: Option<NetworkSpec>,
    /// Optional disk of each host, which the host's machines share.
    pub disk: Option<DiskSpec>,
    /// Name and text of the scenario's file. Empty if the scenario was not read from a file.
    pub source: Source,
}

/// A policy, as the scenario names it.
#[derive(Clone, Debug)]
pub struct PolicyChoice {
    /// Name of the policy, not checked against a registry.
    pub name: String,
    /// Span of the name.
    pub place: Span,
    /// Knobs of the policy, in the order of the file, not checked against the policy.
    pub knobs: Vec<KnobSetting>,
}

/// A group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// Name of the group. A VM's group has the VM's name.
    pub name: String,
    /// Parent of the group: the index of an earlier group of the same machine. `None`: the root.
    pub parent: Option<usize>,
    /// Host of the group, from 0. In a guest: 0.
    pub host: usize,
    /// Requested parameters of the group.
    pub params: GroupParams,
    /// Span of the definition of the group.
    pub place: Span,
}

/// An entity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EntitySpec {
    /// Name of the entity: the name of its task or VM, or `vm/0`, `vm/1`, … for a VM with several vCPUs.
    pub name: String,
    /// Group of the entity, an index of the groups of its machine. A group of a host is on the entity's host. `None`:
    /// the root.
    pub group: Option<usize>,
    /// Host of the entity, from 0. In a guest: 0.
    pub host: usize,
    /// Instant of the entity's arrival. Before the end of the run.
    pub arrival: Instant,
    /// Instant of the entity's departure, after its arrival. `None`: never.
    pub leaves: Option<Instant>,
    /// Requested parameters of the entity. Their `group` is the root group until the entity's group has an id.
    ///
    /// A vCPU has the weight of its VM. Under policies with groups, this weight has no effect, because siblings have
    /// equal weights. Policies without groups use the weight.
    pub params: Params,
    /// Changes of the reservation with their instants, in order of time. Only vCPUs have changes.
    pub changes: Vec<(Instant, Reservation)>,
    /// Workload of the entity. For a real process, the model of the process in a simulation.
    pub workload: Workload,
    /// Time that a CPU needs to switch to the entity. `None`: the time in the scenario's costs.
    pub switch: Option<Nanos>,
    /// Process of the entity in a live run. `None`: a worker, which executes the workload.
    pub real: Option<Real>,
    /// Span of the command or pid. `Span::default()` for a worker.
    pub real_place: Span,
    /// How a live run keeps the promise. `None`: as the run requests.
    pub mechanism: Option<Mechanism>,
    /// Span of the request: the slice, else the name, else the table.
    pub place: Span,
}

/// An application: related tasks.
#[derive(Clone, PartialEq, Debug)]
pub struct AppSpec {
    /// Name of the application.
    pub name: String,
    /// Group of the application, an index of the groups of its machine. `None`: the root.
    pub group: Option<usize>,
    /// Host of the application, from 0. In a guest: 0.
    pub host: usize,
    /// Instant of the application's arrival. Before the end of the run.
    pub arrival: Instant,
    /// Instant at which the application's unfinished tasks leave, after its arrival. `None`: never.
    pub leaves: Option<Instant>,
    /// Tasks of the application. The application's name precedes the name of each task (`name/thread-0`). If the
    /// application starts with a single task, this task has the application's name alone. The `group` in the parameters
    /// of the tasks is the root group until the application's group has an id.
    pub application: Application,
    /// Metric of the application, in addition to the statistics of its jobs. `None`: only jobs are measured.
    pub metric: Option<Metric>,
    /// Parts of the application on other machines, and the links between them.
    pub reach: Reach,
    /// Span of the workload.
    pub place: Span,
}

/// A VM whose guest has its own scheduler.
#[derive(Clone, Debug)]
pub struct GuestSpec {
    /// Name of the VM.
    pub name: String,
    /// vCPUs of the VM, by index in [`Scenario::entities`]. The workload of a vCPU is [`Workload::Vcpu`].
    pub vcpus: Range<usize>,
    /// Policy of the guest, if the file names one.
    pub policy: Option<PolicyChoice>,
    /// Settings of the guest.
    pub guest: sim::Guest,
    /// Spans of the settings for the coordination of guest and host.
    pub coordination_places: CoordinationPlaces,
    /// Groups of the guest, each after its parent.
    pub groups: Vec<Group>,
    /// Entities in the guest, in the order of the file. Their groups are [`GuestSpec::groups`]. No entity arrives
    /// before the VM.
    pub entities: Vec<EntitySpec>,
    /// Applications in the guest, in the order of the file.
    pub applications: Vec<AppSpec>,
    /// Span of the key or table that gives the VM a guest.
    pub place: Span,
}

/// A workload manager.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ManagerSpec {
    /// Time between two adjustments of the shares. Above zero; default 5 s.
    pub interval: Nanos,
    /// Share of the difference between target and consumption that is added to an assignment. Unit: percent; range 1 to
    /// 1000, default 100.
    pub gain_percent: u64,
    /// Minimum assignment. Unit: millionths of a CPU; default 1 %.
    pub least_ppm: u64,
    /// Maximum assignment. Unit: millionths of a CPU; default 100 %.
    pub most_ppm: u64,
    /// Managed VMs, in the order of the file.
    pub targets: Vec<Target>,
    /// Span of the manager.
    pub place: Span,
}

/// A managed VM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// Name of the VM.
    pub name: String,
    /// Target consumption of the VM. Unit: millionths of a CPU.
    pub target_ppm: u64,
    /// vCPUs of the VM, among the entities of the host.
    pub vcpus: Range<usize>,
}

impl Scenario {
    /// Returns a scenario of one host without costs, entities and applications.
    pub(crate) fn bare(name: &str, host: Topology, length: Nanos) -> Scenario {
        Scenario {
            name: name.to_string(),
            hosts: 1,
            host,
            length,
            warm_up: Nanos::ZERO,
            warm_up_place: Span::default(),
            seed: None,
            policy: None,
            costs: Costs::NONE,
            groups: Vec::new(),
            entities: Vec::new(),
            applications: Vec::new(),
            guests: Vec::new(),
            manager: None,
            samples: None,
            network: None,
            disk: None,
            source: Source::default(),
        }
    }

    /// Returns the instant at which the measurement starts.
    #[must_use]
    pub fn measured_from(&self) -> Instant {
        Instant::ZERO + self.warm_up
    }

    /// Returns the duration of the measurement. Above zero, unless a caller has shortened `length`.
    #[must_use]
    pub fn measured(&self) -> Nanos {
        self.length.saturating_sub(self.warm_up)
    }

    /// Checks that the scenario has one host and only entities. `runner` names the caller, which supports nothing else.
    ///
    /// # Errors
    /// The scenario has several hosts, or a guest, an application, a manager, a network, a disk or a warm-up. The first
    /// guest and the first application are reported.
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

    /// Returns the name of host number `host`, from 0. A single host has the name `host`. Several hosts have the names
    /// `host-1`, `host-2`, ….
    #[must_use]
    pub fn host_name(&self, host: usize) -> String {
        if self.hosts == 1 { "host".to_string() } else { format!("host-{}", host + 1) }
    }

    /// Returns the host of guest number `guest`.
    pub fn host_of(&self, guest: usize) -> usize {
        self.entities[self.guests[guest].vcpus.start].host
    }

    /// Returns the problem of a refused request of entity number `entity`, with the span of the request.
    #[must_use]
    pub fn refused(&self, entity: usize, why: &Refused) -> Problems {
        let asking = &self.entities[entity];
        let place = asking.place.known();
        Wrong::from(why).said_of(&asking.name).anywhere(place).within(&self.source).into()
    }

    /// Returns the problem of entity number `entity` whose command or pid is not available. The problem has the remedy
    /// `right` and the span of the command or pid.
    #[must_use]
    pub fn refused_real(&self, entity: usize, why: &str, right: &str) -> Problems {
        let asking = &self.entities[entity];
        let place = asking.real_place.known();
        let help = if right.is_empty() { String::new() } else { format!("use {right}") };
        Wrong::new(why, "cannot be had", help).said_of(&asking.name).anywhere(place).within(&self.source).into()
    }

    /// Returns the number of tasks on the machine outside. Zero: the scenario has no machine outside.
    #[must_use]
    pub fn outside(&self) -> usize {
        let peers = self.all_applications().flat_map(|(_, spec)| &spec.reach.peers);
        peers.filter(|peer| peer.at == At::Outside).map(|peer| peer.application.tasks.len()).sum()
    }

    /// Returns every application with the number of its guest. `None`: the application is on a host.
    pub fn all_applications(&self) -> impl Iterator<Item = (Option<usize>, &AppSpec)> {
        let host = self.applications.iter().map(|spec| (None, spec));
        let guests = self.guests.iter().enumerate();
        host.chain(guests.flat_map(|(index, guest)| guest.applications.iter().map(move |spec| (Some(index), spec))))
    }

    /// Returns the number of the guest of the VM with this `name`. `None`: there is no such VM, or it has no guest.
    #[must_use]
    pub fn guest_of(&self, name: &str) -> Option<usize> {
        self.guests.iter().position(|guest| guest.name == name)
    }

    /// Returns the drivers of `device`, if the scenario has the device.
    #[must_use]
    pub fn drivers(&self, device: Device) -> Option<&Drivers> {
        match device {
            Device::Network => self.network.as_ref().map(|it| &it.drivers),
            Device::Disk | Device::Drive => self.disk.as_ref().map(|it| &it.drivers),
        }
    }

    /// Returns each pair of a guest and a device that the guest uses, ordered by guest.
    #[must_use]
    pub fn device_users(&self) -> BTreeSet<(usize, Device)> {
        let mut users = BTreeSet::new();
        for (of, spec) in self.all_applications() {
            for device in [Device::Network, Device::Disk] {
                if !spec.reach.passes(device) {
                    continue;
                }
                users.extend(of.map(|guest| (guest, device)));
                let peers = spec.reach.peers.iter().filter_map(|peer| match &peer.at {
                    At::Vm(name) => self.guest_of(name),
                    At::Outside => None,
                });
                users.extend(peers.filter(|_| device == Device::Network).map(|guest| (guest, device)));
            }
        }
        users
    }

    /// Returns the names of the threads of host number `host` that drive devices for VMs.
    #[must_use]
    pub fn host_threads(&self, host: usize) -> BTreeSet<String> {
        let of =
            |(guest, device): (usize, Device)| thread_of(&self.guests[guest].name, &self.drivers(device)?.way, device);
        self.device_users().into_iter().filter(|&(guest, _)| self.host_of(guest) == host).filter_map(of).collect()
    }

    /// Returns the VMs by name in the order of the file, each with its vCPUs among the entities of the host.
    pub fn vms(&self) -> impl Iterator<Item = (&str, Range<usize>)> {
        self.groups.iter().filter_map(|group| {
            let vcpu = |index: &usize| is_vcpu(&self.entities[*index], &group.name, &self.groups);
            let first = (0..self.entities.len()).find(vcpu)?;
            let vcpus = (first..self.entities.len()).take_while(vcpu).count();
            Some((group.name.as_str(), first..first + vcpus))
        })
    }
}

/// Returns whether `entity` is a vCPU of the VM `vm`. A VM has its own group, and only the VM's vCPUs have the VM's
/// name in this group.
pub(super) fn is_vcpu(entity: &EntitySpec, vm: &str, groups: &[Group]) -> bool {
    entity.group.is_some_and(|group| groups[group].name == vm)
        && entity.name.strip_prefix(vm).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl PolicyChoice {
    /// Returns the policy with the chosen name in `registry`. `scenario` is the scenario that names the policy.
    ///
    /// # Errors
    /// There is no policy with this name.
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
