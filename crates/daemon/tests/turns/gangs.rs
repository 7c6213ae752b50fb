//! A promise to a gang: its members run on several CPUs at the same time.

use super::scene::Scene;
use daemon::dispatch::{Others, PromiseRequest, RaiseBy, Refusal};
use measure::Siblings;
use sched::{CpuId, CpuSet, EntityId, GroupId, Input, Instant, Nanos, Reservation, State};
use sim::{Periodic, Workload};
use trace::{Event, Sink};

const HOGS: &[(&str, Workload)] = &[("hog", Workload::Hog), ("hog", Workload::Hog)];

fn gang(slice: Nanos, period: Nanos) -> PromiseRequest {
    let reservation = Reservation::new(slice, period);
    PromiseRequest { cpus: 2, gang: true, ..PromiseRequest::new("vm", reservation) }
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
        // The agent of each CPU dismisses the client there.
        let mut dismissed: Vec<EntityId> = scene.dispatcher.take_dismissed().into_iter().map(|it| it.entity).collect();
        dismissed.sort_unstable();
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

/// The vCPUs of several VMs run at the same time.
#[test]
fn promises_join_a_gang_and_change_with_it() {
    let mut scene = Scene::new(RaiseBy::Inheritance, 3);
    let first = PromiseRequest { cpus: 1, others: Others::Later, ..gang(Nanos::ms(4), Nanos::ms(10)) };
    let one = scene.admit(&first, &[("hog", Workload::Hog)]).0.expect("there is room")[0];
    scene.pass(Nanos::us(33_300));
    let second = PromiseRequest { others: Others::Of(one), ..gang(Nanos::ms(8), Nanos::ms(10)) };
    let other_slice = PromiseRequest { reservation: Reservation::new(Nanos::ms(6), Nanos::ms(10)), ..second.clone() };
    let (refused, _) = scene.admit(&other_slice, HOGS);
    assert!(refused.is_err_and(|refused| refused.to_string().contains("one slice and one period")));
    let two = scene.admit(&second, HOGS).0.expect("there is room");
    let all = [one, two[0], two[1]];
    let (refused, _) = scene.admit(&PromiseRequest { cpus: 1, ..second.clone() }, HOGS);
    assert!(refused.is_err(), "every CPU has a member");
    let machine = scene.dispatcher.machine();
    let cpus: CpuSet = all.iter().filter_map(|&e| machine.allowed(e).first()).collect();
    assert_eq!(cpus.len(), 3);
    assert!(all.iter().all(|&e| machine.params(e).group == machine.params(one).group));
    scene.pass(Nanos::us(16_200));
    let runs = |scene: &Scene| all.map(|e| matches!(scene.dispatcher.state(e), Some(State::Running(_))));
    for _ in 0..100 {
        let states = runs(&scene);
        assert!(states == [true; 3] || states == [false; 3], "{states:?}");
        scene.pass(Nanos::ms(1));
    }
    // The second promise changes to 6 ms on two CPUs, so the first promise changes to 3 ms on one CPU.
    scene.dispatcher.adjust(two[1], Nanos::ms(6), Nanos::ms(15)).0.expect("there is room");
    let promises = all.map(|e| scene.dispatcher.machine().promise(e).expect("it has a promise"));
    assert!(promises.iter().all(|it| *it == promises[0] && it.slice == Nanos::ms(3)), "{promises:?}");
    let (refused, _) = scene.dispatcher.adjust(one, Nanos::us(9_100), Nanos::ms(10));
    let Err(Refusal::NoRoom(room)) = refused else { panic!("{refused:?}") };
    assert_eq!(room.alternatives().slice, Some(Nanos::ms(27)), "9 ms on each CPU");
    events(&mut scene);
    scene.dispatcher.dismiss(one);
    for e in two {
        scene.dispatcher.dismiss(e);
    }
    let removed = events(&mut scene).into_iter().filter(|event| matches!(event, Event::GroupRemoved { .. })).count();
    assert_eq!(removed, 1);
    let (gone, _) = scene.admit(&second, HOGS);
    assert!(matches!(gone, Err(Refusal::NoPromise)), "{gone:?}");
}

#[test]
fn a_refused_gang_and_a_dismissed_gang_leave_no_group_behind() {
    let mut scene = Scene::new(RaiseBy::Inheritance, 2);
    let one = PromiseRequest {
        cpus: 1,
        gang: false,
        others: Others::None,
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

/// Returns the start skews of the gangs in these events, in the order of the gangs.
fn start_skews(events: &[(Instant, Event)]) -> Vec<(u64, Nanos)> {
    let mut siblings = Siblings::from(Instant::ZERO);
    events.iter().for_each(|(at, event)| siblings.record(*at, event));
    siblings.start_skews().map(|(_, skews)| (skews.count(), skews.longest())).collect()
}

/// The change is requested at every part of a period. Members that have used more of their slices would begin later.
#[test]
fn a_changed_gang_begins_its_new_periods_together() {
    let instants = (0..20).map(|nth| nth * 500 + 100);
    // A sleeper that needs little has often used less than the hog; a sleeper that needs more starts in more periods.
    for (us, (work, starts)) in instants.flat_map(|us| [(3, 0), (11, 5)].map(|kind| (us, kind))) {
        let mut scene = Scene::new(RaiseBy::Inheritance, 2);
        let sleeper = Workload::Periodic(Periodic::new(Nanos::ms(23), Nanos::ms(work)));
        let threads = [("sleeper", sleeper), ("hog", Workload::Hog)];
        let (entities, tids) = scene.admit(&gang(Nanos::ms(8), Nanos::ms(10)), &threads);
        let entities = entities.expect("there is room");
        scene.pass(Nanos::ms(50) + Nanos::us(us));
        let (answer, call) = scene.dispatcher.adjust(entities[1], Nanos::ms(6), Nanos::ms(15));
        answer.expect("there is room");
        assert!(call.contains(CpuId::new(0)) && call.contains(CpuId::new(1)), "{call}");
        let promise = |e: EntityId| scene.dispatcher.machine().promise(e).expect("it has a promise");
        let (promise, other) = (promise(entities[0]), promise(entities[1]));
        assert_eq!(promise, other, "both begin at once, or later together: {us} us");
        // The used part of a slice is due by the end of its period.
        let begins_at_once = promise.remaining > 0;
        assert!(begins_at_once || promise.deadline <= Instant::ZERO + Nanos::us(60_100), "{us} us: {promise:?}");
        scene.ring();
        scene.pass(Nanos::ms(30));
        let before = scene.usage(&tids)[1].ran;
        scene.pass(Nanos::ms(150));
        let had = scene.usage(&tids)[1].ran - before;
        // The hog also competes with two hogs for the rest of its CPU.
        assert!((Nanos::ms(30)..Nanos::ms(90)).contains(&had), "3 of 15 ms: {had}");
        let mut events = Vec::new();
        assert_eq!(scene.dispatcher.read_journal(&mut events), 0);
        let skews = start_skews(&events);
        assert!(matches!(skews[..], [_, (count, most)] if count >= starts && most.is_zero()), "{skews:?}");
    }
}

#[test]
fn a_refused_change_of_a_gang_changes_nothing() {
    let mut scene = Scene::new(RaiseBy::Inheritance, 2);
    let last = PromiseRequest {
        cpus: 1,
        gang: false,
        others: Others::None,
        affinity: CpuSet::one(CpuId::new(1)),
        ..gang(Nanos::ms(4), Nanos::ms(10))
    };
    scene.admit(&last, HOGS).0.expect("there is room");
    let entities = scene.admit(&gang(Nanos::ms(4), Nanos::ms(10)), HOGS).0.expect("there is room");
    scene.pass(Nanos::ms(25));
    events(&mut scene);
    let state = |scene: &Scene| {
        let machine = scene.dispatcher.machine();
        entities.iter().map(|&e| (machine.promise(e), *machine.params(e))).collect::<Vec<_>>()
    };
    let before = state(&scene);
    // The first member would fit, the second would not.
    let (answer, _) = scene.dispatcher.adjust(entities[0], Nanos::ms(14), Nanos::ms(10));
    let Err(Refusal::NoRoom(room)) = answer else { panic!("{answer:?}") };
    assert_eq!(room.alternatives().slice, Some(Nanos::ms(10)), "5 ms on each CPU");
    assert_eq!(state(&scene), before);
    assert_eq!(events(&mut scene), []);
    scene.dispatcher.adjust(entities[0], Nanos::ms(10), Nanos::ms(10)).0.expect("the named slice fits");
    let (short, _) = scene.dispatcher.adjust(entities[0], Nanos::us(10), Nanos::ms(10));
    assert!(matches!(short, Err(Refusal::TooShort { .. })), "{short:?}");
    scene.dispatcher.dismiss(entities[0]);
    scene.dispatcher.adjust(entities[1], Nanos::ms(2), Nanos::ms(10)).0.expect("the last member changes alone");
    scene.dispatcher.dismiss(entities[1]);
    let events = events(&mut scene);
    let count = |is: fn(&Event) -> bool| events.iter().filter(|event| is(event)).count();
    let created = count(|event| matches!(event, Event::GroupCreated { .. }));
    assert_eq!((created, count(|event| matches!(event, Event::GroupRemoved { .. }))), (2, 3));
}
