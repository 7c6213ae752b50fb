//! Servers of every kind, by either order, bound to CPUs or not: policies.md 8.2 and 10.6.

use crate::{rt_xen, rtds};
use sched::{
    CpuId, CpuSet, Descriptor, EntityId, GroupId, Instant, Limit, Nanos, Params, Refused, Reservation, State, Wake,
};
use sim::{Costs, Host, Workload};

fn host<'a>(policy: &Descriptor, cpus: usize, knobs: &[(&str, &str)]) -> Host<'a> {
    let mut values = policy.defaults();
    for &(name, word) in knobs {
        match word.parse() {
            Ok(number) => values.set(name, number).expect("it is in range"),
            Err(_) => values.set_word(name, word).expect("it is one of its words"),
        }
    }
    Host::new(policy, sched::Host::new(cpus), &values, Costs::NONE).expect("it works everywhere")
}

fn asking(slice: u64, period: u64, limit: Limit) -> Params {
    let reservation = Reservation { limit, ..Reservation::new(Nanos::ms(slice), Nanos::ms(period)) };
    Params { reservation: Some(reservation), ..Params::default() }
}

fn awake(host: &mut Host<'_>, params: Params) -> EntityId {
    let e = host.attach("e", params, Workload::Scripted).expect("it is accepted");
    host.wake(e, Wake::New { parent: None });
    e
}

/// Lets everything up to `us` happen, and what is at `us`, too.
fn run_through(host: &mut Host<'_>, us: u64) {
    host.run_until(Instant::at_ns(Nanos::us(us).as_ns()) + Nanos::ns(1));
}

fn runs(host: &Host<'_>, e: EntityId) -> bool {
    matches!(host.machine().state(e), State::Running(_))
}

/// Who of `all` runs, sampled in the middle of every millisecond from `from` to `to`: a letter each, `.` for nobody.
fn schedule(host: &mut Host<'_>, all: &[EntityId], from: u64, to: u64) -> String {
    let mut text = String::new();
    for ms in from..to {
        run_through(host, ms * 1_000 + 500);
        let who = all.iter().position(|&e| runs(host, e));
        text.push(who.map_or('.', |at| char::from(b'a' + u8::try_from(at).expect("few"))));
    }
    text
}

/// policies.md 8.2: u without extratime, e with it; (10, 4) each, from 0.
#[test]
fn the_worked_example_of_rtds() {
    let mut host = host(&rtds::POLICY, 1, &[]);
    let all = [awake(&mut host, asking(4, 10, Limit::Hard)), awake(&mut host, asking(4, 10, Limit::Soft))];
    assert_eq!(schedule(&mut host, &all, 0, 20), "aaaabbbbbbaaaabbbbbb");
    let e = all[1];
    assert_eq!(host.machine().inspect(e, "level"), Some(1), "it is on its second budget");
    run_through(&mut host, 20_001);
    assert_eq!(host.machine().inspect(e, "level"), Some(0), "replenished");
    assert_eq!(host.machine().inspect(e, "deadline"), Some(Nanos::ms(30).as_ns().cast_signed()));
}

#[test]
fn without_extratime_a_soft_limit_is_hard() {
    let mut host = host(&rtds::POLICY, 1, &[("extratime", "0")]);
    let all = [awake(&mut host, asking(4, 10, Limit::Soft))];
    assert_eq!(schedule(&mut host, &all, 0, 20), "aaaa......aaaa......");
}

#[test]
fn who_asks_for_nothing_has_four_in_ten() {
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

/// Deadlines at 10, 15 and 20 on two CPUs: the two earliest run, wherever there is room.
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

/// A wake-up after the period's end begins the period of the grid that it falls in.
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

/// The example of rt-xen's essay: (10, 4) on an idle CPU, blocked at 1, awake from 6 on.
#[test]
fn the_kinds_of_servers_are_told_apart() {
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

/// Polling loses its budget at once, periodic only what its rest would have used.
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
    // At 10, the longer period's deadline (14) is the earlier one of the two (20).
    for (order, wanted) in [("deadline-monotonic", "aaaabbbbbbaaaabb"), ("edf", "aaaabbbbbbbaaaab")] {
        let mut host = host(&rt_xen::POLICY, 1, &[("order", order)]);
        let all = [awake(&mut host, asking(4, 10, Limit::Hard)), awake(&mut host, asking(7, 14, Limit::Hard))];
        assert_eq!(schedule(&mut host, &all, 0, 16), wanted, "{order}");
    }
}

/// A deadline before the end of the period orders by itself; RTDS has no such thing.
#[test]
fn a_constrained_deadline_is_for_rt_xen_alone() {
    let mut tight = asking(2, 20, Limit::Hard);
    tight.reservation = tight.reservation.map(|asked| Reservation { deadline: Some(Nanos::ms(3)), ..asked });
    let mut host = self::host(&rt_xen::POLICY, 1, &[]);
    let all = [awake(&mut host, asking(4, 10, Limit::Hard)), awake(&mut host, tight)];
    assert_eq!(schedule(&mut host, &all, 0, 8), "bbaaaa..");
    let mut host = self::host(&rtds::POLICY, 1, &[]);
    assert!(matches!(host.attach("e", tight, Workload::Hog), Err(Refused::Unsupported(_))));
}

#[test]
fn what_is_too_short_is_refused() {
    let mut host = host(&rtds::POLICY, 1, &[]);
    let mut short = asking(1, 10, Limit::Soft);
    short.reservation = short.reservation.map(|asked| Reservation { slice: Nanos::us(9), ..asked });
    let refused = host.attach("e", short, Workload::Hog).expect_err("below 10 us");
    assert!(matches!(refused, Refused::OutOfRange { what: "slice", least, .. } if least == Nanos::us(10)), "{refused}");
}

/// Two that ask for most of a CPU and a small one on two CPUs: each is bound where the least is asked for.
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

/// With a quantum, who is no more urgent waits for its end; without, for the end of the budget. Neither loses anything.
#[test]
fn a_quantum_cuts_turns_among_equals() {
    for (quantum, wanted) in [("1000000", "ababab"), ("0", "aaabbb")] {
        let mut host = host(&rt_xen::POLICY, 1, &[("quantum", quantum)]);
        let all = [awake(&mut host, asking(3, 10, Limit::Hard)), awake(&mut host, asking(3, 10, Limit::Hard))];
        assert_eq!(schedule(&mut host, &all, 0, 6), wanted);
    }
}
