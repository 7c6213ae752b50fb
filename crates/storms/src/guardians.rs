//! The guardians of a storm: the guardian and its standby, and the daemon's care for both.

use daemon::dispatch::Dispatcher;
use daemon::guardian::{Care, DaemonState, INTERVAL, Pulse, Standby, Succession, Verdict, Watch};
use daemon::kernel::{Kernel, priority};
use daemon::restore::{PATIENCE, Restored, Restoring, end_loans};
use daemon::table::{Beating, Table};
use sched::{CpuSet, Instant, Nanos};
use simhost::{Caller, Memory, SimulatedKernel};
use sys::attributes::Attributes;
use sys::thread::{Identity, Owner};

const ROOT: Owner = Owner { real: 0, effective: 0 };
/// Minimum time for which a restoration scans for forks before the restoration may report unsure threads.
const DOUBT_LEAST: Nanos = Nanos::ms(200);

/// The process of a guardian or of its standby.
pub(super) struct Guardian {
    pub(super) caller: Caller,
    actor: u32,
    identity: Identity,
    table: Table,
    watch: Watch,
    /// Whether the process was woken at the end of the process that it waits for.
    was_rung: bool,
    /// Restoration in progress, which scans for new children.
    restoring: Option<Restoring>,
    is_over: bool,
}

/// Doubt at the end of a restoration.
#[derive(Default)]
pub(super) struct Doubt {
    /// Threads that may have been inside a fork at the end of the restoration.
    pub(super) unsure: Vec<Identity>,
    /// Processes of these threads. Later, the tid of such a thread may be that of another thread.
    pub(super) processes: Vec<u32>,
    /// Number of threads that had appeared by the end of the restoration.
    pub(super) seen: u64,
}

/// The guardians as the daemon knows them.
#[derive(Default)]
struct Known {
    guardian: Option<Identity>,
    standby: Option<Identity>,
    succession: Succession,
    pulse: Option<Pulse>,
    /// Number of guardian beats at the start of the newest guardian; `None` once the daemon has observed a further
    /// beat.
    awaits: Option<u64>,
}

/// The guardian, its standby, and what the daemon knows of them.
pub(super) struct Guardians {
    memory: Memory,
    /// The acting guardian.
    pub(super) acting: Guardian,
    standby: Option<Guardian>,
    known: Known,
    /// Whether the standby is about to take over, as the daemon knows.
    pub(super) takes_over: bool,
    /// Number of guardians that were replaced while service was suspended.
    pub(super) replacements: u32,
    /// Number of standbys that have taken over.
    pub(super) successions: u32,
    pub(super) doubt: Doubt,
}

impl Guardian {
    fn begin(host: &SimulatedKernel, memory: &Memory) -> Guardian {
        let everywhere: CpuSet = host.world().cpus();
        let caller = host.begin("guardian", ROOT);
        let actor = caller.employ(Attributes::raised(priority::GUARDIAN), everywhere);
        let table = Table::open(Box::new(caller.map(memory))).expect("the daemon has made it");
        let identity = caller.open(caller.pid()).map(|thread| caller.identity(&thread)).expect("it has just begun");
        host.world_mut().ring(actor);
        let watch = Watch::default();
        Guardian { caller, actor, identity, table, watch, was_rung: false, restoring: None, is_over: false }
    }
}

impl Guardians {
    /// Starts the first guardian of the daemon with the table in `memory`.
    pub(super) fn begin(host: &SimulatedKernel, memory: Memory) -> Guardians {
        let acting = Guardian::begin(host, &memory);
        let known = Known { guardian: Some(acting.identity), awaits: Some(0), ..Known::default() };
        let (standby, doubt) = (None, Doubt::default());
        Guardians { memory, acting, standby, known, takes_over: false, replacements: 0, successions: 0, doubt }
    }

    /// Returns whether the daemon has observed that its guardian is active.
    pub(super) fn is_guarded(&self) -> bool {
        self.known.awaits.is_none()
    }

    /// Returns the caller of the guardian or standby with the thread `tid`.
    pub(super) fn caller_of(&self, tid: u32) -> Option<&Caller> {
        let mut all = [Some(&self.acting), self.standby.as_ref()].into_iter().flatten();
        all.find(|guardian| guardian.actor == tid).map(|guardian| &guardian.caller)
    }

    /// Wakes the guardian when the daemon ends, and the standby when the guardian ends. They hold pidfds.
    pub(super) fn notice(&mut self, host: &SimulatedKernel, daemon: &Caller) {
        if daemon.has_ended() && !std::mem::replace(&mut self.acting.was_rung, true) {
            host.world_mut().ring(self.acting.actor);
        }
        let standby = self.standby.as_mut().filter(|_| self.acting.caller.has_ended());
        if let Some(standby) = standby.filter(|standby| !standby.was_rung) {
            standby.was_rung = true;
            host.world_mut().ring(standby.actor);
        }
    }

    /// Returns the standby as the daemon observes it.
    fn observed_standby(&self, table: &Table) -> Standby {
        let Some(identity) = self.known.standby else { return Standby::None };
        let standby = self.standby.as_ref().filter(|standby| standby.identity == identity);
        // After it has taken over, the standby is the acting guardian.
        if standby.unwrap_or(&self.acting).caller.has_ended() {
            Standby::HasEnded
        } else if table.guardian() == Some(identity) {
            Standby::Watches
        } else if table.standby() == Some(identity) {
            Standby::Ready
        } else {
            Standby::Starts
        }
    }

    /// Checks the guardian and its standby, as `watch` in `live`. Returns the CPUs whose agents must be woken.
    pub(super) fn watch(
        &mut self,
        host: &SimulatedKernel,
        dispatcher: &mut Dispatcher<Caller>,
        (daemon, table): (&Caller, &Table),
        now: Instant,
    ) -> CpuSet {
        if let Some(before) = self.known.awaits {
            if table.guardian() == Some(self.acting.identity) && table.beats(Beating::Guardian) != before {
                self.known.awaits = None;
                self.known.pulse = Some(Pulse::begin(table, now));
                return dispatcher.resume();
            }
            return CpuSet::EMPTY;
        }
        let has_ended = self.known.guardian != Some(self.acting.identity) || self.acting.caller.has_ended();
        let is_felt = self.known.pulse.as_mut().is_some_and(|pulse| pulse.is_felt(table, now));
        let standby = self.observed_standby(table);
        let care = self.known.succession.step(is_felt && !has_ended, standby, now);
        if care == Care::Replace {
            dispatcher.suspend();
        }
        if daemon.fault().is_some() {
            return CpuSet::EMPTY;
        }
        self.takes_over = care == Care::Await;
        match care {
            Care::Nothing => {}
            Care::Start => {
                let standby = Guardian::begin(host, &self.memory);
                self.known.standby = Some(standby.identity);
                self.standby = Some(standby);
            }
            Care::Drop => self.drop_standby(host),
            Care::Await => host.world_mut().kill(self.acting.caller.pid()),
            Care::Promote => {
                self.known.guardian = self.known.standby.take();
                self.known.pulse = Some(Pulse::begin(table, now));
            }
            Care::Replace => self.replace(host, table),
        }
        CpuSet::EMPTY
    }

    fn drop_standby(&mut self, host: &SimulatedKernel) {
        self.known.standby = None;
        if let Some(standby) = self.standby.take() {
            host.world_mut().kill(standby.caller.pid());
        }
    }

    /// Kills the guardian and its standby, and starts a new guardian. Service is suspended.
    fn replace(&mut self, host: &SimulatedKernel, table: &Table) {
        self.drop_standby(host);
        host.world_mut().kill(self.acting.caller.pid());
        self.acting = Guardian::begin(host, &self.memory);
        self.known.guardian = Some(self.acting.identity);
        self.known.awaits = Some(table.beats(Beating::Guardian));
        self.replacements += 1;
    }

    /// Runs a turn of thread `tid`, which belongs to the guardian or to its standby.
    pub(super) fn turn(&mut self, host: &SimulatedKernel, daemon: &Caller, tid: u32) {
        if tid == self.acting.actor {
            return self.guard(host, daemon);
        }
        // The standby takes over if the guardian has ended.
        if self.acting.caller.has_ended()
            && let Some(standby) = self.standby.take()
        {
            self.acting = Guardian { was_rung: false, ..standby };
            self.successions += 1;
            return self.guard(host, daemon);
        }
        if let Some(standby) = &self.standby {
            standby.table.set_standby(standby.identity);
        }
    }

    fn guard(&mut self, host: &SimulatedKernel, daemon: &Caller) {
        let guardian = &mut self.acting;
        if guardian.is_over {
            return;
        }
        if let Some(mut restoring) = guardian.restoring.take() {
            restoring.look(&guardian.caller, &guardian.table);
            return self.go_on_restoring(host, restoring);
        }
        if guardian.table.guardian() != Some(guardian.identity) {
            guardian.table.set_guardian(guardian.identity);
        }
        let state = if daemon.has_ended() { DaemonState::HasEnded } else { DaemonState::Lives };
        match guardian.watch.step(&guardian.table, state, |_| None) {
            // The threads of a simulated daemon do not wait for locks.
            Verdict::Fine | Verdict::Urge { .. } => {}
            Verdict::End => guardian.is_over = true,
            Verdict::Kill { .. } if guardian.caller.fault().is_none() => {
                host.world_mut().kill(daemon.pid());
                end_loans(&guardian.caller, &guardian.table);
            }
            Verdict::Kill { .. } => {}
            Verdict::Restore => {
                end_loans(&guardian.caller, &guardian.table);
                let mut restoring = Restoring::begin_all(&guardian.caller, &guardian.table);
                restoring.look(&guardian.caller, &guardian.table);
                if state == DaemonState::HasEnded {
                    return self.go_on_restoring(host, restoring);
                }
            }
        }
        let at = host.world().now() + INTERVAL;
        host.world_mut().wake_at(guardian.actor, at);
    }

    /// Continues a restoration: schedules the next scan of the guardian, or completes the restoration. A real guardian
    /// sleeps between two scans instead.
    fn go_on_restoring(&mut self, host: &SimulatedKernel, restoring: Restoring) {
        let now = host.world().now();
        let time = restoring.time();
        let guardian = &mut self.acting;
        if let Some(pause) = restoring.pause().filter(|_| time < PATIENCE) {
            guardian.restoring = Some(restoring);
            return host.world_mut().wake_at(guardian.actor, now + pause);
        }
        let restored = restoring.end();
        if restored.is_settled() {
            guardian.table.finish();
            guardian.is_over = guardian.caller.fault().is_none();
        }
        host.world_mut().wake_at(guardian.actor, now + INTERVAL);
        self.note_doubt(host, &restored, time);
    }

    /// Records the doubt at the end of a restoration that took `time`.
    pub(super) fn note_doubt(&mut self, host: &SimulatedKernel, restored: &Restored, time: Nanos) {
        assert!(restored.unsure.is_empty() || time >= DOUBT_LEAST, "in doubt after {time}");
        let world = host.world();
        let processes = restored.unsure.iter().filter_map(|thread| Some(world.process_of(thread.tid)?.0)).collect();
        self.doubt = Doubt { unsure: restored.unsure.clone(), processes, seen: world.seen() };
    }
}
