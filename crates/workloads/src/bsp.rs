use super::{Waits, at_once, is_nothing, mean};
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
use sched::{Nanos, Params};
use sim::program::{Length, ObjectId};
use sim::{Application, Object, Step, TaskSpec};

/// A bulk-synchronous program. In each superstep every node computes, then all nodes communicate with each other and
/// wait for the last node. Source: `patterns` (`vsched-2005`, section 6: four nodes, compute/communicate 0.5). On one
/// machine, the nodes are tasks, and communication takes time but no CPU time. Even if the nodes receive little CPU
/// time, "the communication phase stays largely the same" (section 6.1). With nodes in VMs, each node sends a message
/// to every other node over the network. A node continues after it has received a message from every other node.
#[derive(Clone, PartialEq, Debug)]
pub struct Bsp {
    /// Number of nodes on the application's own machine. Minimum: 1; exactly 1 if `places` names VMs.
    pub nodes: u32,
    /// VMs of the other nodes. A VM that is listed twice has two nodes. Length: at most
    /// [`PLACES_MAX`](Bsp::PLACES_MAX).
    pub places: Vec<String>,
    /// Size of a message from one node to another. Unit: bytes. Minimum: 1.
    pub bytes: u64,
    /// Floating-point operations of each node in a superstep. Zero: operations are not counted.
    pub flops: u64,
    /// Number of supersteps. `None`: without end.
    pub supersteps: Option<u64>,
    /// CPU time of each node in a superstep.
    pub compute: Length,
    /// Duration of the communication. If nodes are on other machines, this time is added to the time of the network.
    pub communicate: Length,
    /// Whether waiting nodes sleep or spin. Nodes on several machines always sleep.
    pub waits: Waits,
}

impl Default for Bsp {
    fn default() -> Bsp {
        let (compute, communicate) = (Length::Fixed(Nanos::ms(10)), Length::Fixed(Nanos::ms(20)));
        // Messages to three nodes take 20 ms on a link of 1 Gbit/s, like the communication on one machine.
        let (places, bytes) = (Vec::new(), 833_333);
        Bsp { nodes: 4, places, bytes, flops: 0, supersteps: None, compute, communicate, waits: Waits::Sleeping }
    }
}

impl Bsp {
    /// Maximum number of nodes on other machines. Each node has links with all others.
    pub const PLACES_MAX: usize = 63;

    /// Returns the number of floating-point operations of all nodes in a superstep.
    #[must_use]
    pub fn flops_of_all(&self) -> u64 {
        self.flops.saturating_mul(u64::from(self.nodes)).saturating_mul(1 + self.places.len() as u64)
    }

    /// Returns the duration of a superstep at full speed, excluding the network. If lengths are random, returns the
    /// mean.
    #[must_use]
    pub fn alone(&self) -> Nanos {
        mean(self.compute).saturating_add(mean(self.communicate))
    }

    /// Returns the nodes of a program on one machine.
    #[must_use]
    pub fn application(&self, params: Params) -> Application {
        let mut application = Application::default();
        let parties = self.nodes;
        let all = application.share("superstep", self.waits.barrier(parties));
        for node in 0..self.nodes {
            let mut body = vec![Step::Run(self.compute), Step::Sleep(self.communicate), Step::Barrier(all)];
            if node == 0 {
                body.insert(0, Step::JobBegins { deadline: None });
                body.push(Step::JobEnds);
            }
            let steps = vec![Step::Repeat { times: self.supersteps, body }];
            let delay = Length::Fixed(Nanos::ZERO);
            application.tasks.push(TaskSpec { name: format!("node-{node}"), params, delay, steps });
        }
        application
    }
}

impl Bsp {
    /// Returns a node on the application's own machine and a node in each VM, with links from each node to every other
    /// node.
    #[must_use]
    pub fn plan(&self, params: Params) -> Plan {
        if self.places.is_empty() {
            return Plan::alone(self.application(params));
        }
        let count = 1 + self.places.len();
        let mut nodes = vec![Application::default(); count];
        // Each node sends to the next node first. While all nodes are equally fast, no two nodes send to the same node
        // at the same time.
        let mut sends: Vec<Vec<ObjectId>> = vec![Vec::new(); count];
        let mut gets: Vec<Vec<ObjectId>> = vec![Vec::new(); count];
        let mut plan = Plan { exchange: Some(self.bytes), ..Plan::default() };
        for from in 0..count {
            for to in (1..count).map(|step| (from + step) % count) {
                let port = nodes[from].share(format!("to {to}"), Object::Port { window: u64::MAX });
                let inbox = nodes[to].share(format!("from {from}"), Object::Inbox { room: 1 << 50 });
                sends[from].push(port);
                gets[to].push(inbox);
                plan.link("superstep", (from, port), (to, inbox));
            }
        }
        for (node, application) in nodes.iter_mut().enumerate() {
            let params = if node == 0 { params } else { Params::default() };
            let steps = self.steps(node == 0, &sends[node], &gets[node]);
            application.tasks.push(TaskSpec { name: format!("node-{node}"), params, delay: at_once(), steps });
        }
        let mut nodes = nodes.into_iter();
        plan.application = nodes.next().unwrap_or_default();
        let elsewhere = self.places.iter().zip(nodes);
        plan.peers = elsewhere.map(|(vm, application)| Peer { at: At::Vm(vm.clone()), application }).collect();
        plan
    }

    fn steps(&self, is_measured: bool, sends: &[ObjectId], gets: &[ObjectId]) -> Vec<Step> {
        let bytes = self.bytes;
        let mut body = Vec::new();
        body.extend(is_measured.then_some(Step::JobBegins { deadline: None }));
        body.push(Step::Run(self.compute));
        body.extend((!is_nothing(self.communicate)).then_some(Step::Sleep(self.communicate)));
        body.extend(sends.iter().map(|&pipe| Step::Send { pipe, bytes }));
        body.extend(gets.iter().map(|&pipe| Step::Receive { pipe, bytes }));
        body.extend(is_measured.then_some(Step::JobEnds));
        vec![Step::Repeat { times: self.supersteps, body }]
    }
}

/// Maximum size of a message. Unit: bytes.
const BYTES_MAX: u64 = 1 << 30;

/// Maximum number of floating-point operations of a node in a superstep.
const FLOPS_MAX: u64 = 1 << 50;

/// Entry of the workload in [`ALL`](crate::ALL).
pub(crate) const WORKLOAD: WorkloadDescriptor = WorkloadDescriptor {
    name: "bsp",
    title: "a bulk-synchronous program",
    keys: &["nodes", "supersteps", "compute", "communicate", "waits", "spin", "bytes", "flops"],
    example: "{ bsp = { nodes = 4, compute = \"10ms\", communicate = \"20ms\" } }",
    read,
};

fn read(settings: &mut Settings<'_, '_, '_, '_>) -> Option<Selected> {
    let default = Bsp::default();
    let (nodes, places) = match places(settings, "nodes", default.nodes, Bsp::PLACES_MAX) {
        Where::Here(nodes) => (nodes, Vec::new()),
        Where::Vms(places) => (1, places),
    };
    let communicate = if places.is_empty() {
        only(settings, &["bytes"], "nodes in VMs, nodes = [\"vm2\", \"vm3\"]");
        default.communicate
    } else {
        only(settings, &["waits", "spin"], "nodes on one machine, nodes = 4");
        Nanos::ZERO.into()
    };
    let bsp = Bsp {
        nodes,
        places,
        bytes: settings.count("bytes", BYTES_MAX, default.bytes),
        flops: settings.count("flops", FLOPS_MAX, default.flops),
        supersteps: settings.times("supersteps", default.supersteps),
        compute: settings.above_zero("compute", default.compute),
        communicate: settings.length("communicate", communicate),
        waits: waits(settings, default.waits),
    };
    settings.done(bsp)
}

impl ApplicationWorkload for Bsp {
    fn tasks(&self) -> u64 {
        u64::from(self.nodes) + self.places.len() as u64
    }

    fn steps(&self) -> u64 {
        16 * self.tasks().saturating_mul(1 + self.places.len() as u64)
    }

    fn plan(&self, params: Params) -> Plan {
        Bsp::plan(self, params)
    }

    fn metric(&self) -> Option<Metric> {
        Some(Metric::Rounds { alone: self.alone(), bytes: 0, flops: self.flops_of_all() })
    }
}
