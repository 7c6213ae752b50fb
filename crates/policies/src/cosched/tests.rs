//! Tests of co-scheduling: the cells of vCPUs, the time slices of rows, and the vCPUs that fill empty cells.

use super::POLICY;
use super::matrix::{Matrix, Place};
use crate::fixture::{awake, cpu_of, gang, host_under, member, run_through_ms as run_through};
use sched::{CpuId, CpuSet, EntityId, GroupId, GroupParams, Wake};
use sim::Driver;

fn host<'a>(cpus: usize) -> Driver<'a> {
    host_under(&POLICY, sched::Topology::new(cpus), &[])
}

fn scripted(host: &mut Driver<'_>, group: GroupId) -> EntityId {
    awake(host, member(group))
}

/// Two gangs of two vCPUs and a hog on two CPUs, as in the picture of the essay.
#[test]
fn rows_take_turns_and_a_hole_is_filled() {
    let mut host = host(2);
    let (a, b) = (gang(&mut host), gang(&mut host));
    let all: Vec<EntityId> = [a, a, b, b, GroupId::ROOT].map(|group| scripted(&mut host, group)).to_vec();
    let runs = |host: &Driver<'_>| all.iter().map(|&e| cpu_of(host, e)).collect::<Vec<_>>();
    let expected = [
        (0, [Some(0), Some(1), None, None, None]),
        (29, [Some(0), Some(1), None, None, None]),
        (30, [None, None, Some(0), Some(1), None]),
        (60, [None, Some(1), None, None, Some(0)]),
        (90, [Some(0), Some(1), None, None, None]),
        (120, [None, None, Some(0), Some(1), None]),
    ];
    for (ms, wanted) in expected {
        run_through(&mut host, ms);
        assert_eq!(runs(&host), wanted, "at {ms} ms");
    }
}

/// Poris (Wu et al.) figure 2b: in at least half of the samples, all vCPUs of one gang run together. No CPU idles.
#[test]
fn siblings_run_and_wait_together() {
    let mut host = host(4);
    let gangs: Vec<Vec<EntityId>> = (0..3)
        .map(|_| {
            let group = gang(&mut host);
            (0..3).map(|_| scripted(&mut host, group)).collect()
        })
        .collect();
    let loners: Vec<EntityId> = (0..5).map(|_| scripted(&mut host, GroupId::ROOT)).collect();
    let (mut together, mut turns) = (0, [0; 3]);
    for ms in (5..3_000).step_by(10) {
        run_through(&mut host, ms);
        for (n, gang) in gangs.iter().enumerate() {
            let running = gang.iter().filter(|&&e| cpu_of(&host, e).is_some()).count();
            // If fewer than three vCPUs of a gang run, they fill empty cells of another row.
            together += usize::from(running == 3);
            turns[n] += usize::from(running == 3);
        }
        let busy = gangs.iter().flatten().chain(&loners).filter(|&&e| cpu_of(&host, e).is_some()).count();
        assert_eq!(busy, 4, "no CPU idles at {ms} ms");
    }
    assert!(together >= 150, "gangs ran whole in {together} of 300 samples");
    assert!(turns.iter().all(|&count| count.abs_diff(turns[0]) <= 3), "in equal turns: {turns:?}");
}

#[test]
fn a_turn_ends_early_when_none_of_its_vcpus_is_runnable() {
    let mut host = host(1);
    let (first, second) = (scripted(&mut host, GroupId::ROOT), scripted(&mut host, GroupId::ROOT));
    run_through(&mut host, 10);
    assert_eq!(cpu_of(&host, first), Some(0));
    host.block(CpuId::new(0));
    run_through(&mut host, 11);
    assert_eq!(cpu_of(&host, second), Some(0), "at once");
    host.wake(first, Wake::Timer);
    run_through(&mut host, 39);
    assert_eq!(cpu_of(&host, second), Some(0), "its own turn is a whole one");
    run_through(&mut host, 41);
    assert_eq!(cpu_of(&host, first), Some(0));
}

#[test]
fn a_vcpu_that_wakes_in_its_turn_preempts_the_vcpu_that_fills_its_cell() {
    let mut host = host(2);
    let vm = gang(&mut host);
    let (left, right) = (scripted(&mut host, vm), scripted(&mut host, vm));
    let loner = scripted(&mut host, GroupId::ROOT);
    run_through(&mut host, 1);
    host.block(CpuId::new(1));
    run_through(&mut host, 2);
    assert_eq!((cpu_of(&host, left), cpu_of(&host, loner)), (Some(0), Some(1)), "the hole is filled");
    host.wake(right, Wake::Interrupt);
    run_through(&mut host, 3);
    assert_eq!((cpu_of(&host, right), cpu_of(&host, loner)), (Some(1), None));
}

#[test]
fn a_yield_lets_others_fill_the_cell_and_loses_no_vcpu() {
    let mut host = host(1);
    let (first, second) = (scripted(&mut host, GroupId::ROOT), scripted(&mut host, GroupId::ROOT));
    run_through(&mut host, 1);
    host.yield_now(CpuId::new(0));
    run_through(&mut host, 2);
    assert_eq!(cpu_of(&host, second), Some(0));
    host.block(CpuId::new(0));
    run_through(&mut host, 3);
    assert_eq!(cpu_of(&host, first), Some(0), "alone, it runs on");
}

#[test]
fn a_group_becomes_a_gang_and_stops_being_one() {
    let mut host = host(2);
    let group = host.create_group("vm", GroupParams::default(), GroupId::ROOT).expect("every group is accepted");
    let first = scripted(&mut host, group);
    let other = scripted(&mut host, GroupId::ROOT);
    let second = scripted(&mut host, group);
    let row = |host: &Driver<'_>, e| host.machine().inspect(e, "row").expect("it is shown");
    assert_eq!([first, other, second].map(|e| row(&host, e)), [0, 0, 1], "first come, first seated");
    host.adjust_group(group, GroupParams { gang: true, ..GroupParams::default() }).expect("it is accepted");
    assert_eq!(row(&host, first), row(&host, second), "side by side");
    assert_ne!(row(&host, first), row(&host, other));
    host.adjust_group(group, GroupParams::default()).expect("it is accepted");
    assert_eq!([first, second].map(|e| row(&host, e)), [0, 1], "the first free cells");
}

/// A gang of three on two CPUs, and a gang of two that may run on one CPU only: each takes two rows.
#[test]
fn a_gang_that_cannot_sit_in_one_row_takes_several() {
    let mut matrix = Matrix::new(2);
    let id = |n: u32| EntityId::new(n, 0);
    let everywhere = CpuSet::first_n(2);
    let seat = |matrix: &mut Matrix, gang: &[(EntityId, CpuSet)]| {
        gang.iter().for_each(|&(e, _)| matrix.reserve(e));
        matrix.seat(gang);
        gang.iter().map(|&(e, _)| matrix.place(e)).collect::<Vec<_>>()
    };
    let at = |row, cpu| Place { row, cpu: CpuId::new(cpu) };
    let three = [(id(0), everywhere), (id(1), everywhere), (id(2), everywhere)];
    assert_eq!(seat(&mut matrix, &three), [at(0, 0), at(0, 1), at(1, 0)]);
    let one = CpuSet::one(CpuId::new(1));
    assert_eq!(seat(&mut matrix, &[(id(3), one), (id(4), one)]), [at(2, 1), at(1, 1)]);
    // The vCPU with the fewest allowed CPUs is assigned a cell first.
    assert_eq!(seat(&mut matrix, &[(id(5), everywhere), (id(6), one)]), [at(3, 0), at(3, 1)]);
    matrix.remove(id(1));
    assert_eq!(seat(&mut matrix, &[(id(7), one)]), [at(0, 1)], "a free cell is filled");
    assert_eq!(matrix.next_active(None), None);
    matrix.set_runnable(id(7), true);
    matrix.set_runnable(id(5), true);
    assert_eq!([0, 1, 3].map(|row| matrix.next_active(Some(row))), [Some(3), Some(3), Some(0)]);
}
