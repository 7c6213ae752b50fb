//! example-policy: the entity that has waited longest runs, for one quantum at most.
//!
//! Step 1. Replace this essay, which is also the policy's page in the documentation. State the rule in about ten lines,
//! as the source states it. Add a diagram of a small run, the differences from the source with their reasons, and the
//! knobs.
//!
//! ```text
//! quantum 5ms, one CPU, two hogs      0    5    10   15   20
//!                                     aaaaabbbbbaaaaabbbbb
//! ```
//!
//! Source: textbook (first come, first served, with a quantum).

use sched::queue::Lists;
use sched::{
    AlarmSlots, Conserving, CpuId, Cx, Descriptor, EntityId, Topology, Guarantees, Knob, Knobs, LoadBounds, Nanos, Params, Policy, Refused,
    Decision, Stopped, Wake, StopReason,
};

/// The descriptor of this policy.
///
/// Step 2. State the guarantees. `conserving` is the time until an idle CPU finds waiting work. `starvation` is the
/// maximum waiting time of an entity. The law tests and every fuzz run check both. A knob is a tunable number with its
/// source. The command line, the documentation and the range checks follow from the descriptor.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "example-policy",
    title: "the entity that has waited longest runs, for one quantum at most",
    source: "textbook",
    good_for: "a starting point for a new policy",
    bad_at: "weights, reservations and short latencies: it ignores them",
    text: include_str!("example_policy.rs"),
    conserving: |load| Conserving::Global { slack: longest_call(load) },
    starvation: |load| Some(longest_wait(load)),
    guarantees: Guarantees::NOTHING,
    alarms: AlarmSlots::NONE,
    knobs: &[Knob::time("quantum", Nanos::ms(5), (Nanos::us(1), Nanos::s(10)), "the longest time slice")
        .from("textbook; 5 ms is a guess")],
    build,
};

/// Step 3. Build the policy. Refuse a host or a combination of knobs that the policy does not support.
fn build(_host: &Topology, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    Ok(Box::new(ExamplePolicy { queue: Lists::new(1), quantum: knobs.time("quantum") }))
}

/// A kicked CPU picks the first entity that may run on it. If the kick was for another entity, the first entity runs
/// for at most a quantum before that entity.
fn longest_call(load: &LoadBounds<'_>) -> Nanos {
    if load.has_affinity { load.knobs.time("quantum") } else { Nanos::ZERO }
}

/// In the worst case, all entities are confined to one CPU, and every other entity runs for one quantum first.
fn longest_wait(load: &LoadBounds<'_>) -> Nanos {
    load.knobs.time("quantum").saturating_mul(load.entities)
}

/// Index of the only run queue.
const QUEUE: usize = 0;

/// Step 4. Keep only the state that the decision needs. `cx` provides the parameters of each entity and the CPU on
/// which the entity runs. Besides lists, `sched::queue` has heaps, trees and priority levels.
struct ExamplePolicy {
    queue: Lists,
    quantum: Nanos,
}

impl ExamplePolicy {
    /// Enqueues `e` at the tail, and kicks an idle CPU that may run `e`. The machine does neither.
    fn enqueue(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.queue.push_back(QUEUE, e);
        if let Some(cpu) = cx.idle_cpu_for(e) {
            cx.kick(cpu);
        }
    }
}

impl Policy for ExamplePolicy {
    // Step 5. Membership. Only attach, detach, adjust and group may allocate: reserve memory for `e` here.

    fn attach(&mut self, e: EntityId, _cx: &mut Cx<'_>) -> Result<(), Refused> {
        self.queue.reserve(e);
        Ok(())
    }

    fn detach(&mut self, _e: EntityId, _cx: &mut Cx<'_>) {}

    fn adjust(&mut self, e: EntityId, _old: &Params, cx: &mut Cx<'_>) -> Result<(), Refused> {
        // A wider affinity may include an idle CPU.
        if self.queue.contains(e)
            && let Some(cpu) = cx.idle_cpu_for(e)
        {
            cx.kick(cpu);
        }
        Ok(())
    }

    // Step 6. Inputs. A later `pick` must return each entity that `wake` adds or `put` keeps, unless `sleep` removes
    // the entity first.

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

    // Step 7. The decision: the entity that runs, and the end of its time slice.

    fn pick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Decision {
        let Some(e) = self.queue.iter(QUEUE).find(|&e| cx.may_run(e, cpu)) else { return Decision::IDLE };
        self.queue.remove(e);
        Decision::until(e, cx.now() + self.quantum)
    }
}

// Step 8. Test the rule itself: a small run calculated by hand, one test per sentence of the essay. Existing tests
// check three properties of every policy in the registry. The policy loses no entity. Within the bounds of step 2, it
// leaves no CPU idle while an entity waits, and starves no entity.
#[cfg(test)]
mod tests {
    use super::*;
    use sched::Instant;
    use sim::{Costs, Workload};

    #[test]
    fn two_hogs_take_turns_of_one_quantum() {
        let mut host = sim::Driver::new(&POLICY, Topology::new(1), &POLICY.defaults(), Costs::NONE).unwrap();
        let a = host.attach("a", Params::default(), Workload::Hog).unwrap();
        let b = host.attach("b", Params::default(), Workload::Hog).unwrap();
        let mut turns = Vec::new();
        for ms in [2, 7, 12, 17] {
            host.run_until(Instant::ZERO + Nanos::ms(ms));
            turns.push(host.machine().running(CpuId::new(0)));
        }
        assert_eq!(turns, [Some(a), Some(b), Some(a), Some(b)]);
        assert_eq!(host.machine().charged(a), Nanos::ms(10));
    }
}
