use crate::ApplicationWorkload;
use crate::ROUNDS_MAX;
use crate::Selected;
use crate::Settings;
use crate::TASKS_MAX;
use crate::WorkloadDescriptor;
use crate::metrics::Metric;
use crate::network::Plan;
use input::form;
use sched::{Nanos, Params};
use sim::program::{Length, TimerMode};
use sim::{Application, Step, TaskSpec};

/// Threads that sleep until a timer expires, and measure the delay of their wake-up. Source: cyclictest.c, rt-tests
/// 2.6: `interval` is `-i`, `threads` is `-t`, `distance` is `-d`, `loops` is `-l`. A thread that is too late for the
/// next expiration of its timer skips this expiration.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cyclictest {
    /// Time from one wake-up of the first thread to the next. Range: above zero.
    pub interval: Nanos,
    /// Number of threads. Minimum: 1.
    pub threads: u32,
    /// Difference between the intervals of two consecutive threads.
    pub distance: Nanos,
    /// Number of wake-ups of each thread. `None`: without end.
    pub loops: Option<u64>,
    /// CPU time from the start of a thread's run to its read of the clock. This time models the rest of the interrupt,
    /// the return from the kernel and cold caches. The measured delay includes this time.
    pub overhead: Length,
    /// CPU time of a thread from its read of the clock until it sleeps again.
    pub work: Length,
}

impl Default for Cyclictest {
    /// Returns one thread with an interval of a millisecond.
    fn default() -> Cyclictest {
        Cyclictest {
            interval: Nanos::ms(1),
            threads: 1,
            distance: Nanos::us(500),
            loops: None,
            overhead: Length::Fixed(Nanos::ZERO),
            // Two reads of the clock and some arithmetic.
            work: Length::Fixed(Nanos::us(1)),
        }
    }
}

impl Cyclictest {
    /// Returns all threads.
    #[must_use]
    pub fn application(&self, params: Params) -> Application {
        let tasks = (0..self.threads).map(|thread| {
            let period = self.interval.saturating_add(self.distance.saturating_mul(u64::from(thread)));
            let timer = Step::Timer { timer: 0, period, mode: TimerMode::Skipping };
            let mut body = vec![timer];
            if self.overhead != Length::Fixed(Nanos::ZERO) {
                body.push(Step::Run(self.overhead));
            }
            body.extend([Step::Woke, Step::Run(self.work)]);
            let steps = vec![Step::Repeat { times: self.loops, body }];
            TaskSpec { name: format!("thread-{thread}"), params, delay: Length::Fixed(Nanos::ZERO), steps }
        });
        Application { tasks: tasks.collect(), ..Application::default() }
    }
}

/// Entry of the workload in [`ALL`](crate::ALL).
pub(crate) const WORKLOAD: WorkloadDescriptor = WorkloadDescriptor {
    name: "cyclictest",
    title: "threads that sleep and measure their wake-up latency, like cyclictest of rt-tests",
    keys: &["interval", "threads", "distance", "loops", "overhead", "work"],
    example: "{ cyclictest = { interval = \"1ms\" } }",
    read,
};

fn read(settings: &mut Settings<'_, '_, '_, '_>) -> Option<Selected> {
    let default = Cyclictest::default();
    let test = Cyclictest {
        interval: settings
            .read("interval", |value| form::time_above_zero("interval", value))
            .unwrap_or(default.interval),
        threads: settings.few("threads", 1, TASKS_MAX as u32, default.threads),
        distance: settings.read("distance", |value| form::time("distance", value)).unwrap_or(default.distance),
        loops: settings.read("loops", |value| form::count("loops", value, 1..=ROUNDS_MAX)),
        overhead: settings.length("overhead", default.overhead),
        work: settings.length("work", default.work),
    };
    settings.done(test)
}

impl ApplicationWorkload for Cyclictest {
    fn tasks(&self) -> u64 {
        u64::from(self.threads)
    }

    fn steps(&self) -> u64 {
        3 * u64::from(self.threads)
    }

    fn plan(&self, params: Params) -> Plan {
        Plan::alone(self.application(params))
    }

    fn metric(&self) -> Option<Metric> {
        Some(Metric::Wakeups)
    }
}
