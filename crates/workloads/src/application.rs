//! [`ApplicationWorkload`]: a workload whose tasks belong together.

use crate::metrics::Metric;
use crate::network::Plan;
use sched::Params;
use std::fmt;
use std::sync::Arc;

/// A workload that is an application: tasks of one machine that belong together, with its parts on other machines.
pub trait ApplicationWorkload: fmt::Debug + Send + Sync {
    /// The most tasks it ever has at once; `u64::MAX` beyond that.
    fn tasks(&self) -> u64;

    /// The number of steps of all its tasks together, about. Bounds the memory of a scenario.
    fn steps(&self) -> u64 {
        self.tasks().saturating_mul(16)
    }

    /// Its tasks and the objects they share, its parts on other machines, and their links. `params` hold for each task of its own machine.
    fn plan(&self, params: Params) -> Plan;

    /// Its metric; `None`: its jobs are all that is measured.
    fn metric(&self) -> Option<Metric> {
        None
    }
}

/// A workload as the settings of a scenario select it.
#[derive(Clone, Debug)]
pub enum Selected {
    /// A single entity does it, without steps.
    Entity(sim::Workload),
    /// The tasks of an application do it.
    Application(Arc<dyn ApplicationWorkload>),
}
