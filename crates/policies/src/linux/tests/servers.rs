//! Tests of the fair server of Linux 6.12.

use super::*;

const SERVED: [(&str, i64); 2] = [("fair-server", 1), ("hrtick", 1)];

fn served<'a>(cpus: usize) -> Driver<'a> {
    host_with(cpus, &SERVED, Costs::NONE)
}

/// Returns the spans in which `e` runs on CPU 0, each with its start and end, in milliseconds.
fn spans(host: &mut Driver<'_>, e: EntityId, until: u64) -> Vec<(u64, u64)> {
    let mut spans: Vec<(u64, u64)> = Vec::new();
    for ms in 0..until {
        host.run_until(at(ms) + Nanos::us(500));
        if running(host, CPU) == Some(e) {
            match spans.last_mut() {
                Some((_, to)) if *to == ms => *to = ms + 1,
                _ => spans.push((ms, ms + 1)),
            }
        }
    }
    spans
}

/// The server is deferred to the last possible instant, 950 ms, and runs the task until its deadline at 1000 ms. From
/// then on, the server runs the task for 50 ms at the start of every period.
#[test]
fn a_starving_fair_task_has_50_ms_of_every_second() {
    let mut host = served(1);
    let fair = hog(&mut host, nice(0));
    let urgent = hog(&mut host, fifo(99));
    assert_eq!(spans(&mut host, fair, 4_500), [(950, 1_050), (2_000, 2_050), (3_000, 3_050), (4_000, 4_050)]);
    assert!(!host.machine().is_held(urgent), "no task is throttled");
}

#[test]
fn without_fair_tasks_a_real_time_hog_has_the_cpu() {
    let mut host = served(1);
    let urgent = hog(&mut host, fifo(1));
    host.run_until(at(5_000));
    assert_eq!(used(&mut host, urgent), Nanos::s(5));
}

/// CPU time that fair tasks receive without the server counts towards its budget. The tasks receive 50 ms early enough
/// that the server preempts no task.
#[test]
fn a_task_that_does_not_starve_needs_no_server() {
    let mut host = served(1);
    let fair = hog(&mut host, nice(0));
    let urgent = periodic(&mut host, fifo(1), Nanos::ms(100), Nanos::ms(90));
    let ran = spans(&mut host, fair, 5_000);
    assert!(ran.iter().all(|&(from, to)| (from % 100, to - from) == (90, 10)), "{ran:?}");
    assert_eq!(used(&mut host, urgent), Nanos::ms(4_500));
}

/// Once a fair task has run without the server after its budget was used up, the server is deferred again.
#[test]
fn the_end_of_starvation_defers_the_server_again() {
    let mut host = served(1);
    let fair = hog(&mut host, nice(0));
    let urgent = hog(&mut host, fifo(1));
    host.run_until(at(2_500));
    host.pause(urgent);
    // At 2500 ms the server has no budget and is throttled until 3000 ms. The fair task then runs without the server
    // until 2620 ms. When the task is preempted, its CPU time is charged, and a new period of the server begins.
    host.run_until(at(2_620));
    host.resume(urgent);
    let before = used(&mut host, fair);
    // The deadline of the new period is 3620 ms. The server must start its 50 ms by 3570 ms.
    host.run_until(at(3_570));
    assert_eq!(used(&mut host, fair), before);
    host.run_until(at(3_600));
    assert_eq!(used(&mut host, fair) - before, Nanos::ms(30));
}

#[test]
fn the_server_can_be_tuned_and_ends_at_ticks_without_hrtick() {
    let tuned = [
        ("fair-server", 1),
        ("fair-server-runtime", 10_500_000),
        ("fair-server-period", 100_000_000),
        ("hrtick", 0),
        ("tick", 1_000_000),
    ];
    let mut host = host_with(1, &tuned, Costs::NONE);
    let fair = hog(&mut host, nice(0));
    hog(&mut host, fifo(1));
    host.run_until(at(10_000));
    // Each time slice of the server ends at the first tick after its budget is used up. The overrun is subtracted from
    // the next budget.
    assert_near(used(&mut host, fair), Nanos::ms(1_050), Nanos::ms(12));
}

/// A deadline task whose deadline is earlier than the server's runs before the fair task. A deadline task with a later
/// deadline waits until the server has used up its budget.
#[test]
fn the_server_competes_by_its_deadline() {
    for (period, first) in [(500, false), (3_000, true)] {
        let mut host = served(1);
        let fair = hog(&mut host, nice(0));
        hog(&mut host, fifo(1));
        host.run_until(at(940));
        // From 940 ms on, a deadline task has a slice of 100 ms, due at 1440 ms or 3940 ms. The deadline of the server
        // is 1000 ms.
        let e = hog(&mut host, reserved(100, period));
        host.run_until(at(951));
        assert_eq!(running(&host, CPU), Some(fair), "1000 is before both");
        // At 1000 ms, the deadline of the server becomes 2000 ms.
        host.run_until(at(1_001));
        assert_eq!(running(&host, CPU) == Some(fair), first);
        host.run_until(at(1_440));
        assert_eq!((used(&mut host, e), used(&mut host, fair)), (Nanos::ms(100), Nanos::ms(100)));
    }
}

#[test]
fn servers_are_part_of_what_is_admitted() {
    let mut host = served(2);
    let refused = host.attach("a", reserved(91, 100), Workload::Hog);
    assert!(refused.is_ok(), "of two CPUs 1.8 are left");
    let refused = host.attach("b", reserved(90, 100), Workload::Hog).expect_err("0.91 + 0.90 are more than 1.8");
    assert_eq!(refused.nearest_slice(), Some(Nanos::ms(89)));
}

#[test]
fn every_cpu_has_a_server_for_the_tasks_that_may_run_there() {
    let mut host = served(2);
    for cpu in [CPU, OTHER] {
        hog(&mut host, pinned(fifo(1), cpu));
    }
    let here = hog(&mut host, pinned(nice(0), CPU));
    host.run_until(at(10_000));
    assert_eq!(used(&mut host, here), Nanos::ms(500));
    let anywhere = hog(&mut host, nice(0));
    host.run_until(at(20_000));
    assert!(used(&mut host, anywhere) >= Nanos::ms(450), "{}", used(&mut host, anywhere));
}

/// At most 10 ms after the only task has blocked, the host records its last event.
#[test]
fn an_idle_host_is_quiet() {
    let mut events = trace::Trace::new(trace::Header { policy: "linux".to_string(), cpus: 2, seed: 0 });
    let mut host = served(2);
    host.watch(&mut events);
    let e = scripted(&mut host, nice(0));
    wake(&mut host, e);
    host.run_until(at(2_500));
    host.block(CPU);
    host.run_until(at(100_000));
    drop(host);
    assert!(events.events.last().expect("something happened").0 <= at(2_510));
}
