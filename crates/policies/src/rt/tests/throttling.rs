//! Tests of throttling: real-time entities run for at most 0.95 s of each second.

use super::*;
use crate::fixture;

#[test]
fn a_hog_gets_95_percent_of_a_cpu() {
    let mut host = host_with(1, &[]);
    let e = hog(&mut host, fifo(10));
    // The tick at 951 ms is the first tick that finds more than 950 ms used. The excess counts in the next second.
    host.run_until(at(951));
    assert_eq!(running(&host, CPU), Some(e));
    run_through(&mut host, 951);
    assert_eq!((running(&host, CPU), host.machine().is_held(e)), (None, true));
    for second in 1..20 {
        host.run_until(at(1_000 * second));
        assert_eq!(running(&host, CPU), None);
        host.run_until(at(1_000 * second + 950));
        assert_eq!(running(&host, CPU), Some(e));
        run_through(&mut host, 1_000 * second + 950);
        assert_eq!(running(&host, CPU), None);
    }
    assert_eq!(used(&mut host, e), Nanos::ms(951 + 19 * 950));
}

#[test]
fn throttling_can_be_tuned_and_switched_off() {
    for (knobs, percent) in [
        (&[("rt-throttling", 0)][..], 100),
        (&[("rt-runtime", 1_000_000_000)][..], 100),
        (&[("rt-runtime", 20_000_000), ("rt-period", 100_000_000)][..], 20),
    ] {
        let mut host = host_with(1, knobs);
        let e = hog(&mut host, fifo(10));
        host.run_until(at(10_000));
        let due = Nanos::s(10).scale(percent, 100);
        let got = used(&mut host, e);
        assert!(got >= due && got <= due + Nanos::ms(1), "{knobs:?}: {got} of {due}");
    }
}

#[test]
fn cpus_do_not_borrow_and_held_entities_do_not_migrate() {
    let mut host = host_with(2, &[]);
    let hogs = [(), ()].map(|()| hog(&mut host, fifo(10)));
    let pinned_here = hog(&mut host, pinned(fifo(5), CPU));
    host.run_until(at(970));
    host.pause(hogs[1]);
    host.run_until(at(980));
    // After the pause, CPU 1 has no hog, but CPU 1 is still throttled.
    assert_eq!([CPU, OTHER].map(|cpu| running(&host, cpu)), [None, None]);
    assert!([hogs[0], pinned_here].iter().all(|&e| host.machine().is_held(e)));
    run_through(&mut host, 1_000);
    assert_eq!([CPU, OTHER].map(|cpu| running(&host, cpu)), [Some(hogs[0]), None]);
    assert!(!host.machine().is_held(pinned_here));
}

#[test]
fn an_entity_that_wakes_on_a_throttled_cpu_is_held_until_the_period_ends() {
    let mut host = host_with(1, &[]);
    hog(&mut host, fifo(10));
    let late = scripted(&mut host, fifo(90));
    host.run_until(at(960));
    wake(&mut host, late);
    host.run_until(at(970));
    assert_eq!((running(&host, CPU), host.machine().is_held(late)), (None, true));
    run_through(&mut host, 1_000);
    assert_eq!(running(&host, CPU), Some(late));
    // A paused entity is no longer held.
    host.run_until(at(1_960));
    host.pause(late);
    run_through(&mut host, 1_960);
    assert!(!host.machine().is_held(late));
}

#[test]
fn unused_runtime_is_not_saved() {
    let mut host = host_with(1, &[]);
    let e = scripted(&mut host, fifo(10));
    wake(&mut host, e);
    host.run_until(at(100));
    host.block(CPU);
    host.run_until(at(1_500));
    wake(&mut host, e);
    // The entity runs for 500 ms of the second period, then until the tick at 951 ms of the third period.
    run_through(&mut host, 2_950);
    assert_eq!(running(&host, CPU), Some(e));
    run_through(&mut host, 2_951);
    assert_eq!((running(&host, CPU), used(&mut host, e)), (None, Nanos::ms(100 + 500 + 951)));
}

#[test]
fn a_late_end_of_period_counts_for_all_that_have_passed() {
    use sched::{Alarm, AlarmOwner, Input};
    let mut machine = fixture::machine(&POLICY, 1, &POLICY.defaults());
    let e = machine.attach(Instant::ZERO, fifo(10)).expect("accepted");
    machine.input(Instant::ZERO, Input::Wake { entity: e, why: Wake::Timer });
    machine.settle(Instant::ZERO);
    // The driver sleeps for 3.2 s, and the entity uses 3.2 s. The late timer ends three periods and subtracts 3 · 0.95
    // s.
    machine.input(at(3_200), Input::Alarm { alarm: Alarm { owner: AlarmOwner::Cpu(CPU), slot: 0 } });
    machine.settle(at(3_200));
    assert!(machine.is_held(e));
    machine.input(at(3_200), Input::Alarm { alarm: Alarm { owner: AlarmOwner::Policy, slot: 0 } });
    machine.settle(at(3_200));
    assert_eq!((machine.is_held(e), machine.running(CPU)), (false, Some(e)));
}

#[test]
fn an_idle_host_is_quiet() {
    let mut events = trace::Trace::new(trace::Header { policy: POLICY.name.to_string(), cpus: 1, seed: 0 });
    let mut host = host_with(1, &[]);
    host.watch(&mut events);
    let e = scripted(&mut host, round_robin(10));
    wake(&mut host, e);
    host.run_until(at(10));
    host.block(CPU);
    host.run_until(at(100_000));
    drop(host);
    assert_eq!(events.events.last().expect("something happened").0, at(1_000), "the end of the period");
}

/// The hog's CPU borrows 50 ms of the other CPU's 950 ms when the hog has run for 950 ms. The hog is therefore not
/// throttled.
#[test]
fn with_sharing_a_cpu_borrows_unused_runtime_of_others() {
    let mut host = host_with(2, &[("rt-runtime-share", 1)]);
    let e = hog(&mut host, pinned(fifo(10), CPU));
    let below = hog(&mut host, pinned(Params::default(), CPU));
    host.run_until(at(5_000));
    assert_eq!([e, below].map(|e| used(&mut host, e)), [Nanos::s(5), Nanos::ZERO]);
    // When the lender runs out of runtime, it borrows the unused runtime of the other CPU back. Both CPUs then have 950
    // ms per second.
    let lender = hog(&mut host, pinned(fifo(10), OTHER));
    host.run_until(at(15_000));
    for (e, due) in [(lender, 9_500), (e, 14_500), (below, 500)] {
        let got = used(&mut host, e);
        assert!(got + Nanos::ms(60) >= Nanos::ms(due) && got <= Nanos::ms(due + 60), "{got} of {due} ms");
    }
}

/// Of three CPUs, each of the two idle CPUs lends a third of its unused runtime of 10 ms.
#[test]
fn a_borrower_gets_a_part_of_the_unused_runtime() {
    let mut host = host_with(3, &[("rt-runtime-share", 1), ("rt-runtime", 10_000_000), ("rt-period", 100_000_000)]);
    let e = hog(&mut host, pinned(fifo(10), CPU));
    // The runtime is 10 + 3.33 + 3.33 ms. The hog then borrows a third of each remaining 6.67 ms, and so on, until a
    // loan is shorter than a tick.
    host.run_until(at(99));
    let got = used(&mut host, e);
    assert!(got > Nanos::ms(16) && got < Nanos::ms(30), "{got}");
    let mut alone = host_with(1, &[("rt-runtime-share", 1), ("rt-runtime", 10_000_000), ("rt-period", 100_000_000)]);
    let e = hog(&mut alone, fifo(10));
    alone.run_until(at(99));
    assert_eq!(used(&mut alone, e), Nanos::ms(11), "no other CPU lends runtime");
}
