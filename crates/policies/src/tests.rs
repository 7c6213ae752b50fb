//! Tests of the promise states that policies report for a reservation.

use crate::ALL;
use crate::fixture::{self, host_with, reserving};
use sched::{CpuId, Descriptor, EntityId, Instant, Knobs, Limit, Nanos, PromiseState, Topology, Wake};
use sim::{Driver, Workload};

const CPU: CpuId = CpuId::new(0);

const ASKED: (Nanos, Nanos) = (Nanos::ms(2), Nanos::ms(10));

/// Returns a host of one CPU and an entity that reserves 2 ms in every 10 ms and wakes at once. Returns `None` if the
/// reservation is refused.
fn host_with_one<'a>(policy: &'static Descriptor, knobs: &Knobs, limit: Limit) -> Option<(Driver<'a>, EntityId)> {
    let mut host = host_with(policy, Topology::new(1), knobs);
    let e = host.attach("e", reserving(ASKED.0, ASKED.1, limit), Workload::Scripted).ok()?;
    host.wake(e, Wake::New { parent: None });
    Some((host, e))
}

/// Returns the instant at which the entity blocks, its CPU time until then, and its promise states at the dispatch and
/// at the block. Returns `None` if the reservation is refused.
fn answers(policy: &'static Descriptor, knobs: &Knobs) -> Option<(Instant, Nanos, [Option<PromiseState>; 2])> {
    let (mut host, e) = host_with_one(policy, knobs, Limit::Hard)?;
    while host.machine().running(CPU) != Some(e) {
        assert!(host.now() < Instant::ZERO + ASKED.1 + ASKED.1, "{}: it runs within two periods", policy.name);
        host.run_until(host.now() + Nanos::us(10));
    }
    let (begun, end) = (host.machine().promise(e), host.now() + Nanos::ms(1));
    host.run_until(end);
    host.block(CPU);
    host.run_until(end + Nanos::ns(1));
    Some((end, host.machine().charged(e), [begun, host.machine().promise(e)]))
}

#[test]
fn every_policy_with_reservations_answers_slice_period_deadline_and_remaining() {
    let cases: [(&str, &[(&str, &str)]); 9] = [
        ("deadline", &[]),
        ("edf", &[]),
        ("edf", &[("placement", "partitioned")]),
        ("edf", &[("placement", "partitioned"), ("charge", "wall")]),
        ("gang-edf", &[]),
        ("linux", &[]),
        ("rt-xen", &[]),
        ("rtds", &[]),
        ("sedf", &[]),
    ];
    let mut answering: Vec<&str> = cases.iter().map(|(name, _)| *name).collect();
    answering.dedup();
    for (name, words) in cases {
        let policy = crate::find(name).expect("it is registered");
        let (end, used, [begun, ran]) =
            answers(policy, &fixture::knobs(policy, words, &[])).expect("2 ms in 10 ms are granted");
        for state in [begun, ran] {
            let state = state.unwrap_or_else(|| panic!("{name} {words:?} answers nothing"));
            assert_eq!((state.slice, state.period), ASKED, "{name} {words:?}");
        }
        let state = ran.expect("it answers");
        assert!(end < state.deadline && state.deadline <= end + ASKED.1, "{name} {words:?}: {state:?}");
        assert!(Nanos::ms(1) <= used && used < ASKED.0, "{name} {words:?}: {used}");
        assert_eq!(state.remaining, (ASKED.0 - used).as_ns().cast_signed(), "{name} {words:?}");
    }
    for policy in ALL.iter().filter(|policy| !answering.contains(&policy.name)) {
        let answered = answers(policy, &policy.defaults());
        assert!(answered.is_none_or(|states| states.2 == [None; 2]), "{} promises nothing: {answered:?}", policy.name);
    }
}

/// A soft entity that continues to run after its slice also has nothing remaining.
#[test]
fn a_used_up_slice_has_nothing_remaining() {
    let cases = [
        ("edf", Limit::Soft),
        ("edf", Limit::Hard),
        ("rtds", Limit::Soft),
        ("rtds", Limit::Hard),
        ("linux", Limit::Hard),
    ];
    for (name, limit) in cases {
        let policy = crate::find(name).expect("it is registered");
        let (mut host, e) = host_with_one(policy, &policy.defaults(), limit).expect("it is granted");
        host.run_until(Instant::ZERO + Nanos::ms(5));
        let remaining = host.machine().promise(e).expect("it answers").remaining;
        assert!(remaining <= 0, "{name}, {limit:?}: {remaining} ns are left");
    }
}
