use crate::ApplicationWorkload;
use crate::Selected;
use crate::Settings;
use crate::WorkloadDescriptor;
use crate::metrics::Metric;
use crate::network::Plan;
use sched::{Nanos, Params};
use sim::program::Length;
use sim::{Application, Object, Step, TaskSpec};

/// Memory streaming, modelled on STREAM (McCalpin). Threads repeatedly pass through arrays that exceed all caches, and
/// wait for each other after each pass. The metric is bandwidth. Other tasks on the same CPU reduce the bandwidth: they
/// take CPU time, and cause context switches and cold caches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stream {
    /// Number of threads. Minimum: 1.
    pub threads: u32,
    /// Number of passes. `None`: without end.
    pub passes: Option<u64>,
    /// Duration of a thread's pass on an otherwise idle machine. Range: above zero.
    pub pass: Nanos,
    /// Amount of data that a thread moves in a pass. Unit: bytes. Range: 1 to [`BYTES_MAX`](Stream::BYTES_MAX).
    pub bytes: u64,
}

impl Default for Stream {
    /// Returns the triad of STREAM 5.10: three arrays of 10 million doubles, at 10 GB/s, about the bandwidth of one
    /// channel of DDR3-1333.
    fn default() -> Stream {
        Stream { threads: 1, passes: None, pass: Nanos::ms(24), bytes: 240_000_000 }
    }
}

impl Stream {
    /// Maximum amount of data that a thread moves in a pass. Unit: bytes.
    pub const BYTES_MAX: u64 = 1 << 40;

    /// Returns all threads.
    #[must_use]
    pub fn application(&self, params: Params) -> Application {
        let mut application = Application::default();
        let all = application.share("pass", Object::Barrier { parties: self.threads });
        for thread in 0..self.threads {
            let mut body = vec![Step::Run(Length::Fixed(self.pass)), Step::Barrier(all)];
            if thread == 0 {
                body.insert(0, Step::JobBegins { deadline: None });
                body.push(Step::JobEnds);
            }
            let steps = vec![Step::Repeat { times: self.passes, body }];
            let (name, delay) = (format!("thread-{thread}"), Length::Fixed(Nanos::ZERO));
            application.tasks.push(TaskSpec { name, params, delay, steps });
        }
        application
    }
}

/// Entry of the workload in [`ALL`](crate::ALL).
pub(crate) const WORKLOAD: WorkloadDescriptor = WorkloadDescriptor {
    name: "stream",
    title: "memory streaming, like STREAM",
    keys: &["threads", "passes", "pass", "bytes"],
    example: "{ stream = { threads = 1 } }",
    read,
};

fn read(settings: &mut Settings<'_, '_, '_, '_>) -> Option<Selected> {
    let default = Stream::default();
    let stream = Stream {
        threads: settings.tasks("threads", default.threads),
        passes: settings.times("passes", default.passes),
        pass: settings.time("pass", default.pass),
        bytes: settings.count("bytes", Stream::BYTES_MAX, default.bytes),
    };
    settings.done(stream)
}

impl ApplicationWorkload for Stream {
    fn tasks(&self) -> u64 {
        u64::from(self.threads)
    }

    fn plan(&self, params: Params) -> Plan {
        Plan::alone(self.application(params))
    }

    fn metric(&self) -> Option<Metric> {
        Some({
            let bytes = self.bytes.saturating_mul(u64::from(self.threads));
            Metric::Rounds { alone: self.pass, bytes, flops: 0 }
        })
    }
}
