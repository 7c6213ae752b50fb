//! Tests of servers of every kind, in both orders, partitioned or global (xen/common/sched/rt.c; RT-Xen 1 and 2).

mod admission;

use crate::fixture::{awake, host_with, is_running as runs, knobs_from_text, reserving, run_through_us as run_through};
use crate::{rt_xen, rtds};
use sched::{
    CpuId, CpuSet, Descriptor, EntityId, GroupId, Instant, Limit, Nanos, Params, Refused, Reservation, State, Wake,
};
use sim::{Driver, Workload};

fn host<'a>(policy: &Descriptor, cpus: usize, knobs: &[(&str, &str)]) -> Driver<'a> {
    host_with(policy, sched::Topology::new(cpus), &knobs_from_text(policy, knobs))
}

fn asking(slice: u64, period: u64, limit: Limit) -> Params {
    reserving(Nanos::ms(slice), Nanos::ms(period), limit)
}

/// Returns the entities of `all` that run in the middle of each millisecond from `from` to `to`. Each letter stands for
/// an entity, and `.` for none.
fn schedule(host: &mut Driver<'_>, all: &[EntityId], from: u64, to: u64) -> String {
    let mut text = String::new();
    for ms in from..to {
        run_through(host, ms * 1_000 + 500);
        let running = all.iter().position(|&e| runs(host, e));
        text.push(running.map_or('.', |at| char::from(b'a' + u8::try_from(at).expect("few"))));
    }
    text
}

/// The first entity (`u` in the essay) has no extratime; the second entity, `e`, has extratime. Both have a budget of 4
/// ms in every 10 ms from 0 on. From 4 to 8 ms, `e` uses its own budget. From 8 ms on, `e` is at level 1.
#[test]
fn the_worked_example_of_rtds() {
    let mut host = host(&rtds::POLICY, 1, &[]);
    let all = [awake(&mut host, asking(4, 10, Limit::Hard)), awake(&mut host, asking(4, 10, Limit::Soft))];
    assert_eq!(schedule(&mut host, &all, 0, 20), "aaaabbbbbbaaaabbbbbb");
    let e = all[1];
    let level = |host: &Driver<'_>| host.machine().inspect(e, "level");
    assert_eq!(level(&host), Some(1), "it is on its second budget");
    run_through(&mut host, 20_001);
    assert_eq!(level(&host), Some(0), "replenished");
    run_through(&mut host, 27_999);
    assert_eq!(level(&host), Some(0), "its own budget lasts to 28");
    assert_eq!(host.machine().inspect(e, "deadline"), Some(Nanos::ms(30).as_ns().cast_signed()));
}

/// At the end of the period, the CPU stops the vCPU before the alarm of the period fires. The vCPU receives its next
/// budget at this stop, not at an alarm a nanosecond later.
#[test]
fn a_budget_that_ends_with_its_period_is_replenished_at_once() {
    for (policy, knobs) in [(&rtds::POLICY, &[][..]), (&rt_xen::POLICY, &[("quantum", "0")])] {
        let mut host = host(policy, 1, knobs);
        let e = awake(&mut host, asking(10, 10, Limit::Hard));
        run_through(&mut host, 50_000);
        assert!(runs(&host, e), "{}: the fifth period begins at 50 ms", policy.name);
        let left = host.machine().inspect(e, "budget");
        assert_eq!(left, Some(Nanos::ms(10).as_ns().cast_signed()), "{}", policy.name);
    }
}

#[test]
fn without_extratime_a_soft_limit_is_hard() {
    let mut host = host(&rtds::POLICY, 1, &[("extratime", "0")]);
    let all = [awake(&mut host, asking(4, 10, Limit::Soft))];
    assert_eq!(schedule(&mut host, &all, 0, 20), "aaaa......aaaa......");
}

#[test]
fn an_entity_without_a_reservation_has_4_ms_in_10() {
    let mut host = host(&rtds::POLICY, 1, &[("extratime", "0")]);
    let all = [awake(&mut host, Params::default())];
    assert_eq!(schedule(&mut host, &all, 0, 20), "aaaa......aaaa......");
    let mut tuned = self::host(
        &rtds::POLICY,
        1,
        &[("extratime", "0"), ("default-period", "5000000"), ("default-budget", "2000000")],
    );
    let all = [awake(&mut tuned, Params::default())];
    assert_eq!(schedule(&mut tuned, &all, 0, 10), "aa...aa...");
}

/// Two CPUs and deadlines at 10, 15 and 20 ms: the entities with the two earliest deadlines run.
#[test]
fn rtds_runs_the_earliest_deadlines_of_the_whole_machine() {
    let mut host = host(&rtds::POLICY, 2, &[]);
    let late = awake(&mut host, asking(8, 20, Limit::Hard));
    let middle = awake(&mut host, asking(6, 15, Limit::Hard));
    run_through(&mut host, 100);
    assert!(runs(&host, late) && runs(&host, middle));
    let early = awake(&mut host, asking(2, 10, Limit::Hard));
    run_through(&mut host, 200);
    assert!(runs(&host, early) && runs(&host, middle) && !runs(&host, late), "the latest deadline gives way");
    run_through(&mut host, 2_300);
    assert!(runs(&host, late), "its budget is used up");
}

/// A wake-up after the end of a period starts the period of the grid that contains the instant of the wake-up.
#[test]
fn periods_stay_on_their_grid() {
    let mut host = host(&rtds::POLICY, 1, &[("extratime", "0")]);
    let e = awake(&mut host, asking(4, 10, Limit::Hard));
    run_through(&mut host, 1_000);
    host.block(CpuId::new(0));
    run_through(&mut host, 27_000);
    host.wake(e, Wake::Timer);
    assert_eq!(schedule(&mut host, &[e], 27, 40), "aaaaaaa......");
    assert_eq!(host.machine().inspect(e, "deadline"), Some(Nanos::ms(40).as_ns().cast_signed()));
}

/// The example of the essay of `rt-xen`: a budget of 4 ms in every 10 ms on an otherwise idle CPU. The entity blocks at
/// 1 ms and wakes at 6 ms.
#[test]
fn the_kinds_of_servers_differ() {
    let expected = [
        ("deferrable", "a.....aaa.aaaa......"),
        ("periodic", "a.........aaaa......"),
        ("polling", "a.........aaaa......"),
        ("sporadic", "a.....aaa.a.....aaa."),
    ];
    for (server, wanted) in expected {
        let mut host = host(&rt_xen::POLICY, 1, &[("server", server)]);
        let e = awake(&mut host, asking(4, 10, Limit::Hard));
        let mut got = schedule(&mut host, &[e], 0, 1);
        run_through(&mut host, 1_000);
        host.block(CpuId::new(0));
        got += &schedule(&mut host, &[e], 1, 6);
        run_through(&mut host, 6_000);
        host.wake(e, Wake::Timer);
        got += &schedule(&mut host, &[e], 6, 20);
        assert_eq!(got, wanted, "{server}");
    }
}

/// A block costs a polling server its whole budget, and a periodic server only the time for which its entity is
/// blocked.
#[test]
fn a_short_rest_costs_a_periodic_server_its_length_and_a_polling_one_everything() {
    let expected = [("deferrable", "aaaa....."), ("periodic", "aaa......"), ("polling", "a........")];
    for (server, wanted) in expected {
        let mut host = host(&rt_xen::POLICY, 1, &[("server", server)]);
        let e = awake(&mut host, asking(4, 10, Limit::Hard));
        run_through(&mut host, 1_000);
        host.block(CpuId::new(0));
        run_through(&mut host, 2_000);
        host.wake(e, Wake::Timer);
        let got = schedule(&mut host, &[e], 2, 10);
        assert_eq!(format!("a{got}"), wanted, "{server}");
    }
}

#[test]
fn fixed_priorities_go_by_period_and_deadlines_by_the_clock() {
    // At 10 ms, the entity with the longer period is due at 14 ms. The entity with the shorter period is due at 20 ms.
    for (order, wanted) in [("deadline-monotonic", "aaaabbbbbbaaaabb"), ("edf", "aaaabbbbbbbaaaab")] {
        let mut host = host(&rt_xen::POLICY, 1, &[("order", order)]);
        let all = [awake(&mut host, asking(4, 10, Limit::Hard)), awake(&mut host, asking(7, 14, Limit::Hard))];
        assert_eq!(schedule(&mut host, &all, 0, 16), wanted, "{order}");
    }
}

/// In RT-Xen, a deadline before the end of the period determines the order. RTDS refuses such a deadline.
#[test]
fn a_constrained_deadline_is_for_rt_xen_alone() {
    let mut tight = asking(2, 20, Limit::Hard);
    tight.reservation = tight.reservation.map(|asked| Reservation { deadline: Some(Nanos::ms(3)), ..asked });
    let mut host = self::host(&rt_xen::POLICY, 1, &[]);
    let all = [awake(&mut host, asking(4, 10, Limit::Hard)), awake(&mut host, tight)];
    assert_eq!(schedule(&mut host, &all, 0, 8), "bbaaaa..");
    let mut host = self::host(&rtds::POLICY, 1, &[]);
    assert!(matches!(host.attach("e", tight, Workload::Hog), Err(Refused::Unsupported { .. })));
}

#[test]
fn what_is_too_short_is_refused() {
    let mut host = host(&rtds::POLICY, 1, &[]);
    let mut short = asking(1, 10, Limit::Soft);
    short.reservation = short.reservation.map(|asked| Reservation { slice: Nanos::us(9), ..asked });
    let refused = host.attach("e", short, Workload::Hog).expect_err("below 10 us");
    assert!(matches!(refused, Refused::OutOfRange { what: "slice", least, .. } if least == Nanos::us(10)), "{refused}");
}

/// Two large reservations and a small reservation on two CPUs: each is assigned to the CPU with the minimum total
/// density.
#[test]
fn partitioned_servers_stay_where_there_was_room() {
    let mut host = host(&rt_xen::POLICY, 2, &[]);
    let all = [
        awake(&mut host, asking(8, 10, Limit::Hard)),
        awake(&mut host, asking(6, 10, Limit::Hard)),
        awake(&mut host, asking(3, 30, Limit::Hard)),
    ];
    for us in (500..60_000).step_by(1_000) {
        run_through(&mut host, us);
        for (e, cpu) in all.iter().zip([0, 1, 1]) {
            let state = host.machine().state(*e);
            assert!(!matches!(state, State::Running(other) if other != CpuId::new(cpu)), "{e} on {state:?}");
        }
    }
    host.adjust(all[2], Params { affinity: CpuSet::one(CpuId::new(0)), ..asking(3, 30, Limit::Hard) })
        .expect("it is allowed");
    run_through(&mut host, 68_500);
    assert!(!runs(&host, all[2]) || host.machine().state(all[2]) == State::Running(CpuId::new(0)));
    assert_eq!(host.machine().params(all[2]).group, GroupId::ROOT);
}

/// Equal entities alternate at the end of a quantum. Without a quantum, or with `ties = stay`, they alternate at the
/// end of the budget.
#[test]
fn a_quantum_cuts_turns_among_equals() {
    for (quantum, ties, wanted) in
        [("1000000", "turn", "ababab"), ("0", "turn", "aaabbb"), ("1000000", "stay", "aaabbb")]
    {
        let mut host = host(&rt_xen::POLICY, 1, &[("quantum", quantum), ("ties", ties)]);
        let all = [awake(&mut host, asking(3, 10, Limit::Hard)), awake(&mut host, asking(3, 10, Limit::Hard))];
        assert_eq!(schedule(&mut host, &all, 0, 6), wanted, "{quantum} {ties}");
    }
}

/// At 2 ms, `c` arrives with the same deadline as `a`. The arrival does not make the CPU pick again, but the change of
/// the affinity of `a` does.
#[test]
fn a_running_entity_yields_to_an_equal_or_stays() {
    for (ties, wanted) in [("turn", "aacc"), ("stay", "aaaa")] {
        let mut host = host(&rtds::POLICY, 1, &[("ties", ties)]);
        let a = awake(&mut host, asking(6, 10, Limit::Hard));
        host.run_until(Instant::ZERO + Nanos::ms(2));
        let c = host.attach("c", asking(2, 8, Limit::Hard), Workload::Scripted).expect("it is accepted");
        host.wake(c, Wake::New { parent: None });
        host.adjust(a, Params { affinity: CpuSet::one(CpuId::new(0)), ..asking(6, 10, Limit::Hard) }).expect("it may");
        let got = schedule(&mut host, &[a, a, c], 2, 4);
        assert_eq!(format!("aa{got}"), wanted, "{ties}");
    }
}

/// With `grid = boot`, an entity that is attached at 7 ms receives a whole budget for the period that ends at 10 ms.
#[test]
fn periods_count_from_the_attachment_or_from_the_start_of_the_machine() {
    for policy in [&rtds::POLICY, &rt_xen::POLICY] {
        for (grid, wanted) in [("seen", "aaaa......aaaa"), ("boot", "aaaaaaa......a")] {
            let mut host = host(policy, 1, &[("grid", grid)]);
            run_through(&mut host, 7_000);
            let all = [awake(&mut host, asking(4, 10, Limit::Hard))];
            assert_eq!(schedule(&mut host, &all, 7, 21), wanted, "{} {grid}", policy.name);
        }
    }
}

#[test]
fn the_versions_of_rt_xen_are_partitioned_by_rate_and_global_by_deadline() {
    let pair = [asking(4, 10, Limit::Hard), asking(7, 14, Limit::Hard)];
    for (knobs, wanted) in [
        (&[("version", "1")][..], "aaaabbbbbbaaaabb"),
        (&[("version", "2")], "aaaabbbbbbbaaaab"),
        (&[("version", "2"), ("order", "deadline-monotonic")], "aaaabbbbbbaaaabb"),
    ] {
        let mut host = host(&rt_xen::POLICY, 1, knobs);
        let all = pair.map(|params| awake(&mut host, params));
        assert_eq!(schedule(&mut host, &all, 0, 16), wanted, "{knobs:?}");
    }
    // If servers are partitioned, the third entity stays on one CPU. Otherwise it also runs on the CPU that the first
    // entity leaves.
    for (knobs, moves) in [
        (&[("version", "1")][..], false),
        (&[("version", "2")], true),
        (&[("version", "1"), ("placement", "global")], true),
        (&[("version", "2"), ("placement", "partitioned")], false),
    ] {
        let mut host = host(&rt_xen::POLICY, 2, knobs);
        let all =
            [(8, 10), (5, 10), (6, 30)].map(|(slice, period)| awake(&mut host, asking(slice, period, Limit::Hard)));
        let mut seen = CpuSet::EMPTY;
        for us in (500..60_000).step_by(1_000) {
            run_through(&mut host, us);
            if us == 14_500 {
                host.block(CpuId::new(0)); // The first entity leaves its CPU.
            }
            if let State::Running(cpu) = host.machine().state(all[2]) {
                seen.insert(cpu);
            }
        }
        assert_eq!(seen.len() > 1, moves, "{knobs:?}: on {seen}");
    }
}

#[test]
fn extratime_and_defaults_are_knobs_of_rt_xen_too() {
    let knobs = [("extratime", "1"), ("default-period", "5000000"), ("default-budget", "2000000")];
    for (knobs, wanted) in [(&knobs[..1], "aaaabbbbbb"), (&knobs[1..], "aa...aa..."), (&[][..], "aaaa......")] {
        let mut host = host(&rt_xen::POLICY, 1, knobs);
        let limits = if wanted.contains('b') { &[Limit::Hard, Limit::Soft][..] } else { &[] };
        let mut all: Vec<EntityId> = limits.iter().map(|&limit| awake(&mut host, asking(4, 10, limit))).collect();
        if all.is_empty() {
            all.push(awake(&mut host, Params::default()));
        }
        assert_eq!(schedule(&mut host, &all, 0, 10), wanted, "{knobs:?}");
    }
}
