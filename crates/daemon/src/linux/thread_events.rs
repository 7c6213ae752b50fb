//! The perf events of a thread that wake an agent.
//!
//! An agent neither opens nor closes an event. Both take the locks of the address space (`mmap_lock`) and of CPU
//! hotplug (`cpu_hotplug_lock`). These locks know no priority inheritance, and their holder may wait for the CPU of a
//! raised client. Only the agent of this CPU can lower the client, so the agent would wait in vain.

use sched::{CpuId, Nanos};
use std::sync::Arc;
use sys::arrivals::Arrivals;
use sys::cpu_timer::CpuTimer;
use sys::event::Waiting;
use sys::thread::Thread;
use sys::{Error, Result};

/// Number, in the event set of an agent, of the event that an awaited thread has begun to run or has ended. The upper
/// half of the number is the tid.
const ENTRY: u64 = 2;
/// Number, in the event set of an agent, of the event that a thread has used the CPU time of its timer.
const SPENT: u64 = 3;

/// Returns the tid of the thread if event `number` of an agent's set means that an awaited thread has begun to run, or
/// has ended.
pub(crate) fn entered(number: u64) -> Option<u32> {
    let is_entry = number & u64::from(u32::MAX) == ENTRY;
    u32::try_from(number >> u32::BITS).ok().filter(|_| is_entry)
}

/// The event sets of the agents.
#[derive(Default, Debug)]
pub(super) struct AgentSets {
    /// Indexed by CPU; `None` for a CPU without an agent.
    sets: Vec<Option<Arc<Waiting>>>,
}

impl AgentSets {
    pub(super) fn of(agents: impl IntoIterator<Item = (CpuId, Arc<Waiting>)>) -> AgentSets {
        let mut sets = Vec::new();
        for (cpu, waiting) in agents {
            sets.resize(sets.len().max(cpu.index() + 1), None);
            sets[cpu.index()] = Some(waiting);
        }
        AgentSets { sets }
    }

    fn on(&self, cpu: CpuId) -> Option<&Waiting> {
        self.sets.get(cpu.index())?.as_deref()
    }
}

/// The timer of a thread's CPU time.
#[derive(Default, Debug)]
enum ThreadTimer {
    /// No agent has needed the timer.
    #[default]
    Closed,
    /// An agent needs the timer.
    Wanted,
    /// The timer cannot be opened.
    Refused(Error),
    /// The timer wakes the agent of this CPU.
    Open(CpuId, CpuTimer),
}

/// The events of a thread.
#[derive(Default, Debug)]
pub(super) struct ThreadEvents {
    arrivals: Option<Arrivals>,
    /// CPU whose agent waits for the arrivals.
    listened: Option<CpuId>,
    timer: ThreadTimer,
}

impl ThreadEvents {
    /// Returns the arrivals of `thread`. Opens them at the first call.
    ///
    /// # Errors
    /// The thread has ended, this process lacks the privilege, or the kernel has no perf events.
    pub(super) fn arrivals(&mut self, thread: &Thread) -> Result<&mut Arrivals> {
        let arrivals = match self.arrivals.take() {
            Some(arrivals) => arrivals,
            None => {
                let made = Arrivals::of_thread(thread.tid())?;
                // The event was opened by tid. This check succeeds only if the thread still exists, so the tid has not
                // been reused.
                thread.status()?;
                made
            }
        };
        Ok(self.arrivals.insert(arrivals))
    }

    /// Adds the arrivals of `thread` to the set of `cpu`'s agent, unless the set already contains them.
    ///
    /// # Errors
    /// See [`ThreadEvents::arrivals`].
    pub(super) fn listen(&mut self, thread: &Thread, agents: &AgentSets, cpu: CpuId) -> Result<()> {
        if self.listened == Some(cpu) {
            return Ok(());
        }
        if let Some(other) = self.listened.take().and_then(|on| agents.on(on)) {
            other.remove(&*self.arrivals(thread)?)?;
        }
        if let Some(waiting) = agents.on(cpu) {
            // Edge-triggered, because the event source stays readable once the thread has ended.
            let number = u64::from(thread.tid()) << u32::BITS | ENTRY;
            waiting.add_edges(&*self.arrivals(thread)?, number)?;
            self.listened = Some(cpu);
        }
        Ok(())
    }

    /// Wakes the agent of `cpu` when `thread` begins to run.
    ///
    /// # Errors
    /// See [`ThreadEvents::arrivals`].
    pub(super) fn await_arrival(&mut self, thread: &Thread, agents: &AgentSets, cpu: CpuId) -> Result<()> {
        self.listen(thread, agents, cpu)?;
        self.arrivals(thread)?.resume()
    }

    /// Wakes no agent when the thread begins to run.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn ignore_arrivals(&mut self) -> Result<()> {
        self.arrivals.as_mut().map_or(Ok(()), Arrivals::pause)
    }

    /// Opens the timer of `thread` if an agent needs it. The timer wakes the agent of `cpu`.
    ///
    /// # Errors
    /// The thread has ended. [`ThreadEvents::set_timer`] reports other errors.
    pub(super) fn open_wanted_timer(&mut self, thread: &Thread, agents: &AgentSets, cpu: CpuId) -> Result<()> {
        let (ThreadTimer::Wanted, Some(waiting)) = (&self.timer, agents.on(cpu)) else { return Ok(()) };
        self.timer = match CpuTimer::of_thread(thread.tid()) {
            Ok(timer) => {
                // The tid must not have been reused.
                thread.status()?;
                // Edge-triggered, because the timer stays readable once the thread has ended.
                waiting.add_edges(&timer, SPENT)?;
                ThreadTimer::Open(cpu, timer)
            }
            Err(gone @ Error::Gone(_)) => return Err(gone),
            Err(refused) => ThreadTimer::Refused(refused),
        };
        Ok(())
    }

    /// Sets the timer of `thread` to `time`. The timer wakes the agent of `cpu` from now on.
    ///
    /// # Errors
    /// The timer cannot be opened. `Busy`: the timer is not open yet.
    pub(super) fn set_timer(&mut self, thread: &Thread, agents: &AgentSets, cpu: CpuId, time: Nanos) -> Result<()> {
        match std::mem::replace(&mut self.timer, ThreadTimer::Wanted) {
            ThreadTimer::Closed | ThreadTimer::Wanted => {
                Err(Error::Busy { what: format!("set a timer of the CPU time of thread {}", thread.tid()) })
            }
            ThreadTimer::Refused(refused) => {
                self.timer = ThreadTimer::Closed;
                Err(refused)
            }
            ThreadTimer::Open(on, mut timer) => {
                let moved = if on == cpu { Ok(()) } else { move_timer(&timer, agents, on, cpu) };
                let outcome = moved.and_then(|()| timer.set(time));
                self.timer = ThreadTimer::Open(cpu, timer);
                outcome
            }
        }
    }

    /// Clears the timer.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn clear_timer(&mut self) -> Result<()> {
        if let ThreadTimer::Open(_, timer) = &mut self.timer { timer.clear() } else { Ok(()) }
    }

    /// Removes all events from the sets of the agents. To close an event that is in a set takes the lock of the set, for
    /// which the agent may wait.
    pub(super) fn withdraw(&mut self, agents: &AgentSets) {
        // The calls fail only for an event that is not in the set.
        if let (Some(waiting), Some(arrivals)) = (self.listened.take().and_then(|cpu| agents.on(cpu)), &self.arrivals) {
            let _ = waiting.remove(arrivals);
        }
        if let ThreadTimer::Open(cpu, timer) = &self.timer
            && let Some(waiting) = agents.on(*cpu)
        {
            let _ = waiting.remove(timer);
        }
    }
}

fn move_timer(timer: &CpuTimer, agents: &AgentSets, from: CpuId, to: CpuId) -> Result<()> {
    agents.on(from).map_or(Ok(()), |waiting| waiting.remove(timer))?;
    agents.on(to).map_or(Ok(()), |waiting| waiting.add_edges(timer, SPENT))
}
