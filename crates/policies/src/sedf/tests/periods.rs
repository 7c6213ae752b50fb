//! Tests of slices and periods, and of reservations and their changes.

use super::*;
use crate::sedf::vcpu::{Request, Vcpu};
use sched::Refused;

fn ms(ms: u64) -> Instant {
    Instant::at_ns(Nanos::ms(ms).as_ns())
}

#[test]
fn vcpus_with_extra_time_idle_up_to_a_quantum_before_a_period() {
    for (quantum_us, idles_from) in [(500, 3_000), (200, 3_200), (1_000, 3_000)] {
        let mut host = host(1, &[("extra-quantum", quantum_us * 1_000)]);
        let e = hog(&mut host, soft(3_200, 10_000));
        let mut expected = vec![(Some(e), 0, idles_from), (None, idles_from, 3_200), (Some(e), 3_200, 6_000)];
        expected.retain(|&(_, from, to)| from < to);
        if idles_from == 3_200 {
            expected = vec![(Some(e), 0, 6_000)];
        }
        assert_eq!(stretches(&mut host, 6_000), expected, "a quantum of {quantum_us} us");
    }
}

/// Neither vCPU may use extra time. Each vCPU waits once its slice is used up, even if the CPU idles.
#[test]
fn hard_reservations_get_their_slices_and_no_more() {
    let mut host = host(1, &[]);
    let (a, b) = (hog(&mut host, hard(2_000, 10_000)), hog(&mut host, hard(5_000, 20_000)));
    let expected = [
        (None, 0, 2_000),
        (Some(a), 2_000, 4_000),
        (None, 4_000, 5_000),
        (Some(b), 5_000, 10_000),
        (None, 10_000, 12_000),
        (Some(a), 12_000, 14_000),
        (None, 14_000, 22_000),
        (Some(a), 22_000, 24_000),
        (None, 24_000, 25_000),
    ];
    assert_eq!(stretches(&mut host, 25_000), expected);
}

/// The vCPU with the earliest deadline runs first, and the CPU picks again when a period begins.
#[test]
fn a_period_that_begins_with_an_earlier_deadline_interrupts() {
    let mut host = host(1, &[]);
    let (long, short) = (hog(&mut host, hard(20_000, 50_000)), hog(&mut host, hard(2_000, 10_000)));
    run_through(&mut host, 19_999);
    // The periods of `short` begin at 2 ms and at 12 ms. The period of `long` begins at 20 ms, with its deadline at 70
    // ms.
    let expected = [(Some(long), 20_000, 22_000), (Some(short), 22_000, 24_000), (Some(long), 24_000, 32_000)];
    assert_eq!(stretches(&mut host, 32_000)[1..], expected);
}

/// If slices do not fit, a missed period is replaced by the next period on the old grid, with a full slice. Of two
/// vCPUs that then have the same deadline, the vCPU that used up its previous slice runs first.
#[test]
fn a_missed_period_is_given_up() {
    let mut host = host(1, &[]);
    let all = [hog(&mut host, hard(8_000, 10_000)), hog(&mut host, hard(8_000, 10_000))];
    let deadlines = |host: &Driver<'_>| all.map(|e| shows_us(host, e, "deadline"));
    // Both periods began at 8 ms. The first vCPU receives its slice until 16 ms. The second vCPU runs until 24 ms, past
    // its deadline at 18 ms.
    run_through(&mut host, 23_999);
    assert_eq!((runs(&host), deadlines(&host)), (Some(all[1]), [28_000, 18_000]));
    run_through(&mut host, 31_999);
    assert_eq!((runs(&host), deadlines(&host)), (Some(all[0]), [28_000, 28_000]));
    run_through(&mut host, 32_001);
    assert_eq!((runs(&host), deadlines(&host)), (Some(all[0]), [38_000, 38_000]), "28 is missed");
    // The second vCPU runs only if a slice of the first vCPU ends exactly at the deadline of the second vCPU. This
    // happens at 48 ms, and every 40 ms from then on.
    run_through(&mut host, 48_001);
    assert_eq!((runs(&host), deadlines(&host)), (Some(all[1]), [58_000, 48_000]));
    host.run_until(Instant::at_ns(Nanos::s(10).as_ns()));
    let shares = per_mille(&mut host, &all, Nanos::s(10));
    assert!(shares[0].abs_diff(800) <= 2 && shares[1].abs_diff(200) <= 2, "no reservation is refused: {shares:?}");
}

/// Periods keep their grid, however far a vCPU lags. `miss` advances to the first period that ends at `now` or later,
/// and `skip_to_period_after` to the first period that begins after `now`.
#[test]
fn periods_keep_their_grid() {
    let after = |deadline: u64, now: u64, go_on: fn(&mut Vcpu, Instant)| {
        let request = Request::unreserved(Nanos::ms(10), false, Weight::NORMAL);
        let mut vcpu = Vcpu { deadline: ms(deadline), used: Nanos::ms(1), ..Vcpu::new(CPU, request) };
        go_on(&mut vcpu, ms(now));
        vcpu.deadline.as_ns() / 1_000_000
    };
    let missed = [(14, 15), (14, 24), (14, 25), (14, 44), (14, 45)].map(|(at, now)| after(at, now, Vcpu::miss));
    assert_eq!(missed, [24, 24, 34, 44, 54], "a period is given up at least");
    let skipped = [(14, 4), (14, 13), (14, 14), (14, 15), (14, 44)];
    let skipped = skipped.map(|(at, now)| after(at, now, Vcpu::skip_to_period_after));
    assert_eq!(skipped, [24, 24, 34, 34, 64]);
}

/// An overrun counts as used time of the next slice. Kicks on this host take 300 us.
#[test]
fn what_is_run_beyond_a_slice_is_paid_back() {
    let costs = Costs { kick: Nanos::us(300), ..Costs::NONE };
    let mut host = host_of_costs(&POLICY, sched::Topology::new(1), &POLICY.defaults(), costs);
    let e = hog(&mut host, hard(4_000, 10_000));
    run_through(&mut host, 6_000);
    assert_eq!((runs(&host), shows(&host, e, "used")), (Some(e), 0));
    // The slice becomes shorter than the used time.
    host.adjust(e, hard(1_500, 10_000)).expect("it is accepted");
    run_through(&mut host, 6_299);
    assert_eq!(runs(&host), Some(e), "the call is under way");
    run_through(&mut host, 6_301);
    // From 4.3 ms on, the vCPU has run for 2 ms: 1.5 ms of this period and 0.5 ms of the next period.
    assert_eq!((runs(&host), shows_us(&host, e, "used"), shows_us(&host, e, "deadline")), (None, 500, 24_000));
    assert_eq!(stretches(&mut host, 20_000)[1..], [(Some(e), 14_300, 15_299), (None, 15_299, 20_000)]);
}

#[test]
fn what_xen_refuses_is_refused() {
    let mut host = host(1, &[]);
    let mut ask = |params| host.attach("e", params, Workload::Scripted).err();
    assert_eq!(ask(hard(5, 10)), None);
    assert_eq!(ask(soft(5, 10_000_000)), None);
    let (least, most) = (Nanos::us(10), Nanos::s(10));
    assert_eq!(ask(soft(9, 9)), Some(Refused::OutOfRange { what: "period", least, most }));
    assert_eq!(ask(soft(9, 10_000_001)), Some(Refused::OutOfRange { what: "period", least, most }));
    let (least, most) = (Nanos::us(5), Nanos::us(100));
    assert_eq!(ask(hard(4, 100)), Some(Refused::OutOfRange { what: "slice", least, most }));
}

/// With `unreserved = slices`, the unreserved part of 95 ms in every 100 ms is distributed by weight, on each CPU.
#[test]
fn slices_by_weight_are_what_reservations_leave() {
    let knobs = [("unreserved", 2)];
    let mut host = host(2, &knobs);
    let on = |cpu, params| Params { affinity: CpuSet::one(cpu), ..params };
    let a = hog(&mut host, on(CPU, weighing(256)));
    assert_eq!(shows_us(&host, a, "slice"), 95_000);
    let b = hog(&mut host, on(CPU, weighing(512)));
    let c = hog(&mut host, on(OTHER, weighing(100)));
    let slices = |host: &Driver<'_>| [a, b, c].map(|e| shows_us(host, e, "slice"));
    assert_eq!(slices(&host), [31_666, 63_333, 95_000]);
    let fixed = hog(&mut host, on(CPU, hard(4_000, 20_000)));
    assert_eq!(slices(&host), [25_000, 50_000, 95_000], "20 in 100 are reserved");
    host.run_until(Instant::at_ns(Nanos::s(10).as_ns()));
    let shares = per_mille(&mut host, &[a, b, fixed], Nanos::s(10));
    // The 5 ms of `weight-safety` are extra time.
    assert!((245..=285).contains(&shares[0]) && (490..=530).contains(&shares[1]), "{shares:?}");
    assert!((198..=200).contains(&shares[2]), "{shares:?}");
    host.adjust(fixed, on(OTHER, hard(4_000, 20_000))).expect("it is accepted");
    assert_eq!(slices(&host), [31_666, 63_333, 75_000], "it has moved");
    host.adjust(b, on(CPU, weighing(256))).expect("it is accepted");
    assert_eq!(slices(&host), [47_500, 47_500, 75_000]);
    host.detach(b);
    assert_eq!(shows_us(&host, a, "slice"), 95_000);
    let over = scripted(&mut host, on(CPU, hard(97, 100)));
    assert_eq!((shows(&host, a, "slice"), shows_us(&host, over, "slice")), (0, 97), "nothing is left");
}

#[test]
fn the_weight_period_and_its_safety_are_knobs() {
    let (period, safety) = (Nanos::ms(40), Nanos::ms(10));
    let knobs = [
        ("unreserved", 2),
        ("weight-period", period.as_ns().cast_signed()),
        ("weight-safety", safety.as_ns().cast_signed()),
    ];
    let mut host = host(1, &knobs);
    let e = scripted(&mut host, Params::default());
    assert_eq!((shows_us(&host, e, "period"), shows_us(&host, e, "slice")), (40_000, 30_000));
}

/// A change of parameters takes effect at once, in every state of the vCPU.
#[test]
fn a_change_counts_at_once() {
    let mut host = host(1, &[]);
    let (a, b) = (hog(&mut host, soft(5_000, 10_000)), hog(&mut host, hard(2_000, 10_000)));
    run_through(&mut host, 1_000);
    assert_eq!(runs(&host), Some(a), "in extra time");
    host.adjust(a, hard(5_000, 10_000)).expect("it is accepted");
    run_through(&mut host, 1_001);
    assert_eq!(runs(&host), None, "none of both may have extra time");
    host.adjust(b, soft(2_000, 10_000)).expect("it is accepted");
    run_through(&mut host, 1_002);
    assert_eq!(runs(&host), Some(b));
    host.adjust(b, hard(2_000, 10_000)).expect("it is accepted");
    host.adjust(b, soft(2_000, 10_000)).expect("it is accepted");
    run_through(&mut host, 2_000);
    // `b` runs in its slice. Its slice and its period become longer at once.
    host.adjust(b, hard(4_000, 20_000)).expect("it is accepted");
    run_through(&mut host, 2_001);
    assert_eq!((runs(&host), host.machine().until(CPU).as_ns() / 1_000), (Some(b), 5_000), "a begins at 5 ms");
}

/// A vCPU whose affinity excludes its CPU migrates, whether the vCPU waits, runs or is blocked.
#[test]
fn a_vcpu_that_may_not_stay_moves() {
    let mut host = host(2, &[("placement", 1)]);
    let all = [0, 1].map(|_| hog(&mut host, soft(4_000, 10_000)));
    let sleeper = scripted(&mut host, soft(4_000, 10_000));
    run_through(&mut host, 4_200);
    let there = |params: Params| Params { affinity: CpuSet::one(OTHER), ..params };
    let (running, waiting) = (runs(&host).expect("a vCPU runs"), all.into_iter().find(|&e| runs(&host) != Some(e)));
    let waiting = waiting.expect("a vCPU waits");
    host.adjust(waiting, there(soft(4_000, 10_000))).expect("it is accepted");
    run_through(&mut host, 4_300);
    assert_eq!(host.machine().running(OTHER), Some(waiting));
    host.adjust(sleeper, there(soft(4_000, 10_000))).expect("it is accepted");
    host.adjust(running, there(soft(4_000, 10_000))).expect("it is accepted");
    host.wake(sleeper, Wake::Timer);
    run_through(&mut host, 4_400);
    assert_eq!((runs(&host), host.machine().running(OTHER).is_some()), (None, true));
    run_through(&mut host, 100_000);
    let ran = [running, waiting, sleeper].map(|e| host.machine().charged(e));
    assert!(ran.iter().all(|&ran| ran > Nanos::ms(20)), "all run there: {ran:?}");
}
