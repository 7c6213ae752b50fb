//! [`PyScenario`]: a scenario or a task set, with all files to which it refers, so that it can be pickled.

use crate::failure::{input_error, wrong};
use crate::replay::{Options, quoted};
use input::files::{Files, Unreadable};
use input::problem::Problems;
use lab::disk::{self, Disk};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use scenario::taskset::{self, Task};
use scenario::{Scenario, vary};
use sched::Nanos;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// The contents of files, by path.
type Contents = BTreeMap<String, Vec<u8>>;

/// Reads files from memory, then from the disk, and keeps what it has read.
#[derive(Debug, Default)]
struct KeptFiles(Mutex<Contents>);

impl Files for KeptFiles {
    fn read(&self, name: &str) -> Result<Vec<u8>, Unreadable> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = kept.get(name) {
            return Ok(bytes.clone());
        }
        let bytes = Disk.read(name)?;
        kept.insert(name.to_string(), bytes.clone());
        Ok(bytes)
    }
}

/// The form of a scenario's text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// TOML: `docs/scenarios.md`.
    Toml,
    /// A task set in CSV, on this number of CPUs for this length.
    Tasks { cpus: usize, length: Nanos, is_partitioned: bool },
}

/// A scenario: machines, their VMs and tasks, and a length. Immutable.
#[pyclass(frozen, module = "tactus_sched", name = "Scenario")]
pub(crate) struct PyScenario {
    /// Name of the file, which errors contain.
    name: String,
    text: String,
    files: Contents,
    pub(crate) form: Form,
    /// Whether the scenario was read from the file `name`.
    is_in_file: bool,
    pub(crate) scenario: Arc<Scenario>,
}

impl PyScenario {
    fn read(name: &str, text: &str, files: Contents) -> Result<PyScenario, Problems> {
        let kept = Arc::new(KeptFiles(Mutex::new(files)));
        let scenario = Scenario::with_files(name, text.as_bytes().to_vec(), Arc::clone(&kept) as Arc<dyn Files>)?;
        let files = kept.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(PyScenario {
            name: name.to_string(),
            text: text.to_string(),
            files,
            form: Form::Toml,
            is_in_file: false,
            scenario: scenario.into(),
        })
    }

    fn with_tasks(name: &str, text: &str, form: Form) -> Result<PyScenario, Problems> {
        let Form::Tasks { cpus, length, .. } = form else { unreachable!("the caller has tasks") };
        let tasks: Vec<Task> = taskset::from_bytes(name, text.as_bytes().to_vec())?;
        let title = name.rsplit('/').next().unwrap_or(name);
        let scenario = taskset::scenario(title, &tasks, cpus, length);
        Ok(PyScenario {
            name: name.to_string(),
            text: text.to_string(),
            files: Contents::new(),
            form,
            is_in_file: false,
            scenario: scenario.into(),
        })
    }

    /// Returns whether the scenario is a task set.
    pub(crate) fn is_tasks(&self) -> bool {
        self.form != Form::Toml
    }

    /// Returns the command that repeats a run of this scenario. `None`: the scenario is not in a file, or not in this
    /// form.
    pub(crate) fn command(&self, options: &Options<'_>) -> Option<String> {
        let file = quoted(&self.name);
        let input = match self.form {
            _ if !self.is_in_file => return None,
            Form::Toml => file,
            Form::Tasks { cpus, length, is_partitioned } => {
                let seconds = length.as_ns() / 1_000_000_000;
                if Nanos::s(seconds) != length {
                    return None;
                }
                let partitioned = if is_partitioned { " --partitioned" } else { "" };
                format!("--tasks {file} --cpus {cpus} --seconds {seconds}{partitioned}")
            }
        };
        Some(options.command(&input))
    }
}

#[pymethods]
impl PyScenario {
    #[new]
    #[pyo3(signature = (text, name = "scenario.toml", files = None))]
    fn new(py: Python<'_>, text: &str, name: &str, files: Option<Contents>) -> PyResult<PyScenario> {
        PyScenario::read(name, text, files.unwrap_or_default()).map_err(|why| input_error(py, &why))
    }

    #[staticmethod]
    fn from_file(py: Python<'_>, path: PathBuf) -> PyResult<PyScenario> {
        let name = path.display().to_string();
        let read = || {
            let source = input::text::decode(&name, disk::read(&path)?)?;
            let scenario = PyScenario::read(&name, source.text(), Contents::new())?;
            Ok(PyScenario { is_in_file: true, ..scenario })
        };
        read().map_err(|why| input_error(py, &why))
    }

    /// Converts a dict with the keys of a scenario's TOML.
    #[staticmethod]
    #[pyo3(signature = (values, *, name = "scenario.toml", files = None))]
    fn from_dict(values: &Bound<'_, PyAny>, name: &str, files: Option<Contents>) -> PyResult<PyScenario> {
        let py = values.py();
        let text = toml_of(values)?;
        PyScenario::new(py, &text, name, files)
    }

    /// Converts a file of rt-app, or a dict with its content.
    #[staticmethod]
    #[pyo3(signature = (source, *, cpus = 1, length = "10s", policy = None))]
    fn from_rtapp(source: &Bound<'_, PyAny>, cpus: usize, length: &str, policy: Option<&str>) -> PyResult<PyScenario> {
        let py = source.py();
        let (file, files) = match source.extract::<PathBuf>() {
            Ok(path) => (path.display().to_string(), Contents::new()),
            Err(_) => {
                let json: String = py.import("json")?.call_method1("dumps", (source,))?.extract()?;
                ("rt-app.json".to_string(), Contents::from([("rt-app.json".to_string(), json.into_bytes())]))
            }
        };
        let values = PyDict::new(py);
        values.set_item("name", file.rsplit('/').next())?;
        values.set_item("cpus", cpus)?;
        values.set_item("length", length)?;
        if let Some(policy) = policy {
            values.set_item("policy", policy)?;
        }
        let (task, workload) = (PyDict::new(py), PyDict::new(py));
        workload.set_item("rt-app", file)?;
        task.set_item("name", "rt-app")?;
        task.set_item("workload", workload)?;
        values.set_item("task", vec![task])?;
        PyScenario::new(py, &toml_of(values.as_any())?, "scenario.toml", Some(files))
    }

    /// Makes the scenario of a task set: a CSV file, or pairs of period and execution time in microseconds.
    #[staticmethod]
    #[pyo3(signature = (tasks, *, cpus = 1, length = "1s", partitioned = false))]
    fn from_tasks(tasks: &Bound<'_, PyAny>, cpus: usize, length: &str, partitioned: bool) -> PyResult<PyScenario> {
        let py = tasks.py();
        let raised = |why: Problems| input_error(py, &why);
        let path = tasks.extract::<PathBuf>().ok();
        let is_in_file = path.is_some();
        let (name, csv) = match path {
            Some(path) => {
                let name = path.display().to_string();
                let read = disk::read(&path).and_then(|bytes| input::text::decode(&name, bytes));
                (name, read.map_err(raised)?.text().to_string())
            }
            None => {
                let pairs: Vec<(u64, u64)> = tasks.extract().map_err(|_| {
                    let remedy = "use pairs of whole numbers of microseconds: [(10_000, 2_000)]";
                    wrong(py, "the tasks are not pairs of period and execution time", remedy)
                })?;
                let row = |(nth, (period, wcet)): (usize, (u64, u64))| format!("{},{period},{wcet}\n", nth + 1);
                let rows: String = pairs.into_iter().enumerate().map(row).collect();
                ("tasks.csv".to_string(), format!("id,period_us,wcet_us\n{rows}"))
            }
        };
        let length = input::duration::length(length).map_err(raised)?;
        let scenario = PyScenario::_from_csv(py, &csv, cpus, length.as_ns(), partitioned, name)?;
        Ok(PyScenario { is_in_file, ..scenario })
    }

    /// Makes the scenario of a task set in CSV. Pickled task sets are read with this function.
    #[staticmethod]
    fn _from_csv(
        py: Python<'_>,
        csv: &str,
        cpus: usize,
        length_ns: u64,
        partitioned: bool,
        name: String,
    ) -> PyResult<PyScenario> {
        if !(1..=sched::id::CPUS_MAX).contains(&cpus) {
            return Err(wrong(py, format!("{cpus} CPUs are out of range"), "use 1 to 1024 CPUs"));
        }
        let form = Form::Tasks { cpus, length: Nanos::ns(length_ns), is_partitioned: partitioned };
        PyScenario::with_tasks(&name, csv, form).map_err(|why| input_error(py, &why))
    }

    /// Returns a copy in which the key at `path` has `value`, both as in `tactus sim --vary`.
    fn set(&self, path: &str, value: &Bound<'_, PyAny>) -> PyResult<PyScenario> {
        let py = value.py();
        let value = match value.extract::<bool>() {
            Ok(switch) => switch.to_string(),
            Err(_) => value.str()?.to_string(),
        };
        if self.is_tasks() {
            return Err(wrong(py, "a task set has no keys", "make another task set with Scenario.from_tasks"));
        }
        let varied = vary::set(&self.text, path, &value).map_err(|wrong| Problems::from(wrong.anywhere(None)));
        varied
            .and_then(|text| PyScenario::read(&self.name, &text, self.files.clone()))
            .map_err(|why| input_error(py, &why))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let class = py.get_type::<PyScenario>();
        match self.form {
            Form::Toml => {
                let files = self.files();
                Ok((class.into_any(), (&self.text, &self.name, files).into_pyobject(py)?))
            }
            Form::Tasks { cpus, length, is_partitioned } => Ok((
                class.getattr("_from_csv")?,
                (&self.text, cpus, length.as_ns(), is_partitioned, &self.name).into_pyobject(py)?,
            )),
        }
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        let Ok(other) = other.cast::<PyScenario>() else { return false };
        let other = other.get();
        (&self.name, &self.text, &self.files, &self.form) == (&other.name, &other.text, &other.files, &other.form)
    }

    fn __hash__(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        (&self.name, &self.text).hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self) -> String {
        let Scenario { name, host, length, .. } = &*self.scenario;
        format!("<Scenario {name:?}: {} CPUs, {length}>", host.cpus)
    }

    /// Text of the scenario: TOML, or CSV of a task set.
    #[getter]
    fn text(&self) -> &str {
        &self.text
    }

    /// Name of the file.
    #[getter]
    fn file(&self) -> &str {
        &self.name
    }

    /// Contents of the files to which the scenario refers.
    #[getter]
    fn files(&self) -> BTreeMap<&str, PyBytesOf<'_>> {
        self.files.iter().map(|(name, bytes)| (name.as_str(), PyBytesOf(bytes))).collect()
    }

    #[getter]
    fn title(&self) -> &str {
        &self.scenario.name
    }

    #[getter]
    fn cpus(&self) -> usize {
        self.scenario.host.cpus
    }

    #[getter]
    fn hosts(&self) -> usize {
        self.scenario.hosts
    }

    #[getter]
    fn length_ns(&self) -> u64 {
        self.scenario.length.as_ns()
    }

    #[getter]
    fn warm_up_ns(&self) -> u64 {
        self.scenario.warm_up.as_ns()
    }

    #[getter]
    fn seed(&self) -> Option<u64> {
        self.scenario.seed
    }

    #[getter]
    fn policy(&self) -> Option<&str> {
        self.scenario.policy.as_ref().map(|chosen| chosen.name.as_str())
    }

    #[getter]
    fn names(&self) -> Vec<&str> {
        let entities = self.scenario.entities.iter().map(|entity| entity.name.as_str());
        entities.chain(self.scenario.applications.iter().map(|application| application.name.as_str())).collect()
    }
}

/// Converts a dict to TOML.
fn toml_of(values: &Bound<'_, PyAny>) -> PyResult<String> {
    let py = values.py();
    let json = py.import("json")?.call_method1("dumps", (values,)).map_err(|why| {
        wrong(py, format!("the values are not a scenario: {why}"), "use texts, numbers, booleans, lists and dicts")
    })?;
    let json: String = json.extract()?;
    let table: Result<toml::Table, _> = serde_json::from_str(&json);
    let table = table.map_err(|why| {
        wrong(py, format!("the values are not a scenario: {why}"), "use texts, numbers, booleans, lists and dicts")
    })?;
    Ok(toml::to_string(&table).expect("a table is TOML"))
}

/// Bytes that become `bytes` in Python.
struct PyBytesOf<'b>(&'b [u8]);

impl<'py> IntoPyObject<'py> for PyBytesOf<'_> {
    type Target = PyBytes;
    type Output = Bound<'py, PyBytes>;
    type Error = std::convert::Infallible;

    fn into_pyobject(self, py: Python<'py>) -> Result<Bound<'py, PyBytes>, Self::Error> {
        Ok(PyBytes::new(py, self.0))
    }
}
