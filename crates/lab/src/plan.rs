//! [`Block`]: a point of an experiment with its seeds. A plan is the list of the blocks of a suite.

use crate::cell::Cell;
use crate::experiment::{Experiment, Extent, Point};
use crate::judge::points_read;
use crate::paper::Paper;
use crate::parallel;
use crate::problem::Problem;
use crate::results::{Measured, Results, Row};

/// Number of seeds of a point that checks read and that depends on chance.
pub const CHANCE_SEEDS: u32 = 20;

/// A point of an experiment with its seeds.
#[derive(Clone, Debug)]
pub(crate) struct Block<'p> {
    /// Number of the paper in the suite.
    pub(crate) paper: usize,
    /// The experiment.
    pub(crate) experiment: &'p Experiment,
    /// The point.
    pub(crate) point: Point,
    /// First seed.
    pub(crate) first_seed: u32,
    /// Number of seeds.
    pub(crate) seeds: u32,
}

/// Returns all runs of `plan`, in order. The scenarios are rendered and parsed on `threads` threads.
pub(crate) fn cells<'p>(plan: &[Block<'p>], extent: Extent, threads: usize) -> Result<Vec<Cell<'p>>, Problem> {
    let seeds = |block: &Block<'p>| block.first_seed..block.first_seed + block.seeds;
    let runs: Vec<_> = plan.iter().flat_map(|block| seeds(block).map(move |seed| (block, seed))).collect();
    parallel::in_order(runs.len(), threads, |nth| {
        let (block, seed) = runs[nth];
        Cell::new(block.experiment, extent, &block.point, seed)
    })
}

/// Returns the results of the first `papers` papers, from the measurements of the runs of `plan`, in order.
pub(crate) fn gather(plan: &[Block<'_>], papers: usize, measured: &mut dyn Iterator<Item = Measured>) -> Vec<Results> {
    let empty = || Results { version: env!("CARGO_PKG_VERSION").to_string(), ..Results::default() };
    let mut results: Vec<Results> = (0..papers).map(|_| empty()).collect();
    for block in plan {
        let seeds = (0..block.seeds).map(|_| measured.next().expect("each run was measured")).collect();
        let rows = results[block.paper].experiments.entry(block.experiment.name.clone()).or_default();
        rows.push(Row { point: block.point.clone(), seeds });
    }
    results
}

/// Raises the number of seeds of each point that checks read and that depends on chance, by `results`, to
/// [`CHANCE_SEEDS`]. Only the claims that `asked` selects count.
///
/// # Errors
/// A check cannot be evaluated.
pub(crate) fn extend(
    plan: &mut [Block<'_>],
    papers: &[Paper],
    results: &[Results],
    asked: impl Fn(&str) -> bool,
) -> Result<(), Problem> {
    for (nth, (paper, results)) in papers.iter().zip(results).enumerate() {
        let read = points_read(paper, results, &asked)?;
        for (name, row) in read {
            let row = &results.experiments[&name][row];
            if row.is_by_chance() {
                let is_it = |block: &&mut Block<'_>| {
                    block.paper == nth && block.experiment.name == name && block.point == row.point
                };
                let block = plan.iter_mut().find(is_it).expect("a row is of a block");
                block.seeds = block.seeds.max(CHANCE_SEEDS);
            }
        }
    }
    Ok(())
}
