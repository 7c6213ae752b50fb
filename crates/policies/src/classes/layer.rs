//! [`Layer`]: what a class above the last provides beyond a policy.

use sched::{CpuId, Cx, EntityId, Policy};

/// A class above the last.
pub(crate) trait Layer: Policy {
    /// `e`, which is attached and blocked for all the class knows, runs on `cpu` already.
    fn adopt(&mut self, e: EntityId, cpu: CpuId, cx: &mut Cx<'_>);

    /// Notifies that a class above takes `cpu`. Called at each pick of that class.
    fn take(&mut self, cpu: CpuId, cx: &mut Cx<'_>);
}
