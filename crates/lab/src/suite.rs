//! [`Suite`]: the selection of experiments, their runs, and their results.

use crate::cell::Cell;
use crate::experiment::{Experiment, Extent, shown};
use crate::live::Host;
use crate::paper::Paper;
use crate::problem::Problem;
use crate::results::{Measured, Results, Row};
use crate::store::Store;
use run::Progress;
use sched::{Instant, Nanos};
use std::sync::Mutex;

/// A selection of experiments of some papers, and the size at which they are run.
#[derive(Clone, Copy, Debug)]
pub struct Suite<'p> {
    /// The papers.
    pub papers: &'p [Paper],
    /// Claims whose experiments are run; empty: all claims.
    pub claims: &'p [String],
    /// Size of each experiment.
    pub extent: Extent,
    /// Number of seeds. `None`: each experiment has its own number of seeds.
    pub seeds: Option<u32>,
}

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

    /// Returns every run of the suite: for each experiment, all seeds of the first point, then all seeds of the next.
    ///
    /// # Errors
    /// A template cannot be rendered, or its text is not a valid scenario.
    pub fn cells(&self) -> Result<Vec<Cell<'p>>, Problem> {
        let mut cells = Vec::new();
        for experiment in self.papers.iter().flat_map(|paper| self.experiments(paper)) {
            for point in experiment.points(self.extent) {
                for seed in 1..=self.seeds(experiment) {
                    cells.push(Cell::new(experiment, self.extent, &point, seed)?);
                }
            }
        }
        Ok(cells)
    }

    /// Returns the runs in the simulator that are not in `store`, the longest run first.
    ///
    /// # Errors
    /// The errors of [`cells`](Suite::cells).
    pub fn open_cells(&self, store: &Store) -> Result<Vec<Cell<'p>>, Problem> {
        let mut open = self.cells()?;
        open.retain(|cell| store.get(&cell.inputs()).is_none());
        open.sort_by_key(|cell| std::cmp::Reverse(cell.length));
        Ok(open)
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
        let cells = self.cells()?;
        if let Stage::Host(_) = stage {
            cells.iter().try_for_each(|cell| cell.mechanism().map(drop))?;
        }
        let inputs: Vec<String> = cells.iter().map(|cell| stage.key(cell)).collect();
        let known: Vec<bool> = {
            let store = store.lock().expect("no thread panics while it holds the lock");
            inputs.iter().map(|inputs| store.get(inputs).is_some()).collect()
        };
        let mut open: Vec<usize> = (0..cells.len()).filter(|&nth| !known[nth]).collect();
        stage.order(&mut open, &cells);
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
            let measured = match stage {
                Stage::Simulator(_) => cells[nth].play(goes_on)?,
                Stage::Host(host) => cells[nth].play_live(host)?,
            };
            let measured = measured.ok_or(Problem::Interrupted)?;
            watch.simulated(cells[nth].length.saturating_sub(reached.since(Instant::ZERO)));
            watch.played(&cells[nth]);
            store.lock().expect("no thread panics while it holds the lock").put(&inputs[nth], measured)
        })?;
        let store = store.lock().expect("no thread panics while it holds the lock");
        let mut measured = inputs.iter().map(|inputs| store.get(inputs).cloned().expect("it was played"));
        let machine = match stage {
            Stage::Simulator(_) => None,
            Stage::Host(host) => Some(host.machine()),
        };
        let gather = |paper| Results { machine: machine.clone(), ..self.gather(paper, &mut measured) };
        Ok(self.papers.iter().map(gather).collect())
    }

    /// Returns the results of `paper` in `store`, without running experiments. An experiment is included if all its
    /// points are in the store, with the seeds that are stored for every point.
    ///
    /// # Errors
    /// A template cannot be rendered, or its text is not a valid scenario.
    pub fn known(&self, paper: &'p Paper, store: &Store) -> Result<Results, Problem> {
        let mut results = Results { version: env!("CARGO_PKG_VERSION").to_string(), ..Results::default() };
        for experiment in self.experiments(paper) {
            let mut rows = Vec::new();
            for point in experiment.points(self.extent) {
                let mut seeds = Vec::new();
                for seed in 1..=self.seeds(experiment) {
                    match store.get(&Cell::new(experiment, self.extent, &point, seed)?.inputs()) {
                        Some(measured) => seeds.push(measured.clone()),
                        None => break,
                    }
                }
                rows.push(Row { point, seeds });
            }
            let least = rows.iter().map(|row| row.seeds.len()).min().unwrap_or(0);
            if least > 0 {
                rows.iter_mut().for_each(|row| row.seeds.truncate(least));
                results.experiments.insert(experiment.name.clone(), rows);
            }
        }
        Ok(results)
    }

    /// Takes the measurements of `paper` from `measured`, which has them in the order of the cells.
    fn gather(&self, paper: &'p Paper, measured: &mut dyn Iterator<Item = Measured>) -> Results {
        let mut results = Results { version: env!("CARGO_PKG_VERSION").to_string(), ..Results::default() };
        for experiment in self.experiments(paper) {
            let row = |point| {
                let seeds =
                    (0..self.seeds(experiment)).map(|_| measured.next().expect("each cell was measured")).collect();
                Row { point, seeds }
            };
            let rows: Vec<Row> = experiment.points(self.extent).into_iter().map(row).collect();
            if !rows.is_empty() {
                results.experiments.insert(experiment.name.clone(), rows);
            }
        }
        results
    }
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
