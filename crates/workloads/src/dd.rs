use super::at_once;
use crate::network::Plan;
use sched::Params;
use sim::program::Length;
use sim::{Application, Object, Step, TaskSpec};

/// Reads or writes a disk block by block, each when the one before it is done, as dd does without a page cache (`oflag=direct`).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Dd {
    /// Of each block. Unit: bytes. Range: 1 … [`BLOCK_MAX`](Dd::BLOCK_MAX).
    pub block: u64,
    /// How many; `None`: without end.
    pub count: Option<u64>,
    /// CPU time of each.
    pub work: Length,
}

impl Dd {
    /// The largest block: what a request can have. Unit: bytes.
    pub const BLOCK_MAX: u64 = 1 << 30;

    /// One task, and its disk.
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
