//! Round robin: each entity runs for one quantum, in order of arrival.
//!
//! This policy is the teaching example and the smallest complete policy. All CPUs share one run queue. A woken entity
//! is enqueued at the tail. A picked entity runs for at most one quantum and is then enqueued at the tail again.
//!
//! ```text
//! quantum 2ms, one CPU       0         2         4         6         8
//! a, b hogs from 0, c at 3   aaaaaaaaaabbbbbbbbbbaaaaaaaaaacccccccccc…
//! ```
//!
//! Weights, reservations and classes are ignored. An entity waits for at most one quantum per other entity.
//!
//! Source: textbook; compare SCHED_RR without priorities (sched(7)).

use sched::queue::Lists;
use sched::{
    AlarmSlots, Conserving, CpuId, Cx, Decision, Descriptor, EntityId, Guarantees, Knob, Knobs, LoadBounds, Nanos,
    Params, Policy, Refused, StopReason, Stopped, Topology, Wake,
};

/// The descriptor of this policy.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "round-robin",
    title: "each entity runs for one quantum, in order of arrival",
    source: "textbook; compare SCHED_RR, sched(7)",
    good_for: "learning how a policy is written; a baseline without any preference",
    bad_at: "weights, deadlines and short latencies",
    text: include_str!("round_robin.rs"),
    conserving: |load| Conserving::Global { slack: call_bound(load) },
    starvation: |load| Some(turn_bound(load)),
    guarantees: Guarantees::NOTHING,
    alarms: AlarmSlots::NONE,
    knobs: &[
        Knob::time("quantum", Nanos::ms(10), (Nanos::us(1), Nanos::s(10)), "the longest time slice").from("textbook")
    ],
    build,
};

fn build(_host: &Topology, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    Ok(Box::new(RoundRobin { queue: Lists::new(1), quantum: knobs.time("quantum") }))
}

/// Returns the maximum time from a kick for an entity until the entity runs. The kicked CPU picks the first entity in
/// the queue that may run on this CPU. If this is another entity, it runs for at most one quantum.
fn call_bound(load: &LoadBounds<'_>) -> Nanos {
    if load.has_affinity { load.knobs.time("quantum") } else { Nanos::ZERO }
}

/// Returns the maximum wait for a time slice. Every other entity may first run for one quantum, on the same CPU if all
/// affinities allow only that CPU.
fn turn_bound(load: &LoadBounds<'_>) -> Nanos {
    load.knobs.time("quantum").saturating_mul(load.entities)
}

const QUEUE: usize = 0;

struct RoundRobin {
    queue: Lists,
    quantum: Nanos,
}

impl RoundRobin {
    /// Enqueues `e` last, and kicks an idle CPU on which `e` may run.
    fn enqueue(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.queue.push_back(QUEUE, e);
        if let Some(cpu) = cx.idle_cpu_for(e) {
            cx.kick(cpu);
        }
    }
}

impl Policy for RoundRobin {
    fn attach(&mut self, e: EntityId, _cx: &mut Cx<'_>) -> Result<(), Refused> {
        self.queue.reserve(e);
        Ok(())
    }

    fn detach(&mut self, _e: EntityId, _cx: &mut Cx<'_>) {}

    fn adjust(&mut self, e: EntityId, _old: &Params, cx: &mut Cx<'_>) -> Result<(), Refused> {
        // A wider affinity may allow an idle CPU.
        if self.queue.contains(e)
            && let Some(cpu) = cx.idle_cpu_for(e)
        {
            cx.kick(cpu);
        }
        Ok(())
    }

    fn wake(&mut self, e: EntityId, _why: Wake, cx: &mut Cx<'_>) {
        self.enqueue(e, cx);
    }

    fn sleep(&mut self, e: EntityId, _cx: &mut Cx<'_>) {
        self.queue.remove(e);
    }

    fn charge(&mut self, _e: EntityId, _ran: Nanos, _cx: &mut Cx<'_>) {}

    fn put(&mut self, _cpu: CpuId, prev: Stopped, cx: &mut Cx<'_>) {
        if prev.why != StopReason::Blocked {
            self.enqueue(prev.entity, cx);
        }
    }

    fn pick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Decision {
        let Some(e) = self.queue.iter(QUEUE).find(|&e| cx.may_run(e, cpu)) else { return Decision::IDLE };
        self.queue.remove(e);
        Decision::until(e, cx.now() + self.quantum)
    }
}
