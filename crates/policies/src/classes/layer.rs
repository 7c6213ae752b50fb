//! [`Layer`]: the functions of a class above the last, in addition to those of a policy.

use sched::{CpuId, Cx, EntityId, Policy};

/// A class above the last.
pub(crate) trait Layer: Policy {
    /// Records that `e`, which is attached and blocked as far as the class knows, already runs on `cpu`.
    fn adopt(&mut self, e: EntityId, cpu: CpuId, cx: &mut Cx<'_>);

    /// Records that a class above takes `cpu`. Called at each pick of that class.
    fn take(&mut self, cpu: CpuId, cx: &mut Cx<'_>);
}
