//! A promise to a gang: its members run on several CPUs at the same time.

use super::scene::Scene;
use daemon::dispatch::{PromiseRequest, RaiseBy, Refusal};
use sched::{CpuId, CpuSet, EntityId, GroupId, Input, Instant, Nanos, Reservation, State};
use sim::{Periodic, Workload};
use trace::Event;

const HOGS: &[(&str, Workload)] = &[("hog", Workload::Hog), ("hog", Workload::Hog)];

fn gang(slice: Nanos, period: Nanos) -> PromiseRequest {
    let reservation = Reservation::new(slice, period);
    PromiseRequest { name: "vm".to_string(), reservation, cpus: 2, gang: true, affinity: CpuSet::ALL }
}

/// Returns the end of the current period of `e`.
fn deadline(scene: &Scene, e: EntityId) -> Instant {
    scene.dispatcher.machine().promise(e).expect("it has a promise").deadline
}

/// Returns the events since the last call.
fn events(scene: &mut Scene) -> Vec<Event> {
    let mut events = Vec::new();
    assert_eq!(scene.dispatcher.read_journal(&mut events), 0);
    events.into_iter().map(|(_, event)| event).collect()
}

#[test]
fn the_members_of_a_gang_have_one_phase_on_different_cpus() {
    let mut scene = Scene::new(RaiseBy::Inheritance, 3);
    let (entities, tids) = scene.admit(&gang(Nanos::ms(4), Nanos::ms(10)), HOGS);
    let entities = entities.expect("there is room");
    let machine = scene.dispatcher.machine();
    let cpus: CpuSet = entities.iter().filter_map(|&e| machine.allowed(e).first()).collect();
    assert_eq!(cpus.len(), 2);
    let group = machine.params(entities[0]).group;
    assert!(group != GroupId::ROOT && entities.iter().all(|&e| machine.params(e).group == group));
    // Both members run or wait, in the middle of every millisecond.
    scene.pass(Nanos::us(10_500));
    let mut together = 0;
    for _ in 0..200 {
        let runs = |e: &EntityId| matches!(scene.dispatcher.state(*e), Some(State::Running(_)));
        assert_eq!(runs(&entities[0]), runs(&entities[1]));
        together += u32::from(runs(&entities[0]));
        scene.pass(Nanos::ms(1));
    }
    assert_eq!(together, 40, "2 of 10 ms");
    let had: Vec<Nanos> = scene.usage(&tids).iter().map(|usage| usage.ran).collect();
    assert!(had.iter().all(|&had| had > Nanos::ms(40)), "{had:?}");
}

/// Asserts that each period of `e`, which is alone on `cpu`, reports the time that was charged in the period, without the
/// time that a sleep took from the slice.
fn check_periods(events: &[(Instant, Event)], e: EntityId, cpu: CpuId) {
    let (mut count, mut charged) = (0, Vec::new());
    for (at, event) in events {
        match event {
            Event::Input(Input::Ran { cpu: on, time }) if *on == cpu => charged.push((*at, *time)),
            Event::Period { entity, delivered, .. } if *entity == e => {
                let in_period = charged.iter().filter(|(then, _)| then.saturating_add(Nanos::ms(10)) > *at);
                let sum = in_period.fold(Nanos::ZERO, |sum, (_, time)| sum + *time);
                assert!(*delivered <= sum, "{e} at {at}: {delivered} of {sum}");
                count += 1;
            }
            _ => {}
        }
    }
    assert!(count > 10, "{count} periods of {e}");
}

/// A member that sleeps does not move the periods, and loses the part of the slice that was due during its sleep.
/// Without a gang, the periods follow the wake-ups.
#[test]
fn the_phase_of_a_gang_survives_the_sleep_of_a_member() {
    let sleeper = Workload::Periodic(Periodic::new(Nanos::ms(23), Nanos::ms(7)));
    let threads = [("hog", Workload::Hog), ("sleeper", sleeper)];
    for is_gang in [true, false] {
        let mut scene = Scene::new(RaiseBy::Inheritance, 2);
        let request = PromiseRequest { gang: is_gang, ..gang(Nanos::ms(8), Nanos::ms(10)) };
        let (entities, _) = scene.admit(&request, &threads);
        let entities = entities.expect("there is room");
        let (mut apart, period) = (0, Nanos::ms(10).as_ns());
        for _ in 0..500 {
            scene.pass(Nanos::ms(1));
            let phase = |e: EntityId| deadline(&scene, e).since(Instant::ZERO).as_ns() % period;
            apart += u32::from(phase(entities[0]) != phase(entities[1]));
        }
        let mut events = Vec::new();
        assert_eq!(scene.dispatcher.read_journal(&mut events), 0);
        assert_eq!(apart > 0, !is_gang, "{apart} of 500 samples are out of phase");
        for (cpu, &e) in entities.iter().enumerate() {
            check_periods(&events, e, CpuId::new(cpu));
        }
    }
}

/// A program starts with one thread. The clients of its promise on the other CPUs wait for further threads.
#[test]
fn a_client_without_threads_gets_the_next_thread_of_its_promise() {
    for is_gang in [true, false] {
        let mut scene = Scene::new(RaiseBy::Inheritance, 2);
        let request = PromiseRequest { gang: is_gang, ..gang(Nanos::ms(8), Nanos::ms(10)) };
        let (entities, tids) = scene.admit(&request, &[("first", Workload::Hog)]);
        let entities = entities.expect("there is room");
        scene.pass(Nanos::ms(50));
        assert_eq!(scene.dispatcher.take_dismissed(), []);
        let second = scene.clone_thread(tids[0], Workload::Hog);
        scene.pass(Nanos::ms(10));
        let all = [tids[0], second];
        let before = scene.usage(&all);
        scene.pass(Nanos::ms(100));
        for (now, before) in scene.usage(&all).into_iter().zip(before) {
            assert!(now.ran - before.ran >= Nanos::ms(39), "each has a CPU of its own: {}", now.ran - before.ran);
        }
        // With its last thread, the promise ends as a whole.
        scene.host.world_mut().kill(tids[0]);
        scene.ring();
        scene.pass(Nanos::ms(10));
        let dismissed: Vec<EntityId> = scene.dispatcher.take_dismissed().into_iter().map(|it| it.entity).collect();
        assert_eq!(dismissed, entities);
    }
}

/// A new thread has the CPU of its parent only because Tactus has confined the parent.
#[test]
fn a_thread_whose_parent_is_on_another_cpu_of_the_promise_may_use_all_cpus() {
    let mut scene = Scene::new(RaiseBy::Inheritance, 2);
    let (entities, tids) = scene.admit(&gang(Nanos::ms(8), Nanos::ms(10)), HOGS);
    scene.pass(Nanos::ms(50));
    let affinity = |scene: &Scene, tid: u32| scene.host.world().setting(tid).expect("it lives").affinity;
    let [first, second] = [tids[0], tids[1]];
    let before = affinity(&scene, first);
    assert_ne!(affinity(&scene, second), before);
    let third = scene.clone_thread(second, Workload::Hog);
    assert_eq!(affinity(&scene, third), before, "the CPUs have one thread each, so the first CPU gets the next thread");
    for e in entities.expect("there is room") {
        scene.dispatcher.dismiss(e);
    }
    assert_eq!([first, second, third].map(|tid| affinity(&scene, tid)), [CpuSet::first_n(2); 3]);
}

#[test]
fn a_refused_gang_and_a_dismissed_gang_leave_no_group_behind() {
    let mut scene = Scene::new(RaiseBy::Inheritance, 2);
    let one = PromiseRequest {
        cpus: 1,
        gang: false,
        affinity: CpuSet::one(CpuId::new(1)),
        ..gang(Nanos::ms(5), Nanos::ms(10))
    };
    scene.admit(&one, HOGS).0.expect("there is room");
    let count = |events: &[Event]| {
        let created = events.iter().filter(|event| matches!(event, Event::GroupCreated { .. })).count();
        let removed = events.iter().filter(|event| matches!(event, Event::GroupRemoved { .. })).count();
        (created, removed)
    };
    let (refused, _) = scene.admit(&gang(Nanos::ms(10), Nanos::ms(10)), HOGS);
    let Err(Refusal::NoRoom(room)) = refused else { panic!("{refused:?}") };
    assert_eq!(room.alternatives().slice, Some(Nanos::ms(8)), "4 ms on each CPU");
    assert_eq!(count(&events(&mut scene)), (1, 1));
    let (entities, _) = scene.admit(&gang(Nanos::ms(8), Nanos::ms(10)), HOGS);
    let entities = entities.expect("the named slice fits");
    scene.pass(Nanos::ms(50));
    scene.dispatcher.dismiss(entities[0]);
    assert_eq!(count(&events(&mut scene)), (1, 0), "the other member stays");
    scene.dispatcher.dismiss(entities[1]);
    assert_eq!(count(&events(&mut scene)), (0, 1));
}

#[test]
fn a_gang_does_not_change() {
    let mut scene = Scene::new(RaiseBy::Inheritance, 2);
    let entities = scene.admit(&gang(Nanos::ms(4), Nanos::ms(10)), HOGS).0.expect("there is room");
    scene.pass(Nanos::ms(25));
    let before = entities.iter().map(|&e| deadline(&scene, e)).collect::<Vec<_>>();
    let (answer, _) = scene.dispatcher.adjust(entities[0], Nanos::ms(2), Nanos::ms(10));
    assert!(answer.is_err_and(|refused| refused.to_string().ends_with("end the promise, and make a new one")));
    assert_eq!(entities.iter().map(|&e| deadline(&scene, e)).collect::<Vec<_>>(), before);
}
