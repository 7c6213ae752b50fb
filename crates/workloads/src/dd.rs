use super::at_once;
use crate::ApplicationWorkload;
use crate::Selected;
use crate::Settings;
use crate::WorkloadDescriptor;
use crate::metrics::Metric;
use crate::network::Plan;
use sched::Nanos;
use sched::Params;
use sim::program::Length;
use sim::{Application, Object, Step, TaskSpec};

/// Reads or writes the blocks of a disk one after the other, like `dd` without a page cache (`oflag=direct`).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Dd {
    /// Size of a block. Unit: bytes. Range: 1 to [`BLOCK_MAX`](Dd::BLOCK_MAX).
    pub block: u64,
    /// Number of blocks. `None`: without end.
    pub count: Option<u64>,
    /// CPU time per block.
    pub work: Length,
}

impl Dd {
    /// Maximum size of a block, which is the maximum size of a request. Unit: bytes.
    pub const BLOCK_MAX: u64 = 1 << 30;

    /// Returns one task, connected to a disk.
    #[must_use]
    pub fn plan(&self, params: Params) -> Plan {
        let mut application = Application::default();
        let port = application.share("requests", Object::Port { window: u64::MAX });
        let inbox = application.share("done", Object::Inbox { room: 1 << 40 });
        let body = vec![
            Step::JobBegins { deadline: None },
            Step::Run(self.work),
            Step::Send { pipe: port, bytes: self.block },
            Step::Receive { pipe: inbox, bytes: self.block },
            Step::JobEnds,
        ];
        let steps = vec![Step::Repeat { times: self.count, body }];
        application.tasks.push(TaskSpec { name: "dd".to_string(), params, delay: at_once(), steps });
        let mut plan = Plan::alone(application);
        plan.disk("dd", port, inbox);
        plan
    }
}

/// Entry of the workload in [`ALL`](crate::ALL).
pub(crate) const WORKLOAD: WorkloadDescriptor = WorkloadDescriptor {
    name: "dd",
    title: "a disk that is read or written block by block, like dd",
    keys: &["block", "count", "work"],
    example: "{ dd = { count = 1000 } }",
    read,
};

fn read(settings: &mut Settings<'_, '_, '_, '_>) -> Option<Selected> {
    let dd = Dd {
        // Source: xen-three-2007, figures 5 and 6, with 1000 blocks of 1 KB.
        block: settings.count("block", Dd::BLOCK_MAX, 1_024),
        count: settings.times("count", None),
        work: settings.above_zero("work", Nanos::us(10).into()),
    };
    settings.done(dd)
}

impl ApplicationWorkload for Dd {
    fn tasks(&self) -> u64 {
        1
    }

    fn plan(&self, params: Params) -> Plan {
        Dd::plan(self, params)
    }

    fn metric(&self) -> Option<Metric> {
        Some(Metric::Transfer { bytes: self.block })
    }
}
