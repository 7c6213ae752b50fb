//! [`Caller`]: the simulated [`Kernel`], as called by one process of Tactus.

use crate::group::{Freezer, ROOT};
use crate::life::{Life, Mapping, Memory};
use crate::loan::Loan;
use crate::setting::{Lent, Setting, params};
use crate::tasks::Process;
use crate::world::World;
use daemon::kernel::{CpuShare, Joined, Kernel};
use daemon::table::ControlGroup;
use sched::{CpuId, CpuSet, Instant, Nanos, State as Where};
use std::cell::{RefCell, RefMut};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use sys::attributes::{Attributes, Policy};
use sys::thread::{Identity, Owner, State, Status};
use sys::usage::Usage;
use sys::{Error, Result};

/// Error numbers from include/uapi/asm-generic/errno-base.h.
const EPERM: i32 = 1;
const EBUSY: i32 = 16;
const ENODEV: i32 = 19;
const EINVAL: i32 = 22;

/// A handle to a thread.
#[derive(Debug)]
pub struct Held {
    identity: Identity,
    birth: u64,
}

/// The kernel interface of one process of Tactus. Each call takes time, in which the world continues. After the process
/// has failed, its calls have no effect and return `Gone`.
#[derive(Clone, Debug)]
pub struct Caller {
    pub(super) world: Rc<RefCell<World>>,
    pub(super) pid: u32,
    pub(super) life: Arc<Life>,
}

fn refused(what: String) -> Error {
    let remedy = "choose a thread of this user, or run with CAP_SYS_NICE, in a control group with real-time runtime";
    Error::NotPermitted { what, source: io::Error::from_raw_os_error(EPERM), remedy }
}

fn senseless(what: String) -> Error {
    Error::Call { what, source: io::Error::from_raw_os_error(EINVAL) }
}

impl Caller {
    /// Returns the pid of the process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Maps `memory` into this process.
    #[must_use]
    pub fn map(&self, memory: &Memory) -> Mapping {
        memory.mapped(Arc::clone(&self.life))
    }

    /// Returns the number of calls and stores of the process so far.
    #[must_use]
    pub fn acts(&self) -> u64 {
        self.life.acts()
    }

    /// Begins a call, and lets its time pass. Fails if the process has failed.
    fn enter(&self) -> Result<RefMut<'_, World>> {
        let mut world = self.world.borrow_mut();
        if self.life.act() {
            world.spend();
        } else {
            world.apply_faults();
        }
        // The world continues during the call, and may end the process.
        if self.life.fault().is_some() { Err(Error::Gone(self.pid)) } else { Ok(world) }
    }

    /// Begins a call on `thread`. Fails if the process has failed or the thread has ended.
    fn enter_about(&self, thread: &Held) -> Result<RefMut<'_, World>> {
        let world = self.enter()?;
        let tid = thread.identity.tid;
        match world.tasks.get(tid) {
            Some(there) if there.birth == thread.birth => Ok(world),
            _ => Err(Error::Gone(tid)),
        }
    }

    /// Returns whether the caller may change `process`.
    fn may(&self, world: &World, process: &Process) -> bool {
        let me = &world.tasks.processes[&self.pid];
        let is_own = [process.owner.real, process.owner.effective].contains(&me.owner.effective);
        (is_own || me.is_privileged) && !process.refuses.all
    }

    fn process_of<'w>(world: &'w World, thread: &Held) -> &'w Process {
        world.tasks.process_of(thread.identity.tid).expect("it was just there")
    }

    /// Begins a call on the group of `freezer`.
    fn enter_group(&self, freezer: &Freezer) -> Result<RefMut<'_, World>> {
        let world = self.enter()?;
        let what = || format!("use group {}", freezer.0);
        let removed = || Error::Call { what: what(), source: io::Error::from_raw_os_error(ENODEV) };
        if world.groups.contains_key(&freezer.0) { Ok(world) } else { Err(removed()) }
    }

    fn set_frozen(&self, freezer: &Freezer, is_frozen: bool) -> Result<()> {
        let mut world = self.enter_group(freezer)?;
        let (by, number) = (self.pid, freezer.0);
        world.note(|| format!("{by} sets the freezer of group {number} to {is_frozen}"));
        world.set_group_frozen(number, is_frozen);
        Ok(())
    }

    /// Returns the number of a recorded group.
    fn number_of(&self, group: ControlGroup) -> Result<Option<u64>> {
        let (world, name) = (self.enter()?, group.name());
        Ok(world.groups.iter().rev().find(|(_, it)| Some(&it.name) == name.as_ref()).map(|(&number, _)| number))
    }

    fn held(world: &World, tid: u32) -> Result<Held> {
        let thread = world.tasks.get(tid).ok_or(Error::Gone(tid))?;
        Ok(Held { identity: thread.identity, birth: thread.birth })
    }
}

impl Kernel for Caller {
    type Thread = Held;
    type Loan = Loan;
    type Freezer = Freezer;

    fn now(&self) -> Instant {
        self.world.borrow().now()
    }

    fn open(&self, tid: u32) -> Result<Held> {
        Caller::held(&*self.enter()?, tid)
    }

    fn open_as(&self, identity: Identity) -> Result<Held> {
        let held = self.open(identity.tid)?;
        if held.identity == identity { Ok(held) } else { Err(Error::Gone(identity.tid)) }
    }

    fn identity(&self, thread: &Held) -> Identity {
        thread.identity
    }

    fn threads(&self, pid: u32) -> Result<Vec<u32>> {
        let world = self.enter()?;
        let process = world.tasks.process_of(pid).ok_or(Error::Gone(pid))?;
        Ok(process.threads.clone())
    }

    fn parent(&self, pid: u32) -> Result<u32> {
        self.status(&self.open(pid)?).map(|status| status.parent)
    }

    fn children(&self, pid: u32) -> Result<Vec<u32>> {
        let world = self.enter()?;
        let process = world.tasks.process_of(pid).ok_or(Error::Gone(pid))?;
        Ok(process.children.clone())
    }

    fn births(&self) -> Result<u64> {
        Ok(self.enter()?.tasks.births)
    }

    fn status(&self, thread: &Held) -> Result<Status> {
        let world = self.enter_about(thread)?;
        let there = world.tasks.get(thread.identity.tid).expect("it was just there");
        let process = Caller::process_of(&world, thread);
        let state = match there.entity {
            None => State::Dead,
            Some(entity) if there.birth_begun.is_some() => match world.host.machine().state(entity) {
                Where::Blocked => State::Uninterruptible,
                _ => State::Runnable,
            },
            // The freezer of version 1 is an uninterruptible sleep.
            Some(_) if world.is_frozen(there.process) => State::Uninterruptible,
            Some(_) if process.is_stopped => State::Stopped,
            Some(entity) if world.host.machine().state(entity) == Where::Blocked => State::Sleeping,
            Some(_) => State::Runnable,
        };
        Ok(Status {
            name: there.name.clone(),
            state,
            parent: process.parent,
            is_kernel: process.is_kernel,
            start_time: there.identity.start_time,
            cpu: there.account.cpu,
            priority: there.effective().priority(),
        })
    }

    fn owner(&self, thread: &Held) -> Result<Owner> {
        let world = self.enter_about(thread)?;
        Ok(Caller::process_of(&world, thread).owner)
    }

    fn user(&self) -> u32 {
        // A process that has crashed may be reaped already. Its calls have no effect.
        self.world.borrow().tasks.processes.get(&self.pid).map_or(0, |process| process.owner.real)
    }

    fn realtime_limit(&self, thread: &Held) -> Result<Option<Nanos>> {
        // The simulated kernel has no limits.
        self.enter_about(thread).map(|_| None)
    }

    fn process(&self, thread: &Held) -> Result<u32> {
        let world = self.enter_about(thread)?;
        Ok(world.tasks.get(thread.identity.tid).expect("it was just there").process)
    }

    fn usage(&self, thread: &Held) -> Result<Usage> {
        let mut world = self.enter_about(thread)?;
        let now = world.now();
        let there = world.tasks.thread(thread.identity.tid);
        there.charge(now);
        Ok(there.account.usage)
    }

    fn sleeps(&self, thread: &Held) -> Result<u64> {
        let world = self.enter_about(thread)?;
        Ok(world.tasks.get(thread.identity.tid).expect("it was just there").account.sleeps)
    }

    fn attributes(&self, thread: &Held) -> Result<Attributes> {
        let world = self.enter_about(thread)?;
        Ok(world.tasks.get(thread.identity.tid).expect("it was just there").setting.attributes)
    }

    fn nice(&self, thread: &Held) -> Result<i32> {
        let world = self.enter_about(thread)?;
        Ok(world.tasks.get(thread.identity.tid).expect("it was just there").nice)
    }

    fn schedule(&self, thread: &Held, wanted: Attributes) -> Result<()> {
        let mut world = self.enter_about(thread)?;
        let tid = thread.identity.tid;
        let what = || format!("schedule thread {tid} as {wanted}");
        let process = Caller::process_of(&world, thread);
        let is_real_time =
            matches!(wanted.policy, Policy::Fifo { .. } | Policy::RoundRobin { .. } | Policy::Deadline { .. });
        let lacks = is_real_time && (process.refuses.real_time || !world.tasks.processes[&self.pid].is_privileged);
        let setting = world.tasks.get(tid).expect("it was just there").setting;
        // Custom time slices need Linux 6.12. The simulated kernel is older.
        let setting = Setting { attributes: Attributes { slice: None, ..wanted }, ..setting };
        if !self.may(&world, process) || lacks {
            return Err(refused(what()));
        }
        if params(&setting).is_none() {
            let remedy = "use a class that this kernel supports";
            return Err(Error::NotPermitted { what: what(), source: io::Error::from_raw_os_error(EINVAL), remedy });
        }
        let by = self.pid;
        let is_reserved = matches!(wanted.policy, Policy::Deadline { .. });
        if is_reserved && !world.cpus().minus(&setting.affinity).is_empty() {
            return Err(refused(what()));
        }
        world.note(|| format!("{by} makes {tid} {wanted}"));
        world.try_set(tid, setting).map_err(|_| {
            let remedy = "reduce the runtime per period: SCHED_DEADLINE has reserved too much already";
            Error::NotPermitted { what: what(), source: io::Error::from_raw_os_error(EBUSY), remedy }
        })
    }

    fn slack(&self, thread: &Held) -> Result<Nanos> {
        let world = self.enter_about(thread)?;
        Ok(world.tasks.get(thread.identity.tid).expect("it was just there").slack)
    }

    fn set_slack(&self, thread: &Held, slack: Nanos) -> Result<()> {
        self.enter_about(thread)?.set_slack(thread.identity.tid, slack);
        Ok(())
    }

    fn begin_loan(&self, thread: &Held) -> Result<Loan> {
        let mut world = self.enter_about(thread)?;
        let (tid, by) = (thread.identity.tid, self.pid);
        if Caller::process_of(&world, thread).is_kernel {
            return Err(refused(format!("lend a priority to thread {tid}")));
        }
        if world.tasks.get(tid).is_none_or(|there| there.entity.is_none()) {
            return Err(Error::Gone(tid));
        }
        let busy_in = world.busy_in;
        if busy_in > 0 && world.dice.one_in(busy_in) {
            return Err(Error::Busy { what: format!("lend a priority to thread {tid}") });
        }
        world.loans += 1;
        let number = world.loans;
        world.note(|| format!("{by} begins loan {number} to {tid}"));
        world.set_lent(tid, Some(Lent { number, by, priority: None }));
        Ok(Loan { world: Rc::clone(&self.world), to: (tid, thread.birth), number, life: Arc::clone(&self.life) })
    }

    fn lend(&self, loan: &Loan, priority: Option<u32>) -> Result<()> {
        let mut world = self.enter()?;
        let (tid, number, by) = (loan.to.0, loan.number, self.pid);
        if priority.is_some() && !world.tasks.processes[&by].is_privileged {
            return Err(refused(format!("lend a priority to thread {tid}")));
        }
        if let Some(lent) = world.lent(loan.to, number) {
            world.note(|| format!("{by} lends {tid} priority {priority:?}"));
            world.set_lent(tid, Some(Lent { priority, ..lent }));
        }
        Ok(())
    }

    fn is_lending(&self, loan: &Loan) -> bool {
        self.world.borrow().lent(loan.to, loan.number).is_some()
    }

    fn lower_all(&self, process: Identity) -> Result<()> {
        let mut world = self.enter()?;
        let by = self.pid;
        world.note(|| format!("{by} lowers all threads of {}", process.tid));
        world.stop_lending(process.tid);
        Ok(())
    }

    fn affinity(&self, thread: &Held) -> Result<CpuSet> {
        let mut world = self.enter_about(thread)?;
        Ok(world.show_affinity(thread.identity.tid).expect("it was just there"))
    }

    fn affinity_of(&self, tid: u32) -> Result<CpuSet> {
        let mut world = self.enter()?;
        world.show_affinity(tid).ok_or(Error::Gone(tid))
    }

    fn cpuset(&self, thread: &Held) -> Result<CpuSet> {
        let world = self.enter_about(thread)?;
        Ok(Caller::process_of(&world, thread).cpuset)
    }

    fn follow_cpuset(&self, thread: &Held) -> Result<()> {
        let mut world = self.enter_about(thread)?;
        let tid = thread.identity.tid;
        let process = Caller::process_of(&world, thread);
        if !self.may(&world, process) || process.refuses.affinity || process.is_kernel {
            return Err(refused(format!("run thread {tid} on all CPUs of its cpuset")));
        }
        let by = self.pid;
        world.note(|| format!("{by} lets {tid} run on its cpuset"));
        let masks = &mut world.tasks.thread(tid).masks;
        masks.is = CpuSet::ALL;
        masks.confined = masks.confined.map(|_| CpuSet::ALL);
        world.apply_cpuset(tid);
        Ok(())
    }

    fn set_affinity(&self, thread: &Held, cpus: &CpuSet) -> Result<()> {
        let mut world = self.enter_about(thread)?;
        let tid = thread.identity.tid;
        let what = || format!("run thread {tid} on CPUs {cpus}");
        let process = Caller::process_of(&world, thread);
        if !self.may(&world, process) || process.refuses.affinity {
            return Err(refused(what()));
        }
        let affinity = process.cpuset.and(cpus);
        // The thread is a kernel thread that is bound to its CPU, or its cpuset has none of these CPUs.
        if process.is_kernel || affinity.is_empty() {
            return Err(senseless(what()));
        }
        let by = self.pid;
        world.note(|| format!("{by} lets {tid} run on {affinity}"));
        let masks = &mut world.tasks.thread(tid).masks;
        (masks.is, masks.is_set, masks.confined) = (*cpus, true, Some(affinity));
        world.apply_cpuset(tid);
        if affinity == *cpus {
            return Ok(());
        }
        let remedy = "choose CPUs that are online and in its cpuset";
        Err(Error::NotKept { what: what(), kept: format!("CPUs {affinity}"), remedy })
    }

    fn freezer_group(&self, leader: &Held) -> Result<ControlGroup> {
        self.enter_about(leader).map(|_| ControlGroup::Own { first: leader.identity })
    }

    fn share_group(&self, leader: &Held, _: CpuShare) -> Result<ControlGroup> {
        let tid = self.enter_about(leader).map(|_| leader.identity.tid)?;
        let (what, why) = (format!("a share for process {tid}"), "this kernel has no cpu controller".to_string());
        Err(Error::Absent { what, why, remedy: "use a real host" })
    }

    fn set_share(&self, group: &Freezer, _: CpuShare) -> Result<()> {
        self.enter_group(group)?;
        Err(senseless(format!("set the share of freezer group {}", group.0)))
    }

    fn open_freezer(&self, group: ControlGroup, leader: &Held) -> Result<Freezer> {
        let mut world = self.enter_about(leader)?;
        let parent = Caller::process_of(&world, leader).group;
        let name = group.name().expect("this kernel has only version 1");
        let (by, number) = (self.pid, world.create_group(parent, &name));
        world.note(|| format!("{by} makes group {number}, {name}, below {parent}"));
        Ok(Freezer(number))
    }

    fn join_freezer(&self, freezer: &Freezer, leader: &Held) -> Result<Joined> {
        drop(self.enter_about(leader)?);
        let mut world = self.enter_group(freezer)?;
        let (pid, number, busy_in) = (leader.identity.tid, freezer.0, world.busy_in);
        let Some(process) = world.tasks.processes.get(&pid) else { return Err(Error::Gone(pid)) };
        if world.is_within(process.group, number) {
            return Ok(Joined::Already);
        }
        if process.group != world.groups[&number].parent {
            return Ok(Joined::Elsewhere);
        }
        if !self.may(&world, process) {
            return Err(refused(format!("move process {pid} into group {number}")));
        }
        if busy_in > 0 && world.dice.one_in(busy_in) {
            return Err(Error::Busy { what: format!("move process {pid} into group {number}") });
        }
        let by = self.pid;
        world.note(|| format!("{by} moves {pid} into group {number}"));
        world.set_group(pid, number);
        Ok(Joined::Moved)
    }

    fn freezer_processes(&self, freezer: &Freezer) -> Result<Vec<u32>> {
        Ok(self.enter_group(freezer)?.processes_in(freezer.0))
    }

    fn is_freezing(&self, _: &Freezer) -> Result<bool> {
        Ok(false)
    }

    fn freeze(&self, freezer: &Freezer) -> Result<()> {
        self.set_frozen(freezer, true)
    }

    fn thaw(&self, freezer: &Freezer) -> Result<()> {
        self.set_frozen(freezer, false)
    }

    fn thaw_group(&self, group: ControlGroup) -> Result<()> {
        self.number_of(group)?.map_or(Ok(()), |number| self.set_frozen(&Freezer(number), false))
    }

    fn remove_group(&self, group: ControlGroup) -> Result<()> {
        let Some(number) = self.number_of(group)? else { return Ok(()) };
        self.set_frozen(&Freezer(number), false)?;
        // Each move and the removal is a call of its own. A process may fork in between.
        loop {
            let inside = self.freezer_processes(&Freezer(number))?;
            for pid in inside {
                let mut world = self.enter()?;
                let by = self.pid;
                if world.tasks.processes.get(&pid).is_some_and(|process| process.group == number) {
                    let parent = world.groups.get(&number).map_or(ROOT, |group| group.parent);
                    world.note(|| format!("{by} moves {pid} back to group {parent}"));
                    world.set_group(pid, parent);
                }
            }
            let mut world = self.enter()?;
            if world.groups.values().any(|group| group.parent == number) {
                return Err(senseless(format!("remove group {number}, which has groups below")));
            }
            if world.remove_group(number) {
                return Ok(());
            }
        }
    }

    fn cont(&self, leader: &Held) -> Result<()> {
        let mut world = self.enter_about(leader)?;
        let pid = leader.identity.tid;
        if !self.may(&world, Caller::process_of(&world, leader)) {
            return Err(refused(format!("continue process {pid}")));
        }
        let by = self.pid;
        world.note(|| format!("{by} continues {pid}"));
        world.set_stopped(pid, false);
        Ok(())
    }

    fn await_entry(&self, thread: &mut Held, cpu: CpuId, wanted: bool) -> Result<()> {
        let mut world = self.enter_about(thread)?;
        world.tasks.thread(thread.identity.tid).awaited_by = wanted.then_some((self.pid, cpu));
        Ok(())
    }

    fn set_cpu_timer(&self, thread: &mut Held, cpu: CpuId, time: Option<Nanos>) -> Result<()> {
        let mut world = self.enter_about(thread)?;
        world.set_cpu_timer(thread.identity.tid, time.map(|time| (self.pid, cpu, time)));
        Ok(())
    }

    fn await_quiet(&self, cpu: CpuId, wanted: bool) {
        if let Ok(mut world) = self.enter() {
            world.await_quiet(self.pid, cpu, wanted);
        }
    }
}
