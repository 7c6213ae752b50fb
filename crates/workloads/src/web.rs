use crate::ApplicationWorkload;
use crate::Selected;
use crate::Settings;
use crate::WorkloadDescriptor;
use crate::metrics::Metric;
use crate::network::Plan;
use sched::{Nanos, Params};
use sim::program::Length;
use sim::{Application, Step, TaskSpec};

/// A browsing user: clicks or scrolls, waits for the answer, reads the answer, and continues. The parameters are free:
/// no source states them. The defaults model a page that the user scrolls with a finger.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Web {
    /// Time from an answer to the next click.
    pub think: Length,
    /// CPU time per answer.
    pub work: Length,
}

impl Default for Web {
    fn default() -> Web {
        let work = Length::Uniform { least: Nanos::ms(5), most: Nanos::ms(25) };
        Web { think: Length::Exponential { mean: Nanos::ms(200) }, work }
    }
}

impl Web {
    /// Returns an application with the browser as its only task.
    #[must_use]
    pub fn application(&self, params: Params) -> Application {
        let body = vec![
            Step::Sleep(self.think),
            Step::Woke,
            Step::JobBegins { deadline: None },
            Step::Run(self.work),
            Step::JobEnds,
        ];
        let steps = vec![Step::Repeat { times: None, body }];
        let delay = Length::Fixed(Nanos::ZERO);
        let tasks = vec![TaskSpec { name: "browser".to_string(), params, delay, steps }];
        Application { tasks, ..Application::default() }
    }
}

/// Entry of the workload in [`ALL`](crate::ALL).
pub(crate) const WORKLOAD: WorkloadDescriptor = WorkloadDescriptor {
    name: "web",
    title: "a browser whose user clicks",
    keys: &["think", "work"],
    example: "{ web = { work = \"20ms\" } }",
    read,
};

fn read(settings: &mut Settings<'_, '_, '_, '_>) -> Option<Selected> {
    let default = Web::default();
    let web =
        Web { think: settings.above_zero("think", default.think), work: settings.above_zero("work", default.work) };
    settings.done(web)
}

impl ApplicationWorkload for Web {
    fn tasks(&self) -> u64 {
        1
    }

    fn plan(&self, params: Params) -> Plan {
        Plan::alone(self.application(params))
    }

    fn metric(&self) -> Option<Metric> {
        Some(Metric::Responses)
    }
}
