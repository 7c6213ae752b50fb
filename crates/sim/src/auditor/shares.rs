//! Shares: the fair CPU time of entities that are always runnable, by weight.

use sched::{Nanos, Weight};

/// Returns the fair CPU times of entities with these weights on `cpus` CPUs in `window`. The function assumes that all
/// entities may run on any CPU and are runnable for the whole window. The times are in proportion to the weights. An
/// entity whose proportional time would exceed the window receives one whole CPU, and the other entities share the
/// rest.
///
/// Each time is rounded down to a nanosecond.
#[must_use]
pub fn fair_shares(cpus: usize, window: Nanos, weights: &[Weight]) -> Vec<Nanos> {
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(weights[i]));
    let mut shares = vec![Nanos::ZERO; weights.len()];
    let mut left = cpus as u64;
    let mut sum: u64 = weights.iter().map(|weight| u64::from(weight.as_linux())).sum();
    for i in order {
        let weight = u64::from(weights[i].as_linux());
        // This is the heaviest remaining entity. If its share is a whole CPU or more, the entity receives exactly one
        // CPU.
        if u128::from(weight) * u128::from(left) >= u128::from(sum) && left > 0 {
            shares[i] = window;
            left -= 1;
            sum -= weight;
        } else {
            let time = u128::from(window.as_ns()) * u128::from(left) * u128::from(weight) / u128::from(sum);
            shares[i] = Nanos::ns(u64::try_from(time).expect("less than the window"));
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(cpus: usize, weights: &[u32]) -> Vec<u64> {
        let weights: Vec<Weight> = weights.iter().map(|&weight| Weight::linux(weight).expect("in range")).collect();
        fair_shares(cpus, Nanos::ms(600), &weights).iter().map(|share| share.as_ns() / 1_000_000).collect()
    }

    #[test]
    fn shares_are_proportional_and_at_most_a_cpu() {
        assert_eq!(shares(1, &[1, 2, 3]), [100, 200, 300]);
        assert_eq!(shares(2, &[10, 1, 1]), [600, 300, 300], "the heaviest has a CPU; the others share one");
        assert_eq!(shares(2, &[1, 10, 10]), [57, 571, 571]);
        assert_eq!(shares(3, &[1, 100, 10, 10]), [57, 600, 571, 571]);
        assert_eq!(shares(4, &[1, 5]), [600, 600], "more CPUs than entities");
        assert_eq!(shares(2, &[]), [0; 0]);
    }
}
