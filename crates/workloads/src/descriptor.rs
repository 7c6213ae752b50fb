//! [`WorkloadDescriptor`]: the registration of a workload. The descriptor has the keys that a scenario accepts and the
//! function that reads their values. Tests compare the manual with the keys.

use crate::Settings;
use crate::application::Selected;

/// Reads the settings of a workload. `None`: a setting is wrong or missing, and `settings` has recorded the problem.
pub type ReadSettings = fn(settings: &mut Settings<'_, '_, '_, '_>) -> Option<Selected>;

/// The registered properties of a workload.
#[derive(Clone, Copy, Debug)]
pub struct WorkloadDescriptor {
    /// Key of the workload in a scenario: `fork_join`.
    pub name: &'static str,
    /// Title of the workload, in a few words.
    pub title: &'static str,
    /// Keys of the workload's settings, in the order of the manual.
    pub keys: &'static [&'static str],
    /// A short valid value of `workload`, for error messages.
    pub example: &'static str,
    /// Reader of the workload's settings.
    pub read: ReadSettings,
}
