//! [`Scenario`] and its parts, checked.

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
    /// How many hosts there are, each like the others. Range: 1 … [`HOSTS_MAX`](crate::HOSTS_MAX).
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

/// A workload manager.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ManagerSpec {
    /// From one turn to the next. Above zero; default 5 s.
    pub interval: Nanos,
    /// How much of what was consumed too little is added to an assignment. Unit: percent; range 1 to 1000, default 100.
    pub gain_percent: u64,
    /// The least that is assigned. Unit: millionths of a CPU; default 1 %.
    pub least_ppm: u64,
    /// The most that is assigned. Unit: millionths of a CPU; default 100 %.
    pub most_ppm: u64,
    /// The VMs, in alphabetical order.
    pub targets: Vec<Target>,
    /// Where it is.
    pub place: Span,
}

/// A VM that is managed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// What it is to consume. Unit: millionths of a CPU.
    pub target_ppm: u64,
    /// Its vCPUs, among the entities of the host.
    pub vcpus: Range<usize>,
}

impl Scenario {
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

    /// How many tasks run outside; 0: there is no such machine.
    #[must_use]
    pub fn outside(&self) -> usize {
        let peers = self.all_applications().flat_map(|(_, spec)| &spec.reach.peers);
        peers.filter(|peer| peer.at == At::Outside).map(|peer| peer.application.tasks.len()).sum()
    }

    /// Every application with the guest that it is in, by its number; `None`: on the host.
    pub fn all_applications(&self) -> impl Iterator<Item = (Option<usize>, &AppSpec)> {
        let host = self.applications.iter().map(|spec| (None, spec));
        let guests = self.guests.iter().enumerate();
        host.chain(guests.flat_map(|(index, guest)| guest.applications.iter().map(move |spec| (Some(index), spec))))
    }

    /// The guest of the VM called `name`.
    #[must_use]
    pub fn guest_of(&self, name: &str) -> Option<usize> {
        self.guests.iter().position(|guest| guest.name == name)
    }

    /// The driver that handles what passes over `device`, if there is such a device.
    #[must_use]
    pub fn drivers(&self, device: Device) -> Option<&Drivers> {
        match device {
            Device::Network => self.network.as_ref().map(|it| &it.drivers),
            Device::Disk | Device::Drive => self.disk.as_ref().map(|it| &it.drivers),
        }
    }

    /// Which guests use which device, in order.
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

    /// The names of the threads of host number `host` that drive devices for VMs.
    #[must_use]
    pub fn host_threads(&self, host: usize) -> BTreeSet<String> {
        let of =
            |(guest, device): (usize, Device)| thread_of(&self.guests[guest].name, &self.drivers(device)?.way, device);
        self.device_users().into_iter().filter(|&(guest, _)| self.host_of(guest) == host).filter_map(of).collect()
    }

    /// Its VMs by name, each with its vCPUs among the entities of the host, in the order of the file.
    pub fn vms(&self) -> impl Iterator<Item = (&str, Range<usize>)> {
        self.groups.iter().filter_map(|group| {
            let vcpu = |index: &usize| is_vcpu(&self.entities[*index], &group.name, &self.groups);
            let first = (0..self.entities.len()).find(vcpu)?;
            let vcpus = (first..self.entities.len()).take_while(vcpu).count();
            Some((group.name.as_str(), first..first + vcpus))
        })
    }
}

/// Whether `entity` is a vCPU of the VM `vm`. A VM is a group of its own, and only its vCPUs bear its name in it.
pub(super) fn is_vcpu(entity: &EntitySpec, vm: &str, groups: &[Group]) -> bool {
    entity.group.is_some_and(|group| groups[group].name == vm)
        && entity.name.strip_prefix(vm).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
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
