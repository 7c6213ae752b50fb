//! [`Stop`]: the stop class. Its entities run before all other entities until they block, in order of arrival.
//!
//! The kernel has one stop thread for each CPU, bound to that CPU. Here the number of entities is not limited, and an
//! entity that may migrate is pushed or pulled like a real-time task.

use super::layer::Layer;
use crate::most_urgent::{MostUrgent, Rank};
use sched::{CpuId, Cx, Decision, EntityId, Nanos, Params, Policy, Refused, StopReason, Stopped, Topology, Wake};

/// The state of the stop class.
#[derive(Debug)]
pub(crate) struct Stop {
    queues: MostUrgent<()>,
}

impl Stop {
    pub(crate) fn new(host: &Topology) -> Stop {
        Stop { queues: MostUrgent::new(host.cpus, false) }
    }
}

impl Layer for Stop {
    fn adopt(&mut self, e: EntityId, cpu: CpuId, cx: &mut Cx<'_>) {
        self.queues.adopt(e, cpu);
        cx.kick(cpu);
    }

    fn take(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        self.queues.take(cpu, cx);
    }
}

impl Policy for Stop {
    fn attach(&mut self, e: EntityId, cx: &mut Cx<'_>) -> Result<(), Refused> {
        self.queues.attach(e, (), cx.last_cpu(e));
        Ok(())
    }

    fn detach(&mut self, e: EntityId, _cx: &mut Cx<'_>) {
        assert!(self.queues.queue_of(e).is_none(), "{e} leaves blocked");
    }

    fn adjust(&mut self, e: EntityId, _old: &Params, cx: &mut Cx<'_>) -> Result<(), Refused> {
        if let Some(cpu) = self.queues.queue_of(e) {
            if cx.may_run(e, cpu) {
                self.queues.push_one(e, cx);
            } else {
                self.queues.unqueue(e);
                self.queues.enqueue(e, cx);
            }
        }
        Ok(())
    }

    fn wake(&mut self, e: EntityId, _why: Wake, cx: &mut Cx<'_>) {
        self.queues.enqueue(e, cx);
    }

    fn sleep(&mut self, e: EntityId, _cx: &mut Cx<'_>) {
        self.queues.unqueue(e);
    }

    fn charge(&mut self, _e: EntityId, _ran: Nanos, _cx: &mut Cx<'_>) {}

    fn put(&mut self, cpu: CpuId, prev: Stopped, cx: &mut Cx<'_>) {
        let e = prev.entity;
        self.queues.put(cpu, e);
        match prev.why {
            StopReason::Blocked => {}
            _ if !cx.may_run(e, cpu) => self.queues.enqueue(e, cx),
            StopReason::Yielded => self.queues.queue_last(e, cpu),
            StopReason::Expired | StopReason::Kicked => self.queues.queue_first(e, cpu),
        }
    }

    fn pick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Decision {
        self.queues.pick(cpu, Rank::Other, cx).map_or(Decision::IDLE, Decision::forever)
    }

    fn inspect(&self, e: EntityId, show: &mut dyn FnMut(&'static str, i64)) {
        show("cpu", i64::try_from(self.queues.home(e).index()).expect("it is small"));
    }
}
