//! Tests of the accuracy of shares, also in long runs.

use super::*;
use sched::LoadBounds;

const EXACT: (&str, i64) = ("exact-clock", 1);

fn promised(knobs: &[(&str, i64)], weights: &[u32]) -> Option<Nanos> {
    let mut values = POLICY.defaults();
    for &(name, value) in knobs {
        values.set(name, value).unwrap();
    }
    let host = Topology::new(1);
    let load = LoadBounds {
        weight_least: weights.iter().copied().min().unwrap().into(),
        weight_most: weights.iter().copied().max().unwrap().into(),
        ..LoadBounds::of_hogs(&host, &values, weights.len() as u64)
    };
    (POLICY.guarantees.shares)(&load)
}

/// Returns the largest distance of a task from its share since the last attachment. Tasks are attached at intervals of
/// `apart`. The run ends `length` after the last attachment.
fn worst(knobs: &[(&str, i64)], weights: &[u32], apart: Nanos, length: Nanos) -> Nanos {
    let mut world = World::with(Topology::new(1), knobs);
    let (mut hogs, mut sum, mut worst) = (Vec::new(), 0, Nanos::ZERO);
    for (n, &weight) in weights.iter().enumerate() {
        let weight = Weight::linux(weight).unwrap();
        sum += u64::from(weight.as_linux());
        hogs.push((world.hog(Params { weight, ..Params::default() }), u64::from(weight.as_linux())));
        let before: Vec<Nanos> = hogs.iter().map(|&(e, _)| world.ran(e)).collect();
        let start = world.host.now();
        let end = start + if n + 1 == weights.len() { length } else { apart };
        while world.host.now() < end {
            world.host.run_until((world.host.now() + Nanos::us(990)).min(end));
            let time = world.host.now().since(start);
            for (&(e, weight), &before) in hogs.iter().zip(&before) {
                let (got, due) = (world.ran(e) - before, time.scale(weight, sum));
                worst = worst.max(got.max(due) - got.min(due));
            }
        }
    }
    worst
}

#[test]
fn exact_clocks_keep_shares_within_the_bound_whatever_the_weights_and_arrivals() {
    let mut tightest = 0;
    for seed in 0..40 {
        let mut dice = Dice(seed);
        let count = 2 + dice.below(9);
        let weights: Vec<u32> =
            (0..count).map(|_| Weight::nice(i32::try_from(dice.below(21)).unwrap() - 10).unwrap().as_linux()).collect();
        let apart = Nanos::us(dice.below(20_000));
        let bound = promised(&[EXACT], &weights).unwrap();
        let worst = worst(&[EXACT], &weights, apart, Nanos::s(2));
        assert!(worst <= bound, "seed {seed}, {weights:?}: {worst} off, the bound is {bound}");
        tightest = tightest.max(worst.scale(100, bound.as_ns()).as_ns());
    }
    assert!(tightest >= 10, "the worst was {tightest} % of the bound");
}

#[test]
fn equal_weights_need_no_exact_clock() {
    for count in [2, 5, 12] {
        let weights = vec![1024; count];
        let bound = promised(&[], &weights).unwrap();
        let worst = worst(&[], &weights, Nanos::us(3_300), Nanos::s(2));
        assert!(worst <= bound, "{count}: {worst} off, the bound is {bound}");
    }
}

#[test]
fn clocks_that_lose_parts_of_nanoseconds_lose_the_shares_in_the_end() {
    let weights = [1 << 20, 1_024_000];
    assert_eq!(promised(&[], &weights), None);
    let bound = promised(&[EXACT], &weights).unwrap();
    // During a tick of 1 ms, the clock of one task should advance by 976.6 ns, the clock of the other by 1000 ns.
    let [lossy, exact] = [0, 1].map(|on| worst(&[("exact-clock", on)], &weights, Nanos::ZERO, Nanos::s(300)));
    assert!(exact <= bound && lossy > bound, "{lossy} and {exact}; the bound is {bound}");
}
