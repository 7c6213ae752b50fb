//! [`RunResult`]: the report of a run, its tables and its pictures.

use crate::failure::{internal_error, wrong};
use crate::files::{self, Format};
use crate::repeat::Finished;
use crate::samples::{Measure, Samples};
use crate::scenario::PyScenario;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use indexmap::IndexMap;
use lab::plot::Figure;
use pyo3::prelude::*;
use pyo3_arrow::PyTable;
use report::{Report, Runs, Widths};
use run::Observers;
use sched::{Instant, Nanos};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use trace::svg::{self, Picture};
use trace::{WorldTimeline, WorldWatch};

/// Width of text tables, in which no table omits a column. Unit: characters.
const COLUMNS: u16 = 250;
/// Maximum number of rows of a picture.
const ROWS_MOST: usize = 40;

/// What a run recorded besides its report.
pub(crate) struct Recorded {
    pub(crate) trace: Option<(Vec<RecordBatch>, SchemaRef)>,
    pub(crate) switches: Option<[RecordBatch; 2]>,
    pub(crate) jobs: Option<RecordBatch>,
    pub(crate) findings: Option<Vec<String>>,
}

/// The result of a run.
#[pyclass(frozen, module = "tactus_sched", name = "Result")]
pub(crate) struct RunResult {
    pub(crate) finished: Finished,
    pub(crate) report: Report,
    pub(crate) recorded: Recorded,
    pub(crate) elapsed: Duration,
    pub(crate) scenario: Py<PyScenario>,
}

impl RunResult {
    /// Repeats the run until `to` and returns its schedule.
    fn schedule(&self, py: Python<'_>, to: Instant) -> PyResult<WorldTimeline> {
        let repeated = self.finished.repeat(py, |run, goes_on| {
            let mut watch = WorldWatch::new(&run.header()?, to);
            run.play_while(Observers::none().world(&mut watch), |progress| progress.now < to && goes_on(progress))?;
            Ok(watch.finish())
        })?;
        repeated.map_err(|why| internal_error(py, &why.to_string(), &self.finished.replay))
    }

    fn picture(&self, (from, to): (Instant, Instant), width: u32) -> Picture {
        let title = format!("{}: {}", self.report.scenario, self.report.policy);
        Picture { title, from, to, width, rows_most: ROWS_MOST, cpus: true }
    }

    /// Returns the window of a picture. By default, the window has the first tenth of the run, but at least 100 ms.
    fn window(&self, py: Python<'_>, from: u64, to: Option<u64>) -> PyResult<(Instant, Instant)> {
        let length = self.report.length_ns;
        let from = Instant::at_ns(from);
        let to = to.unwrap_or_else(|| (from.as_ns().saturating_add((length / 10).max(100_000_000))).min(length));
        if from.as_ns() < to && to <= length {
            return Ok((from, Instant::at_ns(to)));
        }
        let reason = format!("a picture from {from} to {} shows nothing", Instant::at_ns(to));
        Err(wrong(py, reason, format!("use a start before the end, both from 0 to {length} ns")))
    }

    fn table_of(&self, py: Python<'_>, recorded: Option<PyTable>, keyword: &str) -> PyResult<PyTable> {
        let reason = format!("the run has not recorded its {keyword}");
        recorded.ok_or_else(|| wrong(py, reason, format!("use run(…, {keyword}=True)")))
    }
}

fn table(batch: &RecordBatch) -> PyResult<PyTable> {
    PyTable::try_new(vec![batch.clone()], batch.schema())
}

#[pymethods]
impl RunResult {
    /// The report as JSON, byte for byte as `tactus sim --json` prints it.
    fn json(&self) -> String {
        runs_json(std::slice::from_ref(&self.report))
    }

    /// The report as a dict.
    #[getter]
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let report = serde_json::to_string(&self.report).expect("a report is JSON");
        py.import("json")?.call_method1("loads", (report,))
    }

    /// Evaluates expressions over the report, in the language of experiments (`docs/experiments.md`), as JSON.
    fn _metrics(&self, py: Python<'_>, expressions: IndexMap<String, String>) -> PyResult<String> {
        let measured = lab::cell::metrics(&self.report, &expressions);
        let measured = measured.map_err(|why| wrong(py, why, "use an expression over `report` and its views"))?;
        Ok(serde_json::to_string(&measured).expect("measurements are JSON"))
    }

    #[getter]
    fn policy(&self) -> &str {
        &self.report.policy
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.report.seed
    }

    #[getter]
    fn elapsed(&self) -> f64 {
        self.elapsed.as_secs_f64()
    }

    #[getter]
    fn replay(&self) -> &str {
        &self.finished.replay
    }

    #[getter]
    fn scenario(&self, py: Python<'_>) -> Py<PyScenario> {
        self.scenario.clone_ref(py)
    }

    #[getter]
    fn broken_laws(&self) -> Option<Vec<String>> {
        self.recorded.findings.clone()
    }

    #[getter]
    fn trace(&self, py: Python<'_>) -> PyResult<PyTable> {
        let trace = self.recorded.trace.as_ref();
        let table = trace.map(|(batches, schema)| PyTable::try_new(batches.clone(), schema.clone())).transpose()?;
        self.table_of(py, table, "trace")
    }

    #[getter]
    fn jobs(&self, py: Python<'_>) -> PyResult<PyTable> {
        let table = self.recorded.jobs.as_ref().map(table).transpose()?;
        self.table_of(py, table, "jobs")
    }

    #[getter]
    fn sched_switch(&self, py: Python<'_>) -> PyResult<PyTable> {
        let table = self.recorded.switches.as_ref().map(|[switches, _]| table(switches)).transpose()?;
        self.table_of(py, table, "switches")
    }

    #[getter]
    fn sched_wakeup(&self, py: Python<'_>) -> PyResult<PyTable> {
        let table = self.recorded.switches.as_ref().map(|[_, wakeups]| table(wakeups)).transpose()?;
        self.table_of(py, table, "switches")
    }

    /// Draws the schedule as an SVG document.
    #[pyo3(signature = (from_ns = 0, to_ns = None, width = 1100))]
    fn svg<'py>(&self, py: Python<'py>, from_ns: u64, to_ns: Option<u64>, width: u32) -> PyResult<Bound<'py, PyAny>> {
        let window = self.window(py, from_ns, to_ns)?;
        let schedule = self.schedule(py, window.1)?;
        py.import("tactus_sched.pictures")?.call_method1("Svg", (self.picture(window, width).render_world(&schedule),))
    }

    /// Returns the samples of `measure` in milliseconds, by entity. Repeats the run.
    fn _samples(&self, py: Python<'_>, measure: &str) -> PyResult<BTreeMap<String, Vec<f64>>> {
        let measure = measure_of(py, measure)?;
        self.finished.repeat(py, |run, goes_on| {
            let header = run.header()?;
            let mut samples = Samples::new(&header.machines[0].header, measure, run.scenario.measured_from());
            run.play_while(Observers::none().host(&mut samples), goes_on)?;
            Ok(samples.of)
        })
    }

    /// Writes the trace of all machines.
    fn write_trace(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        files::write(py, &self.finished, Format::of(py, &path)?, &path)
    }

    /// Writes the trace of the first host in ftrace's text format.
    fn write_ftrace(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        files::write(py, &self.finished, Format::Ftrace, &path)
    }

    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        let table = py.import("html")?.call_method1("escape", (self.__str__(),))?;
        Ok(format!("{}<pre>{table}</pre>", self.svg(py, 0, None, 1_100)?))
    }

    fn __str__(&self) -> String {
        tables(std::slice::from_ref(&self.report))
    }

    fn __repr__(&self) -> String {
        let Report { scenario, policy, seed, length_ns, .. } = &self.report;
        format!("<Result {scenario:?}: {policy}, seed {seed}, {}>", Nanos::ns(*length_ns))
    }
}

fn measure_of(py: Python<'_>, name: &str) -> PyResult<Measure> {
    match name {
        "wait" => Ok(Measure::Wait),
        "response" => Ok(Measure::Response),
        other => Err(wrong(py, format!("there is no distribution of `{other}`"), "use wait or response")),
    }
}

/// Draws cumulative distributions of samples, named lists of numbers, as an SVG document.
#[pyfunction]
pub(crate) fn distribution_svg(
    py: Python<'_>,
    title: &str,
    about: &str,
    measure: &str,
    samples: Vec<(String, Vec<f64>)>,
) -> PyResult<String> {
    Ok(Figure::of_samples(title, about, measure_of(py, measure)?.label(), samples).svg())
}

fn runs_json(reports: &[Report]) -> String {
    report::json(&Runs { simulated: true, runs: reports }).expect("a report is JSON")
}

fn tables(reports: &[Report]) -> String {
    let widths = Widths(COLUMNS);
    let mut text = report::comparison(reports, widths);
    let groups = report::groups(reports, widths);
    if !groups.is_empty() {
        text += &format!("\nGroups:\n{groups}");
    }
    text + &report::gangs(reports) + &report::applications(reports) + &report::guests(reports, widths)
}

fn reports(results: &[PyRef<'_, RunResult>]) -> Vec<Report> {
    results.iter().map(|result| result.report.clone()).collect()
}

/// Returns the reports of several runs as JSON, as `tactus sim --policy A,B --json` prints them.
#[pyfunction]
pub(crate) fn comparison_json(results: Vec<PyRef<'_, RunResult>>) -> String {
    runs_json(&reports(&results))
}

/// Returns the reports of several runs as a table.
#[pyfunction]
pub(crate) fn comparison_table(results: Vec<PyRef<'_, RunResult>>) -> String {
    tables(&reports(&results))
}

/// Draws the schedules of several runs side by side. `width` is the width of each.
#[pyfunction]
#[pyo3(signature = (results, from_ns = 0, to_ns = None, width = 1100))]
pub(crate) fn comparison_svg(
    py: Python<'_>,
    results: Vec<PyRef<'_, RunResult>>,
    from_ns: u64,
    to_ns: Option<u64>,
    width: u32,
) -> PyResult<String> {
    let Some(first) = results.first() else { return Err(wrong(py, "there is no run to draw", "give a run")) };
    let title = first.report.scenario.clone();
    let mut drawn = Vec::with_capacity(results.len());
    for result in &results {
        let window = result.window(py, from_ns, to_ns)?;
        let picture = Picture { title: result.report.policy.clone(), ..result.picture(window, width) };
        drawn.push((picture, result.schedule(py, window.1)?));
    }
    let pictures: Vec<(&Picture, &WorldTimeline)> = drawn.iter().map(|(picture, world)| (picture, world)).collect();
    Ok(svg::worlds_side_by_side(&title, &pictures))
}
