//! [`Finished`]: a finished run, which is repeated for pictures, distributions and trace files.

use crate::failure::{input_error, internal_error, without_panic};
use crate::made::Failure;
use crate::watch::{Watch, failure_of};
use ::run::{Progress, Run};
use input::problem::Problems;
use pyo3::prelude::*;

/// A finished run.
pub(crate) struct Finished {
    pub(crate) run: Run,
    /// Place for a failure of the run's policy in Python. `None`: the policy is registered.
    pub(crate) failure: Option<Failure>,
    /// Command or expression that repeats the run.
    pub(crate) replay: String,
}

impl Finished {
    /// Repeats the run by a call of `of`, which passes the given function to [`Run::play_while`]. Ctrl-C, or a failure of
    /// a policy in Python, ends the run with its exception.
    pub(crate) fn repeat<T: Send>(
        &self,
        py: Python<'_>,
        of: impl FnOnce(&Run, &mut dyn FnMut(Progress) -> bool) -> Result<T, Problems> + Send,
    ) -> PyResult<T> {
        // A failure of an earlier run must not end this run.
        drop(self.failure.as_ref().and_then(Failure::take));
        let mut watch = Watch::of(None, self.failure.clone());
        let repeated = py.detach(|| without_panic(|| of(&self.run, &mut |progress| watch.goes_on(progress))));
        if let Some(error) = failure_of(py, self.failure.as_ref(), self.run.choice.name(), &self.replay) {
            return Err(error);
        }
        if let Some(raised) = watch.raised {
            return Err(raised);
        }
        match repeated {
            Err(message) => Err(internal_error(py, &message, &self.replay)),
            Ok(Err(why)) => Err(input_error(py, &why)),
            Ok(Ok(value)) => Ok(value),
        }
    }
}
