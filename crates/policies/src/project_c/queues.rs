//! The queues of all CPUs: a list per level, a bitmap of the occupied levels, and the data that other CPUs read.

use sched::queue::Lists;
use sched::{CpuId, CpuSet, EntityId, Instant, Topology};

/// A level of a queue. A lower level is more urgent. Level 0 is the stop level. The real-time levels and all levels of
/// BMQ are one higher than in Project C.
pub(crate) type Level = usize;

/// Level of an idle CPU.
pub(crate) const IDLE: Level = Level::MAX;

/// Number of lists for the levels that rotate with time. The deadline plus a constant, modulo this number, selects the
/// list.
const ROTATING: usize = 64;

/// The layout of the levels of a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Number of levels that do not rotate, at most 128.
    pub(crate) fixed: usize,
    /// Binary logarithm of the rotation interval in nanoseconds, if 63 rotating levels follow the fixed levels. At the
    /// end of each interval, the entities of each rotating level move up by one level. Those of the first rotating
    /// level move into the last fixed level.
    pub(crate) turn_shift: Option<u32>,
}

impl Layout {
    /// Returns the number of lists of a queue.
    fn lists(self) -> usize {
        self.fixed + if self.turn_shift.is_some() { ROTATING } else { 0 }
    }
}

#[derive(Clone, Copy, Debug)]
struct Queue {
    fixed: u128,
    /// Occupied rotating lists, one bit per list. The list after the list of `edge` is the most urgent.
    rotating: u64,
    /// Number of rotations so far.
    edge: u64,
    len: usize,
    /// Most urgent occupied level at the last enqueue or dequeue.
    watermark: Level,
}

/// The queues of all CPUs.
#[derive(Debug)]
pub(crate) struct Queues {
    host: Topology,
    layout: Layout,
    lists: Lists,
    queues: Vec<Queue>,
    /// CPUs with an empty queue.
    idle: CpuSet,
    /// CPUs whose whole core has empty queues.
    idle_cores: CpuSet,
    /// CPUs whose queue contains more than one entity.
    pending: CpuSet,
}

impl Queues {
    pub(crate) fn new(host: &Topology, layout: Layout) -> Queues {
        assert!(layout.fixed <= 128, "the fixed levels have one word of bits");
        let empty = Queue { fixed: 0, rotating: 0, edge: 0, len: 0, watermark: IDLE };
        Queues {
            host: *host,
            layout,
            lists: Lists::new(host.cpus * layout.lists()),
            queues: vec![empty; host.cpus],
            idle: host.all(),
            idle_cores: host.all(),
            pending: CpuSet::EMPTY,
        }
    }

    /// Makes room for `e`. Call this function when `e` is attached.
    pub(crate) fn reserve(&mut self, e: EntityId) {
        self.lists.reserve(e);
    }

    pub(crate) fn idle(&self) -> &CpuSet {
        &self.idle
    }

    pub(crate) fn idle_cores(&self) -> &CpuSet {
        &self.idle_cores
    }

    pub(crate) fn pending(&self) -> &CpuSet {
        &self.pending
    }

    pub(crate) fn watermark(&self, cpu: CpuId) -> Level {
        self.queues[cpu.index()].watermark
    }

    pub(crate) fn len(&self, cpu: CpuId) -> usize {
        self.queues[cpu.index()].len
    }

    /// Returns the CPU whose queue contains `e`, if `e` is queued.
    pub(crate) fn queue_of(&self, e: EntityId) -> Option<CpuId> {
        self.lists.list_of(e).map(|list| CpuId::new(list / self.lists_each()))
    }

    /// Returns the level of `e`, which is queued.
    pub(crate) fn level_of(&self, e: EntityId) -> Level {
        let list = self.lists.list_of(e).expect("it is queued");
        let (cpu, slot) = (list / self.lists_each(), list % self.lists_each());
        if slot < self.layout.fixed {
            return slot;
        }
        let behind = (slot - self.layout.fixed + ROTATING - self.edge_slot(cpu)) % ROTATING;
        self.layout.fixed - 1 + behind
    }

    // ---- Order ----

    fn lists_each(&self) -> usize {
        self.layout.lists()
    }

    fn edge_slot(&self, cpu: usize) -> usize {
        usize::try_from(self.queues[cpu].edge % ROTATING as u64).expect("it is below 64")
    }

    /// Returns the list that holds `level` of `cpu`.
    fn list(&self, cpu: usize, level: Level) -> usize {
        let slot = match level.checked_sub(self.layout.fixed) {
            None => level,
            Some(ahead) => self.layout.fixed + (self.edge_slot(cpu) + 1 + ahead) % ROTATING,
        };
        cpu * self.lists_each() + slot
    }

    /// Returns the most urgent occupied level of `cpu` that is not more urgent than `from`.
    fn best_from(&self, cpu: usize, from: Level) -> Option<Level> {
        let queue = &self.queues[cpu];
        let beyond = |from: usize, word: u128| (from < 128).then(|| word >> from << from).filter(|&rest| rest != 0);
        if let Some(rest) = beyond(from, queue.fixed) {
            return Some(rest.trailing_zeros() as usize);
        }
        // Bit 0 is the list of the edge, which is always empty. Bit n is the list n levels behind the last fixed level.
        let turned = queue.rotating.rotate_right(u32::try_from(self.edge_slot(cpu)).expect("it is below 64"));
        let rest = beyond(from.saturating_sub(self.layout.fixed - 1), u128::from(turned))?;
        Some(self.layout.fixed - 1 + rest.trailing_zeros() as usize)
    }

    /// Returns the first entity at the most urgent occupied level of `cpu`.
    pub(crate) fn first(&self, cpu: CpuId) -> Option<EntityId> {
        let best = self.best_from(cpu.index(), 0)?;
        self.lists.first(self.list(cpu.index(), best))
    }

    /// Returns the entity after `e`, which is queued, in the order of the queue.
    pub(crate) fn next(&self, e: EntityId) -> Option<EntityId> {
        self.lists.next(e).or_else(|| {
            let cpu = self.queue_of(e).expect("it is queued").index();
            let level = self.best_from(cpu, self.level_of(e) + 1)?;
            self.lists.first(self.list(cpu, level))
        })
    }

    // ---- Change ----

    /// Rotates the levels of `cpu` up to `now`. The entities of passed levels move, in order, to the tail of the last
    /// fixed level.
    pub(crate) fn turn(&mut self, cpu: CpuId, now: Instant) {
        let Some(shift) = self.layout.turn_shift else { return };
        let edge = now.as_ns() >> shift;
        let cpu = cpu.index();
        let turns = edge.saturating_sub(self.queues[cpu].edge).min(ROTATING as u64);
        for _ in 0..turns {
            self.queues[cpu].edge += 1;
            let slot = self.edge_slot(cpu);
            if self.queues[cpu].rotating >> slot & 1 == 0 {
                continue;
            }
            let due = cpu * self.lists_each() + self.layout.fixed - 1;
            let overtaken = cpu * self.lists_each() + self.layout.fixed + slot;
            while let Some(e) = self.lists.pop(overtaken) {
                self.lists.push_back(due, e);
            }
            self.queues[cpu].rotating &= !(1 << slot);
            self.queues[cpu].fixed |= 1 << (self.layout.fixed - 1);
        }
        self.queues[cpu].edge = edge;
    }

    /// Enqueues `e` at the tail of `level` on `cpu`.
    pub(crate) fn enqueue(&mut self, cpu: CpuId, level: Level, e: EntityId) {
        self.push(cpu, level, e);
        let queue = &mut self.queues[cpu.index()];
        queue.len += 1;
        match queue.len {
            1 => self.set_busy(cpu),
            2 => drop(self.pending.insert(cpu)),
            _ => {}
        }
    }

    /// Removes `e` from its queue. Returns the CPU of the queue, if `e` was queued.
    pub(crate) fn dequeue(&mut self, e: EntityId) -> Option<CpuId> {
        let cpu = self.pull(e)?;
        let queue = &mut self.queues[cpu.index()];
        queue.len -= 1;
        match queue.len {
            0 => self.set_idle(cpu),
            1 => drop(self.pending.remove(cpu)),
            _ => {}
        }
        Some(cpu)
    }

    /// Moves `e`, which is queued, to the tail of `level` in the same queue.
    pub(crate) fn requeue(&mut self, level: Level, e: EntityId) {
        let cpu = self.pull(e).expect("it is queued");
        self.push(cpu, level, e);
    }

    fn push(&mut self, cpu: CpuId, level: Level, e: EntityId) {
        let list = self.list(cpu.index(), level);
        self.lists.push_back(list, e);
        let slot = list % self.lists_each();
        match slot.checked_sub(self.layout.fixed) {
            None => self.queues[cpu.index()].fixed |= 1 << slot,
            Some(slot) => self.queues[cpu.index()].rotating |= 1 << slot,
        }
        self.note(cpu);
    }

    fn pull(&mut self, e: EntityId) -> Option<CpuId> {
        let list = self.lists.list_of(e)?;
        let (cpu, slot) = (list / self.lists_each(), list % self.lists_each());
        self.lists.remove(e);
        if self.lists.is_empty(list) {
            match slot.checked_sub(self.layout.fixed) {
                None => self.queues[cpu].fixed &= !(1 << slot),
                Some(slot) => self.queues[cpu].rotating &= !(1 << slot),
            }
        }
        self.note(CpuId::new(cpu));
        Some(CpuId::new(cpu))
    }

    fn note(&mut self, cpu: CpuId) {
        self.queues[cpu.index()].watermark = self.best_from(cpu.index(), 0).unwrap_or(IDLE);
    }

    // ---- Idle CPUs ----

    /// Returns the CPUs of the core of `cpu`.
    pub(crate) fn core(&self, cpu: CpuId) -> impl Iterator<Item = CpuId> + use<> {
        let first = cpu.index() / self.host.smt * self.host.smt;
        (first..(first + self.host.smt).min(self.host.cpus)).map(CpuId::new)
    }

    fn set_busy(&mut self, cpu: CpuId) {
        self.idle.remove(cpu);
        for sibling in self.core(cpu) {
            self.idle_cores.remove(sibling);
        }
    }

    fn set_idle(&mut self, cpu: CpuId) {
        self.idle.insert(cpu);
        if self.core(cpu).all(|sibling| self.idle.contains(sibling)) {
            for sibling in self.core(cpu) {
                self.idle_cores.insert(sibling);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Dice;

    const SHIFT: u32 = 22;
    const DUE: Level = 3;

    /// The levels as in Project C, where all 64 lists move. Overdue tasks move to the front of the new first list.
    struct Model {
        levels: Vec<Vec<EntityId>>,
        edge: u64,
    }

    impl Model {
        fn turn(&mut self, now: Instant) {
            let edge = now.as_ns() >> SHIFT;
            let overtaken = usize::try_from((edge - self.edge).min(64)).unwrap();
            let mut due: Vec<_> = self.levels.drain(DUE..DUE + overtaken).flatten().collect();
            self.levels.resize(DUE + 64, Vec::new());
            due.append(&mut self.levels[DUE]);
            self.levels[DUE] = due;
            self.edge = edge;
        }
    }

    fn order(queues: &Queues, cpu: CpuId) -> Vec<EntityId> {
        core::iter::successors(queues.first(cpu), |&e| queues.next(e)).collect()
    }

    #[test]
    fn levels_that_turn_agree_with_lists_that_are_moved_through_a_long_mixed_run() {
        let cpu = CpuId::new(1);
        let layout = Layout { fixed: DUE + 1, turn_shift: Some(SHIFT) };
        let mut queues = Queues::new(&Topology::new(2), layout);
        let mut model = Model { levels: vec![Vec::new(); DUE + 64], edge: 0 };
        let entities: Vec<_> = (0..100).map(|n| EntityId::new(n, 0)).collect();
        entities.iter().for_each(|&e| queues.reserve(e));
        let (mut dice, mut now) = (Dice(12345), Instant::ZERO);
        let mut dice = |below: u64| dice.below(below);
        for _ in 0..20_000 {
            // Most steps are shorter than two slots; some exceed all 64 slots.
            let slots = if dice(50) == 0 { dice(100) } else { dice(2) };
            now += sched::Nanos::ns((slots << SHIFT) + dice(1 << SHIFT));
            queues.turn(cpu, now);
            model.turn(now);
            let e = entities[usize::try_from(dice(100)).unwrap()];
            if let Some(level) = model.levels.iter().position(|list| list.contains(&e)) {
                assert_eq!(queues.level_of(e), level);
                model.levels[level].retain(|&other| other != e);
                assert_eq!(queues.dequeue(e), Some(cpu));
            } else {
                let level = usize::try_from(dice(DUE as u64 + 64)).unwrap();
                model.levels[level].push(e);
                queues.enqueue(cpu, level, e);
            }
            assert!(order(&queues, cpu).iter().eq(model.levels.iter().flatten()));
            assert_eq!(queues.len(cpu), model.levels.iter().flatten().count());
            let best = model.levels.iter().position(|list| !list.is_empty());
            assert_eq!(queues.watermark(cpu), best.unwrap_or(IDLE));
        }
    }

    #[test]
    fn a_core_idles_when_all_its_threads_do_and_a_second_entity_is_pending() {
        let mut queues = Queues::new(&Topology { cpus: 4, smt: 2, llc: 4 }, Layout { fixed: 128, turn_shift: None });
        let entities = [0, 1, 2].map(|n| EntityId::new(n, 0));
        entities.iter().for_each(|&e| queues.reserve(e));
        let set = |cpus: &[usize]| cpus.iter().map(|&cpu| CpuId::new(cpu)).collect::<CpuSet>();
        queues.enqueue(CpuId::new(2), 127, entities[0]);
        assert_eq!((*queues.idle(), *queues.idle_cores()), (set(&[0, 1, 3]), set(&[0, 1])));
        queues.enqueue(CpuId::new(2), 5, entities[1]);
        queues.enqueue(CpuId::new(3), 5, entities[2]);
        assert_eq!((*queues.pending(), queues.watermark(CpuId::new(2))), (set(&[2]), 5));
        assert_eq!(entities[1..].iter().filter(|&&e| queues.dequeue(e).is_some()).count(), 2);
        assert_eq!((*queues.pending(), *queues.idle_cores()), (set(&[]), set(&[0, 1])));
        queues.dequeue(entities[0]);
        assert_eq!((*queues.idle(), *queues.idle_cores()), (set(&[0, 1, 2, 3]), set(&[0, 1, 2, 3])));
    }
}
