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

/// How threads wait for each other at the end of a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waits {
    /// They block (OMP_WAIT_POLICY=passive).
    Sleeping,
    /// They spin (OMP_WAIT_POLICY=active).
    Spinning,
}

/// A team of threads: each computes its part, all wait for the last; then the first goes on alone for a while, and the next round
/// begins. Within a part, the team's spin lock is taken now and then.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ForkJoin {
    /// How many threads. Range: 1 ….
    pub threads: u32,
    /// How many rounds; `None`: without end.
    pub rounds: Option<u64>,
    /// CPU time of each thread in a round, without that under the lock.
    pub work: Length,
    /// What the first thread does alone between two rounds.
    pub serial: Length,
    /// How they wait for each other.
    pub waits: Waits,
    /// How often each thread takes the lock in a round.
    pub locks: u32,
    /// How long it holds it.
    pub hold: Length,
}

impl ForkJoin {
    /// The most locks of a round: each is a few steps.
    pub const LOCKS_MAX: u32 = 10_000;

    /// Four threads without end, each with `work` in a round, which wait sleeping and have no lock.
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

    /// All threads.
    #[must_use]
    pub fn application(&self, params: Params) -> Application {
        let mut application = Application::default();
        let parties = self.threads;
        let meeting = match self.waits {
            Waits::Sleeping => Object::Barrier { parties },
            Waits::Spinning => Object::SpinBarrier { parties },
        };
        let join = application.share("join", meeting);
        // Without anything between two rounds, one barrier does for the end of one and the beginning of the next.
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

/// The entry in [`ALL`](crate::ALL).
pub(crate) const WORKLOAD: WorkloadDescriptor = WorkloadDescriptor {
    name: "fork_join",
    title: "threads that meet after each round, as parallel regions of OpenMP",
    keys: &["threads", "rounds", "work", "serial", "waits", "locks", "hold"],
    example: "{ fork_join = { threads = 4, work = \"1ms\" } }",
    read,
};

fn read(settings: &mut Settings<'_, '_, '_, '_>) -> Option<Selected> {
    let default = ForkJoin::new(settings.required("work"));
    let team = ForkJoin {
        threads: settings.few("threads", 1, TASKS_MAX as u32, default.threads),
        rounds: settings.read("rounds", |value| form::count("rounds", value, 1..=ROUNDS_MAX)),
        serial: settings.length("serial", default.serial),
        waits: settings.read("waits", waits).unwrap_or(default.waits),
        locks: settings.few("locks", 0, ForkJoin::LOCKS_MAX, default.locks),
        hold: settings.length("hold", default.hold),
        ..default
    };
    settings.done(team)
}

/// How the threads of a team wait for each other.
pub(crate) fn waits(value: &DeValue<'_>) -> Result<Waits, Wrong> {
    form::word(
        "waits",
        value,
        &[("sleeping", Waits::Sleeping), ("spinning", Waits::Spinning)],
        "\"sleeping\" or \"spinning\"",
    )
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
