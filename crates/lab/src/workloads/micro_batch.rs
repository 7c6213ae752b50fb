use sched::{Nanos, Params};
use sim::program::{Length, TimerMode};
use sim::{Application, Object, Step, TaskSpec};

/// A stream that is worked off in small batches, as Spark Streaming does: what comes in an interval is a batch, due at its end; it goes
/// through stages, in each of which all workers do their part and wait for the last. A batch that takes longer than an interval makes
/// the next ones wait. `poris` (section 6.5) counts words so, in two stages, and does not state the rest: that is free.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MicroBatch {
    /// From one batch to the next. Range: above zero.
    pub interval: Nanos,
    /// How many batches; `None`: without end.
    pub batches: Option<u64>,
    /// How many workers. Range: 1 ….
    pub workers: u32,
    /// How many stages. Range: 1 … [`STAGES_MAX`](MicroBatch::STAGES_MAX).
    pub stages: u32,
    /// CPU time of each worker in a stage.
    pub work: Length,
}

impl Default for MicroBatch {
    fn default() -> MicroBatch {
        let work = Length::Fixed(Nanos::ms(100));
        MicroBatch { interval: Nanos::s(1), batches: None, workers: 4, stages: 2, work }
    }
}

impl MicroBatch {
    /// The most stages of a batch.
    pub const STAGES_MAX: u32 = 1000;

    /// All workers; the first of them takes in the batches.
    #[must_use]
    pub fn application(&self, params: Params) -> Application {
        let mut application = Application::default();
        let all = application.share("stage", Object::Barrier { parties: self.workers });
        let stages = (0..self.stages).flat_map(|_| [Step::Run(self.work), Step::Barrier(all)]);
        let mut work = vec![Step::Barrier(all)];
        work.extend(stages);
        let mut body = vec![
            Step::Timer { timer: 0, period: self.interval, mode: TimerMode::Absolute },
            Step::JobBegins { deadline: Some(self.interval) },
        ];
        body.extend(work.clone());
        body.push(Step::JobEnds);
        let delay = Length::Fixed(Nanos::ZERO);
        let mut add = |name: String, steps| application.tasks.push(TaskSpec { name, params, delay, steps });
        add("worker-0".to_string(), vec![Step::Repeat { times: self.batches, body }, Step::Quit]);
        for worker in 1..self.workers {
            add(format!("worker-{worker}"), vec![Step::Repeat { times: None, body: work.clone() }]);
        }
        application
    }
}
