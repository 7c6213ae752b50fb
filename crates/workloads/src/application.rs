//! [`ApplicationWorkload`]: a workload whose tasks form an application.

use crate::metrics::Metric;
use crate::network::Plan;
use sched::Params;
use std::fmt;
use std::sync::Arc;

/// A workload that is an application: related tasks on one machine, and optional parts on other machines.
pub trait ApplicationWorkload: fmt::Debug + Send + Sync {
    /// Returns the maximum number of concurrent tasks. Returns `u64::MAX` if the number exceeds the range of `u64`.
    fn tasks(&self) -> u64;

    /// Returns the approximate number of steps of all tasks together. The limit on this number bounds the memory use of
    /// a scenario.
    fn steps(&self) -> u64 {
        self.tasks().saturating_mul(16)
    }

    /// Returns the tasks and their shared objects, the parts on other machines, and the links. `params` apply to every
    /// task on the application's own machine, except to tasks that model threads of the kernel.
    fn plan(&self, params: Params) -> Plan;

    /// Returns the metric. `None`: only the jobs of the application are measured.
    fn metric(&self) -> Option<Metric> {
        None
    }
}

/// A workload that the settings of a scenario select.
#[derive(Clone, Debug)]
pub enum Selected {
    /// A single entity, without steps.
    Entity(sim::Workload),
    /// The tasks of an application.
    Application(Arc<dyn ApplicationWorkload>),
}
