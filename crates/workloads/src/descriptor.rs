//! [`WorkloadDescriptor`]: what a workload registers. The keys of a scenario, the manual's tests and the reader are derived from it.

use crate::Settings;
use crate::application::Selected;

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
