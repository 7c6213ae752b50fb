use sched::{Nanos, Params};
use sim::program::{Length, TimerMode};
use sim::{Application, Step, TaskSpec};

/// A trace of load that is played back: so many tasks are runnable in the mean, step by step. After Dinda and O'Hallaron, Realistic CPU
/// workloads through host load trace playback (LCR 2000), which `vsched-2005`, section 6.2, uses: at a load of 1.5 one worker wants to
/// run all of the step and another the first half of it, whatever they get.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoadPlayback {
    /// The load of each step. Unit: thousandths. Range: 0 … [`LOAD_MILLI_MAX`](LoadPlayback::LOAD_MILLI_MAX), at least one.
    pub loads_milli: Vec<u64>,
    /// How long a step is. Range: above zero.
    pub step: Nanos,
}

impl LoadPlayback {
    /// The largest load, in thousandths.
    pub const LOAD_MILLI_MAX: u64 = 1_000_000;
    /// CPU time from one look at the clock to the next.
    pub const GRAIN: Nanos = Nanos::ms(1);

    /// Steps of a second, the pace of the traces.
    #[must_use]
    pub fn new(loads_milli: Vec<u64>) -> LoadPlayback {
        LoadPlayback { loads_milli, step: Nanos::s(1) }
    }

    /// How many workers it takes.
    #[must_use]
    pub fn workers(&self) -> u64 {
        self.loads_milli.iter().max().copied().unwrap_or(0).div_ceil(1000).max(1)
    }

    /// The mean of all steps. Unit: thousandths.
    #[must_use]
    pub fn mean_milli(&self) -> u64 {
        let sum: u128 = self.loads_milli.iter().copied().map(u128::from).sum();
        u64::try_from(sum / self.loads_milli.len().max(1) as u128).unwrap_or(u64::MAX)
    }

    /// All workers.
    #[must_use]
    pub fn application(&self, params: Params) -> Application {
        let worker = |number: u64| {
            let mut steps = Vec::new();
            for load in &self.loads_milli {
                let share = load.saturating_sub(1000 * number).min(1000);
                let wants = u128::from(self.step.as_ns()) * u128::from(share) / 1000;
                let wants = Nanos::ns(u64::try_from(wants).unwrap_or(u64::MAX));
                let rests = self.step.saturating_sub(wants);
                let grain = LoadPlayback::GRAIN;
                steps.extend((!wants.is_zero()).then_some(Step::RunUntil { timer: 0, period: wants, grain }));
                let mode = TimerMode::Absolute;
                steps.extend((!rests.is_zero()).then_some(Step::Timer { timer: 0, period: rests, mode }));
            }
            TaskSpec { name: format!("worker-{number}"), params, delay: Length::Fixed(Nanos::ZERO), steps }
        };
        Application { tasks: (0..self.workers()).map(worker).collect(), ..Application::default() }
    }
}
