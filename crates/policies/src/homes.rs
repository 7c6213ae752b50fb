//! Where entities live under policies that never move anybody: Xen's BVT and SEDF.

use sched::{CpuId, CpuSet, Cx, EntityId, Knob, Knobs};

/// How a home is chosen.
pub(crate) const PLACEMENT: Knob =
    Knob::choice("placement", &["spread", "first"], "the CPU with the fewest others, or the first allowed")
        .from("set_affinity in sched_bvt.c and sched_sedf.c: the first; the domain builder spreads domains");

/// How many live on each CPU, and where the next one will.
#[derive(Debug)]
pub(crate) struct Homes {
    residents: Vec<u32>,
    first: bool,
}

impl Homes {
    /// Empty homes on this many CPUs, chosen as the knob [`PLACEMENT`] says.
    pub(crate) fn new(cpus: usize, knobs: &Knobs) -> Homes {
        Homes { residents: vec![0; cpus], first: knobs.word("placement") == "first" }
    }

    /// Gives `e` a home where its affinity allows one, and keeps it there.
    pub(crate) fn settle(&mut self, e: EntityId, cx: &mut Cx<'_>) -> CpuId {
        let allowed = cx.params(e).affinity.and(&cx.topology().all());
        let fewest = allowed.iter().min_by_key(|cpu| (self.residents[cpu.index()], cpu.index()));
        let home = if self.first { allowed.first() } else { fewest };
        let home = home.expect("everybody may run somewhere");
        self.residents[home.index()] += 1;
        cx.confine(e, &CpuSet::one(home));
        home
    }

    /// Somebody lives on `cpu` no longer.
    pub(crate) fn leave(&mut self, cpu: CpuId) {
        self.residents[cpu.index()] -= 1;
    }
}
