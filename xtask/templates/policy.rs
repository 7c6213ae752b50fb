//! example-policy: whoever has waited longest runs, for one quantum at most.
//!
//! Step 1. Replace this essay, which is also the policy's page in the documentation: the rule in ten lines, as its
//! source states it; a small run as a picture; what differs from the source, and why; its knobs.
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

/// What the rest of the system knows of it.
///
/// Step 2. Say what it promises. `conserving` (how soon an idle CPU finds waiting work) and `starvation` (how long
/// anybody can wait) are held against it in every test and fuzz run. A knob is a number somebody may want to turn,
/// with its source; command line, documentation and range checks follow from it.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "example-policy",
    title: "whoever has waited longest runs, for one quantum at most",
    source: "textbook",
    good_for: "beginning a policy of your own",
    bad_at: "weights, reservations and quick answers: it does not look at them",
    text: include_str!("example_policy.rs"),
    conserving: |load| Conserving::Global { slack: longest_call(load) },
    starvation: |load| Some(longest_wait(load)),
    guarantees: Guarantees::NOTHING,
    alarms: AlarmSlots::NONE,
    knobs: &[Knob::time("quantum", Nanos::ms(5), (Nanos::us(1), Nanos::s(10)), "how long a turn lasts at most")
        .from("textbook; 5 ms is a guess")],
    build,
};

/// Step 3. Build it. A host or a combination of knobs it cannot work with is refused here.
fn build(_host: &Topology, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    Ok(Box::new(ExamplePolicy { queue: Lists::new(1), quantum: knobs.time("quantum") }))
}

/// A called CPU takes the first it may run, perhaps not the one it was called for; that one's turn comes within a quantum.
fn longest_call(load: &LoadBounds<'_>) -> Nanos {
    if load.has_affinity { load.knobs.time("quantum") } else { Nanos::ZERO }
}

/// Everybody else has one turn first, on the one CPU that all of them may be confined to.
fn longest_wait(load: &LoadBounds<'_>) -> Nanos {
    load.knobs.time("quantum").saturating_mul(load.entities)
}

/// The one queue there is.
const QUEUE: usize = 0;

/// Step 4. Keep only what the decision needs. Who runs where, and what is asked for whom, the machine knows: ask `cx`.
/// Besides lists there are heaps, trees and priority levels in `sched::queue`.
struct ExamplePolicy {
    queue: Lists,
    quantum: Nanos,
}

impl ExamplePolicy {
    /// Puts `e` last, and calls an idle CPU that may run it: nobody else will.
    fn enqueue(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.queue.push_back(QUEUE, e);
        if let Some(cpu) = cx.idle_cpu_for(e) {
            cx.kick(cpu);
        }
    }
}

impl Policy for ExamplePolicy {
    // Step 5. Membership. Only attach, detach, adjust and group may allocate: make room for `e` everywhere here.

    fn attach(&mut self, e: EntityId, _cx: &mut Cx<'_>) -> Result<(), Refused> {
        self.queue.reserve(e);
        Ok(())
    }

    fn detach(&mut self, _e: EntityId, _cx: &mut Cx<'_>) {}

    fn adjust(&mut self, e: EntityId, _old: &Params, cx: &mut Cx<'_>) -> Result<(), Refused> {
        // A wider affinity may open an idle CPU to it.
        if self.queue.contains(e)
            && let Some(cpu) = cx.idle_cpu_for(e)
        {
            cx.kick(cpu);
        }
        Ok(())
    }

    // Step 6. Facts. Whoever comes in by `wake` or stays in by `put` must come out of a later `pick`.

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

    // Step 7. The decision: who, and until when.

    fn pick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Decision {
        let Some(e) = self.queue.iter(QUEUE).find(|&e| cx.may_run(e, cpu)) else { return Decision::IDLE };
        self.queue.remove(e);
        Decision::until(e, cx.now() + self.quantum)
    }
}

// Step 8. Test the rule itself: a small run worked out by hand, one test per sentence of the essay. That it never
// loses anybody, idles for nothing or starves anybody is tested for every policy in the registry already.
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
