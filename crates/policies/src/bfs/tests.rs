//! Tests of BFS against the rules of bfs.c, with a worked example, in virtual time.

use super::POLICY;
use crate::fixture::{
    self, CPU, Dice, awake as hog, fifo, host_under, nice, of_class as of, run_through_us as run_through, running,
    scripted,
};
use sched::{Class, CpuId, CpuSet, EntityId, Nanos, Params, State, Wake};
use sim::Driver;

fn host_of<'a>(shape: sched::Topology, knobs: &[(&str, i64)]) -> Driver<'a> {
    host_under(&POLICY, shape, knobs)
}

fn host<'a>(cpus: usize, knobs: &[(&str, i64)]) -> Driver<'a> {
    host_of(sched::Topology::new(cpus), knobs)
}

fn runs(host: &Driver<'_>, cpu: usize) -> Option<EntityId> {
    running(host, CpuId::new(cpu))
}

fn shows(host: &Driver<'_>, e: EntityId, name: &str) -> u64 {
    fixture::shows(host, e, name).unsigned_abs()
}

fn deadline_us(host: &Driver<'_>, e: EntityId) -> u64 {
    shows(host, e, "deadline") / 1_000
}

/// Worked example in exact milliseconds: the offset of nice 0 is 39.1875 ms (6 · 836 / 128). With the milliseconds of
/// bfs.c, the offset is 41.09 ms.
#[test]
fn the_worked_example() {
    let mut host = host(1, &[("binary-milliseconds", 0)]);
    let (a, b) = (hog(&mut host, nice(0)), hog(&mut host, nice(0)));
    let (c, d) = (scripted(&mut host, nice(-10)), scripted(&mut host, nice(19)));
    run_through(&mut host, 5_000);
    assert_eq!(runs(&host, 0), Some(a), "first come");
    assert_eq!((deadline_us(&host, a), deadline_us(&host, b)), (39_187, 39_187));
    run_through(&mut host, 6_500);
    assert_eq!((runs(&host, 0), deadline_us(&host, a)), (Some(b), 45_187));
    run_through(&mut host, 12_500);
    assert_eq!((runs(&host, 0), deadline_us(&host, b)), (Some(a), 51_187));
    host.wake(d, Wake::New { parent: None });
    run_through(&mut host, 12_600);
    assert_eq!(runs(&host, 0), Some(a), "nice 19 preempts no task");
    run_through(&mut host, 13_000);
    host.wake(c, Wake::New { parent: None });
    run_through(&mut host, 13_100);
    assert_eq!(runs(&host, 0), Some(c), "28.1 is before 45.2");
    assert!((28_180..28_200).contains(&deadline_us(&host, c)));
    run_through(&mut host, 14_000);
    host.block(CPU);
    run_through(&mut host, 14_100);
    assert_eq!(runs(&host, 0), Some(a), "it kept its slice");
    run_through(&mut host, 40_000);
    host.wake(c, Wake::Interrupt);
    run_through(&mut host, 40_100);
    assert_eq!(runs(&host, 0), Some(c), "with its old deadline");
    assert!(host.machine().state(d) == State::Waiting);
}

/// The deadline of a waiting task does not move, so shares are about inversely proportional to the squares of the
/// ratios.
#[test]
fn nice_19_has_three_per_cent_beside_nice_0() {
    let mut host = host(1, &[]);
    let (light, heavy) = (hog(&mut host, nice(19)), hog(&mut host, nice(0)));
    run_through(&mut host, 20_000_000);
    let (light, heavy) = (host.machine().charged(light), host.machine().charged(heavy));
    let permille = light.as_ns() * 1_000 / (light + heavy).as_ns();
    assert!((20..=40).contains(&permille), "{permille} per mille");
}

#[test]
fn classes_go_before_deadlines() {
    let mut host = host(1, &[]);
    let idle = hog(&mut host, of(Class::Idle));
    let order = [
        hog(&mut host, nice(-20)),
        hog(&mut host, of(Class::Isochronous)),
        hog(&mut host, fifo(10)),
        hog(&mut host, fifo(11)),
        hog(&mut host, of(Class::Stop)),
    ];
    for &e in order.iter().rev() {
        let now = host.now().as_ns() / 1_000;
        run_through(&mut host, now + 3_000);
        assert_eq!(runs(&host, 0), Some(e));
        host.block(CPU);
    }
    run_through(&mut host, 50_000);
    assert_eq!(runs(&host, 0), Some(idle));
    host.wake(order[0], Wake::Timer);
    run_through(&mut host, 50_100);
    assert_eq!(runs(&host, 0), Some(order[0]), "at once");
}

/// A greedy SCHED_ISO task receives the whole CPU for the first seconds. Afterwards it receives 41 % (`iso-cpu` 70) or
/// 24 % (`iso-cpu` 30) while it ranks as isochronous. In addition, it receives a share while it counts as a normal
/// task.
#[test]
fn isochronous_tasks_are_held_to_their_part() {
    for (percent, range) in [(70, 41..=56), (30, 24..=36)] {
        let mut host = host(1, &[("iso-cpu", percent)]);
        let greedy = hog(&mut host, of(Class::Isochronous));
        // The deadlines of this hog are earlier than those of the isochronous task while that task counts as a normal
        // task.
        hog(&mut host, nice(-20));
        run_through(&mut host, 60_000_000);
        let part = host.machine().charged(greedy).as_ns() / 600_000_000;
        assert!(range.contains(&part), "{part} % with {percent}");
    }
}

#[test]
fn a_wake_up_takes_the_nearest_idle_cpu_or_the_worst_running() {
    let shape = sched::Topology { cpus: 8, smt: 2, llc: 4 };
    let mut host = host_of(shape, &[]);
    let at = |cpu| Params { affinity: CpuSet::one(CpuId::new(cpu)), ..Params::default() };
    let e = hog(&mut host, at(0));
    run_through(&mut host, 100);
    host.block(CPU);
    host.adjust(e, Params::default()).expect("it is accepted");
    let busy = hog(&mut host, at(0));
    run_through(&mut host, 200);
    host.wake(e, Wake::Timer);
    run_through(&mut host, 300);
    // Penalties of idle CPUs. CPU 1 shares a core with the busy CPU 0: 1 + 4 + 16. CPU 2 shares only the cache with
    // CPU 0: 2 + 4. CPU 4 has another cache, whose CPUs are all idle: 8.
    assert_eq!(runs(&host, 2), Some(e));
    let filler: Vec<EntityId> = (0..6).map(|_| hog(&mut host, nice(0))).collect();
    run_through(&mut host, 400);
    assert!(filler.iter().all(|&e| matches!(host.machine().state(e), State::Running(_))));
    run_through(&mut host, 500);
    host.adjust(filler[3], nice(19)).expect("it is accepted");
    run_through(&mut host, 600);
    let worst = (0..8).find(|&cpu| runs(&host, cpu) == Some(filler[3])).expect("it runs on: no task waits");
    let urgent = hog(&mut host, nice(-5));
    run_through(&mut host, 700);
    assert_eq!(runs(&host, worst), Some(urgent), "the latest deadline gives way");
    let synced = scripted(&mut host, nice(-20));
    host.wake(synced, Wake::By { waker: busy, sync: true });
    run_through(&mut host, 800);
    assert_eq!(host.machine().state(synced), State::Waiting, "a waker about to sleep preempts no task");
}

#[test]
fn a_fork_halves_the_slice_and_keeps_the_deadline() {
    let mut host = host(1, &[]);
    let parent = hog(&mut host, nice(0));
    run_through(&mut host, 2_000);
    let child = scripted(&mut host, nice(0));
    host.wake(child, Wake::New { parent: Some(parent) });
    assert_eq!(deadline_us(&host, child), deadline_us(&host, parent));
    // Half of what remains of 6.144 ms after 2 ms and 1 ns, rounded down. Each run ends 1 ns after its instant.
    assert_eq!((shows(&host, child, "slice"), shows(&host, parent, "slice")), (2_071_999, 2_071_999));
    // With less than 200 us left, the child receives a new time slice, and the parent's time slice ends.
    run_through(&mut host, 3_950);
    let late = scripted(&mut host, nice(0));
    host.wake(late, Wake::New { parent: Some(parent) });
    run_through(&mut host, 3_960);
    assert_eq!(shows(&host, late, "slice"), 6_144_000);
}

/// A preempted task is sticky: other CPUs treat a deadline that lies ahead as later, so its own CPU usually picks the
/// task first.
#[test]
fn a_sticky_task_stays_where_it_was() {
    for (locality, moves) in [(0, false), (2, true)] {
        let mut host = host(2, &[("locality", locality)]);
        let pinned = |cpu| Params { affinity: CpuSet::one(CpuId::new(cpu)), ..nice(0) };
        let (stays, other) = (hog(&mut host, pinned(0)), hog(&mut host, pinned(1)));
        run_through(&mut host, 1_000);
        host.adjust(stays, nice(0)).expect("it is accepted");
        // `urgent` preempts `stays`, which waits and is sticky on CPU 0.
        let urgent = hog(&mut host, Params { affinity: CpuSet::one(CPU), ..fifo(1) });
        run_through(&mut host, 2_000);
        assert_eq!((runs(&host, 0), runs(&host, 1)), (Some(urgent), Some(other)));
        // CPU 1 chooses between `stays` and `fresh`, whose deadline is slightly later.
        let fresh = hog(&mut host, pinned(1));
        run_through(&mut host, 3_000);
        host.block(CpuId::new(1));
        run_through(&mut host, 3_100);
        assert_eq!(runs(&host, 1) == Some(stays), moves, "with locality {locality}: {:?}", runs(&host, 1));
        assert!(moves || runs(&host, 1) == Some(fresh));
    }
}

#[test]
fn a_directed_yield_gives_away_the_time_slice() {
    let mut host = host(1, &[]);
    let (giver, taker) = (hog(&mut host, nice(-5)), hog(&mut host, nice(10)));
    run_through(&mut host, 1_000);
    assert_eq!(runs(&host, 0), Some(giver));
    let deadline = deadline_us(&host, giver);
    host.yield_to(CPU, taker);
    run_through(&mut host, 1_100);
    assert_eq!((runs(&host, 0), deadline_us(&host, taker)), (Some(taker), deadline));
}

/// A sleeper keeps its deadline until its time slice is used up. A task that blocks with a used-up time slice receives
/// a new time slice and a new deadline.
#[test]
fn a_time_slice_used_up_in_short_runs_gives_a_new_deadline() {
    let mut host = host(1, &[]);
    let e = scripted(&mut host, nice(0));
    let mut first = 0;
    // No tick occurs during a run, because a tick could end the time slice early.
    for (run, length) in [900, 900, 900, 900, 900, 900, 700].into_iter().enumerate() {
        let start = run as u64 * 10_000;
        run_through(&mut host, start);
        host.wake(e, Wake::Timer);
        run_through(&mut host, start + 50);
        first = if run == 0 { deadline_us(&host, e) } else { first };
        assert_eq!(deadline_us(&host, e), first, "run {run}: the first is kept while the slice lasts");
        run_through(&mut host, start + length);
        host.block(CPU);
    }
    // The remainder of 44 us is less than the minimum of 100 us.
    assert_eq!(shows(&host, e, "slice"), 6_144_000);
    assert_eq!(deadline_us(&host, e), 60_700 + 41_091);
}

/// A batch task receives a new deadline at every preemption; a normal task receives one only with a new time slice.
#[test]
fn a_batch_task_loses_its_place_when_it_is_preempted() {
    for (class, moved) in [(Class::Normal, false), (Class::Batch, true)] {
        let mut host = host(1, &[]);
        let e = hog(&mut host, of(class));
        let before = deadline_us(&host, e);
        run_through(&mut host, 2_000);
        hog(&mut host, fifo(1));
        run_through(&mut host, 2_100);
        assert_eq!(deadline_us(&host, e) > before, moved, "{class:?}");
    }
}

/// A task dispatched in the first half of a tick period stops early: at the first tick at which at most half a tick
/// period of its time slice is left.
#[test]
fn a_task_dispatched_early_in_a_tick_stops_before_its_time_slice_is_over() {
    for (start, end) in [(200, 6_000..6_200), (600, 7_000..7_200)] {
        let mut host = host(1, &[("binary-milliseconds", 0)]);
        run_through(&mut host, start);
        let (first, second) = (hog(&mut host, nice(0)), hog(&mut host, nice(0)));
        run_through(&mut host, start + 100);
        assert_eq!(runs(&host, 0), Some(first));
        let mut us = start + 100;
        while runs(&host, 0) == Some(first) {
            us += 100;
            run_through(&mut host, us);
        }
        assert!(end.contains(&us), "from {start} to {us}");
        assert_eq!(runs(&host, 0), Some(second));
    }
}

/// With `expired-first`, overdue tasks run in order of arrival, regardless of their deadlines.
#[test]
fn expired_deadlines_can_go_by_arrival() {
    for (expired_first, wanted) in [(0, 1), (1, 0)] {
        let mut host = host(1, &[("expired-first", expired_first)]);
        let sleepers = [scripted(&mut host, nice(5)), scripted(&mut host, nice(-5))];
        for &e in &sleepers {
            host.wake(e, Wake::New { parent: None });
            let now = host.now().as_ns() / 1_000;
            run_through(&mut host, now + 50);
            host.block(CPU);
        }
        let urgent = hog(&mut host, fifo(50));
        run_through(&mut host, 900_000);
        sleepers.iter().for_each(|&e| host.wake(e, Wake::Timer));
        run_through(&mut host, 900_100);
        assert_eq!(runs(&host, 0), Some(urgent));
        host.block(CPU);
        run_through(&mut host, 900_200);
        assert_eq!(runs(&host, 0), Some(sleepers[wanted]));
    }
}

/// Random wake-ups, blocks and yields on four CPUs: the tree and the scan find the same task (asserted at every pick).
#[test]
fn the_tree_finds_the_same_task_as_the_scan_of_the_source() {
    let shape = sched::Topology { cpus: 4, smt: 2, llc: 4 };
    let mut host = host_of(shape, &[]);
    let classes = [Class::Normal, Class::Normal, Class::Batch, Class::Idle, Class::Isochronous];
    let all: Vec<EntityId> = (0..24)
        .map(|n: i32| {
            let affinity = if n % 5 == 0 { CpuSet::first_n(2) } else { CpuSet::ALL };
            let class = classes[usize::try_from(n).expect("small") % classes.len()];
            scripted(&mut host, Params { affinity, class, ..nice(n % 7 * 3 - 9) })
        })
        .collect();
    let mut dice = Dice(7);
    for _ in 0..20_000 {
        let e = all[dice.index(all.len())];
        let draw = dice.below(3);
        match host.machine().state(e) {
            State::Blocked => host.wake(e, Wake::Timer),
            State::Running(cpu) if draw == 0 => host.block(cpu),
            State::Running(cpu) if draw == 1 => host.yield_now(cpu),
            State::Running(_) | State::Waiting => {}
        }
        host.run_until(host.now() + Nanos::us(1 + dice.below(700)));
    }
    let ran = all.iter().filter(|&&e| host.machine().charged(e) > Nanos::ZERO).count();
    assert!(ran >= 18, "all but those of the idle class, perhaps: {ran}");
}
