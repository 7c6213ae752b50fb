//! The home CPU of each entity under policies without migration: Xen's BVT and SEDF.

use sched::{CpuId, CpuSet, Cx, EntityId, Knob, Knobs};

/// The rule for the home CPU of an entity.
pub(crate) const PLACEMENT: Knob = Knob::choice(
    "placement",
    &["spread", "first"],
    "the CPU with the fewest other entities (spread), or the first allowed CPU",
)
.from("set_affinity in sched_bvt.c and sched_sedf.c: the first; the domain builder spreads domains");

/// The number of entities on each CPU, and the rule for the next home.
#[derive(Debug)]
pub(crate) struct Homes {
    residents: Vec<u32>,
    first: bool,
}

impl Homes {
    /// Creates empty counts for `cpus` CPUs. The knob [`PLACEMENT`] selects the rule for homes.
    pub(crate) fn new(cpus: usize, knobs: &Knobs) -> Homes {
        Homes { residents: vec![0; cpus], first: knobs.word("placement") == "first" }
    }

    /// Assigns `e` a home CPU within its affinity, and confines `e` to this CPU. Returns the home.
    pub(crate) fn settle(&mut self, e: EntityId, cx: &mut Cx<'_>) -> CpuId {
        let allowed = cx.params(e).affinity.and(&cx.topology().all());
        let fewest = allowed.iter().min_by_key(|cpu| (self.residents[cpu.index()], cpu.index()));
        let home = if self.first { allowed.first() } else { fewest };
        let home = home.expect("an affinity contains a CPU");
        self.residents[home.index()] += 1;
        cx.confine(e, &CpuSet::one(home));
        home
    }

    /// Records that an entity leaves `cpu`.
    pub(crate) fn leave(&mut self, cpu: CpuId) {
        self.residents[cpu.index()] -= 1;
    }
}
