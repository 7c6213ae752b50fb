use sched::{Nanos, Params};
use sim::program::{Length, TimerMode};
use sim::{Application, Step, TaskSpec};

/// A job in every period, as [`sim::Periodic`], with work or a phase that chance decides.
///
/// A job counts from when its task comes to it, not from the beginning of its period: how late that is is another metric, `Woke`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Periodic {
    /// From one job to the next. Range: above zero.
    pub period: Nanos,
    /// CPU time of each job.
    pub work: Length,
    /// From its arrival to the first job.
    pub phase: Phase,
    /// From when a job begins to when it should be done.
    pub deadline: Nanos,
}

/// When the first period begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// So long after the arrival.
    Fixed(Nanos),
    /// Anywhere within a period, drawn from the seed of the run.
    Random,
}

impl Periodic {
    /// One task.
    #[must_use]
    pub fn application(&self, params: Params) -> Application {
        let delay = match self.phase {
            Phase::Fixed(phase) => Length::Fixed(phase),
            Phase::Random => {
                Length::Uniform { least: Nanos::ZERO, most: Nanos::ns(self.period.as_ns().saturating_sub(1)) }
            }
        };
        // Whose job is late finds the next period begun, and does not wait.
        let body = vec![
            Step::JobBegins { deadline: Some(self.deadline) },
            Step::Run(self.work),
            Step::JobEnds,
            Step::Timer { timer: 0, period: self.period, mode: TimerMode::Absolute },
            Step::Woke,
        ];
        let steps = vec![Step::Repeat { times: None, body }];
        Application {
            tasks: vec![TaskSpec { name: "periodic".to_string(), params, delay, steps }],
            ..Application::default()
        }
    }
}
