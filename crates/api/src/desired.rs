//! [`Desired`]: what a client wants for a VM.

use crate::whole_number;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Maximum weight.
pub const WEIGHT_MOST: u32 = 10_000;
/// Maximum cap: 1,024 CPUs. Unit: percent of a CPU.
pub const CAP_MOST: u32 = 102_400;

/// The desired state of a VM. The service keeps it until a client changes it, beyond the end of the VM, of the service and
/// of the host. The desired state of a process that is no VM ends with the process.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Desired {
    /// CPU time in every period. Absent: none is promised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promise: Option<Promise>,
    /// Weight relative to other control groups. An ordinary group has 100. Absent: the weight does not change.
    #[schema(minimum = 1, maximum = 10_000)]
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "whole_number::optional")]
    pub weight: Option<u32>,
    /// Maximum CPU time. Unit: percent of a CPU. Absent: no maximum.
    #[schema(minimum = 1, maximum = 102_400)]
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "whole_number::optional")]
    pub cap_percent: Option<u32>,
    /// Whether nothing of this is in force until the VM is resumed.
    pub paused: bool,
}

impl Desired {
    /// Returns whether nothing is desired.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.promise.is_none() && self.weight.is_none() && self.cap_percent.is_none()
    }
}

/// A promise: CPU time in every period.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Promise {
    /// CPU time in every period, summed over all CPUs of the promise. Unit: ns. At most `cpus` periods.
    #[schema(minimum = 10_000)]
    #[serde(deserialize_with = "whole_number::required")]
    pub slice_ns: u64,
    /// Length of the period. Unit: ns.
    #[schema(minimum = 100_000)]
    #[serde(deserialize_with = "whole_number::required")]
    pub period_ns: u64,
    /// Number of CPUs among which the slice is divided.
    #[schema(minimum = 1, maximum = 256)]
    #[serde(default = "one", deserialize_with = "whole_number::required")]
    pub cpus: u16,
    /// Whether the threads receive their parts of the slice at the same time on all CPUs.
    #[serde(default)]
    pub gang: bool,
    /// What happens when the slice is used up.
    #[serde(default)]
    pub limit: Limit,
    /// What keeps the promise.
    #[serde(default)]
    pub mechanism: Mechanism,
}

fn one() -> u16 {
    1
}

/// What happens to a VM that has used up its slice.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// The VM competes for the remaining time like every other process.
    #[default]
    Soft,
    /// The VM is frozen until its next period.
    Hard,
}

/// What keeps a promise.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mechanism {
    /// The best mechanism that works on the host.
    #[default]
    Auto,
    /// Turns: the threads inherit their priority, and no attribute of theirs changes.
    Inherit,
    /// Turns: the threads are set to `SCHED_FIFO`.
    Fifo,
    /// The kernel, by `SCHED_DEADLINE`: the slice is also the limit.
    Deadline,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_needs_slice_and_period_and_nothing_unknown() {
        let read = |text: &str| serde_json::from_str::<Desired>(text);
        let short = read(r#"{"promise": {"slice_ns": 2000000, "period_ns": 10000000}}"#).unwrap();
        let promise = short.promise.as_ref().unwrap();
        assert_eq!((promise.cpus, promise.limit, promise.mechanism), (1, Limit::Soft, Mechanism::Auto));
        assert!(!short.is_empty() && read("{}").unwrap().is_empty());
        for wrong in [r#"{"promise": {"slice_ns": 1}}"#, r#"{"wieght": 1}"#, r#"{"weight": -1}"#, r#"{"paused": 1}"#] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
