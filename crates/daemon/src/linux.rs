//! [`Linux`]: the kernel of this host.

mod freezing;
mod sentinels;
mod shares;
mod thread_events;

pub use freezing::Freezer;
pub(crate) use freezing::{pass_on_mount, take_over_mount};
pub use sentinels::Sentinels;
pub(crate) use thread_events::entered;

use thread_events::{AgentSets, ThreadEvents};

use crate::kernel::{Cells, CpuShare, Joined, Kernel};
use crate::table::ControlGroup;
use sched::{CpuId, CpuSet, Instant, Nanos};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use sys::attributes::{self, Attributes, Policy};
use sys::births::Children;
use sys::cpus::Cpusets;
use sys::event::{Bell, Waiting};
use sys::inheritance::Donor;
use sys::process::Process;
use sys::shared::Words;
use sys::thread::{self, Identity, Owner, Status};
use sys::usage::{Births, Meter, Usage};
use sys::{Error, Result, affinity, clock, cpus};

impl Cells for Words {
    fn len(&self) -> usize {
        self[..].len()
    }

    fn load(&self, at: usize) -> u64 {
        self[at].load(Ordering::Acquire)
    }

    fn store(&self, at: usize, value: u64) {
        self[at].store(value, Ordering::Release);
    }
}

/// A handle to a thread of this host. Further files are opened at their first use and stay open: the schedstat for
/// [`Kernel::usage`], a pidfd for [`Kernel::cont`], perf events for [`Kernel::await_births`] and [`Kernel::await_entry`].
#[derive(Debug)]
pub struct Thread {
    held: thread::Thread,
    meter: OnceLock<Meter>,
    process: OnceLock<Process>,
    events: ThreadEvents,
    /// Forks of the thread, and the CPU on which they are recorded.
    children: Option<(CpuId, Children)>,
}

/// Moves all threads of another process of Tactus to SCHED_OTHER, which ends the effect of its loans: see
/// [`Kernel::lower_all`].
///
/// # Errors
/// The process has ended, or this process lacks permission.
pub fn lower_all(process: Identity) -> Result<()> {
    if process.tid == std::process::id() {
        return Ok(());
    }
    let lower = |tid| {
        let thread = thread::Thread::open(tid)?;
        let found = attributes::get(tid)?;
        if thread.process()? != process.tid {
            return Err(Error::Gone(tid));
        }
        // A process without CAP_SYS_NICE can neither clear reset-on-fork nor lower a nice value.
        attributes::apply(tid, Attributes { policy: Policy::Other { nice: 19 }, ..found })
    };
    let mut refused = None;
    for tid in thread::Thread::open_as(process)?.siblings()? {
        match lower(tid) {
            Ok(()) | Err(Error::Gone(_)) => {}
            Err(error) => drop(refused.get_or_insert(error)),
        }
    }
    refused.map_or(Ok(()), Err)
}

/// Returns the value in `cell`. Initializes `cell` with the result of `make` at the first use.
fn held_in<T>(cell: &OnceLock<T>, make: impl FnOnce() -> Result<T>) -> Result<&T> {
    match cell.get() {
        Some(held) => Ok(held),
        None => {
            let made = make()?;
            Ok(cell.get_or_init(|| made))
        }
    }
}

impl Thread {
    fn of(held: thread::Thread) -> Thread {
        Thread {
            held,
            meter: OnceLock::new(),
            process: OnceLock::new(),
            events: ThreadEvents::default(),
            children: None,
        }
    }

    fn process(&self) -> Result<&Process> {
        held_in(&self.process, || Process::open_as(self.held.identity()))
    }

    fn tid(&self) -> u32 {
        self.held.tid()
    }
}

/// The kernel of this host.
#[derive(Debug)]
pub struct Linux {
    births: Births,
    cpusets: Cpusets,
    sentinels: Option<Sentinels>,
    agents: AgentSets,
    /// Event set of the keeper, and the bell that ended loans ring.
    keeper: Option<(Arc<Waiting>, Arc<Bell>)>,
}

impl Linux {
    /// Returns a kernel without sentinels, for a process that restores threads but does not dispatch.
    /// [`Kernel::await_quiet`] has no effect.
    ///
    /// # Errors
    /// There is no /proc.
    pub fn new() -> Result<Linux> {
        Ok(Linux {
            births: Births::open()?,
            cpusets: Cpusets::open(),
            sentinels: None,
            agents: AgentSets::default(),
            keeper: None,
        })
    }

    /// Returns a kernel with sentinels and the event sets of the agents. The events of threads that wake agents are added
    /// to these sets. Fork events are added to the set of the `keeper`, as number `BIRTH`. Loans that end ring the bell of
    /// the `keeper`.
    ///
    /// # Errors
    /// There is no /proc.
    pub fn with(
        sentinels: Sentinels,
        waiting: impl IntoIterator<Item = (CpuId, Arc<Waiting>)>,
        keeper: Option<(Arc<Waiting>, Arc<Bell>)>,
    ) -> Result<Linux> {
        let (births, cpusets, agents) = (Births::open()?, Cpusets::open(), AgentSets::of(waiting));
        Ok(Linux { births, cpusets, sentinels: Some(sentinels), agents, keeper })
    }

    /// Number of a fork event in the event set of the keeper.
    pub const BIRTH: u64 = 1;
}

impl Kernel for Linux {
    type Thread = Thread;
    type Loan = Donor;
    type Freezer = Freezer;

    fn now(&self) -> Instant {
        clock::now()
    }

    fn open(&self, tid: u32) -> Result<Thread> {
        thread::Thread::open(tid).map(Thread::of)
    }

    fn open_as(&self, identity: Identity) -> Result<Thread> {
        thread::Thread::open_as(identity).map(Thread::of)
    }

    fn identity(&self, thread: &Thread) -> Identity {
        thread.held.identity()
    }

    fn threads(&self, pid: u32) -> Result<Vec<u32>> {
        thread::threads(pid)
    }

    fn parent(&self, pid: u32) -> Result<u32> {
        thread::parent(pid)
    }

    fn children(&self, pid: u32) -> Result<Vec<u32>> {
        thread::children(pid)
    }

    fn births(&self) -> Result<u64> {
        self.births.read()
    }

    fn status(&self, thread: &Thread) -> Result<Status> {
        thread.held.status()
    }

    fn owner(&self, thread: &Thread) -> Result<Owner> {
        thread.held.owner()
    }

    fn user(&self) -> u32 {
        sys::privileges::real_user()
    }

    fn realtime_limit(&self, thread: &Thread) -> Result<Option<Nanos>> {
        thread.held.realtime_limit()
    }

    fn process(&self, thread: &Thread) -> Result<u32> {
        thread.held.process()
    }

    fn usage(&self, thread: &Thread) -> Result<Usage> {
        held_in(&thread.meter, || thread.held.meter())?.read()
    }

    fn sleeps(&self, thread: &Thread) -> Result<u64> {
        thread.held.sleeps()
    }

    fn attributes(&self, thread: &Thread) -> Result<Attributes> {
        attributes::get(thread.tid())
    }

    fn nice(&self, thread: &Thread) -> Result<i32> {
        attributes::nice(thread.tid())
    }

    fn schedule(&self, thread: &Thread, wanted: Attributes) -> Result<()> {
        attributes::apply(thread.tid(), wanted)
    }

    fn slack(&self, thread: &Thread) -> Result<Nanos> {
        thread.held.slack()
    }

    fn set_slack(&self, thread: &Thread, slack: Nanos) -> Result<()> {
        thread.held.set_slack(slack)
    }

    fn begin_loan(&self, thread: &Thread) -> Result<Donor> {
        let Some((_, ended)) = &self.keeper else {
            let what = "a loan of a priority".to_string();
            let why = "this process does not dispatch".to_string();
            return Err(Error::Absent { what, why, remedy: "use the daemon" });
        };
        let donor = Donor::start(Arc::clone(ended))?;
        let tid = thread.tid();
        match donor.lend_to(tid) {
            // Linux 6.18 also answers ESRCH for a thread that executes a program just now.
            Err(Error::Gone(_)) if thread.held.is_there() => {
                return Err(Error::Busy { what: format!("lend a priority to thread {tid}") });
            }
            outcome => outcome?,
        }
        // The recipient was chosen by tid. This check succeeds only if the thread still exists, so the tid has not been
        // reused.
        thread.held.status()?;
        Ok(donor)
    }

    fn lend(&self, loan: &Donor, priority: Option<u32>) -> Result<()> {
        loan.set(priority)
    }

    fn is_lending(&self, loan: &Donor) -> bool {
        !loan.has_ended()
    }

    fn lower_all(&self, process: Identity) -> Result<()> {
        lower_all(process)
    }

    fn affinity(&self, thread: &Thread) -> Result<CpuSet> {
        affinity::get(thread.tid())
    }

    fn affinity_of(&self, tid: u32) -> Result<CpuSet> {
        affinity::get(tid)
    }

    fn cpuset(&self, thread: &Thread) -> Result<CpuSet> {
        let found = self.cpusets.of(thread.tid())?;
        // If the thread still exists, the cpuset was not that of a later thread with the same tid.
        thread.held.status()?;
        let cpus = found.map_or_else(cpus::online, |cpuset| Ok(cpuset.cpus))?;
        // While a CPU goes offline, the affinity lacks it before the cpuset does.
        Ok(cpus.minus(&affinity::inactive(thread.tid())?))
    }

    fn follow_cpuset(&self, thread: &Thread) -> Result<()> {
        affinity::follow_cpuset(thread.tid())
    }

    fn set_affinity(&self, thread: &Thread, cpus: &CpuSet) -> Result<()> {
        affinity::set(thread.tid(), cpus)
    }

    fn freezer_group(&self, leader: &Thread) -> Result<ControlGroup> {
        freezing::group_for(&leader.held)
    }

    fn share_group(&self, leader: &Thread, share: CpuShare) -> Result<ControlGroup> {
        shares::group_for(&leader.held, share)
    }

    fn set_share(&self, group: &Freezer, share: CpuShare) -> Result<()> {
        group.set_share(share)
    }

    fn open_freezer(&self, group: ControlGroup, leader: &Thread) -> Result<Freezer> {
        freezing::open(group, &leader.held)
    }

    fn join_freezer(&self, freezer: &Freezer, leader: &Thread) -> Result<Joined> {
        freezer.join(&leader.held)
    }

    fn freezer_processes(&self, freezer: &Freezer) -> Result<Vec<u32>> {
        freezer.processes()
    }

    fn is_freezing(&self, freezer: &Freezer) -> Result<bool> {
        freezer.is_freezing()
    }

    fn freeze(&self, freezer: &Freezer) -> Result<()> {
        freezer.freeze()
    }

    fn thaw(&self, freezer: &Freezer) -> Result<()> {
        freezer.thaw()
    }

    fn thaw_group(&self, group: ControlGroup) -> Result<()> {
        freezing::thaw(group)
    }

    fn remove_group(&self, group: ControlGroup) -> Result<()> {
        freezing::remove(group)
    }

    fn cont(&self, leader: &Thread) -> Result<()> {
        leader.process()?.cont()
    }

    fn await_entry(&self, thread: &mut Thread, cpu: CpuId, wanted: bool) -> Result<()> {
        let tid = thread.tid();
        let Thread { held, events, .. } = &mut *thread;
        let outcome = if wanted { events.await_arrival(held, &self.agents, cpu) } else { events.ignore_arrivals() };
        match outcome {
            Err(_) if !thread.held.is_there() => Err(Error::Gone(tid)),
            outcome => outcome,
        }
    }

    fn await_births(&self, thread: &mut Thread, cpu: CpuId) -> Result<Vec<u32>> {
        thread.events.open_wanted_timer(&thread.held, &self.agents, cpu)?;
        let Some((keeper, _)) = &self.keeper else { return Ok(Vec::new()) };
        let mut forked = Vec::new();
        if let Some((on, children)) = &mut thread.children {
            // The end of the thread is recorded, too.
            if !children.read_into(&mut forked) && *on == cpu {
                return Ok(forked);
            }
        }
        let has_ended = !thread.held.is_there();
        if let Some((on, _)) = &thread.children {
            if !has_ended && *on == cpu {
                return Ok(forked);
            }
            // Otherwise, the event set would report the ended thread forever. After a move to another CPU, the record
            // of the new CPU begins below.
            thread.children = None;
            if has_ended {
                return Ok(forked);
            }
        }
        if has_ended {
            return Err(Error::Gone(thread.tid()));
        }
        let children = Children::of_thread(thread.held.tid(), cpu)?;
        // The file was opened by tid. This check succeeds only if the thread still exists, so the tid has not been
        // reused.
        thread.held.status()?;
        keeper.add(&children, Linux::BIRTH)?;
        thread.children = Some((cpu, children));
        // Now, so that no agent opens the event of `await_entry`, which reports a failure.
        let _ = thread.events.listen(&thread.held, &self.agents, cpu);
        Ok(forked)
    }

    fn last_births(&self, thread: &mut Thread) -> Vec<u32> {
        let mut forked = Vec::new();
        if let Some((_, children)) = &mut thread.children {
            children.read_into(&mut forked);
        }
        forked
    }

    fn set_cpu_timer(&self, thread: &mut Thread, cpu: CpuId, time: Option<Nanos>) -> Result<()> {
        let outcome = match time {
            Some(time) => thread.events.set_timer(&thread.held, &self.agents, cpu, time),
            None => thread.events.clear_timer(),
        };
        match outcome {
            Err(_) if !thread.held.is_there() => Err(Error::Gone(thread.tid())),
            outcome => outcome,
        }
    }

    fn stop_waking(&self, thread: &mut Thread) {
        thread.events.withdraw(&self.agents);
    }

    fn await_quiet(&self, cpu: CpuId, wanted: bool) {
        if let Some(sentinels) = &self.sentinels {
            sentinels.await_quiet(cpu, wanted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sched::Nanos;
    use sys::child::{Child, Work};
    use sys::thread::State;

    const CPU: CpuId = CpuId::new(0);

    fn skips<T>(outcome: Result<T>) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(refused @ (Error::NotPermitted { .. } | Error::Absent { .. })) => {
                eprintln!("SKIPPED: {refused}");
                None
            }
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_thread_is_opened_watched_stopped_and_gone() {
        let kernel = Linux::new().unwrap();
        let births = kernel.births().unwrap();
        let child = Child::start(Work::Spin { busy: Nanos::us(200), idle: Nanos::us(200) }).unwrap();
        assert_ne!(kernel.births().unwrap(), births);
        let thread = kernel.open(child.pid()).unwrap();
        assert_eq!(kernel.identity(&kernel.open_as(kernel.identity(&thread)).unwrap()), kernel.identity(&thread));
        assert_eq!(
            (kernel.process(&thread).unwrap(), kernel.threads(child.pid()).unwrap()),
            (child.pid(), vec![child.pid()])
        );
        assert!(kernel.children(std::process::id()).unwrap().contains(&child.pid()));
        assert_eq!(kernel.status(&thread).unwrap().parent, std::process::id());
        let attributes = Attributes::of(attributes::Policy::Batch { nice: 7 });
        kernel.schedule(&thread, attributes).unwrap();
        assert_eq!(kernel.attributes(&thread).unwrap(), attributes);
        let cpus = CpuSet::one(kernel.affinity(&thread).unwrap().first().unwrap());
        kernel.set_affinity(&thread, &cpus).unwrap();
        assert_eq!(kernel.affinity(&thread).unwrap(), cpus);
        let ran = kernel.usage(&thread).unwrap().ran;
        while kernel.usage(&thread).unwrap().ran == ran {
            clock::sleep(Nanos::us(100));
        }
        child.process().stop().unwrap();
        while kernel.status(&thread).unwrap().state != State::Stopped {
            clock::sleep(Nanos::us(100));
        }
        kernel.cont(&thread).unwrap();
        drop(child);
        assert!(matches!(kernel.usage(&thread), Err(Error::Gone(_))));
        assert!(matches!(kernel.cont(&thread), Err(Error::Gone(_))));
    }

    #[test]
    fn a_sleeper_that_comes_is_told_of_while_it_is_awaited() {
        let kernel = Linux::new().unwrap();
        let child = Child::start(Work::Spin { busy: Nanos::us(100), idle: Nanos::ms(2) }).unwrap();
        let mut thread = kernel.open(child.pid()).unwrap();
        kernel.await_entry(&mut thread, CPU, false).unwrap();
        let waiting = Waiting::new().unwrap();
        let Some(events) = skips(thread.events.arrivals(&thread.held)) else { return };
        waiting.add(&*events, 1).unwrap();
        for _ in 0..20 {
            assert_eq!(waiting.next(clock::now() + Nanos::ms(5)).unwrap(), None, "it is not awaited");
            kernel.await_entry(&mut thread, CPU, true).unwrap();
            assert_eq!(waiting.next(clock::now() + Nanos::s(2)).unwrap(), Some(1));
            kernel.await_entry(&mut thread, CPU, false).unwrap();
            // The thread may run between the two calls: discard that event.
            let _ = waiting.next(Instant::ZERO).unwrap();
        }
        drop(child);
        assert_eq!(waiting.next(clock::now() + Nanos::s(2)).unwrap(), Some(1), "an ended thread stays readable");
        waiting.remove(&*thread.events.arrivals(&thread.held).unwrap()).unwrap();
        let mut another = kernel.open(std::process::id()).unwrap();
        assert!(matches!(kernel.open_as(kernel.identity(&thread)), Err(Error::Gone(_))));
        assert!(kernel.await_entry(&mut another, CPU, false).is_ok());
    }
}
