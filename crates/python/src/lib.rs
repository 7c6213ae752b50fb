//! The native module of the Python package `tactus_sched`.
//!
//! `scenario` converts Python values to scenarios, `choice` to policies, `run` executes runs without the GIL, and
//! `result` returns their results. The classes and functions that users see are described in
//! `tactus_sched/_native.pyi`.

mod choice;
mod cx;
mod experiments;
mod failure;
mod files;
mod jobs;
mod listing;
mod made;
mod repeat;
mod replay;
mod result;
mod run;
mod samples;
mod scenario;
mod switches;
mod table;
mod watch;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::choice::check;
    #[pymodule_export]
    use crate::cx::Context;
    #[pymodule_export]
    use crate::experiments::{LabCell, LabSuite, PyStore};
    #[pymodule_export]
    use crate::listing::policies;
    #[pymodule_export]
    use crate::result::{RunResult, comparison_json, comparison_svg, comparison_table, distribution_svg};
    #[pymodule_export]
    use crate::run::{panic, run};
    #[pymodule_export]
    use crate::scenario::PyScenario;

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::failure::keep_panics_quiet();
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("FINGERPRINT", lab::store::SOURCES)
    }
}
