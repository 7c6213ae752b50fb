use super::{at_once, is_nothing};
use crate::ApplicationWorkload;
use crate::Selected;
use crate::Settings;
use crate::WorkloadDescriptor;
use crate::metrics::Metric;
use crate::network::{At, Peer, Plan};
use input::form::vms;
use input::problem::Wrong;
use sched::{Nanos, Params};
use sim::program::Length;
use sim::{Application, Object, Step, TaskSpec};

/// Capacity of an inbox: more than all data in transit. Unit: bytes.
const ROOM: u64 = 1 << 40;

/// A distributed search: the root sends a query to all leaves, which run in other VMs, and waits for the last answer.
#[derive(Clone, PartialEq, Debug)]
pub struct Search {
    /// VMs with a leaf. A VM that is listed twice has two leaves. Length: at least one.
    pub leaves: Vec<String>,
    /// Number of searches. `None`: without end.
    pub searches: Option<u64>,
    /// Time from the end of a search to the start of the next search.
    pub think: Length,
    /// CPU time of each leaf for a search.
    pub work: Length,
    /// CPU time that the root needs to merge the answers of a search.
    pub merge: Length,
    /// Size of a query to a leaf. Unit: bytes. Minimum: 1.
    pub query: u64,
    /// Size of an answer of a leaf. Unit: bytes. Minimum: 1.
    pub answer: u64,
}

impl Search {
    /// Returns the search with leaves in these VMs. The other values are free parameters: no source states them.
    #[must_use]
    pub fn new(leaves: Vec<String>) -> Search {
        Search {
            leaves,
            searches: None,
            think: Length::Exponential { mean: Nanos::ms(10) },
            work: Length::Fixed(Nanos::ms(1)),
            merge: Length::Fixed(Nanos::us(100)),
            query: 200,
            answer: 2_000,
        }
    }

    /// Returns the root, and the leaves in their VMs.
    #[must_use]
    pub fn plan(&self, params: Params) -> Plan {
        let mut plan = Plan::default();
        let mut root = Application::default();
        let (mut ask, mut gather) = (Vec::new(), Vec::new());
        for (n, vm) in self.leaves.iter().enumerate() {
            let mut leaf = Application::default();
            let query = leaf.share("query", Object::Inbox { room: ROOM });
            let answer = leaf.share("answer", Object::Port { window: u64::MAX });
            let body = vec![
                Step::Receive { pipe: query, bytes: self.query },
                Step::Run(self.work),
                Step::Send { pipe: answer, bytes: self.answer },
            ];
            let steps = vec![Step::Repeat { times: None, body }];
            leaf.tasks.push(TaskSpec { name: format!("leaf-{n}"), params: Params::default(), delay: at_once(), steps });
            plan.peers.push(Peer { at: At::Vm(vm.clone()), application: leaf });
            let asks = root.share(format!("query {n}"), Object::Port { window: u64::MAX });
            let gets = root.share(format!("answer {n}"), Object::Inbox { room: ROOM });
            ask.push(Step::Send { pipe: asks, bytes: self.query });
            gather.push(Step::Receive { pipe: gets, bytes: self.answer });
            plan.link("query", (0, asks), (n + 1, query));
            plan.link("answer", (n + 1, answer), (0, gets));
        }
        let mut body = Vec::new();
        if !is_nothing(self.think) {
            body.extend([Step::Sleep(self.think), Step::Woke]);
        }
        body.push(Step::JobBegins { deadline: None });
        body.extend(ask);
        body.extend(gather);
        body.extend([Step::Run(self.merge), Step::JobEnds]);
        let steps = vec![Step::Repeat { times: self.searches, body }];
        root.tasks.push(TaskSpec { name: "root".to_string(), params, delay: at_once(), steps });
        plan.application = root;
        plan
    }
}

/// Maximum value of each size setting. Unit: bytes.
const BYTES_MAX: u64 = 1 << 30;

/// Entry of the workload in [`ALL`](crate::ALL).
pub(crate) const WORKLOAD: WorkloadDescriptor = WorkloadDescriptor {
    name: "search",
    title: "a search that queries leaves in other VMs",
    keys: &["leaves", "searches", "think", "work", "merge", "query", "answer"],
    example: "{ search = { leaves = [\"vm2\", \"vm3\"] } }",
    read,
};

fn read(settings: &mut Settings<'_, '_, '_, '_>) -> Option<Selected> {
    if settings.table.get("leaves").is_none() {
        let right = "use leaves = [\"vm2\", \"vm3\"]: the VMs that are asked";
        settings.wrong(Wrong::new("the workload `search` has no leaves", "no leaf is asked", right), "leaves");
    }
    let default = Search::new(settings.read("leaves", |value| vms("leaves", value)).unwrap_or_default());
    let search = Search {
        searches: settings.times("searches", default.searches),
        think: settings.length("think", default.think),
        work: settings.above_zero("work", default.work),
        merge: settings.length("merge", default.merge),
        query: settings.count("query", BYTES_MAX, default.query),
        answer: settings.count("answer", BYTES_MAX, default.answer),
        ..default
    };
    settings.done(search)
}

impl ApplicationWorkload for Search {
    fn tasks(&self) -> u64 {
        1 + self.leaves.len() as u64
    }

    fn steps(&self) -> u64 {
        16 + 8 * self.leaves.len() as u64
    }

    fn plan(&self, params: Params) -> Plan {
        Search::plan(self, params)
    }

    fn metric(&self) -> Option<Metric> {
        Some(Metric::Requests)
    }
}
