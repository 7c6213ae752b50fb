//! Tests of the knob `change`, and of the reservations of entities in no gang under `gang-edf`.

use super::{HOG, at, knobs};
use crate::fixture::{Churn, Dice, host_with, is_running, reserving, used};
use sched::{Action, CpuId, CpuSet, EntityId, Instant, Knobs, Limit, Nanos, Params, Refused, State, Topology, Wake};
use sim::{Driver, Workload};
use trace::{Event, Header, Trace};

/// Returns the knobs of a daemon under `policy`, which promises whole CPUs.
fn live(policy: &sched::Descriptor, change: &str) -> Knobs {
    let words = [("enforce", "hard"), ("late", "carry"), ("rest", "renew"), ("change", change)];
    let mut knobs = crate::fixture::knobs(policy, &words, &[("reserve", 0)]);
    let _ = knobs.set_word("placement", "partitioned"); // The entities of `gang-edf` are always assigned to CPUs.
    knobs
}

fn edf(change: &str, cpus: usize) -> Driver<'static> {
    host_with(&super::POLICY, Topology::new(cpus), &live(&super::POLICY, change))
}

/// Changes a reservation of half a CPU every 5 ms, and returns the CPU times of this entity and of its neighbour in
/// each of a hundred periods of the neighbour.
fn while_changing(change: &str) -> (Nanos, Vec<Nanos>) {
    let mut host = edf(change, 1);
    let changing = host.attach("", reserving(Nanos::ms(5), Nanos::ms(10), Limit::Hard), HOG).unwrap();
    let other = host.attach("", reserving(Nanos::us(4_900), Nanos::ms(10), Limit::Hard), HOG).unwrap();
    let (mut had, mut periods) = (Nanos::ZERO, Vec::new());
    for nth in 1..=200 {
        host.run_until(at(5 * nth));
        // The reservation shrinks and grows, by its slice and by its period.
        let (slice, period) =
            [(Nanos::us(4_999), Nanos::ms(10)), (Nanos::ms(1), Nanos::ms(2)), (Nanos::ms(5), Nanos::ms(10))]
                [usize::try_from(nth).unwrap() % 3];
        host.adjust(changing, reserving(slice, period, Limit::Hard)).expect("it is admitted");
        if nth % 2 == 0 {
            let now = used(&mut host, other);
            periods.push(now - had);
            had = now;
        }
    }
    (used(&mut host, changing), periods)
}

#[test]
fn changes_of_a_reservation_take_nothing_from_the_others() {
    let (share, periods) = while_changing("due");
    assert!(periods.iter().all(|had| *had == Nanos::us(4_900)), "{periods:?}");
    assert!((Nanos::ms(250)..=Nanos::ms(505)).contains(&share), "{share} of a second is half of it at most");
    let (share, periods) = while_changing("now");
    assert!(periods.iter().any(|had| *had < Nanos::ms(4)) && share > Nanos::ms(505), "{share}, {periods:?}");
}

/// The shrinking entity has used its slice of 5 ms in 10 ms in advance. The growing entity may use the freed half of
/// the CPU from 10 ms on.
#[test]
fn time_that_was_used_in_advance_is_free_once_it_is_due() {
    for by_departure in [false, true] {
        let mut host = edf("due", 1);
        let shrinking = host.attach("", reserving(Nanos::ms(5), Nanos::ms(10), Limit::Hard), HOG).unwrap();
        let steady = host.attach("", reserving(Nanos::ms(50), Nanos::ms(100), Limit::Hard), HOG).unwrap();
        host.run_until(at(5));
        if by_departure {
            host.detach(shrinking);
        } else {
            host.adjust(shrinking, reserving(Nanos::ns(1), Nanos::ms(10), Limit::Hard)).expect("it shrinks");
        }
        let growing = host.attach("", reserving(Nanos::us(4_700), Nanos::us(9_500), Limit::Hard), HOG);
        let growing = growing.expect("half of the CPU is free");
        host.run_until(at(10));
        assert_eq!(used(&mut host, growing), Nanos::ZERO, "by departure: {by_departure}");
        host.run_until(at(100));
        assert!(used(&mut host, steady) >= Nanos::ms(50) - Nanos::ns(10), "by departure: {by_departure}");
        assert!(used(&mut host, growing) >= Nanos::us(9 * 4_700), "by departure: {by_departure}");
    }
}

/// An entity that waited for others on its CPU has more left of its slice than its share of the rest of the period. On
/// its new CPU, only the share is free.
#[test]
fn an_entity_that_moves_takes_nothing_from_its_new_neighbours() {
    let mut host = edf("due", 2);
    let on = |cpu, params| crate::fixture::pinned_to(params, CpuId::new(cpu));
    host.attach("", on(0, reserving(Nanos::ms(5), Nanos::ms(10), Limit::Hard)), HOG).expect("CPU 0 is free");
    let moving = reserving(Nanos::ms(50), Nanos::ms(100), Limit::Hard);
    let e = host.attach("", on(0, moving), HOG).expect("half of CPU 0 is free");
    host.run_until(at(15));
    assert_eq!(used(&mut host, e), Nanos::ms(5));
    let steady = reserving(Nanos::us(8_500), Nanos::ms(17), Limit::Hard);
    let steady = host.attach("", on(1, steady), HOG).expect("CPU 1 is free");
    host.run_until(at(15) + Nanos::ns(1));
    host.adjust(e, on(1, moving)).expect("half of CPU 1 is free");
    host.run_until(at(100));
    assert_eq!(used(&mut host, steady), Nanos::us(5 * 8_500));
    host.run_until(at(116));
    assert!(used(&mut host, e) >= Nanos::ms(55), "a full slice since the move");
}

/// Asserts that every CPU can deliver what is owed: for every deadline, the remaining slices that are due by then fit
/// into the time until then.
fn assert_all_can_be_delivered(host: &mut Driver<'_>, entities: &[EntityId], seed: u64) {
    for &e in entities {
        used(host, e);
    }
    let (machine, now) = (host.machine(), host.now());
    let owed: Vec<(CpuSet, Instant, i64)> = entities
        .iter()
        .filter(|&&e| machine.state(e) != State::Blocked && machine.inspect(e, "reserved") == Some(1))
        .filter_map(|&e| machine.promise(e).map(|promise| (machine.allowed(e), promise.deadline, promise.remaining)))
        .filter(|(_, _, remaining)| *remaining > 0)
        .collect();
    for (cpu, deadline, _) in &owed {
        let due = owed.iter().filter(|(other, by, _)| other == cpu && by <= deadline);
        let sum: i64 = due.map(|(_, _, remaining)| remaining).sum();
        let left = deadline.since(now).as_ns().cast_signed();
        assert!(sum <= left, "seed {seed}: at {now}, {sum} ns are due on {cpu:?} by {deadline}: {owed:?}");
    }
}

fn params(dice: &mut Dice, cpus: usize) -> Params {
    let period = Nanos::us(500 + dice.below(20_000));
    let slice = period.scale(1 + dice.below(800), 1_000);
    let start = dice.below(4).eq(&0).then(|| Instant::ZERO + Nanos::us(dice.below(100_000)));
    let affinity = if dice.below(3) == 0 { CpuSet::one(dice.cpu(cpus)) } else { CpuSet::ALL };
    let params = reserving(slice, period, Limit::Hard);
    Params { affinity, reservation: params.reservation.map(|asked| sched::Reservation { start, ..asked }), ..params }
}

/// Requests `wish` by `ask`. If it is refused, requests the largest slice that fits.
fn fill(wish: Params, mut ask: impl FnMut(Params) -> Result<(), Refused>) {
    let Err(refused) = ask(wish) else { return };
    let fits = refused.nearest_slice().filter(|slice| *slice > Nanos::ZERO);
    if let (Some(slice), Some(asked)) = (fits, wish.reservation) {
        let _ = ask(Params { reservation: Some(sched::Reservation { slice, ..asked }), ..wish });
    }
}

/// Entities arrive, leave, change, move, wake and block in random order, on CPUs that are promised to the last percent.
#[test]
fn what_is_owed_never_exceeds_the_capacity() {
    for (policy, seeds) in [(super::POLICY, 1..200), (crate::gang_edf::POLICY, 200..260)] {
        let mut checked = 0;
        for seed in seeds {
            let cpus = 1 + usize::try_from(seed % 2).unwrap();
            let mut churn = Churn::new(host_with(&policy, Topology::new(cpus), &live(&policy, "due")), seed);
            for _ in 0..300 {
                let wish = params(&mut churn.dice, cpus);
                let e = churn.entities.get(churn.dice.index(churn.entities.len().max(1))).copied();
                match (churn.dice.below(8), e) {
                    (0, _) if churn.entities.len() < 8 => fill(wish, |params| {
                        let e = churn.host.attach("", params, Workload::Scripted)?;
                        churn.host.wake(e, Wake::Timer);
                        churn.entities.push(e);
                        Ok(())
                    }),
                    (1..4, Some(e)) => fill(wish, |params| churn.host.adjust(e, params)),
                    (4, Some(e)) => {
                        let moved = Params { affinity: wish.affinity, ..*churn.host.machine().params(e) };
                        let _ = churn.host.adjust(e, moved);
                    }
                    _ => churn.step(wish, Wake::Timer),
                }
                for pause in [Nanos::us(1), Nanos::ms(4)] {
                    let entities = churn.entities.clone();
                    checked += entities.len();
                    assert_all_can_be_delivered(&mut churn.host, &entities, seed);
                    churn.pass(pause);
                }
            }
        }
        assert!(checked > 50_000, "{checked}");
    }
}

/// Returns the actions of random reservations under `policy`.
fn actions(policy: &sched::Descriptor, seed: u64) -> Vec<(Instant, Action)> {
    let mut trace = Trace::new(Header { policy: "edf".into(), cpus: 3, seed });
    let mut host = host_with(policy, Topology::new(3), &live(policy, "due"));
    host.watch(&mut trace);
    let mut churn = Churn::new(host, seed);
    for _ in 0..800 {
        let params = params(&mut churn.dice, 3);
        churn.step(params, Wake::Timer);
        churn.pass(Nanos::ms(2));
    }
    drop(churn);
    let action = |(at, event): &(Instant, Event)| match event {
        Event::Action(action) => Some((*at, *action)),
        _ => None,
    };
    trace.events.iter().filter_map(action).collect()
}

#[test]
fn gang_edf_schedules_entities_in_no_gang_as_edf_does() {
    for seed in 1..40 {
        let (plain, gangs) = (actions(&super::POLICY, seed), actions(&crate::gang_edf::POLICY, seed));
        assert!(plain.len() > 500, "{}", plain.len());
        assert!(plain == gangs, "seed {seed}");
    }
}

/// Until the used part of its slice is due, a changed entity neither runs nor begins a period at a wake-up.
#[test]
fn a_wake_up_does_not_begin_a_postponed_period() {
    let mut host = edf("due", 1);
    let e = host.attach("", reserving(Nanos::ms(4), Nanos::ms(20), Limit::Hard), Workload::Scripted).unwrap();
    host.wake(e, Wake::Timer);
    host.run_until(at(3));
    host.block(CpuId::new(0));
    host.run_until(at(4));
    // 3 ms of 4 ms are due at 15 ms.
    host.adjust(e, reserving(Nanos::ms(8), Nanos::ms(20), Limit::Hard)).expect("it is admitted");
    host.wake(e, Wake::Timer);
    host.run_until(at(15));
    assert_eq!((is_running(&host, e), host.machine().charged(e)), (false, Nanos::ms(3)));
    host.run_until(at(16));
    assert!(is_running(&host, e));
    assert_eq!(host.machine().inspect(e, "deadline"), Some(35_000_000));
}

#[test]
fn changes_that_are_due_later_need_charges_by_cpu_time() {
    let words = [("placement", "partitioned"), ("charge", "wall"), ("change", "due")];
    let refused = (super::POLICY.build)(&Topology::new(1), &knobs(&words, &[])).err().map(|why| why.to_string());
    assert!(refused.is_some_and(|why| why.contains("charge = cpu")));
}
