//! Cyclic choices of CPUs: each choice begins after a given CPU, such as the CPU that was chosen last.

use sched::{CpuId, CpuSet};

/// Returns the CPUs of `set` in cyclic order, beginning with the first CPU after `cpu`.
pub(super) fn cycle(cpu: CpuId, set: &CpuSet) -> impl Iterator<Item = CpuId> + '_ {
    let after = set.iter().filter(move |&other| other > cpu);
    after.chain(set.iter().take_while(move |&other| other <= cpu))
}

/// Returns the first CPU of `set` in the cyclic order after `cpu`.
pub(crate) fn next_in(cpu: CpuId, set: &CpuSet) -> Option<CpuId> {
    cycle(cpu, set).next()
}

/// Whether a choice of CPU advances the cursor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Commit {
    Yes,
    No,
}
