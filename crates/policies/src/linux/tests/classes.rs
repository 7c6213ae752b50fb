use super::*;

#[test]
fn the_example_of_the_essay() {
    let mut host = host(1);
    let names = [(hog(&mut host, nice(0)), 'f'), (hog(&mut host, nice(0)), 'g')];
    periodic(&mut host, fifo(1), Nanos::ms(10), Nanos::ms(4));
    let mut gantt = String::new();
    for ms in 0..40 {
        host.run_until(at(ms) + Nanos::us(500));
        let now = running(&host, CPU);
        gantt.push(names.iter().find(|&&(e, _)| now == Some(e)).map_or('r', |&(_, name)| name));
    }
    assert!(POLICY.essay().contains(&gantt), "{gantt}");
}

#[test]
fn the_example_of_the_real_time_essay() {
    let mut host = host(1);
    let names = [(hog(&mut host, fifo(10)), 'a'), (scripted(&mut host, fifo(20)), 'b'), (hog(&mut host, nice(0)), 'f')];
    let mut gantt = String::new();
    for ms in (2..1_022).step_by(5) {
        host.run_until(at(ms));
        let now = running(&host, CPU);
        gantt.extend(names.iter().find(|&&(e, _)| now == Some(e)).map(|&(_, name)| name));
        if ms == 17 {
            host.run_until(at(20));
            wake(&mut host, names[1].0);
        } else if ms == 57 {
            host.run_until(at(60));
            host.block(CPU);
        }
    }
    let [first, last] = [&gantt[..20], &gantt[190..]];
    let essay = include_str!("../../rt/mod.rs");
    assert!(essay.contains(&format!("//! {first}  ")) && essay.contains(&format!("  {last}\n")), "{first} {last}");
}

#[test]
fn no_knob_is_named_twice() {
    for (n, knob) in POLICY.knobs.iter().enumerate() {
        assert!(POLICY.knobs[..n].iter().all(|other| other.name != knob.name), "{}", knob.name);
    }
}

#[test]
fn a_fifo_hog_leaves_50_ms_of_each_second_to_fair_tasks() {
    let mut host = host(1);
    let fair = [0, 5].map(|level| hog(&mut host, nice(level)));
    let urgent = hog(&mut host, fifo(1));
    host.run_until(at(950));
    let got: Nanos = fair.iter().map(|&e| used(&mut host, e)).sum();
    assert_eq!(got, Nanos::ZERO);
    host.run_until(at(1_000));
    assert!(host.machine().is_held(urgent));
    host.run_until(at(20_000));
    let [a, b] = fair.map(|e| used(&mut host, e));
    assert_eq!((used(&mut host, urgent), a + b), (Nanos::ms(20 * 950 + 1), Nanos::ms(20 * 50 - 1)));
    assert_near(a, Nanos::s(1).scale(1024, 1024 + 335), Nanos::ms(20));
}

#[test]
fn without_throttling_fair_tasks_starve() {
    let mut host = host_with(1, &[("rt-throttling", 0)], Costs::NONE);
    let fair = hog(&mut host, nice(-20));
    hog(&mut host, round_robin(1));
    host.run_until(at(10_000));
    assert_eq!(used(&mut host, fair), Nanos::ZERO);
}

#[test]
fn fifo_over_round_robin_over_fair() {
    let mut host = host_with(1, &[("rt-throttling", 0)], Costs::NONE);
    let fair = hog(&mut host, nice(0));
    let turns = [(), ()].map(|()| hog(&mut host, round_robin(10)));
    let first = periodic(&mut host, fifo(20), Nanos::ms(100), Nanos::ms(30));
    host.run_until(at(2_000));
    assert_eq!(used(&mut host, first), Nanos::ms(600));
    for e in turns {
        assert_near(used(&mut host, e), Nanos::ms(700), Nanos::ms(100));
    }
    assert_eq!(used(&mut host, fair), Nanos::ZERO);
}

#[test]
fn what_real_time_tasks_leave_is_shared_by_weight() {
    let mut host = host(1);
    let [a, b] = [0, 5].map(|level| hog(&mut host, nice(level)));
    let urgent = periodic(&mut host, fifo(50), Nanos::ms(10), Nanos::ms(4));
    host.run_until(at(10_000));
    assert_eq!(used(&mut host, urgent), Nanos::s(4));
    assert_near(used(&mut host, a), Nanos::s(6).scale(1024, 1359), Nanos::ms(30));
    assert_near(used(&mut host, b), Nanos::s(6).scale(335, 1359), Nanos::ms(30));
}

#[test]
fn a_real_time_wake_up_preempts_a_fair_task_at_once() {
    let mut host = host(2);
    let fair = hog(&mut host, Params::default());
    run_through(&mut host, 3);
    let State::Running(cpu) = host.machine().state(fair) else { panic!("it runs") };
    let urgent = scripted(&mut host, pinned(fifo(1), cpu));
    host.run_until(at(5));
    wake(&mut host, urgent);
    run_through(&mut host, 5);
    assert_eq!(running(&host, cpu), Some(urgent));
    // The other CPU idles. The tick of `cpu` kicks the idle CPU.
    host.run_until(at(10));
    assert!(matches!(host.machine().state(fair), State::Running(other) if other != cpu));
}

#[test]
fn a_fair_wake_up_that_a_real_time_one_overtakes_is_found_by_an_idle_cpu() {
    let mut host = host(2);
    let fair = scripted(&mut host, pinned(nice(0), OTHER));
    host.adjust(fair, nice(0)).expect("accepted");
    let urgent = scripted(&mut host, pinned(fifo(1), OTHER));
    host.run_until(at(5));
    // Both tasks are enqueued on CPU 1, which idles, before CPU 1 picks.
    wake(&mut host, fair);
    wake(&mut host, urgent);
    host.run_until(at(10));
    assert_eq!([CPU, OTHER].map(|cpu| running(&host, cpu)), [Some(fair), Some(urgent)]);
}

#[test]
fn a_running_task_continues_at_once_as_a_real_time_task() {
    let mut host = host(1);
    let [e, other] = [(), ()].map(|()| hog(&mut host, nice(0)));
    host.run_until(at(100));
    let runs = running(&host, CPU).expect("one of them");
    let waits = if runs == e { other } else { e };
    host.adjust(runs, fifo(10)).expect("accepted");
    let before = used(&mut host, waits);
    host.run_until(at(500));
    assert_eq!((running(&host, CPU), used(&mut host, waits)), (Some(runs), before));
    // The task becomes fair again.
    host.adjust(runs, nice(0)).expect("accepted");
    let (before, mine) = (used(&mut host, waits), used(&mut host, runs));
    host.run_until(at(1_500));
    assert_near(used(&mut host, waits) - before, Nanos::ms(500), Nanos::ms(20));
    assert_near(used(&mut host, runs) - mine, Nanos::ms(500), Nanos::ms(20));
}

#[test]
fn a_task_that_waits_preempts_when_it_becomes_real_time_and_yields_when_it_ceases_to_be() {
    let mut host = host(1);
    let all = [(), (), ()].map(|()| hog(&mut host, nice(0)));
    host.run_until(at(100));
    let waits = all.into_iter().find(|&e| running(&host, CPU) != Some(e)).expect("two wait");
    host.adjust(waits, round_robin(10)).expect("accepted");
    run_through(&mut host, 100);
    assert_eq!(running(&host, CPU), Some(waits));
    let above = hog(&mut host, fifo(20));
    run_through(&mut host, 200);
    assert_eq!((running(&host, CPU), host.machine().state(waits)), (Some(above), State::Waiting));
    host.adjust(waits, nice(0)).expect("accepted");
    host.pause(above);
    let before = all.map(|e| used(&mut host, e));
    host.run_until(at(3_200));
    for (e, before) in all.into_iter().zip(before) {
        assert_near(used(&mut host, e) - before, Nanos::s(1), Nanos::ms(20));
    }
}

#[test]
fn a_task_that_sleeps_wakes_in_its_new_class() {
    let mut host = host(1);
    let fair = hog(&mut host, nice(0));
    let e = scripted(&mut host, nice(0));
    host.adjust(e, fifo(10)).expect("accepted");
    host.run_until(at(50));
    wake(&mut host, e);
    run_through(&mut host, 60);
    assert_eq!((running(&host, CPU), host.machine().inspect(e, "rt-priority")), (Some(e), Some(10)));
    host.block(CPU);
    host.adjust(e, nice(0)).expect("accepted");
    wake(&mut host, e);
    host.run_until(at(1_060));
    assert_eq!((host.machine().inspect(e, "rt-priority"), host.machine().inspect(e, "weight")), (None, Some(1024)));
    assert_near(used(&mut host, fair), Nanos::ms(50 + 500), Nanos::ms(20));
}

#[test]
fn a_change_there_and_back_at_one_instant_changes_nothing() {
    let mut host = host(1);
    let e = hog(&mut host, nice(0));
    host.run_until(at(10));
    for params in [fifo(10), nice(0), round_robin(3), nice(0), fifo(7)] {
        host.adjust(e, params).expect("accepted");
    }
    run_through(&mut host, 10);
    assert_eq!((running(&host, CPU), host.machine().inspect(e, "rt-priority")), (Some(e), Some(7)));
    // While the entity is a fair task that has not been put back yet, it can change its weight and be detached.
    host.adjust(e, nice(0)).expect("accepted");
    host.adjust(e, nice(3)).expect("accepted");
    run_through(&mut host, 20);
    assert_eq!(host.machine().inspect(e, "weight"), Some(526));
    host.adjust(e, fifo(7)).expect("accepted");
    host.adjust(e, nice(0)).expect("accepted");
    host.detach(e);
    run_through(&mut host, 30);
    assert_eq!(running(&host, CPU), None);
}

fn group(host: &mut Driver<'_>, quota: Option<(u64, u64)>) -> GroupId {
    let quota = quota.map(|(quota, period)| Quota::new(Nanos::ms(quota), Nanos::ms(period)).expect("in range"));
    let params = GroupParams { quota, ..GroupParams::default() };
    host.create_group("group", params, GroupId::ROOT).expect("accepted")
}

#[test]
fn a_throttled_fair_task_is_free_as_a_real_time_one() {
    let mut host = host_with(1, &[("rt-throttling", 0)], Costs::NONE);
    let limited = group(&mut host, Some((10, 100)));
    let member = |params: Params| Params { group: limited, ..params };
    let e = hog(&mut host, member(nice(0)));
    host.run_until(at(50));
    assert!(host.machine().is_held(e));
    host.adjust(e, member(fifo(1))).expect("accepted");
    host.run_until(at(1_050));
    assert_eq!(used(&mut host, e), Nanos::ms(10 + 1_000));
    // The entity becomes a fair task and is held again, because its group has used up its quota.
    host.adjust(e, member(nice(0))).expect("accepted");
    host.run_until(at(11_050));
    assert_near(used(&mut host, e), Nanos::ms(1_010 + 1_000), Nanos::ms(20));
}

#[test]
fn real_time_members_do_not_weigh_in_their_group() {
    let mut host = host(1);
    let mixed = group(&mut host, None);
    let member = |params: Params| Params { group: mixed, ..params };
    let inside = hog(&mut host, member(nice(0)));
    let outside = hog(&mut host, nice(0));
    let urgent = periodic(&mut host, member(fifo(1)), Nanos::ms(10), Nanos::ms(5));
    host.run_until(at(10_000));
    assert_eq!(used(&mut host, urgent), Nanos::s(5));
    for e in [inside, outside] {
        assert_near(used(&mut host, e), Nanos::ms(2_500), Nanos::ms(30));
    }
}

#[test]
fn a_throttled_real_time_task_runs_as_a_fair_one() {
    let mut host = host(1);
    let e = hog(&mut host, fifo(10));
    host.run_until(at(960));
    assert_eq!((running(&host, CPU), host.machine().is_held(e)), (None, true));
    host.adjust(e, nice(0)).expect("accepted");
    run_through(&mut host, 960);
    assert_eq!((running(&host, CPU), host.machine().is_held(e)), (Some(e), false));
}

#[test]
fn yield_to_works_within_the_fair_class_only() {
    let mut host = host(2);
    let [a, b] = [(), ()].map(|()| hog(&mut host, pinned(nice(0), CPU)));
    let urgent = hog(&mut host, pinned(fifo(1), OTHER));
    // Near the end of a time slice, fairness permits the buddy to run.
    host.run_until(at(104));
    let runs = running(&host, CPU).expect("one of them");
    let to = if runs == a { b } else { a };
    host.yield_to(CPU, to);
    run_through(&mut host, 104);
    assert_eq!(running(&host, CPU), Some(to));
    host.yield_to(CPU, urgent);
    host.yield_to(OTHER, to);
    run_through(&mut host, 104);
    assert_eq!((running(&host, CPU), running(&host, OTHER)), (Some(to), Some(urgent)));
}

const FAIR: [(&str, i64); 2] = [("fair", 0), ("fair", 1)];

#[test]
fn a_task_raised_for_a_moment_keeps_its_lead() {
    for fair in FAIR {
        let mut host = host_with(1, &[fair], Costs::NONE);
        let [a, b] = [0, 0].map(|level| hog(&mut host, nice(level)));
        for ms in 1..2_000 {
            host.run_until(at(ms));
            host.adjust(a, fifo(1)).expect("accepted");
            host.adjust(a, nice(0)).expect("accepted");
        }
        host.run_until(at(2_000));
        for e in [a, b] {
            assert_near(used(&mut host, e), Nanos::s(1), Nanos::ms(30));
        }
    }
}

/// Returns the CPU time that a hog receives in two seconds beside another hog. The hog is a real-time task for 2 ms of
/// every 10 ms.
fn raised(knobs: &[(&str, i64)]) -> Nanos {
    let mut host = host_with(1, knobs, Costs::NONE);
    let [a, _] = [0, 0].map(|level| hog(&mut host, nice(level)));
    for turn in 0..200 {
        for (ms, params) in [(3, fifo(1)), (5, nice(0))] {
            host.run_until(at(10 * turn + ms));
            host.adjust(a, params).expect("accepted");
        }
    }
    host.run_until(at(2_000));
    used(&mut host, a)
}

#[test]
fn what_is_run_above_the_fair_class_is_free_or_paid_for_in_it() {
    for fair in FAIR {
        assert_near(raised(&[fair]), Nanos::ms(400 + 800), Nanos::ms(60));
        assert_near(raised(&[fair, ("boosts-pay", 1)]), Nanos::s(1), Nanos::ms(30));
    }
}

#[test]
fn groups_pay_for_what_their_members_run_above_the_fair_class() {
    for fair in FAIR {
        let mut host = host_with(1, &[fair, ("boosts-pay", 1)], Costs::NONE);
        let inner = group(&mut host, None);
        let member = |params: Params| Params { group: inner, ..params };
        let [inside, sibling] = [(), ()].map(|()| hog(&mut host, member(nice(0))));
        let outside = hog(&mut host, nice(0));
        for turn in 0..400 {
            for (ms, params) in [(3, fifo(1)), (4, nice(0))] {
                host.run_until(at(10 * turn + ms));
                host.adjust(inside, member(params)).expect("accepted");
            }
        }
        host.run_until(at(4_000));
        assert_near(used(&mut host, outside), Nanos::s(2), Nanos::ms(60));
        for e in [inside, sibling] {
            assert_near(used(&mut host, e), Nanos::s(1), Nanos::ms(60));
        }
    }
}
