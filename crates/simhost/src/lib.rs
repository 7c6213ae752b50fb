//! A Linux host in virtual time: the second implementation of [`Kernel`](daemon::kernel::Kernel), on which every crash,
//! hang, refusal, late timer and reused number is a test.
//!
//! ```text
//!   SimulatedKernel ── run_until ──▶ whose turn it is ──▶ daemon or guardian core
//!               │                                               │ Kernel, Cells
//!            World ◀────────── Caller, Memory ◀─────────────────┘
//!   threads, timers │ Others: who else is on this host
//!               sim::Host with the policy `linux`
//! ```
//!
//! Threads of ours are *actors*: they are woken by timers, which are late, or rung, get their CPU by the rules of the policy
//! like everybody else, and then it is their turn, which whoever drives the host takes. A call takes time, in which the world
//! goes on; two turns do not overlap.
//!
//! A process of ours can be made to fail before any of its acts, the calls and stores it makes: from there on none has an
//! effect. It is gone then, or stopped.
//!
//! The world keeps of each thread what it would be if our processes had never done anything, so that what is left of them can
//! be told at any time ([`World::differences`]).
//!
//! A fork copies what is inherited when it begins, and whom it begins is seen when it ends; between the two its thread may wait for
//! a CPU, or sleep.
//!
//! Not here: SCHED_DEADLINE, freezers, memory and signals other than SIGKILL, SIGSTOP and SIGCONT. Actors take the time of their calls
//! and none of their own.

mod actors;
mod births;
mod caller;
mod dice;
mod interference;
mod life;
mod tasks;
#[cfg(test)]
mod tests;
mod world;

pub use births::Kind;
pub use caller::{Caller, Held};
pub use dice::Dice;
pub use interference::Difference;
pub use life::{Fault, Mapping, Memory};
pub use tasks::{Refuses, Setting};
pub use world::{Others, World};

use actors::{Actor, Duty};
use daemon::kernel::priority;
use life::Life;
use sched::{CpuId, CpuSet, Descriptor, Instant, Nanos, Refused};
use sim::Workload;
use std::cell::{Ref, RefCell, RefMut};
use std::rc::Rc;
use sys::attributes::Attributes;
use sys::thread::Owner;

/// How late timers are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lateness {
    /// Mostly at most this.
    pub most: Nanos,
    /// But now and then this.
    pub rare: Nanos,
    /// Once in so many times; 0: never.
    pub rare_in: u64,
}

/// What a world is made of.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many CPUs it has.
    pub cpus: usize,
    /// How it schedules: the policy `linux`, or one that is like it in having real-time classes.
    pub policy: &'static Descriptor,
    /// What its knobs are set to, where that is not their default.
    pub knobs: Vec<(&'static str, i64)>,
    /// Threads are numbered from 1 to this, and over again.
    pub numbers: u32,
    /// Where chance begins.
    pub seed: u64,
    /// How late timers are.
    pub lateness: Lateness,
    /// The most that a call into the kernel takes; the least is half of it.
    pub call: Nanos,
}

impl Settings {
    /// A host of so many CPUs on which nothing is late and calls are free.
    #[must_use]
    pub fn new(policy: &'static Descriptor, cpus: usize) -> Settings {
        let lateness = Lateness::default();
        Settings { cpus, policy, knobs: Vec::new(), numbers: 500, seed: 0, lateness, call: Nanos::ZERO }
    }
}

/// A handle on a world, shared by all who are in it.
#[derive(Clone, Debug)]
pub struct SimulatedKernel(Rc<RefCell<World>>);

impl SimulatedKernel {
    /// A world of its own.
    ///
    /// # Errors
    /// The policy does not work with these knobs on this host.
    pub fn new(settings: &Settings) -> Result<SimulatedKernel, Refused> {
        Ok(SimulatedKernel(Rc::new(RefCell::new(World::new(settings)?))))
    }

    /// The world, to look at.
    #[must_use]
    pub fn world(&self) -> Ref<'_, World> {
        self.0.borrow()
    }

    /// The world, to act in.
    #[must_use]
    pub fn world_mut(&self) -> RefMut<'_, World> {
        self.0.borrow_mut()
    }

    /// Lets time pass until it is an actor's turn, or `end`. Who is answered takes its turn and then
    /// [ends](World::end_turn) it.
    #[must_use]
    pub fn run_until(&self, end: Instant) -> Option<u32> {
        self.0.borrow_mut().run_until(end)
    }

    /// A process of ours begins, of this user: a child of the first, with a first thread that sleeps for ever.
    ///
    /// # Panics
    /// All numbers are in use.
    #[must_use]
    pub fn begin(&self, name: &str, owner: Owner) -> Caller {
        let mut world = self.0.borrow_mut();
        let pid = world.start(name, owner, Workload::Scripted).expect("a number is free");
        let life = Life::new();
        world.lives.push((pid, life.clone()));
        Caller { world: Rc::clone(&self.0), pid, life }
    }
}

impl Caller {
    /// It fails in this way in place of its act number `act`, counted from zero.
    pub fn fails_at(&self, act: u64, fault: Fault) {
        self.life.fails_at(act, fault);
    }

    /// In which way it has failed.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        self.life.fault()
    }

    /// Whether it has ended, as who holds it by a descriptor is told, whoever has its number by now.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.life.fault() == Some(Fault::Crash)
    }

    /// A thread of it begins that takes turns.
    ///
    /// # Panics
    /// All numbers are in use, or the process has ended.
    #[must_use]
    pub fn employ(&self, attributes: Attributes, affinity: CpuSet) -> u32 {
        self.world.borrow_mut().employ(self.pid, attributes, affinity, Duty::Turns)
    }

    /// The agent of `cpu` begins, and the sentinel there, which wakes it.
    ///
    /// # Panics
    /// As for [`employ`](Caller::employ).
    #[must_use]
    pub fn serve(&self, cpu: CpuId) -> u32 {
        let mut world = self.world.borrow_mut();
        let agent = Attributes::raised(priority::AGENT);
        let agent = world.employ(self.pid, agent, CpuSet::one(cpu), Duty::Turns);
        let sentinel = Attributes::raised(priority::SENTINEL);
        let sentinel = world.employ(self.pid, sentinel, CpuSet::one(cpu), Duty::Sentinel(cpu));
        world.agents.push((self.pid, cpu, agent, sentinel));
        agent
    }
}

impl World {
    fn employ(&mut self, pid: u32, attributes: Attributes, affinity: CpuSet, duty: Duty) -> u32 {
        let tid = self.clone_thread(pid, Workload::Scripted).expect("a number is free");
        self.set(tid, Setting { attributes, affinity });
        self.tasks.thread(tid).actor = Some(Actor::new(duty));
        self.actors.push(tid);
        tid
    }
}
