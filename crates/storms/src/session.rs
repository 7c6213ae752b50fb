//! [`Session`]: the daemon and the guardian on a simulated host. Every thread of both processes is an actor here, and a
//! real thread in `live`.

use crate::agreement::{changed_attributes, wrong_level, wrong_state};
use crate::changes::{Changes, Served};
use crate::finding::Finding;
use crate::guardians::Guardians;
use crate::options::{Options, Target};
use crate::policies::Policies;
use daemon::dispatch::{
    Admission, Dispatcher, Enclosure, PromiseRequest, RaiseBy, Refusal, Signals, begin_loans, enclose, ended, find,
    moved_threads, release_groups, scan,
};
use daemon::guardian::CHECK;
use daemon::kernel::{Kernel, priority};
use daemon::restore::{PATIENCE, restore_at_once};
use daemon::table::{Beating, Table};
use daemon::terms;
use sched::{CpuId, CpuSet, EntityId, Instant, Limit, Nanos};
use simhost::{Caller, Dice, Fault, Memory, SimulatedKernel};
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use sys::attributes::{Attributes, Policy};
use sys::thread::{Identity, Owner};

const ROOT: Owner = Owner { real: 0, effective: 0 };
const ROWS: usize = 128;
/// Intervals as in `live`: the agent's beat (`BEAT`), the keeper's scan (`SCAN`), and the keeper's watch over the
/// guardian (`WATCH`).
const BEAT: Nanos = Nanos::ms(100);
const SCAN: (Nanos, Nanos) = (Nanos::ms(1), Nanos::ms(100));
/// Interval in which Tactus must take at most `TURNS_MOST` turns. A client has at most a hundred periods in this
/// interval.
const CALM: Nanos = Nanos::ms(100);
const TURNS_MOST: u64 = 10_000;
const WATCH: Nanos = CHECK;
/// Number of threads adopted in one step. The number is smaller than in `live`, so that most adoptions take several
/// steps.
const AT_ONCE: usize = 2;

/// Maximum time for which a thread of a client waits for a loan while the daemon works.
const LOAN_MOST: Nanos = Nanos::ms(200);
/// Maximum time from a change of a served thread's affinity until the thread is served within it, or has left the
/// promise.
const FOLLOW_MOST: Nanos = Nanos::ms(200);
/// Interval between random decisions whether to dismiss a client. One in `LEAVING_IN` decisions dismisses a client.
const LEAVING: Nanos = Nanos::ms(30);
const LEAVING_IN: u64 = 10;

pub(super) struct Daemon {
    pub(super) caller: Caller,
    pub(super) dispatcher: Dispatcher<Caller>,
    /// How the threads of most clients are raised.
    by: RaiseBy,
    pub(super) table: Arc<Table>,
    agents: Vec<u32>,
    keeper: u32,
    pub(super) front: u32,
    births: Option<u64>,
    watched: Instant,
    shortest: Nanos,
    requests: VecDeque<(usize, u32, PromiseRequest)>,
    pub(super) served: Vec<Served>,
    pub(super) refused: u64,
    pub(super) is_over: bool,
    /// Threads that wait for a loan, with the instants at which the keeper first found them waiting.
    lacking: BTreeMap<Identity, Instant>,
    /// Served threads with other CPUs than they should have: the instant since when, and the affinity as it is and
    /// without Tactus.
    astray: BTreeMap<Identity, (Instant, (CpuSet, CpuSet))>,
    /// Number of changes of the affinity of served threads by other processes.
    pub(super) changes: u64,
    /// Number of threads that have left promises that continue for other threads.
    pub(super) departures: u64,
    /// Changes of promises; `None` in storms without changes.
    pub(super) adjusts: Option<Changes>,
    dice: Dice,
}

pub(super) struct Session {
    pub(super) host: SimulatedKernel,
    pub(super) daemon: Daemon,
    pub(super) guardians: Guardians,
    pub(super) turns: u64,
    /// CPU whose agent has just set the levels of its clients.
    levels_of: Option<CpuId>,
    /// Start of the current [`CALM`] interval, with the number of turns and the CPU time of Tactus up to this instant.
    calm: (Instant, u64, Nanos),
}

impl Session {
    /// Starts the daemon and the guardian.
    pub(super) fn new(
        host: SimulatedKernel,
        options: &Options,
        policies: &Policies,
        requests: Vec<(usize, u32, PromiseRequest)>,
    ) -> Session {
        let caller = host.begin("tactus", ROOT);
        let memory = Memory::new(Table::words(ROWS));
        let me = caller.open(caller.pid()).map(|thread| caller.identity(&thread)).expect("it has just begun");
        let table = Arc::new(Table::create(Box::new(caller.map(&memory)), "boot", me));
        let (policy, knobs) = (policies.daemon, terms::knobs(policies.daemon));
        let dispatcher = Dispatcher::new(caller.clone(), Arc::clone(&table), policy, &knobs, options.cpus);
        let dispatcher = dispatcher.expect("the policy works everywhere");
        let agents: Vec<u32> = (0..options.cpus).map(|cpu| caller.serve(CpuId::new(cpu))).collect();
        let everywhere = host.world().cpus();
        let keeper = caller.employ(Attributes::raised(priority::SENTINEL), everywhere);
        caller.report_ended_loans_to(keeper);
        let front = caller.employ(Attributes::of(Policy::Other { nice: 0 }), everywhere);
        let guardians = Guardians::begin(&host, memory);
        let daemon = Daemon {
            caller,
            dispatcher,
            by: options.by,
            table,
            agents,
            keeper,
            front,
            births: None,
            watched: Instant::ZERO,
            shortest: SCAN.1,
            requests: requests.into(),
            served: Vec::new(),
            refused: 0,
            is_over: false,
            lacking: BTreeMap::new(),
            astray: BTreeMap::new(),
            changes: 0,
            departures: 0,
            adjusts: options.adjusts.then(|| Changes::new(options)),
            dice: Dice::new(options.seed),
        };
        daemon.table.set_watched(daemon.agents.len());
        for &actor in daemon.agents.iter().chain([&daemon.keeper, &daemon.front]) {
            host.world_mut().ring(actor);
        }
        let calm = (Instant::ZERO, 0, Nanos::ZERO);
        Session { host, daemon, guardians, turns: 0, levels_of: None, calm }
    }

    /// Makes a process fail instead of performing act number `act`, counted from this call.
    pub(super) fn plan(&self, target: Target, fault: Fault, act: u64) {
        let caller = match target {
            Target::Daemon => &self.daemon.caller,
            Target::Guardian => &self.guardians.acting.caller,
        };
        caller.fails_at(caller.acts() + act, fault);
    }

    /// Advances time to `end` and executes all turns. Calls `look` after each turn, and returns early if `look` returns
    /// true.
    pub(super) fn run_until(
        &mut self,
        end: Instant,
        look: &mut dyn FnMut(&mut Session, u32) -> Result<bool, Finding>,
    ) -> Result<(), Finding> {
        while let Some(tid) = self.host.run_until(end) {
            self.turns += 1;
            let outcome = catch_unwind(AssertUnwindSafe(|| self.take(tid)));
            if let Err(panic) = outcome {
                let failed = self.guardians.caller_of(tid).unwrap_or(&self.daemon.caller).fault();
                // A failed process no longer has any effect, so its panics do not count.
                if failed.is_none() {
                    let what = panic.downcast_ref::<String>().cloned();
                    let what = what.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
                    return Err(Finding::new(&self.host, format!("a panic: {}", what.unwrap_or_default())));
                }
            }
            self.host.world_mut().end_turn(tid);
            self.is_calm()?;
            self.agrees()?;
            self.notice();
            if look(self, tid)? {
                return Ok(());
            }
        }
        self.notice();
        Ok(())
    }

    /// Checks that Tactus does not monopolize the CPUs.
    fn is_calm(&mut self) -> Result<(), Finding> {
        let world = self.host.world();
        let (since, turns, had) = self.calm;
        let (time, now) = (world.now().saturating_since(since), world.had_by_us());
        let used = now.saturating_sub(had);
        if time >= CALM {
            self.calm = (world.now(), self.turns, now);
        }
        if self.turns - turns > TURNS_MOST
            || (time >= CALM && used > time.saturating_mul(self.daemon.agents.len() as u64).scale(17, 20))
        {
            let turns = self.turns - turns;
            let what = format!("our own threads take {turns} turns and use {used} in {time}");
            drop(world);
            return Err(Finding::new(&self.host, what));
        }
        Ok(())
    }

    /// Checks that the dispatcher agrees with its machine.
    fn agrees(&mut self) -> Result<(), Finding> {
        let (daemon, cpu) = (&self.daemon, self.levels_of.take());
        if daemon.caller.fault().is_some() {
            return Ok(());
        }
        let (dispatcher, machine) = (&daemon.dispatcher, daemon.dispatcher.machine());
        let clients: Vec<EntityId> = daemon.served.iter().flat_map(|served| served.entities.iter().copied()).collect();
        if let Some(what) = changed_attributes(&self.host.world(), daemon.by) {
            return Err(Finding::new(&self.host, what));
        }
        let now = self.host.world().now();
        if let Some(tid) = daemon.without_loan_for_long(now) {
            return Err(Finding::new(&self.host, format!("thread {tid} has waited for a loan for over {LOAN_MOST}")));
        }
        let level = || cpu.and_then(|cpu| wrong_level(dispatcher, machine, &clients, cpu));
        let late = || daemon.adjusts.as_ref().and_then(|changes| changes.late_turn(&self.host.world()));
        let wrong = wrong_state(dispatcher, machine, &clients).or_else(level).or_else(late);
        match wrong.or_else(|| self.daemon.not_followed_for_long(&self.host)) {
            Some(what) => Err(Finding::new(&self.host, what)),
            None => Ok(()),
        }
    }

    fn notice(&mut self) {
        self.host.world_mut().apply_faults();
        self.guardians.notice(&self.host, &self.daemon.caller);
    }

    fn take(&mut self, tid: u32) {
        if self.guardians.caller_of(tid).is_some() {
            return self.guardians.turn(&self.host, &self.daemon.caller, tid);
        }
        let daemon = &mut self.daemon;
        if let Some(place) = daemon.agents.iter().position(|&agent| agent == tid) {
            let quiet = self.host.world_mut().take_quiet(tid);
            let entered = self.host.world_mut().take_entered(tid);
            let now = daemon.caller.now();
            let cpu = CpuId::new(place);
            let next = daemon.dispatcher.turn(cpu, Signals { quiet, entered });
            daemon.adjusts.iter_mut().for_each(|changes| changes.note_turn(cpu));
            // The dismissal of a client may change the state of the other clients after their levels are set. In that
            // case, the agent is woken again, and the levels are checked after that turn.
            self.levels_of = Some(cpu).filter(|_| self.guardians.is_guarded() && !next.call.contains(cpu));
            daemon.table.beat(Beating::Agent(cpu));
            daemon.call(&self.host, &next.call);
            self.host.world_mut().wake_at(tid, next.at.min(now.saturating_add(BEAT)));
        } else if tid == daemon.keeper {
            self.keep();
        } else if tid == daemon.front {
            daemon.admit(&self.host, self.guardians.is_guarded());
        }
    }

    // ---- The keeper ----

    fn keep(&mut self) {
        self.daemon.table.beat(Beating::Keeper);
        drop(self.daemon.dispatcher.take_former());
        let now = self.daemon.caller.now();
        let is_due = self.daemon.watched.saturating_add(WATCH) <= now;
        let daemon = &mut self.daemon;
        if is_due || !self.guardians.is_guarded() || self.guardians.takes_over {
            daemon.watched = now;
            let of_daemon = (&daemon.caller, &*daemon.table);
            let call = self.guardians.watch(&self.host, &mut daemon.dispatcher, of_daemon, now);
            daemon.call(&self.host, &call);
            daemon.follow_threads(&self.host);
        }
        let latest = daemon.caller.births().ok();
        if latest.is_none() || latest != daemon.births {
            daemon.births = latest;
            while daemon.dispatcher.await_further_births(AT_ONCE) {}
            for known in daemon.dispatcher.known() {
                let ended = ended(&daemon.caller, &known);
                daemon.dispatcher.forget_ended(known.tree, &ended);
                let mut found = find(&daemon.caller, &known).into_iter();
                loop {
                    let some: Vec<_> = found.by_ref().take(AT_ONCE).collect();
                    if some.is_empty() {
                        break;
                    }
                    match daemon.dispatcher.adopt(known.tree, some) {
                        Ok(call) => daemon.call(&self.host, &call),
                        Err(_) => daemon.refused += 1,
                    }
                }
            }
        }
        daemon.provide_loans(&self.host);
        let mut leaving = daemon.dispatcher.take_leaving();
        for (_, restoring) in &mut leaving {
            restoring.look(&daemon.caller, &daemon.table);
        }
        let again = daemon.dispatcher.keep_leaving(leaving);
        let looking = if daemon.lacking.is_empty() && !self.guardians.takes_over { daemon.shortest } else { SCAN.0 };
        let pause = looking.max(SCAN.0).min(SCAN.1).min(again.unwrap_or(WATCH)).min(WATCH);
        let at = daemon.caller.now().saturating_add(pause);
        self.host.world_mut().wake_at(daemon.keeper, at);
    }

    /// Ends the daemon in an orderly way.
    ///
    /// # Errors
    /// A check after a turn has failed.
    pub(super) fn end(&mut self) -> Result<(), Finding> {
        self.daemon.requests.clear();
        self.daemon.dispatcher.dismiss_all();
        let begin = self.host.world().now();
        let mut time = Nanos::ZERO;
        while self.daemon.dispatcher.has_leaving() && time < PATIENCE && self.daemon.caller.fault().is_none() {
            let end = self.host.world().now() + Nanos::ms(1);
            self.run_until(end, &mut |_, _| Ok(false))?;
            time = self.host.world().now().since(begin);
        }
        let restored = restore_at_once(&self.daemon.caller, &self.daemon.table);
        self.guardians.note_doubt(&self.host, &restored, time);
        self.daemon.table.finish();
        // From here on no thread is raised, and no agent needs to beat.
        self.daemon.table.set_watched(0);
        self.daemon.is_over = true;
        Ok(())
    }
}

impl Daemon {
    fn call(&self, host: &SimulatedKernel, cpus: &CpuSet) {
        if self.caller.fault().is_some() {
            return;
        }
        for cpu in cpus.iter() {
            if let Some(&agent) = self.agents.get(cpu.index()) {
                host.world_mut().ring(agent);
            }
        }
    }

    /// Follows the affinity of served threads, as `follow_threads` in `live`.
    fn follow_threads(&mut self, host: &SimulatedKernel) {
        let moved = moved_threads(&self.caller, &self.dispatcher.confined());
        for some in moved.chunks(AT_ONCE).chain([&[][..]]) {
            let (call, reasons) = self.dispatcher.follow(some);
            self.call(host, &call);
            self.departures += reasons.len() as u64;
        }
    }

    /// Returns a served thread that may not run on the CPU of its client, or may run on other CPUs, for too long.
    pub(super) fn not_followed_for_long(&mut self, host: &SimulatedKernel) -> Option<String> {
        let (world, now) = (host.world(), host.world().now());
        let mut astray = BTreeMap::new();
        // The tid of an ended thread may have been reused.
        let confined = self.dispatcher.confined();
        for (thread, cpu) in confined.into_iter().filter(|(thread, _)| world.is_there(*thread)) {
            let (Some(is), Some(untouched)) = (world.setting(thread.tid), world.untouched(thread.tid)) else {
                continue;
            };
            let masks = (is.affinity, untouched.affinity);
            if masks.0 == CpuSet::one(cpu) && (masks.1.contains(cpu) || world.is_ambiguous(thread.tid)) {
                continue;
            }
            // Each change by another process gives the daemon new time.
            let before = self.astray.get(&thread).filter(|(_, before)| *before == masks);
            self.changes += u64::from(before.is_none());
            astray.insert(thread, (before.map_or(now, |(since, _)| *since), masks));
        }
        self.astray = astray;
        let late = self.astray.iter().find(|(_, (since, _))| now > since.saturating_add(FOLLOW_MOST));
        late.map(|(thread, (_, (is, untouched)))| {
            let tid = thread.tid;
            format!(
                "thread {tid} is served on {is} for over {FOLLOW_MOST}, and would run on {untouched} without Tactus"
            )
        })
    }

    /// Begins the loans that threads wait for, as `Shared::provide_loans` in `live`.
    fn provide_loans(&mut self, host: &SimulatedKernel) {
        for some in self.dispatcher.without_loan().chunks(AT_ONCE) {
            let loans = begin_loans(&self.caller, some);
            let (call, _) = self.dispatcher.give_loans(loans);
            self.call(host, &call);
        }
        let (now, waiting) = (self.caller.now(), self.dispatcher.without_loan());
        self.lacking.retain(|identity, _| waiting.contains(identity));
        for identity in waiting {
            self.lacking.entry(identity).or_insert(now);
        }
    }

    /// Returns a thread that has waited for a loan for too long.
    fn without_loan_for_long(&self, now: Instant) -> Option<u32> {
        let is_late = |(_, since): &(&Identity, &Instant)| now > since.saturating_add(LOAN_MOST);
        self.lacking.iter().find(is_late).map(|(identity, _)| identity.tid)
    }

    /// Makes a promise, as `Control::admit` in `live`.
    fn promise(&mut self, request: &PromiseRequest, pid: u32) -> Result<(Vec<EntityId>, CpuSet), Refusal> {
        let ours = [self.caller.pid(), 1];
        let enclosure = match request.reservation.limit {
            Limit::Soft => Enclosure::none(),
            Limit::Hard => {
                self.dispatcher.check(request, pid, &ours, scan(&self.caller, pid).as_ref())?;
                enclose(&self.caller, &self.table, pid, &|| {})?
            }
        };
        let groups = enclosure.rows();
        let admit = || {
            let admitted = self.dispatcher.admit_scanned(request, pid, &ours, None, enclosure)?;
            let Admission { entities, tree, mut call } = admitted;
            while let Some(further) = self.dispatcher.adopt_further(tree, AT_ONCE)? {
                call = call.iter().chain(further.iter()).collect();
            }
            Ok((entities, call))
        };
        let answer = admit();
        answer.inspect_err(|_| release_groups(&self.caller, &self.table, &groups, &|| {}))
    }

    /// Admits the next client, and dismisses a client from time to time.
    fn admit(&mut self, host: &SimulatedKernel, is_guarded: bool) {
        if is_guarded && let Some((tag, pid, request)) = self.requests.pop_front() {
            match self.promise(&request, pid) {
                Ok((entities, call)) => {
                    self.shortest = self.shortest.min(request.reservation.period);
                    self.served.push(Served { entities, tag, request, changes: 0 });
                    self.call(host, &call);
                    while self.dispatcher.await_further_births(AT_ONCE) {}
                    self.provide_loans(host);
                    host.world_mut().ring(self.keeper);
                }
                Err(_) => self.refused += 1,
            }
        }
        let mut pause = Nanos::ms(3);
        if self.requests.is_empty() {
            pause = LEAVING;
            if let Some(changes) = &mut self.adjusts {
                let call = changes.step(&mut self.dispatcher, &mut self.served, host);
                self.call(host, &call);
            }
            let served: Vec<&Vec<EntityId>> = self.served.iter().map(|served| &served.entities).collect();
            if self.dice.one_in(LEAVING_IN)
                && let Some(entities) = self.dice.choose(&served)
            {
                let call: Vec<CpuSet> = entities.iter().map(|&e| self.dispatcher.dismiss(e)).collect();
                call.iter().for_each(|call| self.call(host, call));
                host.world_mut().ring(self.keeper);
            }
        }
        let at = self.caller.now().saturating_add(pause);
        host.world_mut().wake_at(self.front, at);
    }
}
