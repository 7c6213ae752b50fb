//! A Linux host in virtual time: the second implementation of [`Kernel`](daemon::kernel::Kernel). Tests can inject
//! crashes, hangs, refusals, late timers and reused tids.
//!
//! ```text
//!   SimulatedKernel ── run_until ──▶ actor with the turn ──▶ daemon or guardian core
//!               │                                               │ Kernel, Cells
//!            World ◀────────── Caller, Memory ◀─────────────────┘
//!   threads, timers │ Others: other activity on this host
//!               sim::Driver with the policy `linux`
//! ```
//!
//! Threads of Tactus are *actors*. A timer, which may be late, or [`World::ring`] wakes an actor. The actor then waits
//! for a CPU under the policy, like any other thread. Once the actor has a CPU, the actor has a turn, which the caller
//! of [`SimulatedKernel::run_until`] executes. A call into the kernel takes time, in which the world continues. Turns
//! do not overlap.
//!
//! A process of Tactus can fail at any of its acts (calls and stores). From then on, no act of the process has an
//! effect, because the process has crashed or hangs.
//!
//! The world records, for each thread, the values that the thread would have without Tactus. Every change that Tactus
//! has not undone is therefore visible ([`World::differences`]).
//!
//! A fork copies the inherited values at its start, and the child appears at its end. During the fork, the parent may
//! wait for a CPU, or sleep.
//!
//! A SCHED_DEADLINE reservation follows the rules of the policy `linux`. The kernel accepts the reservation only for a
//! thread that may run on every CPU, but permits a later change of the affinity or the cpuset, unlike Linux.
//!
//! The world does not model freezers of cgroup version 2, memory, or signals other than SIGKILL, SIGSTOP and SIGCONT. A
//! freeze takes effect at once, except during a fork.
//! Actors use CPU time only for their calls.

mod actor;
mod actors;
mod births;
mod caller;
mod cpu_timer;
mod dice;
mod fork;
mod freezer;
mod group;
mod interference;
mod life;
mod loan;
mod masks;
mod setting;
mod settings;
mod tasks;
#[cfg(test)]
mod tests;
mod world;

pub use caller::{Caller, Held};
pub use dice::Dice;
pub use fork::Kind;
pub use group::Freezer;
pub use interference::Difference;
pub use life::{Fault, Mapping, Memory};
pub use loan::Loan;
pub use setting::Setting;
pub use settings::{Lateness, Settings};
pub use tasks::Refuses;
pub use world::{Others, World};

use actor::{Actor, Duty};
use daemon::kernel::priority;
use life::Life;
use masks::Masks;
use sched::{CpuId, CpuSet, Instant, Refused};
use sim::Workload;
use std::cell::{Ref, RefCell, RefMut};
use std::rc::Rc;
use sys::attributes::Attributes;
use sys::thread::Owner;

/// A shared handle to a world.
#[derive(Clone, Debug)]
pub struct SimulatedKernel(Rc<RefCell<World>>);

impl SimulatedKernel {
    /// Creates a new world.
    ///
    /// # Errors
    /// The policy does not support this host or these knobs.
    pub fn new(settings: &Settings) -> Result<SimulatedKernel, Refused> {
        Ok(SimulatedKernel(Rc::new(RefCell::new(World::new(settings)?))))
    }

    /// Borrows the world for inspection.
    #[must_use]
    pub fn world(&self) -> Ref<'_, World> {
        self.0.borrow()
    }

    /// Borrows the world for changes.
    #[must_use]
    pub fn world_mut(&self) -> RefMut<'_, World> {
        self.0.borrow_mut()
    }

    /// Advances time until an actor has a turn, or to `end`. The caller executes the turn of the returned actor and
    /// then [ends](World::end_turn) the turn.
    #[must_use]
    pub fn run_until(&self, end: Instant) -> Option<u32> {
        self.0.borrow_mut().run_until(end)
    }

    /// Starts a process of Tactus with this owner. The process is a child of init, and its first thread sleeps forever.
    ///
    /// # Panics
    /// All tids are in use.
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
    /// Makes the process fail instead of performing act number `act`, counted from zero.
    pub fn fails_at(&self, act: u64, fault: Fault) {
        self.life.fails_at(act, fault);
    }

    /// Returns the fault of the process; `None` if the process has not failed.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        self.life.fault()
    }

    /// Returns whether the process has ended, as the holder of a pidfd observes it. A reuse of the pid does not change
    /// the answer.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.life.fault() == Some(Fault::Crash)
    }

    /// Starts a thread of this process that takes turns. Returns its tid.
    ///
    /// # Panics
    /// All tids are in use, or the process has ended.
    #[must_use]
    pub fn employ(&self, attributes: Attributes, affinity: CpuSet) -> u32 {
        self.world.borrow_mut().employ(self.pid, attributes, affinity, Duty::Turns)
    }

    /// Wakes actor `keeper` of this process whenever the recipient of a loan executes a program.
    pub fn report_ended_loans_to(&self, keeper: u32) {
        self.world.borrow_mut().keepers.push((self.pid, keeper));
    }

    /// Starts the agent of `cpu`, and the sentinel that wakes the agent. Returns the tid of the agent.
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
        self.tasks.thread(tid).masks = Masks { is: affinity, untouched: affinity, ..Masks::NONE };
        self.set(tid, Setting { attributes, affinity });
        self.tasks.thread(tid).actor = Some(Actor::new(duty));
        self.actors.push(tid);
        tid
    }
}
