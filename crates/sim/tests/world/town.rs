//! Constructors for the worlds of the tests.

use sched::{CpuId, CpuSet, Descriptor, EntityId, Instant, Nanos, Params, Topology};
use sim::program::{Length, ObjectId, Step, TaskSpec};
use sim::{Application, Costs, Guest, Workload, World};
use trace::{Event, MachineId, WorldSink};

pub(crate) fn policy(name: &str) -> &'static Descriptor {
    policies::find(name).expect("there is such a policy")
}

pub(crate) fn at(ms: u64) -> Instant {
    Instant::ZERO + Nanos::ms(ms)
}

/// Adds a host with the default settings of its policy and these costs.
pub(crate) fn host(world: &mut World<'_>, name: &str, cpus: usize, costs: Costs) -> MachineId {
    let policy = policy(name);
    world.add_host("host", policy, Topology::new(cpus), &policy.defaults(), costs).expect("it works here")
}

/// Adds `count` vCPUs with the names `name/0`, `name/1` and so on. If `pinned`, each vCPU runs only on the CPU with its
/// number.
pub(crate) fn vcpus(world: &mut World<'_>, host: MachineId, name: &str, count: usize, pinned: bool) -> Vec<EntityId> {
    let vcpu = |cpu: usize| {
        let affinity = if pinned { CpuSet::one(CpuId::new(cpu)) } else { CpuSet::ALL };
        let params = Params { affinity, ..Params::default() };
        world.attach(host, &format!("{name}/{cpu}"), params, Workload::Vcpu).expect("there is room")
    };
    (0..count).map(vcpu).collect()
}

/// Adds a guest with the default settings of its policy.
pub(crate) fn guest(
    world: &mut World<'_>,
    host: MachineId,
    name: &str,
    vcpus: &[EntityId],
    kind: Guest,
    costs: Costs,
) -> MachineId {
    let policy = policy(name);
    let cpus = Topology::new(vcpus.len());
    world.add_guest(host, "vm", vcpus, policy, cpus, &policy.defaults(), kind, costs).expect("it works here")
}

pub(crate) fn hog(world: &mut World<'_>, machine: MachineId, name: &str) -> EntityId {
    world.attach(machine, name, Params::default(), Workload::Hog).expect("there is room")
}

pub(crate) fn run(time: Nanos) -> Step {
    Step::Run(Length::Fixed(time))
}

pub(crate) fn sleep(time: Nanos) -> Step {
    Step::Sleep(Length::Fixed(time))
}

pub(crate) fn forever(body: Vec<Step>) -> Step {
    Step::Repeat { times: None, body }
}

pub(crate) fn task(name: &str, steps: Vec<Step>) -> TaskSpec {
    TaskSpec { name: name.to_string(), params: Params::default(), delay: Nanos::ZERO.into(), steps }
}

/// Returns an application of these tasks and objects.
pub(crate) fn application(objects: &[(&str, sim::Object)], tasks: Vec<TaskSpec>) -> Application {
    let objects = objects.iter().map(|(name, object)| (name.to_string(), *object)).collect();
    Application { objects, tasks, ..Application::default() }
}

pub(crate) const FIRST: ObjectId = ObjectId(0);
pub(crate) const SECOND: ObjectId = ObjectId(1);

/// A sink that stores all events of all machines.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) events: Vec<(MachineId, Instant, Event)>,
}

impl WorldSink for Log {
    fn record(&mut self, machine: MachineId, at: Instant, event: &Event) {
        self.events.push((machine, at, event.clone()));
    }
}

impl Log {
    /// Returns the events of one machine.
    pub(crate) fn of(&self, machine: MachineId) -> Vec<(Instant, Event)> {
        let mine = self.events.iter().filter(|(of, ..)| *of == machine);
        mine.map(|(_, at, event)| (*at, event.clone())).collect()
    }
}
