//! Tests of the kinds of groups, and of what busy CPUs pull.

use super::*;
use crate::fair::world::*;
use crate::fixture::nice;
use sched::{Descriptor, EntityId, Nanos, Topology};

/// A group of one CPU with this utilisation and number of tasks, all of nice 0 and always runnable.
fn cpu_with(util: u64, tasks: u64) -> Group {
    Group {
        first: CpuId::new(0),
        cpus: 1,
        load: 1024 * tasks,
        util,
        runnable: 1024 * tasks,
        running: tasks,
        fair: tasks,
        idle: u64::from(tasks == 0),
    }
}

#[test]
fn utilisation_divides_cpus_with_one_task() {
    // 1024 / 1.17 = 875.2. Both conditions are on the averages, not on the state of the CPU now.
    assert_eq!(cpu_with(875, 1).kind(117), Kind::HasSpare);
    assert_eq!(cpu_with(876, 1).kind(117), Kind::FullyBusy);
    assert_eq!(cpu_with(512, 0).kind(117), Kind::HasSpare);
}

#[test]
fn a_cpu_with_two_tasks_is_overloaded_by_utilisation_or_by_waiting() {
    assert_eq!(cpu_with(876, 2).kind(117), Kind::Overloaded);
    // The average number of runnable tasks exceeds 1.17, although the utilisation is low.
    assert_eq!(cpu_with(100, 2).kind(117), Kind::Overloaded);
    // The second task has just arrived, and neither average shows a load.
    assert_eq!(Group { runnable: 600, ..cpu_with(600, 2) }.kind(117), Kind::HasSpare);
}

#[test]
fn the_kind_precedes_the_load_in_the_choice_of_the_busiest_group() {
    let heavy = Group { load: 9_000, ..cpu_with(1_000, 1) };
    let (two, three) = (cpu_with(1_000, 2), cpu_with(1_000, 3));
    assert!(two.is_busier(&heavy, 117) && !heavy.is_busier(&two, 117));
    assert!(three.is_busier(&two, 117) && !two.is_busier(&three, 117));
    let (idle, one) = (cpu_with(0, 0), cpu_with(10, 1));
    assert!(one.is_busier(&idle, 117) && !idle.is_busier(&one, 117));
}

fn world(policy: &Descriptor, cpus: usize) -> World {
    World::under(policy, Topology::new(cpus), &[("tick", 4_000_000)], sim::Costs::NONE)
}

/// Returns the instants in milliseconds at which a hog first runs on another CPU than before.
fn moves(world: &World) -> Vec<u64> {
    let mut last: Vec<(EntityId, CpuId)> = Vec::new();
    let mut moves = Vec::new();
    let mut turns = world.record.borrow().turns.clone();
    turns.sort_by_key(|turn| turn.from);
    for turn in turns {
        match last.iter_mut().find(|(e, _)| *e == turn.entity) {
            Some((_, cpu)) if *cpu != turn.cpu => {
                *cpu = turn.cpu;
                moves.push(turn.from.as_ns() / 1_000_000);
            }
            Some(_) => {}
            None => last.push((turn.entity, turn.cpu)),
        }
    }
    moves
}

#[test]
fn a_cpu_that_has_lost_a_task_pulls_none_until_its_utilisation_has_recovered() {
    for policy in [&crate::eevdf::POLICY, &crate::cfs::POLICY] {
        let mut world = world(policy, 2);
        world.hogs(3, nice(0));
        world.until_ms(20_000);
        let moves = moves(&world);
        assert!(moves.len() > 100, "{}", moves.len());
        for pair in moves.windows(2) {
            // 57 ms, and one failed balance: 28 ms. A moved hog may wait for up to three ticks before it runs.
            assert!(pair[1] - pair[0] >= 57 + 28 - 12, "{pair:?}");
        }
    }
}

#[test]
fn a_failed_balance_is_repeated_after_the_shortest_interval() {
    let mut world = world(&crate::eevdf::POLICY, 2);
    world.hogs(3, nice(0));
    world.until_ms(20_000);
    let moves = moves(&world);
    let short = moves.windows(2).filter(|pair| pair[1] - pair[0] <= 188).count();
    // 60 ms of spare capacity, then 60 ms until the next balance, and two failed balances of 28 ms; plus waits.
    assert!(short * 100 >= moves.len() * 85, "{short} of {}", moves.len());
}

#[test]
fn pinned_tasks_do_not_count_as_failures() {
    let mut world = world(&crate::eevdf::POLICY, 2);
    let pinned = world.hogs(3, crate::fixture::on(&[0], nice(0)));
    world.hog(crate::fixture::on(&[1], nice(0)));
    world.until_ms(5_000);
    assert!(moves(&world).is_empty());
    assert_eq!(world.ran_all(&pinned), Nanos::s(5));
}

#[test]
fn the_pinned_tasks_of_one_cpu_do_not_hide_those_of_another() {
    // CPU 0 has most load, but pinned. CPU 1 has movable tasks that CPU 2 pulls.
    let mut world = world(&crate::eevdf::POLICY, 3);
    world.hogs(4, crate::fixture::on(&[0], nice(0)));
    let movable = world.hogs(3, crate::fixture::on(&[1], nice(0)));
    world.hog(crate::fixture::on(&[2], nice(0)));
    world.until_ms(500);
    movable.iter().for_each(|&e| world.host.adjust(e, crate::fixture::on(&[1, 2], nice(0))).unwrap());
    world.until_ms(3_000);
    assert!(movable.iter().any(|&e| world.cpu_of(e) == 2));
}
