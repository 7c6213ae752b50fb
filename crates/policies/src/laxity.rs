//! Laxity: Credit, in which who wakes goes as far back as the delay it can live with allows.
//!
//! Credit's boost runs every waker at once, as long as it has credit; so with several of them none is served in time for sure, and
//! batch work is disturbed for wakers that could have waited. Here a vCPU may say what scheduling delay it can live with (`latency`, its
//! laxity). When it wakes with credit left, it is not boosted: it is put into the queue behind as many as can each have a whole slice before that delay
//! is over, but never further back than Credit would put it.
//!
//! ```text
//! slice 30 ms, r has just begun, queue a b c (all UNDER)     e wakes with a laxity of
//! 100 ms      r a b e c      30 + 30 + 30 fit
//! 40 ms       r e a b c      only the rest of r's turn fits
//! 10 ms       e a b c  (r)   not even that: e preempts r
//! none        boosted, as in credit
//! ```
//!
//! **Several CPUs.** Who wakes so goes to the CPU on which it would wait the shortest, and to its own, then to one that shares a cache with it,
//! among equals.
//!
//! Who has no laxity, who is OVER, and all else (accounting, caps, stealing, knobs) is as in `credit`. Who preempts and blocks before a tick keeps its
//! credit state as there: the delay is a promise only to who stays within its share.
//!
//! The position formula is inferred from the abstract and from S3; the paper's own is not at hand.
//!
//! Source: Lee, Krishnakumar, Krishnan, Singh and Yajnik, "Supporting soft real-time tasks in the Xen hypervisor", VEE 2010; S3 §2.

use crate::credit::{self, Credit};
use sched::{Descriptor, Host, Knobs, Policy, Refused};

/// What the rest of the system knows of it.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "laxity",
    title: "Credit, with wakers queued by the delay they can live with",
    source: "Lee et al., VEE 2010; xen/common/sched_credit.c, Xen 4.0.1",
    good_for: "several soft real-time VMs that say what delay they can live with, beside batch VMs",
    bad_at: "VMs that say nothing, which are treated as in credit, and VMs that are both busy and urgent",
    text: include_str!("laxity.rs"),
    build,
    ..credit::POLICY
};

fn build(host: &Host, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    credit::check(knobs)?;
    Ok(Box::new(Credit::new(host, knobs).by_laxity()))
}

#[cfg(test)]
mod tests {
    use super::POLICY;
    use sched::{CpuId, CpuSet, EntityId, Host as Shape, Instant, Nanos, Params, Wake};
    use sim::{Costs, Host, Workload};

    const CPU: CpuId = CpuId::new(0);

    fn host<'a>(cpus: usize) -> Host<'a> {
        Host::new(&POLICY, Shape::new(cpus), &POLICY.defaults(), Costs::NONE).expect("it works everywhere")
    }

    fn scripted(host: &mut Host<'_>, params: Params) -> EntityId {
        host.attach("e", params, Workload::Scripted).expect("everybody is accepted")
    }

    fn hog(host: &mut Host<'_>) -> EntityId {
        let e = scripted(host, Params::default());
        host.wake(e, Wake::New { parent: None });
        e
    }

    fn run_through(host: &mut Host<'_>, us: u64) {
        host.run_until(Instant::at_ns(Nanos::us(us).as_ns()).max(host.now()) + Nanos::ns(1));
    }

    /// When `e` first runs, in milliseconds, if it wakes at 31 ms beside four hogs that take turns of 30 ms from 0 on.
    fn first_run(latency: Option<u64>) -> u64 {
        let mut host = host(1);
        let hogs: Vec<EntityId> = (0..4).map(|_| hog(&mut host)).collect();
        let e = scripted(&mut host, Params { latency: latency.map(Nanos::ms), ..Params::default() });
        run_through(&mut host, 31_000);
        assert!(hogs.iter().any(|&hog| host.machine().running(CPU) == Some(hog)));
        host.wake(e, Wake::Interrupt);
        (31..400)
            .find(|ms| {
                run_through(&mut host, ms * 1_000 + 500);
                host.machine().running(CPU) == Some(e)
            })
            .expect("it runs some day")
    }

    /// 29 ms are left of the second turn, and two more wait before the tail.
    #[test]
    fn who_wakes_goes_as_far_back_as_its_laxity_allows() {
        assert_eq!(first_run(None), 31, "boosted, as in credit");
        assert_eq!(first_run(Some(10)), 31, "not even the rest of the turn fits: it preempts");
        assert_eq!(first_run(Some(29)), 60, "at the head");
        assert_eq!(first_run(Some(58)), 60, "the next turn does not fit whole");
        assert_eq!(first_run(Some(59)), 90, "behind one");
        assert_eq!(first_run(Some(95)), 120, "behind two");
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

    /// A laxity never puts anybody further back than Credit would: behind all that are UNDER.
    #[test]
    fn a_long_laxity_is_credits_own_place_without_a_boost() {
        assert_eq!(first_run(Some(10_000)), first_run(Some(130)));
    }
}
