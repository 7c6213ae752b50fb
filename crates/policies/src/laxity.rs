//! Laxity: Credit, in which who wakes goes as far back as the delay it can live with allows.
//!
//! Credit's boost runs every waker at once, as long as it has credit; so with several of them none is served in time
//! for sure, and batch work is disturbed for wakers that could have waited. Here a vCPU may say what scheduling delay
//! it can live with (`latency`, its laxity). When it wakes with credit left, it is not boosted: it is put into the
//! queue behind as many as can each have a whole slice before that delay is over, but never further back than Credit
//! would put it.
//!
//! ```text
//! slice 30 ms, r has just begun, queue a b c (all UNDER)     e wakes with a laxity of
//! 100 ms      r a b e c      30 + 30 + 30 fit
//! 40 ms       r e a b c      only the rest of r's turn fits
//! 10 ms       e a b c  (r)   not even that: e preempts r
//! none        boosted, as in credit
//! ```
//!
//! **Several CPUs.** Who wakes so goes to the CPU on which it would wait the shortest, and to its own, then to one that
//! shares a cache with it, among equals.
//!
//! Who has no laxity, who is OVER, and all else (accounting, caps, stealing, knobs) is as in `credit`. Who preempts and
//! blocks before a tick keeps its credit state as there: the delay is a promise only to who stays within its share.
//!
//! The position formula is inferred from the abstract and from S3; the paper's own is not at hand.
//!
//! Source: Lee, Krishnakumar, Krishnan, Singh and Yajnik, "Supporting soft real-time tasks in the Xen hypervisor", VEE
//! 2010; S3 §2.

use crate::credit::{self, Credit};
use sched::{Descriptor, Knob, Knobs, Nanos, Policy, Refused, Topology};

/// The descriptor of this policy.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "laxity",
    title: "Credit, with wakers queued by the delay they can live with",
    source: "Lee et al., VEE 2010; xen/common/sched_credit.c, Xen 4.0.1",
    good_for: "several soft real-time VMs that say what delay they can live with, beside batch VMs",
    bad_at: "VMs that say nothing, which are treated as in credit, and VMs that are both busy and urgent",
    text: include_str!("laxity.rs"),
    knobs: &KNOBS,
    build,
    ..credit::POLICY
};

const AHEAD: Knob = Knob::time(
    "ahead",
    Nanos::ZERO,
    (Nanos::ZERO, Nanos::s(10)),
    "how long each one ahead in the queue is expected to run; 0: a whole slice",
)
.from("assumed from the abstract and S3 §2 (policies.md 10.6)");
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
    use sched::{CpuId, CpuSet, EntityId, Instant, Nanos, Params, Topology as Shape, Wake};
    use sim::{Costs, Driver, Workload};

    const CPU: CpuId = CpuId::new(0);

    fn host<'a>(cpus: usize) -> Driver<'a> {
        host_expecting(cpus, Nanos::ZERO)
    }

    /// One on which everybody ahead is expected to run for so long.
    fn host_expecting<'a>(cpus: usize, ahead: Nanos) -> Driver<'a> {
        let mut knobs = POLICY.defaults();
        knobs.set("ahead", ahead.as_ns().cast_signed()).expect("it is in range");
        Driver::new(&POLICY, Shape::new(cpus), &knobs, Costs::NONE).expect("it works everywhere")
    }

    fn scripted(host: &mut Driver<'_>, params: Params) -> EntityId {
        host.attach("e", params, Workload::Scripted).expect("everybody is accepted")
    }

    fn hog(host: &mut Driver<'_>) -> EntityId {
        let e = scripted(host, Params::default());
        host.wake(e, Wake::New { parent: None });
        e
    }

    fn run_through(host: &mut Driver<'_>, us: u64) {
        host.run_until(Instant::at_ns(Nanos::us(us).as_ns()).max(host.now()) + Nanos::ns(1));
    }

    /// How long `e` waits, in milliseconds, if it wakes 1 ms into a turn of 30 ms on a CPU that four hogs take turns on, when none
    /// of them is boosted any more.
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
    fn who_wakes_goes_as_far_back_as_its_laxity_allows() {
        assert_eq!(wait_of(None, 0), 0, "boosted, as in credit");
        assert_eq!(wait_of(Some(28), 0), 0, "not even the rest of the turn fits: it preempts");
        assert_eq!(wait_of(Some(29), 0), 29, "at the head");
        assert_eq!(wait_of(Some(58), 0), 29, "the next turn does not fit whole");
        assert_eq!(wait_of(Some(59), 0), 59, "behind one");
        assert_eq!(wait_of(Some(200), 0), 59, "but before the OVER, as in credit");
        assert_eq!(wait_of(Some(58), 20), 59, "if each is expected to run for 20 ms, one more fits");
    }

    #[test]
    fn it_goes_where_it_waits_the_shortest() {
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
        assert_eq!(host.machine().running(CpuId::new(1)), Some(e), "behind nobody but the rest of a turn");
    }
}
