//! The guardian's watch over the daemon, and the daemon's watch over the guardian, by heartbeats (beats). The watches
//! call neither a clock nor a kernel, so the simulated host runs the same code.

use crate::table::{Beating, Table};
use sched::{CpuId, CpuSet, Instant, Nanos};

/// Interval between two beats of the guardian.
pub const INTERVAL: Nanos = Nanos::ms(50);
/// Number of beats of the guardian, without a beat of an agent, after which the agent counts as hung.
pub const PATIENCE: u32 = 6;
/// Minimum interval between two checks of the guardian that count.
pub const CHECK: Nanos = Nanos::ms(100);
/// Number of checks of the guardian, without a beat of the guardian, after which the guardian counts as hung.
const PATIENCE_WITH_GUARDIAN: u32 = 3;
/// Number of beats of the guardian, without a beat of an agent, after which the agent is late. An agent without turns beats
/// every second beat of the guardian.
const LATE: u32 = 4;
/// Number of beats of the guardian, without a beat of the keeper, after which the keeper counts as hung. The keeper runs
/// only when the dispatched threads leave a CPU idle, and scans large process trees, so its beats may be far apart.
pub(super) const PATIENCE_WITH_KEEPER: u32 = 40;
/// Number of beats of the guardian, without a beat of the command thread, after which the command thread counts as hung.
/// The command thread is an ordinary thread, which may wait long for a busy CPU.
pub(super) const PATIENCE_WITH_COMMANDS: u32 = 100;
/// Interval between restorations while a killed daemon has not ended. Unit: beats of the guardian. The killed daemon
/// takes no more actions, but its last thread may be unable to end, because a raised thread occupies its CPU.
pub const AWAITED: u32 = 2;
/// State of the daemon, as the guardian observes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DaemonState {
    /// The daemon is alive.
    Lives,
    /// The first thread of the daemon has ended, and others have not: they may wait for CPU time.
    Ends,
    /// The whole process has ended.
    HasEnded,
}

/// The guardian's next action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// No action.
    Fine,
    /// Let the waiting threads of the daemon run before the clients: an agent is late. The agent may wait for a lock whose
    /// holder waits for the CPU of a client, and only the agent can lower this client.
    Urge {
        /// CPUs of the agents that are late.
        late: CpuSet,
    },
    /// Kill the daemon: an agent, the keeper or the command thread hangs.
    Kill {
        /// The thread that hangs.
        hung: Beating,
    },
    /// Restore all threads: the daemon has ended, or was killed and has not ended yet.
    Restore,
    /// Exit: all threads are restored.
    End,
}

/// Beat count of a watched thread or process, sampled at each step of the watching process.
#[derive(Clone, Copy, Default, Debug)]
struct LastBeat {
    beats: u64,
    /// Number of steps since the count changed.
    ago: u32,
}

impl LastBeat {
    /// Records the current count. Returns the number of steps since the count changed.
    fn ago(&mut self, beats: u64) -> u32 {
        self.ago = if self.beats == beats { self.ago.saturating_add(1) } else { 0 };
        self.beats = beats;
        self.ago
    }
}

/// The watch over an agent.
#[derive(Clone, Copy, Default, Debug)]
struct WatchedAgent {
    last: LastBeat,
    /// Steal time of the agent's CPU at the first missed beat; `None` if unknown.
    stolen: Option<Nanos>,
}

impl WatchedAgent {
    fn is_late(&self) -> bool {
        self.last.ago >= LATE && self.last.beats > 0
    }

    /// Returns whether the agent hangs, after a beat of the guardian. Beats of the guardian do not count while a
    /// hypervisor runs other VMs on the agent's CPU: the agent cannot beat meanwhile, and no client runs there.
    fn hangs(&mut self, beats: u64, stolen: impl FnOnce() -> Option<Nanos>) -> bool {
        match self.last.ago(beats) {
            // An agent that has never beaten is still starting, which may take long on a busy machine. Such an agent
            // has not raised any thread.
            _ if beats == 0 => false,
            1 => {
                self.stolen = stolen();
                false
            }
            ago if ago >= PATIENCE => {
                let lost = self.stolen.zip(stolen()).map_or(Nanos::ZERO, |(was, is)| is.saturating_sub(was));
                u64::from(ago - PATIENCE) >= lost.as_ns().div_ceil(INTERVAL.as_ns())
            }
            _ => false,
        }
    }
}

/// The guardian's watch over the daemon. A step is one beat of the guardian. The watch measures time in beats of the
/// guardian, so that a suspension of the machine does not count as a hang.
#[derive(Clone, Default, Debug)]
pub struct Watch {
    agents: Vec<WatchedAgent>,
    keeper: LastBeat,
    commands: LastBeat,
    /// Number of beats since the guardian killed the daemon.
    killed: Option<u32>,
    /// Number of beats for which the daemon has been ending.
    ends: Option<u32>,
}

impl Watch {
    /// Runs a beat of the guardian. `daemon` is the current state of the daemon. `stolen` returns the steal time of a
    /// CPU since boot, if the kernel reports it.
    pub fn step(&mut self, table: &Table, daemon: DaemonState, stolen: impl Fn(CpuId) -> Option<Nanos>) -> Verdict {
        table.beat(Beating::Guardian);
        if table.is_finished() {
            return Verdict::End;
        }
        if daemon == DaemonState::HasEnded {
            return Verdict::Restore;
        }
        if daemon == DaemonState::Ends {
            let ago = self.ends.get_or_insert(0);
            *ago += 1;
            return if (*ago - 1).is_multiple_of(AWAITED) { Verdict::Restore } else { Verdict::Fine };
        }
        self.ends = None;
        if let Some(ago) = &mut self.killed {
            *ago += 1;
            return if ago.is_multiple_of(AWAITED) { Verdict::Restore } else { Verdict::Fine };
        }
        match self.hung(table, stolen) {
            Some(hung) => {
                self.killed = Some(0);
                Verdict::Kill { hung }
            }
            None => {
                let agents = (0..).map(CpuId::new).zip(&self.agents);
                let late: CpuSet = agents.filter(|(_, agent)| agent.is_late()).map(|(cpu, _)| cpu).collect();
                if late.is_empty() { Verdict::Fine } else { Verdict::Urge { late } }
            }
        }
    }

    /// Returns a thread of the daemon that hangs.
    fn hung(&mut self, table: &Table, stolen: impl Fn(CpuId) -> Option<Nanos>) -> Option<Beating> {
        let cpus = table.watched();
        self.agents.resize(cpus, WatchedAgent::default());
        if cpus == 0 {
            (self.keeper, self.commands) = (LastBeat::default(), LastBeat::default());
            return None;
        }
        let mut hung = None;
        let threads = [
            (Beating::Commands, &mut self.commands, PATIENCE_WITH_COMMANDS),
            (Beating::Keeper, &mut self.keeper, PATIENCE_WITH_KEEPER),
        ];
        for (thread, last, patience) in threads {
            let beats = table.beats(thread);
            if last.ago(beats) >= patience && beats > 0 {
                hung = Some(thread);
            }
        }
        // Sample every agent, even if an earlier agent hangs.
        for (cpu, agent) in (0..cpus).map(CpuId::new).zip(&mut self.agents) {
            if agent.hangs(table.beats(Beating::Agent(cpu)), || stolen(cpu)) {
                hung = Some(Beating::Agent(cpu));
            }
        }
        hung
    }
}

/// The daemon's watch over its guardian. The daemon may check at any rate, but a check counts only if the time [`CHECK`]
/// has passed since the last counted check. The watch counts checks, so that a suspension of the machine does not count
/// as a hang.
#[derive(Clone, Copy, Debug)]
pub struct Pulse {
    last: LastBeat,
    counted: Instant,
}

impl Pulse {
    /// Starts the watch at `now`.
    #[must_use]
    pub fn begin(table: &Table, now: Instant) -> Pulse {
        Pulse { last: LastBeat { beats: table.beats(Beating::Guardian), ago: 0 }, counted: now }
    }

    /// Returns whether the guardian beats, as of `now`.
    pub fn is_felt(&mut self, table: &Table, now: Instant) -> bool {
        if now < self.counted.saturating_add(CHECK) {
            return self.last.ago < PATIENCE_WITH_GUARDIAN;
        }
        self.counted = now;
        self.last.ago(table.beats(Beating::Guardian)) < PATIENCE_WITH_GUARDIAN
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sched::Nanos;
    use std::sync::atomic::{AtomicU64, Ordering};
    use sys::thread::Identity;

    struct Heap(Vec<AtomicU64>);

    impl crate::kernel::Cells for Heap {
        fn len(&self) -> usize {
            self.0.len()
        }

        fn load(&self, at: usize) -> u64 {
            self.0[at].load(Ordering::Acquire)
        }

        fn store(&self, at: usize, value: u64) {
            self.0[at].store(value, Ordering::Release);
        }
    }

    const NOTHING_STOLEN: fn(CpuId) -> Option<Nanos> = |_| None;

    fn table() -> Table {
        let words = (0..Table::words(1)).map(|_| AtomicU64::new(0)).collect();
        Table::create(Box::new(Heap(words)), "boot", Identity { tid: 1, start_time: 1 })
    }

    #[test]
    fn an_agent_that_misses_its_beats_in_a_row_has_the_daemon_killed_once() {
        let (table, mut watch) = (table(), Watch::default());
        let mut step = |beating: &[usize]| {
            beating.iter().for_each(|&nth| table.beat(Beating::Agent(CpuId::new(nth))));
            watch.step(&table, DaemonState::Lives, NOTHING_STOLEN)
        };
        for _ in 0..3 * PATIENCE {
            assert_eq!(step(&[]), Verdict::Fine, "none is to be watched");
        }
        table.set_watched(2);
        for _ in 0..3 * PATIENCE {
            assert_eq!(step(&[0]), Verdict::Fine, "the other has not begun yet");
        }
        for nth in 0..10 * PATIENCE {
            let one_of_both = if nth % LATE == 0 { &[0, 1][..] } else { &[0] };
            assert_eq!(step(one_of_both), Verdict::Fine, "not in a row: {nth}");
        }
        assert_eq!(step(&[0, 1]), Verdict::Fine);
        for ago in 1..PATIENCE {
            let late = Verdict::Urge { late: CpuSet::one(CpuId::new(1)) };
            assert_eq!(step(&[0]), if ago < LATE { Verdict::Fine } else { late }, "{ago}");
        }
        assert_eq!(step(&[0]), Verdict::Kill { hung: Beating::Agent(CpuId::new(1)) });
        for _ in 1..AWAITED {
            assert_eq!(step(&[0, 1]), Verdict::Fine, "its end is awaited");
        }
        assert_eq!(step(&[]), Verdict::Restore, "it does not end");
        assert_eq!(step(&[]), Verdict::Fine);
        assert_eq!(watch.step(&table, DaemonState::HasEnded, NOTHING_STOLEN), Verdict::Restore);
        assert!(table.beats(Beating::Guardian) > 10);
    }

    #[test]
    fn an_agent_that_was_not_watched_for_a_while_gets_the_full_patience_again() {
        let (table, mut watch) = (table(), Watch::default());
        let kill = Verdict::Kill { hung: Beating::Agent(CpuId::new(0)) };
        table.set_watched(1);
        table.beat(Beating::Agent(CpuId::new(0)));
        for _ in 0..PATIENCE {
            assert_ne!(watch.step(&table, DaemonState::Lives, NOTHING_STOLEN), kill);
        }
        table.set_watched(0);
        assert_eq!(watch.step(&table, DaemonState::Lives, NOTHING_STOLEN), Verdict::Fine);
        table.set_watched(1);
        for _ in 0..PATIENCE {
            assert_ne!(watch.step(&table, DaemonState::Lives, NOTHING_STOLEN), kill);
        }
        assert_eq!(watch.step(&table, DaemonState::Lives, NOTHING_STOLEN), kill);
    }

    #[test]
    fn an_agent_on_a_cpu_that_is_stolen_from_does_not_hang() {
        let (table, mut watch, cpu) = (table(), Watch::default(), CpuId::new(0));
        table.set_watched(1);
        table.beat(Beating::Agent(cpu));
        let mut step = |stolen: Nanos| watch.step(&table, DaemonState::Lives, |_| Some(stolen));
        let kill = Verdict::Kill { hung: Beating::Agent(cpu) };
        // All time is stolen, and then half of the time.
        let mut stolen = Nanos::s(7);
        for _ in 0..10 * PATIENCE {
            assert_ne!(step(stolen), kill);
            stolen += INTERVAL;
        }
        let beats = (1..=3 * PATIENCE).find(|_| {
            stolen += Nanos::ns(INTERVAL.as_ns() / 2);
            step(stolen) == kill
        });
        assert!(beats.is_some_and(|beats| (PATIENCE..=2 * PATIENCE).contains(&beats)), "{beats:?}");
    }

    #[test]
    fn a_keeper_or_command_thread_that_misses_its_beats_has_the_daemon_killed() {
        for (hung, patience) in [(Beating::Keeper, PATIENCE_WITH_KEEPER), (Beating::Commands, PATIENCE_WITH_COMMANDS)] {
            let (table, mut watch, cpu) = (table(), Watch::default(), CpuId::new(0));
            table.set_watched(1);
            let mut step = |beats: bool| {
                table.beat(Beating::Agent(cpu));
                if beats {
                    table.beat(hung);
                }
                watch.step(&table, DaemonState::Lives, NOTHING_STOLEN)
            };
            for nth in 0..3 * patience {
                assert_eq!(step(nth % (patience - 1) == 1), Verdict::Fine, "{hung}: {nth}");
            }
            step(true);
            for _ in 1..patience {
                assert_eq!(step(false), Verdict::Fine, "{hung}");
            }
            assert_eq!(step(false), Verdict::Kill { hung });
        }
    }

    #[test]
    fn a_daemon_that_ends_is_restored_after_unless_it_had_finished() {
        let (table, mut watch) = (table(), Watch::default());
        assert_eq!(watch.step(&table, DaemonState::HasEnded, NOTHING_STOLEN), Verdict::Restore);
        let mut ending = Watch::default();
        assert_eq!(ending.step(&table, DaemonState::Ends, NOTHING_STOLEN), Verdict::Restore, "at once");
        for _ in 1..AWAITED {
            assert_eq!(ending.step(&table, DaemonState::Ends, NOTHING_STOLEN), Verdict::Fine, "its end is awaited");
        }
        assert_eq!(ending.step(&table, DaemonState::Ends, NOTHING_STOLEN), Verdict::Restore);
        table.finish();
        for daemon in [DaemonState::Lives, DaemonState::HasEnded] {
            assert_eq!(watch.step(&table, daemon, NOTHING_STOLEN), Verdict::End);
        }
    }

    #[test]
    fn a_guardian_is_missed_after_as_many_checks_and_not_after_a_pause() {
        let (table, begin) = (table(), Instant::at_ns(7));
        let mut pulse = Pulse::begin(&table, begin);
        let at = |checks: u64, looks: u64| begin + CHECK.saturating_mul(checks) + Nanos::us(looks);
        // A pause of a day, followed by rapid checks.
        assert!((0..100).all(|look| pulse.is_felt(&table, at(864_000, look))));
        table.beat(Beating::Guardian);
        let later = 864_000;
        for nth in 1..=u64::from(PATIENCE_WITH_GUARDIAN) {
            assert!(pulse.is_felt(&table, at(later + nth, 0)), "{nth}");
        }
        assert!(!pulse.is_felt(&table, at(later + u64::from(PATIENCE_WITH_GUARDIAN) + 1, 0)));
        assert!(
            !pulse.is_felt(&table, at(later + u64::from(PATIENCE_WITH_GUARDIAN) + 1, 1)),
            "it stays so for hasty looks"
        );
        table.beat(Beating::Guardian);
        assert!(pulse.is_felt(&table, at(later + u64::from(PATIENCE_WITH_GUARDIAN) + 2, 1)));
    }
}
