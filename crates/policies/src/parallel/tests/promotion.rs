//! Tests of short time slices and of the highest priority: Poris §4.2, §4.3 and §4.6.

use super::*;

#[test]
fn turns_are_short_while_a_vm_is_marked() {
    // Four vCPUs on one CPU with a latency of 15 ms: Poris §4.3.
    let mut host = host(&rs::POLICY, 1, &[]);
    let marked = group(&mut host, true, GroupId::ROOT);
    let hogs = [(); 3].map(|()| hog(&mut host, Params::default()));
    run_through(&mut host, 0);
    assert_eq!(turn(&host, CPU), 30_000, "no VM is marked");
    let e = vm(&mut host, marked, 1)[0];
    host.block(CPU);
    run_through(&mut host, 0);
    assert_eq!(turn(&host, CPU), 5_000);
    host.detach(hogs[2]);
    host.block(CPU);
    run_through(&mut host, 0);
    wake(&mut host, e);
    run_through(&mut host, 0);
    assert_eq!((running(&host, CPU), turn(&host, CPU)), (Some(e), 7_500), "three are left");
    for n in [0, 1] {
        host.detach(hogs[n]);
    }
    host.block(CPU);
    wake(&mut host, e);
    run_through(&mut host, 0);
    assert_eq!(turn(&host, CPU), 30_000, "one vCPU for the CPU: no other waits");
}

#[test]
fn turns_follow_the_latency_down_to_the_least() {
    for (latency, least, expected) in [(20, ms(1), 10_000), (15, ms(1), 7_500), (1, ms(1), 1_000), (1, 100_000, 500)] {
        let mut host = host(&poris::POLICY, 2, &[("latency", ms(latency)), ("least-turn", least)]);
        let marked = group(&mut host, true, GroupId::ROOT);
        vm(&mut host, marked, 1);
        // Five vCPUs on two CPUs are three vCPUs per CPU, rounded up.
        let hogs = [(); 4].map(|()| hog(&mut host, Params::default()));
        run_through(&mut host, 31_000);
        host.yield_now(CPU);
        run_through(&mut host, 31_000);
        assert!(hogs.contains(&running(&host, CPU).expect("a hog")));
        assert_eq!(turn(&host, CPU), expected, "latency {latency} ms");
    }
}

#[test]
fn a_marked_group_around_a_vm_marks_it_and_the_mark_can_go() {
    let mut host = host(&rs::POLICY, 1, &[]);
    let above = group(&mut host, true, GroupId::ROOT);
    let below = group(&mut host, false, above);
    let e = vm(&mut host, below, 1)[0];
    assert_eq!(shows(&host, e, "gang"), 1);
    host.adjust_group(above, GroupParams::default()).expect("accepted");
    assert_eq!(shows(&host, e, "gang"), 0);
    host.adjust_group(below, GroupParams { gang: true, ..GroupParams::default() }).expect("accepted");
    assert_eq!(shows(&host, e, "gang"), 1);
    host.adjust(e, Params::default()).expect("accepted");
    assert_eq!(shows(&host, e, "gang"), 0);
}

/// Advances time until the condition holds, by at most a second.
fn run_until(host: &mut Driver<'_>, is_so: impl Fn(&Driver<'_>) -> bool) {
    for _ in 0..2_000 {
        if is_so(host) {
            return;
        }
        let next = host.now().as_ns() / 1_000 + 500;
        run_through(host, next);
    }
    panic!("it never is");
}

/// Returns a host and an entity that waits UNDER beside a running hog. The entity woke and ran until its time slice
/// ended.
fn waiting_under<'a>(policy: &'static Descriptor, gang: bool) -> (Driver<'a>, EntityId) {
    let mut host = host(policy, 1, &[]);
    let marked = group(&mut host, gang, GroupId::ROOT);
    let e = hog(&mut host, Params { group: marked, ..Params::default() });
    let _hogs = [(); 2].map(|()| hog(&mut host, Params::default()));
    run_through(&mut host, 31_000);
    run_until(&mut host, |host| priority(host, e) == UNDER && running(host, CPU) != Some(e));
    (host, e)
}

#[test]
fn an_event_boosts_a_marked_vcpu_that_waits_under() {
    for (policy, gang, lifts) in [
        (&rs::POLICY, true, true),
        (&poris::POLICY, true, true),
        (&poris_s::POLICY, true, true),
        (&rs::POLICY, false, false),
        (&ps::POLICY, true, false),
        (&hybrid::POLICY, true, false),
    ] {
        let (mut host, e) = waiting_under(policy, gang);
        host.notice(e, Notice::Interrupt);
        let now = host.now().as_ns() / 1_000;
        run_through(&mut host, now);
        assert_eq!(running(&host, CPU) == Some(e), lifts, "{}", policy.name);
        assert_eq!(priority(&host, e), if lifts { REAL_TIME } else { UNDER });
        // Under `poris` and `poris-s`, the vCPU may be picked again. The pick calls the gang, which boosts the vCPU
        // again.
        if policy.name == "rs" && lifts {
            host.yield_now(CPU);
            run_through(&mut host, now);
            assert_eq!(priority(&host, e), UNDER, "a vCPU that stops is UNDER");
        }
    }
}

#[test]
fn an_event_does_not_boost_an_over_or_running_vcpu() {
    let mut host = host(&rs::POLICY, 1, &[]);
    let marked = group(&mut host, true, GroupId::ROOT);
    let e = hog(&mut host, Params { group: marked, ..Params::default() });
    run_through(&mut host, 5_500);
    host.yield_now(CPU);
    run_through(&mut host, 20_500);
    host.notice(e, Notice::Interrupt);
    assert_eq!(priority(&host, e), UNDER, "it has its CPU");
    let _hogs = [(); 3].map(|()| hog(&mut host, Params::default()));
    run_until(&mut host, |host| priority(host, e) < UNDER && running(host, CPU) != Some(e));
    let before = priority(&host, e);
    host.notice(e, Notice::Interrupt);
    assert_eq!(priority(&host, e), before);
}

#[test]
fn a_boosted_vcpu_queues_behind_earlier_ones() {
    let mut host = host(&rs::POLICY, 1, &[]);
    let marked = group(&mut host, true, GroupId::ROOT);
    let all = [(); 4].map(|()| hog(&mut host, Params { group: marked, ..Params::default() }));
    run_through(&mut host, 31_000);
    let now = running(&host, CPU).expect("a vCPU runs");
    let mut waiting: Vec<EntityId> = all.into_iter().filter(|&e| e != now && priority(&host, e) == UNDER).collect();
    assert!(waiting.len() >= 2);
    // The events arrive in the reverse order of the queue.
    waiting.reverse();
    waiting.iter().for_each(|&e| host.notice(e, Notice::Interrupt));
    for &e in &waiting {
        let us = host.now().as_ns() / 1_000;
        run_through(&mut host, us);
        assert_eq!(running(&host, CPU), Some(e));
        host.yield_now(CPU);
    }
}

#[test]
fn the_effect_of_a_wake_up_is_a_knob() {
    for (word, expected) in [(0, REAL_TIME), (1, BOOST)] {
        let mut host = host(&rs::POLICY, 1, &[("woken", word)]);
        let marked = group(&mut host, true, GroupId::ROOT);
        let e = hog(&mut host, Params { group: marked, ..Params::default() });
        assert_eq!(priority(&host, e), expected);
        let other = hog(&mut host, Params::default());
        assert_eq!(priority(&host, other), BOOST, "not marked");
    }
}

#[test]
fn whether_the_accounting_takes_the_priority_away_is_a_knob() {
    for (word, expected) in [(0, REAL_TIME), (1, UNDER)] {
        let mut host = host(&rs::POLICY, 1, &[("accounting-lowers", word)]);
        let marked = group(&mut host, true, GroupId::ROOT);
        let [runs, waits] = [(); 2].map(|()| hog(&mut host, Params { group: marked, ..Params::default() }));
        // Each vCPU becomes active at a tick while it runs.
        run_through(&mut host, 12_000);
        host.yield_now(CPU);
        run_through(&mut host, 25_000);
        for e in [waits, runs] {
            host.block(CPU);
            run_through(&mut host, 25_000);
            wake(&mut host, e);
        }
        run_through(&mut host, 29_000);
        let both = |host: &Driver<'_>| [runs, waits].map(|e| priority(host, e));
        assert_eq!(both(&host), [REAL_TIME; 2], "one runs, one is queued");
        run_through(&mut host, 30_500);
        let now = both(&host);
        assert!(now.iter().all(|&now| now == expected || now < UNDER && expected == UNDER), "{now:?}");
    }
}
