//! Tests of v3.17, and of the knobs for its differences.

use super::knobs::{slices, wakes_on};
use super::placement::{sleeper_of, wake_by, waker_on, wakers_on};
use super::*;

const OLD: (&str, i64) = ("version", 1);

// ---- Slices ----

#[test]
fn v3_17_has_no_least_slice_whatever_its_knob_says() {
    assert_eq!(slices(1, &[], &[0, 19])[1], 750_000);
    for base_slice in [0, 1] {
        assert_eq!(slices(1, &[OLD, ("base-slice", base_slice)], &[0, 19])[1], 6_000_000 * 15 / 1039);
    }
}

#[test]
fn v3_17_sizes_the_round_by_one_queue() {
    for (version, round) in [(0, 13 * 750_000), (1, ms(6))] {
        let mut world = World::with(Topology::new(1), &[("version", version)]);
        let group = world.group(1024, GroupId::ROOT);
        world.hogs(12, within(group, nice(0)));
        let outside = world.hog(nice(0));
        world.settle();
        assert_eq!(world.inspect(outside, "slice"), round / 2);
    }
}

// ---- Balancing ----

/// Returns the instant at which a hog of CPU 0 first runs on CPU 1. CPU 0 has `many` hogs, CPU 1 has four.
fn moved_at(knobs: &[(&str, i64)], many: usize) -> Option<Instant> {
    let mut world = World::with(Topology::new(2), knobs);
    let movable = world.hogs(many, on(&[0], nice(0)));
    world.hogs(4, on(&[1], nice(0)));
    world.until_ms(10);
    movable.iter().for_each(|&e| world.host.adjust(e, nice(0)).unwrap());
    world.until_ms(2_000);
    let record = world.record.borrow();
    let turn = record.turns.iter().find(|turn| movable.contains(&turn.entity) && turn.cpu == CpuId::new(1));
    turn.map(|turn| turn.from)
}

#[test]
fn in_v3_17_a_cpu_puts_up_with_a_quarter_less_work_unless_told_otherwise() {
    assert!(moved_at(&[], 5).is_some());
    assert!(moved_at(&[OLD], 5).is_none(), "five to four are 125 to 100");
    assert!(moved_at(&[OLD], 6).is_some());
    assert!(moved_at(&[OLD, ("imbalance", 110)], 5).is_some());
}

#[test]
fn a_busy_cpu_balances_once_in_so_many_intervals() {
    // With two CPUs, a busy CPU balances every `busy-factor` times 2 ms, minus a tick of 1 ms. After a balance that
    // finds no imbalance, the 2 ms become 4 ms. The product is at most 100 ms per CPU. A migrated task then waits for
    // its first time slice.
    let wait = |knobs: &[_]| moved_at(knobs, 6).unwrap().as_ns() / 1_000_000;
    let ordinary = wait(&[]);
    let rare = wait(&[("busy-factor", 160)]);
    assert!((31..=198).contains(&ordinary), "{ordinary}");
    assert!((199..=420).contains(&rare), "{rare}");
    assert_eq!(wait(&[OLD]), wait(&[("busy-factor", 32), ("imbalance", 125), OLD]));
    assert_ne!(wait(&[OLD]), wait(&[OLD, ("busy-factor", 160)]));
}

// ---- The CPU of a woken task ----

#[test]
fn v3_17_weighs_loads_even_if_the_waker_is_about_to_block() {
    // The wakee's CPU has a hog of nice 0; the waker's CPU has no load except the waker, which is about to block.
    assert_eq!(wakes_on(&[("wake-affine-weight", 0)], true, 0), 0);
    assert_eq!(wakes_on(&[("wake-affine-weight", 0), OLD], true, 0), 1);
    assert_eq!(wakes_on(&[OLD], true, 0), 0);
}

#[test]
fn in_v3_17_an_even_balance_draws_a_wakee_near() {
    for (version, cpu) in [(0, 1), (1, 0)] {
        let mut world =
            World::with(Topology { cpus: 2, smt: 1, llc: 1 }, &[("version", version), ("wake-affine-bias", 0)]);
        let e = sleeper_of(&mut world, 1);
        let waker = waker_on(&mut world, 0);
        wakers_on(&mut world, &[1]);
        world.hog(on(&[1], nice(0)));
        world.settle();
        // The wakee's CPU has two tasks of nice 0; the waker's CPU has two tasks including the wakee.
        wake_by(&mut world, e, waker, false);
        assert_eq!(world.cpu_of(e), cpu, "version {version}");
    }
}

#[test]
fn in_v3_17_a_waker_that_leaves_nothing_behind_draws_the_wakee_from_an_idle_cpu() {
    for (knobs, cpu) in [(&[("wake-affine-idle", 0)], 1), (&[OLD], 0)] {
        let mut world = World::with(Topology { cpus: 2, smt: 1, llc: 1 }, knobs);
        let e = sleeper_of(&mut world, 1);
        let waker = waker_on(&mut world, 0);
        wake_by(&mut world, e, waker, true);
        assert_eq!(world.cpu_of(e), cpu);
    }
}

#[test]
fn in_v3_17_only_a_wakee_with_many_partners_of_its_own_is_left_where_it_is() {
    // With its last wake-up, the waker has woken four tasks. The wakee has woken one task, and each cache has one CPU.
    for (version, cpu) in [(0, 1), (1, 0)] {
        let mut world = World::with(Topology { cpus: 2, smt: 1, llc: 1 }, &[("version", version)]);
        let e = sleeper_of(&mut world, 1);
        let waker = waker_on(&mut world, 0);
        world.hog(on(&[1], nice(-5)));
        world.settle();
        for by in [waker, waker, waker, e] {
            let other = world.scripted(on(&[0], nice(0)));
            wake_by(&mut world, other, by, false);
            world.host.detach(other);
            world.settle();
        }
        wake_by(&mut world, e, waker, false);
        assert_eq!(world.cpu_of(e), cpu, "version {version}");
    }
}

/// Returns the CPU on which a task that last ran on CPU 2 wakes while the CPUs `busy` are busy. The host has two cores
/// of two threads each.
fn wakes_beside(busy: &[usize], knobs: &[(&str, i64)]) -> i64 {
    let mut world = World::with(Topology { cpus: 4, smt: 2, llc: 4 }, knobs);
    let e = sleeper_of(&mut world, 2);
    wakers_on(&mut world, busy);
    world.wake(e);
    world.settle();
    world.cpu_of(e)
}

#[test]
fn a_search_by_core_takes_idle_cores_and_threads_of_the_own_core_only() {
    for by_core in [("idle-search", 1), OLD] {
        for (busy, by_cpu, by_core_only) in [(&[2][..], 0, 0), (&[0, 2], 3, 3), (&[0, 2, 3], 1, 2), (&[1, 2, 3], 0, 2)]
        {
            assert_eq!(wakes_beside(busy, &[]), by_cpu, "{busy:?} are busy");
            assert_eq!(wakes_beside(busy, &[by_core]), by_core_only, "{busy:?} are busy");
        }
    }
}

#[test]
fn a_search_by_core_begins_at_its_own_core() {
    let mut world = World::with(Topology { cpus: 6, smt: 2, llc: 6 }, &[("idle-search", 1)]);
    let e = sleeper_of(&mut world, 2);
    wakers_on(&mut world, &[2]);
    world.wake(e);
    world.settle();
    assert_eq!(world.cpu_of(e), 4, "0 and 1 idle as well");
}

#[test]
fn the_cpu_it_woke_others_from_need_not_be_looked_at() {
    for (knob, cpu) in [(("recent-cpu", 1), 5), (("recent-cpu", 0), 3), (OLD, 3)] {
        let mut world = World::with(Topology::new(6), &[knob]);
        let e = sleeper_of(&mut world, 5);
        let other = sleeper_of(&mut world, 4);
        world.wake(e);
        world.settle();
        wake_by(&mut world, other, e, false);
        world.host.pause(other);
        world.host.block(CpuId::new(5));
        world.host.adjust(e, on(&[2], nice(0))).unwrap();
        world.wake(e);
        world.settle();
        world.host.block(CpuId::new(2));
        world.host.adjust(e, nice(0)).unwrap();
        waker_on(&mut world, 2);
        world.wake(e);
        world.settle();
        assert_eq!(world.cpu_of(e), cpu, "{knob:?}");
    }
}

#[test]
fn a_cpu_with_idle_tasks_only_may_count_as_busy() {
    for (knob, cpu) in [(("idle-class-cpus", 1), 1), (("idle-class-cpus", 0), 0), (OLD, 0)] {
        let mut world = World::with(Topology::new(2), &[knob]);
        let e = sleeper_of(&mut world, 0);
        waker_on(&mut world, 0);
        world.hog(on(&[1], class(Class::Idle)));
        world.until_ms(10);
        world.wake(e);
        world.settle();
        assert_eq!(world.cpu_of(e), cpu, "{knob:?}");
    }
}
