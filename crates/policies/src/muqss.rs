//! MuQSS: BFS with one run queue per cache; every pick examines the heads of all run queues.
//!
//! MuQSS is Con Kolivas's successor to BFS, for machines with more CPUs than one run-queue lock can serve. Time slices,
//! virtual deadlines, classes, forks and ticks are those of `bfs`. Unlike in BFS, each set of CPUs that share a cache
//! has its own run queue. The knob `queues` can instead give each core or each CPU a run queue, or make all CPUs share
//! one. A CPU that picks examines the heads of all run queues, its own and nearer run queues first. The CPU dispatches
//! the task with the earliest deadline in the best class. The tasks therefore run in the order of a single run queue,
//! without contention for a single lock.
//!
//! ```text
//! two CPUs, each with its own run queue; deadlines: a 10 and b 20 in the first, c 5 in the second
//! interactive      CPU 0 runs c, CPU 1 runs a
//! not interactive  CPU 0 runs a, CPU 1 runs c; b waits for CPU 0
//! ```
//!
//! **Not interactive.** With `interactive` off, a CPU examines other run queues only if its own run queue is empty.
//! Migrations are then fewer and latencies longer.
//!
//! **Yield.** By default (`yield-type` 1), a yield dispatches another task only if that task is at least as urgent.
//! With 0, a yield has no effect. With 2, the yielding task receives a new time slice and deadline, so that most other
//! tasks run first.
//!
//! **SMT-nice.** With `smt-nice` (off by default), the task on a hardware thread restricts the sibling threads. The
//! siblings run no task of a worse class, and no task whose nice value is higher by `smt-nice` levels or more. The
//! kernel runs such tasks for a proportional part of the time. Here, such tasks wait (our simplification).
//!
//! Differences from BFS: MuQSS has no sticky tasks; a CPU prefers the tasks of nearer run queues instead. A time slice
//! lasts exactly `rr-interval`. SCHED_ISO has one account per run queue. In the kernel, a CPU skips a run queue whose
//! lock is held; this policy has no locks.
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
    title: "virtual deadlines, one run queue per cache; each pick examines the heads of all run queues",
    source: "kernel/sched/MuQSS.c v0.210, 5.13-ck1 (Con Kolivas)",
    good_for: "short response times on up to some dozens of CPUs, without tuning",
    bad_at: "group shares and reservations; many CPUs, because every pick examines all run queues",
    text: include_str!("muqss.rs"),
    conserving,
    starvation: |_| None, // Real-time, isochronous and idle tasks are ordered by strict priority.
    guarantees: Guarantees::NOTHING,
    alarms: AlarmSlots { cpu: &[AlarmKind::Tick], ..AlarmSlots::NONE },
    knobs: &[
        Knob::choice("queues", &["cache", "core", "cpu", "all"], "the CPUs that share a run queue")
            .from("rqshare=mc, smt, none, all; mc by default"),
        Knob::switch("interactive", true, "every pick examines all run queues").from("sysctl kernel.interactive"),
        Knob::time("rr-interval", Nanos::ms(6), (Nanos::ms(1), Nanos::s(1)), "the length of a time slice")
            .from("rr_interval"),
        Knob::count(
            "yield-type",
            [1, 0, 2],
            "the effect of a yield; 0: none; 1: a task at least as urgent may run; 2: also a new time slice and deadline",
        )
        .from("sysctl kernel.yield_type"),
        Knob::count(
            "smt-nice",
            [0, 0, 40],
            "the lead in nice levels with which a task keeps the sibling threads idle; 0: never",
        )
        .from("CONFIG_SMT_NICE, simplified"),
        Knob::percent("iso-cpu", [70, 0, 100], "the part of real-time and ISO ticks above which ISO counts as normal")
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

    /// Each of two CPUs has its own cache. With `interactive`, a CPU picks an earlier deadline from the queue of the
    /// other CPU. Otherwise the CPU picks from its own queue if that queue has a task.
    #[test]
    fn an_interactive_choice_looks_at_all_queues() {
        for (interactive, takes_other) in [(1, true), (0, false)] {
            let shape = Shape { cpus: 2, smt: 1, llc: 1 };
            let mut host = host(shape, &[("interactive", interactive)]);
            let [left, right] = [0, 1].map(|cpu| CpuSet::one(CpuId::new(cpu)));
            hog(&mut host, -20, left);
            hog(&mut host, -20, right);
            run_through(&mut host, 100);
            // `at_home` waits in the queue of CPU 0 and `abroad` in the queue of CPU 1. `abroad` has the earlier
            // deadline and may run on either CPU.
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

    /// The second thread of a core stays idle if the only waiting task has a nice value that is higher by `smt-nice`
    /// levels or more.
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
