//! Laxity: Credit in which a woken vCPU is queued as far back as its tolerable delay allows.
//!
//! Credit's boost runs every woken vCPU at once, as long as the vCPU has credit. If several vCPUs are boosted, no vCPU
//! is certain to run in time. Boosted vCPUs also preempt batch work when they could wait. Here a vCPU may state the
//! scheduling delay that it tolerates (`latency`, its laxity). Such a vCPU is not boosted when it wakes with credit
//! left. The policy queues the vCPU behind as many entities as that delay allows. The delay must cover the remainder of
//! the current time slice and, by default, a whole time slice of each of these entities. The vCPU is never queued
//! further back than in Credit.
//!
//! ```text
//! slice 30 ms, r has just begun, queue a b c (all UNDER)     e wakes with a laxity of
//! 100 ms      r a b e c      30 + 30 + 30 fit
//! 40 ms       r e a b c      only the remainder of r's time slice fits
//! 10 ms       e a b c  (r)   no wait fits: e preempts r
//! none        boosted, as in credit
//! ```
//!
//! **Several CPUs.** Such a woken vCPU is queued on the CPU with the shortest expected wait. Among CPUs with equal
//! waits, its last CPU is preferred, then a CPU that shares a cache with the last CPU.
//!
//! A vCPU without laxity and an OVER vCPU are scheduled as in `credit`. Accounting, caps, stealing and knobs are also
//! as in `credit`. A vCPU that preempts another vCPU and blocks before the next tick keeps its priority, as in
//! `credit`. The tolerable delay determines the position only of a vCPU that wakes UNDER. The delay is not guaranteed.
//!
//! The position formula is inferred from the abstract and from Wu et al. (Poris) §2; the formula of the paper is not
//! available (assumed).
//!
//! Source: Lee, Krishnakumar, Krishnan, Singh and Yajnik, "Supporting soft real-time tasks in the Xen hypervisor", VEE
//! 2010 (abstract); Wu et al. (Poris) §2.

use crate::credit::{self, Credit};
use sched::{Descriptor, Knob, Knobs, Nanos, Policy, Refused, Topology};

/// The descriptor of this policy.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "laxity",
    title: "Credit that queues woken vCPUs by the delay that they tolerate",
    source: "Lee et al., VEE 2010; xen/common/sched_credit.c, Xen 4.0.1",
    good_for: "several soft real-time VMs that state their tolerable delay, beside batch VMs",
    bad_at: "VMs that state no delay, which are scheduled as in credit, and VMs that are both busy and urgent",
    text: include_str!("laxity.rs"),
    knobs: &KNOBS,
    build,
    ..credit::POLICY
};

const AHEAD: Knob = Knob::time(
    "ahead",
    Nanos::ZERO,
    (Nanos::ZERO, Nanos::s(10)),
    "the expected run time of each entity ahead in the queue; 0: a whole time slice",
)
.from("assumed from the abstract and Poris (Wu et al.) §2");
const KNOBS: [Knob; credit::KNOBS.len() + 1] = Knob::join(&[AHEAD], credit::KNOBS);

fn build(host: &Topology, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    credit::check(knobs)?;
    let ahead = knobs.time(AHEAD.name);
    let ahead = if ahead.is_zero() { knobs.time("slice") } else { ahead };
    Ok(Box::new(Credit::new(host, knobs).by_laxity(ahead)))
}

#[cfg(test)]
mod tests {
    use super::POLICY;
    use crate::fixture::{CPU, awake, host_under, run_through_us as run_through, scripted};
    use sched::{CpuId, CpuSet, EntityId, Nanos, Params, Topology as Shape, Wake};
    use sim::Driver;

    fn host<'a>(cpus: usize) -> Driver<'a> {
        host_expecting(cpus, Nanos::ZERO)
    }

    /// Returns a host whose policy expects each preceding entity to run for `ahead`.
    fn host_expecting<'a>(cpus: usize, ahead: Nanos) -> Driver<'a> {
        host_under(&POLICY, Shape::new(cpus), &[("ahead", ahead.as_ns().cast_signed())])
    }

    fn hog(host: &mut Driver<'_>) -> EntityId {
        awake(host, Params::default())
    }

    /// Returns the wait of an entity with this latency, in milliseconds. The entity wakes 1 ms into a time slice of 30
    /// ms. Four hogs, whose boosts have ended, alternate on its CPU.
    fn wait_of(latency: Option<u64>, ahead: u64) -> u64 {
        const WOKEN: u64 = 241;
        let mut host = host_expecting(1, Nanos::ms(ahead));
        let hogs: Vec<EntityId> = (0..4).map(|_| hog(&mut host)).collect();
        let e = scripted(&mut host, Params { latency: latency.map(Nanos::ms), ..Params::default() });
        run_through(&mut host, WOKEN * 1_000);
        assert!(hogs.iter().any(|&hog| host.machine().running(CPU) == Some(hog)));
        host.wake(e, Wake::Interrupt);
        (0..400)
            .find(|ms| {
                run_through(&mut host, (WOKEN + ms) * 1_000);
                host.machine().running(CPU) == Some(e)
            })
            .expect("it runs some day")
    }

    #[test]
    fn a_woken_vcpu_queues_as_far_back_as_its_laxity_allows() {
        assert_eq!(wait_of(None, 0), 0, "boosted, as in credit");
        assert_eq!(wait_of(Some(28), 0), 0, "not even the rest of the turn fits: it preempts");
        assert_eq!(wait_of(Some(29), 0), 29, "at the head");
        assert_eq!(wait_of(Some(58), 0), 29, "the next turn does not fit whole");
        assert_eq!(wait_of(Some(59), 0), 59, "behind one");
        assert_eq!(wait_of(Some(200), 0), 59, "but before the OVER, as in credit");
        assert_eq!(wait_of(Some(58), 20), 59, "if each is expected to run for 20 ms, one more fits");
    }

    #[test]
    fn a_vcpu_wakes_on_the_cpu_with_the_shortest_wait() {
        let mut host = host(2);
        let left = Params { affinity: CpuSet::one(CPU), ..Params::default() };
        for _ in 0..3 {
            let e = scripted(&mut host, left);
            host.wake(e, Wake::New { parent: None });
        }
        let right = Params { affinity: CpuSet::one(CpuId::new(1)), ..Params::default() };
        let busy = scripted(&mut host, right);
        host.wake(busy, Wake::New { parent: None });
        run_through(&mut host, 20_000);
        let e = scripted(&mut host, Params { latency: Some(Nanos::ms(60)), ..Params::default() });
        host.wake(e, Wake::Interrupt);
        run_through(&mut host, 30_500);
        assert_eq!(host.machine().running(CpuId::new(1)), Some(e), "only the rest of a time slice is ahead of it");
    }
}
