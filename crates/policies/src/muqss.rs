//! MuQSS: BFS with a run queue for each cache; every CPU looks at the heads of all queues.
//!
//! Con Kolivas's successor of BFS, for more CPUs than one lock can serve. Time slices, virtual deadlines, classes,
//! forks and ticks are those of `bfs`. Instead of one run queue there is one for each set of CPUs that share a cache
//! (or for each CPU, or for each core). A CPU that picks looks at the heads of all queues, its own and nearer ones
//! first, and takes the earliest deadline of the best class. So the order is that of one queue, without its lock.
//!
//! ```text
//! two CPUs with a queue each; deadlines a 10, b 20 in the first, c 5 in the second
//! interactive      CPU 0 takes c, CPU 1 takes a
//! not interactive  CPU 0 takes a, CPU 1 takes c; b waits for CPU 0
//! ```
//!
//! **Not interactive.** A CPU prefers its own queue and looks at others only when its own is empty. This gives fewer
//! migrations and longer latencies.
//!
//! **Yield.** A yield gives the CPU to an entity that is at least as urgent (1, the default), or has no effect (0).
//! With 2, any entity goes first, and the yielding one gets a new time slice and deadline.
//!
//! **SMT-nice.** With `smt-nice` (off by default), a busy thread of a core keeps its sibling threads from running some
//! entities: those of a worse class, and those that are nicer by a number of levels. The kernel lets such tasks run in
//! proportion instead; here they wait (our simplification).
//!
//! Differences from BFS: there is no stickiness; the distance of queues is used instead. A time slice is exactly its
//! milliseconds. SCHED_ISO has an account in every queue. In the kernel a CPU skips a queue whose lock is taken; here
//! there are no locks.
//!
//! Source: kernel/sched/MuQSS.c v0.210 and Documentation/scheduler/sched-MuQSS.txt (5.13-ck1, Kolivas).

use crate::bfs::{Bfs, Lengths, Parts, Shape, Yields};
use sched::{
    AlarmKind, AlarmSlots, Conserving, Descriptor, Guarantees, Knob, Knobs, LoadBounds, Nanos, Policy, Refused,
    Topology,
};

/// The descriptor of this policy.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "muqss",
    title: "virtual deadlines in a run queue for each cache; each pick looks at the heads of all queues",
    source: "kernel/sched/MuQSS.c v0.210, 5.13-ck1 (Con Kolivas)",
    good_for: "short response times on up to some dozens of CPUs, without tuning",
    bad_at: "shares by group, and reservations; many CPUs, because every pick looks at all queues",
    text: include_str!("muqss.rs"),
    conserving,
    starvation: |_| None, // Real-time, isochronous and idle classes are strict.
    guarantees: Guarantees::NOTHING,
    alarms: AlarmSlots { cpu: &[AlarmKind::Tick], ..AlarmSlots::NONE },
    knobs: &[
        Knob::choice("queues", &["cache", "core", "cpu", "all"], "the CPUs that share a run queue")
            .from("rqshare=mc, smt, none, all; mc by default"),
        Knob::switch("interactive", true, "every pick looks at all queues").from("sysctl kernel.interactive"),
        Knob::time("rr-interval", Nanos::ms(6), (Nanos::ms(1), Nanos::s(1)), "the length of a time slice")
            .from("rr_interval"),
        Knob::count(
            "yield-type",
            [1, 0, 2],
            "0: ignored; 1: to an entity that is as urgent; 2: to all, with a new time slice",
        )
        .from("sysctl kernel.yield_type"),
        Knob::count(
            "smt-nice",
            [0, 0, 40],
            "how many nice levels better a thread must be to keep its sibling idle; 0: never",
        )
        .from("CONFIG_SMT_NICE, simplified"),
        Knob::percent("iso-cpu", [70, 0, 100], "the largest part of a queue's CPUs that SCHED_ISO may use")
            .from("sched_iso_cpu"),
        Knob::time(
            "tick",
            Nanos::ms(1),
            (Nanos::us(500), Nanos::ms(10)),
            "the period of the scheduler tick of each CPU",
        )
        .from("HZ = 1000"),
    ],
    build,
};

fn conserving(load: &LoadBounds<'_>) -> Conserving {
    let kept_off = load.knobs.get("smt-nice") > 0 && load.host.smt > 1;
    if kept_off { Conserving::Never } else { Conserving::Global { slack: Nanos::ZERO } }
}

fn build(host: &Topology, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    let size = match knobs.word("queues") {
        "cache" => host.llc,
        "core" => host.smt,
        "cpu" => 1,
        _ => host.cpus,
    };
    let parts = Parts {
        queue_of: (0..host.cpus).map(|cpu| cpu / size).collect(),
        interactive: knobs.on("interactive"),
        yields: match knobs.get("yield-type") {
            0 => Yields::Ignored,
            1 => Yields::ToBetter,
            _ => Yields::Expire,
        },
        smt_nice: i32::try_from(knobs.get("smt-nice")).ok().filter(|&levels| levels > 0),
        ignored_yields: vec![None; host.cpus],
    };
    let lengths = Lengths::exact(knobs.time("rr-interval"));
    Ok(Box::new(Bfs::new(host, knobs, lengths, Shape::Parts(parts))))
}

#[cfg(test)]
mod tests {
    use super::POLICY;
    use crate::fixture::{awake, host_under, nice as niced, run_through_us as run_through, running};
    use sched::{CpuId, CpuSet, EntityId, Params, State, Topology as Shape};
    use sim::Driver;

    fn host<'a>(shape: Shape, knobs: &[(&str, i64)]) -> Driver<'a> {
        host_under(&POLICY, shape, knobs)
    }

    fn hog(host: &mut Driver<'_>, nice: i32, cpus: CpuSet) -> EntityId {
        awake(host, Params { affinity: cpus, ..niced(nice) })
    }

    fn runs(host: &Driver<'_>, cpu: usize) -> Option<EntityId> {
        running(host, CpuId::new(cpu))
    }

    /// On two caches of one CPU each, an earlier deadline in the other queue is taken, or left if the own queue has
    /// work.
    #[test]
    fn an_interactive_choice_looks_at_all_queues() {
        for (interactive, takes_other) in [(1, true), (0, false)] {
            let shape = Shape { cpus: 2, smt: 1, llc: 1 };
            let mut host = host(shape, &[("interactive", interactive)]);
            let [left, right] = [0, 1].map(|cpu| CpuSet::one(CpuId::new(cpu)));
            hog(&mut host, -20, left);
            hog(&mut host, -20, right);
            run_through(&mut host, 100);
            // Both tasks wait, one in each queue. The task in the right queue has the earlier deadline, and may run
            // anywhere.
            let at_home = hog(&mut host, 10, left);
            let abroad = hog(&mut host, 5, right);
            let anywhere = Params { affinity: CpuSet::ALL, ..*host.machine().params(abroad) };
            host.adjust(abroad, anywhere).expect("it is accepted");
            run_through(&mut host, 500);
            host.block(CpuId::new(0));
            run_through(&mut host, 600);
            assert_eq!(runs(&host, 0), Some(if takes_other { abroad } else { at_home }));
        }
    }

    #[test]
    fn a_slice_is_exactly_its_milliseconds() {
        let mut host = host(Shape::new(1), &[("rr-interval", 10_000_000)]);
        let (first, second) = (hog(&mut host, 0, CpuSet::ALL), hog(&mut host, 0, CpuSet::ALL));
        run_through(&mut host, 9_500);
        assert_eq!(runs(&host, 0), Some(first));
        run_through(&mut host, 10_500);
        assert_eq!(runs(&host, 0), Some(second));
    }

    #[test]
    fn yields_are_of_three_types() {
        for (kind, goes_on) in [(0, true), (1, true), (2, false)] {
            let mut host = host(Shape::new(1), &[("yield-type", kind)]);
            let (urgent, other) = (hog(&mut host, 0, CpuSet::ALL), hog(&mut host, 0, CpuSet::ALL));
            run_through(&mut host, 12_900);
            let running = runs(&host, 0).expect("an entity runs");
            let waits = if running == urgent { other } else { urgent };
            let deadline = |e| host.machine().inspect(e, "deadline").expect("shown");
            let is_first = deadline(running) <= deadline(waits);
            host.yield_now(CpuId::new(0));
            run_through(&mut host, 13_000);
            let stays = runs(&host, 0) == Some(running);
            assert_eq!(stays, if kind == 1 { is_first } else { goes_on }, "type {kind}");
        }
    }

    /// A core's second thread stays idle beside a task with a much better nice value.
    #[test]
    fn smt_nice_keeps_a_sibling_thread_free() {
        let shape = Shape { cpus: 2, smt: 2, llc: 2 };
        for (levels, kept_off) in [(0, false), (10, true)] {
            let mut host = host(shape, &[("smt-nice", levels)]);
            let (heavy, light) = (hog(&mut host, -5, CpuSet::ALL), hog(&mut host, 10, CpuSet::ALL));
            run_through(&mut host, 3_000);
            assert!(matches!(host.machine().state(heavy), State::Running(_)));
            assert_eq!(host.machine().state(light) == State::Waiting, kept_off);
            host.pause(heavy);
            run_through(&mut host, 4_000);
            assert!(matches!(host.machine().state(light), State::Running(_)), "alone, it runs");
        }
    }
}
