//! [`Seats`]: a CPU for each of those who must start together.

use sched::{CpuId, CpuSet, Cx, EntityId};

/// See the module's text.
#[derive(Debug)]
pub(super) struct Seats {
    /// By CPU: who is to have it.
    owners: Vec<Option<EntityId>>,
}

impl Seats {
    pub(super) fn new(cpus: usize) -> Seats {
        Seats { owners: vec![None; cpus] }
    }

    /// Gives as many of `who` as possible one of the CPUs `among`, those who come first before others. Says how many have one.
    pub(super) fn assign(&mut self, who: &[EntityId], among: &CpuSet, cx: &Cx<'_>) -> usize {
        self.owners.fill(None);
        let mut seated = 0;
        for &e in who {
            // As many as there are CPUs, more cannot be.
            if seated == self.owners.len() {
                break;
            }
            let mut untried = *among;
            seated += usize::from(self.seat(e, &mut untried, cx));
        }
        seated
    }

    /// Gives `e` a CPU, if need be another's who can have a different one (augmenting paths).
    fn seat(&mut self, e: EntityId, untried: &mut CpuSet, cx: &Cx<'_>) -> bool {
        let last = cx.last_cpu(e);
        let candidates = *untried;
        for cpu in [last].into_iter().chain(candidates.iter()) {
            if !untried.contains(cpu) || !cx.may_run(e, cpu) {
                continue;
            }
            untried.remove(cpu);
            let owner = self.owners[cpu.index()];
            if owner.is_none_or(|owner| self.seat(owner, untried, cx)) {
                self.owners[cpu.index()] = Some(e);
                return true;
            }
        }
        false
    }

    /// Who has been given `cpu`.
    pub(super) fn owner(&self, cpu: CpuId) -> Option<EntityId> {
        self.owners[cpu.index()]
    }
}
