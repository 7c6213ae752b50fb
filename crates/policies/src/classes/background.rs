//! [`Background`]: round robin below the other classes, for entities with neither a priority nor a reservation.

use sched::queue::Lists;
use sched::{CpuId, Cx, Decision, EntityId, Knob, Nanos, Params, Policy, Refused, Running, StopReason, Stopped, Wake};

/// The time slice of the class.
pub(crate) const QUANTUM: Knob = Knob::time(
    "quantum",
    Nanos::ms(10),
    (Nanos::us(10), Nanos::s(1)),
    "the time slice of entities with neither priority nor reservation",
)
.from("ours: the kernel has its fair class there; see linux");

const QUEUE: usize = 0;

/// The state of the round robin below all other classes.
#[derive(Debug)]
pub(crate) struct Background {
    queue: Lists,
    quantum: Nanos,
}

impl Background {
    pub(crate) fn new(quantum: Nanos) -> Background {
        Background { queue: Lists::new(1), quantum }
    }

    fn enqueue(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.queue.push_back(QUEUE, e);
        if let Some(cpu) = cx.idle_cpu_for(e) {
            cx.kick(cpu);
        }
    }

    /// Kicks every idle CPU on which a waiting entity may run: the CPU kicked at the entity's wake-up may run another
    /// entity now.
    fn call_idle_cpus(&self, but: Option<CpuId>, cx: &mut Cx<'_>) {
        if self.queue.all_empty() {
            return;
        }
        for cpu in cx.topology().iter() {
            let idle = Some(cpu) != but && cx.running(cpu) == Running::Idle && !cx.kicked(cpu);
            if idle && self.queue.iter(QUEUE).any(|e| cx.may_run(e, cpu)) {
                cx.kick(cpu);
            }
        }
    }

    /// Kicks idle CPUs for waiting entities, because a class above takes `cpu`.
    pub(crate) fn take(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        self.call_idle_cpus(Some(cpu), cx);
    }
}

impl Policy for Background {
    fn attach(&mut self, e: EntityId, _cx: &mut Cx<'_>) -> Result<(), Refused> {
        self.queue.reserve(e);
        Ok(())
    }

    fn detach(&mut self, _e: EntityId, _cx: &mut Cx<'_>) {}

    fn adjust(&mut self, _e: EntityId, _old: &Params, cx: &mut Cx<'_>) -> Result<(), Refused> {
        self.call_idle_cpus(None, cx);
        Ok(())
    }

    fn wake(&mut self, e: EntityId, _why: Wake, cx: &mut Cx<'_>) {
        self.enqueue(e, cx);
    }

    fn sleep(&mut self, e: EntityId, _cx: &mut Cx<'_>) {
        self.queue.remove(e);
    }

    fn charge(&mut self, _e: EntityId, _ran: Nanos, _cx: &mut Cx<'_>) {}

    fn plan(&mut self, cx: &mut Cx<'_>) {
        self.call_idle_cpus(None, cx);
    }

    fn put(&mut self, _cpu: CpuId, prev: Stopped, cx: &mut Cx<'_>) {
        if prev.why != StopReason::Blocked {
            self.enqueue(prev.entity, cx);
        }
    }

    fn pick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Decision {
        let chosen = self.queue.iter(QUEUE).find(|&e| cx.may_run(e, cpu));
        if let Some(e) = chosen {
            self.queue.remove(e);
        }
        self.call_idle_cpus(Some(cpu), cx);
        chosen.map_or(Decision::IDLE, |e| Decision::until(e, cx.now() + self.quantum))
    }
}
