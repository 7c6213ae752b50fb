//! [`densities`]: a histogram in bins.

use super::data::Mark;
use super::scale::ends;
use crate::compute::quantile;

/// Returns the bins of `seeds`, which are lists of positions and counts. The height of a bin is its count divided by its
/// width: the median over the seeds. There are `number` bins, or this many per power of ten if `is_log`. No bin is
/// narrower than the smallest distance between two positions. A bin without counts has no mark.
pub(super) fn densities(seeds: &[Vec<(f64, f64)>], number: u32, is_log: bool) -> Vec<Mark> {
    let is_placed = |x: &f64| x.is_finite() && (!is_log || *x > 0.0);
    let mut at: Vec<f64> = seeds.iter().flatten().map(|(x, _)| *x).filter(is_placed).collect();
    at.sort_by(f64::total_cmp);
    at.dedup();
    let Some((low, high)) = ends(at.iter().copied()) else { return Vec::new() };
    let gap = at.windows(2).map(|two| two[1] - two[0]).fold(f64::INFINITY, f64::min);
    let gap = if gap.is_finite() { gap } else { 1.0 };
    let edges = if is_log { powers([low, high], number, gap) } else { equal([low, high], number, gap) };
    let bin_of = |x: f64| edges.partition_point(|edge| *edge <= x).saturating_sub(1);
    let mut totals = vec![vec![0.0; seeds.len()]; edges.len()];
    for (seed, pairs) in seeds.iter().enumerate() {
        for (x, number) in pairs {
            totals[bin_of(*x)][seed] += number;
        }
    }
    let mark = |(two, totals): (&[f64], &Vec<f64>)| {
        let (from, to) = (two[0], two[1]);
        let middle = if is_log { libm::sqrt(from * to) } else { f64::midpoint(from, to) };
        let height = quantile(totals.clone(), 0.5).unwrap_or(0.0) / (to - from);
        (height > 0.0).then(|| Mark { bin: Some([from, to]), ..Mark::plain(middle, height) })
    };
    edges.windows(2).zip(&totals).filter_map(mark).collect()
}

/// Returns the edges of equal bins around `low` and `high`.
fn equal([low, high]: [f64; 2], number: u32, gap: f64) -> Vec<f64> {
    let step = ((high - low) / f64::from(number)).max(gap);
    let mut edges = vec![low - gap / 2.0];
    let mut last = edges[0];
    while last <= high {
        last += step;
        edges.push(last);
    }
    edges
}

/// Returns the edges of bins around `low` and `high`, `number` per power of ten. Edges are the same for all curves.
fn powers([low, high]: [f64; 2], number: u32, gap: f64) -> Vec<f64> {
    let edge = |nth: f64| libm::pow(10.0, nth / f64::from(number));
    let mut nth = libm::floor(libm::log10(low) * f64::from(number) + 1e-9);
    let mut edges = vec![edge(nth).min(low)];
    let mut last = edges[0];
    while last <= high {
        nth += 1.0;
        if edge(nth) - last >= gap * (1.0 - 1e-9) {
            last = edge(nth);
            edges.push(last);
        }
    }
    edges
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::scale::count;

    /// Returns the total of `bins`: the sum of height times width.
    fn total(bins: &[Mark]) -> f64 {
        bins.iter().map(|mark| mark.bin.map_or(0.0, |[from, to]| (to - from) * mark.y)).sum()
    }

    #[test]
    fn bins_keep_the_total_and_are_as_wide_as_the_positions_are_apart() {
        let all: Vec<(f64, f64)> = (1..=1000).map(|x| (count(x), 3.0)).collect();
        for (is_log, number) in [(true, 10), (false, 20)] {
            let bins = densities(std::slice::from_ref(&all), number, is_log);
            assert!((total(&bins) - 3000.0).abs() < 1e-6, "{is_log}: {}", total(&bins));
            let least =
                bins.iter().filter_map(|mark| mark.bin).map(|[from, to]| to - from).fold(f64::INFINITY, f64::min);
            assert!(least > 1.0 - 1e-9 && bins.len() < 40, "{is_log}: {least}, {} bins", bins.len());
        }
    }

    #[test]
    fn a_bin_is_the_median_over_the_seeds_and_an_empty_bin_has_no_mark() {
        let seeds = [vec![(1.0, 10.0), (9.0, 1.0)], vec![(1.0, 30.0)], vec![(1.0, 20.0)]];
        let bins = densities(&seeds, 2, false);
        assert_eq!(bins.len(), 1, "the median at 9 is 0");
        assert!((total(&bins) - 20.0).abs() < 1e-9, "{bins:?}");
        assert!(densities(&[Vec::new()], 5, true).is_empty());
    }
}
