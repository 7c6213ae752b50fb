use super::Waits;
use crate::ApplicationWorkload;
use crate::Selected;
use crate::Settings;
use crate::WorkloadDescriptor;
use crate::fork_join::waits;
use crate::metrics::Metric;
use crate::network::Plan;
use input::form;
use input::problem::Wrong;
use input::problem::quoted;
use input::problem::right_instead;
use sched::{Nanos, Params};
use sim::program::Length;
use sim::{Application, Step, TaskSpec};
use toml::de::DeValue;

/// The numbers of instructions and synchronisations of a program of the PARSEC suite.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Program {
    /// Name of the program.
    pub name: &'static str,
    /// Instructions of all threads together. Unit: millions.
    instructions_m: u64,
    /// Number of lock acquisitions of all threads together.
    locks: u64,
    /// Number of barriers and condition waits of all threads together.
    meetings: u64,
}

const fn program(name: &'static str, instructions_m: u64, locks: u64, meetings: u64) -> Program {
    Program { name, instructions_m, locks, meetings }
}

/// The 13 programs, in alphabetical order. Source: Bienia et al., The PARSEC Benchmark Suite: Characterization and
/// Architectural Implications, Princeton TR-811-08 (2008), table 2 (input simlarge, eight cores): instructions, locks,
/// and barriers with conditions, to three digits. `raytrace` appeared with PARSEC 2.0 and is not in that table. The
/// threads of `raytrace` only take tiles from a queue, so the program acquires few locks and has only a final barrier
/// (Bienia, dissertation, 2011).
pub const PROGRAMS: [Program; 13] = [
    program("blackscholes", 2_670, 0, 8),
    program("bodytrack", 14_000, 115_000, 619 + 2_040),
    program("canneal", 7_330, 34, 0),
    program("dedup", 37_100, 159_000, 1_620),
    program("facesim", 29_900, 14_500, 3_140),
    program("ferret", 24_000, 346_000, 1_260),
    program("fluidanimate", 14_100, 17_800_000, 0),
    program("freqmine", 33_500, 990_000, 0),
    program("raytrace", 30_000, 100, 0),
    program("streamcluster", 22_100, 191, 129_600 + 127),
    program("swaptions", 14_100, 23, 0),
    program("vips", 31_200, 33_600, 6_360),
    program("x264", 32_400, 16_800, 1_060),
];

/// One of 13 fork-join programs with the synchronisation frequencies of PARSEC. Each thread computes, acquires the
/// team's lock, and waits for the other threads, at the rates of its program. An instruction takes a nanosecond. Other
/// properties of the programs (pipelines, unequal parts) are not modelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parsec {
    /// Program of the suite.
    pub program: Program,
    /// Number of threads. Minimum: 1.
    pub threads: u32,
    /// CPU time of each thread, including the time for which the thread holds the lock.
    pub work: Nanos,
    /// Whether the threads sleep or spin while they wait for each other or for the lock.
    pub waits: Waits,
}

/// The number of rounds, and the lock acquisitions and work of each thread in a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Round {
    rounds: u64,
    locks: u64,
    /// CPU time before the first lock acquisition, after the last, and between any two.
    part: Nanos,
}

impl Parsec {
    /// Time for which a thread holds a lock.
    pub const HOLD: Nanos = Nanos::ns(500);
    /// Maximum number of lock acquisitions per millisecond of work. If a program has more, each simulated acquisition
    /// stands for several. The locks of `fluidanimate` (1,260 per millisecond, each for a different cell) are rarely
    /// contended. Simulating each acquisition would take most of the simulator's time.
    pub const LOCKS_PER_MS_MAX: u64 = 20;
    /// Maximum work of a thread.
    pub const WORK_MAX: Nanos = Nanos::s(3600);

    /// Returns `program` on eight threads (`poris`, section 6.3) that sleep while they wait, with one second of work.
    #[must_use]
    pub fn new(program: Program) -> Parsec {
        Parsec { program, threads: 8, work: Nanos::s(1), waits: Waits::Sleeping }
    }

    fn round(&self) -> Round {
        // A million instructions take a millisecond.
        let times = |count: u64| {
            let all = u128::from(count) * u128::from(self.work.as_ns());
            u64::try_from(all / (u128::from(self.program.instructions_m) * 1_000_000)).unwrap_or(u64::MAX)
        };
        let rounds = times(self.program.meetings).max(1);
        let most = Parsec::LOCKS_PER_MS_MAX * self.work.as_ns() / 1_000_000;
        let locks = times(self.program.locks).min(most) / rounds;
        let computes = Nanos::ns(self.work.as_ns() / rounds).saturating_sub(Parsec::HOLD.saturating_mul(locks));
        Round { rounds, locks, part: Nanos::ns((computes.as_ns() / (locks + 1)).max(1)) }
    }

    /// Returns the duration if each thread has its own CPU and all costs are zero. All threads arrive at the first lock
    /// of a round at the same time, and the last thread waits for all others. At later locks, the threads arrive one
    /// after the other.
    #[must_use]
    pub fn alone(&self) -> Nanos {
        let Round { rounds, locks, part } = self.round();
        let others = if locks > 0 { u64::from(self.threads) - 1 } else { 0 };
        let round = part.saturating_mul(locks + 1).saturating_add(Parsec::HOLD.saturating_mul(locks + others));
        round.saturating_mul(rounds)
    }

    /// Returns all threads.
    #[must_use]
    pub fn application(&self, params: Params) -> Application {
        let Round { rounds, locks, part } = self.round();
        let mut application = Application::default();
        let meeting = application.share("meeting", self.waits.barrier(self.threads));
        let lock = application.share("lock", self.waits.lock());
        let run = |time| Step::Run(Length::Fixed(time));
        let locked = vec![run(part), Step::Lock(lock), run(Parsec::HOLD), Step::Unlock(lock)];
        let round = vec![Step::Repeat { times: Some(locks), body: locked }, run(part), Step::Barrier(meeting)];
        let steps = vec![Step::Repeat { times: Some(rounds), body: round }];
        for thread in 0..self.threads {
            let (name, delay) = (format!("thread-{thread}"), Length::Fixed(Nanos::ZERO));
            application.tasks.push(TaskSpec { name, params, delay, steps: steps.clone() });
        }
        application
    }
}

/// Entry of the workload in [`ALL`](crate::ALL).
pub(crate) const WORKLOAD: WorkloadDescriptor = WorkloadDescriptor {
    name: "parsec",
    title: "a program that synchronises like a program of PARSEC",
    keys: &["program", "threads", "work", "waits", "spin"],
    example: "{ parsec = { program = \"streamcluster\" } }",
    read,
};

fn read(settings: &mut Settings<'_, '_, '_, '_>) -> Option<Selected> {
    if settings.table.get("program").is_none() {
        let right = "use program = \"streamcluster\", or another of the suite";
        settings.wrong(Wrong::new("the workload `parsec` has no program", "which of the 13?", right), "program");
    }
    let default = Parsec::new(settings.read("program", parsec_program)?);
    let parsec = Parsec {
        threads: settings.tasks("threads", default.threads),
        work: settings.time("work", default.work),
        waits: waits(settings, default.waits),
        ..default
    };
    if parsec.work > Parsec::WORK_MAX {
        let right = format!("use at most {}", Parsec::WORK_MAX);
        settings.wrong(Wrong::new("the program computes for too long", "too long", right), "work");
    }
    settings.done(parsec)
}

/// Reads a program of the PARSEC suite.
fn parsec_program(value: &DeValue<'_>) -> Result<Program, Wrong> {
    let Some(typed) = value.as_str() else {
        return Err(form::mistyped("program", value, "the name of a program of the PARSEC suite, in quotes"));
    };
    PROGRAMS.iter().find(|program| program.name == typed).copied().ok_or_else(|| {
        let names = PROGRAMS.map(|program| program.name);
        let message = format!("PARSEC has no program {}", quoted(typed));
        Wrong::new(message, "unknown program", right_instead(typed, &names))
    })
}

impl ApplicationWorkload for Parsec {
    fn tasks(&self) -> u64 {
        u64::from(self.threads)
    }

    fn plan(&self, params: Params) -> Plan {
        Plan::alone(self.application(params))
    }

    fn metric(&self) -> Option<Metric> {
        Some(Metric::Completion { alone: Some(self.alone()) })
    }
}
