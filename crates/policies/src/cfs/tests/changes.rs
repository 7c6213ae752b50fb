//! Tests of changes of parameters, arrivals and departures, and late alarms.

use super::*;
use crate::fixture;
use sched::{Action, Alarm, AlarmOwner, Input, Machine};

// ---- Affinity ----

#[test]
fn a_waiting_task_that_may_not_stay_migrates() {
    let mut world = World::new(2);
    let hogs = world.hogs(3, on(&[0], nice(0)));
    world.until_ms(10);
    let waits = hogs.iter().copied().find(|&e| world.running(0) != Some(e)).unwrap();
    world.host.adjust(waits, on(&[1], nice(0))).unwrap();
    world.settle();
    assert_eq!(world.running(1), Some(waits));
}

#[test]
fn a_running_task_that_may_not_stay_migrates() {
    let mut world = World::new(2);
    let [a, b] = [0, 0].map(|n| world.hog(on(&[0], nice(n))));
    world.until_ms(10);
    let runs = world.running(0).unwrap();
    world.host.adjust(runs, on(&[1], nice(0))).unwrap();
    world.settle();
    assert_eq!((world.running(0), world.running(1)), (Some(if runs == a { b } else { a }), Some(runs)));
}

#[test]
fn a_sleeper_wakes_where_it_may() {
    let mut world = World::new(2);
    let e = world.scripted(on(&[0], nice(0)));
    world.wake(e);
    world.until_ms(1);
    world.host.block(CpuId::new(0));
    world.host.adjust(e, on(&[1], nice(0))).unwrap();
    world.wake(e);
    world.settle();
    assert_eq!(world.running(1), Some(e));
}

// ---- Groups ----

#[test]
fn a_task_changes_groups_asleep_waiting_and_running() {
    for state in ["asleep", "waiting", "running"] {
        let mut world = World::new(1);
        let (a, b) = (world.group(1024, GroupId::ROOT), world.group(3072, GroupId::ROOT));
        println!("moved while {state}");
        let mover = world.hog(within(a, nice(0)));
        let stays = [a, b].map(|group| world.hog(within(group, nice(0))));
        world.until_ms(500);
        if state == "asleep" {
            world.host.pause(mover);
        } else {
            while (world.running(0) == Some(mover)) != (state == "running") {
                world.host.run_until(world.host.now() + Nanos::us(10));
            }
        }
        world.host.adjust(mover, within(b, nice(0))).unwrap();
        if state == "asleep" {
            world.until_ms(900);
            world.host.resume(mover);
        }
        world.until_ms(1_000);
        let before = [mover, stays[0], stays[1]].map(|e| world.ran(e));
        world.until_ms(11_000);
        for (e, (before, part)) in [mover, stays[0], stays[1]].into_iter().zip(before.into_iter().zip([3, 2, 3])) {
            assert_near(world.ran(e) - before, Nanos::s(10).scale(part, 8), Nanos::ms(20));
        }
    }
}

#[test]
fn a_sleeper_keeps_its_distance_from_its_queue_when_it_changes_groups() {
    // The clock of the light hog's group runs far ahead of the clock of the heavy hog's group.
    for heavy_first in [true, false] {
        let mut world = World::new(1);
        let groups = [world.group(1024, GroupId::ROOT), world.group(1024, GroupId::ROOT)];
        let hogs = [0, 15].map(|n| world.hog(within(groups[usize::from(n > 0)], nice(n))));
        let (from, to) = if heavy_first { (0, 1) } else { (1, 0) };
        let mover = world.scripted(within(groups[from], nice(15)));
        world.wake(mover);
        world.until_ms(2_000);
        world.host.pause(mover);
        world.until_ms(3_000);
        world.host.adjust(mover, within(groups[to], nice(15))).unwrap();
        world.wake(mover);
        world.settle();
        let distance = world.inspect(mover, "min_vruntime") - world.vruntime(mover);
        assert!((0..=ms(3)).contains(&distance), "{distance}: no more than a sleeper's credit, no debt ({hogs:?})");
    }
}

#[test]
fn a_task_that_changes_groups_gains_nothing_by_it() {
    let mut world = World::new(1);
    let (a, b) = (world.group(1024, GroupId::ROOT), world.group(1024, GroupId::ROOT));
    let mover = world.hog(within(a, nice(0)));
    let stays = [a, b].map(|group| world.hog(within(group, nice(0))));
    for n in 0..1_000 {
        world.until_ms(7 * (n + 1));
        world.host.adjust(mover, within(if n % 2 == 0 { b } else { a }, nice(0))).unwrap();
    }
    world.until_ms(7_000);
    let least = stays.map(|e| world.ran(e)).into_iter().min().unwrap();
    assert!(world.ran(mover) < least, "{} of 7 s: it shares with one at a time", world.ran(mover));
    assert!(world.ran(mover) > Nanos::ms(300), "{}", world.ran(mover));
}

// ---- Weight and class ----

#[test]
fn raising_a_waiting_tasks_weight_may_preempt_and_lowering_a_running_ones_too() {
    let mut world = World::with(Topology::new(1), &[("start-debit", 0)]);
    let e = world.scripted(nice(5));
    let hog = world.hog(nice(0));
    world.until_ms(100);
    world.wake(e);
    world.settle();
    assert_eq!(world.running(0), Some(hog), "3 ms are not more than 3.057 (1 ms on its clock)");
    world.host.adjust(e, nice(0)).unwrap();
    world.settle();
    assert_eq!(world.running(0), Some(e), "3 ms are more than 1");
    world.host.run_until(world.host.now() + Nanos::us(3_500));
    world.host.adjust(e, nice(10)).unwrap();
    world.settle();
    assert_eq!(world.running(0), Some(hog));
}

#[test]
fn a_class_changes_in_every_state() {
    let mut world = World::new(2);
    let e = world.hog(class(Class::Idle));
    let normal = world.hogs(2, on(&[0], nice(0)));
    world.until_ms(100);
    assert_eq!(world.running(1), Some(e));
    // CPU 1 counts as idle while only this SCHED_IDLE task runs there, but not after the task's change to the normal
    // class.
    world.host.adjust(e, nice(0)).unwrap();
    world.until_ms(200);
    let sleeper = world.scripted(on(&[1], nice(0)));
    world.wake(sleeper);
    world.settle();
    world.host.adjust(sleeper, class(Class::Idle)).unwrap();
    world.host.adjust(e, class(Class::Batch)).unwrap();
    world.host.pause(normal[0]);
    world.host.adjust(normal[0], class(Class::Idle)).unwrap();
    world.until_ms(300);
    world.host.resume(normal[0]);
    world.until_ms(1_300);
    assert_eq!(world.inspect(normal[0], "weight"), 3);
    assert!(world.ran(normal[1]) > world.ran(normal[0]));
}

// ---- Arrivals and departures ----

#[test]
fn entities_leave_from_every_state_and_their_ids_start_afresh() {
    let mut world = World::new(1);
    let hogs = world.hogs(3, nice(0));
    let sleeper = world.scripted(nice(0));
    world.until_ms(50);
    let running = world.running(0).unwrap();
    let waiting = hogs.iter().copied().find(|&e| e != running).unwrap();
    for e in [running, waiting, sleeper] {
        world.host.detach(e);
    }
    world.settle();
    let last = hogs.into_iter().find(|&e| e != running && e != waiting).unwrap();
    assert_eq!(world.running(0), Some(last));
    world.until_ms(1_000);
    let new = world.hog(nice(0));
    world.settle();
    assert!([running, waiting, sleeper].iter().any(|old| old.index() == new.index()), "{new} reuses an index");
    assert_eq!(world.inspect(new, "sum_exec"), 0);
    assert_eq!(world.vruntime(new), world.vruntime(last) + ms(3), "it begins like any other");
}

#[test]
fn a_task_added_late_is_owed_nothing_for_the_past() {
    let mut world = World::new(1);
    let old = world.hog(nice(0));
    world.until_ms(60_000);
    let late = world.scripted(nice(0));
    world.wake(late);
    world.settle();
    assert_eq!(world.vruntime(old) - world.vruntime(late), ms(3), "but for a sleeper's credit");
}

#[test]
fn paused_tasks_wait_for_nothing_and_come_back_with_a_sleepers_credit() {
    let mut world = World::new(1);
    let [a, b] = [0, 0].map(|n| world.hog(nice(n)));
    world.until_ms(100);
    world.host.pause(a);
    world.until_ms(200);
    assert_eq!(world.running(0), Some(b));
    world.host.resume(a);
    world.settle();
    assert_eq!(world.running(0), Some(a));
    assert_eq!(world.vruntime(b) - world.vruntime(a), ms(3));
}

// ---- Alarms ----

fn drive(machine: &mut Machine, now: Instant, input: Input) -> Vec<Action> {
    machine.input(now, input);
    machine.settle(now).to_vec()
}

#[test]
fn a_late_tick_does_its_work_and_the_next_one_is_on_the_grid() {
    let mut machine = fixture::machine(&POLICY, 1, &POLICY.defaults());
    let [a, b] = [(); 2].map(|()| machine.attach(Instant::ZERO, nice(0)).unwrap());
    for entity in [a, b] {
        drive(&mut machine, Instant::ZERO, Input::Wake { entity, why: Wake::Timer });
    }
    let tick = Alarm { owner: AlarmOwner::Cpu(CpuId::new(0)), slot: 0 };
    let late = at_ms(9) + Nanos::us(700);
    let actions = drive(&mut machine, late, Input::Alarm { alarm: tick });
    assert_eq!(machine.running(CpuId::new(0)), Some(b));
    assert_eq!(machine.inspect(a, "vruntime"), Some(9_700_000));
    let next = actions.iter().find_map(|action| match *action {
        Action::SetAlarm { alarm, at, .. } if alarm == tick => Some(at),
        _ => None,
    });
    assert_eq!(next, Some(at_ms(10)), "the missed ticks are not made up for");
}

#[test]
fn a_late_refill_is_one_refill_and_the_next_one_is_on_the_grid() {
    let mut machine = fixture::machine(&POLICY, 1, &POLICY.defaults());
    let quota = Some(Quota::new(Nanos::ms(10), Nanos::ms(100)).unwrap());
    let limited = GroupParams { quota, ..GroupParams::default() };
    let group = machine.create_group(Instant::ZERO, limited, GroupId::ROOT).unwrap();
    let e = machine.attach(Instant::ZERO, within(group, nice(0))).unwrap();
    drive(&mut machine, Instant::ZERO, Input::Wake { entity: e, why: Wake::Timer });
    drive(&mut machine, at_ms(30), Input::Alarm { alarm: Alarm { owner: AlarmOwner::Cpu(CpuId::new(0)), slot: 0 } });
    assert!(machine.is_held(e), "it has overdrawn its 10 ms by 20");
    let refill = Alarm { owner: AlarmOwner::Group(group), slot: 0 };
    let refill_at = |actions: &[Action]| {
        actions.iter().find_map(|action| match *action {
            Action::SetAlarm { alarm, at, .. } if alarm == refill => Some(at),
            _ => None,
        })
    };
    let actions = drive(&mut machine, at_ms(350), Input::Alarm { alarm: refill });
    assert_eq!(refill_at(&actions), Some(at_ms(400)), "250 ms late");
    assert!(machine.is_held(e), "one refill pays half of the debt");
    drive(&mut machine, at_ms(400), Input::Alarm { alarm: refill });
    assert!(machine.is_held(e), "the second leaves nothing");
    drive(&mut machine, at_ms(500), Input::Alarm { alarm: refill });
    assert!(!machine.is_held(e));
}

#[test]
fn ticks_stop_where_they_cannot_matter() {
    let mut world = World::new(2);
    let [a, b] = [0, 0].map(|n| world.hog(nice(n)));
    world.until_ms(5);
    let before = world.record.borrow().alarms;
    world.until_ms(1_000);
    assert_eq!(world.record.borrow().alarms, before, "every task has a CPU");
    world.hog(nice(0));
    world.until_ms(1_100);
    let ticks = world.record.borrow().alarms - before;
    assert!((190..=210).contains(&ticks), "both CPUs tick while one has two: {ticks} ({a}, {b})");
}
