//! Errors as exceptions of `tactus_sched.errors`, and panics of runs.

use input::problem::{Problem, Problems};
use miette::{GraphicalReportHandler, GraphicalTheme};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    /// Message and place of the last panic of a run on this thread. `None`: no run is in progress on this thread.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Makes the panics of runs set [`PANIC`] instead of printing a message.
pub(crate) fn keep_panics_quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let is_of_run = PANIC.with_borrow_mut(|panic| match panic {
                Some(message) => {
                    *message = info.to_string();
                    true
                }
                None => false,
            });
            if !is_of_run {
                before(info);
            }
        }));
    });
}

/// Calls `of`, part of a run. Returns the message and the place of a panic as an error.
pub(crate) fn without_panic<T>(of: impl FnOnce() -> T) -> Result<T, String> {
    let outer = PANIC.replace(Some(String::new()));
    let done = catch_unwind(AssertUnwindSafe(of));
    let message = PANIC.replace(outer).unwrap_or_default();
    done.map_err(|_| message)
}

/// Returns the exception `name` of `tactus_sched.errors`, called with `arguments`.
fn exception<'py>(py: Python<'py>, name: &str, arguments: impl pyo3::call::PyCallArgs<'py>) -> PyErr {
    let raised = py.import("tactus_sched.errors").and_then(|errors| errors.getattr(name)?.call1(arguments));
    raised.map_or_else(|broken| broken, PyErr::from_value)
}

/// Returns `problems` with the lines of the file that contain them, underlined.
fn shown(problems: &Problems) -> String {
    let mut text = String::new();
    let handler = GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor());
    let report = problems.report();
    handler.render_report(&mut text, report.as_ref()).map_or_else(|_| problems.to_string(), |()| text)
}

/// Returns an `InputError` with all of `problems`.
pub(crate) fn input_error(py: Python<'_>, problems: &Problems) -> PyErr {
    let one = |problem: &Problem| (problem.place(), problem.to_string(), problem.remedy().to_string());
    let all: Vec<_> = problems.shown().iter().map(one).collect();
    match PyList::new(py, all) {
        Ok(list) => exception(py, "InputError", (list, problems.count(), shown(problems))),
        Err(broken) => broken,
    }
}

/// Returns an `InputError` with one problem without a place in a file.
pub(crate) fn wrong(py: Python<'_>, reason: impl Into<String>, remedy: impl Into<String>) -> PyErr {
    input_error(py, &Problem::new(reason).help(remedy).into())
}

/// Returns the exception for a problem of an experiment.
pub(crate) fn lab_error(py: Python<'_>, problem: &lab::Problem) -> PyErr {
    if problem.is_input() {
        return wrong(py, problem.to_string(), "");
    }
    PyRuntimeError::new_err(problem.to_string())
}

/// Returns an `InternalError` for a panic, with the command that repeats the run.
pub(crate) fn internal_error(py: Python<'_>, message: &str, replay: &str) -> PyErr {
    exception(py, "InternalError", (message, replay))
}

/// Returns a `LawError`: a policy in Python has broken a law. The first line of `message`, the place of the assertion in
/// the machine, is left out.
pub(crate) fn law_error(py: Python<'_>, message: &str, replay: &str) -> PyErr {
    let law = message.split_once('\n').map_or(message, |(_, law)| law);
    exception(py, "LawError", (law, replay))
}

/// Returns a `PolicyError`, caused by the exception `cause` of a policy in Python.
pub(crate) fn policy_error(py: Python<'_>, policy: &str, method: &str, cause: PyErr) -> PyErr {
    let error = exception(py, "PolicyError", (policy, method));
    error.set_cause(py, Some(cause));
    error
}

/// Returns the exception for a run that its observer stopped.
pub(crate) fn stopped(py: Python<'_>, now_ns: u64) -> PyErr {
    exception(py, "Stopped", (now_ns,))
}
