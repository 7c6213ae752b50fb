//! [`Gangs`]: the vCPUs that are co-scheduled, their subgroups, and the CPU of each vCPU.
//!
//! A VM is a group with members. A mark on a group makes every VM at or below the group a real-time VM. The VMs at or
//! below one mark can be co-scheduled together.

use sched::{CpuId, CpuSet, Cx, EntityId, GroupId, Instant};

/// The VMs that are co-scheduled with each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unit {
    /// Each VM that is marked or below a mark, separately.
    Vm,
    /// All VMs at or below one mark.
    Group,
    /// Each VM, marked or not, separately.
    AnyVm,
}

/// The algorithm that packs VMs into subgroups with no more vCPUs than there are CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Packing {
    /// VMs in descending order of size, each into the first subgroup with room.
    FirstFitDecreasing,
    /// VMs in order of creation, each into the first subgroup with room.
    FirstFit,
    /// VMs in order of creation, each into the last subgroup if it has room, or into a new subgroup.
    NextFit,
}

/// Entities that are co-scheduled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gang {
    /// Members of the gang, by subgroup and then by VM.
    pub(crate) members: Vec<EntityId>,
    /// Start of each subgroup in `members`.
    starts: Vec<usize>,
    /// Instant at which the members of the gang were last called.
    pub(crate) called: Option<Instant>,
}

impl Gang {
    /// Returns the number of subgroups.
    pub(crate) fn subgroups(&self) -> usize {
        self.starts.len()
    }

    /// Returns the number of the subgroup of `e`, and the start of that subgroup.
    pub(crate) fn subgroup_of(&self, e: EntityId) -> (usize, usize) {
        let at = self.members.iter().position(|&other| other == e).unwrap_or(0);
        let number = self.starts.partition_point(|&start| start <= at).saturating_sub(1);
        (number, self.starts.get(number).copied().unwrap_or(0))
    }
}

/// The gangs; see the module documentation.
#[derive(Debug)]
pub(crate) struct Gangs {
    unit: Unit,
    packing: Packing,
    /// For each group, the gang of its members. A gang is named by a group: the group of its VM, or the topmost marked
    /// group.
    heads: Vec<Option<GroupId>>,
    /// All groups except the root, in ascending order of index.
    groups: Vec<GroupId>,
    /// Gangs, indexed by the group that names each gang.
    gangs: Vec<Gang>,
    /// Gang and own CPU of each entity, by index.
    places: Vec<(Option<GroupId>, Option<CpuId>)>,
    /// Number of entities in gangs.
    members: usize,
    /// Number of entities that have each CPU as their own CPU.
    kept: Vec<usize>,
}

impl Gangs {
    pub(crate) fn new(unit: Unit, packing: Packing, cpus: usize) -> Gangs {
        let (heads, groups, gangs, places) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Gangs { unit, packing, heads, groups, gangs, places, members: 0, kept: vec![0; cpus] }
    }

    /// Makes room for `e`, which is in no gang yet.
    pub(crate) fn reserve(&mut self, e: EntityId) {
        if self.places.len() <= e.index() {
            self.places.resize(e.index() + 1, (None, None));
        }
        self.places[e.index()] = (None, None);
    }

    /// Returns the name of the gang of `e`.
    pub(crate) fn head_of(&self, e: EntityId) -> Option<GroupId> {
        self.places[e.index()].0
    }

    /// Returns the own CPU of `e`, if `e` has one.
    pub(crate) fn place_of(&self, e: EntityId) -> Option<CpuId> {
        self.places[e.index()].1
    }

    /// Returns the gang of `e` with its members.
    pub(crate) fn gang_of(&self, e: EntityId) -> Option<&Gang> {
        self.head_of(e).map(|head| &self.gangs[head.index()])
    }

    /// Returns the gang named after `head`.
    pub(crate) fn gang(&mut self, head: GroupId) -> &mut Gang {
        &mut self.gangs[head.index()]
    }

    /// Returns the number of entities in gangs.
    pub(crate) fn members(&self) -> usize {
        self.members
    }

    /// Exchanges the CPUs of two siblings.
    pub(crate) fn exchange(&mut self, a: EntityId, b: EntityId) {
        let place = self.places[a.index()].1;
        self.places[a.index()].1 = core::mem::replace(&mut self.places[b.index()].1, place);
    }

    /// Adds a group.
    pub(crate) fn add_group(&mut self, g: GroupId, cx: &Cx<'_>) {
        if self.heads.len() <= g.index() {
            self.heads.resize(g.index() + 1, None);
            self.gangs.resize(g.index() + 1, Gang::default());
        }
        let at = self.groups.partition_point(|other| other.index() < g.index());
        self.groups.insert(at, g);
        self.gangs[g.index()] = Gang::default();
        self.heads[g.index()] = self.head(g, cx);
    }

    /// Removes a group without members.
    pub(crate) fn remove_group(&mut self, g: GroupId) {
        self.groups.retain(|&other| other != g);
        self.heads[g.index()] = None;
    }

    /// Returns the name of the gang to which the members of `g` belong under the current marks.
    fn head(&self, g: GroupId, cx: &Cx<'_>) -> Option<GroupId> {
        if g == GroupId::ROOT {
            return None;
        }
        let mut marked = None;
        let mut above = Some(g);
        while let Some(group) = above {
            if cx.group_params(group).gang {
                marked = Some(group);
            }
            above = cx.parent(group);
        }
        match self.unit {
            Unit::AnyVm => Some(g),
            Unit::Vm => marked.and(Some(g)),
            Unit::Group => marked,
        }
    }

    /// Returns the name of the gang that contains the members of `g`.
    pub(crate) fn head_of_group(&self, g: GroupId) -> Option<GroupId> {
        self.heads.get(g.index()).copied().flatten()
    }

    /// Recomputes the gangs after a mark was set or removed. Returns the gangs to arrange again, and the entities that
    /// left a gang.
    pub(crate) fn find_heads(&mut self, cx: &Cx<'_>) -> (Vec<GroupId>, Vec<EntityId>) {
        let (mut touched, mut left) = (Vec::new(), Vec::new());
        for n in 0..self.groups.len() {
            let g = self.groups[n];
            let head = self.head(g, cx);
            let old = core::mem::replace(&mut self.heads[g.index()], head);
            if old != head {
                touched.extend(old.into_iter().chain(head));
                left.extend(cx.members(g).filter(|_| old.is_some()));
            }
        }
        left.iter().for_each(|&e| self.leave(e));
        touched.sort_unstable();
        touched.dedup();
        (touched, left)
    }

    /// Removes `e` from its gang.
    pub(crate) fn leave(&mut self, e: EntityId) {
        let (head, place) = core::mem::take(&mut self.places[e.index()]);
        self.members -= usize::from(head.is_some());
        if let Some(cpu) = place {
            self.kept[cpu.index()] -= 1;
        }
    }

    /// Packs the gang of `head` again, without the entity `without`. Every member receives a CPU that no other member
    /// of its subgroup has, if its affinity permits. Among these CPUs, the CPU that is the own CPU of the fewest
    /// entities is chosen.
    pub(crate) fn arrange(&mut self, head: GroupId, without: Option<EntityId>, cx: &Cx<'_>) {
        for e in core::mem::take(&mut self.gangs[head.index()].members) {
            if self.head_of(e) == Some(head) {
                self.leave(e);
            }
        }
        let mut vms: Vec<Vec<EntityId>> = Vec::new();
        for &g in self.groups.iter().filter(|g| self.heads[g.index()] == Some(head)) {
            let mut vm: Vec<EntityId> = cx.members(g).filter(|&e| Some(e) != without).collect();
            vm.sort_unstable_by_key(|e| e.index());
            vms.extend(vm.chunks(cx.topology().cpus).map(<[EntityId]>::to_vec));
        }
        let subgroups = pack(vms, cx.topology().cpus, self.packing);
        for subgroup in &subgroups {
            let mut free = cx.topology().all();
            for &e in subgroup {
                let allowed = cx.params(e).affinity.and(&free);
                let place = allowed.iter().min_by_key(|cpu| self.kept[cpu.index()]);
                if let Some(cpu) = place {
                    free.remove(cpu);
                    self.kept[cpu.index()] += 1;
                }
                self.places[e.index()] = (Some(head), place);
                self.members += 1;
            }
        }
        let gang = &mut self.gangs[head.index()];
        let starts = subgroups.iter().scan(0, |end, subgroup| Some(core::mem::replace(end, *end + subgroup.len())));
        gang.starts = starts.collect();
        gang.members = subgroups.concat();
    }

    /// Returns the CPUs on which `e` may run while its gang is spread over CPUs.
    pub(crate) fn confines(&self, e: EntityId) -> CpuSet {
        self.place_of(e).map_or(CpuSet::ALL, CpuSet::one)
    }
}

/// Packs VMs of at most `room` vCPUs into subgroups of at most `room` vCPUs.
fn pack(mut vms: Vec<Vec<EntityId>>, room: usize, packing: Packing) -> Vec<Vec<EntityId>> {
    if packing == Packing::FirstFitDecreasing {
        vms.sort_by_key(|vm| core::cmp::Reverse(vm.len()));
    }
    let mut subgroups: Vec<Vec<EntityId>> = Vec::new();
    for vm in vms {
        let fits = |subgroup: &Vec<EntityId>| subgroup.len() + vm.len() <= room;
        let at = match packing {
            Packing::NextFit => subgroups.iter().rposition(fits).filter(|&at| at + 1 == subgroups.len()),
            Packing::FirstFit | Packing::FirstFitDecreasing => subgroups.iter().position(fits),
        };
        match at {
            Some(at) => subgroups[at].extend(vm),
            None => subgroups.push(vm),
        }
    }
    subgroups
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the sizes of the subgroups on four CPUs, for VMs of these sizes.
    fn packed(sizes: &[usize], packing: Packing) -> Vec<usize> {
        let mut entities = (0..).map(|n| EntityId::new(n, 0));
        let vms = sizes.iter().map(|&size| entities.by_ref().take(size).collect()).collect();
        pack(vms, 4, packing).iter().map(Vec::len).collect()
    }

    #[test]
    fn vms_are_packed_whole() {
        let sizes = [1, 3, 2, 2, 4, 1, 3];
        assert_eq!(packed(&sizes, Packing::FirstFitDecreasing), [4, 4, 4, 4]);
        assert_eq!(packed(&sizes, Packing::FirstFit), [4, 4, 4, 4]);
        assert_eq!(packed(&sizes, Packing::NextFit), [4, 4, 4, 4]);
        let sizes = [1, 2, 3, 2];
        assert_eq!(packed(&sizes, Packing::FirstFitDecreasing), [4, 4]);
        assert_eq!(packed(&sizes, Packing::FirstFit), [3, 3, 2]);
        assert_eq!(packed(&[1, 2, 3, 1], Packing::FirstFit), [4, 3]);
        assert_eq!(packed(&[1, 2, 3, 1], Packing::NextFit), [3, 4]);
    }
}
