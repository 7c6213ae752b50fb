//! [`WorkloadDescriptor`]: what a workload registers. The keys of a scenario, the manual's tests and the reader are derived from it.

use crate::Settings;
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

/// Reads the settings of a workload; `None` when one is wrong or missing, which the findings of `settings` then hold.
pub type ReadSettings = fn(settings: &mut Settings<'_, '_, '_, '_>) -> Option<Selected>;

/// What the rest of the system knows of a workload.
#[derive(Clone, Copy, Debug)]
pub struct WorkloadDescriptor {
    /// Its key in a scenario: `fork_join`.
    pub name: &'static str,
    /// What it is, in a few words.
    pub title: &'static str,
    /// The keys of its settings, in the order of the manual.
    pub keys: &'static [&'static str],
    /// The shortest right value of `workload`.
    pub example: &'static str,
    /// Its reader.
    pub read: ReadSettings,
}
