use super::{Waits, mean};
use sched::{Nanos, Params};
use sim::program::Length;
use sim::{Application, Object, Step, TaskSpec};

/// A bulk-synchronous program: in each superstep every node computes, then all communicate with all, and wait for the last. After
/// `patterns` (`vsched-2005`, section 6: four nodes, compute/communicate 0.5). On one machine the nodes are tasks of it, and communicating
/// takes time but no CPU: "the communication phase stays largely the same" however little the nodes get (section 6.1).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bsp {
    /// How many nodes. Range: 1 ….
    pub nodes: u32,
    /// How many supersteps; `None`: without end.
    pub supersteps: Option<u64>,
    /// CPU time of each node in a superstep.
    pub compute: Length,
    /// How long it takes to communicate.
    pub communicate: Length,
    /// How they wait for the last.
    pub waits: Waits,
}

impl Default for Bsp {
    fn default() -> Bsp {
        let (compute, communicate) = (Length::Fixed(Nanos::ms(10)), Length::Fixed(Nanos::ms(20)));
        Bsp { nodes: 4, supersteps: None, compute, communicate, waits: Waits::Sleeping }
    }
}

impl Bsp {
    /// A superstep at full speed; in the mean, where lengths are random.
    #[must_use]
    pub fn alone(&self) -> Nanos {
        mean(self.compute).saturating_add(mean(self.communicate))
    }

    /// All nodes.
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

impl Waits {
    /// A barrier at which `parties` wait for each other in this way.
    pub(super) fn barrier(self, parties: u32) -> Object {
        match self {
            Waits::Sleeping => Object::Barrier { parties },
            Waits::Spinning => Object::SpinBarrier { parties },
        }
    }
}
