//! [`LabSuite`] and [`LabCell`]: the experiments of papers, whose runs may take place in other processes. [`PyStore`]:
//! the finished runs that the command keeps, too.

use crate::failure::{internal_error, lab_error, without_panic, wrong};
use indexmap::IndexMap;
use lab::cell::Cell;
use lab::evidence::Given;
use lab::experiment::{Extent, Point, shown};
use lab::judge::{Verdict, judge};
use lab::plot::Figure;
use lab::results::Measured;
use lab::store::{SOURCES, Store};
use lab::{Experiment, Paper, Problem, Suite};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

fn extent(py: Python<'_>, name: &str) -> PyResult<Extent> {
    match name {
        "usual" => Ok(Extent::Usual),
        "full" => Ok(Extent::Full),
        "smoke" => Ok(Extent::Smoke),
        other => Err(wrong(py, format!("there is no extent `{other}`"), "use usual, full or smoke")),
    }
}

fn extent_name(extent: Extent) -> &'static str {
    match extent {
        Extent::Usual => "usual",
        Extent::Full => "full",
        Extent::Smoke => "smoke",
    }
}

/// One run of an experiment, at one point with one seed. It has the texts of the experiment, so that any process can
/// run it.
#[pyclass(frozen, module = "tactus_sched._native")]
pub(crate) struct LabCell {
    experiment: Arc<Experiment>,
    extent: Extent,
    point: Point,
    seed: u32,
    length_ns: u64,
    inputs: String,
}

/// The texts of an experiment, from which another process reads it.
#[derive(Serialize, Deserialize)]
struct Texts {
    path: PathBuf,
    text: String,
    template: String,
    /// Parameters of the paper that the experiment uses.
    parameters: IndexMap<String, Given>,
}

impl LabCell {
    fn of(cell: &Cell<'_>, experiment: Arc<Experiment>, extent: Extent) -> LabCell {
        LabCell {
            experiment,
            extent,
            point: cell.point.clone(),
            seed: cell.seed,
            length_ns: cell.length.as_ns(),
            inputs: cell.inputs(),
        }
    }

    fn point_json(&self) -> String {
        serde_json::to_string(&self.point).expect("a point is JSON")
    }
}

#[pymethods]
impl LabCell {
    #[new]
    fn new(py: Python<'_>, experiment: &str, extent: &str, point: &str, seed: u32) -> PyResult<LabCell> {
        let extent = self::extent(py, extent)?;
        let not_json = |what: &str, why| wrong(py, format!("the {what} is not JSON: {why}"), "use a pickled cell");
        let texts: Texts = serde_json::from_str(experiment).map_err(|why| not_json("experiment", why))?;
        let point: Point = serde_json::from_str(point).map_err(|why| not_json("point", why))?;
        let of_texts = || -> Result<LabCell, Problem> {
            let Texts { path, text, template, parameters } = texts;
            let experiment = Arc::new(Experiment::from_texts(&path, text, template, parameters)?);
            let cell = Cell::new(&experiment, extent, &point, seed)?;
            Ok(LabCell::of(&cell, Arc::clone(&experiment), extent))
        };
        of_texts().map_err(|why| lab_error(py, &why))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let Experiment { path, template, parameters, .. } = &*self.experiment;
        let text = self.experiment.text().map_err(|why| lab_error(py, &why))?;
        let (path, template, parameters) = (path.clone(), template.clone(), parameters.clone());
        let texts = serde_json::to_string(&Texts { path, text, template, parameters }).expect("texts are JSON");
        let arguments = (texts, extent_name(self.extent), self.point_json(), self.seed);
        Ok((py.get_type::<LabCell>().into_any(), arguments.into_pyobject(py)?))
    }

    fn __repr__(&self) -> String {
        format!("<LabCell {}: {}, seed {}>", self.experiment.name, shown(&self.point), self.seed)
    }

    #[getter]
    fn experiment(&self) -> &str {
        &self.experiment.name
    }

    #[getter]
    fn point(&self) -> String {
        self.point_json()
    }

    #[getter]
    fn seed(&self) -> u32 {
        self.seed
    }

    #[getter]
    fn length_ns(&self) -> u64 {
        self.length_ns
    }

    /// Runs the cell and returns its measurements as JSON.
    #[pyo3(signature = (goes_on = None))]
    fn play(&self, py: Python<'_>, goes_on: Option<Py<PyAny>>) -> PyResult<String> {
        let mut watch = crate::watch::Watch::of(goes_on, None);
        let played = py.detach(|| {
            without_panic(|| {
                let cell = Cell::new(&self.experiment, self.extent, &self.point, self.seed)?;
                cell.play(|progress| watch.goes_on(progress))
            })
        });
        if let Some(raised) = watch.raised {
            return Err(raised);
        }
        match played {
            Err(message) => Err(internal_error(py, &message, &self.__repr__())),
            Ok(Err(why)) => Err(lab_error(py, &why)),
            Ok(Ok(None)) => Err(crate::failure::stopped(py, watch.stopped_ns.unwrap_or_default())),
            Ok(Ok(Some(measured))) => Ok(serde_json::to_string(&measured).expect("measurements are JSON")),
        }
    }
}

/// The finished runs in a directory, in the format of the command.
#[pyclass(frozen, module = "tactus_sched._native", name = "Store")]
pub(crate) struct PyStore(Mutex<Store>);

impl PyStore {
    fn lock(&self) -> MutexGuard<'_, Store> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn measured_of(py: Python<'_>, json: &str) -> PyResult<Measured> {
    serde_json::from_str(json)
        .map_err(|why| wrong(py, format!("the measurements are not JSON: {why}"), "use an object of values by name"))
}

#[pymethods]
impl PyStore {
    #[new]
    fn new(py: Python<'_>, directory: PathBuf) -> PyResult<PyStore> {
        let store = Store::open(&directory, SOURCES).map_err(|why| lab_error(py, &why))?;
        Ok(PyStore(Mutex::new(store)))
    }

    /// Returns the measurements of the run with these inputs as JSON; `None`: the run is not in the store.
    fn get(&self, inputs: &str) -> Option<String> {
        self.lock().get(inputs).map(|measured| serde_json::to_string(measured).expect("measurements are JSON"))
    }

    /// Stores the measurements of the run with these inputs.
    fn put(&self, py: Python<'_>, inputs: &str, measured: &str) -> PyResult<()> {
        let measured = measured_of(py, measured)?;
        self.lock().put(inputs, measured).map_err(|why| lab_error(py, &why))
    }
}

/// A selection of experiments of the papers in a directory.
#[pyclass(frozen, module = "tactus_sched._native")]
pub(crate) struct LabSuite {
    papers: Vec<Paper>,
    claims: Vec<String>,
    extent: Extent,
    seeds: Option<u32>,
}

impl LabSuite {
    fn suite(&self) -> Suite<'_> {
        Suite { papers: &self.papers, claims: &self.claims, extent: self.extent, seeds: self.seeds, first_seed: None }
    }
}

/// The verdicts on a paper.
#[derive(Serialize)]
struct Judged<'p> {
    paper: &'p str,
    verdicts: Vec<Verdict<'p>>,
}

#[pymethods]
impl LabSuite {
    #[new]
    #[pyo3(signature = (papers, claims = Vec::new(), extent = "usual", seeds = None))]
    fn new(
        py: Python<'_>,
        papers: PathBuf,
        claims: Vec<String>,
        extent: &str,
        seeds: Option<u32>,
    ) -> PyResult<LabSuite> {
        let extent = self::extent(py, extent)?;
        let papers = Paper::all(Path::new(&papers)).map_err(|why| lab_error(py, &why))?;
        let suite = LabSuite { papers, claims, extent, seeds };
        suite.suite().check().map_err(|why| lab_error(py, &why))?;
        Ok(suite)
    }

    /// Number of all runs.
    #[getter]
    fn size(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.suite().cells().map_err(|why| lab_error(py, &why))?.len())
    }

    /// Returns the runs that are not in `store`, the longest run first.
    fn cells(&self, py: Python<'_>, store: &Bound<'_, PyStore>) -> PyResult<Vec<LabCell>> {
        let open = self.suite().open_cells(&store.get().lock()).map_err(|why| lab_error(py, &why))?;
        let mut shared: Vec<(*const Experiment, Arc<Experiment>)> = Vec::new();
        let cell = |cell: Cell<'_>| {
            let at = std::ptr::from_ref(cell.experiment);
            let known = shared.iter().find(|(of, _)| *of == at).map(|(_, experiment)| Arc::clone(experiment));
            let experiment = known.unwrap_or_else(|| {
                let experiment = Arc::new(cell.experiment.clone());
                shared.push((at, Arc::clone(&experiment)));
                experiment
            });
            LabCell::of(&cell, experiment, self.extent)
        };
        Ok(open.into_iter().map(cell).collect())
    }

    /// Stores the measurements of `cell`.
    fn put(&self, py: Python<'_>, store: &Bound<'_, PyStore>, cell: &Bound<'_, LabCell>, json: &str) -> PyResult<()> {
        store.get().put(py, &cell.get().inputs, json)
    }

    /// Returns the figures of the selected experiments whose runs are in `store`: SVG documents by name.
    fn figures(&self, py: Python<'_>, store: &Bound<'_, PyStore>) -> PyResult<BTreeMap<String, String>> {
        let (suite, store) = (self.suite(), store.get().lock());
        let drawn = || -> Result<BTreeMap<String, String>, Problem> {
            let mut figures = BTreeMap::new();
            for paper in &self.papers {
                let results = suite.known(paper, &store)?;
                for experiment in suite.experiments(paper) {
                    for plot in &experiment.plot {
                        if let Some(figure) = Figure::of(&paper.key, experiment, plot, &results)? {
                            figures.insert(format!("{}/{}", paper.key, plot.name), figure.svg());
                        }
                    }
                }
            }
            Ok(figures)
        };
        drawn().map_err(|why| lab_error(py, &why))
    }

    /// Returns the verdicts on the selected claims as JSON.
    fn verdicts(&self, py: Python<'_>, store: &Bound<'_, PyStore>) -> PyResult<String> {
        let suite = self.suite();
        if !self.cells(py, store)?.is_empty() {
            return Err(PyKeyError::new_err("some runs are not in the store"));
        }
        let store = store.get().lock();
        let of_paper = |paper| -> Result<Option<Judged<'_>>, Problem> {
            if suite.experiments(paper).next().is_none() {
                return Ok(None);
            }
            let results = suite.known(paper, &store)?;
            Ok(Some(Judged { paper: &paper.key, verdicts: judge(paper, &results, |id| suite.asks(id))? }))
        };
        let judged: Result<Vec<_>, Problem> =
            self.papers.iter().filter_map(|paper| of_paper(paper).transpose()).collect();
        let judged = judged.map_err(|why| lab_error(py, &why))?;
        Ok(serde_json::to_string(&judged).expect("verdicts are JSON"))
    }
}
