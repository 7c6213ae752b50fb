//! [`Session`]: the daemon and the guardian on a simulated host. Every thread of both processes is an actor here, and a
//! real thread in `live`.

use crate::agreement::{changed_attributes, wrong_level, wrong_state};
use crate::changes::{Changes, Served};
use crate::finding::Finding;
use crate::options::{Options, Target};
use crate::policies::Policies;
use daemon::dispatch::{
    Dispatcher, Enclosure, PromiseRequest, Refusal, Signals, begin_loans, enclose, ended, find, moved_threads,
    release_groups, scan,
};
use daemon::guardian::{DaemonState, INTERVAL, Pulse, Verdict, Watch};
use daemon::kernel::{Kernel, priority};
use daemon::restore::{PATIENCE, Restored, Restoring, end_loans, restore_at_once};
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
const WATCH: Nanos = Nanos::ms(50);
/// Number of threads adopted in one step. The number is smaller than in `live`, so that most adoptions take several
/// steps.
const AT_ONCE: usize = 2;

/// Maximum time for which a thread of a client waits for a loan while the daemon works.
const LOAN_MOST: Nanos = Nanos::ms(200);
/// Maximum time from a change of a served thread's affinity until the thread is served within it, or has left the
/// promise.
const FOLLOW_MOST: Nanos = Nanos::ms(200);
/// Minimum time for which a restoration scans for forks before the restoration may report unsure threads.
const DOUBT_LEAST: Nanos = Nanos::ms(200);
/// Interval between random decisions whether to dismiss a client. One in `LEAVING_IN` decisions dismisses a client.
const LEAVING: Nanos = Nanos::ms(30);
const LEAVING_IN: u64 = 10;

pub(super) struct Daemon {
    pub(super) caller: Caller,
    pub(super) dispatcher: Dispatcher<Caller>,
    table: Arc<Table>,
    agents: Vec<u32>,
    keeper: u32,
    pub(super) front: u32,
    births: Option<u64>,
    watched: Instant,
    pulse: Option<Pulse>,
    /// Number of guardian beats at the start of the newest guardian; `None` once the daemon has observed a further
    /// beat.
    awaits: Option<u64>,
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

pub(super) struct Guardian {
    pub(super) caller: Caller,
    actor: u32,
    identity: Identity,
    table: Table,
    watch: Watch,
    was_rung: bool,
    /// Restoration in progress, which scans for new children.
    restoring: Option<Restoring>,
    pub(super) is_over: bool,
}

/// Doubt at the end of a restoration.
#[derive(Default)]
pub(super) struct Doubt {
    /// Threads that may have been inside a fork at the end of the restoration.
    pub(super) unsure: Vec<Identity>,
    /// Number of threads that had appeared by the end of the restoration.
    pub(super) seen: u64,
}

pub(super) struct Session {
    pub(super) host: SimulatedKernel,
    memory: Memory,
    pub(super) daemon: Daemon,
    pub(super) guardian: Guardian,
    pub(super) guardians: u32,
    pub(super) turns: u64,
    pub(super) doubt: Doubt,
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
        let dispatcher = Dispatcher::new(caller.clone(), Arc::clone(&table), policy, &knobs, options.cpus, options.by);
        let dispatcher = dispatcher.expect("the policy works everywhere");
        let agents: Vec<u32> = (0..options.cpus).map(|cpu| caller.serve(CpuId::new(cpu))).collect();
        let everywhere = host.world().cpus();
        let keeper = caller.employ(Attributes::raised(priority::SENTINEL), everywhere);
        caller.report_ended_loans_to(keeper);
        let front = caller.employ(Attributes::of(Policy::Other { nice: 0 }), everywhere);
        let guardian = Guardian::begin(&host, &memory, everywhere);
        let daemon = Daemon {
            caller,
            dispatcher,
            table,
            agents,
            keeper,
            front,
            births: None,
            watched: Instant::ZERO,
            pulse: None,
            awaits: Some(0),
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
        let (doubt, calm) = (Doubt::default(), (Instant::ZERO, 0, Nanos::ZERO));
        Session { host, memory, daemon, guardian, guardians: 1, turns: 0, doubt, levels_of: None, calm }
    }

    /// Makes a process fail instead of performing act number `act`, counted from this call.
    pub(super) fn plan(&self, target: Target, fault: Fault, act: u64) {
        let caller = match target {
            Target::Daemon => &self.daemon.caller,
            Target::Guardian => &self.guardian.caller,
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
                let failed =
                    if tid == self.guardian.actor { self.guardian.caller.fault() } else { self.daemon.caller.fault() };
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

    /// Checks that Tactus does not monopolize a CPU.
    fn is_calm(&mut self) -> Result<(), Finding> {
        let world = self.host.world();
        let (since, turns, had) = self.calm;
        let (time, now) = (world.now().saturating_since(since), world.had_by_us());
        let used = now.saturating_sub(had);
        if time >= CALM {
            self.calm = (world.now(), self.turns, now);
        }
        if self.turns - turns > TURNS_MOST || (time >= CALM && used > time.scale(17, 20)) {
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
        let clients: Vec<EntityId> = daemon.served.iter().map(|served| served.entity).collect();
        if let Some(what) = changed_attributes(&self.host.world(), dispatcher.raises_by()) {
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

    /// Wakes the guardian when the daemon ends, because the guardian holds a pidfd of the daemon.
    fn notice(&mut self) {
        self.host.world_mut().apply_faults();
        let has_ended = self.daemon.caller.has_ended();
        if has_ended && !std::mem::replace(&mut self.guardian.was_rung, true) {
            self.host.world_mut().ring(self.guardian.actor);
        }
    }

    fn take(&mut self, tid: u32) {
        if tid == self.guardian.actor {
            return self.guard();
        }
        let daemon = &mut self.daemon;
        if let Some(place) = daemon.agents.iter().position(|&agent| agent == tid) {
            let quiet = self.host.world_mut().take_quiet(tid);
            let now = daemon.caller.now();
            let cpu = CpuId::new(place);
            let next = daemon.dispatcher.turn(cpu, Signals { quiet });
            daemon.adjusts.iter_mut().for_each(|changes| changes.note_turn(cpu));
            // The dismissal of a client may change the state of the other clients after their levels are set. In that
            // case, the agent is woken again, and the levels are checked after that turn.
            self.levels_of = Some(cpu).filter(|_| daemon.is_guarded() && !next.call.contains(cpu));
            daemon.table.beat(Beating::Agent(cpu));
            daemon.call(&self.host, &next.call);
            self.host.world_mut().wake_at(tid, next.at.min(now.saturating_add(BEAT)));
        } else if tid == daemon.keeper {
            self.keep();
        } else if tid == daemon.front {
            daemon.admit(&self.host);
        }
    }

    // ---- The keeper ----

    fn keep(&mut self) {
        self.daemon.table.beat(Beating::Keeper);
        let now = self.daemon.caller.now();
        if self.daemon.watched.saturating_add(WATCH) <= now || self.daemon.awaits.is_some() {
            self.daemon.watched = now;
            self.watch(now);
            self.daemon.follow_threads(&self.host);
        }
        let daemon = &mut self.daemon;
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
        let looking = if daemon.lacking.is_empty() { daemon.shortest } else { SCAN.0 };
        let pause = looking.max(SCAN.0).min(SCAN.1).min(again.unwrap_or(WATCH)).min(WATCH);
        let at = daemon.caller.now().saturating_add(pause);
        self.host.world_mut().wake_at(daemon.keeper, at);
    }

    fn watch(&mut self, now: Instant) {
        let daemon = &mut self.daemon;
        if let Some(before) = daemon.awaits {
            let begins = daemon.table.guardian() == Some(self.guardian.identity)
                && daemon.table.beats(Beating::Guardian) != before;
            if begins {
                daemon.awaits = None;
                daemon.pulse = Some(Pulse::begin(&daemon.table, now));
                let call = daemon.dispatcher.resume();
                daemon.call(&self.host, &call);
            }
            return;
        }
        let has_ended = self.guardian.caller.has_ended();
        let is_felt = daemon.pulse.as_mut().is_some_and(|pulse| pulse.is_felt(&daemon.table, now));
        if is_felt && !has_ended {
            return;
        }
        daemon.dispatcher.suspend();
        if daemon.caller.fault().is_some() {
            return;
        }
        if !has_ended {
            self.host.world_mut().kill(self.guardian.caller.pid());
        }
        daemon.awaits = Some(daemon.table.beats(Beating::Guardian));
        let everywhere = self.host.world().cpus();
        self.guardian = Guardian::begin(&self.host, &self.memory, everywhere);
        self.guardians += 1;
    }

    // ---- The guardian ----

    fn guard(&mut self) {
        let guardian = &mut self.guardian;
        if guardian.is_over {
            return;
        }
        let pid = self.daemon.caller.pid();
        if let Some(mut restoring) = guardian.restoring.take() {
            restoring.look(&guardian.caller, &guardian.table);
            return self.go_on_restoring(restoring);
        }
        if guardian.table.guardian() != Some(guardian.identity) {
            guardian.table.set_guardian(guardian.identity);
        }
        let state = if self.daemon.caller.has_ended() { DaemonState::HasEnded } else { DaemonState::Lives };
        match guardian.watch.step(&guardian.table, state, |_| None) {
            Verdict::Fine => {}
            Verdict::End => guardian.is_over = true,
            Verdict::Kill { .. } if guardian.caller.fault().is_none() => {
                self.host.world_mut().kill(pid);
                end_loans(&guardian.caller, &guardian.table);
            }
            Verdict::Kill { .. } => {}
            Verdict::Restore => {
                end_loans(&guardian.caller, &guardian.table);
                let mut restoring = Restoring::begin_all(&guardian.caller, &guardian.table);
                restoring.look(&guardian.caller, &guardian.table);
                if state == DaemonState::HasEnded {
                    return self.go_on_restoring(restoring);
                }
            }
        }
        let at = self.host.world().now() + INTERVAL;
        self.host.world_mut().wake_at(guardian.actor, at);
    }

    /// Continues a restoration: schedules the next scan of the guardian, or completes the restoration. A real guardian
    /// sleeps between two scans instead.
    fn go_on_restoring(&mut self, restoring: Restoring) {
        let now = self.host.world().now();
        let time = restoring.time();
        let guardian = &mut self.guardian;
        if let Some(pause) = restoring.pause().filter(|_| time < PATIENCE) {
            guardian.restoring = Some(restoring);
            return self.host.world_mut().wake_at(guardian.actor, now + pause);
        }
        let restored = restoring.end();
        if restored.is_settled() {
            guardian.table.finish();
            guardian.is_over = guardian.caller.fault().is_none();
        }
        self.host.world_mut().wake_at(guardian.actor, now + INTERVAL);
        self.note_doubt(&restored, time);
    }

    fn note_doubt(&mut self, restored: &Restored, time: Nanos) {
        assert!(restored.unsure.is_empty() || time >= DOUBT_LEAST, "in doubt after {time}");
        self.doubt = Doubt { unsure: restored.unsure.clone(), seen: self.host.world().seen() };
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
        // From here on no thread is raised, and no agent needs to beat.
        self.daemon.table.set_watched(0);
        let restored = restore_at_once(&self.daemon.caller, &self.daemon.table);
        self.note_doubt(&restored, time);
        self.daemon.table.finish();
        self.daemon.is_over = true;
        Ok(())
    }
}

impl Daemon {
    /// Returns whether the daemon has observed that its guardian is active.
    pub(super) fn is_guarded(&self) -> bool {
        self.awaits.is_none()
    }

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
                enclose(&self.caller, &self.table, pid)?
            }
        };
        let groups = enclosure.rows();
        let answer = self.dispatcher.admit_scanned(request, pid, &ours, None, enclosure);
        answer.inspect_err(|_| release_groups(&self.caller, &self.table, &groups))
    }

    /// Admits the next client, and dismisses a client from time to time.
    fn admit(&mut self, host: &SimulatedKernel) {
        if self.awaits.is_none()
            && let Some((tag, pid, request)) = self.requests.pop_front()
        {
            match self.promise(&request, pid) {
                Ok((entities, call)) => {
                    self.shortest = self.shortest.min(request.reservation.period);
                    self.served.extend(entities.first().map(|&entity| Served { entity, tag, request, changes: 0 }));
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
            let served: Vec<EntityId> = self.served.iter().map(|served| served.entity).collect();
            if self.dice.one_in(LEAVING_IN)
                && let Some(entity) = self.dice.choose(&served)
            {
                let call = self.dispatcher.dismiss(entity);
                self.call(host, &call);
                host.world_mut().ring(self.keeper);
            }
        }
        let at = self.caller.now().saturating_add(pause);
        host.world_mut().wake_at(self.front, at);
    }
}

impl Guardian {
    fn begin(host: &SimulatedKernel, memory: &Memory, everywhere: CpuSet) -> Guardian {
        let caller = host.begin("guardian", ROOT);
        let actor = caller.employ(Attributes::raised(priority::GUARDIAN), everywhere);
        let table = Table::open(Box::new(caller.map(memory))).expect("the daemon has made it");
        let identity = caller.open(caller.pid()).map(|thread| caller.identity(&thread)).expect("it has just begun");
        host.world_mut().ring(actor);
        Guardian {
            caller,
            actor,
            identity,
            table,
            watch: Watch::default(),
            was_rung: false,
            restoring: None,
            is_over: false,
        }
    }
}
