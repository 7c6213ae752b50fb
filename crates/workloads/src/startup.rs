use super::parts;
use crate::ApplicationWorkload;
use crate::ROUNDS_MAX;
use crate::Selected;
use crate::Settings;
use crate::WorkloadDescriptor;
use crate::metrics::Metric;
use crate::network::Plan;
use input::form;
use sched::{Nanos, Params};
use sim::program::Length;
use sim::{Application, Step, TaskSpec};
use std::sync::Arc;

/// Launches of an application, one after the other, with hot caches. The application only computes, with optional waits
/// for an answer. Source: the paper on coordinated schedulers (2015, section V B, Fig 4). The paper measures the
/// start-up times of 100 launches. A start-up time is the time from the launch until the application is ready.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Startup {
    /// Number of launches. `None`: without end.
    pub launches: Option<u64>,
    /// CPU time from the launch until the application is ready.
    pub work: Length,
    /// Number of waits during the work. The waits divide the work into `waits + 1` parts.
    pub waits: u32,
    /// Duration of a wait.
    pub wait: Length,
    /// Time from the end of a launch to the next launch.
    pub pause: Length,
}

impl Startup {
    /// Maximum number of waits of a launch.
    pub const WAITS_MAX: u32 = 10_000;

    /// Returns 100 launches with pauses of one second. The `work` of a launch has no waits.
    #[must_use]
    pub fn new(work: Length) -> Startup {
        let (wait, pause) = (Length::Fixed(Nanos::ms(1)), Length::Fixed(Nanos::s(1)));
        Startup { launches: Some(100), work, waits: 0, wait, pause }
    }

    /// Returns the launcher, which forks the application.
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

/// Entry of the workload in [`ALL`](crate::ALL).
pub(crate) const WORKLOAD: WorkloadDescriptor = WorkloadDescriptor {
    name: "startup",
    title: "repeated launches of an application",
    keys: &["launches", "work", "waits", "wait", "pause"],
    example: "{ startup = { work = \"200ms\" } }",
    read,
};

fn read(settings: &mut Settings<'_, '_, '_, '_>) -> Option<Selected> {
    let default = Startup::new(settings.required("work"));
    let launches = settings.read("launches", |value| form::count("launches", value, 1..=ROUNDS_MAX));
    let startup = Startup {
        launches: launches.or(default.launches),
        waits: settings.few("waits", 0, Startup::WAITS_MAX, default.waits),
        wait: settings.length("wait", default.wait),
        pause: settings.length("pause", default.pause),
        ..default
    };
    settings.done(startup)
}

impl ApplicationWorkload for Startup {
    fn tasks(&self) -> u64 {
        2
    }

    fn steps(&self) -> u64 {
        2 * u64::from(self.waits) + 8
    }

    fn plan(&self, params: Params) -> Plan {
        Plan::alone(self.application(params))
    }

    fn metric(&self) -> Option<Metric> {
        Some(Metric::Launches)
    }
}
