//! An agent knows the turn after the next, for which it arms a timer in advance.

use super::scene::Scene;
use daemon::dispatch::{PromiseRequest, RaiseBy};
use sched::{Nanos, Reservation};
use sim::{Periodic, Workload};

const PERIOD: Nanos = Nanos::ms(10);
const SLEEPER: Workload = Workload::Periodic(Periodic::new(Nanos::us(900), Nanos::us(200)));

/// Makes `count` promises of `slice`, each to a process with `workload`. Returns the part of the turns of one second that
/// were foreseen, in percent.
fn foreseen(count: u64, slice: Nanos, workload: Workload) -> u64 {
    let mut scene = Scene::new(RaiseBy::Inheritance, 1);
    for nth in 0..count {
        let request = PromiseRequest::new(format!("client {nth}"), Reservation::new(slice, PERIOD));
        scene.admit(&request, &[("client", workload)]).0.expect("there is room");
        // The periods of the clients begin at different times.
        scene.pass(PERIOD.scale(1, count) + Nanos::us(30));
    }
    scene.pass(Nanos::s(2));
    let (foreseen, turns) = (scene.foreseen, scene.turns);
    scene.pass(Nanos::s(1));
    (scene.foreseen - foreseen) * 100 / (scene.turns - turns)
}

#[test]
fn the_turns_of_a_busy_client_are_foreseen() {
    for slice in [Nanos::ms(8), Nanos::us(50)] {
        let percent = foreseen(1, slice, Workload::Hog);
        assert!(percent >= 98, "{percent} % with a slice of {slice}");
    }
}

#[test]
fn the_turns_of_a_client_that_sleeps_are_foreseen() {
    let percent = foreseen(1, Nanos::ms(4), SLEEPER);
    assert!(percent >= 98, "{percent} %");
}

#[test]
fn the_turns_of_many_clients_are_foreseen() {
    let percent = foreseen(20, Nanos::us(250), Workload::Hog);
    assert!(percent >= 90, "{percent} %");
}
