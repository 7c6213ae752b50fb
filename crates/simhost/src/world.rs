//! [`World`]: one host in virtual time, with the machine, its threads and processes, and pending events.

use crate::dice::Dice;
use crate::group::Group;
use crate::life::{Fault, Life};
use crate::masks::Masks;
use crate::setting::{DEFAULT_SLACK, Setting, params};
use crate::settings::{Lateness, Settings};
use crate::tasks::{Account, INIT, Place, Process, Tasks, Thread};
use sched::{CpuId, CpuSet, Instant, Nanos, Refused, State, Wake};
use sim::{Costs, Workload};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use sys::thread::{Identity, Owner};
use sys::usage::Usage;

/// Activity of other processes on this host, at instants that the implementation chooses.
pub trait Others {
    /// Returns the instant of the next activity; NEVER: no further activity.
    fn next(&self) -> Instant;

    /// Acts at the instant of [`next`](Others::next), or later.
    fn act(&mut self, world: &mut World);
}

/// A host in virtual time. Its behaviour depends only on its settings and on the calls of its methods.
pub struct World {
    pub(super) host: sim::Driver<'static>,
    pub(super) tasks: Tasks,
    pub(super) dice: Dice,
    lateness: Lateness,
    call: Nanos,
    pub(super) busy_in: u64,
    others: Option<Box<dyn Others>>,
    /// Tids of the actors whose processes are not reaped yet.
    pub(super) actors: Vec<u32>,
    pub(super) next_timer: Instant,
    /// Tids of the actors with due turns, in order.
    pub(super) turns: VecDeque<u32>,
    /// For each CPU with an agent: the pid of the daemon, the CPU, and the tids of the agent and the sentinel.
    pub(super) agents: Vec<(u32, CpuId, u32, u32)>,
    pub(super) lives: Vec<(u32, Arc<Life>)>,
    /// CPU time of ended threads, indexed by mark: the total, and the part at a priority that only Tactus sets.
    pub(super) ended: Vec<(Nanos, Nanos)>,
    /// Sum of the lateness of all timers.
    pub(super) late: Nanos,
    arrivals: Vec<u32>,
    /// For each awaited thread that has begun to run or has ended since: the pid of the daemon, the CPU, and the tid.
    pub(super) entered: Vec<(u32, CpuId, u32)>,
    /// Tids of the threads with a timer of their CPU time.
    pub(super) cpu_timers: Vec<u32>,
    /// Tids of the threads inside a fork.
    pub(super) forking: Vec<u32>,
    /// For each daemon: its pid, and the tid of the actor that is woken when a loan ends.
    pub(super) keepers: Vec<(u32, u32)>,
    /// Number of loans so far.
    pub(super) loans: u64,
    /// Freezer groups below the root, by number, and the number of groups so far.
    pub(super) groups: BTreeMap<u64, Group>,
    pub(super) groups_seen: u64,
    steps: u64,
    pub(super) record: Option<Vec<(Instant, String)>>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("now", &self.now()).field("tasks", &self.tasks).finish_non_exhaustive()
    }
}

impl World {
    /// Creates a host that has run for a second. Its only threads are init and a kernel thread.
    ///
    /// # Errors
    /// The policy does not support this host or these knobs.
    pub fn new(settings: &Settings) -> Result<World, Refused> {
        let mut knobs = settings.policy.defaults();
        for &(name, value) in &settings.knobs {
            knobs.set(name, value).map_err(|_| Refused::Unsupported {
                reason: "the policy has no such knob or value",
                remedy: "use a knob of the policy, within its range",
            })?;
        }
        let host = sim::Driver::new(settings.policy, sched::Topology::new(settings.cpus), &knobs, Costs::NONE)?;
        let mut world = World {
            host,
            tasks: Tasks::new(settings.numbers),
            dice: Dice::new(settings.seed),
            lateness: settings.lateness,
            call: settings.call,
            busy_in: settings.busy_in,
            others: None,
            actors: Vec::new(),
            next_timer: Instant::NEVER,
            turns: VecDeque::new(),
            agents: Vec::new(),
            lives: Vec::new(),
            ended: Vec::new(),
            late: Nanos::ZERO,
            arrivals: Vec::new(),
            entered: Vec::new(),
            cpu_timers: Vec::new(),
            forking: Vec::new(),
            keepers: Vec::new(),
            loans: 0,
            groups: BTreeMap::new(),
            groups_seen: 0,
            steps: 0,
            record: None,
        };
        world.host.run_until(Instant::at_ns(Nanos::s(1).as_ns()));
        for (name, is_kernel) in [("init", false), ("kthreadd", true)] {
            let root = Owner { real: 0, effective: 0 };
            let pid = world.start(name, root, Workload::Scripted).expect("the first numbers are free");
            world.tasks.processes.get_mut(&pid).expect("it was just begun").is_kernel = is_kernel;
        }
        Ok(world)
    }

    /// Returns the time of the monotonic clock.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.host.now()
    }

    /// Returns the number of decisions of the host so far.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Returns the CPUs of the host.
    #[must_use]
    pub fn cpus(&self) -> CpuSet {
        self.host.machine().topology().all()
    }

    /// Installs other activity on this host.
    pub fn let_act(&mut self, others: Box<dyn Others>) {
        self.others = Some(others);
    }

    /// Records all operations with their times from now on.
    pub fn record(&mut self) {
        self.record = Some(Vec::new());
    }

    /// Returns the recorded operations.
    #[must_use]
    pub fn recorded(&self) -> &[(Instant, String)] {
        self.record.as_deref().unwrap_or_default()
    }

    pub(super) fn note(&mut self, what: impl FnOnce() -> String) {
        let now = self.host.now();
        if let Some(record) = &mut self.record {
            record.push((now, what()));
        }
    }

    pub(super) fn lateness(&mut self) -> Nanos {
        let Lateness { most, rare, rare_in } = self.lateness;
        if rare_in > 0 && self.dice.one_in(rare_in) { rare } else { self.dice.between(Nanos::ZERO, most) }
    }

    // ---- Time ----

    /// Advances time until an actor has a turn, or to `end`.
    pub fn run_until(&mut self, end: Instant) -> Option<u32> {
        loop {
            if let Some(turn) = self.next_turn() {
                return Some(turn);
            }
            if !self.step(end) {
                return None;
            }
        }
    }

    /// Lets the duration of a call into the kernel pass, and handles the events in this time.
    pub(super) fn spend(&mut self) {
        let end = self.now() + self.dice.between(self.call.scale(1, 2), self.call);
        while self.step(end) {}
        self.end_births();
    }

    /// Handles the next event if the event is before `end`; otherwise advances to `end`. Returns whether an event was
    /// handled.
    fn step(&mut self, end: Instant) -> bool {
        let others = self.others.as_ref().map_or(Instant::NEVER, |others| others.next());
        let own = self.next_timer.min(self.next_cpu_timer()).min(others);
        let limit = end.min(own.max(self.now()));
        if limit > self.now() && self.host.step(limit) {
            self.steps += 1;
            self.observe();
            return true;
        }
        if limit >= end {
            return false;
        }
        if self.next_timer <= self.now() {
            self.ring_timers();
        }
        self.ring_cpu_timers();
        if others <= self.now()
            && let Some(mut others) = self.others.take()
        {
            others.act(self);
            self.others.get_or_insert(others);
        }
        true
    }

    /// Updates the accounts of all threads after a decision.
    fn observe(&mut self) {
        let now = self.host.now();
        let mut arrivals = std::mem::take(&mut self.arrivals);
        for at in 0..self.tasks.living.len() {
            let tid = self.tasks.living[at];
            let thread = self.tasks.thread(tid);
            let Some(entity) = thread.entity else { continue };
            let place = match self.host.machine().state(entity) {
                State::Blocked => Place::Away,
                State::Waiting => Place::Waiting,
                State::Running(cpu) => Place::On(cpu.index()),
            };
            if place == thread.account.place {
                continue;
            }
            thread.charge(now);
            thread.account.usage.waited += std::mem::take(&mut thread.account.waits);
            thread.account.sleeps += u64::from(place == Place::Away);
            thread.account.place = place;
            if let Place::On(cpu) = place {
                thread.account.usage.dispatches += 1;
                thread.account.cpu = cpu;
                arrivals.push(tid);
            }
        }
        for &tid in &arrivals {
            if self.tasks.get(tid).is_some() {
                self.arrived(tid);
            }
        }
        arrivals.clear();
        self.arrivals = arrivals;
        self.end_births();
    }

    // ---- Start and end ----

    pub(super) fn begin(
        &mut self,
        name: &str,
        process: Process,
        settings: (Setting, Setting),
        workload: Workload,
    ) -> Option<u32> {
        let tid = self.tasks.number(self.tick())?;
        let parent = process.parent;
        self.tasks.processes.insert(tid, process);
        if let Some(parent) = self.tasks.processes.get_mut(&parent) {
            parent.children.push(tid);
            parent.children.sort_unstable();
        }
        self.attach(tid, tid, name, settings, workload);
        Some(tid)
    }

    pub(super) fn tick(&self) -> u64 {
        self.now().as_ns() / super::tasks::TICK.as_ns()
    }

    pub(super) fn attach(
        &mut self,
        tid: u32,
        process: u32,
        name: &str,
        settings: (Setting, Setting),
        workload: Workload,
    ) {
        let (setting, untouched) = settings;
        let now = self.now();
        let params = params(&setting).expect("only what was accepted is inherited");
        let entity =
            self.host.attach(name, params, workload).expect("an ordinary or real-time thread is never refused");
        let usage = Usage { ran: Nanos::ZERO, waited: Nanos::ZERO, dispatches: 0 };
        let cpu = setting.affinity.first().map_or(0, CpuId::index);
        self.tasks.add(Thread {
            identity: Identity { tid, start_time: self.tick() },
            birth: self.tasks.seen,
            birth_begun: None,
            process,
            name: name.to_string(),
            setting,
            nice: setting.attributes.nice().unwrap_or(0),
            untouched,
            masks: Masks::NONE,
            lent: None,
            entity: Some(entity),
            slack: DEFAULT_SLACK,
            is_scripted: workload == Workload::Scripted,
            wants: false,
            awaited_by: None,
            cpu_timer: None,
            tag: None,
            actor: None,
            account: Account {
                usage,
                waits: Nanos::ZERO,
                raised: Nanos::ZERO,
                place: Place::Away,
                sleeps: 0,
                since: now,
                cpu,
            },
        });
    }

    /// Ends thread `tid`. The process ends with its last thread. The first thread of a process stays visible until the
    /// process is reaped.
    pub fn exit(&mut self, tid: u32) {
        self.note(|| format!("{tid} ends"));
        let Some(thread) = self.tasks.get_mut(tid) else { return };
        let (pid, entity) = (thread.process, thread.entity.take());
        if let Some(entity) = entity {
            let now = self.host.now();
            thread.charge(now);
            thread.account.place = Place::Away;
            let had = (thread.account.usage.ran, thread.account.raised);
            if let Some(ended) = thread.tag.and_then(|tag| self.ended.get_mut(tag)) {
                *ended = (ended.0 + had.0, ended.1 + had.1);
            }
            let awaited_by = thread.awaited_by;
            self.host.detach(entity);
            self.report_entry(tid, awaited_by);
        }
        if tid != pid {
            self.tasks.remove(tid);
        }
        let is_over = self.tasks.processes[&pid]
            .threads
            .iter()
            .all(|&tid| self.tasks.get(tid).is_none_or(|thread| thread.entity.is_none()));
        if is_over {
            self.end_process(pid);
        }
    }

    /// Kills process `pid` with all its threads (SIGKILL). A frozen process ends after the thaw.
    pub fn kill(&mut self, pid: u32) {
        let is_frozen = self.is_frozen(pid);
        let Some(process) = self.tasks.processes.get_mut(&pid) else { return };
        process.is_killed = is_frozen;
        if is_frozen {
            return;
        }
        for tid in process.threads.clone().into_iter().rev() {
            if self.tasks.get(tid).is_some_and(|thread| thread.entity.is_some()) {
                self.exit(tid);
            }
        }
    }

    fn end_process(&mut self, pid: u32) {
        let process = self.tasks.processes.get_mut(&pid).expect("its last thread has just ended");
        if std::mem::replace(&mut process.has_ended, true) {
            return;
        }
        let (parent, children) = (process.parent, std::mem::take(&mut process.children));
        if let Some((_, life)) = self.lives.iter().find(|(of, _)| *of == pid) {
            life.fail(Fault::Crash);
        }
        for child in children {
            let orphan = self.tasks.processes.get_mut(&child).expect("a child that is not reaped is there");
            (orphan.parent, orphan.is_orphan) = (INIT, true);
            let init = self.tasks.processes.get_mut(&INIT).expect("the first process never ends");
            init.children.push(child);
            init.children.sort_unstable();
            if self.tasks.processes[&child].has_ended {
                self.reap(child);
            }
        }
        if self.tasks.processes.get(&parent).is_none_or(|parent| parent.reaps) {
            self.reap(pid);
        }
    }

    /// Reaps process `pid`, which has ended.
    pub fn reap(&mut self, pid: u32) {
        let Some(process) = self.tasks.processes.get(&pid).filter(|process| process.has_ended) else { return };
        let parent = process.parent;
        if let Some(parent) = self.tasks.processes.get_mut(&parent) {
            parent.children.retain(|&child| child != pid);
        }
        self.tasks.remove(pid);
        self.tasks.processes.remove(&pid);
        self.actors.retain(|&actor| self.tasks.get(actor).is_some());
        self.agents.retain(|&(daemon, ..)| daemon != pid);
        self.entered.retain(|&(daemon, ..)| daemon != pid);
        self.keepers.retain(|&(daemon, _)| daemon != pid);
        self.lives.retain(|&(of, _)| of != pid);
        self.turns.retain(|&turn| self.tasks.get(turn).is_some());
    }

    // ---- Scripted threads ----

    /// Wakes the scripted thread `tid`.
    pub fn want(&mut self, tid: u32, why: Wake) {
        let thread = self.tasks.thread(tid);
        thread.wants = true;
        let (pid, entity) = (thread.process, thread.entity);
        if let Some(entity) = entity
            && !self.is_held(pid)
            && self.host.machine().state(entity) == State::Blocked
        {
            self.host.wake(entity, why);
        }
    }

    /// Blocks the scripted thread `tid`.
    pub fn block(&mut self, tid: u32) {
        self.tasks.thread(tid).wants = false;
        self.pause(tid);
        if let Some(entity) = self.tasks.thread(tid).entity {
            self.host.resume(entity);
        }
    }

    pub(super) fn pause(&mut self, tid: u32) {
        let now = self.host.now();
        let thread = self.tasks.thread(tid);
        if let Some(entity) = thread.entity {
            // The block takes effect at once, so that a wake-up at the same instant is not lost.
            thread.charge(now);
            thread.account.usage.waited += std::mem::take(&mut thread.account.waits);
            thread.account.sleeps += u64::from(thread.account.place != Place::Away);
            thread.account.place = Place::Away;
            self.host.pause(entity);
        }
    }

    pub(super) fn set_stopped(&mut self, pid: u32, is_stopped: bool) {
        let was_held = self.is_held(pid);
        let Some(process) = self.tasks.processes.get_mut(&pid).filter(|process| !process.is_kernel) else { return };
        process.is_stopped = is_stopped;
        self.hold(pid, was_held);
    }

    /// Applies a stop, a freeze or their end to the threads of process `pid`, which was held before if `was_held`.
    pub(super) fn hold(&mut self, pid: u32, was_held: bool) {
        let (is_held, is_frozen) = (self.is_held(pid), self.is_frozen(pid));
        let Some(process) = self.tasks.processes.get(&pid) else { return };
        if process.is_killed && !is_frozen {
            return self.kill(pid);
        }
        if is_held == was_held {
            return;
        }
        for tid in process.threads.clone() {
            if is_held {
                if !self.is_forking(tid) {
                    self.pause(tid);
                }
                continue;
            }
            let thread = self.tasks.thread(tid);
            let (wants, Some(entity)) = (thread.is_scripted && thread.wants, thread.entity) else { continue };
            // If the thread is not scripted, its workload decides whether it has work.
            self.host.resume(entity);
            if wants {
                self.want(tid, Wake::Resumed);
            }
        }
    }

    /// Applies the due faults. Kills each process that has crashed, and stops each process that hangs.
    pub fn apply_faults(&mut self) {
        let pids: Vec<u32> =
            self.lives.iter().filter(|(_, life)| life.fault().is_some()).map(|&(pid, _)| pid).collect();
        for pid in pids {
            let Some(process) = self.tasks.processes.get(&pid) else { continue };
            let fault = self.lives.iter().find(|&&(of, _)| of == pid).and_then(|(_, life)| life.fault());
            match fault {
                Some(Fault::Crash) if !process.has_ended => self.kill(pid),
                Some(Fault::Hang) if !process.is_stopped => self.set_stopped(pid, true),
                _ => {}
            }
        }
    }
}
