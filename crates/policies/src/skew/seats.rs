//! [`Seats`]: the assignment of CPUs to the vCPUs that must start together.

use sched::{CpuId, CpuSet, Cx, EntityId};

/// The assignment of CPUs; see the module documentation.
#[derive(Debug)]
pub(super) struct Seats {
    /// vCPU to which each CPU is assigned.
    owners: Vec<Option<EntityId>>,
}

impl Seats {
    pub(super) fn new(cpus: usize) -> Seats {
        Seats { owners: vec![None; cpus] }
    }

    /// Assigns CPUs of `among` to the maximum possible number of `vcpus`, one CPU each. Earlier vCPUs in `vcpus` take
    /// precedence, and `idle` CPUs are preferred. Returns the number of vCPUs with a CPU.
    pub(super) fn assign(&mut self, vcpus: &[EntityId], among: &CpuSet, idle: &CpuSet, cx: &Cx<'_>) -> usize {
        self.owners.fill(None);
        let mut seated = 0;
        for &e in vcpus {
            // The number of assignments cannot exceed the number of CPUs.
            if seated == self.owners.len() {
                break;
            }
            let mut untried = *among;
            seated += usize::from(self.seat(e, &mut untried, idle, cx));
        }
        seated
    }

    /// Assigns a CPU to `e`: a free CPU, or the CPU of another vCPU that can receive a different CPU (augmenting
    /// paths).
    fn seat(&mut self, e: EntityId, untried: &mut CpuSet, idle: &CpuSet, cx: &Cx<'_>) -> bool {
        let (last, candidates) = ([cx.last_cpu(e)], *untried);
        let at_home = || last.into_iter().filter(|&cpu| idle.contains(cpu)).chain(idle.iter()).chain(last);
        let takes = |cpu: &CpuId| candidates.contains(*cpu) && cx.may_run(e, *cpu);
        let vacant = |cpu: &CpuId| takes(cpu) && self.owners[cpu.index()].is_none();
        let direct = at_home().chain(candidates.iter()).find(vacant);
        if let Some(cpu) = direct {
            untried.remove(cpu);
            self.owners[cpu.index()] = Some(e);
            return true;
        }
        for cpu in candidates.iter().filter(takes) {
            let Some(owner) = self.owners[cpu.index()].filter(|_| untried.remove(cpu)) else { continue };
            if self.seat(owner, untried, idle, cx) {
                self.owners[cpu.index()] = Some(e);
                return true;
            }
        }
        false
    }

    /// Returns the vCPU to which `cpu` is assigned.
    pub(super) fn owner(&self, cpu: CpuId) -> Option<EntityId> {
        self.owners[cpu.index()]
    }
}
