//! Tests of BVT against the rules of sched_bvt.c, with a worked example, in virtual time.

use super::POLICY;
use crate::fixture::{CPU, awake as hog, host_under, run_through_us as run_through, running, scripted, weighing};
use sched::time::SPAN_MAX;
use sched::{CpuId, CpuSet, EntityId, Instant, Nanos, Params, State, Wake, Warp, Weight};
use sim::Driver;

fn host<'a>(cpus: usize, knobs: &[(&str, i64)]) -> Driver<'a> {
    host_under(&POLICY, sched::Topology::new(cpus), knobs)
}

fn runs(host: &Driver<'_>) -> Option<EntityId> {
    running(host, CPU)
}

fn warping(by: u64, limit: u64, rest: u64) -> Params {
    let [by, limit, rest] = [by, limit, rest].map(Nanos::ms);
    Params { warp: Some(Warp { by, limit, rest }), ..Params::default() }
}

fn avt(host: &Driver<'_>, e: EntityId) -> i64 {
    host.machine().inspect(e, "avt").expect("it is shown")
}

/// Returns the CPU time of each domain, in percent of `of`.
fn percents(host: &Driver<'_>, all: &[EntityId], of: Nanos) -> Vec<u64> {
    all.iter().map(|&e| (host.machine().charged(e).as_ns() * 100 + of.as_ns() / 2) / of.as_ns()).collect()
}

/// Worked example: `d1` is a hog, `d0` has short bursts; C = 5 ms. Charges are rounded up to whole MCUs of 100 us,
/// which are 10 units each.
#[test]
fn the_worked_example() {
    let mut host = host(1, &[]);
    let (d0, d1) = (scripted(&mut host, Params::default()), scripted(&mut host, Params::default()));
    let until = |host: &mut Driver<'_>, us: u64| host.run_until(Instant::at_ns(us * 1_000));
    host.wake(d1, Wake::New { parent: None });
    until(&mut host, 250);
    assert_eq!(runs(&host), Some(d1));
    host.wake(d0, Wake::Interrupt);
    until(&mut host, 310);
    assert_eq!((runs(&host), avt(&host, d1)), (Some(d0), 30), "0 <= 30: at once");
    host.block(CPU);
    until(&mut host, 400);
    assert_eq!((runs(&host), avt(&host, d0)), (Some(d1), 10), "60 us are one MCU");
    host.wake(d0, Wake::Interrupt);
    until(&mut host, 750);
    assert_eq!((runs(&host), avt(&host, d1)), (Some(d0), 40), "raised to 30, before 40");
    host.block(CPU);
    until(&mut host, 900);
    assert_eq!((runs(&host), avt(&host, d0)), (Some(d1), 70));
    host.wake(d0, Wake::Interrupt);
    until(&mut host, 5_740);
    assert_eq!(runs(&host), Some(d1), "70 is behind 60: a whole C from the dispatch at 750");
    until(&mut host, 5_760);
    assert_eq!(runs(&host), Some(d0));
    // The timer is 1 ns late, because (70 - 60) / 10 counts as nanoseconds. The charge is one MCU more than 540.
    assert_eq!(avt(&host, d1), 550);
}

/// With Xen's unit of the lead, two equal hogs alternate every C. With the intended unit, they alternate every 2 C
/// after a first time slice of C.
#[test]
fn hogs_alternate_after_c_or_twice_that() {
    for (unit, first, turn) in [(0, 5_000, 5_000), (1, 5_000, 10_000)] {
        let mut host = host(1, &[("slice-unit", unit)]);
        let (a, b) = (hog(&mut host, Params::default()), hog(&mut host, Params::default()));
        // Of entities with equal virtual times, the entity that woke last is the first in the list.
        run_through(&mut host, 100);
        assert_eq!(runs(&host), Some(b));
        for n in 0..6 {
            run_through(&mut host, first + n * turn + turn / 2);
            assert_eq!(runs(&host), Some(if n % 2 == 0 { a } else { b }), "turn {n} with unit {unit}");
        }
    }
}

#[test]
fn twice_the_weight_is_half_the_advance() {
    let mut host = host(1, &[("recharge", 0)]);
    let all = [hog(&mut host, weighing(256)), hog(&mut host, weighing(512))];
    run_through(&mut host, 3_000_000);
    assert_eq!(percents(&host, &all, Nanos::s(3)), [33, 67]);
}

/// The heavier domain is picked several times in a row, and is charged again each time for its whole run since the
/// switch.
#[test]
fn a_domain_that_is_chosen_again_pays_again() {
    let mut host = host(1, &[]);
    let all = [hog(&mut host, weighing(256)), hog(&mut host, weighing(1024))];
    run_through(&mut host, 3_000_000);
    let unpaid = percents(&host, &all, Nanos::s(3));
    assert!(unpaid[1] < 78, "less than the 80 % due: {unpaid:?}");
    let mut lone = self::host(1, &[]);
    let e = hog(&mut lone, Params::default());
    run_through(&mut lone, 150_100);
    // The charges are for 50 ms, then 100 ms, then 150 ms.
    assert_eq!(avt(&lone, e), 10 * (500 + 1_000 + 1_500));
}

/// The virtual time of a woken domain is raised to the scheduler's, so the domain receives no compensation and starves
/// no other domain.
#[test]
fn a_sleeper_gets_no_catch_up() {
    let mut host = host(1, &[]);
    let (busy, sleeper) = (hog(&mut host, Params::default()), scripted(&mut host, Params::default()));
    let other = hog(&mut host, Params::default());
    run_through(&mut host, 2_000_000);
    host.wake(sleeper, Wake::Timer);
    run_through(&mut host, 2_300_000);
    let got = host.machine().charged(sleeper);
    assert!(got <= Nanos::ms(105), "a third of 300 ms, and a turn at most: {got}");
    assert!(host.machine().charged(busy) + host.machine().charged(other) >= Nanos::ms(2_190));
}

/// A run exceeds C by a nanosecond per MCU of the lead, so the run is charged one more MCU.
#[test]
fn two_hogs_are_charged_as_in_the_table() {
    let mut host = host(1, &[]);
    let (d0, d1) = (hog(&mut host, Params::default()), hog(&mut host, Params::default()));
    host.run_until(Instant::at_ns(1));
    for (us, running, avts) in
        [(5_000, d0, [0, 500]), (10_000, d1, [510, 500]), (15_000, d0, [510, 1_010]), (20_000, d1, [1_020, 1_010])]
    {
        run_through(&mut host, us + 1);
        assert_eq!((runs(&host), [d0, d1].map(|e| avt(&host, e))), (Some(running), avts), "after {us} us");
    }
    // Each run of `d0` was 50 ns too long; the second run of `d1` was 1 ns too long.
    let ran = [d0, d1].map(|e| host.machine().charged(e).as_ns());
    assert_eq!(ran, [10_000_100, 10_000_001]);
}

/// The error of shares is at most C plus an MCU. With exact charges, the bound holds for equal domains, for any two
/// domains, and for the excess of any domain. The deficit of one of five unequal domains is at most four times this
/// bound. With Xen's charges, the bound holds for equal domains.
#[test]
fn shares_err_by_an_allowance_and_an_mcu() {
    let unlike = [&[256, 512][..], &[100, 1_000], &[256, 512, 1_024, 64, 777]];
    let equal = [&[256, 256][..], &[256; 5]];
    let (exact, textbook, xen) = ([("recharge", 0), ("rounding", 0)], [("rule", 1)], [("recharge", 1)]);
    for (knobs, unlike) in [(&exact[..], &unlike[..]), (&textbook, &unlike), (&xen, &[])] {
        for &weights in equal.iter().chain(unlike) {
            let mut host = host(1, knobs);
            let all: Vec<EntityId> = weights.iter().map(|&weight| hog(&mut host, weighing(weight))).collect();
            let whole: u32 = weights.iter().sum();
            let bound = Nanos::us(5_100);
            host.run_until(Instant::at_ns(1));
            // Deviations are largest at the ends of runs, when every domain has been charged.
            for _ in 0..1_000 {
                let end = host.machine().until(CPU);
                host.run_until(end + Nanos::ns(1));
                for (&e, &weight) in all.iter().zip(weights) {
                    let due = Nanos::ns(end.as_ns()).scale(weight.into(), whole.into());
                    let got = host.machine().charged(e);
                    assert!(got <= due + bound, "{weights:?}: {e} got {got} of {due}");
                    let others = if weights.len() == 2 || weights.iter().all(|&other| other == weight) { 1 } else { 4 };
                    assert!(due <= got + bound.saturating_mul(others), "{weights:?}: {e} got {got} of {due}");
                }
            }
        }
    }
}

/// With equal weights, every domain is within C plus a charging unit of its share, once all domains are attached.
#[test]
fn equal_shares_err_by_an_allowance_and_an_mcu() {
    let mut host = host(1, &[]);
    let all: Vec<EntityId> = (0..3).map(|_| hog(&mut host, Params::default())).collect();
    for ms in (1..600).map(|n| n * 7) {
        run_through(&mut host, ms * 1_000);
        for &e in &all {
            let running = host.machine().running(CPU) == Some(e);
            let due = Nanos::ms(ms).scale(1, 3);
            let got = host.machine().charged(e);
            // The running domain has not been charged for its current run.
            let off = if got > due { got - due } else { due - got };
            let slack = if running { Nanos::ms(5) } else { Nanos::ZERO };
            assert!(off <= Nanos::us(5_100) + slack, "{e} is {off} off at {ms} ms");
        }
    }
}

/// Three equal hogs on two CPUs: no hog migrates.
#[test]
fn three_on_two_cpus_get_100_50_and_50() {
    let mut host = host(2, &[]);
    let all: Vec<EntityId> = (0..3).map(|_| hog(&mut host, Params::default())).collect();
    host.run_until(Instant::ZERO + Nanos::s(4));
    // A pause charges a running entity up to now.
    all.iter().for_each(|&e| host.pause(e));
    let mut shares = percents(&host, &all, Nanos::s(4));
    shares.sort_unstable();
    assert_eq!(shares, [50, 50, 100]);
}

#[test]
fn the_first_entity_is_placed_on_the_first_cpu_it_may_run_on() {
    let mut host = host(2, &[("placement", 1)]);
    let all = [hog(&mut host, Params::default()), hog(&mut host, Params::default())];
    run_through(&mut host, 100);
    assert_eq!(host.machine().running(CpuId::new(1)), None);
    let right = Params { affinity: CpuSet::one(CpuId::new(1)), ..Params::default() };
    host.adjust(all[0], right).expect("it is accepted");
    run_through(&mut host, 200);
    assert_eq!(host.machine().running(CpuId::new(1)), Some(all[0]), "it lives where it may");
}

/// With the textbook rule, a woken domain preempts only if it lags by the allowance, and charges are exact.
#[test]
fn the_textbook_makes_wakers_wait_for_the_allowance() {
    for (rule, at_once) in [(0, true), (1, false)] {
        let mut host = host(1, &[("rule", rule)]);
        let (busy, waker) = (hog(&mut host, Params::default()), scripted(&mut host, Params::default()));
        run_through(&mut host, 2_000);
        host.wake(waker, Wake::Interrupt);
        run_through(&mut host, 2_010);
        assert_eq!(runs(&host) == Some(waker), at_once);
        // With the textbook rule, `waker` now lags by C: its virtual time is 0, that of `busy` is 5 ms.
        run_through(&mut host, 5_100);
        assert_eq!(runs(&host), Some(waker));
        if rule == 1 {
            assert_eq!(avt(&host, busy), 500, "5 ms to the nanosecond");
        }
    }
}

#[test]
fn rounding_charges_every_dispatch_for_a_whole_mcu() {
    for (rounding, charged) in [(1, 100), (0, 10)] {
        let mut host = host(1, &[("rounding", rounding)]);
        let e = scripted(&mut host, Params::default());
        for n in 0..10 {
            host.wake(e, Wake::Timer);
            host.run_until(Instant::at_ns(n * 1_000_000 + 10_000));
            host.block(CPU);
            host.run_until(Instant::at_ns((n + 1) * 1_000_000));
        }
        assert_eq!(avt(&host, e), charged, "ten bursts of 10 us");
    }
}

/// A warped entity runs ahead by about its warp.
#[test]
fn a_warp_borrows_from_the_future() {
    let mut host = host(1, &[]);
    let busy = hog(&mut host, Params::default());
    run_through(&mut host, 100_000);
    let warped = hog(&mut host, warping(30, 0, 0));
    run_through(&mut host, 125_000);
    assert!(host.machine().charged(busy) <= Nanos::ms(101), "it runs alone for its 30 ms");
    run_through(&mut host, 1_000_000);
    let (ahead, behind) = (avt(&host, warped), avt(&host, busy));
    assert!((2_000..4_100).contains(&(ahead - behind)), "30 ms are 3,000 units: {ahead} {behind}");
}

/// A warp ends after its limit and resumes after its rest. Without a rest, the warp never resumes.
#[test]
fn a_warp_has_a_limit_and_a_rest() {
    let warped = |host: &Driver<'_>, e| host.machine().inspect(e, "warped") == Some(1);
    let mut host = host(1, &[]);
    hog(&mut host, Params::default());
    let e = hog(&mut host, warping(100, 3, 20));
    run_through(&mut host, 2_900);
    assert!(warped(&host, e));
    run_through(&mut host, 3_100);
    assert!(!warped(&host, e), "after 3 ms of running");
    run_through(&mut host, 23_100);
    assert!(warped(&host, e), "20 ms later");
    host.adjust(e, warping(100, 3, 0)).expect("it is accepted");
    run_through(&mut host, 60_000);
    assert!(!warped(&host, e));
    run_through(&mut host, 900_000);
    assert!(!warped(&host, e), "for good");
    assert!(matches!(host.machine().state(e), State::Waiting | State::Running(_)));
}

/// The 32-bit clock, scaled to 16 bits: at 0xf000, the virtual times of all domains are reduced by 0xe000. The virtual
/// time of a domain that blocked below 0xe000 is later than those of the other domains afterwards.
#[test]
fn a_domain_that_sleeps_through_an_overflow_comes_out_ahead() {
    for (bits, waits) in [(64, false), (16, true)] {
        let mut host = host(1, &[("clock-bits", bits), ("recharge", 0)]);
        let sleeper = hog(&mut host, Params::default());
        run_through(&mut host, 50);
        host.block(CPU);
        let busy = hog(&mut host, Params::default());
        // The last decision before the overflow is at 600 ms, the next decision 50 ms later.
        run_through(&mut host, 650_100);
        let units = if waits { 65_000 - 0xe000 } else { 65_000 };
        assert!((units..units + 200).contains(&avt(&host, busy)), "{}", avt(&host, busy));
        assert_eq!(avt(&host, sleeper), if waits { 0x1_0000 - 0xe000 + 10 } else { 10 });
        host.wake(sleeper, Wake::Timer);
        run_through(&mut host, 650_200);
        assert_eq!(runs(&host) == Some(sleeper), !waits, "{bits} bits");
        run_through(&mut host, 660_000);
        assert!(runs(&host).is_some());
    }
}

/// With a 32-bit clock, a warped domain is last until the clock has passed the length of the warp.
#[test]
fn a_warp_below_zero_is_last_on_a_small_clock() {
    for (bits, first) in [(64, true), (32, false)] {
        let mut host = host(1, &[("clock-bits", bits)]);
        let all = [hog(&mut host, Params::default()), hog(&mut host, warping(30, 0, 0))];
        run_through(&mut host, 4_000);
        assert_eq!(runs(&host), Some(all[usize::from(first)]), "{bits} bits");
        run_through(&mut host, 24_000);
        assert_eq!(runs(&host), Some(all[usize::from(first)]), "{bits} bits");
    }
}

/// At the extremes of warp and weight, no computation overflows, whatever the number of clock bits.
#[test]
fn the_longest_warp_and_the_greatest_weights_overflow_nothing() {
    for bits in [64, 49, 48, 12] {
        let mut host = host(1, &[("clock-bits", bits)]);
        let warp = Some(Warp { by: SPAN_MAX, limit: Nanos::ZERO, rest: Nanos::ZERO });
        let light = Params { weight: Weight::linux(1).expect("in range"), ..Params::default() };
        let all = [Params { warp, ..light }, Params { weight: Weight::MAX, warp, ..Params::default() }, light];
        let all = all.map(|params| hog(&mut host, params));
        run_through(&mut host, 60_000_000);
        all.into_iter().for_each(|e| host.pause(e));
        assert_eq!(all.map(|e| host.machine().charged(e)).into_iter().sum::<Nanos>(), Nanos::s(60) + Nanos::ns(1));
    }
}

/// A lone light domain is charged repeatedly for all its runs. Its virtual time is reduced before it overflows.
#[test]
fn an_endless_clock_is_turned_back_in_time() {
    let mut host = host(1, &[("context-allowance", 1_000_000_000)]);
    let lone = hog(&mut host, Params { weight: Weight::linux(1).expect("in range"), ..Params::default() });
    let sleeper = scripted(&mut host, Params::default());
    // Each run takes 10 s. After n runs, 10 n (n + 1) / 2 s are charged, multiplied by 1,024 for the weight of 1.
    run_through(&mut host, 400_000_000_000);
    assert!(avt(&host, lone) < (1 << 61) / 10_000 + 1_024 * 400_000 * 10_000, "{}", avt(&host, lone));
    host.wake(sleeper, Wake::Timer);
    run_through(&mut host, 400_000_001_000);
    assert_eq!(runs(&host), Some(sleeper));
}

/// An overflow reduces the virtual times of all waiting domains equally, so their order does not change.
#[test]
fn an_overflow_keeps_the_shares_of_running_domains() {
    let mut host = host(1, &[("clock-bits", 12), ("recharge", 0), ("context-allowance", 1_000_000)]);
    let all = [256, 512, 256].map(|weight| hog(&mut host, weighing(weight)));
    run_through(&mut host, 10_000_000);
    assert_eq!(percents(&host, &all, Nanos::s(10)), [25, 50, 25]);
}

/// A warp that resumes while its domain waits takes effect at the domain's next stop or wake-up. With the textbook
/// rule, the warp takes effect at once.
#[test]
fn a_warp_that_counts_again_takes_effect_late() {
    for (rule, at_once) in [(0, false), (1, true)] {
        let mut host = host(1, &[("rule", rule)]);
        let e = [Params::default(), warping(3, 4, 12)].map(|params| hog(&mut host, params))[1];
        let evt = |host: &Driver<'_>| host.machine().inspect(e, "evt").expect("it is shown");
        // The warp ends at 4 ms. The domain waits again from 15 ms on with Xen's rule, from 8 ms on with the textbook
        // rule.
        run_through(&mut host, 15_900);
        assert_eq!((host.machine().inspect(e, "warped"), evt(&host)), (Some(0), avt(&host, e)));
        assert_ne!(runs(&host), Some(e));
        run_through(&mut host, 16_000);
        assert_eq!(host.machine().inspect(e, "warped"), Some(1));
        assert_eq!(evt(&host), if at_once { avt(&host, e) - 300 } else { avt(&host, e) }, "rule {rule}");
    }
}

/// With unequal weights, some domains have runs of exactly C more often than other domains. A run that is a nanosecond
/// longer than C is charged an additional MCU.
#[test]
fn rounding_makes_shares_drift() {
    for (rounding, drifts) in [(1, true), (0, false)] {
        let mut host = host(1, &[("recharge", 0), ("rounding", rounding)]);
        let weights = [256, 512, 1_024, 64, 777];
        let all = weights.map(|weight| hog(&mut host, weighing(weight)));
        host.run_until(Instant::ZERO + Nanos::s(120));
        let whole = weights.iter().map(|&weight| u64::from(weight)).sum();
        let too_much = |(e, weight): (&EntityId, u32)| {
            host.machine().charged(*e).saturating_sub(Nanos::s(120).scale(weight.into(), whole))
        };
        let worst = all.iter().zip(weights).map(too_much).max().expect("there are five");
        assert_eq!(worst > Nanos::ms(50), drifts, "{worst}");
        assert!(drifts || worst <= Nanos::us(5_100), "{worst}");
    }
}

/// A run of a lone domain lasts ten allowances. A burst is charged in whole charging units.
#[test]
fn the_allowance_and_the_charging_unit_are_knobs() {
    for (allowance_us, mcu_us, turn_us, charged) in
        [(5_000, 100, 50_000, 10), (1_000, 100, 10_000, 10), (5_000, 40, 50_000, 8)]
    {
        let mut host = host(1, &[("context-allowance", allowance_us * 1_000), ("mcu", mcu_us * 1_000)]);
        let e = hog(&mut host, Params::default());
        run_through(&mut host, 60);
        assert_eq!(host.machine().until(CPU).as_ns() / 1_000, turn_us);
        host.block(CPU);
        run_through(&mut host, 70);
        assert_eq!(avt(&host, e), charged, "60 us are one unit of 100, or two of 40");
    }
}
