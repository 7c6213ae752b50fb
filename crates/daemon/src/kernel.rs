//! [`Kernel`]: the only way in which the daemon and its guardian reach a kernel. [`Linux`](crate::linux::Linux) is the real
//! one; the simulated host (crate `simhost`) is the other, on which every crash, hang and refusal is a test.
//!
//! Nothing here decides anything, and nothing allocates on the way between a timer and a dispatch: threads are opened when
//! they are first seen and held.

use sched::{CpuId, CpuSet, Instant};
use sys::Result;
use sys::attributes::Attributes;
use sys::thread::{Identity, Owner, Status};
use sys::usage::Usage;

/// The real-time priorities, from the most urgent down.
pub mod priority {
    /// The guardian's: it must get past an agent that hangs.
    pub const GUARDIAN: u32 = 99;
    /// The agents'.
    pub const AGENT: u32 = 98;
    /// Of who was promised time and is to have it: the chosen one, and who sleeps with time left, so that its wake-up waits for
    /// nobody.
    pub const RAISED: u32 = 97;
    /// Of the chosen one where others with promises sleep on its CPU: they get past it when they wake, are noticed, and are
    /// then chosen or sent back.
    pub const AMONG_OTHERS: u32 = 96;
    /// The sentinels': each runs when nobody who was raised wants its CPU.
    pub const SENTINEL: u32 = 95;
}

/// What the daemon and its guardian ask of a kernel. Every call does one thing to one thread, and says what went wrong.
pub trait Kernel {
    /// A thread that is held: once it has ended, every call says so, whoever has its number by then.
    type Thread;

    /// What the monotonic clock says.
    fn now(&self) -> Instant;

    /// Takes hold of thread `tid`.
    ///
    /// # Errors
    /// It is gone.
    fn open(&self, tid: u32) -> Result<Self::Thread>;

    /// Takes hold of the thread that was `identity`, and of no other.
    ///
    /// # Errors
    /// It is gone, whoever has its number now.
    fn open_as(&self, identity: Identity) -> Result<Self::Thread>;

    /// What names it for as long as the machine runs.
    fn identity(&self, thread: &Self::Thread) -> Identity;

    /// The threads of process `pid`, ascending.
    ///
    /// # Errors
    /// It is gone.
    fn threads(&self, pid: u32) -> Result<Vec<u32>>;

    /// The processes that threads of process `pid` have begun and that are there, ascending.
    ///
    /// # Errors
    /// It is gone.
    fn children(&self, pid: u32) -> Result<Vec<u32>>;

    /// A number that changes when any thread or process begins on this host.
    ///
    /// # Errors
    /// The host does not tell.
    fn births(&self) -> Result<u64>;

    /// What it is and does now.
    ///
    /// # Errors
    /// It is gone.
    fn status(&self, thread: &Self::Thread) -> Result<Status>;

    /// Whose it is.
    ///
    /// # Errors
    /// It is gone.
    fn owner(&self, thread: &Self::Thread) -> Result<Owner>;

    /// The process it belongs to.
    ///
    /// # Errors
    /// It is gone.
    fn process(&self, thread: &Self::Thread) -> Result<u32>;

    /// What it has had. Exact where asked on the CPU that it has just left.
    ///
    /// # Errors
    /// It is gone.
    fn usage(&self, thread: &Self::Thread) -> Result<Usage>;

    /// How it is scheduled.
    ///
    /// # Errors
    /// It is gone.
    fn attributes(&self, thread: &Self::Thread) -> Result<Attributes>;

    /// Schedules it so.
    ///
    /// # Errors
    /// It is gone or not ours, or we lack the privilege.
    fn schedule(&self, thread: &Self::Thread, wanted: Attributes) -> Result<()>;

    /// The CPUs it may run on.
    ///
    /// # Errors
    /// It is gone.
    fn affinity(&self, thread: &Self::Thread) -> Result<CpuSet>;

    /// Lets it run on `cpus` alone.
    ///
    /// # Errors
    /// It is gone or not ours, or may not run on any of them.
    fn set_affinity(&self, thread: &Self::Thread, cpus: &CpuSet) -> Result<()>;

    /// Stops the process whose first thread this is (SIGSTOP).
    ///
    /// # Errors
    /// It is gone or not ours.
    fn stop(&self, leader: &Self::Thread) -> Result<()>;

    /// Ends that (SIGCONT).
    ///
    /// # Errors
    /// It is gone or not ours.
    fn cont(&self, leader: &Self::Thread) -> Result<()>;

    /// Has the agent of `cpu` woken when this thread, which sleeps and may run only there, comes onto it; or no more.
    ///
    /// # Errors
    /// It is gone, or the host does not tell: it has to be looked at now and then.
    fn await_entry(&self, thread: &mut Self::Thread, cpu: CpuId, wanted: bool) -> Result<()>;

    /// Has whoever looks for what is new woken when this thread, which may run only on `cpu`, or what it begins there, begins
    /// another thread or a process, from now on. Says which processes were begun so since this was last asked; once more after
    /// it has ended.
    ///
    /// # Errors
    /// It is gone, or the host does not tell: it has to be looked for once in a period.
    fn await_births(&self, thread: &mut Self::Thread, cpu: CpuId) -> Result<Vec<u32>> {
        let _ = (thread, cpu);
        let (what, why) = ("births of threads".to_string(), "this kernel does not tell of them".to_string());
        Err(sys::Error::Absent { what, why, right: "one that does" })
    }

    /// Has the agent of `cpu` woken, once, when nobody who was raised wants that CPU any more; or not any more.
    fn await_quiet(&self, cpu: CpuId, wanted: bool);
}

/// The memory that the daemon shares with its guardian: words that are stored whole, in the order in which they are stored.
pub trait Cells: Send + Sync {
    /// How many there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What word `at` holds.
    fn load(&self, at: usize) -> u64;

    /// Puts `value` into word `at`. Whoever sees it sees what was stored before it.
    fn store(&self, at: usize, value: u64);
}

impl<K: Kernel> Kernel for &K {
    type Thread = K::Thread;

    fn now(&self) -> Instant {
        (**self).now()
    }

    fn open(&self, tid: u32) -> Result<Self::Thread> {
        (**self).open(tid)
    }

    fn open_as(&self, identity: Identity) -> Result<Self::Thread> {
        (**self).open_as(identity)
    }

    fn identity(&self, thread: &Self::Thread) -> Identity {
        (**self).identity(thread)
    }

    fn threads(&self, pid: u32) -> Result<Vec<u32>> {
        (**self).threads(pid)
    }

    fn children(&self, pid: u32) -> Result<Vec<u32>> {
        (**self).children(pid)
    }

    fn births(&self) -> Result<u64> {
        (**self).births()
    }

    fn status(&self, thread: &Self::Thread) -> Result<Status> {
        (**self).status(thread)
    }

    fn owner(&self, thread: &Self::Thread) -> Result<Owner> {
        (**self).owner(thread)
    }

    fn process(&self, thread: &Self::Thread) -> Result<u32> {
        (**self).process(thread)
    }

    fn usage(&self, thread: &Self::Thread) -> Result<Usage> {
        (**self).usage(thread)
    }

    fn attributes(&self, thread: &Self::Thread) -> Result<Attributes> {
        (**self).attributes(thread)
    }

    fn schedule(&self, thread: &Self::Thread, wanted: Attributes) -> Result<()> {
        (**self).schedule(thread, wanted)
    }

    fn affinity(&self, thread: &Self::Thread) -> Result<CpuSet> {
        (**self).affinity(thread)
    }

    fn set_affinity(&self, thread: &Self::Thread, cpus: &CpuSet) -> Result<()> {
        (**self).set_affinity(thread, cpus)
    }

    fn stop(&self, leader: &Self::Thread) -> Result<()> {
        (**self).stop(leader)
    }

    fn cont(&self, leader: &Self::Thread) -> Result<()> {
        (**self).cont(leader)
    }

    fn await_entry(&self, thread: &mut Self::Thread, cpu: CpuId, wanted: bool) -> Result<()> {
        (**self).await_entry(thread, cpu, wanted)
    }

    fn await_births(&self, thread: &mut Self::Thread, cpu: CpuId) -> Result<Vec<u32>> {
        (**self).await_births(thread, cpu)
    }

    fn await_quiet(&self, cpu: CpuId, wanted: bool) {
        (**self).await_quiet(cpu, wanted);
    }
}
