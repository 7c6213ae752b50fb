//! Tests of admission control and of the guarantee for admitted servers.

use super::{asking, awake, host, run_through};
use crate::fixture::Dice;
use crate::{rt_xen, rtds};
use sched::{CpuId, CpuSet, Descriptor, Instant, Limit, Nanos, Params, Refused, Reservation, State, Wake};
use sim::auditor::Promises;
use sim::{Auditor, Workload};

const CLOSED: (&str, &str) = ("admission", "1");

#[test]
fn rtds_lets_in_as_much_as_there_are_cpus() {
    let mut open = host(&rtds::POLICY, 1, &[]);
    for _ in 0..3 {
        open.attach("e", asking(8, 10, Limit::Hard), Workload::Hog).expect("nothing is refused");
    }
    let mut closed = host(&rtds::POLICY, 2, &[CLOSED]);
    for _ in 0..2 {
        closed.attach("e", asking(8, 10, Limit::Hard), Workload::Hog).expect("1.6 of 2");
    }
    let refused = closed.attach("e", asking(5, 10, Limit::Hard), Workload::Hog).expect_err("2.1 of 2");
    assert_eq!(refused.nearest_slice(), Some(Nanos::ms(4)), "{refused}");
    closed.attach("e", Params::default(), Workload::Hog).expect("the default is 0.4, and 2 of 2");
    assert!(closed.attach("e", Params::default(), Workload::Hog).is_err());
}

/// With fixed priorities, 0.18 fits, because 1.3 · 1.3 · 1.18 is below two. In contrast, 0.19 does not fit, because
/// 1.3 · 1.3 · 1.19 is above two. With EDF, 0.4 is free.
#[test]
fn fixed_priorities_have_room_for_less_than_deadlines() {
    for (order, fits, does_not) in [("deadline-monotonic", 18, 19), ("edf", 40, 41)] {
        let mut host = host(&rt_xen::POLICY, 1, &[CLOSED, ("order", order)]);
        for period in [10, 20] {
            host.attach("e", asking(period * 3 / 10, period, Limit::Hard), Workload::Hog).expect("0.3 fit");
        }
        let refused = host.attach("e", asking(does_not, 100, Limit::Hard), Workload::Hog).expect_err(order);
        let nearest = refused.nearest_slice().expect("something would fit");
        assert!(nearest >= Nanos::ms(fits) && nearest < Nanos::ms(does_not), "{refused}");
        assert!(matches!(refused, Refused::Utilisation { on: Some(cpu), .. } if cpu == CpuId::new(0)));
        let e = host.attach("e", asking(fits, 100, Limit::Hard), Workload::Hog).expect(order);
        host.adjust(e, asking(does_not, 100, Limit::Hard)).expect_err("a change is judged as well");
        host.adjust(e, asking(fits - 1, 100, Limit::Hard)).expect("and leaves the books as they were");
        host.adjust(e, asking(fits, 100, Limit::Hard)).expect("so that it can go back");
    }
}

/// If the deadline is half of the period, the budget counts twice. The refusal proposes the largest budget that fits.
#[test]
fn an_early_deadline_needs_more_room() {
    let mut host = host(&rt_xen::POLICY, 1, &[CLOSED, ("order", "edf")]);
    host.attach("e", asking(6, 10, Limit::Hard), Workload::Hog).expect("it is alone");
    let early = |slice| {
        let mut params = asking(slice, 20, Limit::Hard);
        params.reservation = params.reservation.map(|asked| Reservation { deadline: Some(Nanos::ms(10)), ..asked });
        params
    };
    let refused = host.attach("e", early(5), Workload::Hog).expect_err("0.6 and 0.5");
    assert_eq!(refused.nearest_slice(), Some(Nanos::ms(4)), "{refused}");
    host.attach("e", early(4), Workload::Hog).expect("0.6 and 0.4");
}

/// CPU 0 has one server of 0.62, and CPU 1 has three servers of 0.2. The sum on CPU 1 is lower, but with another server
/// of 0.2 the product, 1.2⁴, would be above two.
#[test]
fn a_reservation_that_does_not_fit_on_the_emptiest_cpu_may_fit_on_another() {
    let mut host = host(&rt_xen::POLICY, 2, &[CLOSED]);
    for (slice, cpu) in [(62, 0), (20, 1), (20, 1), (20, 1)] {
        let affinity = CpuSet::one(CpuId::new(cpu));
        host.attach("e", Params { affinity, ..asking(slice, 100, Limit::Hard) }, Workload::Hog).expect("it fits");
    }
    let e = awake(&mut host, asking(2, 10, Limit::Hard));
    run_through(&mut host, 100);
    assert_eq!(host.machine().state(e), State::Running(CpuId::new(0)));
    let refused = host.attach("e", asking(20, 100, Limit::Hard), Workload::Hog).expect_err("there is room for 0.157");
    let nearest = refused.nearest_slice().expect("something would fit");
    assert!(nearest > Nanos::us(15_700) && nearest < Nanos::us(15_750), "{refused}");
}

/// Random servers of runnable entities fill a CPU, and every budget is delivered.
#[test]
fn what_was_let_in_is_kept() {
    let orders: [(&Descriptor, &str); 3] =
        [(&rtds::POLICY, ""), (&rt_xen::POLICY, "edf"), (&rt_xen::POLICY, "deadline-monotonic")];
    let mut dice = Dice(1);
    for (policy, order) in orders {
        for server in ["deferrable", "periodic", "polling"] {
            let mut knobs = vec![CLOSED];
            if !order.is_empty() {
                let ties = ["stay", "turn"][dice.index(2)];
                knobs.extend([("order", order), ("server", server), ("ties", ties)]);
            }
            let mut judged = 0;
            for _ in 0..40 {
                let mut auditor = Auditor::new(
                    sched::Topology::new(1),
                    Promises { reservations: Some(Nanos::ZERO), ..Promises::NONE },
                );
                let mut host = host(policy, 1, &knobs);
                host.watch(&mut auditor);
                let mut all = Vec::new();
                let mut asked = asking(1, 10, Limit::Hard);
                for _ in 0..12 {
                    let period = Nanos::us(2_000 + 500 * dice.below(30));
                    let slice = period.scale(1 + dice.below(50), 100);
                    let limit = [Limit::Hard, Limit::Soft][dice.index(2)];
                    asked.reservation = Some(Reservation { limit, ..Reservation::new(slice, period) });
                    let answer = host.attach("e", asked, Workload::Scripted);
                    if let Err(refused) = &answer
                        && let Some(slice) = refused.nearest_slice().filter(|&slice| slice >= Nanos::us(10))
                    {
                        asked.reservation = Some(Reservation { limit, ..Reservation::new(slice, period) });
                        all.push(host.attach("e", asked, Workload::Scripted).expect("the nearest fits"));
                    }
                    all.extend(answer);
                }
                all.iter().for_each(|&e| host.wake(e, Wake::Timer));
                host.finish(Instant::ZERO + Nanos::ms(200));
                drop(host);
                assert!(auditor.verdict().is_clean(), "{} {knobs:?}: {}", policy.name, auditor.verdict());
                judged += all.iter().filter_map(|&e| auditor.periods(e)).map(|counts| counts.judged).sum::<u64>();
            }
            assert!(judged > 1_000, "{judged} periods say little");
        }
    }
}
