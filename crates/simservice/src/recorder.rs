//! [`Recorder`]: what the threads of the simulated host do, from the events of the run.

use crate::periods::Periods;
use crate::stretches::{PAST, Stretches};
use api::{CpuTime, Histogram};
use measure::{Doing, PeriodWatch};
use sched::{Action, CpuId, EntityId, Input, Instant, Nanos, Params};
use service::Bursts;
use std::collections::{BTreeMap, VecDeque};
use trace::{Durations, Event, Sink};

/// Pid of the first process. Smaller numbers would look like those of the real host's system processes.
const PID_FIRST: u32 = 1_001;

/// A thread of the simulated host: an entity of its machine.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) entity: EntityId,
    pub(crate) tid: u32,
    pub(crate) name: String,
    /// Owner of the thread; `None`: it belongs to no VM and no process of the scenario.
    pub(crate) owner: Option<usize>,
    params: Params,
    is_runnable: bool,
    on: Option<CpuId>,
    /// The CPU on which the thread runs, or has run last.
    pub(crate) cpu: CpuId,
    upto: Instant,
    pub(crate) time: CpuTime,
    pub(crate) bursts: Bursts,
    waiting_since: Option<Instant>,
    watch: Option<PeriodWatch>,
    /// Measurements of the reservation.
    pub(crate) periods: Periods,
}

impl Thread {
    fn doing(&self) -> Doing {
        match (self.on, self.is_runnable) {
            (Some(_), _) => Doing::Running,
            (None, true) => Doing::Waiting,
            (None, false) => Doing::Blocked,
        }
    }

    /// Accounts for the time since the last change.
    fn advance(&mut self, now: Instant) {
        let (doing, passed) = (self.doing(), now.saturating_since(self.upto).as_ns());
        match doing {
            Doing::Running => {
                self.time.ran_ns += passed;
                self.bursts.run(Nanos::ns(passed));
            }
            Doing::Waiting => self.time.waited_ns += passed,
            Doing::Blocked => {}
        }
        self.upto = now;
        if let Some(watch) = &mut self.watch {
            watch.advance(doing, now, &mut self.periods);
        }
    }

    /// Takes over new parameters. A changed reservation is measured anew.
    fn adjust(&mut self, params: &Params, now: Instant) {
        self.advance(now);
        if params.reservation != self.params.reservation {
            let is_blocked = self.doing() == Doing::Blocked;
            self.watch = params.reservation.map(|reservation| match self.params.reservation {
                Some(_) => PeriodWatch::changed(reservation, is_blocked, now),
                None => PeriodWatch::new(reservation, now),
            });
            self.periods = Periods::new(params.reservation);
        }
        self.params = *params;
    }
}

/// The waits of a thread during an observation, and its state at the start.
#[derive(Debug, Default)]
pub(crate) struct ObservedWaits {
    pub(crate) before: CpuTime,
    pub(crate) waits: Durations,
    pub(crate) histogram: Histogram,
    /// How long each thread ran while this thread waited, by tid; 0: the CPU was idle.
    pub(crate) instead: BTreeMap<u32, Nanos>,
}

/// The threads of an observation, by tid.
pub(crate) type Observed = BTreeMap<u32, ObservedWaits>;

/// The name of a thread, and its process.
#[derive(Clone, Debug)]
pub(crate) struct ThreadName {
    pub(crate) name: String,
    pub(crate) pid: u32,
    pub(crate) owner: Option<usize>,
}

/// An owner of threads: a VM or a process of the scenario.
#[derive(Debug)]
pub(crate) struct Owner {
    /// Name of the VM, of the task or of the application. The names of its threads follow from it.
    pub(crate) name: String,
    /// Pid, from the first thread on.
    pub(crate) pid: Option<u32>,
    /// Instant of the first thread.
    pub(crate) came: Instant,
    /// Number of present threads.
    pub(crate) threads: usize,
}

/// What the threads of the simulated host do, as a sink of its events.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// The present threads, by the index of the entity.
    threads: Vec<Option<Thread>>,
    pub(crate) owners: Vec<Owner>,
    by_name: BTreeMap<String, usize>,
    pub(crate) stretches: Stretches,
    /// Instant of the end, tid and name of the threads that have ended in the last [`PAST`].
    ended: VecDeque<(Instant, u32, ThreadName)>,
    /// The observations in progress, by number.
    observations: BTreeMap<u64, Observed>,
    next_observation: u64,
    next_tid: u32,
}

impl Recorder {
    /// Returns a recorder of a host with `cpus` CPUs, and owners with these names.
    pub(crate) fn new(cpus: usize, owners: impl Iterator<Item = String>) -> Recorder {
        let owner = |name| Owner { name, pid: None, came: Instant::ZERO, threads: 0 };
        let owners: Vec<Owner> = owners.map(owner).collect();
        let by_name = owners.iter().enumerate().map(|(index, owner)| (owner.name.clone(), index)).collect();
        Recorder {
            threads: Vec::new(),
            owners,
            by_name,
            stretches: Stretches::new(cpus),
            ended: VecDeque::new(),
            observations: BTreeMap::new(),
            next_observation: 0,
            next_tid: PID_FIRST,
        }
    }

    /// Returns the present threads.
    pub(crate) fn threads(&self) -> impl Iterator<Item = &Thread> {
        self.threads.iter().flatten()
    }

    /// Returns the present thread of an entity.
    pub(crate) fn thread(&self, entity: EntityId) -> Option<&Thread> {
        self.threads.get(entity.index())?.as_ref().filter(|thread| thread.entity == entity)
    }

    /// Accounts for all time until `now`, and forgets what is older than [`PAST`].
    pub(crate) fn advance(&mut self, now: Instant) {
        self.threads.iter_mut().flatten().for_each(|thread| thread.advance(now));
        self.stretches.forget(now);
        while self.ended.front().is_some_and(|(at, ..)| at.saturating_add(PAST) < now) {
            self.ended.pop_front();
        }
    }

    /// Returns the names of all threads that have run in the last [`PAST`], by tid.
    pub(crate) fn names(&self) -> BTreeMap<u32, ThreadName> {
        let present = self.threads().map(|thread| (thread.tid, self.name_of(thread)));
        self.ended.iter().map(|(_, tid, name)| (*tid, name.clone())).chain(present).collect()
    }

    fn name_of(&self, thread: &Thread) -> ThreadName {
        let pid = thread.owner.and_then(|owner| self.owners[owner].pid).unwrap_or(thread.tid);
        ThreadName { name: thread.name.clone(), pid, owner: thread.owner }
    }

    /// Begins to observe the threads of `owner`. Returns the number of the observation.
    pub(crate) fn observe(&mut self, owner: usize) -> u64 {
        let of_thread =
            |thread: &Thread| (thread.tid, ObservedWaits { before: thread.time, ..ObservedWaits::default() });
        let observed = self.threads().filter(|thread| thread.owner == Some(owner)).map(of_thread).collect();
        self.next_observation += 1;
        self.observations.insert(self.next_observation, observed);
        self.next_observation
    }

    /// Ends an observation.
    pub(crate) fn observed(&mut self, number: u64) -> Observed {
        self.observations.remove(&number).unwrap_or_default()
    }

    /// Returns the owner of a thread with this name: `vm/1` and `vhost-vm` belong to `vm`.
    fn owner_of(&self, name: &str) -> Option<usize> {
        let mut prefix = Some(name);
        while let Some(candidate) = prefix {
            if let Some(&owner) = self.by_name.get(candidate) {
                return Some(owner);
            }
            prefix = candidate.rsplit_once('/').map(|(prefix, _)| prefix);
        }
        let driver = ["emulator-", "vhost-", "iothread-"].iter().find_map(|kind| name.strip_prefix(kind))?;
        self.by_name.get(driver).copied()
    }

    fn attach(&mut self, entity: EntityId, name: &str, params: &Params, now: Instant) {
        let tid = self.next_tid;
        self.next_tid += 1;
        let owner = self.owner_of(name);
        if let Some(owner) = owner.map(|owner| &mut self.owners[owner]) {
            owner.threads += 1;
            if owner.pid.is_none() {
                (owner.pid, owner.came) = (Some(tid), now);
            }
        }
        if self.threads.len() <= entity.index() {
            self.threads.resize_with(entity.index() + 1, || None);
        }
        self.threads[entity.index()] = Some(Thread {
            entity,
            tid,
            name: name.to_string(),
            owner,
            params: *params,
            is_runnable: false,
            on: None,
            cpu: CpuId::new(0),
            upto: now,
            time: CpuTime::default(),
            bursts: Bursts::default(),
            waiting_since: None,
            watch: params.reservation.map(|reservation| PeriodWatch::new(reservation, now)),
            periods: Periods::new(params.reservation),
        });
    }

    fn detach(&mut self, entity: EntityId, now: Instant) {
        let Some(thread) = self.threads.get_mut(entity.index()).and_then(Option::take) else { return };
        let name = self.name_of(&thread);
        if let Some(cpu) = thread.on {
            self.stretches.stop(cpu, now);
        }
        if let Some(owner) = thread.owner {
            self.owners[owner].threads -= 1;
        }
        self.ended.push_back((now, thread.tid, name));
    }

    fn thread_mut(&mut self, entity: EntityId) -> Option<&mut Thread> {
        self.threads.get_mut(entity.index())?.as_mut().filter(|thread| thread.entity == entity)
    }

    fn on_cpu(&mut self, cpu: CpuId) -> Option<&mut Thread> {
        let entity = self.stretches.running(cpu)?;
        self.thread_mut(entity)
    }

    fn wake(&mut self, entity: EntityId, now: Instant) {
        if let Some(thread) = self.thread_mut(entity) {
            thread.advance(now);
            if !thread.is_runnable {
                thread.bursts.wake(now);
            }
            thread.is_runnable = true;
            thread.waiting_since = Some(now);
        }
    }

    fn run(&mut self, cpu: CpuId, entity: EntityId, now: Instant) {
        let Some(thread) = self.thread_mut(entity) else { return };
        thread.advance(now);
        (thread.on, thread.cpu) = (Some(cpu), cpu);
        thread.time.dispatches += 1;
        let (tid, since) = (thread.tid, thread.waiting_since.take());
        if let Some(since) = since {
            let stretches = &self.stretches;
            for observed in self.observations.values_mut().filter_map(|observed| observed.get_mut(&tid)) {
                let wait = now.saturating_since(since);
                observed.waits.record(wait);
                observed.histogram.record(wait.as_ns());
                stretches.add_to(&mut observed.instead, cpu, since, now);
            }
        }
        self.stretches.run(cpu, entity, tid, now);
    }

    fn stop(&mut self, cpu: CpuId, entity: EntityId, now: Instant) {
        self.stretches.stop(cpu, now);
        if let Some(thread) = self.thread_mut(entity) {
            thread.advance(now);
            thread.on = None;
            if thread.is_runnable {
                thread.waiting_since = Some(now);
            }
        }
    }

    fn block(thread: &mut Thread, now: Instant) {
        thread.advance(now);
        if thread.is_runnable {
            thread.bursts.sleep(now);
        }
        thread.is_runnable = false;
        thread.waiting_since = None;
    }
}

impl Sink for Recorder {
    fn record(&mut self, now: Instant, event: &Event) {
        match *event {
            Event::Action(Action::Run { cpu, entity, .. }) => self.run(cpu, entity, now),
            Event::Action(Action::Stop { cpu, entity }) => self.stop(cpu, entity, now),
            Event::Input(Input::Wake { entity, .. }) => self.wake(entity, now),
            Event::Input(Input::Block { cpu }) => {
                if let Some(thread) = self.on_cpu(cpu) {
                    Recorder::block(thread, now);
                }
            }
            Event::Input(Input::Pause { entity }) => {
                if let Some(thread) = self.thread_mut(entity) {
                    Recorder::block(thread, now);
                }
            }
            Event::Attach { entity, ref name, ref params } => self.attach(entity, name, params, now),
            Event::Adjust { entity, ref params } => {
                if let Some(thread) = self.thread_mut(entity) {
                    thread.adjust(params, now);
                }
            }
            Event::Detach { entity } => self.detach(entity, now),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_belong_to_the_vm_whose_name_theirs_begins_with() {
        let recorder = Recorder::new(1, ["web", "web/a", "db"].map(str::to_string).into_iter());
        for (name, owner) in [
            ("web", Some(0)),
            ("web/1", Some(0)),
            ("web/a/0", Some(1)),
            ("vhost-db", Some(2)),
            ("iothread-db", Some(2)),
            ("netback", None),
            ("webs", None),
        ] {
            assert_eq!(recorder.owner_of(name), owner, "{name}");
        }
    }

    #[test]
    fn a_thread_runs_waits_and_learns_what_ran_instead() {
        let mut recorder = Recorder::new(1, ["a", "b"].map(str::to_string).into_iter());
        let ids = [EntityId::new(0, 0), EntityId::new(1, 0)];
        let at = |ms: u64| Instant::ZERO + Nanos::ms(ms);
        let mut record = |ms: u64, event: Event| recorder.record(at(ms), &event);
        for (id, name) in ids.into_iter().zip(["a", "b"]) {
            record(0, Event::Attach { entity: id, name: name.into(), params: Box::default() });
            let why = sched::Wake::New { parent: None };
            record(0, Input::Wake { entity: id, why }.into());
        }
        let run = |entity| Event::from(Action::Run { cpu: CpuId::new(0), entity, until: Instant::NEVER });
        let stop = |entity| Event::from(Action::Stop { cpu: CpuId::new(0), entity });
        record(0, run(ids[0]));
        let number = recorder.observe(1);
        let mut record = |ms: u64, event: Event| recorder.record(at(ms), &event);
        record(6, stop(ids[0]));
        // The CPU is idle for 1 ms.
        record(7, run(ids[1]));
        recorder.advance(at(10));
        let observed = recorder.observed(number).remove(&1_002).unwrap();
        assert_eq!((observed.waits.count(), observed.waits.longest()), (1, Nanos::ms(7)));
        assert_eq!(observed.instead, BTreeMap::from([(0, Nanos::ms(1)), (1_001, Nanos::ms(6))]));
        let times: Vec<CpuTime> = recorder.threads().map(|it| it.time).collect();
        let time = |ran_ns, waited_ns| CpuTime { ran_ns, waited_ns, dispatches: 1 };
        assert_eq!(times, [time(6_000_000, 4_000_000), time(3_000_000, 7_000_000)]);
        recorder.record(at(10), &Event::Detach { entity: ids[1] });
        assert_eq!((recorder.owners[1].threads, recorder.names().len()), (0, 2));
        recorder.advance(at(2_011));
        assert_eq!(recorder.names().len(), 1);
    }
}
