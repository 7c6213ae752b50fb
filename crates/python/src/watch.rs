//! [`Watch`]: calls the progress function of a run, and ends the run at Ctrl-C or a failure of a policy in Python.

#![expect(clippy::disallowed_methods, reason = "the module calls Python every 40 ms")]

use crate::failure::{law_error, policy_error};
use crate::made::{Failed, Failure};
use ::run::Progress;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use std::time::{Duration, Instant};

/// Time between two calls of the progress function, and between two checks for Ctrl-C.
const WATCHED_EVERY: Duration = Duration::from_millis(40);

/// Observer of a run: the caller's progress function, Ctrl-C and the failure of a policy in Python.
pub(crate) struct Watch {
    progress: Option<Py<PyAny>>,
    failure: Option<Failure>,
    last: Instant,
    /// Exception that ended the run.
    pub(crate) raised: Option<PyErr>,
    /// Simulated time at which the progress function stopped the run. Unit: nanoseconds.
    pub(crate) stopped_ns: Option<u64>,
}

impl Watch {
    /// Creates the observer of a run that begins now.
    pub(crate) fn of(progress: Option<Py<PyAny>>, failure: Option<Failure>) -> Watch {
        Watch { progress, failure, last: Instant::now(), raised: None, stopped_ns: None }
    }

    /// Returns whether the run goes on.
    pub(crate) fn goes_on(&mut self, progress: Progress) -> bool {
        if self.failure.as_ref().is_some_and(Failure::is_set) {
            return false;
        }
        if self.last.elapsed() < WATCHED_EVERY {
            return true;
        }
        self.last = Instant::now();
        match Python::attach(|py| self.call(py, progress)) {
            Ok(goes_on) => goes_on,
            Err(raised) => {
                self.raised = Some(raised);
                false
            }
        }
    }

    fn call(&mut self, py: Python<'_>, progress: Progress) -> PyResult<bool> {
        py.check_signals()?;
        let Some(function) = &self.progress else { return Ok(true) };
        let (now, end) = (progress.now.as_ns(), progress.end.as_ns());
        let answer = function.bind(py).call1((now, end))?;
        let goes_on = answer.is_none() || answer.is_truthy()?;
        if !goes_on {
            self.stopped_ns = Some(now);
        }
        Ok(goes_on)
    }
}

/// Returns the exception for a failure of a policy in Python, if there is one. Exceptions such as `KeyboardInterrupt`,
/// which end a program, are returned as they are.
pub(crate) fn failure_of(py: Python<'_>, failure: Option<&Failure>, policy: &str, replay: &str) -> Option<PyErr> {
    Some(match failure.and_then(Failure::take)? {
        Failed::Raised { error, .. } if !error.is_instance_of::<PyException>(py) => error,
        Failed::Raised { method, error } => policy_error(py, policy, method, error),
        Failed::BrokeLaw(message) => law_error(py, &message, replay),
    })
}
