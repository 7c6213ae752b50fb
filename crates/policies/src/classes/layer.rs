//! [`Layer`]: the functions that a class above the last class has in addition to those of a policy.

use sched::{CpuId, Cx, EntityId, Policy};

/// A class above the last class.
pub(crate) trait Layer: Policy {
    /// Records that `e` already runs on `cpu`. For this class, `e` was attached and blocked until now.
    fn adopt(&mut self, e: EntityId, cpu: CpuId, cx: &mut Cx<'_>);

    /// Records that a class above takes `cpu`. Called whenever that class picks an entity for `cpu`.
    fn take(&mut self, cpu: CpuId, cx: &mut Cx<'_>);
}
