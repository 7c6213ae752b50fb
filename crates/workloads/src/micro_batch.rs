use super::{Waits, at_once, is_nothing};
use crate::ApplicationWorkload;
use crate::Selected;
use crate::Settings;
use crate::WorkloadDescriptor;
use crate::fork_join::waits;
use crate::metrics::Metric;
use crate::network::{At, Peer, Plan};
use crate::settings::Where;
use crate::settings::only;
use crate::settings::places;
use input::form;
use input::problem::Wrong;
use sched::id::CPUS_MAX;
use sched::{Nanos, Params};
use sim::program::{Length, ObjectId, TimerMode};
use sim::{Application, Object, Step, TaskSpec};

/// A stream that is processed in small batches, as in Spark Streaming. The data of an interval is a batch. The batch
/// becomes due at the end of the interval, and passes through stages. In each stage, all workers process their parts
/// and wait for the last worker. A batch that takes longer than an interval delays the next batches. `poris` (section
/// 6.4) runs a word count in this way. The paper states no parameters, so all parameters are free. With workers in VMs,
/// a driver sends each worker its part of a stage and waits for the results. The threads of a worker process the part
/// together.
#[derive(Clone, PartialEq, Debug)]
pub struct MicroBatch {
    /// Time from one batch to the next. Range: above zero.
    pub interval: Nanos,
    /// Number of batches. `None`: without end.
    pub batches: Option<u64>,
    /// Number of workers on the driver's machine. Minimum: 1.
    pub workers: u32,
    /// VMs with a worker each, instead of `workers`. A VM that is listed twice has two workers.
    pub places: Vec<String>,
    /// Number of threads per worker in a VM. Minimum: 1.
    pub threads: u32,
    /// Whether the threads of a worker sleep or spin while they wait for each other at the end of a stage.
    pub waits: Waits,
    /// CPU time that the driver needs to launch the part of one thread in a stage. This time limits the gain from
    /// additional threads.
    pub launch: Length,
    /// Data that the driver sends to all workers together in a stage. Unit: bytes. Minimum: 1.
    pub input: u64,
    /// Data that each worker returns per stage. Unit: bytes. Minimum: 1.
    pub output: u64,
    /// Number of records per batch. Zero: records are not counted.
    pub records: u64,
    /// CPU time per record and stage. If given, the time for all records is divided evenly among all working threads,
    /// and replaces `work`.
    pub record_work: Option<Nanos>,
    /// Number of stages. Range: 1 to [`STAGES_MAX`](MicroBatch::STAGES_MAX).
    pub stages: u32,
    /// CPU time per stage of each worker; with `places`, of each thread of a worker.
    pub work: Length,
}

impl Default for MicroBatch {
    fn default() -> MicroBatch {
        let work = Length::Fixed(Nanos::ms(100));
        MicroBatch {
            interval: Nanos::s(1),
            batches: None,
            workers: 4,
            places: Vec::new(),
            threads: 1,
            waits: Waits::Sleeping,
            launch: Length::Fixed(Nanos::ms(1)),
            input: 1_000_000,
            output: 100_000,
            records: 0,
            record_work: None,
            stages: 2,
            work,
        }
    }
}

impl MicroBatch {
    /// Maximum number of stages of a batch.
    pub const STAGES_MAX: u32 = 1000;

    /// Returns the number of tasks that process a stage at the same time.
    #[must_use]
    pub fn lanes(&self) -> u64 {
        match self.places.len() as u64 {
            0 => u64::from(self.workers),
            places => places * u64::from(self.threads),
        }
    }

    /// Returns the CPU time per stage of each task that processes the stage.
    fn part(&self) -> Length {
        let Some(each) = self.record_work else { return self.work };
        Length::Fixed(Nanos::ns((each.saturating_mul(self.records).as_ns() / self.lanes()).max(1)))
    }

    /// Returns the driver on the application's own machine, and a worker in each VM.
    #[must_use]
    pub fn plan(&self, params: Params) -> Plan {
        if self.places.is_empty() {
            return Plan::alone(self.application(params));
        }
        let mut plan = Plan::default();
        let mut driver = Application::default();
        let (mut launch, mut gather) = (Vec::new(), Vec::new());
        let input = self.input.div_ceil(self.places.len() as u64);
        for (n, vm) in self.places.iter().enumerate() {
            let (worker, takes, gives) = self.worker(n, input);
            plan.peers.push(Peer { at: At::Vm(vm.clone()), application: worker });
            let port = driver.share(format!("input {n}"), Object::Port { window: u64::MAX });
            let inbox = driver.share(format!("output {n}"), Object::Inbox { room: 1 << 50 });
            if !is_nothing(self.launch) {
                launch.push(Step::Repeat { times: Some(self.threads.into()), body: vec![Step::Run(self.launch)] });
            }
            launch.push(Step::Send { pipe: port, bytes: input });
            gather.push(Step::Receive { pipe: inbox, bytes: self.output });
            plan.link("input", (0, port), (n + 1, takes));
            plan.link("output", (n + 1, gives), (0, inbox));
        }
        launch.extend(gather);
        let body = vec![
            Step::Timer { timer: 0, period: self.interval, mode: TimerMode::Absolute },
            Step::JobBegins { deadline: Some(self.interval) },
            Step::Repeat { times: Some(self.stages.into()), body: launch },
            Step::JobEnds,
        ];
        let steps = vec![Step::Repeat { times: self.batches, body }, Step::Quit];
        driver.tasks.push(TaskSpec { name: "driver".to_string(), params, delay: at_once(), steps });
        plan.application = driver;
        plan
    }

    /// Returns worker number `n`, its inbox, which receives `input` bytes per stage, and its port, which sends the
    /// result.
    fn worker(&self, n: usize, input: u64) -> (Application, ObjectId, ObjectId) {
        let mut worker = Application::default();
        let takes = worker.share("input", Object::Inbox { room: 1 << 50 });
        let gives = worker.share("output", Object::Port { window: u64::MAX });
        let meeting = self.waits.barrier(self.threads);
        // A single thread needs no barrier. While the threads wait for the next part, they always sleep, because the
        // worker has no work then.
        let fork = (self.threads > 1).then(|| worker.share("fork", Object::Barrier { parties: self.threads }));
        let join = (self.threads > 1).then(|| worker.share("join", meeting));
        for thread in 0..self.threads {
            let is_first = thread == 0;
            let mut body = Vec::new();
            body.extend(is_first.then_some(Step::Receive { pipe: takes, bytes: input }));
            body.extend(fork.map(Step::Barrier));
            body.push(Step::Run(self.part()));
            body.extend(join.map(Step::Barrier));
            body.extend(is_first.then_some(Step::Send { pipe: gives, bytes: self.output }));
            let name = if self.threads > 1 { format!("worker-{n}.{thread}") } else { format!("worker-{n}") };
            let steps = vec![Step::Repeat { times: None, body }];
            worker.tasks.push(TaskSpec { name, params: Params::default(), delay: at_once(), steps });
        }
        (worker, takes, gives)
    }

    /// Returns all workers. The first worker receives the batches.
    #[must_use]
    pub fn application(&self, params: Params) -> Application {
        let mut application = Application::default();
        let all = application.share("stage", Object::Barrier { parties: self.workers });
        let stages = (0..self.stages).flat_map(|_| [Step::Run(self.part()), Step::Barrier(all)]);
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

/// Maximum size of a message. Unit: bytes.
const BYTES_MAX: u64 = 1 << 30;

/// Maximum number of records per batch.
const RECORDS_MAX: u64 = 1 << 40;

/// Maximum number of workers in VMs.
const WORKERS_MAX: usize = 1024;

/// Entry of the workload in [`ALL`](crate::ALL).
pub(crate) const WORKLOAD: WorkloadDescriptor = WorkloadDescriptor {
    name: "micro_batch",
    title: "a stream in small batches, like Spark Streaming",
    keys: &[
        "interval",
        "batches",
        "workers",
        "stages",
        "work",
        "records",
        "record_work",
        "threads",
        "waits",
        "spin",
        "launch",
        "input",
        "output",
    ],
    example: "{ micro_batch = { interval = \"1s\", work = \"100ms\" } }",
    read,
};

fn read(settings: &mut Settings<'_, '_, '_, '_>) -> Option<Selected> {
    let default = MicroBatch::default();
    let (workers, places) = match places(settings, "workers", default.workers, WORKERS_MAX) {
        Where::Here(workers) => (workers, Vec::new()),
        Where::Vms(places) => (1, places),
    };
    if places.is_empty() {
        let keys = ["threads", "waits", "spin", "launch", "input", "output"];
        only(settings, &keys, "workers in VMs, workers = [\"vm2\", \"vm3\"]");
    }
    let record_work = settings.read("record_work", |value| form::time_above_zero("record_work", value));
    if record_work.is_some() {
        only(settings, &["work"], "batches without `record_work`");
    }
    if record_work.is_some() && settings.table.get("records").is_none() {
        let right = "add records = 100000, the number of records of a batch";
        settings.wrong(
            Wrong::new("there is work for each record, but no number of records", "no number of records", right),
            "record_work",
        );
    }
    let batches = MicroBatch {
        interval: settings.time("interval", default.interval),
        batches: settings.times("batches", default.batches),
        workers,
        places,
        threads: settings.few("threads", 1, CPUS_MAX as u32, default.threads),
        waits: waits(settings, default.waits),
        launch: settings.length("launch", default.launch),
        input: settings.count("input", BYTES_MAX, default.input),
        output: settings.count("output", BYTES_MAX, default.output),
        records: settings.count("records", RECORDS_MAX, default.records),
        record_work,
        stages: settings.few("stages", 1, MicroBatch::STAGES_MAX, default.stages),
        work: settings.above_zero("work", default.work),
    };
    settings.done(batches)
}

impl ApplicationWorkload for MicroBatch {
    fn tasks(&self) -> u64 {
        self.lanes() + u64::from(!self.places.is_empty())
    }

    fn steps(&self) -> u64 {
        if self.places.is_empty() {
            u64::from(self.workers) * (2 * u64::from(self.stages) + 5)
        } else {
            16 * self.tasks()
        }
    }

    fn plan(&self, params: Params) -> Plan {
        MicroBatch::plan(self, params)
    }

    fn metric(&self) -> Option<Metric> {
        Some(Metric::Batches { interval: self.interval, records: self.records })
    }
}
