//! Sleeping threads are parked.

use super::scene::Scene;
use daemon::dispatch::RaiseBy;
use sched::Nanos;
use sim::{Periodic, Workload};

const PERIOD: Nanos = Nanos::ms(10);
const SLICE: Nanos = Nanos::ms(4);
/// Maximum time from the end of a slice to the turn that lowers the threads, with the overrun of a woken thread.
const OVERRUN: Nanos = Nanos::us(60);

const HOG: (&str, Workload) = ("hog", Workload::Hog);
/// A thread that never wakes.
const ASLEEP: (&str, Workload) = ("asleep", Workload::Scripted);

/// A thread that runs for a millisecond every 300 ms, and is parked in between.
fn seldom() -> (&'static str, Workload) {
    let phase = Nanos::ms(7);
    ("seldom", Workload::Periodic(Periodic { phase, ..Periodic::new(Nanos::ms(303), Nanos::ms(1)) }))
}

/// Returns the number of kernel calls in half a second, with a client that has these threads.
fn calls(threads: &[(&str, Workload)]) -> u64 {
    let mut scene = Scene::new(RaiseBy::Inheritance, 1);
    scene.promise(SLICE, PERIOD, threads);
    scene.pass(Nanos::s(1));
    let before = scene.daemon.acts();
    scene.pass(Nanos::ms(500));
    scene.daemon.acts() - before
}

#[test]
fn sleeping_threads_prolong_no_turn() {
    let crowd: Vec<_> = [HOG].into_iter().chain(std::iter::repeat_n(ASLEEP, 60)).collect();
    let (alone, among) = (calls(&[HOG]), calls(&crowd));
    assert!(among <= alone + alone / 20, "{among} calls, and {alone} without the sleeping threads");
}

#[test]
fn a_thread_that_was_active_is_parked_once_it_sleeps() {
    let once = Workload::Periodic(Periodic::new(Nanos::s(60), Nanos::ms(1)));
    let crowd: Vec<_> = [HOG].into_iter().chain(std::iter::repeat_n(("once", once), 60)).collect();
    let (alone, among) = (calls(&[HOG]), calls(&crowd));
    assert!(among <= alone + alone / 20, "{among} calls, and {alone} without the sleeping threads");
}

#[test]
fn ended_threads_and_those_of_a_dismissed_client_are_kept_for_the_keeper() {
    let mut scene = Scene::new(RaiseBy::Inheritance, 1);
    let (entity, tids) = scene.promise(SLICE, PERIOD, &[HOG, HOG, ASLEEP, ASLEEP]);
    scene.pass(Nanos::ms(100));
    assert_eq!(scene.take_former(), "[]");
    for ended in [tids[1], tids[2]] {
        scene.host.world_mut().exit(ended);
        scene.pass(PERIOD);
        assert_eq!(scene.take_former(), format!("[{ended}]"));
    }
    scene.pass(PERIOD);
    assert_eq!(scene.take_former(), "[]");
    scene.dispatcher.dismiss(entity);
    assert_eq!(scene.take_former(), format!("[{}, {}]", tids[0], tids[3]));
}

#[test]
fn a_parked_thread_runs_when_it_wakes_and_its_client_is_charged() {
    let mut scene = Scene::new(RaiseBy::Inheritance, 1);
    let (_, tids) = scene.promise(SLICE, PERIOD, &[HOG, seldom()]);
    tids.iter().for_each(|&tid| scene.host.world_mut().mark(tid, 1));
    scene.pass(Nanos::ms(600));
    let (before, raised) = (scene.usage(&tids)[1], scene.host.world().had_by(1).1);
    scene.pass(Nanos::ms(3_030));
    let (after, raised) = (scene.usage(&tids)[1], scene.host.world().had_by(1).1 - raised);
    assert_eq!(after.ran - before.ran, Nanos::ms(10), "it runs ten times");
    // At worst, the slice has just ended.
    let most = (PERIOD - SLICE + OVERRUN).saturating_mul(10);
    assert!(after.waited - before.waited <= most, "it waits for {}", after.waited - before.waited);
    let most = (SLICE + OVERRUN).saturating_mul(304);
    assert!(raised <= most, "{raised} at real-time priority");
}
