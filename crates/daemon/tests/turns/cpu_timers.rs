//! A timer of CPU time ends the slices of a client that sleeps, and is alone on its CPU.

use super::scene::Scene;
use daemon::dispatch::{PromiseRequest, RaiseBy};
use daemon::kernel::Kernel;
use sched::{EntityId, Input, Instant, Nanos, Reservation, Wake};
use sim::{Periodic, Workload};
use sys::attributes::{Attributes, Policy};
use trace::Event;

const PERIOD: Nanos = Nanos::ms(10);
const SLICE: Nanos = Nanos::ms(4);
/// Maximum time from the end of a slice to the turn that lowers the thread.
const OVERRUN: Nanos = Nanos::us(60);
const HOG: (&str, Workload) = ("hog", Workload::Hog);

/// A thread that runs for `work` every `every`.
fn sleeper(every: Nanos, work: Nanos) -> (&'static str, Workload) {
    ("sleeper", Workload::Periodic(Periodic::new(every, work)))
}

/// Makes a promise with a soft limit to a process with these threads.
fn admit(scene: &mut Scene, threads: &[(&str, Workload)]) -> (EntityId, Vec<u32>) {
    let request = PromiseRequest::new("client", Reservation::new(SLICE, PERIOD));
    let (entities, tids) = scene.admit(&request, threads);
    (entities.expect("there is room")[0], tids)
}

/// Lets time pass until just after the end of the period of `entity`.
fn pass_to_end_of_period(scene: &mut Scene, entity: EntityId) {
    let deadline = scene.dispatcher.machine().promise(entity).expect("it has a promise").deadline;
    let now = scene.daemon.now().saturating_since(scene.dispatcher.epoch());
    scene.pass(deadline.saturating_since(Instant::ZERO) - now + Nanos::us(100));
}

/// Returns the number of turns in the third second of a client with these threads.
fn turns(threads: &[(&str, Workload)]) -> u64 {
    let mut scene = Scene::new(RaiseBy::Inheritance, 1);
    admit(&mut scene, threads);
    scene.pass(Nanos::s(2));
    let before = scene.turns;
    scene.pass(Nanos::s(1));
    scene.turns - before
}

#[test]
fn a_client_that_sleeps_in_each_period_costs_one_turn_per_period() {
    for every in [PERIOD, Nanos::us(3_300), Nanos::us(900)] {
        let count = turns(&[sleeper(every, every.scale(1, 4))]);
        assert!((100..=102).contains(&count), "{count} turns, with a sleep every {every}");
    }
}

#[test]
fn a_client_that_sleeps_for_a_long_time_costs_turns_only_when_it_wakes() {
    let count = turns(&[sleeper(Nanos::ms(250), Nanos::ms(1))]);
    // The wake-up, the end of its period, and the end of a period without CPU time.
    assert!(count <= 4 * 4, "{count} turns");
}

#[test]
fn every_sleep_is_recorded_on_request() {
    let mut scene = Scene::new(RaiseBy::Inheritance, 1);
    let request =
        PromiseRequest { records_sleeps: true, ..PromiseRequest::new("client", Reservation::new(SLICE, PERIOD)) };
    scene.admit(&request, &[sleeper(PERIOD, Nanos::ms(2))]).0.expect("there is room");
    scene.pass(Nanos::s(2));
    let mut events = Vec::new();
    scene.dispatcher.read_journal(&mut events);
    scene.pass(Nanos::s(1));
    scene.dispatcher.read_journal(&mut events);
    let sleeps = events.iter().filter(|(_, event)| matches!(event, Event::Input(Input::Block { .. }))).count();
    assert!((99..=101).contains(&sleeps), "{sleeps} sleeps");
}

#[test]
fn a_client_with_a_timer_gets_its_slice_and_no_more() {
    let mut scene = Scene::new(RaiseBy::Inheritance, 1);
    let (_, tids) = admit(&mut scene, &[("scripted", Workload::Scripted)]);
    scene.host.world_mut().mark(tids[0], 1);
    for _ in 0..120 {
        scene.host.world_mut().want(tids[0], Wake::Timer);
        scene.pass(Nanos::ms(2));
        scene.host.world_mut().block(tids[0]);
        scene.pass(PERIOD - Nanos::ms(2));
    }
    let (turns, before) = (scene.turns, scene.host.world().had_by(1).1);
    scene.host.world_mut().want(tids[0], Wake::Timer);
    scene.pass(Nanos::s(1));
    let raised = scene.host.world().had_by(1).1 - before;
    assert!((SLICE.saturating_mul(99)..=(SLICE + OVERRUN).saturating_mul(101)).contains(&raised), "{raised}");
    assert!(scene.turns - turns <= 202, "{} turns", scene.turns - turns);
}

#[test]
fn a_period_with_a_sleep_is_not_judged() {
    let mut scene = Scene::new(RaiseBy::Inheritance, 1);
    admit(&mut scene, &[sleeper(Nanos::ms(7), Nanos::ms(1))]);
    scene.pass(Nanos::s(1));
    let mut events = Vec::new();
    scene.dispatcher.read_journal(&mut events);
    scene.pass(Nanos::s(1));
    scene.dispatcher.read_journal(&mut events);
    let periods = events.iter().filter_map(|(_, event)| match event {
        Event::Period { throughout, .. } => Some(*throughout),
        _ => None,
    });
    let judged: Vec<bool> = periods.collect();
    assert!(judged.len() > 90 && judged.iter().all(|throughout| !throughout), "{judged:?}");
}

#[test]
fn a_client_that_is_kept_from_its_cpu_does_not_count_as_a_sleeper() {
    let mut scene = Scene::new(RaiseBy::Inheritance, 1);
    let (_, tids) = admit(&mut scene, &[("scripted", Workload::Scripted)]);
    for _ in 0..120 {
        scene.host.world_mut().want(tids[0], Wake::Timer);
        scene.pass(Nanos::ms(2));
        scene.host.world_mut().block(tids[0]);
        scene.pass(PERIOD - Nanos::ms(2));
    }
    let mut events = Vec::new();
    scene.dispatcher.read_journal(&mut events);
    scene.host.world_mut().want(tids[0], Wake::Timer);
    scene.pass(Nanos::ms(1));
    // A thread above the agent.
    let above = scene.start(&[HOG])[0];
    scene.host.world_mut().reschedule(above, Attributes::of(Policy::Fifo { priority: 99 }));
    scene.pass(Nanos::ms(200));
    scene.host.world_mut().kill(above);
    scene.pass(Nanos::ms(20));
    scene.dispatcher.read_journal(&mut events);
    let is_missed =
        |event: &Event| matches!(event, Event::Period { due, delivered, throughout: true, .. } if delivered < due);
    let missed = events.iter().filter(|(_, event)| is_missed(event)).count();
    assert!((18..=21).contains(&missed), "{missed} periods are missed");
}

#[test]
fn a_second_client_on_the_cpu_runs_while_the_first_sleeps() {
    let mut scene = Scene::new(RaiseBy::Inheritance, 1);
    let (_, first) = admit(&mut scene, &[sleeper(Nanos::ms(9), Nanos::ms(1))]);
    scene.pass(Nanos::ms(1_203));
    let (second, others) = admit(&mut scene, &[HOG]);
    scene.pass(Nanos::ms(20));
    let before = scene.usage(&[first[0], others[0]]);
    scene.pass(Nanos::s(1));
    let after = scene.usage(&[first[0], others[0]]);
    let had = [0, 1].map(|at| after[at].ran - before[at].ran);
    assert!((Nanos::ms(110)..=Nanos::ms(112)).contains(&had[0]), "{had:?}");
    assert!(had[1] >= Nanos::ms(396), "{had:?}");
    // The first client has its timer again.
    let _ = scene.dispatcher.dismiss(second);
    scene.host.world_mut().kill(others[0]);
    scene.pass(Nanos::ms(1_200));
    let before = scene.turns;
    scene.pass(Nanos::s(1));
    assert!((100..=102).contains(&(scene.turns - before)), "{} turns", scene.turns - before);
}

#[test]
fn a_sleep_in_one_period_excuses_no_miss_in_the_next() {
    let mut scene = Scene::new(RaiseBy::Inheritance, 1);
    let (entity, tids) = admit(&mut scene, &[("scripted", Workload::Scripted)]);
    for _ in 0..120 {
        scene.host.world_mut().want(tids[0], Wake::Timer);
        scene.pass(Nanos::ms(2));
        scene.host.world_mut().block(tids[0]);
        scene.pass(PERIOD - Nanos::ms(2));
    }
    // The thread sleeps in a period, and then uses up its slice.
    pass_to_end_of_period(&mut scene, entity);
    scene.pass(Nanos::ms(2));
    scene.host.world_mut().want(tids[0], Wake::Timer);
    scene.pass(Nanos::ms(1));
    scene.ring();
    let mut events = Vec::new();
    scene.dispatcher.read_journal(&mut events);
    events.clear();
    pass_to_end_of_period(&mut scene, entity);
    // In the next period, a thread above the agent leaves 2 ms to the client.
    let above = scene.start(&[HOG])[0];
    scene.host.world_mut().reschedule(above, Attributes::of(Policy::Fifo { priority: 99 }));
    scene.pass(Nanos::ms(8));
    scene.host.world_mut().kill(above);
    scene.pass(Nanos::ms(4));
    scene.dispatcher.read_journal(&mut events);
    let periods = events.iter().filter_map(|(_, event)| match event {
        Event::Period { due, delivered, throughout, .. } => Some((*throughout, *delivered >= *due)),
        _ => None,
    });
    assert_eq!(periods.collect::<Vec<_>>(), [(false, true), (true, false)]);
}
