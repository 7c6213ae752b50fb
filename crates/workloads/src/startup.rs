use super::parts;
use sched::{Nanos, Params};
use sim::program::Length;
use sim::{Application, Step, TaskSpec};
use std::sync::Arc;

/// Launches of an application, one after the other, with hot caches: it does nothing but compute, and maybe wait for an answer now and
/// then. Source: the start-up time of the coordinated schedulers' paper (2015, section V B, Fig 4): from when an application is
/// launched to when it is ready, 100 times.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Startup {
    /// How many launches; `None`: without end.
    pub launches: Option<u64>,
    /// CPU time from its launch to when it is ready.
    pub work: Length,
    /// How often it waits in between; so its work has one part more.
    pub waits: u32,
    /// How long it waits each time.
    pub wait: Length,
    /// From when it is ready to the next launch.
    pub pause: Length,
}

impl Startup {
    /// The most waits of a launch.
    pub const WAITS_MAX: u32 = 10_000;

    /// 100 launches a second apart, each of `work` in one piece.
    #[must_use]
    pub fn new(work: Length) -> Startup {
        let (wait, pause) = (Length::Fixed(Nanos::ms(1)), Length::Fixed(Nanos::s(1)));
        Startup { launches: Some(100), work, waits: 0, wait, pause }
    }

    /// The launcher, which forks the application.
    #[must_use]
    pub fn application(&self, params: Params) -> Application {
        let mut steps = Vec::new();
        for part in parts(self.work, self.waits + 1) {
            if !steps.is_empty() {
                steps.push(Step::Sleep(self.wait));
            }
            steps.push(Step::Run(part));
        }
        let delay = Length::Fixed(Nanos::ZERO);
        let launched = Arc::new(TaskSpec { name: "application".to_string(), params, delay, steps });
        let body = vec![
            Step::Sleep(self.pause),
            Step::JobBegins { deadline: None },
            Step::Fork(launched),
            Step::Join,
            Step::JobEnds,
        ];
        let steps = vec![Step::Repeat { times: self.launches, body }];
        Application {
            tasks: vec![TaskSpec { name: "launcher".to_string(), params, delay, steps }],
            ..Application::default()
        }
    }
}
