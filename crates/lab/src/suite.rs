//! [`Suite`]: the selection of experiments, their runs, and their results.

use crate::cell::Cell;
use crate::experiment::{Experiment, Extent, shown};
use crate::live::Host;
use crate::paper::Paper;
use crate::plan::{self, Block};
use crate::problem::Problem;
use crate::results::{Results, Row};
use crate::store::Store;
use run::Progress;
use sched::{Instant, Nanos};
use std::sync::Mutex;

pub use crate::plan::CHANCE_SEEDS;

/// A selection of experiments of some papers, and the size at which they are run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Suite<'p> {
    /// The papers.
    pub papers: &'p [Paper],
    /// Claims whose experiments are run; empty: all claims.
    pub claims: &'p [String],
    /// Size of each experiment.
    pub extent: Extent,
    /// Number of seeds. `None`: each experiment has its own number of seeds, and a point that checks read and that
    /// depends on chance has [`CHANCE_SEEDS`].
    pub seeds: Option<u32>,
    /// First seed. `None`: 1. Anchors are set with the seeds from [`ANCHOR_SEED`].
    pub first_seed: Option<u32>,
}

/// First seed with which anchors are set. Claims are judged with the seeds from 1.
pub const ANCHOR_SEED: u32 = 1001;

/// Where the runs of a suite take place.
#[derive(Clone, Copy)]
pub enum Stage<'h> {
    /// In the simulator, on this number of threads.
    Simulator(usize),
    /// On a host, one run after another. All runs of a seed precede the runs of the next seed, so that slow changes of
    /// the host affect all points alike.
    Host(&'h dyn Host),
}

impl std::fmt::Debug for Stage<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Stage::Simulator(threads) => f.debug_tuple("Simulator").field(threads).finish(),
            Stage::Host(host) => f.debug_tuple("Host").field(&host.machine()).finish(),
        }
    }
}

impl Stage<'_> {
    /// Returns the key of a run in a store.
    fn key(&self, cell: &Cell<'_>) -> String {
        match self {
            Stage::Simulator(_) => cell.inputs(),
            Stage::Host(host) => format!("{}\n{}\n{}", host.machine(), host.program(), cell.inputs()),
        }
    }

    fn threads(&self) -> usize {
        match self {
            Stage::Simulator(threads) => *threads,
            Stage::Host(_) => 1,
        }
    }

    /// Sorts the numbers of the runs into the order in which they begin.
    fn order(&self, runs: &mut [usize], cells: &[Cell<'_>]) {
        match self {
            // The longest runs begin first, so that at the end, threads do not wait for a long run.
            Stage::Simulator(_) => runs.sort_by_key(|&nth| std::cmp::Reverse(cells[nth].length)),
            Stage::Host(_) => runs.sort_by_key(|&nth| cells[nth].seed),
        }
    }
}

/// Observer of the progress of a suite. Several threads call its methods.
pub trait Watch: Sync {
    /// Reports the start of a suite of `cells` runs. `known` of these runs are already in the store, and the others
    /// simulate `length` in total.
    fn begins(&self, length: Nanos, cells: usize, known: usize);
    /// Reports that the runs have simulated a further `length`.
    fn simulated(&self, _length: Nanos) {}
    /// Reports the end of a run of an experiment.
    fn played(&self, _cell: &Cell<'_>) {}
    /// Returns whether the suite must end.
    fn is_interrupted(&self) -> bool;
}

impl<'p> Suite<'p> {
    /// Checks that the requested claims exist.
    ///
    /// # Errors
    /// A requested claim does not exist. The error lists the existing claims.
    pub fn check(&self) -> Result<(), Problem> {
        let ids: Vec<&str> =
            self.papers.iter().flat_map(|paper| &paper.claims).map(|claim| claim.id.as_str()).collect();
        match self.claims.iter().find(|id| !ids.contains(&id.as_str())) {
            None => Ok(()),
            Some(unknown) => {
                let directory = self.papers.first().and_then(|paper| paper.directory.parent());
                let place = directory.unwrap_or(std::path::Path::new("papers"));
                Err(Problem::wrong(
                    place,
                    format!("there is no claim `{unknown}`"),
                    format!("some of {}", ids.join(", ")),
                ))
            }
        }
    }

    /// Returns whether the claim `id` is requested.
    #[must_use]
    pub fn asks(&self, id: &str) -> bool {
        self.claims.is_empty() || self.claims.iter().any(|asked| asked == id)
    }

    /// Returns the selected experiments of `paper`: those that test a requested claim.
    pub fn experiments(&self, paper: &'p Paper) -> impl Iterator<Item = &'p Experiment> {
        paper.experiments.iter().filter(|experiment| experiment.claims.iter().any(|id| self.asks(id)))
    }

    fn seeds(&self, experiment: &Experiment) -> u32 {
        match self.extent {
            Extent::Smoke => 1,
            _ => self.seeds.unwrap_or_else(|| experiment.seeds(self.extent)),
        }
    }

    /// Returns the points of the suite with their seeds: the points of each experiment, in order.
    fn plan(&self) -> Vec<Block<'p>> {
        let first_seed = self.first_seed.unwrap_or(1);
        let mut plan = Vec::new();
        for (paper, of) in self.papers.iter().enumerate() {
            for experiment in self.experiments(of) {
                let seeds = self.seeds(experiment);
                let block = |point| Block { paper, experiment, point, first_seed, seeds };
                plan.extend(experiment.points(self.extent).into_iter().map(block));
            }
        }
        plan
    }

    /// Returns whether points that depend on chance have more seeds than the other points.
    fn extends(&self) -> bool {
        self.extent == Extent::Usual && self.seeds.is_none()
    }

    /// Returns every run of the suite: for each experiment, all seeds of the first point, then all seeds of the next.
    /// Further seeds of points that depend on chance are not included.
    ///
    /// # Errors
    /// A template cannot be rendered, or its text is not a valid scenario.
    pub fn cells(&self) -> Result<Vec<Cell<'p>>, Problem> {
        plan::cells(&self.plan(), self.extent, 1)
    }

    /// Returns the runs in the simulator that are not in `store`, the longest run first. When all of these runs are in
    /// the store, further seeds of points that depend on chance may be open: call this function until it returns no
    /// run.
    ///
    /// # Errors
    /// The errors of [`cells`](Suite::cells), or a check cannot be evaluated.
    pub fn open_cells(&self, store: &Store) -> Result<Vec<Cell<'p>>, Problem> {
        let open = |plan: &[Block<'p>]| -> Result<Vec<Cell<'p>>, Problem> {
            let mut open = plan::cells(plan, self.extent, 1)?;
            open.retain(|cell| store.get(&cell.inputs()).is_none());
            open.sort_by_key(|cell| std::cmp::Reverse(cell.length));
            Ok(open)
        };
        let mut plan = self.plan();
        let first = open(&plan)?;
        if !first.is_empty() || !self.extends() {
            return Ok(first);
        }
        self.extend(&mut plan, store, 1)?;
        open(&plan)
    }

    /// Adds the further seeds of points that depend on chance, by the results of `plan` in `store`.
    fn extend(&self, plan: &mut [Block<'p>], store: &Store, threads: usize) -> Result<(), Problem> {
        let results = self.stored(plan, store, threads, |cell| cell.inputs())?;
        plan::extend(plan, self.papers, &results, |id| self.asks(id))
    }

    /// Returns the results of `plan` in `store`, which has all its runs under the keys that `key` returns.
    fn stored(
        &self,
        plan: &[Block<'p>],
        store: &Store,
        threads: usize,
        key: impl Fn(&Cell<'_>) -> String,
    ) -> Result<Vec<Results>, Problem> {
        let cells = plan::cells(plan, self.extent, threads)?;
        let mut measured = cells.iter().map(|cell| store.get(&key(cell)).cloned().expect("the run is stored"));
        Ok(plan::gather(plan, self.papers.len(), &mut measured))
    }

    /// Runs the cells that are not in `store`, and returns the measurements of each paper.
    ///
    /// # Errors
    /// A run fails, its outcome cannot be stored, or the suite was interrupted. An interruption cancels the current
    /// runs. Finished runs are in the store.
    ///
    /// # Panics
    /// Panics if a run panics.
    pub fn play(&self, store: &Mutex<Store>, stage: Stage<'_>, watch: &dyn Watch) -> Result<Vec<Results>, Problem> {
        self.check()?;
        let mut plan = self.plan();
        self.play_plan(&plan, store, stage, watch)?;
        let locked = || store.lock().expect("no thread panics while it holds the lock");
        if self.extends() && matches!(stage, Stage::Simulator(_)) {
            self.extend(&mut plan, &locked(), stage.threads())?;
            self.play_plan(&plan, store, stage, watch)?;
        }
        let machine = match stage {
            Stage::Simulator(_) => None,
            Stage::Host(host) => Some(host.machine()),
        };
        let results = self.stored(&plan, &locked(), stage.threads(), |cell| stage.key(cell))?;
        Ok(results.into_iter().map(|results| Results { machine: machine.clone(), ..results }).collect())
    }

    /// Runs the cells of `plan` that are not in `store`.
    fn play_plan(
        &self,
        plan: &[Block<'p>],
        store: &Mutex<Store>,
        stage: Stage<'_>,
        watch: &dyn Watch,
    ) -> Result<(), Problem> {
        let cells = plan::cells(plan, self.extent, stage.threads())?;
        if let Stage::Host(_) = stage {
            cells.iter().try_for_each(|cell| cell.mechanism().map(drop))?;
        }
        play(&cells, store, stage, watch)
    }

    /// Returns the results of `paper` in `store`, without running experiments. An experiment is included if all its
    /// points are in the store, with the seeds that are stored for every point. A point has more seeds if all further
    /// seeds of a point that depends on chance are stored.
    ///
    /// # Errors
    /// A template cannot be rendered, or its text is not a valid scenario.
    pub fn known(&self, paper: &'p Paper, store: &Store) -> Result<Results, Problem> {
        let mut results = Results { version: env!("CARGO_PKG_VERSION").to_string(), ..Results::default() };
        let first = self.first_seed.unwrap_or(1);
        for experiment in self.experiments(paper) {
            let wanted = self.seeds(experiment);
            let most = if self.extends() { wanted.max(CHANCE_SEEDS) } else { wanted };
            let mut rows = Vec::new();
            for point in experiment.points(self.extent) {
                let mut seeds = Vec::new();
                for seed in first..first + most {
                    match store.get(&Cell::new(experiment, self.extent, &point, seed)?.inputs()) {
                        Some(measured) => seeds.push(measured.clone()),
                        None => break,
                    }
                }
                rows.push(Row { point, seeds });
            }
            let least = rows.iter().map(|row| row.seeds.len()).min().unwrap_or(0);
            let is_whole = |row: &Row| least >= wanted as usize && row.seeds.len() == most as usize;
            if least > 0 {
                let kept = least.min(wanted as usize);
                rows.iter_mut().filter(|row| !is_whole(row)).for_each(|row| row.seeds.truncate(kept));
                results.experiments.insert(experiment.name.clone(), rows);
            }
        }
        Ok(results)
    }
}

/// Runs the cells that are not in `store` on `stage`.
///
/// # Errors
/// A run fails, its outcome cannot be stored, or the suite was interrupted.
pub(crate) fn play(
    cells: &[Cell<'_>],
    store: &Mutex<Store>,
    stage: Stage<'_>,
    watch: &dyn Watch,
) -> Result<(), Problem> {
    play_tolerating(cells, store, stage, watch, &|_, why| Err(why))
}

/// Runs the cells that are not in `store` on `stage`. `fails` gets the number and the reason of each run that fails, and
/// returns whether the others go on.
///
/// # Errors
/// An outcome cannot be stored, the suite was interrupted, or the error of `fails`.
pub(crate) fn play_tolerating(
    cells: &[Cell<'_>],
    store: &Mutex<Store>,
    stage: Stage<'_>,
    watch: &dyn Watch,
    fails: &(dyn Fn(usize, Problem) -> Result<(), Problem> + Sync),
) -> Result<(), Problem> {
    let locked = || store.lock().expect("no thread panics while it holds the lock");
    let inputs: Vec<String> = cells.iter().map(|cell| stage.key(cell)).collect();
    let mut open: Vec<usize> = {
        let store = locked();
        (0..cells.len()).filter(|&nth| store.get(&inputs[nth]).is_none()).collect()
    };
    stage.order(&mut open, cells);
    let left = open.iter().fold(0_u64, |sum, &nth| sum.saturating_add(cells[nth].length.as_ns()));
    watch.begins(Nanos::ns(left.min(sched::time::SPAN_MAX.as_ns())), cells.len(), cells.len() - open.len());
    crate::parallel::in_order(open.len(), stage.threads(), |nth| {
        let nth = open[nth];
        if watch.is_interrupted() {
            return Err(Problem::Interrupted);
        }
        let mut reached = Instant::ZERO;
        let goes_on = |progress: Progress| {
            watch.simulated(progress.now.since(reached));
            reached = progress.now;
            !watch.is_interrupted()
        };
        let outcome = match stage {
            Stage::Simulator(_) => cells[nth].play(goes_on),
            Stage::Host(host) => cells[nth].play_live(host),
        };
        let outcome = match outcome {
            Ok(None) | Err(Problem::Interrupted) => return Err(Problem::Interrupted),
            Ok(Some(measured)) => locked().put(&inputs[nth], measured),
            Err(why) => fails(nth, why),
        };
        watch.simulated(cells[nth].length.saturating_sub(reached.since(Instant::ZERO)));
        watch.played(&cells[nth]);
        outcome
    })
    .map(drop)
}

/// A watch that shows no progress.
#[derive(Clone, Copy, Debug)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn begins(&self, _length: Nanos, _cells: usize, _known: usize) {}

    fn is_interrupted(&self) -> bool {
        false
    }
}

/// Returns the differences between two results of the same experiments, each with its experiment, point, seed and
/// metric. Compares the points and metrics of `anew`; a point or metric that is not in `recorded` is a difference.
#[must_use]
pub fn differences(recorded: &Results, anew: &Results) -> Vec<String> {
    let mut found = Vec::new();
    for (name, rows) in &anew.experiments {
        let before = recorded.experiments.get(name).map_or(&[][..], Vec::as_slice);
        for row in rows {
            let Some(other) = before.iter().find(|other| other.point == row.point) else {
                found.push(format!("{name} at {}: it is not recorded", shown(&row.point)));
                continue;
            };
            for (seed, (one, two)) in other.seeds.iter().zip(&row.seeds).enumerate() {
                let differs = two.iter().filter(|(metric, value)| one.get(*metric) != Some(value));
                found.extend(differs.map(|(metric, value)| {
                    let was = one.get(metric).map_or_else(|| "nothing".to_string(), ToString::to_string);
                    format!(
                        "{name} at {}, seed {}: {metric} is {value}, recorded is {was}",
                        shown(&row.point),
                        seed + 1
                    )
                }));
            }
        }
    }
    found
}
