use super::{is_nothing, parts};
use crate::ApplicationWorkload;
use crate::ROUNDS_MAX;
use crate::Selected;
use crate::Settings;
use crate::TASKS_MAX;
use crate::WorkloadDescriptor;
use crate::network::Plan;
use input::form;
use input::problem::Wrong;
use sched::{Nanos, Params};
use sim::program::Length;
use sim::{Application, Object, Step, TaskSpec};
use toml::de::DeValue;

/// Whether threads sleep or spin while they wait for each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waits {
    /// Waiting threads block (OMP_WAIT_POLICY=passive).
    Sleeping,
    /// Waiting threads spin (OMP_WAIT_POLICY=active).
    Spinning,
    /// Waiting threads spin for a limited time, then block (OpenMP without OMP_WAIT_POLICY; adaptive mutexes of glibc).
    SpinThenSleep {
        /// CPU time of the spin. Range: above zero.
        spin: Nanos,
    },
}

impl Waits {
    /// Default time of a spin: 300,000 iterations, at 100,000 iterations per millisecond. Source: libgomp/env.c of
    /// GCC 4.7 and later, without OMP_WAIT_POLICY, if each thread has a CPU. With more threads than CPUs, libgomp spins
    /// for 100 iterations.
    pub const SPIN: Nanos = Nanos::ms(3);

    /// Returns a barrier at which `parties` tasks wait for each other in this way.
    pub(crate) fn barrier(self, parties: u32) -> Object {
        match self {
            Waits::Sleeping => Object::Barrier { parties },
            Waits::Spinning => Object::SpinBarrier { parties },
            Waits::SpinThenSleep { spin } => Object::AdaptiveBarrier { parties, spin },
        }
    }

    /// Returns a lock for which tasks wait in this way.
    pub(crate) fn lock(self) -> Object {
        match self {
            Waits::Sleeping => Object::Mutex,
            Waits::Spinning => Object::Spin,
            Waits::SpinThenSleep { spin } => Object::AdaptiveMutex { spin },
        }
    }
}

/// A team of threads. Each thread computes its part, and all threads wait for the last thread. Then the first thread
/// continues alone for a while, and the next round begins. Within a part, threads acquire the team's spin lock.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ForkJoin {
    /// Number of threads. Minimum: 1.
    pub threads: u32,
    /// Number of rounds. `None`: without end.
    pub rounds: Option<u64>,
    /// CPU time of each thread in a round, excluding the time for which the thread holds the lock.
    pub work: Length,
    /// CPU time for which the first thread continues alone between two rounds.
    pub serial: Length,
    /// Whether waiting threads sleep or spin.
    pub waits: Waits,
    /// Number of times that each thread acquires the lock in a round.
    pub locks: u32,
    /// CPU time for which a thread holds the lock.
    pub hold: Length,
}

impl ForkJoin {
    /// Maximum number of lock acquisitions of a thread in a round. Each acquisition takes a few steps.
    pub const LOCKS_MAX: u32 = 10_000;

    /// Returns four threads without a lock that run without end. Each thread computes `work` in a round, and sleeps
    /// while it waits.
    #[must_use]
    pub fn new(work: Length) -> ForkJoin {
        ForkJoin {
            threads: 4,
            rounds: None,
            work,
            serial: Length::Fixed(Nanos::ZERO),
            waits: Waits::Sleeping,
            locks: 0,
            hold: Length::Fixed(Nanos::us(1)),
        }
    }

    /// Returns all threads.
    #[must_use]
    pub fn application(&self, params: Params) -> Application {
        let mut application = Application::default();
        let meeting = self.waits.barrier(self.threads);
        let join = application.share("join", meeting);
        // Without serial work between two rounds, one barrier is both the end of a round and the start of the next.
        let fork = (!is_nothing(self.serial)).then(|| application.share("fork", meeting));
        let lock = (self.locks > 0).then(|| application.share("lock", Object::Spin));
        for thread in 0..self.threads {
            let is_first = thread == 0;
            let mut body = Vec::new();
            body.extend(is_first.then_some(Step::JobBegins { deadline: None }));
            for (number, part) in parts(self.work, self.locks + 1).enumerate() {
                if let (Some(lock), true) = (lock, number > 0) {
                    body.extend([Step::Lock(lock), Step::Run(self.hold), Step::Unlock(lock)]);
                }
                body.push(Step::Run(part));
            }
            body.push(Step::Barrier(join));
            body.extend(is_first.then_some(Step::JobEnds));
            if let Some(fork) = fork {
                body.extend(is_first.then_some(Step::Run(self.serial)));
                body.push(Step::Barrier(fork));
            }
            let steps = vec![Step::Repeat { times: self.rounds, body }];
            let delay = Length::Fixed(Nanos::ZERO);
            application.tasks.push(TaskSpec { name: format!("thread-{thread}"), params, delay, steps });
        }
        application
    }
}

/// Entry of the workload in [`ALL`](crate::ALL).
pub(crate) const WORKLOAD: WorkloadDescriptor = WorkloadDescriptor {
    name: "fork_join",
    title: "threads that meet after each round, like parallel regions of OpenMP",
    keys: &["threads", "rounds", "work", "serial", "waits", "spin", "locks", "hold"],
    example: "{ fork_join = { threads = 4, work = \"1ms\" } }",
    read,
};

fn read(settings: &mut Settings<'_, '_, '_, '_>) -> Option<Selected> {
    let default = ForkJoin::new(settings.required("work"));
    let team = ForkJoin {
        threads: settings.few("threads", 1, TASKS_MAX as u32, default.threads),
        rounds: settings.read("rounds", |value| form::count("rounds", value, 1..=ROUNDS_MAX)),
        serial: settings.length("serial", default.serial),
        waits: waits(settings, default.waits),
        locks: settings.few("locks", 0, ForkJoin::LOCKS_MAX, default.locks),
        hold: settings.length("hold", default.hold),
        ..default
    };
    settings.done(team)
}

/// Reads whether the waiting threads of a team sleep or spin, and the time of the spin, from the keys `waits` and
/// `spin`.
pub(crate) fn waits(settings: &mut Settings<'_, '_, '_, '_>, default: Waits) -> Waits {
    let waits = settings.read("waits", waits_word).unwrap_or(default);
    match waits {
        Waits::SpinThenSleep { spin } => Waits::SpinThenSleep { spin: settings.time("spin", spin) },
        Waits::Sleeping | Waits::Spinning => {
            if settings.table.get("spin").is_some() {
                let message = "the threads spin for a limited time only with `waits = \"spin-then-sleep\"`";
                let right = "add waits = \"spin-then-sleep\", or omit `spin`";
                settings.wrong(Wrong::new(message, "no limit", right), "spin");
            }
            waits
        }
    }
}

fn waits_word(value: &DeValue<'_>) -> Result<Waits, Wrong> {
    let words = [
        ("sleeping", Waits::Sleeping),
        ("spinning", Waits::Spinning),
        ("spin-then-sleep", Waits::SpinThenSleep { spin: Waits::SPIN }),
    ];
    form::word("waits", value, &words, "\"sleeping\", \"spinning\" or \"spin-then-sleep\"")
}

impl ApplicationWorkload for ForkJoin {
    fn tasks(&self) -> u64 {
        u64::from(self.threads)
    }

    fn steps(&self) -> u64 {
        u64::from(self.threads) * (4 * u64::from(self.locks) + 8)
    }

    fn plan(&self, params: Params) -> Plan {
        Plan::alone(self.application(params))
    }
}
